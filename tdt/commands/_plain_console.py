"""The consoles of a run that write line after line: in colour, and as a table."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from tdt.commands._epoch_table import Cell, EpochTable
from tdt.commands._output import shows_colours, styled
from tdt.commands._tables import packed
from tdt.train.logging.console import Console

if TYPE_CHECKING:
    from tdt.train.logging.events import EpochDone, Validated
    from tdt.train.loop.parts import Parts


class ColourConsole(Console):
    """Plain lines, with colours where the output shows them."""

    def styled(self, text: str, style: str) -> str:
        return styled(text, style) if style and shows_colours(self._out) else text


class TableConsole(ColourConsole):
    """Prints the epochs as a table as wide as the terminal."""

    def __init__(self, out: TextIO, parts: Parts | None = None) -> None:
        super().__init__(out, parts)
        self._table = EpochTable(self.monitor)

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return shutil.get_terminal_size().columns

    def row(self, epoch: EpochDone | None, valid: Validated | None) -> None:
        now = time.perf_counter()
        cells = dict(self._cells(epoch, valid))
        cells |= {"took": Cell(f"{self.took(now):.2f} s")} if epoch is not None else {}
        for line in self._table.lines(cells, self.width):
            self.put(*line)

    def _cells(self, epoch: EpochDone | None, valid: Validated | None) -> Iterator[tuple[str, Cell]]:
        at = epoch or valid
        assert at is not None
        yield "epoch", Cell(self.of_all(at.epoch + 1, self._epochs))
        yield "step", Cell(str(at.step), len(str(self._steps or at.step)))
        for tag, value in (epoch.scalars if epoch else {}).items():
            yield f"train/{tag.rpartition('/')[2]}", Cell.of(value)
        for tag, value in (valid.scalars if valid else {}).items():
            yield tag, Cell.of(value, self.style_of(tag, valid) if valid else "")
        if valid is not None and valid.best:
            yield "best", Cell("best", style="green")

    def test(self, texts: Sequence[str]) -> None:
        for line in packed(texts, self.width):
            self.write(line)
