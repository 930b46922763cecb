"""Output as plain-text tables, and as JSON for scripts."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from tdt.commands._output import print_lines

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts

LONGEST_CELL = 200  # characters


def layers(parts: Parts) -> str:
    """A row per layer: output shape, parameters, and per sample the multiply-adds and bytes of output; with totals."""
    from tdt.train._printable import counted

    rows = [
        (
            row.name,
            row.layer,
            "x".join(map(str, row.shape)) or "1",
            *(f"{n:,}" for n in (row.parameters, row.flops, row.bytes)),
        )
        for row in parts.rows
    ]
    parameters, buffers = list(parts.model.parameters()), list(parts.model.buffers())
    total = sum(p.numel() for p in parameters)
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    size = sum(t.numel() * t.element_size() for t in (*parameters, *buffers))
    sums = total, sum(row.flops for row in parts.rows), sum(row.bytes for row in parts.rows)
    rows.append(("total", "", "", *(f"{n:,}" for n in sums)))
    table = text(("layer", "", "output", "parameters", "multiply-adds", "bytes"), rows, right=(3, 4, 5), cut=1)
    frozen = f", {total - trainable:,} of them frozen" if trainable < total else ""
    return f"{table}\n{counted(total, 'parameter')}{frozen}, {size / 2**20:.2f} MiB; on {parts.device}"


def steps(parts: Parts) -> str:
    """The number of samples per split, and of steps."""
    from tdt.train._printable import counted

    counts = ", ".join(f"{name} {count:,}" for name, count in parts.samples.items())
    whole = "" if parts.length.steps is None else f", {parts.length.steps:,} in total"
    return f"samples: {counts}; {counted(parts.length.steps_per_epoch, 'step')} per epoch{whole}"


def downloads(parts: Parts) -> list[str]:
    """A line for each dataset that will be downloaded."""
    return [str(problem) for problem in parts.warnings if problem.kind == "download"]


def groups(parts: Parts) -> str:
    """A row per parameter: shape, number of its parameter group, and the options that differ between groups."""
    shapes = {name: tuple(p.shape) for name, p in parts.model.named_parameters()}
    numbers = sorted({number for _, number in parts.groups})
    options = [{k: v for k, v in group.items() if k != "params"} for group in parts.optimizer.param_groups]
    common = {k for k in options[0] if all(o.get(k) == options[0][k] for o in options)}
    differing = [", ".join(f"{k}={v}" for k, v in o.items() if k not in common) for o in options]
    rows = [
        (name, "x".join(map(str, shapes[name])), str(number), differing[numbers.index(number)])
        for name, number in parts.groups
    ]
    shared = ", ".join(f"{k}={v}" for k, v in options[0].items() if k in common)
    table = text(("parameter", "shape", "group", "options"), rows)
    return f"{table}\nall: {type(parts.optimizer).__name__}({shared})"


def text(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), cut: int | None = None) -> str:
    """A table whose columns are as wide as their widest cell; the columns in `right` are right-aligned. On a narrow
    terminal the column `cut` is truncated.

    >>> from tdt.commands._tables import text
    >>> print(text(("a", "n"), [("x", "10"), ("yy", "5")], right=(1,)))
    a    n
    x   10
    yy   5
    """
    from tdt.train._printable import printable, shortened  # on use: `tdt --help` loads this file

    table = [[shortened(printable(cell), LONGEST_CELL) for cell in row] for row in (head, *rows)]
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    if cut is not None and sys.stdout.isatty():
        over = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        widths[cut] = min(widths[cut], max(widths[cut] - over, 12))
        for row in table:
            if len(row[cut]) > widths[cut]:
                row[cut] = row[cut][: widths[cut] - 1] + "…"
    return "\n".join(
        "  ".join(
            " " * (width - _width(cell)) + cell if i in right else cell + " " * (width - _width(cell))
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def _width(cell: str) -> int:
    """The number of terminal columns that the cell fills."""
    if cell.isascii():
        return len(cell)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in cell)


def sparkline(values: Sequence[float], low: float, high: float, width: int = 24) -> str:
    """A row of at most `width` bars from `low` to `high`, each the mean of consecutive `values`; a space where the mean
    is not finite. In ASCII if the output cannot encode the bars.

    >>> from tdt.commands._tables import sparkline
    >>> sparkline([0, 1, 2, 3, float("nan"), 3], 0, 3)
    '▁▃▆█ █'
    """
    bars = "▁▂▃▄▅▆▇█"
    try:
        bars.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        bars = "_.-:=+*#"
    cuts = [len(values) * i // width for i in range(width + 1)] if len(values) > width else range(len(values) + 1)
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]
    span = high - low or 1.0
    return "".join(
        bars[min(max(round((mean - low) / span * 7), 0), 7)] if math.isfinite(mean) else " " for mean in means
    ).rstrip()


def print_json(value: Any, code: int = 0) -> int:
    """Print one JSON object on one line; returns the exit code."""
    import json  # on use: `tdt --help` loads this file

    print_lines(json.dumps(value, allow_nan=False), whole=True)
    return code
