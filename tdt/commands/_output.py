"""The one way to standard output and standard error: nothing is printed past it."""

from __future__ import annotations

import sys
from typing import Any, TextIO


def say(*texts: Any, file: TextIO | None = None, end: str = "\n", flush: bool = False, whole: bool = False) -> None:
    """Print lines, on standard output unless `file` says where else, as a terminal can take them: control characters are
    spelt out, values from the environment hidden, long lines cut. whole: of a document, whose lines keep their length.

    >>> say("loss 0.5", "a\\x1b[2Jb")
    loss 0.5
    a\\x1b[2Jb
    """
    shown = "\n".join(map(str, texts))
    if not (shown.isprintable() and len(shown) < 200 and "tdt.train._printable" not in sys.modules):  # `tdt --version`
        from tdt.train._printable import document, message

        shown = "\n".join((document if whole else message)(str(text)) for text in texts)
    print(shown, file=sys.stdout if file is None else file, end=end, flush=flush)


def one_line(text: str) -> str:
    """Text from outside in one line, its line breaks spelt out, so that it cannot look like two messages."""
    from tdt.train._printable import printable

    return printable(text)
