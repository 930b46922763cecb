"""Positions in a config: file, line and column."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

COMMAND_LINE = "<command line>"


@dataclass(frozen=True, order=True)
class Source:
    """A position in a config: file as the user named it, line and column from 1.

    For an override: `<command line>`, its number and the column in its text. Line 0 is the whole file.
    """

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def path(self, written: str) -> Path:
        """Resolve a path written at this position: relative to the file's folder, or the working folder for overrides."""
        folder = Path.cwd() if self.file == COMMAND_LINE else Path(self.file).parent
        return Path(os.path.abspath(folder / Path(written).expanduser()))
