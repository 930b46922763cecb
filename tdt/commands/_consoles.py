"""Which console shows a run: a progress bar on a terminal, else plain lines."""

from __future__ import annotations

import os
from typing import TextIO

from tdt.commands._console import Console


def console_on(out: TextIO) -> Console:
    """A console with a bar if `out` is a terminal; else a plain one, without loading what draws bars."""
    if out.isatty() and os.environ.get("TERM") != "dumb":
        from tdt.commands._bar import BarConsole

        return BarConsole(out)
    return Console(out)
