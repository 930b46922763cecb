"""Output as plain-text tables, and as JSON for scripts."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from tdt.commands._output import is_terminal, print_lines, styled

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts

LONGEST_CELL = 200  # characters
NARROWEST, LEAST = 10, 4  # columns that a cut cell keeps, and in a table of many columns


def layers(parts: Parts, depth: int | None = None, wide: bool = False) -> str:
    """A row per layer: output shape, parameters, and per sample the multiply-adds and bytes of output; with totals.

    depth: sum the layers below this level of the model's modules.
    """
    from tdt.train._printable import counted

    rows = [
        (name, layer, "x".join(map(str, shape)) or "1", *(f"{n:,}" for n in counts))
        for name, layer, shape, counts in _layers(parts, depth)
    ]
    parameters, buffers = list(parts.model.parameters()), list(parts.model.buffers())
    total = sum(p.numel() for p in parameters)
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    size = sum(t.numel() * t.element_size() for t in (*parameters, *buffers))
    sums = total, sum(row.flops for row in parts.rows), sum(row.bytes for row in parts.rows)
    rows.append(("total", "", "", *(f"{n:,}" for n in sums)))
    head = ("layer", "", "output", "parameters", "multiply-adds", "bytes")
    table = text(head, rows, right=(3, 4, 5), fit=not wide, drop=(5, 4))
    frozen = f", {total - trainable:,} of them frozen" if trainable < total else ""
    return f"{table}\n{counted(total, 'parameter')}{frozen}, {size / 2**20:.2f} MiB; on {parts.device}"


def _layers(parts: Parts, depth: int | None) -> Iterator[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    """Name, layer, output shape, and the sums of parameters, multiply-adds and bytes, of each row."""
    from itertools import groupby

    def module(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    for name, group in groupby(parts.rows, key=lambda row: module(row.name)):
        rows = list(group)
        layer = rows[0].layer if rows[0].name == name else type(parts.model.get_submodule(name)).__name__
        sums = (sum(row.parameters for row in rows), sum(row.flops for row in rows), sum(row.bytes for row in rows))
        yield name, layer, rows[-1].shape, sums


def steps(parts: Parts) -> str:
    """The number of samples per split, and of steps."""
    from tdt.train._printable import counted

    counts = ", ".join(f"{name} {count:,}" for name, count in parts.samples.items())
    whole = "" if parts.length.steps is None else f", {parts.length.steps:,} in total"
    return f"samples: {counts}; {counted(parts.length.steps_per_epoch, 'step')} per epoch{whole}"


def downloads(parts: Parts) -> list[str]:
    """A line for each dataset that will be downloaded."""
    return [str(problem) for problem in parts.warnings if problem.kind == "download"]


def groups(parts: Parts, wide: bool = False) -> str:
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
    table = text(("parameter", "shape", "group", "options"), rows, fit=not wide)
    return f"{table}\nall: {type(parts.optimizer).__name__}({shared})"


def text(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    fit: bool = False,
    drop: Sequence[int] = (),
    longest: int = LONGEST_CELL,
) -> str:
    """A table whose columns are as wide as their widest cell; the columns in `right` are right-aligned.

    fit: on a terminal, make the table no wider: cut the columns that are neither the first nor in `right`, leave out those
    in `drop`, the first of them first, and cut the beginning of the first column.

    longest: characters of a cell.

    >>> from tdt.commands._tables import text
    >>> print(text(("a", "n"), [("x", "10"), ("yy", "5")], right=(1,)))
    a    n
    x   10
    yy   5
    """
    from tdt.train._printable import printable, shortened  # on use: `tdt --help` loads this file

    table = [[shortened(printable(cell), longest) for cell in row] for row in (head, *rows)]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    limit = terminal_width() if fit else None
    shown = list(range(len(widths)))
    if limit is not None:
        shown, widths = _narrow(widths, right, drop, limit)
        table = [
            [
                cut(cell, width, not i or row is table[0])
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            for row in table
        ]
    return "\n".join(
        "  ".join(
            " " * (width - display_width(cell)) + cell if i in right else cell + " " * (width - display_width(cell))
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            if i in shown
        ).rstrip()
        for row in table
    )


def _narrow(
    widths: Sequence[int], right: Sequence[int], drop: Sequence[int], limit: int
) -> tuple[list[int], list[int]]:
    """The columns that are shown, and the widths of all, so that the table fits: `text`."""
    for dropped in range(len(drop) + 1):
        shown = [i for i in range(len(widths)) if i not in drop[:dropped]]
        narrow, columns = list(widths), [i for i in shown[1:] if i not in right]
        others = sum(narrow[i] + 2 for i in shown[1:] if i in right)
        room = (limit - others - min(narrow[0], NARROWEST)) // max(len(columns), 1) - 2
        least = min(max(room, LEAST), NARROWEST)
        while (over := sum(narrow[i] + 2 for i in shown) - 2 - limit) > 0 and columns:
            widest = max(columns, key=lambda i: narrow[i])
            if narrow[widest] <= least:
                break
            smaller = [narrow[i] for i in columns if narrow[i] < narrow[widest]]
            narrow[widest] -= min(over, narrow[widest] - max([*smaller, least]))
        if over <= 0:
            break
    if over > 0:
        narrow[0] = max(narrow[0] - over, min(narrow[0], NARROWEST))
    return shown, narrow


def cut(cell: str, width: int, first: bool = False) -> str:
    """The cell; if it is wider than `width` columns, its end (or its beginning, for `first`) is replaced by an ellipsis.

    >>> from tdt.commands._tables import cut
    >>> cut("CrossEntropyLoss", 9), cut("Adam", 9), cut("model.features.conv1", 9, first=True)
    ('CrossEnt…', 'Adam', '…es.conv1')
    """
    if display_width(cell) <= width:
        return cell
    while cell and display_width(cell) >= width:
        cell = cell[1:] if first else cell[:-1]
    ellipsis = _printed("…", "~")
    return ellipsis + cell if first else cell + ellipsis


def paint(table: str) -> str:
    """A table with its head, and the rows of the best, in their styles."""
    head, _, rows = table.partition("\n")
    best = (styled(row, "green") if row.startswith("* ") else row for row in rows.split("\n"))
    return "\n".join([styled(head, "bold"), *best])


def _printed(text: str, otherwise: str) -> str:
    """`text`, or `otherwise` if the output cannot encode it."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return otherwise
    return text


def display_width(cell: str) -> int:
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
    bars = _printed("▁▂▃▄▅▆▇█", "_.-:=+*#")
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


def terminal_width() -> int | None:
    """Columns of the terminal; None where standard output is none."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None


def packed(texts: Iterable[str], width: int | None) -> Iterator[str]:
    """Lines of whole texts, no longer than `width` (None: one line) where that is possible; those after the first are indented.

    >>> from tdt.commands._tables import packed
    >>> list(packed(["test loss 0.5", "accuracy 0.9", "f1 0.8"], 28))
    ['test loss 0.5 accuracy 0.9', '     f1 0.8']
    """
    line = ""
    for text in texts:
        if width and line and len(line) + 1 + len(text) > width:
            yield line
            line = " " * 4
            text = text.strip()
        line += f" {text}" if line else text
    yield line
