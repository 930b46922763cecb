"""Cosines of the angles between rows of float32, and their gradients, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value
from tdt._kernels._registry import prepares
from tdt._kernels._rows import LANES, contiguous, for_each, load, row_function, store, summed

Arrays = tuple[np.ndarray, ...]


def cosine(x: np.ndarray, y: np.ndarray, *, dim: int, eps: float) -> Arrays:
    """The cosines along a dimension, and the norms of x and y, without that dimension."""
    return _cosine()(_rows(x, dim), _rows(y, dim), np.float32(eps))


@prepares(cosine)
def _(x: np.ndarray, y: np.ndarray, *, dim: int, eps: float, recorded: bool) -> Callable[..., Any]:
    run, least = _cosine(), np.array(eps, np.float32)
    if dim == x.ndim - 1 and x.flags.c_contiguous and y.flags.c_contiguous:
        return (lambda x, y: run(x, y, least)) if recorded else lambda x, y: run(x, y, least)[0]
    found = lambda x, y: run(_rows(x, dim), _rows(y, dim), least)  # noqa: E731
    return found if recorded else lambda x, y: found(x, y)[0]


def cosine_vjp(g: np.ndarray, x: np.ndarray, y: np.ndarray, out: np.ndarray, x_norm: np.ndarray, y_norm: np.ndarray, *,
               needs: tuple[bool, bool], dim: int, eps: float) -> list[np.ndarray | None]:  # fmt: skip
    """The gradients in x and y that are needed."""
    return _gradients(needs, dim, np.array(eps, np.float32))(g, x, y, out, x_norm, y_norm)


@prepares(cosine_vjp)
def _(g: np.ndarray, x: np.ndarray, y: np.ndarray, out: np.ndarray, x_norm: np.ndarray, y_norm: np.ndarray, *,
      needs: tuple[bool, bool], dim: int, eps: float) -> Callable[..., list]:  # fmt: skip
    return _gradients(needs, dim, np.array(eps, np.float32))


def _gradients(needs: tuple[bool, bool], dim: int, eps: np.ndarray) -> Callable[..., list]:
    run = _gradient()

    def gradients(
        g: np.ndarray, x: np.ndarray, y: np.ndarray, out: np.ndarray, x_norm: np.ndarray, y_norm: np.ndarray
    ) -> list:
        last = x.ndim - 1
        a, b = _rows(x, dim), _rows(y, dim)
        found = [
            run(a, b, g, out, x_norm, y_norm, eps) if needs[0] else None,
            run(b, a, g, out, y_norm, x_norm, eps) if needs[1] else None,
        ]
        if dim == last:
            return found
        return [None if each is None else np.ascontiguousarray(np.moveaxis(each, last, dim)) for each in found]

    return gradients


def _rows(x: np.ndarray, dim: int) -> np.ndarray:
    """x with a dimension as the last one, contiguous."""
    return contiguous(x if dim == x.ndim - 1 else np.moveaxis(x, dim, -1))


def _at_least(code: Code, norm: Value, least: Value) -> Value:
    return code.splat(code.select(norm < least, least, norm), LANES)


@row_function("(n),(n),()->(),(),()", "ffffff")
def _cosine(code: Code, pointers: list[Value], n: Value) -> None:
    x, y, least, out, x_norm, y_norm = pointers

    def squares(i: Value, count: int, mask: Value | None) -> tuple[Value, ...]:
        a, b = (load(code, each, i, mask, count) for each in (x, y))
        return a * a, b * b

    norms = [code.cast(code.call("sqrt", total), "float") for total in summed(code, n, 2, squares)]
    for norm, address in zip(norms, (x_norm, y_norm), strict=True):
        code.store(norm, address)
    eps = code.load("float", least)
    least_norms = [code.select(norm < eps, eps, norm) for norm in norms]

    def products(i: Value, count: int, mask: Value | None) -> tuple[Value, ...]:
        a, b = (
            load(code, each, i, mask, count) / code.splat(norm, count)
            for each, norm in zip((x, y), least_norms, strict=True)
        )
        term = a * b  # NaN beyond the mask, where a norm is 0 or NaN
        return (term if mask is None else code.select(mask, term, 0.0),)

    code.store(code.cast(summed(code, n, 1, products)[0], "float"), out)


@row_function("(n),(n),(),(),(),(),()->(n)", "ffffffff")
def _gradient(code: Code, pointers: list[Value], n: Value) -> None:
    """Of x: x, y, the cosine's gradient, the cosine, the norms of x and of y, the least norm."""
    x, y, *numbers, out = pointers
    g, cosine, x_norm, y_norm, least = (code.load("float", each) for each in numbers)
    # Of a vector of zeros 0, or NaN where the least norm is 0, as the cosine is.
    share = code.splat(code.select(x_norm == 0.0, cosine * 0.0, cosine / x_norm), LANES)
    factor = code.splat(g, LANES) / _at_least(code, x_norm, least)
    divisor = _at_least(code, y_norm, least)

    def write(i: Value, mask: Value | None) -> None:
        a, b = load(code, x, i, mask), load(code, y, i, mask)
        store(code, factor * (b / divisor - a * share), out, i, mask)

    for_each(code, n, write)
