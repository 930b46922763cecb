"""All printing to standard output and standard error: the commands print only through `print_lines`."""

from __future__ import annotations

import sys
from typing import Any, TextIO


def print_lines(
    *texts: Any, file: TextIO | None = None, end: str = "\n", flush: bool = False, whole: bool = False
) -> None:
    """Print lines that are safe for a terminal: escape control characters, hide values of environment variables, and
    truncate long lines.

    Args:
        file: default standard output.
        whole: whether to keep long lines, as in tables and JSON.

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
    print(
        joined + end, file=sys.stdout if file is None else file, end="", flush=flush
    )  # in one write: ranks share a terminal


def one_line(text: str) -> str:
    """Untrusted text on one line, with escaped line breaks, so that it cannot look like two messages."""
    from tdt.train._printable import printable

    return printable(text)
