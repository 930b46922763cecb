"""Chooses the console of a run: a progress bar on a terminal, otherwise plain lines."""

from __future__ import annotations

import os
from typing import TextIO

from tdt.commands._console import Console


def console_on(out: TextIO) -> Console:
    """A console with a progress bar if `out` is a terminal; otherwise a plain one, without importing Rich."""
    if out.isatty() and os.environ.get("TERM") != "dumb":
        from tdt.commands._bar import BarConsole

        return BarConsole(out)
    return Console(out)
