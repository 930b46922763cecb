"""Chooses the console of a run: a progress bar on a terminal, otherwise plain lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from tdt.commands._output import shows_colours, styled
from tdt.train.logging.console import Console

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


def console_on(out: TextIO, parts: Parts | None = None) -> Console:
    """A console with a progress bar if `out` is a terminal; otherwise a plain one, without importing Rich.

    The plain one has colours if the environment asks for them (FORCE_COLOR, as in the log of a CI service).
    """
    if out.isatty() and os.environ.get("TERM") != "dumb":
        from tdt.commands._bar import BarConsole

        return BarConsole(out, parts)
    return ColourConsole(out, parts) if shows_colours(out) else Console(out, parts)


class ColourConsole(Console):
    """Plain lines with colours."""

    def styled(self, text: str, style: str) -> str:
        return styled(text, style) if style else text
