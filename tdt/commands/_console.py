"""Chooses the console of a run: a table with a progress bar on a terminal, otherwise plain lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from tdt.commands._output import is_terminal, moves_cursor
from tdt.commands._plain_console import ColourConsole, TableConsole

if TYPE_CHECKING:
    from tdt.train.logging.console import Console
    from tdt.train.loop.parts import Parts


def console_on(out: TextIO, parts: Parts | None = None) -> Console:
    """A console with a table and a progress bar if `out` is a terminal, otherwise a plain one.

    A terminal whose cursor cannot be moved gets the table alone. What is printed without a bar needs no Rich, and has colours if
    the environment asks for them (FORCE_COLOR, as in the log of a CI service).
    """
    if moves_cursor(out):
        from tdt.commands._bar import BarConsole

        return BarConsole(out, parts)
    return (TableConsole if is_terminal(out) else ColourConsole)(out, parts)
