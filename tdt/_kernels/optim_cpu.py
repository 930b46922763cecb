"""Optimizer steps on the CPU: one call updates a whole parameter group, each array read and written once.

The update rules and their names are those of `tdt.optim`; what they mean is said there.
"""

from __future__ import annotations

import math

import numpy as np

from tdt._kernels._intrinsics import array_at
from tdt._kernels._jit import jit
from tdt._kernels._pool import parallel
from tdt._kernels._table import BLOCK, Table

GRAIN = 4  # blocks a thread should at least have: about 10 µs of work, the price of waking it


def sgd(
    table: Table,
    fractions: np.ndarray,
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of stochastic gradient descent. Columns of `table`: parameter, gradient, momentum buffer.

    fractions: float64 per row, how much of the gradient enters the buffer. Without momentum no buffer is read.
    """
    hyper = np.array([lr, momentum, weight_decay, -1.0 if maximize else 1.0])
    kernel = _sgd_plain if momentum == 0 else _sgd_momentum
    parallel(kernel, table.blocks, table.rows, table.like, fractions, hyper, nesterov, grain=GRAIN)


def adam(
    table: Table,
    corrections: np.ndarray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    amsgrad: bool,
    maximize: bool,
) -> None:
    """One step of Adam or AdamW. Columns of `table`: parameter, gradient, both moments, largest second moment.

    corrections: float64 (rows, 2), the bias corrections `1 - beta ** step` of both moments.
    """
    scales = np.empty_like(corrections)
    scales[:, 0] = -lr / corrections[:, 0]
    scales[:, 1] = np.sqrt(corrections[:, 1])
    hyper = np.array([
        beta2, 1 - beta1, 1 - beta2, eps,
        0.0 if decoupled else weight_decay, 1 - lr * weight_decay if decoupled else 1.0, -1.0 if maximize else 1.0,
    ])  # fmt: skip
    kernel = _adam_amsgrad if amsgrad else _adam
    parallel(kernel, table.blocks, table.rows, table.like, scales, hyper, grain=GRAIN)


@jit
def _row_of(rows, block):
    """The row that `block` belongs to."""
    low, high = 0, rows.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if rows[middle, -1] <= block:
            low = middle
        else:
            high = middle
    return low


@jit
def _part(rows, row, column, block, like):
    """The elements of one block of one array."""
    start = (block - rows[row, -1]) * BLOCK
    size = min(BLOCK, rows[row, -2] - start)
    return array_at(rows[row, column] + start * like.itemsize, size, like)


@jit
def _sgd_plain(first, last, rows, like, fractions, hyper, nesterov):
    kind = like.dtype.type
    lr, decay, sign = kind(hyper[0]), kind(hyper[2]), kind(hyper[3])
    for block in range(first, last):
        row = _row_of(rows, block)
        p, g = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            p[i] -= lr * d


@jit
def _sgd_momentum(first, last, rows, like, fractions, hyper, nesterov):
    kind = like.dtype.type
    lr, momentum, decay, sign = kind(hyper[0]), kind(hyper[1]), kind(hyper[2]), kind(hyper[3])
    for block in range(first, last):
        row = _row_of(rows, block)
        fraction = kind(fractions[row])
        p, g, b = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like), _part(rows, row, 2, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            b[i] = momentum * b[i] + fraction * d
            p[i] -= lr * (d + momentum * b[i] if nesterov else b[i])


@jit
def _adam(first, last, rows, like, scales, hyper):
    kind = like.dtype.type
    beta2, rest1, rest2, eps = kind(hyper[0]), kind(hyper[1]), kind(hyper[2]), kind(hyper[3])
    decay, keep, sign = kind(hyper[4]), kind(hyper[5]), kind(hyper[6])
    for block in range(first, last):
        row = _row_of(rows, block)
        rate, root = kind(scales[row, 0]), kind(scales[row, 1])
        p, g = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like)
        m, v = _part(rows, row, 2, block, like), _part(rows, row, 3, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            m[i] += rest1 * (d - m[i])
            v[i] = beta2 * v[i] + rest2 * d * d
            p[i] = keep * p[i] + rate * m[i] / (math.sqrt(v[i]) / root + eps)


@jit
def _adam_amsgrad(first, last, rows, like, scales, hyper):
    kind = like.dtype.type
    beta2, rest1, rest2, eps = kind(hyper[0]), kind(hyper[1]), kind(hyper[2]), kind(hyper[3])
    decay, keep, sign = kind(hyper[4]), kind(hyper[5]), kind(hyper[6])
    for block in range(first, last):
        row = _row_of(rows, block)
        rate, root = kind(scales[row, 0]), kind(scales[row, 1])
        p, g = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like)
        m, v, top = _part(rows, row, 2, block, like), _part(rows, row, 3, block, like), _part(rows, row, 4, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            m[i] += rest1 * (d - m[i])
            v[i] = beta2 * v[i] + rest2 * d * d
            top[i] = top[i] if top[i] >= v[i] or top[i] != top[i] else v[i]  # NaN in either stays
            p[i] = keep * p[i] + rate * m[i] / (math.sqrt(top[i]) / root + eps)
