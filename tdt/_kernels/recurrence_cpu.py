"""Orthogonal polynomials by generated code, which computes each element's degree alone, with the bits of the arrays' form."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._recurrence import RECURRENCES


@generalized("(),(),()->()")
def _polynomial(code: Code, operands: list[Operand], sizes: list[Value], name: str, letter: str, limit: int,
                shifted: bool) -> None:  # fmt: skip
    """x, n, a word that becomes 1 where a degree is above `limit`."""
    x, n, failed, out = operands
    start, step = RECURRENCES[name]
    kind = {"f": "float", "d": "double"}[letter]
    value, number = code.load(kind, x.address), code.load(kind, n.address)
    value = 2 * value - 1 if shifted else value
    known = (number > -1) & (number < limit + 1)
    degree = code.cast(code.select(known, number, -1.0), "i64")
    with code.when(number >= limit + 1):
        code.store(code.value(1, "i64"), failed.address)
    before, last = code.variable(kind, 1.0), code.variable(kind, 1.0)
    with code.when(degree < 0):
        last.set(0.0)
    with code.when(degree > 0):
        last.set(start(value))
    with code.loop(1, degree) as k:
        following = step(code.cast(k, kind), value, before.get(), last.get())
        before.set(last.get())
        last.set(following)
    code.store(last.get(), out.address)


_codes: dict[tuple, Any] = {}


def polynomial(name: str, x: Any, n: Any, limit: int, shifted: bool) -> Any:
    """The polynomial of the degrees n at x, which have the same type; None where a degree is above `limit`."""
    code = _codes.get((name, x.dtype, limit, shifted))
    if code is None:
        letter = x.dtype.char
        code = _polynomial(f"{letter}{letter}q{letter}", name, letter, limit, shifted)
        _codes[name, x.dtype, limit, shifted] = code
    failed = np.zeros((), np.int64)
    out = code(x, n, failed)
    return None if failed else out if out.__class__ is np.ndarray else np.asarray(out)
