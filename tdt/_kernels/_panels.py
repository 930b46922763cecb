"""Operands of a convolution packed into the panels of the register tile (`_tile`): lines of as many columns as it has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tdt._backend.layout import to_last
from tdt._kernels._jit import jit
from tdt._kernels._layout import COPY
from tdt._kernels._pool import parallel
from tdt._kernels._tile import Shape, place
from tdt._kernels._turn import turn, turner


class Weights(NamedTuple):
    """Weights (O, C / groups, *kernel) as `panel` takes them.

    Attributes:
        flat: the weights, flat, contiguous or channels-last.
        lines: the line of a panel for each (channel that is summed over, cell), or (cell, channel) in channels-last ones.
        columns: in a group: the O, or for an input gradient the C.
        summed: channels in a group that are summed over: the others.
        cells: of the kernel.
        last: whether the weights are channels-last.
    """

    flat: np.ndarray
    lines: np.ndarray
    columns: int
    summed: int
    cells: int
    last: bool


def weights(w: np.ndarray, groups: int, forward: bool, lines: np.ndarray) -> Weights:
    """The weights of a convolution, or, unless `forward`, of its input gradient; lines: by (channel, cell)."""
    last = not w.flags.c_contiguous and to_last(w).flags.c_contiguous
    flat = (to_last(w) if last else np.ascontiguousarray(w)).reshape(-1)
    sides = (len(w) // groups, w.shape[1]) if forward else (w.shape[1], len(w) // groups)
    return Weights(flat, (lines.T if last else lines).reshape(-1), *sides, lines.shape[1], last)


@jit
def panel(
    w, out, start, first_line, lines, columns, summed, cells, is_last, forward, width, number, low, high, function, copy
):
    """The lines of the summed channels [low, high) of a panel, from out[start] on, where line `first_line` is.

    What the last panel of a group has no column for is left as it is.
    """
    in_group = (columns + width - 1) // width
    group = number // in_group
    column = (number - group * in_group) * width
    here = min(width, columns - column)
    start -= first_line * width
    if forward:
        source = (group * columns + column) * summed * cells
        for u in range(cells if is_last else 1):
            at, count = (u * summed + low, high - low) if is_last else (low * cells, (high - low) * cells)
            turn(
                function, place(w, source + at), summed * cells, count, place(out, start), width, place(lines, at), here
            )
    elif is_last or cells == 1:
        source = group * summed * columns * cells + column
        for cell in range(cells):
            turn(copy, place(w, source + (low * cells + cell) * columns), cells * columns, high - low, place(out, start),
                 width, place(lines, cell * summed + low), here)  # fmt: skip
    else:
        source = (group * summed * columns + column) * cells
        for u in range(low, high):
            turn(function, place(w, source + u * columns * cells), cells, cells, place(out, start), width,
                 place(lines, u * cells), here)  # fmt: skip


def lined_up(y: np.ndarray, groups: int, depth: int, shape: Shape) -> np.ndarray:
    """(N, C, *spatial) as (blocks of `depth` windows, groups, panels, windows of the block, columns), flat."""
    last = not y.flags.c_contiguous
    y = np.ascontiguousarray(to_last(y)) if last else y
    count, channels = len(y), y.shape[-1 if last else 1]
    columns, pixels = channels // groups, y.size // (len(y) * channels)
    in_group = -(-columns // shape.columns)
    out = (np.zeros if columns % shape.columns else np.empty)(
        count * pixels * groups * in_group * shape.columns, np.float32
    )
    parallel(
        _line_up, -(-count * pixels // depth), y.reshape(-1), out, count * pixels, 1 if last else pixels, columns,
        in_group, groups, depth, shape.columns, turner(), grain=-(-COPY // (depth * channels)),
    )  # fmt: skip
    return out


@jit
def _line_up(first, last, y, out, windows, pixels, columns, in_group, groups, depth, width, function):
    """Blocks [first, last) of `lined_up`. Channels-last images are as many samples of a pixel."""
    for number in range(first, last):
        low = number * depth
        high = min(low + depth, windows)
        for index in range(groups * in_group):
            group = index // in_group
            column = (index - group * in_group) * width
            target = (low * groups * in_group + index * (high - low)) * width
            here = min(width, columns - column)
            k = low
            while k < high:
                n = k // pixels
                stop = min(high, (n + 1) * pixels)
                start = (n * groups * columns + group * columns + column) * pixels + k - n * pixels
                if pixels == 1:
                    for q in range(here):
                        out[target + q] = y[start + q]
                else:
                    turn(function, place(y, start), pixels, stop - k, place(out, target), width, 0, here)
                target, k = target + (stop - k) * width, stop
