"""The lines that error messages are about: of a config, or of the command line, with a mark below the mistake."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tdt.commands._tables import display_width
from tdt.train._printable import printable, redacted
from tdt.train.config.source import COMMAND_LINE

if TYPE_CHECKING:
    from tdt.train.config.errors import ConfigError, Problem

SHOWN = 10  # problems with an excerpt
BEFORE = 12  # characters before the mark that stay, in a line that is cut


def located(error: ConfigError, arguments: Sequence[str]) -> Iterator[str]:
    """Each mistake of a config as a line, followed by the line that it is in, with a mark below it."""
    for number, problem in enumerate(error.problems):
        if problem.override is None:
            found = _in_file(problem) if number < SHOWN else None
            yield "\n".join([str(problem), *(found or ())])
        else:
            found = in_arguments(arguments, *_argument(problem, arguments))
            yield "\n".join([problem.line("command line"), *found] if found else [str(problem)])


def in_arguments(arguments: Sequence[str], place: int | None, column: int = 1, length: int | None = None) -> list[str]:
    """The command line with a mark below `length` characters of the argument at `place`; empty without a place.

    >>> from tdt.commands._excerpts import in_arguments
    >>> print(*in_arguments(["train", "my.yaml", "train.epochs=x"], 2, 14), sep="\\n")
      tdt train my.yaml train.epochs=x
                                     ^
    """
    if place is None:
        return []
    words = [shlex.quote(redacted(argument)) for argument in arguments]
    text = redacted(arguments[place])
    begin, end = column - 1, len(text) if length is None else column - 1 + length
    quoted = words[place] != text
    starts = [len(text[:at].replace("'", "'\"'\"'")) + quoted for at in (begin, end)]
    offset = len("tdt " + "".join(word + " " for word in words[:place]))
    return _marked("  ", " ".join(["tdt", *words]), offset + starts[0], starts[1] - starts[0])


def _argument(problem: Problem, arguments: Sequence[str]) -> tuple[int | None, int, int | None]:
    """The place of the argument that a problem is in, and the column and length of the mistake."""
    text, column = problem.override or "", problem.source.column
    if text in arguments:
        at_key = column == 1 and "=" in text
        return arguments.index(text), column, text.index("=") if at_key else _length(text, column)
    key, _, value = text.partition("=")
    option = key.partition(".")[0]  # `--device cpu` is the setting device=cpu, `--data FILE` data.test=FILE
    for place, argument in enumerate(arguments):
        if argument == f"--{option}" and arguments[place + 1 : place + 2] == [value]:
            return place + 1, 1, None
        if argument == f"--{option}={value}":
            return place, len(option) + 4, None
    return None, 1, None


def _in_file(problem: Problem) -> list[str] | None:
    """The line of a config file with a mark; None if there is no such line."""
    source = problem.source
    path = Path(source.file)
    if not source.line or source.file == COMMAND_LINE or path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    from tdt.train.config.errors import ConfigErrors
    from tdt.train.config.find import read_text

    lines = (read_text(path, ConfigErrors()) or "").split("\n")
    if source.line > len(lines) or not lines[source.line - 1].strip():
        return None
    line = lines[source.line - 1].rstrip("\r")
    return _marked(f"{source.line:>5} | ", line, source.column - 1, _length(line, source.column))


def _length(line: str, column: int) -> int:
    """The number of characters of the word at `column`, or of the quoted text."""
    found = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s:,()\[\]{}='\"]+").match(line, column - 1)
    return len(found[0]) if found else 1


def _marked(before: str, line: str, begin: int, length: int) -> list[str]:
    """A line, cut to the width of the terminal around the mark, and the line with the mark."""
    left, right = printable(line[:begin]), printable(line[begin + length :])
    marked = printable(line[begin : begin + length]) or " "
    room = max(shutil.get_terminal_size().columns - len(before) - 1, 40)
    if len(left) + len(marked) + len(right) > room:
        marked = marked if len(marked) < room - BEFORE - 2 else marked[: room - BEFORE - 3] + "…"
        keep = max(room - len(marked) - len(right) - 1, BEFORE)
        left = left if len(left) <= keep else "…" + left[-keep:]
        rest = room - len(left) - len(marked)
        right = right if len(right) <= rest else right[: max(rest - 1, 0)] + "…"
    gutter = " " * (len(before) - 2) + "| " if "|" in before else before
    mark = gutter + " " * display_width(left) + "^" * display_width(marked)
    return [f"{before}{left}{marked}{right}".rstrip(), mark]
