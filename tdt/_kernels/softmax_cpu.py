"""Softmax, its logarithm, cross-entropy and their gradients over rows of float32 on the CPU.

A row is read again while the cache still holds it, so each array passes through memory once. NaN, +inf, and a row of
nothing but -inf give NaN in the whole row, as inf - inf and the sum do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tdt._kernels import functions
from tdt._kernels._code import Code, Value, Variable
from tdt._kernels._emit import inline
from tdt._kernels._exponential import exp_of_negative, log_from_1
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._layout import check_indices
from tdt._kernels._rows import (
    LANES,
    across,
    by_length,
    contiguous,
    fma,
    for_each,
    larger,
    largest,
    load,
    row_function,
    store,
    summed,
)
from tdt._kernels._threads import THREADS

ONCE = (LANES,)  # for sums of exponentials, each of which takes many registers


def softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """exp(x) scaled to sum to 1 over the last dimension."""
    return _softmax()(contiguous(x))


def ufunc(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """NumPy's function of contiguous arrays that "softmax" or "log_softmax" calls on one thread."""
    return (_softmax if name == "softmax" else _log_softmax)().small


def log_softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """The logarithm of `softmax`."""
    return _log_softmax()(contiguous(x))


def softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The gradient of a loss in x, from `g`, that in softmax's result `out`."""
    return _softmax_grad()(contiguous(g), contiguous(out))


def log_softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The same for the logarithm."""
    return _log_softmax_grad()(contiguous(g), contiguous(out))


def cross_entropy(x: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For rows x (N, C) and classes t (N,): the losses, exp(x - the row's maximum), and its sums over rows."""
    return _cross_entropy()(contiguous(x), t)


def cross_entropy_vjp(exps: np.ndarray, sums: np.ndarray, t: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The gradient in x, from the losses' gradients `scale` (N,) or ()."""
    check_indices(t, exps.shape[1])
    return _cross_entropy_grad()(contiguous(exps), sums, t, scale)


def mean_cross_entropy(x: np.ndarray, t: np.ndarray, *, mean: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The sum or the mean of the losses of `cross_entropy`, and what the gradient needs; None where a class is out of range."""
    x, t = contiguous(x), contiguous(t)
    if x.size < THREADS.elementwise:
        _, exps, sums, loss, wrong = _small_cross_entropy("flffffl", mean)(x, t)
        return None if wrong else (loss, exps, sums)
    if _count_outside("lll")(t, x.shape[1]):
        return None
    losses, exps, sums = _cross_entropy()(x, t)
    return _mean_of("ff", mean)(losses), exps, sums


def mean_cross_entropy_vjp(
    exps: np.ndarray, sums: np.ndarray, t: np.ndarray, g: np.ndarray, *, mean: bool
) -> np.ndarray:
    """The gradient in x, from the gradient `g` of the sum or the mean of the losses."""
    if exps.size < THREADS.elementwise:
        grad, wrong = _small_cross_entropy_grad("fflffl", mean)(exps, sums, t, g)
        if not wrong:
            return grad
    return cross_entropy_vjp(exps, sums, t, g / g.dtype.type(len(t)) if mean else g)


def _exponentials(code: Code, x: Value, n: Value, out: Value | None = None) -> tuple[Value, Value]:
    """A row's maximum, and the sum of exp(x - maximum); these numbers are written to `out`."""
    top = largest(code, n, x)
    shift = code.splat(top, LANES)

    def terms(i: Value, count: int, mask: Value | None) -> tuple[Value]:
        e = inline(code, exp_of_negative, load(code, x, i, mask) - shift)
        if out is not None:
            store(code, e, out, i, mask)
        return (e if mask is None else code.select(mask, e, 0.0),)

    return top, summed(code, n, 1, terms, ONCE)[0]


def _log(code: Code, x: Value) -> Value:
    """The natural logarithm of a float64 number from 1 on, as float32."""
    return inline(code, log_from_1, code.cast(x, "float"))


def _short_exponentials(code: Code, x: Value, mask: Value) -> tuple[Value, Value, Value, Value]:
    """Of a row of one vector: the elements less their maximum, the exponentials, their sum, the maximum."""
    values = load(code, x, 0, mask, other=-math.inf)
    top = across(code, values, larger)
    values = values - code.splat(top, LANES)
    e = code.select(mask, inline(code, exp_of_negative, values), 0.0)
    return values, e, code.cast(across(code, e), "double"), top


def _short_cross_entropy(code: Code, pointers: list[Value], n: Value, mask: Value) -> None:
    x, t, loss, exps, sums = pointers
    _, e, total, top = _short_exponentials(code, x, mask)
    store(code, e, exps, 0, mask)
    _finish_cross_entropy(code, top, total, x, t, loss, sums)


def _short_softmax(code: Code, pointers: list[Value], n: Value, mask: Value) -> None:
    x, out = pointers
    _, e, total, _ = _short_exponentials(code, x, mask)
    store(code, e * _inverse(code, total), out, 0, mask)


def _short_log_softmax(code: Code, pointers: list[Value], n: Value, mask: Value) -> None:
    x, out = pointers
    values, _, total, _ = _short_exponentials(code, x, mask)
    store(code, values - code.splat(_log(code, total), LANES), out, 0, mask)


def _short_softmax_grad(code: Code, pointers: list[Value], n: Value, mask: Value) -> None:
    # In double precision: of few classes the difference may be much smaller than its terms.
    g, out = [code.cast(load(code, pointer, 0, mask), "double") for pointer in pointers[:2]]
    slope = out * (g - code.splat(across(code, g * out), LANES))
    store(code, code.cast(slope, "float"), pointers[2], 0, mask)


def _inverse(code: Code, total: Value) -> Value:
    return code.splat(code.cast(code.value(1.0, "double") / total, "float"), LANES)


@row_function("(n)->(n)", "ff")
@by_length(_short_softmax)
def _softmax(code: Code, pointers: list[Value], n: Value) -> None:
    x, out = pointers
    _, total = _exponentials(code, x, n, out)
    share = _inverse(code, total)
    for_each(code, n, lambda i, mask: store(code, load(code, out, i, mask) * share, out, i, mask))


@row_function("(n)->(n)", "ff")
@by_length(_short_log_softmax)
def _log_softmax(code: Code, pointers: list[Value], n: Value) -> None:
    x, out = pointers
    top, total = _exponentials(code, x, n)
    shift, log = code.splat(top, LANES), code.splat(_log(code, total), LANES)
    # Twice subtracted, as shift + log would be rounded.
    for_each(code, n, lambda i, mask: store(code, load(code, x, i, mask) - shift - log, out, i, mask))


@row_function("(n),(n)->(n)", "fff")
@by_length(_short_softmax_grad)
def _softmax_grad(code: Code, pointers: list[Value], n: Value) -> None:
    g, out, grad = pointers
    terms = lambda i, count, mask: (load(code, g, i, mask, count) * load(code, out, i, mask, count),)  # noqa: E731
    total = code.splat(code.cast(summed(code, n, 1, terms)[0], "float"), LANES)

    def write(i: Value, mask: Value | None) -> None:
        store(code, load(code, out, i, mask) * (load(code, g, i, mask) - total), grad, i, mask)

    for_each(code, n, write)


@row_function("(n),(n)->(n)", "fff")
def _log_softmax_grad(code: Code, pointers: list[Value], n: Value) -> None:
    g, out, grad = pointers
    total = summed(code, n, 1, lambda i, count, mask: (load(code, g, i, mask, count),))[0]
    less = code.splat(code.value(0.0, "float") - code.cast(total, "float"), LANES)

    def write(i: Value, mask: Value | None) -> None:
        e = inline(code, functions.exp, load(code, out, i, mask))
        store(code, fma(code, e, less, load(code, g, i, mask)), grad, i, mask)

    for_each(code, n, write)


@by_length(_short_cross_entropy)
def _cross_entropy_row(code: Code, pointers: list[Value], n: Value) -> None:
    x, t, loss, exps, sums = pointers
    top, total = _exponentials(code, x, n, exps)
    _finish_cross_entropy(code, top, total, x, t, loss, sums)


def _finish_cross_entropy(code: Code, top: Value, total: Value, x: Value, t: Value, loss: Value, sums: Value) -> None:
    right = code.load("float", x, code.load("i64", t))
    code.store(_log(code, total) - (right - top), loss)
    code.store(code.cast(total, "float"), sums)


_cross_entropy = row_function("(n),()->(),(n),()", "flfff")(_cross_entropy_row)


def _cross_entropy_grad_row(code: Code, pointers: list[Value], n: Value) -> None:
    exps, total, t, scale, grad = pointers
    by, place = code.load("float", scale), code.load("i64", t)
    share = code.splat(by / code.load("float", total), LANES)
    for_each(code, n, lambda i, mask: store(code, load(code, exps, i, mask) * share, grad, i, mask))
    code.store(code.load("float", grad, place) - by, grad, place)


_cross_entropy_grad = row_function("(n),(),(),()->(n)", "fflff")(_cross_entropy_grad_row)


def _rows_of(code: Code, operands: Sequence[Operand], count: Value) -> Iterator[tuple[Value, list[Value]]]:
    """In a loop over rows: which one, and its address in each operand."""
    with code.loop(0, count) as row:
        yield row, [code.at("i8", o.address, row * o.strides[0]) for o in operands]


def _class_of(code: Code, place: Value, n: Value, wrong: Variable, checked: Value) -> None:
    """Copy a row's class to `checked`; 0 where it is out of range, which is counted."""
    t = code.load("i64", place)
    outside = (t < 0) | (t >= n)
    wrong.add(code.cast(outside, "i64", signed=False))
    code.store(code.select(outside, 0, t), checked)


def _mean(code: Code, losses: Value, count: Value, mean: bool) -> Value:
    total = summed(code, count, 1, lambda i, width, mask: (load(code, losses, i, mask, width),))[0]
    return code.cast(total / code.cast(count, "double") if mean else total, "float")


@generalized("(m,n),(m)->(m),(m,n),(m),(),()")
def _small_cross_entropy(code: Code, operands: list[Operand], sizes: list[Value], mean: bool) -> None:
    x, t, losses, exps, sums, loss, wrong = operands
    count, n = sizes
    outside, checked = code.variable("i64", 0), code.array("i64", 1)
    for _, (x_row, place, at_loss, row, at_sum) in _rows_of(code, (x, t, losses, exps, sums), count):
        _class_of(code, place, n, outside, checked)
        _cross_entropy_row(code, [x_row, checked, at_loss, row, at_sum], n)
    code.store(_mean(code, losses.address, count, mean), loss.address)
    code.store(outside.get(), wrong.address)


@generalized("(m,n),(m),(m),()->(m,n),()")
def _small_cross_entropy_grad(code: Code, operands: list[Operand], sizes: list[Value], mean: bool) -> None:
    exps, sums, t, g, grad, wrong = operands
    count, n = sizes
    outside, checked, by = code.variable("i64", 0), code.array("i64", 1), code.array("float", 1)
    share = code.load("float", g.address)
    code.store(share / code.cast(count, "float") if mean else share, by)
    for _, (row, at_sum, place, out) in _rows_of(code, (exps, sums, t, grad), count):
        _class_of(code, place, n, outside, checked)
        _cross_entropy_grad_row(code, [row, at_sum, checked, by, out], n)
    code.store(outside.get(), wrong.address)


@generalized("(n)->()")
def _mean_of(code: Code, operands: list[Operand], sizes: list[Value], mean: bool) -> None:
    code.store(_mean(code, operands[0].address, sizes[0], mean), operands[1].address)


@generalized("(n),()->()")
def _count_outside(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    t, classes, out = operands
    outside, checked, n = code.variable("i64", 0), code.array("i64", 1), code.load("i64", classes.address)
    for _, (place,) in _rows_of(code, (t,), sizes[0]):
        _class_of(code, place, n, outside, checked)
    code.store(outside.get(), out.address)
