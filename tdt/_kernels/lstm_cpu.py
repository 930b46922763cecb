"""The steps of an LSTM in float32 on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels._jit import jit
from tdt._kernels._polynomial import sigmoid32, tanh32
from tdt._kernels._recurrent import multiply, rows_of, run

ONE = np.float32(1)


def forward(steps: Any, gates: np.ndarray, hs: np.ndarray, cs: np.ndarray, w_hh: np.ndarray, b: np.ndarray) -> None:
    """Fill in every h and c (N + rows, H), from what the input adds to the gates (rows, 4H), which become their values.

    steps: the `Steps` of the batch. b: (4H,).
    """
    run(_forward, steps, (hs, cs, gates, b), (w_hh.T,), gates.shape[1])


def backward(
    steps: Any, dh: np.ndarray, dc: np.ndarray, w_hh: np.ndarray, gates: np.ndarray, cells: np.ndarray
) -> np.ndarray:
    """The gradients (rows, 4H) of the gates before their functions; those of the states are completed in dh and dc."""
    grads = np.empty_like(gates)
    nothing = np.zeros(cells.shape[1], np.float32)
    run(_backward, steps, (dh, dc, gates, cells, nothing, grads), (w_hh,), gates.shape[1])
    return grads


@jit
def _forward(
    first, last, offsets, before, reverse, samples, batch, size, hs, cs, gates, b, w, earlier, own, places, origin, depth, tiles,
):  # fmt: skip
    bi, bf, ba, bo = b[:size], b[size : 2 * size], b[2 * size : 3 * size], b[3 * size :]
    for block in range(first, last):
        for k in range(offsets.size - 1):
            low, high = rows_of(block, samples, k, offsets, reverse)
            multiply(hs, earlier, low, high, origin, depth, tiles, w, gates, places, b, False)
            for n in range(low, high):
                at = (batch + n) * size
                old = cs[before[n] * size :]
                cell, now, z = cs[at : at + size], hs[at : at + size], gates[4 * n * size :]
                i, f, a, o = z[:size], z[size : 2 * size], z[2 * size : 3 * size], z[3 * size : 4 * size]
                for j in range(size):
                    i[j] = sigmoid32(i[j] + bi[j])
                for j in range(size):
                    f[j] = sigmoid32(f[j] + bf[j])
                for j in range(size):
                    a[j] = tanh32(a[j] + ba[j])
                for j in range(size):
                    o[j] = sigmoid32(o[j] + bo[j])
                for j in range(size):
                    cell[j] = f[j] * old[j] + i[j] * a[j]
                for j in range(size):
                    now[j] = o[j] * tanh32(cell[j])


@jit
def _backward(
    first, last, offsets, before, reverse, samples, batch, size, dh, dc, gates, cells, nothing, grads, w, earlier, own,
    places, origin, depth, tiles,
):  # fmt: skip
    for block in range(first, last):
        for k in range(offsets.size - 2, -1, -1):
            low, high = rows_of(block, samples, k, offsets, reverse)
            for n in range(low, high):
                at, of = (batch + n) * size, before[n] * size
                g, gc, cell = dh[at : at + size], dc[at : at + size], cells[at : at + size]
                old, old_grad = cells[of : of + size], dc[of : of + size]
                z, gz = gates[4 * n * size :], grads[4 * n * size :]
                i, f, a, o = z[:size], z[size : 2 * size], z[2 * size : 3 * size], z[3 * size : 4 * size]
                gi, gf, ga, go = gz[:size], gz[size : 2 * size], gz[2 * size : 3 * size], gz[3 * size : 4 * size]
                for j in range(size):
                    go[j] = tanh32(cell[j])
                for j in range(size):
                    gc[j] += g[j] * o[j] * (ONE - go[j] * go[j])
                for j in range(size):
                    go[j] *= g[j] * o[j] * (ONE - o[j])
                for j in range(size):
                    gi[j] = gc[j] * a[j] * i[j] * (ONE - i[j])
                    ga[j] = gc[j] * i[j] * (ONE - a[j] * a[j])
                for j in range(size):
                    gf[j] = gc[j] * old[j] * f[j] * (ONE - f[j])
                for j in range(size):
                    old_grad[j] += gc[j] * f[j]
            multiply(grads, places, low, high, origin, depth, tiles, w, dh, earlier, nothing, False)
