"""Kernels over the steps of a recurrence: all steps for one block of samples after the other.

Samples are independent: each thread computes some of them, without synchronization at each step. The product of a block and
the recurrent weights is made of register tiles (`_tile`), on weights that are packed once for all steps. The loops over a row
are short and many, since LLVM gives up vectorising one that would have to check more than a few pairs of arrays for overlap; a
row stays in the cache.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt._kernels import _pack
from tdt._kernels._code import Code, Value, native
from tdt._kernels._jit import Kernel, jit
from tdt._kernels._pool import parallel
from tdt._kernels._tile import GRAIN, Shape, address, call, place, rates, tile

BLOCK = 8  # samples: few, so that small batches too are shared among threads
LARGE = 1 << 18  # weights that fill a level-two cache: blocks of twice as many samples use them while they are cached
DEPTH = 192  # terms that are summed at a time: a panel's lines of the weights then stay in the nearest cache
VECTORS = 3  # of a row of a tile: its rows then divide the samples of a block
FEW = 2  # rows of the tile for what is left of a block, and for single samples
ORIGIN = np.zeros(1, np.int64)


def run(kernel: Kernel, steps: Any, arrays: tuple[np.ndarray, ...], weights: tuple[np.ndarray, ...], gates: int,
        *settings: bool) -> None:  # fmt: skip
    """Call it on all blocks of samples of a packed batch; the first of the arrays are the states, or their gradients.

    It gets the steps, the samples of a block, the sizes, the settings, the arrays flat, then the weights (inside, outside),
    packed, and the offsets that tiles take: of the state that each row begins from, of each row's own state without the
    first ones, and of its numbers in arrays with so many `gates`; the terms of a sum, and two `tiles`.
    """
    batch, size, rows = int(steps.offsets[1]), arrays[0].shape[1], len(steps.before)
    offsets = steps.offsets_by_width.get((size, gates))
    if offsets is None:
        each = np.arange(rows)
        offsets = steps.offsets_by_width[size, gates] = steps.before * size, each * size, each * gates
    weight = sum([w.size for w in weights])
    samples = 2 * BLOCK if weight > LARGE else BLOCK
    blocks = -(-batch // samples)
    shape, tiles = _tiles()
    parallel(
        kernel, blocks, steps.offsets, steps.before, steps.reverse, samples, batch, size, *settings,
        *[a.reshape(-1) for a in arrays], *[packed(w, shape) for w in weights], *offsets, ORIGIN, len(weights[0]), tiles,
        grain=-(-GRAIN * blocks // max(1, rows * weight)),
    )  # fmt: skip


@functools.cache
def _tiles() -> tuple[Shape, np.ndarray]:
    """The shape of the tile, and the kernels' `tiles`."""
    shape = next(shape for shape in rates() if shape.vectors == VECTORS)
    functions = (address("rows", kind, places=True) for kind in (shape, shape._replace(rows=FEW)))
    return shape, np.array([*functions, shape.rows, shape.columns])


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
    call(code, pack, w, step, depth, panels, 0, columns)


@jit
def rows_of(block, samples, k, offsets, reverse):
    """The first row, and the one behind the last, of a block's samples at the k-th step that is computed."""
    step = offsets.size - 2 - k if reverse else k
    low = offsets[step] + block * samples
    return low, max(low, min(low + samples, offsets[step + 1]))


@jit
def multiply(a, rows, low, high, origin, depth, tiles, w, out, places, bias, begins):
    """Store the product of rows [low, high) of `a` and w, plus the bias, at `places`; or, unless `begins`, add it alone."""
    function, few, step, columns = tiles[0], tiles[1], tiles[2], tiles[3]
    for j in range(0, bias.size, columns):
        wide = min(columns, bias.size - j)
        for start in range(0, depth, DEPTH):
            run, first = min(DEPTH, depth - start), 1 if begins and start == 0 else 0
            added = place(bias, j) if first == 1 else 0
            right = place(w, j * depth + start * columns)
            for i in range(low, high, step):
                chosen = function if high - i > FEW else few
                tile(chosen, place(a, start), place(rows, i), place(origin, 0), 1, run, right, 0, place(out, j),
                     place(places, i), added, min(high - i, step), wide, first)  # fmt: skip
