"""The table of a run on a terminal: a row per epoch under a header that is printed once, no wider than the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from tdt.train._printable import number

GAP = 2  # columns between two cells
NUMBER = 8  # columns of a score, more if its name is longer
LONGEST = 20  # columns of a name; of a longer one both ends are shown
Line = list[tuple[str, str]]  # texts with the Rich style of each


class Cell(NamedTuple):
    """A text, the least width of its column, and its style."""

    text: str
    width: int = 0
    style: str = ""

    @classmethod
    def of(cls, value: float, style: str = "") -> Cell:
        """A score with as many digits as fit into its column.

        >>> from tdt.commands._epoch_table import Cell
        >>> [Cell.of(value).text for value in (0.5, 12345.678, 1234567.8, -1.2345e-05)]
        ['0.5000', '12345.68', '1.23e+06', '-1.2e-05']
        """
        text = number(value)
        forms = (
            f"{value:.{digits}{kind}}" for kind in "fe" for digits in (3, 2, 1, 0) if kind == "e" or "e" not in text
        )
        return cls(next((form for form in (text, *forms) if len(form) <= NUMBER), text), NUMBER, style)


class EpochTable:
    """Prints rows of scores by tag (`valid/loss`); what does not fit is left out, the least important columns first.

    monitor: the tag of the score that chooses the best checkpoint, which stays.

    >>> from tdt.commands._epoch_table import Cell, EpochTable
    >>> table = EpochTable("valid/accuracy")
    >>> cells = {"epoch": Cell("1/2"), "train/loss": Cell.of(0.7), "valid/loss": Cell.of(0.5)}
    >>> for line in table.lines({**cells, "valid/accuracy": Cell.of(0.9), "best": Cell("best")}, width=50):
    ...     print("".join(text for text, _ in line).rstrip())
            train    ----- valid ------
    epoch      loss      loss  accuracy
      1/2    0.7000    0.5000    0.9000  best
    """

    def __init__(self, monitor: str = "") -> None:
        self.monitor = monitor
        self._widths: dict[str, int] = {"epoch": len("epoch")}
        self._chosen: list[str] = []
        self._for = 0  # the width that they were chosen for

    def lines(self, cells: Mapping[str, Cell], width: int) -> list[Line]:
        """A row, below the header if that has changed: at first, and with new columns or another width of the terminal."""
        new = [tag for tag in cells if tag not in self._widths]
        for tag, cell in cells.items():
            least = max(cell.width, len(cell.text), len(_name(tag)))
            self._widths[tag] = max(self._widths.get(tag, 0), least)
        row: Line = []
        header: list[Line] = []
        if new or width != self._for or self._width(self._chosen) > width:
            self._for, self._chosen = width, self._choose(width)
            header = self._header()
        for tag in self._chosen:
            cell = cells.get(tag, Cell(""))
            row += [(" " * (GAP * bool(row) + self._widths[tag] - len(cell.text)), ""), (cell.text, cell.style)]
        return [*header, row]

    def _width(self, tags: list[str]) -> int:
        return sum(self._widths[tag] + GAP for tag in tags) - GAP

    def _choose(self, width: int) -> list[str]:
        """The columns that fit, in the order of the table."""
        chosen: list[str] = []
        for tag in sorted(self._widths, key=self._rank):
            if not chosen or self._width([*chosen, tag]) <= width:
                chosen.append(tag)
        known = list(self._widths)
        return sorted(chosen, key=lambda tag: (_place(tag), known.index(tag)))

    def _rank(self, tag: str) -> tuple[int, int]:
        """The most important columns have the lowest rank."""
        order = ("epoch", self.monitor, "best", "valid/loss", "train/loss", "took")
        if tag in order:
            return order.index(tag), 0
        return len(order) + ("valid/", "train/", "").index(tag[: tag.find("/") + 1]), list(self._widths).index(tag)

    def _header(self) -> list[Line]:
        groups = ""
        for split, tags in groupby(self._chosen, lambda tag: tag.rpartition("/")[0]):
            width = self._width(list(tags))
            gap = " " * (GAP * bool(groups))
            has_room = split and width >= len(split) + 4
            groups += gap + (f" {split} ".center(width, "-") if has_room else split.center(width))
        names = (" " * GAP).join(f"{_name(tag):>{self._widths[tag]}}" for tag in self._chosen)
        return [[(groups.rstrip(), "bold")], [(names.rstrip(), "bold")]]


def _name(tag: str) -> str:
    name = {"best": "", "took": "time"}.get(tag, tag.rpartition("/")[2])
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"


def _place(tag: str) -> int:
    order = ("epoch", "step", "train", "valid", "took", "best")
    return order.index(tag.partition("/")[0])
