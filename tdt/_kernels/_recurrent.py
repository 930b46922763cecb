"""Kernels over the steps of a recurrence: all steps for one block of samples after the other.

Samples are independent: each thread computes some of them, without synchronization at each step. The product of a block and
the recurrent weights is made of register tiles (`_tile`), on weights that are packed once for all steps.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tdt._kernels import _pack, _tile
from tdt._kernels._code import Code, Value, native
from tdt._kernels._gates import Place
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._rows import for_each
from tdt._kernels._tile import GRAIN, Shape, address, rates

BLOCK = 8  # samples: few, so that small batches too are shared among threads
LARGE = 1 << 18  # weights that fill a level-two cache: blocks of twice as many samples use them while they are cached
DEPTH = 192  # terms that are summed at a time: a panel's lines of the weights then stay in the nearest cache
VECTORS = 3  # of a row of a tile: its rows then divide the samples of a block
FEW = 2  # rows of the tile for what is left of a block, and for single samples
ORIGIN = np.zeros(1, np.int64)
TABLE = ("steps", "reverse", "samples", "batch", "size", "tile", "few", "rows", "columns")
LETTERS = "p" * 7  # of the arguments that all kernels begin with


def run(kernel: NativeKernel, steps: Any, arrays: tuple[np.ndarray, ...], weights: tuple[np.ndarray, ...],
        gates: int) -> None:  # fmt: skip
    """Call it on all blocks of samples of a packed batch; the first of the arrays are the states, or their gradients.

    It gets what `Recurrence` takes, then the arrays, then the weights (inside, outside), packed. gates: the numbers of a row
    of sums.
    """
    batch, size, rows = int(steps.offsets[1]), arrays[0].shape[1], len(steps.before)
    weight = sum([w.size for w in weights])
    samples = 2 * BLOCK if weight > LARGE else BLOCK
    blocks = -(-batch // samples)
    shape, tiles = _tiles()
    found = steps.offsets_by_width.get((size, gates, samples, shape))
    if found is None:
        each = np.arange(rows)
        table = np.array(
            [len(steps.offsets) - 1, steps.reverse, samples, batch, size, *tiles, shape.rows, shape.columns]
        )
        found = table, steps.offsets, steps.before, steps.before * size, each * size, each * gates, ORIGIN
        steps.offsets_by_width[size, gates, samples, shape] = found
    parallel(
        kernel, blocks, *found, *arrays, *[packed(w, shape) for w in weights],
        grain=-(-GRAIN * blocks // max(1, rows * weight)),
    )  # fmt: skip


@functools.cache
def _tiles() -> tuple[Shape, list[int]]:
    """The shape of the tile, and the addresses of its function and of that for few rows."""
    shape = next(shape for shape in rates() if shape.vectors == VECTORS)
    return shape, [address("rows", kind, places=True) for kind in (shape, shape._replace(rows=FEW))]


def packed(w: np.ndarray, shape: Shape) -> np.ndarray:
    """Weights (inside, outside) in panels of a tile's columns."""
    depth, columns = w.shape
    if not (w.flags.c_contiguous or w.T.flags.c_contiguous):
        w = np.ascontiguousarray(w)
    lines = w.flags.c_contiguous
    panels = np.empty(-(-columns // shape.columns) * shape.columns * depth, np.float32)
    pack = _pack.packer("lines" if lines else "columns", shape.columns, shape.width)
    _packs().run(1, (w, panels), columns if lines else depth, depth, columns, pack)
    return panels


@native("qqqqqq", vectorize=False)
def _packs(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Weights, panels; elements from line to line, the terms of a sum, columns; the address of a packer."""
    w, panels, step, depth, columns, pack = arguments
    _tile.call(code, pack, w, step, depth, panels, 0, columns)


class Recurrence:
    """The loops over blocks of samples, steps and rows, and the products in them, in code that is written.

    before: of each row, the place of the state that it begins from, counted from the first ones. earlier, own and sums are
    offsets of each row: of that state, of its own state without the first ones, and of its numbers among the sums.
    """

    def __init__(self, code: Code, arguments: list[Value]):
        self.code = code
        table, self.offsets, self.before, self.earlier, self.own, self.sums, self.origin = arguments[: len(LETTERS)]
        self.table = code.words(table, TABLE)
        self.batch, self.size = self.table.batch, self.table.size

    @contextlib.contextmanager
    def steps(self, first: Value, last: Value, backward: bool = False) -> Iterator[tuple[Value, Value]]:
        """The first row, and the one behind the last, of each step of the blocks [first, last)."""
        code, samples, final = self.code, self.table.samples, self.table.steps - 1
        opposite = self.table.reverse == (0 if backward else 1)
        with code.loop(first, last) as block, code.loop(0, self.table.steps) as k:
            step = code.select(opposite, final - k, k)
            low = code.load("i64", self.offsets, step) + block * samples
            end = code.load("i64", self.offsets, step + 1)
            yield low, code.maximum(low, code.minimum(low + samples, end))

    def each(self, low: Value, high: Value, write: Callable[[Place, Place, Place], None]) -> None:
        """Call `write` with the places of the vectors of rows [low, high): among sums, of their states and those before."""
        code = self.code
        with code.loop(low, high) as row:
            before = code.load("i64", self.before, row)

            def at(i: Value, mask: Value | None) -> None:
                place = Place(code, row, self.size, i, mask)
                write(place, place.at(self.batch + row), place.at(before))

            for_each(code, self.size, at)

    def multiply(self, a: Value, rows: Value, low: Value, high: Value, depth: Value, w: Value, columns: Value,
                 out: Value, places: Value, bias: Value | None = None) -> None:  # fmt: skip
        """Add the product of rows [low, high) of `a`, and w, to what is at `places`; with a bias, store it plus that."""
        code, wide = self.code, self.table.columns
        at, zero = lambda array, i, kind="float": code.cast(code.at(kind, array, i), "i64"), code.value(0, "i64")
        with code.loop(0, columns, wide) as j, code.loop(0, depth, DEPTH) as start:
            begins = zero if bias is None else code.select(start == 0, code.value(1, "i64"), 0)
            added = zero if bias is None else code.select(start == 0, at(bias, j), 0)
            right = at(w, j * depth + start * wide)
            with code.loop(low, high, self.table.rows) as i:
                function = code.select(high - i > FEW, self.table.tile, self.table.few)
                _tile.call(
                    code, function, at(a, start), at(rows, i, "i64"), code.cast(self.origin, "i64"), 1,
                    code.minimum(depth - start, DEPTH), right, 0, at(out, j), at(places, i, "i64"), added,
                    code.minimum(high - i, self.table.rows), code.minimum(columns - j, wide), begins,
                )  # fmt: skip
