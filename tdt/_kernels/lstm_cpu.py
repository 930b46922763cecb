"""The steps of an LSTM in float32 on the CPU: all of them for one block of samples after the other.

Samples do not meet in an LSTM, so threads share them and need not wait for each other at each step. The product of a
block and the recurrent weights is made of `conv`'s register tiles, on weights that are packed once for all steps. The
loops over a row are short and many, since LLVM gives up vectorising one that would have to check more than a few pairs of
arrays for overlap; a row stays in the cache.
"""

from __future__ import annotations

import numpy as np

from tdt._kernels._jit import jit
from tdt._kernels._polynomial import sigmoid32, tanh32
from tdt._kernels._pool import parallel
from tdt._kernels.conv_cpu import GRAIN, PANEL, _packed, _tiles

BLOCK = 16  # samples
ONE = np.float32(1)


def forward(gates: np.ndarray, h: np.ndarray, c: np.ndarray, w_hh: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """Every h and every c (T, N, H), from what the input adds to the gates (T, N, 4H), which become the gates' values.

    b: (4H,).
    """
    steps, batch, _ = gates.shape
    out, cells = np.empty((2, steps, *h.shape), np.float32)
    arrays = gates, np.ascontiguousarray(h), np.ascontiguousarray(c), b, out, cells
    _run(_forward, steps, batch, arrays, w_hh.T)
    return out, cells


def backward(
    g_out: np.ndarray, g_cell: np.ndarray, c: np.ndarray, w_hh: np.ndarray, gates: np.ndarray, cells: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Backpropagation through time: the gradients of the gates before their functions (T, N, 4H), of the first h and c."""
    steps, batch, size = cells.shape
    grads = np.empty_like(gates)
    dh, dc = np.zeros((batch, size), np.float32), np.array(g_cell, order="C")
    nothing = np.zeros(size, np.float32)
    arrays = np.ascontiguousarray(g_out), dh, dc, np.ascontiguousarray(c), gates, cells, nothing, grads
    _run(_backward, steps, batch, arrays, w_hh)
    return grads, dh, dc


def _run(kernel, steps: int, batch: int, arrays: tuple[np.ndarray, ...], w: np.ndarray) -> None:  # noqa: ANN001 - a kernel
    """Call it on all blocks of samples: the arrays flat, then w (inside, outside) packed, and the offsets that tiles take."""
    inside, outside = w.shape
    samples, terms = np.arange(BLOCK), np.arange(inside)
    parallel(
        kernel, -(-batch // BLOCK), steps, batch, min(w.shape), *(a.reshape(-1) for a in arrays),
        _packed(w[None, None]).reshape(-1), samples * inside, samples * outside, terms, terms * PANEL,
        grain=-(-GRAIN // (steps * BLOCK * w.size)),
    )  # fmt: skip


@jit
def _forward(first, last, steps, batch, size, gates, h, c, b, out, cells, w, rows, places, terms, lines):
    bi, bf, ba, bo = b[:size], b[size : 2 * size], b[2 * size : 3 * size], b[3 * size :]
    for block in range(first, last):
        start, count = block * BLOCK, min(BLOCK, batch - block * BLOCK)
        for t in range(steps):
            low = t * batch + start
            earlier = out[(low - batch) * size :] if t else h[start * size :]
            _tiles(
                earlier,
                rows,
                0,
                count,
                terms,
                lines,
                0,
                size,
                w,
                PANEL * size,
                gates[low * 4 * size :],
                places,
                b,
                False,
            )
            for n in range(count):
                at = (low + n) * size
                before = cells[at - batch * size :] if t else c[(start + n) * size :]
                cell, now, z = cells[at : at + size], out[at : at + size], gates[4 * at :]
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
                    cell[j] = f[j] * before[j] + i[j] * a[j]
                for j in range(size):
                    now[j] = o[j] * tanh32(cell[j])


@jit
def _backward(
    first, last, steps, batch, size, g_out, dh, dc, c, gates, cells, nothing, grads, w, rows, places, terms, lines
):
    for block in range(first, last):
        start, count = block * BLOCK, min(BLOCK, batch - block * BLOCK)
        for t in range(steps - 1, -1, -1):
            low = t * batch + start
            for n in range(count):
                at, of = (low + n) * size, (start + n) * size
                g, gh, gc, cell = g_out[at : at + size], dh[of : of + size], dc[of : of + size], cells[at : at + size]
                before = cells[at - batch * size :] if t else c[of:]
                z, gz = gates[4 * at :], grads[4 * at :]
                i, f, a, o = z[:size], z[size : 2 * size], z[2 * size : 3 * size], z[3 * size : 4 * size]
                gi, gf, ga, go = gz[:size], gz[size : 2 * size], gz[2 * size : 3 * size], gz[3 * size : 4 * size]
                for j in range(size):
                    go[j] = tanh32(cell[j])
                for j in range(size):
                    gc[j] += (g[j] + gh[j]) * o[j] * (ONE - go[j] * go[j])
                for j in range(size):
                    go[j] *= (g[j] + gh[j]) * o[j] * (ONE - o[j])
                for j in range(size):
                    gi[j] = gc[j] * a[j] * i[j] * (ONE - i[j])
                    ga[j] = gc[j] * i[j] * (ONE - a[j] * a[j])
                for j in range(size):
                    gf[j] = gc[j] * before[j] * f[j] * (ONE - f[j])
                    gc[j] *= f[j]
            given, target = grads[low * 4 * size :], dh[start * size :]
            _tiles(given, rows, 0, count, terms, lines, 0, 4 * size, w, PANEL * 4 * size, target, places, nothing, True)
