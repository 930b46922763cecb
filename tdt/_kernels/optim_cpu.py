"""Optimizer steps on the CPU: one call updates a whole parameter group, each array read and written once.

The formulas are those of `_change` and `_whole_change` in tdt/optim, where their names are explained, one operation after the
other: no product is fused with a sum, so that the kernels have the bits of NumPy's arithmetic. Which code runs depends on the
options and on which numbers are 0 (tapes rely on that, `tdt.optim._recorded`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._launches import note
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel
from tdt._kernels._table import BLOCK, Table

GRAIN = 4  # blocks a thread should at least have: about 10 µs of work, the price of waking it
WORDS = "pqqpqp"  # a table's rows, how many, words of a row, the numbers of rows, those from a row to the next, the settings
Values = list[Value]


def sgd(
    table: Table, numbers: np.ndarray, *, lr: float, momentum: float, weight_decay: float, nesterov: bool,
    maximize: bool, **options: Any,
) -> None:  # fmt: skip
    """One step of stochastic gradient descent. Columns of `table`: parameter, gradient, momentum buffer.

    numbers: float64 (rows, 1 or more), first how much of the gradient enters the buffer. Without momentum no buffer is
    read.
    """
    _run(
        _sgd, table, numbers, [lr, momentum, weight_decay, _sign(maximize)], momentum != 0, nesterov, weight_decay != 0
    )


def moments(
    table: Table, numbers: np.ndarray, *, lr: float, betas: tuple[float, float], weight_decay: float,
    maximize: bool, decoupled_weight_decay: bool, amsgrad: bool = False, **options: Any,
) -> None:  # fmt: skip
    """One step of Adam and its relatives. Columns of `table`: parameter, gradient, both moments, largest second moment.

    numbers: float64 (rows, 4), those of `tdt.optim._moments`.
    """
    decay = lr * weight_decay if decoupled_weight_decay else weight_decay
    settings = [1 - betas[0], betas[1], 1 - betas[1], decay, _sign(maximize)]
    how = "none" if weight_decay == 0 else "decoupled" if decoupled_weight_decay else "added"
    _run(_moments, table, numbers, settings, how, amsgrad, any(numbers[:, 1].tolist()))


def adagrad(
    table: Table, numbers: np.ndarray, *, eps: float, weight_decay: float, maximize: bool, **options: Any
) -> None:
    """One step of Adagrad. Columns of `table`: parameter, gradient, sum of squares. numbers: float64 (rows, 1), rates."""
    _run(_adagrad, table, numbers, [eps, weight_decay, _sign(maximize)], weight_decay != 0)


def rmsprop(
    table: Table, numbers: np.ndarray, *, lr: float, alpha: float, eps: float, weight_decay: float,
    momentum: float, maximize: bool, **options: Any,
) -> None:  # fmt: skip
    """One step of RMSprop, not centered. Columns of `table`: parameter, gradient, mean of squares, momentum's buffer.

    Without momentum no buffer is read.
    """
    settings = [alpha, 1 - alpha, eps, -lr, momentum, weight_decay, _sign(maximize)]
    _run(_rmsprop, table, numbers, settings, momentum > 0, weight_decay != 0)


def adamax(
    table: Table, numbers: np.ndarray, *, betas: tuple[float, float], eps: float, weight_decay: float,
    maximize: bool, **options: Any,
) -> None:  # fmt: skip
    """One step of Adamax. Columns of `table`: parameter, gradient, first moment, norm. numbers: (rows, 1), rates."""
    settings = [1 - betas[0], betas[1], eps, weight_decay, _sign(maximize)]
    _run(_adamax, table, numbers, settings, weight_decay != 0)


def _sign(maximize: bool) -> float:
    return -1.0 if maximize else 1.0


def _run(write: Callable[..., Any], table: Table, numbers: np.ndarray, settings: list[float], *how: Any) -> None:
    launched = table.launched
    if launched is None or launched[0] is not numbers or launched[1] != (write, how):
        kernel = write("float" if table.like.dtype == np.float32 else "double", vector_width(), *how)
        step = numbers.shape[1] if len(numbers) > 1 else 0  # one row is that of all
        arguments = table.rows, *table.rows.shape, numbers, step, np.array(settings)
        table.launched = launched = numbers, (write, how), kernel, arguments, *kernel.prepare(arguments)
    *_, kernel, arguments, entry, words = launched
    arguments[-1][...] = settings
    if not table.launches:
        note(entry, words, table.blocks, GRAIN, kernel, arguments, table.columns)
    elif table.blocks < 2 * GRAIN:
        entry.call(words, 0, table.blocks)
    else:
        parallel(kernel, table.blocks, *arguments, grain=GRAIN)


def _update(
    code: Code, first: Value, last: Value, arguments: Values, kind: str, width: int, sizes: tuple[int, int, int],
    step: Callable[[Values, Values, Value, Value, Values], Values],
) -> None:  # fmt: skip
    """Blocks [first, last) of a table's rows.

    Args:
        sizes: how many settings, numbers of a row and arrays of state there are.
        step: gives a parameter and its state after the step: of the settings, the row's numbers, parameter, gradient, state.
    """
    rows, count, words, numbers, columns, hyper = arguments
    settings = [code.cast(code.load("double", hyper, k), kind) for k in range(sizes[0])]
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
        addresses = [code.load("i64", rows, row * words + k) + SIZES[kind] * start for k in range(2 + sizes[2])]
        p, g, *state = (code.cast(address, "ptr") for address in addresses)
        own = [code.cast(code.load("double", numbers, row * columns + k), kind) for k in range(sizes[1])]

        def update(i: Value, lanes: int) -> None:
            values = [code.load(kind, array, i, lanes) for array in (p, g, *state)]
            spread = [[code.splat(value, lanes) for value in group] for group in (settings, own)]
            for array, value in zip((p, *state), step(*spread, values[0], values[1], values[2:]), strict=True):
                code.store(value, array, i)

        whole = size - size % width
        with code.loop(0, whole, width) as i:
            update(i, width)
        with code.loop(whole, size) as i:
            update(i, 0)


@native(WORDS, vectorize=False)
def _sgd(code: Code, first: Value, last: Value, arguments: Values, kind: str, width: int, moving: bool, nesterov: bool,
         decaying: bool) -> None:  # fmt: skip
    def step(settings: Values, numbers: Values, p: Value, g: Value, state: Values) -> Values:
        (lr, momentum, decay, sign), (enters,) = settings, numbers
        g = sign * g
        g = g + decay * p if decaying else g
        state = [momentum * buffer + enters * g for buffer in state]
        for buffer in state:
            g = g + momentum * buffer if nesterov else buffer
        return [p - lr * g, *state]

    _update(code, first, last, arguments, kind, width, (4, 1, int(moving)), step)


@native(WORDS, vectorize=False)
def _moments(code: Code, first: Value, last: Value, arguments: Values, kind: str, width: int, decaying: str, amsgrad: bool,
             both: bool) -> None:  # fmt: skip
    """decaying: "none", "added" to the gradient, or "decoupled". both: whether the gradient enters the step beside its mean."""

    def step(settings: Values, numbers: Values, p: Value, g: Value, state: Values) -> Values:
        (enter, keep, enter_square, decay, sign), (a, b, e, divided), (m, v, *top) = settings, numbers, state
        g = sign * g
        g = g + p * decay if decaying == "added" else g
        m = m + enter * (g - m)
        v = keep * v + enter_square * g * g
        top = [_larger(code, most, v) for most in top]
        change = a * m
        if both:
            change = code.select(b != 0.0, change + b * g, change)
        root = code.call("sqrt", top[0] if top else v) + e
        change = change / code.select(divided != 0.0, root, 1.0)
        change = change - p * decay if decaying == "decoupled" else change
        return [p + change, m, v, *top]

    _update(code, first, last, arguments, kind, width, (5, 4, 2 + amsgrad), step)


@native(WORDS, vectorize=False)
def _adagrad(code: Code, first: Value, last: Value, arguments: Values, kind: str, width: int, decaying: bool) -> None:
    def step(settings: Values, numbers: Values, p: Value, g: Value, state: Values) -> Values:
        (eps, decay, sign), (rate,), (total,) = settings, numbers, state
        g = sign * g
        g = g + p * decay if decaying else g
        total = total + g * g
        return [p + rate * g / (code.call("sqrt", total) + eps), total]

    _update(code, first, last, arguments, kind, width, (3, 1, 1), step)


@native(WORDS, vectorize=False)
def _rmsprop(code: Code, first: Value, last: Value, arguments: Values, kind: str, width: int, moving: bool,
             decaying: bool) -> None:  # fmt: skip
    def step(settings: Values, numbers: Values, p: Value, g: Value, state: Values) -> Values:
        (alpha, enter, eps, rate, momentum, decay, sign), (v, *buffers) = settings, state
        g = sign * g
        g = g + p * decay if decaying else g
        v = v * alpha + enter * g * g
        d = g / (code.call("sqrt", v) + eps)
        buffers = [buffer * momentum + d for buffer in buffers]
        return [p + rate * (buffers[0] if buffers else d), v, *buffers]

    _update(code, first, last, arguments, kind, width, (7, 0, 1 + moving), step)


@native(WORDS, vectorize=False)
def _adamax(code: Code, first: Value, last: Value, arguments: Values, kind: str, width: int, decaying: bool) -> None:
    def step(settings: Values, numbers: Values, p: Value, g: Value, state: Values) -> Values:
        (enter, beta2, eps, decay, sign), (rate,), (m, u) = settings, numbers, state
        g = sign * g
        g = g + p * decay if decaying else g
        m = m + enter * (g - m)
        u = _larger(code, beta2 * u, code.call("fabs", g) + eps)
        return [p + rate * m / u, m, u]

    _update(code, first, last, arguments, kind, width, (5, 1, 2), step)


def _larger(code: Code, a: Value, b: Value) -> Value:
    """The larger of two numbers; NaN where one of them is."""
    return code.select((a >= b) | (a != a), a, b)
