"""Cross products of vectors of three elements of float32 or float64, by generated code."""

from __future__ import annotations

import math

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._pool import parallel

WIDTH = 8
GRAIN = 1 << 13  # vectors that a thread should at least have


def cross(x: np.ndarray, y: np.ndarray, *, dim: int) -> np.ndarray:
    """The products of arrays of one shape along the dimension `dim`, counted from the end, of size 3; a contiguous array."""
    x, y, out = np.ascontiguousarray(x), np.ascontiguousarray(y), np.empty(x.shape, x.dtype)
    inner = math.prod(x.shape[dim:]) // 3
    parallel(_cross("float" if x.itemsize == 4 else "double"), x.size // 3, x, y, out, inner, grain=GRAIN)
    return out


@native("pppq", vectorize=False)
def _cross(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """x, y, out (*, 3, inner), inner; [first, last) of (*, inner)."""
    x, y, out, inner = arguments

    def write(place: Value, apart: Value, width: int) -> None:
        """The products of `width` vectors (0: one), whose elements are `apart` from each other."""
        a, b = ([code.load(kind, each, place + apart * k, width) for k in range(3)] for each in (x, y))
        for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
            code.store(a[i] * b[j] - a[j] * b[i], out, place + apart * k)

    def side_by_side() -> None:
        with code.loop(first // inner, (last - 1) // inner + 1) as row:
            start = row * inner
            begin, end = code.maximum(first, start), code.minimum(last, start + inner)
            at, stop = code.variable("i64", begin + 2 * start), end + 2 * start
            for width, step in ((WIDTH, WIDTH), (0, 1)):
                with code.loop(at.get(), stop - (step - 1), step) as place:
                    write(place, inner, width)
                    at.set(place + step)

    def one_by_one() -> None:
        with code.loop(first * 3, last * 3, 3) as place:
            write(place, code.value(1, "i64"), 0)

    code.choose(inner == 1, one_by_one, side_by_side)
