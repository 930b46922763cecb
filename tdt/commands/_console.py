"""Chooses the console of a run: a progress bar on a terminal, otherwise plain lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from tdt.train.logging.console import Console

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


def console_on(out: TextIO, parts: Parts | None = None) -> Console:
    """A console with a progress bar if `out` is a terminal; otherwise a plain one, without importing Rich."""
    if out.isatty() and os.environ.get("TERM") != "dumb":
        from tdt.commands._bar import BarConsole

        return BarConsole(out, parts)
    return Console(out, parts)
