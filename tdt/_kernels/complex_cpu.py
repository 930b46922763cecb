"""Functions of complex numbers, by generated formulas of their parts: the C library and NumPy take them one by one."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt._kernels import functions
from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel
from tdt._kernels.expression import INFINITY, Expression
from tdt._kernels.fused import Layout, code_of

UNITS = 1 << 11  # numbers that a block of the pool's work has
GRAIN = 4
KINDS = {"F": "float", "D": "double"}  # of the parts, by NumPy's letter
Parts = tuple[Value, Value]
MOST = 87  # e to the power of more may be too large for float32, though its product with a sine is not


@functools.cache
def _parts_of_exp() -> Any:
    """The ufunc of the parts of x that gives those of e^x, and whether the formula holds; None where it is not compiled."""
    a, b = (Expression("input", k) for k in range(2))
    size = functions.exp(a)
    outputs = size * functions.cos(b), size * functions.sin(b), (abs(a) <= MOST) & (abs(b) < INFINITY)
    part, truth = (Layout.contiguous(np.empty(1, kind)) for kind in (np.float32, np.bool_))
    code = code_of(outputs, [part, part], [part, part, truth])
    return code and code.ufunc


def exp(x: np.ndarray) -> np.ndarray | None:
    """e^x = e^a · (cos b + i sin b) of complex64; None where no code is compiled for this processor.

    Large and infinite numbers, and NaN, are as the C standard says (its annex G).
    """
    parts = _parts_of_exp()
    if parts is None:
        return None
    result, holds = np.empty_like(x), np.empty(x.shape, np.bool_)
    parts(x.real, x.imag, out=(result.real, result.imag, holds))
    if b"\0" in holds.tobytes():  # which takes less of few elements than `all`
        rest = ~holds
        result[rest] = np.exp(x[rest])
    return result


def _ratio(code: Code, x: Parts, y: Parts) -> Parts:
    """x / y by Smith's formula (1962), as NumPy computes it."""
    first = code.call("fabs", y[0]) >= code.call("fabs", y[1])
    larger, smaller = (code.select(first, y[k], y[1 - k]) for k in (0, 1))
    same, other = (code.select(first, x[k], x[1 - k]) for k in (0, 1))
    ratio = smaller / larger
    scale = 1.0 / (larger + smaller * ratio)
    across = same * ratio
    real, imag = same + other * ratio, code.select(first, other - across, across - other)
    zero = (y[0] == 0.0) & (y[1] == 0.0)
    return tuple([code.select(zero, a * INFINITY, b * scale) for a, b in zip(x, (real, imag), strict=True)])  # type: ignore[return-value]


@native("pppqdd")
def _quotients(
    code: Code, first: Value, last: Value, arguments: list[Value], kind: str, of_number: bool, by_number: bool
) -> None:
    """x, y, out, n, the parts of a number that takes the place of x or of y."""
    x, y, out, n, *parts = arguments
    many = 4 * vector_width() // SIZES[kind]

    def read(address: Value, k: Value, count: int, is_number: bool) -> Parts:
        if is_number:
            return tuple([code.splat(code.cast(part, kind), count) for part in parts])  # type: ignore[return-value]
        if not count:
            return code.load(kind, address, k * 2), code.load(kind, address, k * 2 + 1)
        pairs = code.load(kind, address, k * 2, 2 * count)
        return tuple([code.shuffle(pairs, pairs, range(part, 2 * count, 2)) for part in (0, 1)])  # type: ignore[return-value]

    def write(k: Value, count: int) -> None:
        real, imag = _ratio(code, read(x, k, count, of_number), read(y, k, count, by_number))
        if count:
            code.store(code.shuffle(real, imag, [j // 2 + count * (j % 2) for j in range(2 * count)]), out, k * 2)
        else:
            code.store(real, out, k * 2)
            code.store(imag, out, k * 2 + 1)

    start, stop = first * UNITS, code.minimum(last * UNITS, n)
    whole = start + (stop - start) // many * many
    for begin, end, count in ((start, whole, many), (whole, stop, 0)):
        with code.loop(begin, end, max(count, 1)) as k:
            write(k, count)


def quotient(x: Any, y: Any, out: np.ndarray | None) -> np.ndarray | None:
    """x / y of complex numbers, to NumPy's bits: of two contiguous arrays of one shape and type, or of one and a number.

    None for others. out: an array for the result, which may be x or y.
    """
    arrays = [a for a in (x, y) if a.__class__ is np.ndarray]
    like = arrays[-1]
    numbers = [complex(a) for a in (x, y) if a.__class__ in (int, float, complex)]
    if len(arrays) + len(numbers) < 2:
        return None
    for a in arrays if out is None else (*arrays, out):
        if a.shape != like.shape or a.dtype != like.dtype or not a.flags.c_contiguous:
            return None
    out = np.empty_like(like) if out is None else out
    number = numbers[0] if numbers else 0j
    code = _quotients(KINDS[like.dtype.char], x is not arrays[0], y is not like)
    args = arrays[0], like, out, like.size, number.real, number.imag
    parallel(code, -(-like.size // UNITS), *args, grain=GRAIN)  # type: ignore[arg-type]
    return out
