"""Kernels over the steps of a recurrence: all steps for one block of samples after the other.

Samples are independent: each thread computes some of them, without synchronization at each step. The product of a block and
the recurrent weights is made of `_gemm`'s tiles, on weights that are packed once for all steps. The loops over a row are short
and many, since LLVM gives up vectorising one that would have to check more than a few pairs of arrays for overlap; a row
stays in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels._gemm import GRAIN, PANEL, few_tiles, packed, tile_rows, tiles
from tdt._kernels._jit import Kernel, jit
from tdt._kernels._pool import parallel

BLOCK = 8  # samples: few, so that small batches too are shared among threads
LARGE = 1 << 18  # weights that fill a level-two cache: blocks of twice as many samples use them while they are cached


def run(kernel: Kernel, steps: Any, arrays: tuple[np.ndarray, ...], weights: tuple[np.ndarray, ...], gates: int,
        *settings: bool) -> None:  # fmt: skip
    """Call it on all blocks of samples of a packed batch; the first of the arrays are the states, or their gradients.

    It gets the steps, the samples of a block, the sizes, the settings, the arrays flat, then the weights (inside, outside),
    packed, and the offsets that tiles take: of the state that each row begins from, of each row's own state without the
    first ones, and of its numbers in arrays with so many `gates`; of the terms of a sum, and of the lines of the weights.
    """
    batch, size, rows = int(steps.offsets[1]), arrays[0].shape[1], len(steps.before)
    terms, each = np.arange(len(weights[0])), np.arange(rows)
    weight = sum(w.size for w in weights)
    samples = 2 * BLOCK if weight > LARGE else BLOCK
    blocks = -(-batch // samples)
    parallel(
        kernel, blocks, steps.offsets, steps.before, steps.reverse, samples, batch, size, *settings,
        *(a.reshape(-1) for a in arrays), *(packed(w[None, None]).reshape(-1) for w in weights),
        steps.before * size, each * size, each * gates, terms, terms * PANEL,
        grain=-(-GRAIN * blocks // max(1, rows * weight)),
    )  # fmt: skip


@jit
def rows_of(block, samples, k, offsets, reverse):
    """The first row, and the one behind the last, of a block's samples at the k-th step that is computed."""
    step = offsets.size - 2 - k if reverse else k
    low = offsets[step] + block * samples
    return low, max(low, min(low + samples, offsets[step + 1]))


@jit
def multiply(a, rows, low, high, terms, lines, w, out, places, bias, begins):
    """Store the product of rows [low, high) of `a` and w at `places`; unless `begins`, add it to the values there."""
    panel, step = PANEL * terms.size, tile_rows()
    remainder = (high - low) % step
    full = high if 2 * remainder > step else high - remainder
    tiles(a, rows, low, full, terms, lines, 0, terms.size, w, panel, out, places, bias, begins)
    few_tiles(a, rows, full, high, terms, lines, 0, terms.size, w, panel, out, places, bias, begins)
