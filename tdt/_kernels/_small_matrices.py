"""Decompositions of small matrices of NumPy's by machine code, where a call of BLAS or LAPACK takes longer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels._registry import SWITCHES, lazy

MOST_ROWS = 16  # of triangular matrices, and of those with a factor of Cholesky's
MOST_ELIMINATED = 32  # rows and columns of other matrices


def small_triangular(a: np.ndarray, b: np.ndarray, upper: bool, unitriangular: bool) -> Any:
    """`triangular_cpu.solved`; None where it does not take the matrices."""
    small = a.shape[-1] <= MOST_ROWS and SWITCHES.kernels and b.dtype.char in "fd"
    return _triangular(a, b, upper, unitriangular) if small else None


def small_cholesky(x: np.ndarray) -> Any:
    """`triangular_cpu.cholesky`; None where it does not take the matrices."""
    return _cholesky(x) if x.shape[-1] <= MOST_ROWS and SWITCHES.kernels and x.dtype.char in "fd" else None


def small_elimination(name: str, x: np.ndarray, *more: Any) -> Any:
    """What the function `name` of `elimination_cpu` gives; None where it does not take the matrices."""
    if not SWITCHES.kernels or x.dtype.char not in "fd" or not x.size or max(x.shape[-2:]) > MOST_ELIMINATED:
        return None
    return _ELIMINATION[name](x, *more)


_triangular, _cholesky = lazy("triangular_cpu:solved"), lazy("triangular_cpu:cholesky")
_ELIMINATION = {
    name: lazy(f"elimination_cpu:{name}")
    for name in ("determinant", "inverse", "solution", "factors", "permuted", "orthogonal")
}
