"""Softmax, its logarithm and their gradients over any dimension of contiguous float32 but the last, on the CPU.

The elements of a column have the values that `softmax_cpu` gives a row of the same numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tdt._kernels import functions, softmax_cpu
from tdt._kernels._code import Code, Value, native
from tdt._kernels._columns import TILE, Columns, column_sums, columns_of, maxima
from tdt._kernels._exponential import exp_of_negative, log_from_1
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._inline import inline
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._rows import LANES, contiguous, fma, load, store
from tdt._kernels._threads import THREADS
from tdt._kernels.softmax_cpu import ONCE

GRAIN = 1 << 14  # elements that a thread should at least have


def softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """exp(x) scaled to sum to 1 over a dimension."""
    return _run(_softmax, softmax_cpu.softmax, (x,), dim)


def log_softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """The logarithm of `softmax`."""
    return _run(_log_softmax, softmax_cpu.log_softmax, (x,), dim)


def softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The gradient of a loss in x, from `g`, that in softmax's result `out`."""
    return _run(_softmax_grad, softmax_cpu.softmax_vjp, (g, out), dim)


def log_softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The same for the logarithm."""
    return _run(_log_softmax_grad, softmax_cpu.log_softmax_vjp, (g, out), dim)


class Form(NamedTuple):
    """The two forms of a function's code.

    Attributes:
        kernel: for the pool.
        at_once: gives a generalised ufunc of contiguous matrices, for arrays that one thread computes.
    """

    kernel: Callable[[], NativeKernel]
    at_once: Callable[[], Callable[..., np.ndarray]]


def _columnwise(arrays: int) -> Callable[[Callable[..., None]], Form]:
    """The forms of code for columns, which gets the first and the last unit, the addresses of so many arrays, n and inner."""

    def decorate(write: Callable[..., None]) -> Form:
        @functools.wraps(write)
        def matrix(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
            units = (sizes[1] + (TILE - 1)) // TILE
            write(code, code.value(0, "i64"), units, [*[each.address for each in operands], *sizes])

        signature = ",".join(["(n,m)"] * (arrays - 1)) + "->(n,m)"
        ufunc = generalized(signature, vectorize=False)(matrix)
        return Form(native("p" * arrays + "qq", vectorize=False)(write), lambda: ufunc("f" * arrays))

    return decorate


def at_once(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """ "softmax" or "log_softmax" over the first dimension of contiguous matrices, for one thread."""
    return (_softmax if name == "softmax" else _log_softmax).at_once()


def _run(form: Form, rows: Callable, operands: tuple, dim: int) -> np.ndarray:
    """The result of a function; rows: that of the last dimension."""
    shape = operands[0].shape
    n, inner = shape[dim], math.prod(shape[dim + 1 :])
    arrays = list(map(contiguous, operands))
    if inner == 1:
        return rows(*[a.reshape(-1, n) for a in arrays], dim=1).reshape(shape)
    if arrays[0].size < THREADS.rows:
        return form.at_once()(*[a.reshape(-1, n, inner) for a in arrays]).reshape(shape)
    out = np.empty(shape, np.float32)
    on_columns(form.kernel(), out.size // (n * inner), n, inner, *arrays, out)
    return out


def on_columns(kernel: NativeKernel, outer: int, n: int, inner: int, *args: np.ndarray | float) -> None:
    """Call a kernel, whose last arguments are n and inner, on all columns of arrays (outer, n, inner)."""
    tiles = -(-inner // TILE)
    grain = max(1, GRAIN // (n * min(inner, TILE)))
    parallel(kernel, outer * tiles, *args, n, inner, grain=grain)  # type: ignore[arg-type]


def exponentials(code: Code, columns: Columns, x: Value, top: Value, sums: Value, out: Value | None) -> None:
    """The maximum of each column, and the sum of exp(x - maximum), in double precision; these numbers are written to `out`."""
    maxima(code, columns, x, top)

    def term(c: Value, i: Value, mask: Value | None) -> Value:
        shifted = load(code, columns.line(code, x, c), i, mask) - code.load("float", top, i, LANES)
        e = inline(code, exp_of_negative, shifted)
        if out is not None:
            store(code, e, columns.line(code, out, c), i, mask)
        return e

    column_sums(code, columns, term, sums, ONCE)


@_columnwise(2)
def _softmax(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    x, out, n, inner = arguments
    top, sums = code.array("float", TILE), code.array("double", TILE)
    one = code.splat(code.value(1.0, "double"), LANES)
    with code.loop(first, last) as unit:
        columns = columns_of(code, unit, n, inner)
        exponentials(code, columns, x, top, sums, out)
        columns.each(
            code, lambda i, _: code.store(code.cast(one / code.load("double", sums, i, LANES), "float"), top, i)
        )
        with code.loop(0, n) as c:
            line = columns.line(code, out, c)
            columns.each(
                code,
                lambda i, m, line=line: store(
                    code, load(code, line, i, m) * code.load("float", top, i, LANES), line, i, m
                ),
            )


@_columnwise(2)
def _log_softmax(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    x, out, n, inner = arguments
    top, sums, logs = code.array("float", TILE), code.array("double", TILE), code.array("float", TILE)
    with code.loop(first, last) as unit:
        columns = columns_of(code, unit, n, inner)
        exponentials(code, columns, x, top, sums, None)

        def write_log(i: Value, _: Value | None) -> None:
            total = code.cast(code.load("double", sums, i, LANES), "float")
            code.store(inline(code, log_from_1, total), logs, i)

        columns.each(code, write_log)
        with code.loop(0, n) as c:
            source, target = columns.line(code, x, c), columns.line(code, out, c)

            def write(i: Value, mask: Value | None, source: Value = source, target: Value = target) -> None:
                value = load(code, source, i, mask) - code.load("float", top, i, LANES)
                store(code, value - code.load("float", logs, i, LANES), target, i, mask)

            columns.each(code, write)


@_columnwise(3)
def _softmax_grad(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    g, out, grad, n, inner = arguments
    sums = code.array("double", TILE)

    def of_kind(columns: Columns, kind: str) -> None:
        def both(c: Value, i: Value, mask: Value | None) -> list[Value]:
            return [code.cast(load(code, columns.line(code, a, c), i, mask), kind) for a in (g, out)]

        def term(c: Value, i: Value, mask: Value | None) -> Value:
            a, b = both(c, i, mask)
            return a * b

        column_sums(code, columns, term, sums, ONCE if kind == "double" else (64, LANES), kind)
        with code.loop(0, n) as c:
            target = columns.line(code, grad, c)

            def write(i: Value, mask: Value | None, c: Value = c, target: Value = target) -> None:
                a, b = both(c, i, mask)
                total = code.cast(code.load("double", sums, i, LANES), kind)
                store(code, code.cast(b * (a - total), "float"), target, i, mask)

            columns.each(code, write)

    with code.loop(first, last) as unit:
        columns = columns_of(code, unit, n, inner)
        # In double precision for few classes: the difference may be much smaller than its terms.
        code.choose(n <= LANES, lambda: of_kind(columns, "double"), lambda: of_kind(columns, "float"))


@_columnwise(3)
def _log_softmax_grad(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    g, out, grad, n, inner = arguments
    sums, less = code.array("double", TILE), code.array("float", TILE)
    zero = code.splat(code.value(0.0, "float"), LANES)
    with code.loop(first, last) as unit:
        columns = columns_of(code, unit, n, inner)
        column_sums(
            code, columns, lambda c, i, mask, columns=columns: load(code, columns.line(code, g, c), i, mask), sums
        )
        columns.each(
            code, lambda i, _: code.store(zero - code.cast(code.load("double", sums, i, LANES), "float"), less, i)
        )
        with code.loop(0, n) as c:
            lines = [columns.line(code, a, c) for a in (g, out, grad)]

            def write(i: Value, mask: Value | None, lines: list[Value] = lines) -> None:
                e = inline(code, functions.exp, load(code, lines[1], i, mask))
                store(
                    code,
                    fma(code, e, code.load("float", less, i, LANES), load(code, lines[0], i, mask)),
                    lines[2],
                    i,
                    mask,
                )

            columns.each(code, write)
