"""The gradient of an embedding on the CPU: rows added to those of the table that they were taken from."""

from __future__ import annotations

import numpy as np

from tdt._kernels._jit import jit
from tdt._kernels._layout import check_indices
from tdt._kernels._pool import parallel

BLOCK = 64  # columns: each block walks through all rows, so that the sums have the order of the indices
GRAIN = 1 << 15  # elements a thread should at least add: about 10 µs


def embedding_grad(
    y: np.ndarray, indices: np.ndarray, *, rows: int, padding_idx: int | None, by_frequency: bool
) -> np.ndarray:
    """The op `embedding_grad` for y (*indices, D); bit for bit the portable result."""
    columns = y.shape[-1]
    grad = np.zeros((rows, columns), y.dtype)
    which = np.ascontiguousarray(indices, np.int64).reshape(-1)
    check_indices(which, rows)
    grain = -(-GRAIN // (min(columns, BLOCK) * which.size))
    parallel(_add_rows, -(-columns // BLOCK), np.ascontiguousarray(y).reshape(-1, columns), which, grad, grain=grain)
    if padding_idx is not None:
        grad[padding_idx] = 0
    return grad


@jit
def _add_rows(first, last, y, which, grad):
    for i in range(which.size):
        g_row, target = y[i, first * BLOCK : last * BLOCK], grad[which[i], first * BLOCK : last * BLOCK]
        for j in range(g_row.size):
            target[j] += g_row[j]
