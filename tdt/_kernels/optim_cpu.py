"""Optimizer steps on the CPU: one call updates a whole parameter group, each array read and written once.

The formulas are those of `_change` and `_whole_change` in tdt/optim, where their names are explained. They are written out
here once more: machine code fuses multiplications with additions and rounds each pair once, where NumPy rounds twice, so one
function for both would change bits or forbid the fusing. So would a helper for the lines that the kernels share: inlined,
they are fused in other pairs. tests/_kernels/test_optim_cpu.py compares kernels and formulas.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._intrinsics import array_at
from tdt._kernels._jit import jit
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel
from tdt._kernels._table import BLOCK, Table

GRAIN = 4  # blocks a thread should at least have: about 10 µs of work, the price of waking it


def sgd(
    table: Table,
    numbers: np.ndarray,
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    **options: Any,
) -> None:
    """One step of stochastic gradient descent. Columns of `table`: parameter, gradient, momentum buffer.

    numbers: float64 (rows, 1 or more), first how much of the gradient enters the buffer. Without momentum no buffer is
    read.
    """
    hyper = np.array([lr, momentum, weight_decay, -1.0 if maximize else 1.0])
    kind = "float" if table.like.dtype == np.float32 else "double"
    kernel = _sgd(kind, momentum != 0, nesterov and momentum != 0, weight_decay != 0, vector_width())
    parallel(kernel, table.blocks, table.rows, *table.rows.shape, numbers, numbers.shape[1], hyper, grain=GRAIN)


def moments(
    table: Table,
    numbers: np.ndarray,
    *,
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    maximize: bool,
    decoupled_weight_decay: bool,
    amsgrad: bool = False,
    **options: Any,
) -> None:
    """One step of Adam and its relatives. Columns of `table`: parameter, gradient, both moments, largest second moment.

    numbers: float64 (rows, 4), those of `tdt.optim._moments`.
    """
    decay, keep = (0.0, 1 - lr * weight_decay) if decoupled_weight_decay else (weight_decay, 1.0)
    hyper = np.array([betas[1], 1 - betas[0], 1 - betas[1], decay, keep, -1.0 if maximize else 1.0])
    kernel = _moments_amsgrad if amsgrad else _moments
    parallel(kernel, table.blocks, table.rows, table.like, numbers, hyper, grain=GRAIN)


def adagrad(
    table: Table, numbers: np.ndarray, *, eps: float, weight_decay: float, maximize: bool, **options: Any
) -> None:
    """One step of Adagrad. Columns of `table`: parameter, gradient, sum of squares. numbers: float64 (rows, 1), rates."""
    hyper = np.array([1.0, 1.0, eps, weight_decay, -1.0 if maximize else 1.0, 0.0])
    parallel(_scaled, table.blocks, table.rows, table.like, numbers, hyper, False, grain=GRAIN)


def rmsprop(
    table: Table,
    numbers: np.ndarray,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    maximize: bool,
    **options: Any,
) -> None:
    """One step of RMSprop, not centered. Columns of `table`: parameter, gradient, mean of squares, momentum's buffer.

    Without momentum no buffer is read.
    """
    hyper = np.array([alpha, 1 - alpha, eps, weight_decay, -1.0 if maximize else 1.0, momentum])
    rates = np.full((len(numbers), 1), -lr)
    parallel(_scaled, table.blocks, table.rows, table.like, rates, hyper, momentum > 0, grain=GRAIN)


def adamax(
    table: Table,
    numbers: np.ndarray,
    *,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    maximize: bool,
    **options: Any,
) -> None:
    """One step of Adamax. Columns of `table`: parameter, gradient, first moment, norm. numbers: (rows, 1), rates."""
    hyper = np.array([1 - betas[0], betas[1], eps, weight_decay, -1.0 if maximize else 1.0])
    parallel(_adamax, table.blocks, table.rows, table.like, numbers, hyper, grain=GRAIN)


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


@native("pqqpqp", vectorize=False)
def _sgd(code: Code, first: Value, last: Value, arguments: list[Value], kind: str, moving: bool, nesterov: bool, decaying: bool,
         width: int) -> None:  # fmt: skip
    """Blocks [first, last) of a table's rows, `words` long. No product is fused with a sum: NumPy's formulas give these bits."""
    rows, count, words, numbers, columns, hyper = arguments
    settings = [code.cast(code.load("double", hyper, k), kind) for k in range(4)]
    with code.loop(first, last) as block:
        low, high = code.variable("i64", 0), code.variable("i64", count)
        with code.forever() as leave:  # the row that the block belongs to
            leave(high.get() - low.get() <= 1)
            middle = (low.get() + high.get()) // 2
            before = code.load("i64", rows, middle * words + words - 1) <= block
            code.choose(before, lambda: low.set(middle), lambda: high.set(middle))
        row = low.get()
        start = (block - code.load("i64", rows, row * words + words - 1)) * BLOCK
        size = code.minimum(code.load("i64", rows, row * words + words - 2) - start, BLOCK)
        arrays = [code.load("i64", rows, row * words + k) + SIZES[kind] * start for k in range(2 + moving)]
        p, g, *buffers = (code.cast(array, "ptr") for array in arrays)
        fraction = code.cast(code.load("double", numbers, row * columns), kind)

        def step(i: Value, lanes: int) -> None:
            lr, momentum, decay, sign, enters = (code.splat(value, lanes) for value in (*settings, fraction))
            old, d = code.load(kind, p, i, lanes), sign * code.load(kind, g, i, lanes)
            if decaying:
                d = d + decay * old
            for buffer in buffers:
                moved = momentum * code.load(kind, buffer, i, lanes) + enters * d
                code.store(moved, buffer, i)
                d = d + momentum * moved if nesterov else moved
            code.store(old - lr * d, p, i)

        whole = size - size % width
        with code.loop(0, whole, width) as i:
            step(i, width)
        with code.loop(whole, size) as i:
            step(i, 0)


@jit
def _moments(first, last, rows, like, numbers, hyper):
    kind = like.dtype.type
    beta2, one_minus_beta1, one_minus_beta2 = kind(hyper[0]), kind(hyper[1]), kind(hyper[2])
    decay, keep, sign, one = kind(hyper[3]), kind(hyper[4]), kind(hyper[5]), kind(1)
    for block in range(first, last):
        row = _row_of(rows, block)
        a, b, e, divided = kind(numbers[row, 0]), kind(numbers[row, 1]), kind(numbers[row, 2]), numbers[row, 3] != 0
        p, g = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like)
        m, v = _part(rows, row, 2, block, like), _part(rows, row, 3, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            m[i] += one_minus_beta1 * (d - m[i])
            v[i] = beta2 * v[i] + one_minus_beta2 * d * d
            step = a * m[i]
            if b != 0:
                step += b * d
            p[i] = keep * p[i] + step / (math.sqrt(v[i]) + e if divided else one)


@jit
def _moments_amsgrad(first, last, rows, like, numbers, hyper):
    kind = like.dtype.type
    beta2, one_minus_beta1, one_minus_beta2 = kind(hyper[0]), kind(hyper[1]), kind(hyper[2])
    decay, keep, sign = kind(hyper[3]), kind(hyper[4]), kind(hyper[5])
    for block in range(first, last):
        row = _row_of(rows, block)
        a, e = kind(numbers[row, 0]), kind(numbers[row, 2])
        p, g = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like)
        m, v, top = _part(rows, row, 2, block, like), _part(rows, row, 3, block, like), _part(rows, row, 4, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            m[i] += one_minus_beta1 * (d - m[i])
            v[i] = beta2 * v[i] + one_minus_beta2 * d * d
            top[i] = top[i] if top[i] >= v[i] or top[i] != top[i] else v[i]  # NaN in either stays
            p[i] = keep * p[i] + a * m[i] / (math.sqrt(top[i]) + e)


@jit
def _scaled(first, last, rows, like, numbers, hyper, moving):
    """p = p + rate · d of d = g / (√v + eps), or its momentum, after v = keep · v + enter · g²."""
    kind = like.dtype.type
    keep, enter, eps = kind(hyper[0]), kind(hyper[1]), kind(hyper[2])
    decay, sign, momentum = kind(hyper[3]), kind(hyper[4]), kind(hyper[5])
    for block in range(first, last):
        row = _row_of(rows, block)
        rate = kind(numbers[row, 0])
        p, g, v = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like), _part(rows, row, 2, block, like)
        buffer = _part(rows, row, 3 if moving else 2, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            v[i] = keep * v[i] + enter * d * d
            d /= math.sqrt(v[i]) + eps
            if moving:
                d += momentum * buffer[i]
                buffer[i] = d
            p[i] += rate * d


@jit
def _adamax(first, last, rows, like, numbers, hyper):
    kind = like.dtype.type
    one_minus_beta1, beta2, eps, decay, sign = (
        kind(hyper[0]),
        kind(hyper[1]),
        kind(hyper[2]),
        kind(hyper[3]),
        kind(hyper[4]),
    )
    for block in range(first, last):
        row = _row_of(rows, block)
        rate = kind(numbers[row, 0])
        p, g = _part(rows, row, 0, block, like), _part(rows, row, 1, block, like)
        m, u = _part(rows, row, 2, block, like), _part(rows, row, 3, block, like)
        for i in range(p.size):
            d = sign * g[i]
            if decay != 0:
                d += decay * p[i]
            m[i] += one_minus_beta1 * (d - m[i])
            old, new = beta2 * u[i], abs(d) + eps
            u[i] = old if old >= new or old != old else new  # NaN in either stays
            p[i] += rate * m[i] / u[i]
