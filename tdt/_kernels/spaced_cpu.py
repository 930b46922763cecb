"""Evenly spaced numbers, as `linspace` and `arange` have them, in one pass over memory."""

from __future__ import annotations

import numpy as np

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel

EACH = 1 << 13  # numbers of a block
GRAIN = 8  # blocks for which a thread is wanted
UNROLLED = 4
KINDS = {"f": "float", "d": "double"}


@native("pqqddd")
def _spaced(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """out, count, turn, start, step, end: numbers are computed in double precision, from place `turn` on back from `end`."""
    out, count, turn, start, step, end = arguments
    many = vector_width() // SIZES[kind]
    begin, stop = first * EACH, code.minimum(last * EACH, count)

    def part(begin: Value, stop: Value, upwards: bool) -> None:
        def write(e: Value, vectors: int, width: int) -> None:
            for u in range(vectors):
                place = begin + e + u * width
                distance = code.splat(code.cast(place if upwards else count - 1 - place, "double"), width)
                if width:
                    lanes = code.cast(code.counting(width), "double")
                    distance = distance + lanes if upwards else distance - lanes
                shift = distance * code.splat(step, width)
                number = code.splat(start, width) + shift if upwards else code.splat(end, width) - shift
                code.store(code.cast(number, kind), out, place)

        code.vectors(stop - begin, many, write, unrolled=UNROLLED)

    part(begin, code.minimum(stop, turn), True)
    part(code.maximum(begin, turn), stop, False)


def spaced(out: np.ndarray, turn: int, start: float, step: float, end: float) -> None:
    """Fill a vector of float32 or float64 with start + i · step, from place `turn` on with end - (count - 1 - i) · step."""
    kernel, words = _spaced(KINDS[out.dtype.char]), (out.size, turn, start, step, end)
    if out.size <= EACH:
        kernel.run(1, (out,), *words)
    else:
        parallel(kernel, -(-out.size // EACH), out, *words, grain=GRAIN)
