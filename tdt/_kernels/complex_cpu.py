"""Functions of complex numbers, by generated formulas of their parts: the C library takes them one by one."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt._kernels import functions
from tdt._kernels.expression import INFINITY, Expression
from tdt._kernels.fused import Layout, code_of

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
