"""Sum, difference, product and quotient of two large arrays on the CPU: repeated operands row by row, on all threads.

NumPy calls a loop for each row where an operand is repeated, and uses one thread; the values are the same.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel
from tdt._kernels._threads import THREADS

PIECE = 1 << 12  # elements that a block of the pool's work has at least
GRAIN = 8  # blocks a thread should at least have: about 10 µs of work
UNROLLED = 4  # vectors in a round of the loop
SHORT = 8  # elements of a row below which a loop over rows is not faster than NumPy's
KINDS = {"f": "float", "d": "double"}
OPERATIONS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "true_divide": lambda x, y: x / y,
}
Dimension = tuple[int, int, int, int]  # its size; elements from one entry to the next in both operands and the result


def combined(how: str, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray | None:
    """`how` of two arrays that broadcast, a ufunc of `OPERATIONS`, in memory as NumPy's result; None where NumPy is as fast.

    out: for the result, of its shape; None where it does not lie in memory as the result would. It may be an operand.

    They have one type, float32 or float64. Operands of the result's shape must lie in memory in the order of their indices, or
    alike and without gaps; an operand of another shape must be repeated along whole dimensions.
    """
    plan = _plan(a.shape, a.strides, b.shape, b.strides, a.dtype)
    if plan is None or b.dtype != a.dtype:
        return None
    shape, strides, words, blocks, steps, dense = plan
    if dense and (THREADS.count == 1 or blocks < 2 * GRAIN):
        return None
    in_place = out is not None
    if out is None:
        out = np.empty(shape, a.dtype) if strides is None else np.empty_like(a if strides == a.strides else b)
    elif out.dtype != a.dtype or (out.strides != strides if strides else not out.flags.c_contiguous):
        return None
    routine = _combine(KINDS[a.dtype.char], how, *steps, in_place)
    parallel(routine, blocks, a, b, out, *words, grain=GRAIN)
    return out


@functools.lru_cache(1024)
def _plan(
    a_shape: tuple[int, ...],
    a_strides: tuple[int, ...],
    b_shape: tuple[int, ...],
    b_strides: tuple[int, ...],
    dtype: Any,
) -> tuple | None:
    """The result's shape and strides (None: contiguous), the words of `_combine`, its blocks, the operands' steps in a row.

    At last whether both are one row, where NumPy is as fast on one thread.
    """
    size = dtype.itemsize
    if dtype.char not in KINDS or not dtype.isnative:
        return None
    try:
        shape = np.broadcast_shapes(a_shape, b_shape)
    except ValueError:
        return None
    whole = [strides for s, strides in ((a_shape, a_strides), (b_shape, b_strides)) if s == shape]
    of_result = contiguous = tuple(size * math.prod(shape[d + 1 :]) for d in range(len(shape)))
    if not all(_in_order(shape, strides) for strides in whole):
        if len(whole) == 2 and whole[0] != whole[1]:
            return None
        of_result = whole[0]
    steps = [_steps(a_shape, a_strides, len(shape)), _steps(b_shape, b_strides, len(shape)), of_result]
    found = [[n, *(s // size for s in each)] for n, *each in zip(shape, *steps, strict=True) if n != 1]
    found.sort(key=lambda d: -d[3])
    dims: list[list[int]] = []
    expected = math.prod(shape)
    for dimension in found:
        n = dimension[0]
        if dimension[3] * n != expected:  # gaps, or elements that overlap
            return None
        expected = dimension[3]
        if dims and all(last == step * n for last, step in zip(dims[-1][1:], dimension[1:], strict=True)):
            dims[-1] = [dims[-1][0] * n, *dimension[1:]]
        else:
            dims.append(dimension)
    if not dims or dims[-1][0] < SHORT or not {tuple(dims[-1][1:3])} & {(1, 1), (1, 0), (0, 1)}:
        return None
    n, *inner = dims.pop()
    length, dense = n, not dims and inner[:2] == [1, 1]
    if n >= 2 * PIECE:  # long rows are cut
        length = PIECE
        dims.append([-(-n // PIECE), *(PIECE * step for step in inner)])
    if len(dims) > 3:
        return None
    dims = [[1, 0, 0, 0]] * (3 - len(dims)) + dims
    rows = math.prod(d[0] for d in dims)
    each = max(1, PIECE // length)
    total = n if length < n else 1 << 62  # of what is left of a row that is cut, the last piece has less
    words = (*(d[0] for d in dims), *(step for d in dims for step in d[1:]), length, total, rows, each)
    return shape, None if of_result == contiguous else of_result, words, -(-rows // each), inner[:2], dense


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether an array's dimensions lie in memory in their order, with or without gaps."""
    steps = [s for n, s in zip(shape, strides, strict=True) if n != 1]
    return all(s > 0 for s in steps) and steps == sorted(steps, reverse=True)


def _steps(shape: tuple[int, ...], strides: tuple[int, ...], ndim: int) -> list[int]:
    """The strides of an operand as one of `ndim` dimensions, 0 where it is repeated."""
    return [0] * (ndim - len(shape)) + [s if n != 1 else 0 for n, s in zip(shape, strides, strict=True)]


@native("ppp" + "q" * 16)
def _combine(
    code: Code, first: Value, last: Value, arguments: list[Value], kind: str, how: str, *constants: int
) -> None:
    """Both operands and the result; the sizes of three outer dimensions; for each the steps in the operands and the result;
    elements of a row, of all that a cut row has, number of rows, rows of a block.

    constants: steps of the operands within a row, 1, or 0 for one element; whether the result may be an operand.
    """
    *inner, in_place = constants
    arrays, sizes, steps, (length, total, rows, each) = arguments[:3], arguments[3:6], arguments[6:15], arguments[15:]
    many = vector_width() // (2 if kind == "double" else 1)
    start = first * each
    upper = start // sizes[2]
    i = upper // sizes[1]
    j, k = code.variable("i64", upper - i * sizes[1]), code.variable("i64", start - upper * sizes[2])
    places, jumps = [], []
    for a in range(3):
        s0, s1, s2 = steps[a::3]
        places.append(code.variable("i64", i * s0 + j.get() * s1 + k.get() * s2))
        back = (sizes[2] - 1) * s2
        jumps.append((s2, s1 - back, s0 - (sizes[1] - 1) * s1 - back))
    with code.loop(start, code.minimum(last * each, rows)):
        count = code.minimum(length, total - k.get() * length)
        at = [place.get() for place in places]
        ones = [None if step else code.load(kind, x, place) for x, place, step in zip(arrays, at, inner, strict=False)]
        spread = [None if one is None else code.splat(one, many) for one in ones]

        def write(e: Value, vectors: int, width: int) -> None:
            results, repeated = [], spread if width else ones
            for u in range(vectors):
                x, y = (
                    code.load(kind, array, place + e + u * max(width, 1), width) if one is None else one
                    for array, place, one in zip(arrays, at, repeated, strict=False)
                )
                results.append(OPERATIONS[how](x, y))
            for u, value in enumerate(results):
                code.store(value, arrays[2], at[2] + e + u * max(width, 1))

        size = 8 if kind == "double" else 4
        misplaced = (code.cast(arrays[2], "i64") // size + at[2]) & (many - 1)
        code.vectors(count, many, write, misplaced=misplaced, unrolled=UNROLLED, once=bool(in_place))
        k.add(1)
        row_ends = k.get() == sizes[2]
        j.set(code.select(row_ends, j.get() + 1, j.get()))
        k.set(code.select(row_ends, 0, k.get()))
        all_end = j.get() == sizes[1]
        j.set(code.select(all_end, 0, j.get()))
        for place, (step, next_row, next_all) in zip(places, jumps, strict=True):
            place.add(code.select(all_end, next_all, code.select(row_ends, next_row, step)))
