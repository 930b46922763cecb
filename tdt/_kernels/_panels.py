"""Operands of a convolution packed into the panels of the register tile (`_tile`): lines of as many columns as it has."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from tdt._backend.layout import to_last
from tdt._kernels._code import Code, Value, native
from tdt._kernels._layout import COPY
from tdt._kernels._pack import packer
from tdt._kernels._pool import parallel, stays_on_caller
from tdt._kernels._tile import Shape, call
from tdt._kernels._turn import turner

# Words of a kernel that packs weights (O, C / groups, *kernel), contiguous or channels-last:
#     lines           address of the line of a panel for each (channel that is summed over, cell), or (cell, channel) where
#                     weights_last; line_count of them
#     columns         in a group: the O, or unless `forward`, for an input gradient, the C
#     summed          channels in a group that are summed over: the others
#     cells           of the kernel
#     in_group        panels in a group, of tile_columns
#     turn_scatter, copy_lines, separate    addresses of functions of `_turn`; the last is 0 where it is not for so many cells
PANEL = ("lines", "line_count", "columns", "summed", "cells", "weights_last", "forward", "in_group", "tile_columns",
         "turn_scatter", "copy_lines", "separate")  # fmt: skip
CHUNK = 64  # lines of a panel that are written together
# Of kernels with more cells than MANY_CELLS, whose lines are far apart, as few as stay in a level-one cache until they are full.
MANY_CELLS, CHUNK_OF_MANY = 12, 8
# Numbers of a column, and rows of several columns, that are fetched ahead: weights lie in no near cache, and each column's, or
# row's, in another place. Numbers of a cache line.
AHEAD, AHEAD_ROWS, LINE = 64, 2, 16
LINED_UP = ("windows", "pixels", "columns", "in_group", "groups", "depth", "width", "last", "function")


def panel(code: Code, p: SimpleNamespace, w: Value, out: Value, number: Value, low: Value, high: Value) -> None:
    """Write lines of the summed channels [low, high) of a panel, where `out` is the address of line 0.

    What the last panel of a group has no column for is left as it is. p: words, those of PANEL among them.
    """
    group = number // p.in_group
    column = (number - group * p.in_group) * p.tile_columns
    here = code.minimum(p.columns - column, p.tile_columns)
    rows = p.summed * p.cells  # elements of a column of the weights, or of a line of an input gradient's
    along = (p.weights_last != 0) | (p.cells == 1)

    def forward() -> None:
        source = (group * p.columns + column) * rows
        apart = (p.weights_last != 0) & (high - low < p.summed)  # else all numbers of a column follow each other
        runs = code.select(apart, p.cells, 1)
        step = code.select(apart, p.summed, 0)
        each = code.select(apart, 1, p.cells)
        with code.loop(0, runs) as u:
            # All columns of some lines at a time, so that these are full before they leave the level-one cache.
            chunk = code.select((p.weights_last == 0) & (p.cells > MANY_CELLS), CHUNK_OF_MANY, code.value(CHUNK, "i64"))
            with code.loop(u * step + low * each, u * step + high * each, chunk) as at:
                count = code.minimum(u * step + high * each - at, chunk)
                with code.loop(0, here) as i:
                    _fetch(code, w + 4 * (source + at + AHEAD + i * rows), chunk)
                call(
                    code,
                    p.turn_scatter,
                    w + 4 * (source + at),
                    rows,
                    count,
                    out,
                    p.tile_columns,
                    p.lines + 8 * at,
                    here,
                )

    def lines() -> None:
        source = group * rows * p.columns + column
        with code.loop(0, p.cells) as cell:
            call(code, p.copy_lines, w + 4 * (source + (low * p.cells + cell) * p.columns), p.cells * p.columns, high - low,
                 out, p.tile_columns, p.lines + 8 * (cell * p.summed + low), here)  # fmt: skip

    def cells() -> None:
        source, step = (group * p.summed * p.columns + column) * p.cells, p.columns * p.cells

        def separate() -> None:
            call(code, p.separate, w + 4 * (source + low * step), step, high - low, out, p.tile_columns,
                 p.lines + 8 * low * p.cells, here)  # fmt: skip

        def turn() -> None:
            chunk = code.select(p.cells > MANY_CELLS, CHUNK_OF_MANY, p.cells)
            with code.loop(low, high) as u:
                _fetch(code, w + 4 * (source + (u + AHEAD_ROWS) * step), here * p.cells)
                with code.loop(0, p.cells, chunk) as cell:
                    call(code, p.turn_scatter, w + 4 * (source + u * step + cell), p.cells, code.minimum(p.cells - cell, chunk),
                         out, p.tile_columns, p.lines + 8 * (u * p.cells + cell), here)  # fmt: skip

        code.choose(p.separate != 0, separate, turn)

    code.choose(p.forward != 0, forward, lambda: code.choose(along, lines, cells))


def _fetch(code: Code, start: Value, count: Value) -> None:
    """Load so many numbers into the nearest cache, or what is there behind the weights."""
    with code.loop(0, count, LINE) as at:
        code.prefetch(start + 4 * at)


@native("qqp", vectorize=False)
def panels(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Panels [first, last) of the weights, all lines of them."""
    weights, out, words = arguments
    p = code.words(words, PANEL)
    with code.loop(first, last) as number:
        panel(
            code, p, weights, out + 4 * number * p.line_count * p.tile_columns, number, code.value(0, "i64"), p.summed
        )


def lined_up(y: np.ndarray, groups: int, depth: int, shape: Shape) -> np.ndarray:
    """(N, C, *spatial) as (blocks of `depth` windows, groups, panels, windows of the block, columns), flat."""
    last = not y.flags.c_contiguous
    size, filled, blocks, grain, words = _lining_up(y.shape, groups, depth, last, shape)
    out = (np.empty if filled else np.zeros)(size, np.float32)
    parallel(_line_up(), blocks, np.ascontiguousarray(to_last(y)) if last else y, out, words, grain=grain)
    return out


def prepared_lines(y: np.ndarray, groups: int, depth: int, shape: Shape) -> Callable[[np.ndarray], np.ndarray] | None:
    """`lined_up` as a function of contiguous arrays like y; None where several threads compute it."""
    size, filled, blocks, grain, words = _lining_up(y.shape, groups, depth, False, shape)
    if not stays_on_caller(blocks, grain):
        return None
    run, space = _line_up().with_last(blocks, words), np.empty if filled else np.zeros

    def compute(y: np.ndarray) -> np.ndarray:
        out: np.ndarray = space(size, np.float32)
        run(y, out)
        return out

    return compute


@functools.lru_cache(256)
def _lining_up(y: tuple, groups: int, depth: int, last: bool, shape: Shape) -> tuple[int, bool, int, int, np.ndarray]:
    """Numbers of `lined_up`, whether all are written, its pieces of work, how many a thread should at least have; its words."""
    columns, pixels = y[1] // groups, math.prod(y[2:])
    in_group, windows = -(-columns // shape.columns), y[0] * pixels
    function = packer("lines", shape.columns, shape.width) if last else turner()
    words = np.array([windows, pixels, columns, in_group, groups, depth, shape.columns, last, function])
    filled = last or columns % shape.columns == 0
    return (
        windows * groups * in_group * shape.columns,
        filled,
        -(-windows // depth),
        -(-COPY // (depth * y[1])),
        words,
    )


@native("qqp", vectorize=False)
def _line_up(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Blocks [first, last) of `lined_up`."""
    y, out, words = arguments
    p = code.words(words, LINED_UP)
    channels = p.groups * p.columns
    with code.loop(first, last) as number:
        low = number * p.depth
        high = code.minimum(low + p.depth, p.windows)

        def lines() -> None:
            with code.loop(0, p.groups) as group:
                target = out + 4 * p.width * p.in_group * (low * p.groups + group * (high - low))
                call(code, p.function, y + 4 * (low * channels + group * p.columns), channels, high - low, target, 0,
                     p.columns)  # fmt: skip

        def planes() -> None:
            with code.loop(0, p.groups * p.in_group) as index:
                group = index // p.in_group
                column = (index - group * p.in_group) * p.width
                target = out + 4 * p.width * (low * p.groups * p.in_group + index * (high - low))
                k = code.variable("i64", low)
                with code.forever() as leave:
                    at = k.get()
                    leave(at >= high)
                    n = at // p.pixels
                    stop = code.minimum((n + 1) * p.pixels, high)
                    source = (n * channels + group * p.columns + column) * p.pixels + at - n * p.pixels
                    call(code, p.function, y + 4 * source, p.pixels, stop - at, target + 4 * (at - low) * p.width, p.width,
                         0, code.minimum(p.columns - column, p.width))  # fmt: skip
                    k.set(stop)

        code.choose(p.last != 0, lines, planes)
