"""`Compare`: a table of measurements."""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Iterable

from tdt.utils.benchmark._measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

BOLD, END = "\033[1m", "\033[0m" * 2
BEST, GOOD, BAD, VERY_BAD = "\033[92m" + BOLD, "\033[34m" + BOLD, "\033[2m\033[91m", "\033[31m" + BOLD
Cells = dict[tuple["Row", str], Measurement]
Row = tuple[int, str, str]  # threads, environment, name


class Colorize(enum.Enum):
    """Whether the best times are coloured per column or per row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of the medians of measurements, one for each label: printed, or as a str.

    A row has a sub_label (or the code), rows of one number of threads and one env stand together, and a column has a
    description. Measurements of the same task are taken together.
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._highlight = False
        self._colorize = Colorize.NONE
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Take in further measurements. ValueError for anything else."""
        results = list(results)
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show no more digits than are known."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the best and the worst of each column, or of each row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Show where measurements differ much."""
        self._highlight = True

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        tables: dict[str | None, list[Measurement]] = defaultdict(list)
        for m in Measurement.merge(self._results):
            tables[m.task_spec.label].append(m)
        return "\n".join(self._table(label or "", results) for label, results in tables.items())

    def _table(self, label: str, results: list[Measurement]) -> str:
        cells = {(_row(m), m.task_spec.description or ""): m for m in results}
        rows = sorted(ordered_unique(row for row, _ in cells), key=lambda row: row[:2])
        columns = ordered_unique(column for _, column in cells)
        unit, scale = select_unit(min(m.median for m in results))
        names = self._names(rows)
        texts = [self._column([cells.get((row, column)) for row in rows], scale) for column in columns]
        widths = [max(map(len, names)), *(max(map(len, [c, *t])) for c, t in zip(columns, texts, strict=True))]
        lines = ["  |  ".join(text.center(width) for text, width in zip(["", *columns], widths, strict=True))]
        whole = len(lines[0])
        for i, row in enumerate(rows):
            if i == 0 or row[0] != rows[i - 1][0]:
                lines.append(f"{row[0]} threads: ".ljust(whole, "-"))
            line = [names[i].ljust(widths[0])]
            for column, text, width in zip(columns, texts, widths[1:], strict=True):
                line.append(self._coloured(text[i].center(width), cells, row, column))
            lines.append("  |  ".join(line))
        warned = self._highlight and any(m.has_warnings for m in results)
        note = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n" if warned else ""
        head = f"[{f' {label} '.center(whole - 2, '-')}]"
        return "\n".join([head, *lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", note])

    @staticmethod
    def _names(rows: list[Row]) -> list[str]:
        """The first column: the environment (if there are several, and it differs from the row above) and the name."""
        several = len({env for _, env, _ in rows}) > 1
        width = max(len(env) for _, env, _ in rows) + 4 if several else 4
        shown = [several and row[1] and (i == 0 or row[:2] != rows[i - 1][:2]) for i, row in enumerate(rows)]
        return [
            "  " + (f"({row[1]})" if new else "").ljust(width) + row[2] for row, new in zip(rows, shown, strict=True)
        ]

    def _column(self, results: list[Measurement | None], scale: float) -> list[str]:
        """The formatted times of a column, aligned; blank for missing measurements."""
        measured = [m for m in results if m is not None]
        digits = {id(m): math.ceil(math.log10(m.median / scale)) for m in measured}
        after = min(max(m.significant_figures - digits[id(m)], 0) for m in measured) if self._trim else 1
        length = max(digits.values()) + after + (after > 0)
        warned = 7 if self._highlight and any(m.has_warnings for m in measured) else 0
        cells = []
        for m in results:
            value = 1.0 if m is None else m.median / scale
            value = trim_sigfig(value, m.significant_figures) if m is not None and self._trim else value
            spread = f" (! {m.iqr / m.median * 100:.0f}%)" if m is not None and warned and m.has_warnings else ""
            text = f"{value:>{length}.{after}f}{spread:>{warned}}"
            cells.append(" " * len(text) if m is None else text)
        return cells

    def _coloured(self, text: str, cells: Cells, row: Row, column: str) -> str:
        if self._colorize is Colorize.NONE or (row, column) not in cells:
            return text
        by_row = self._colorize is Colorize.ROWWISE
        candidates = [m for (r, c), m in cells.items() if (r == row if by_row else c == column and r[0] == row[0])]
        value, best = cells[row, column].median, min(m.median for m in candidates)
        if value <= best * 1.01 or value <= best + 100e-9:
            return BEST + text + END
        for colour, holds in ((GOOD, value <= best * 1.1), (VERY_BAD, value >= best * 5), (BAD, value >= best * 2)):
            if holds:
                return colour + text + END
        return text


def _row(m: Measurement) -> Row:
    return m.task_spec.num_threads, m.task_spec.env or "", m.as_row_name
