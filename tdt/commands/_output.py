"""All printing to standard output and standard error: the commands print only through `print_lines`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from tdt._launched import launched

STYLES = {"bold": "1", "dim": "2", "red": "1;31", "green": "32", "yellow": "33", "blue": "34"}


def print_lines(
    *texts: Any,
    file: TextIO | None = None,
    end: str = "\n",
    flush: bool = False,
    whole: bool = False,
    paint: Callable[[str], str] | None = None,
) -> None:
    """Print lines that are safe for a terminal: escape control characters, hide values of environment variables, and
    truncate long lines.

    Args:
        file: default standard output.
        whole: whether to keep long lines, as in tables and JSON.
        paint: gives the escaped lines colours (`styled`), where the output shows them.

    >>> from tdt.commands._output import print_lines
    >>> print_lines("loss 0.5", "a\\x1b[2Jb")
    loss 0.5
    a\\x1b[2Jb
    """
    joined = "\n".join(map(str, texts))
    if not (
        joined.isprintable() and len(joined) < 200 and "tdt.train._printable" not in sys.modules
    ):  # `tdt --version`
        from tdt.train._printable import document, message

        joined = "\n".join((document if whole else message)(str(text)) for text in texts)
    file = sys.stdout if file is None else file
    if paint is not None and shows_colours(file):
        joined = paint(joined)
    print(joined + end, file=file, end="", flush=flush)  # in one write: ranks share a terminal


def is_terminal(file: TextIO) -> bool:
    """Whether what is written there appears on a terminal.

    Open MPI gives each process a terminal of its own, even if mpirun writes what it shows to a file: mpirun's output decides.
    """
    if not file.isatty() or launched() is None:
        return file.isatty()
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:  # not Linux, or another user's
        return False


def moves_cursor(file: TextIO) -> bool:
    """Whether it is a terminal on which lines can be written anew."""
    return is_terminal(file) and os.environ.get("TERM") != "dumb"


def shows_colours(file: TextIO) -> bool:
    """Whether to print colours: on a terminal, unless the environment decides otherwise (no-color.org, force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or moves_cursor(file)


def styled(text: str, style: str) -> str:
    """`text` in one of the STYLES.

    >>> from tdt.commands._output import styled
    >>> styled("loss", "bold")
    '\\x1b[1mloss\\x1b[0m'
    """
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if text else text


def one_line(text: str) -> str:
    """Untrusted text on one line, with escaped line breaks, so that it cannot look like two messages."""
    from tdt.train._printable import printable

    return printable(text)
