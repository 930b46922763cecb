"""The steps of a plain recurrence in float32 on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels._jit import jit
from tdt._kernels._polynomial import tanh32
from tdt._kernels._recurrent import multiply, rows_of, run

ZERO, ONE = np.float32(0), np.float32(1)


def forward(steps: Any, sums: np.ndarray, hs: np.ndarray, w_hh: np.ndarray, relu: bool) -> None:
    """Fill in every h (N + rows, H), tanh or relu of what the input gives (rows, H), overwritten, plus h W.

    steps: the `Steps` of the batch.
    """
    nothing = np.zeros(hs.shape[1], np.float32)
    run(_forward, steps, (hs, sums, nothing), (w_hh.T,), hs.shape[1], relu)


def backward(steps: Any, dh: np.ndarray, w_hh: np.ndarray, out: np.ndarray, relu: bool) -> np.ndarray:
    """The gradients (rows, H) of the sums; those of the states are completed in dh."""
    grads = np.empty(out.shape, np.float32)
    nothing = np.zeros(dh.shape[1], np.float32)
    run(_backward, steps, (dh, np.ascontiguousarray(out), nothing, grads), (w_hh,), dh.shape[1], relu)
    return grads


@jit
def _forward(
    first, last, offsets, before, reverse, samples, batch, size, relu, hs, sums, nothing, w, earlier, own, places, origin,
    depth, tiles,
):  # fmt: skip
    for block in range(first, last):
        for k in range(offsets.size - 1):
            low, high = rows_of(block, samples, k, offsets, reverse)
            multiply(hs, earlier, low, high, origin, depth, tiles, w, sums, own, nothing, False)
            z, now = sums[low * size : high * size], hs[(batch + low) * size :]
            if relu:
                for j in range(z.size):
                    now[j] = ZERO if z[j] <= ZERO else z[j]
            else:
                for j in range(z.size):
                    now[j] = tanh32(z[j])


@jit
def _backward(
    first, last, offsets, before, reverse, samples, batch, size, relu, dh, out, nothing, grads, w, earlier, own, places,
    origin, depth, tiles,
):  # fmt: skip
    for block in range(first, last):
        for k in range(offsets.size - 2, -1, -1):
            low, high = rows_of(block, samples, k, offsets, reverse)
            h, g, target = out[low * size : high * size], dh[(batch + low) * size :], grads[low * size :]
            if relu:
                for j in range(h.size):
                    target[j] = ZERO if h[j] <= ZERO else g[j]
            else:
                for j in range(h.size):
                    target[j] = g[j] * (ONE - h[j] * h[j])
            multiply(grads, own, low, high, origin, depth, tiles, w, dh, earlier, nothing, False)
