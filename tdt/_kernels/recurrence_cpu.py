"""Orthogonal polynomials by generated code, which computes each element's degree alone, with the bits of the arrays' form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._code import SIZES, Code, Value
from tdt._kernels._gufunc import Operand, contiguous, for_arrays, generalized
from tdt._kernels._native import vector_width
from tdt._kernels._recurrence import RECURRENCES
from tdt._kernels._registry import SWITCHES
from tdt._kernels._row_index import raising

KINDS = {"f": "float", "d": "double"}
VECTORS = 2  # that are computed at a time
LONG = 16  # elements of a row from which on rows are computed one by one
BLOCK = 256  # elements that are copied where they do not lie side by side


def _any(code: Code, test: Value, lanes: int) -> Value:
    return code.new(f"i{lanes}", f"bitcast <{lanes} x i1> {test.name} to i{lanes}") != 0


def _values(code: Code, name: str, x: Value, n: Value, limit: int, lanes: int, failed: Operand) -> Value:
    """The polynomials of a vector of degrees at a vector of places."""
    start, step = RECURRENCES[name]
    kind = x.kind
    with code.when(_any(code, n >= limit + 1, lanes)):
        code.store(code.value(1, "i64"), failed.address)
    known = (n > -1) & (n < limit + 1)
    degree = code.cast(code.select(known, n, -1.0), "i32")
    result, before, last = (code.variable(kind, value) for value in (1.0, 1.0, start(x)))
    k = code.variable("i32", 1)
    result.set(code.select(degree > 0, last.get(), code.select(degree < 0, 0.0, result.get())))
    with code.forever() as leave:
        more = degree > code.splat(k.get(), lanes)
        leave(~_any(code, more, lanes))
        following = step(code.cast(code.splat(k.get(), lanes), kind.split()[-1][:-1]), x, before.get(), last.get())
        before.set(last.get())
        last.set(following)
        result.set(code.select(more, following, result.get()))
        k.add(1)
    return result.get()


@generalized("(n),(n),()->(n)", vectorize=False)
def _polynomial(code: Code, operands: list[Operand], sizes: list[Value], name: str, letter: str, limit: int,
                shifted: bool) -> None:  # fmt: skip
    """x, n, a word that becomes 1 where a degree is above `limit`; the result's elements lie side by side."""
    *inputs, failed, out = operands
    (count,) = sizes
    kind = KINDS[letter]
    lanes = VECTORS * 4 * vector_width() // SIZES[kind]
    buffers, rest = [code.array(kind, BLOCK) for _ in inputs], code.array(kind, lanes)
    with code.loop(0, count, BLOCK) as begin:
        many = code.minimum(count - begin, BLOCK)
        arrays = [contiguous(code, o, kind, begin, many, b) for o, b in zip(inputs, buffers, strict=True)]
        target = out.place(code, begin)

        def values(loaded: list[Value]) -> Value:
            x, n = loaded
            return _values(code, name, 2 * x - 1 if shifted else x, n, limit, lanes, failed)

        whole = many // lanes * lanes
        with code.loop(0, whole, lanes) as i:
            code.store(values([code.load(kind, array, i, lanes) for array in arrays]), target, i)
        with code.when(whole < many):
            left = many - whole
            loaded = [code.load_first(kind, code.at(kind, array, whole), left, lanes) for array in arrays]
            code.store(values(loaded), rest)
            with code.loop(0, left) as k:
                code.store(code.load(kind, rest, k), target, whole + k)


_codes: dict[tuple, Any] = {}


def _code_for(name: str, dtype: np.dtype, limit: int, shifted: bool) -> Any:
    code = _codes.get((name, dtype, limit, shifted))
    if code is None:
        letter = dtype.char
        code = _codes[name, dtype, limit, shifted] = _polynomial(
            f"{letter}{letter}q{letter}", name, letter, limit, shifted
        )
    return code


def prepared_polynomial(name: str, x: np.ndarray, limit: int, shifted: bool) -> Callable[..., np.ndarray] | None:
    """`polynomial` of contiguous arrays of one shape and type; IndexError where a degree is above. See `prepares`."""
    if not SWITCHES.kernels or x.dtype.char not in KINDS:
        return None
    code, shape = _code_for(name, x.dtype, limit, shifted), x.shape

    general = lambda x, n, failed: code(x.reshape(-1), n.reshape(-1), failed).reshape(shape)  # noqa: E731
    row, out = np.zeros(x.size, x.dtype), np.empty(shape, x.dtype)
    return raising(for_arrays(general, code, [row, row, np.zeros((), np.int64)], [(out, out.reshape(-1))]))


def polynomial(name: str, x: np.ndarray, n: np.ndarray, limit: int, shifted: bool) -> Any:
    """The polynomial of the degrees n at x; None where a degree is above `limit`, or types differ, or kernels are off."""
    if not SWITCHES.kernels or x.dtype is not n.dtype or x.dtype.char not in KINDS:
        return None
    shape, code = x.shape, _code_for(name, x.dtype, limit, shifted)
    failed = np.zeros((), np.int64)
    if shape != n.shape:
        x, n = np.broadcast_arrays(x, n)
        shape = x.shape
    if shape and shape[-1] >= LONG and x.flags.c_contiguous and n.flags.c_contiguous:
        out = code(x, n, failed)
    else:
        out = code(x.ravel(), n.ravel(), failed).reshape(shape)
    return None if failed else out
