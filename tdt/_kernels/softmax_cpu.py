"""Softmax, its logarithm and their gradients over rows of float32 on the CPU.

A row is read again while the cache still holds it, so each array passes through memory once. NaN, +inf, and a row of
nothing but -inf give NaN in the whole row, as inf - inf and the sum do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tdt._kernels import functions
from tdt._kernels._code import Code, Value
from tdt._kernels._exponential import exp_of_negative, log_from_1
from tdt._kernels._inline import inline
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
    mask_of,
    row_function,
    store,
    summed,
)

ONCE = (LANES,)  # for sums of exponentials, each of which takes many registers


def softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """exp(x) scaled to sum to 1 over the last dimension."""
    return _softmax()(contiguous(x))


def ufunc(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """NumPy's function of contiguous arrays that "softmax" or "log_softmax" calls."""
    return (_softmax if name == "softmax" else _log_softmax)().ufunc


def log_softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """The logarithm of `softmax`."""
    return _log_softmax()(contiguous(x))


def softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The gradient of a loss in x, from `g`, that in softmax's result `out`."""
    return _softmax_grad()(contiguous(g), contiguous(out))


def log_softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The same for the logarithm."""
    return _log_softmax_grad()(contiguous(g), contiguous(out))


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


def log_of(code: Code, x: Value) -> Value:
    """The natural logarithms of float64 numbers from 1 on, as float32."""
    return inline(code, log_from_1, code.cast(x, "float"))


def _short_exponentials(code: Code, x: Value, mask: Value) -> tuple[Value, Value, Value, Value]:
    """Of a row of one vector: the elements less their maximum, the exponentials, their sum, the maximum."""
    values = load(code, x, 0, mask, other=-math.inf)
    top = across(code, values, larger)
    values = values - code.splat(top, LANES)
    e = code.select(mask, inline(code, exp_of_negative, values), 0.0)
    return values, e, code.cast(across(code, e), "double"), top


def row_exponentials(code: Code, x: Value, n: Value, out: Value | None = None) -> tuple[Value, Value]:
    """A row's maximum, and the sum of exp(x - maximum) in double precision; these numbers are written to `out`."""
    top, total = code.variable("float"), code.variable("double")

    def short() -> None:
        mask = mask_of(code, n)
        _, e, together, most = _short_exponentials(code, x, mask)
        if out is not None:
            store(code, e, out, 0, mask)
        top.set(most)
        total.set(together)

    def long() -> None:
        most, together = _exponentials(code, x, n, out)
        top.set(most)
        total.set(together)

    code.choose(n <= LANES, short, long)
    return top.get(), total.get()


def _short_softmax(code: Code, pointers: list[Value], n: Value, mask: Value) -> None:
    x, out = pointers
    _, e, total, _ = _short_exponentials(code, x, mask)
    store(code, e * _inverse(code, total), out, 0, mask)


def _short_log_softmax(code: Code, pointers: list[Value], n: Value, mask: Value) -> None:
    x, out = pointers
    values, _, total, _ = _short_exponentials(code, x, mask)
    store(code, values - code.splat(log_of(code, total), LANES), out, 0, mask)


def _short_softmax_grad(code: Code, pointers: list[Value], n: Value, mask: Value) -> None:
    # In double precision: of few classes the difference may be much smaller than its terms.
    g, out = [code.cast(load(code, pointer, 0, mask), "double") for pointer in pointers[:2]]
    slope = out * (g - code.splat(across(code, g * out), LANES))
    store(code, code.cast(slope, "float"), pointers[2], 0, mask)


def _inverse(code: Code, total: Value) -> Value:
    return code.splat(code.cast(code.value(1.0, "double") / total, "float"), LANES)


def write_softmax(code: Code, x: Value, out: Value, n: Value) -> tuple[Value, Value]:
    """Write the softmax of a row; returns its maximum, and the sum of exp(x - maximum) in double precision.

    Elements after the first n of which exp(x - maximum) is 0 leave the others as they are; not so for n of one vector."""
    top, total = _exponentials(code, x, n, out)
    share = _inverse(code, total)
    for_each(code, n, lambda i, mask: store(code, load(code, out, i, mask) * share, out, i, mask))
    return top, total


@row_function("(n)->(n)", "ff")
@by_length(_short_softmax)
def _softmax(code: Code, pointers: list[Value], n: Value) -> None:
    write_softmax(code, *pointers, n)


@row_function("(n)->(n)", "ff")
@by_length(_short_log_softmax)
def _log_softmax(code: Code, pointers: list[Value], n: Value) -> None:
    x, out = pointers
    top, total = _exponentials(code, x, n)
    shift, log = code.splat(top, LANES), code.splat(log_of(code, total), LANES)
    # Twice subtracted, as shift + log would be rounded.
    for_each(code, n, lambda i, mask: store(code, load(code, x, i, mask) - shift - log, out, i, mask))


@row_function("(n),(n)->(n)", "fff")
@by_length(_short_softmax_grad)
def _softmax_grad(code: Code, pointers: list[Value], n: Value) -> None:
    write_gradient(code, *pointers, n, n)


def write_gradient(code: Code, g: Value, out: Value, grad: Value, n: Value, count: Value) -> None:
    """Write the first `count` elements of the gradient of a row of softmax.

    n: the elements of a row, or a multiple of MANY after which g and `out` are 0."""
    terms = lambda i, count, mask: (load(code, g, i, mask, count) * load(code, out, i, mask, count),)  # noqa: E731
    total = code.splat(code.cast(summed(code, n, 1, terms)[0], "float"), LANES)

    def write(i: Value, mask: Value | None) -> None:
        store(code, load(code, out, i, mask) * (load(code, g, i, mask) - total), grad, i, mask)

    for_each(code, count, write)


@row_function("(n),(n)->(n)", "fff")
def _log_softmax_grad(code: Code, pointers: list[Value], n: Value) -> None:
    g, out, grad = pointers
    total = summed(code, n, 1, lambda i, count, mask: (load(code, g, i, mask, count),))[0]
    less = code.splat(code.value(0.0, "float") - code.cast(total, "float"), LANES)

    def write(i: Value, mask: Value | None) -> None:
        e = inline(code, functions.exp, load(code, out, i, mask))
        store(code, fma(code, e, less, load(code, g, i, mask)), grad, i, mask)

    for_each(code, n, write)
