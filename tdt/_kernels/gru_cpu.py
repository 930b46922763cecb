"""The steps of a GRU in float32 on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels._jit import jit
from tdt._kernels._polynomial import sigmoid32, tanh32
from tdt._kernels._recurrent import multiply, rows_of, run

ONE = np.float32(1)


def forward(
    steps: Any,
    gates: np.ndarray,
    hs: np.ndarray,
    passed: np.ndarray,
    w_hh: np.ndarray,
    b_ih: np.ndarray,
    b_hh: np.ndarray,
) -> None:
    """Fill in every h (N + rows, H) and what h W + b passes on to n (rows, H); the gates (rows, 3H) get their values.

    steps: the `Steps` of the batch. b_ih, b_hh: the biases (3H,) of the input and of h.
    """
    size = hs.shape[1]
    b = b_ih.copy()
    b[: 2 * size] += b_hh[: 2 * size]
    arrays = hs, passed, gates, b, np.ascontiguousarray(b_hh[2 * size :])
    run(_forward, steps, arrays, (w_hh[: 2 * size].T, w_hh[2 * size :].T), gates.shape[1])


def backward(
    steps: Any, dh: np.ndarray, w_hh: np.ndarray, gates: np.ndarray, passed: np.ndarray, h: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """The gradients (rows, 4H) of n, r, z and of the part of n from h; those of the states are completed in dh."""
    rows, size = passed.shape
    grads = np.empty((rows, 4 * size), np.float32)
    arrays = dh, np.concatenate([h, out]), gates, passed, np.zeros(size, np.float32), grads
    run(_backward, steps, arrays, (w_hh,), grads.shape[1])
    return grads


@jit
def _forward(
    first, last, offsets, before, reverse, samples, batch, size, hs, passed, gates, b, own, w_rz, w_n, earlier, places_n,
    places, origin, depth, tiles,
):  # fmt: skip
    br, bz, bn = b[:size], b[size : 2 * size], b[2 * size :]
    for block in range(first, last):
        for k in range(offsets.size - 1):
            low, high = rows_of(block, samples, k, offsets, reverse)
            both = b[: 2 * size]
            multiply(hs, earlier, low, high, origin, depth, tiles, w_rz, gates, places, both, False)
            multiply(hs, earlier, low, high, origin, depth, tiles, w_n, passed, places_n, own, True)
            for row in range(low, high):
                at = (batch + row) * size
                old, now, from_h = hs[before[row] * size :], hs[at : at + size], passed[row * size : (row + 1) * size]
                all_gates = gates[3 * row * size :]
                r, z, n = all_gates[:size], all_gates[size : 2 * size], all_gates[2 * size : 3 * size]
                for j in range(size):
                    r[j] = sigmoid32(r[j] + br[j])
                for j in range(size):
                    z[j] = sigmoid32(z[j] + bz[j])
                for j in range(size):
                    n[j] = tanh32(n[j] + bn[j] + r[j] * from_h[j])
                for j in range(size):
                    now[j] = n[j] + z[j] * (old[j] - n[j])


@jit
def _backward(
    first, last, offsets, before, reverse, samples, batch, size, dh, hs, gates, passed, nothing, grads, w, earlier,
    places_n, places, origin, depth, tiles,
):  # fmt: skip
    for block in range(first, last):
        for k in range(offsets.size - 2, -1, -1):
            low, high = rows_of(block, samples, k, offsets, reverse)
            for row in range(low, high):
                at, of = (batch + row) * size, before[row] * size
                g, old_grad, old, from_h = dh[at : at + size], dh[of : of + size], hs[of:], passed[row * size :]
                z3, g4 = gates[3 * row * size :], grads[4 * row * size :]
                r, z, n = z3[:size], z3[size : 2 * size], z3[2 * size : 3 * size]
                gn, gr, gz, gp = g4[:size], g4[size : 2 * size], g4[2 * size : 3 * size], g4[3 * size : 4 * size]
                for j in range(size):
                    gz[j] = g[j] * (old[j] - n[j]) * z[j] * (ONE - z[j])
                for j in range(size):
                    gn[j] = g[j] * (ONE - z[j]) * (ONE - n[j] * n[j])
                for j in range(size):
                    gp[j] = gn[j] * r[j]
                for j in range(size):
                    gr[j] = gp[j] * from_h[j] * (ONE - r[j])
                for j in range(size):
                    old_grad[j] += g[j] * z[j]
            multiply(grads[size:], places, low, high, origin, depth, tiles, w, dh, earlier, nothing, False)
