"""Decompositions of NumPy's matrices in batches: of small ones by generated code, of others by the ufuncs before which NumPy's
functions take longer than LAPACK does.

They compute float32 in float64, as NumPy's functions do. Each function here returns None where LAPACK failed for a matrix, whose
results are nan, and in releases of NumPy that have the ufuncs elsewhere: then the function of `numpy.linalg` is to be called. And
it returns None where generated code failed for one of several matrices: then each is to be computed by itself, as no matrix may
change the results of another one.
Matrices have elements. The columns of results are in order in memory, of `cholesky` their rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import small_cholesky, small_elimination
from tdt.autograd._fast_path import FastPath
from tdt.autograd._op import Op

LARGEST = 1 << 14  # elements of matrices for which the short way of a call matters
COMPLEX: dict[str, Any] = {"f": np.dtype("F"), "d": np.dtype("D"), "F": np.dtype("F"), "D": np.dtype("D")}
REAL: dict[str, Any] = {"f": np.dtype("f"), "d": np.dtype("d"), "F": np.dtype("f"), "D": np.dtype("d")}
empty: Any = np.empty
isnan: Any = np.isnan


def _ufunc(name: str) -> Any:
    """NumPy's; None in a release that has it elsewhere."""
    return getattr(getattr(np.linalg, "_umath_linalg", None), name, None)


@functools.cache
def _routine(name: str, operands: int, results: str) -> Callable[..., bool]:
    """A function of operands and results that calls NumPy's ufunc `name`; False where that failed.

    Args:
        results: "T" for each result of the operands' type, "d" for one of real numbers, "D" for one of complex numbers. The
            first of them shows failures.
    """
    ufunc = _ufunc(name)
    of_real, of_complex = (f"{t * operands}->{results.replace('T', t)}" for t in "dD")

    def call(*arrays: np.ndarray) -> bool:
        if ufunc is None:
            return False
        try:
            ufunc(*arrays, signature=of_complex if arrays[0].dtype.kind == "c" else of_real)
        except FloatingPointError:  # where numpy.seterr asks for it; numpy.linalg raises an error of its own
            return False
        first, x = arrays[operands], arrays[0]
        return _worked(first, first.ndim - x.ndim + 2)

    return call


def _worked(result: np.ndarray, core: int) -> bool:
    """Whether no failure shows in results of matrices that have `core` dimensions."""
    if result.ndim == core:
        value: float = result.item(0)
        return value == value
    at: tuple[Any, ...] = (..., *[0] * core)
    return not isnan(result[at]).any()


def _columns(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if len(shape) == 2:
        return empty(shape, dtype, "F")
    return empty((*shape[:-2], shape[-1], shape[-2]), dtype).swapaxes(-1, -2)


def inverse(x: np.ndarray) -> np.ndarray | None:
    if (small := small_elimination("inverse", x)) is not None:
        if _worked(small, 2):
            return small
        if x.ndim > 2:
            return None
    out = _columns(x.shape, x.dtype)
    return out if _routine("inv", 1, "T")(x, out) else None


def cholesky(x: np.ndarray) -> np.ndarray | None:
    """The lower factor."""
    if (small := small_cholesky(x)) is not None:
        return small if _worked(small, 2) and has_numbers(small) else None
    out = empty(x.shape, x.dtype)
    return out if _routine("cholesky_lo", 1, "T")(x, out) and has_numbers(out) else None


def has_numbers(L: np.ndarray) -> bool:
    """Whether the diagonals of triangular factors have no NaN, which would be in their last elements too."""
    return _worked(L[..., -1:, -1:], 2)


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """X with a X = b."""
    if (small := small_elimination("solution", a, b)) is not None:
        if _worked(small, 2):
            return small
        if small.ndim > 2:
            return None
    batch = b.shape[:-2] if a.shape[:-2] == b.shape[:-2] else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = _columns((*batch, *b.shape[-2:]), b.dtype)
    return out if _routine("solve", 2, "T")(a, b, out) else None


def qr(x: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray] | None:
    *batch, m, n = x.shape
    complete = mode == "complete"
    if (small := small_elimination("orthogonal", x, complete)) is not None:
        if _worked(small[0], 2):
            return small
        if batch:
            return None
    k = m if complete else min(m, n)
    factors = np.array(x, "D" if x.dtype.kind == "c" else "d", order="C")
    scales = empty((*batch, min(m, n)), factors.dtype)
    if not _routine("qr_r_raw", 1, "T")(factors, scales):
        return None
    Q, R = _columns((*batch, m, k), x.dtype), _columns((*batch, k, n), x.dtype)
    if not _routine("qr_complete" if complete and m > n else "qr_reduced", 2, "T")(factors, scales, Q):
        return None
    factors = factors[..., :k, :]
    np.copyto(factors, 0, where=below(k, n))
    R[...] = factors
    return Q, R


def factors(x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """L and U in one, and the rows that were swapped; None for larger matrices, too."""
    small = small_elimination("factors", x)
    return small if small is not None and _worked(small[0], 2) else None


def permuted(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """P, L and U; None for larger matrices, too."""
    small = small_elimination("permuted", x)
    return small if small is not None and _worked(small[0], 2) else None


def determinant(x: np.ndarray) -> np.ndarray | None:
    """None for larger matrices."""
    small = small_elimination("determinant", x)
    if small is not None and not _worked(small, 0):
        failed = isnan(small)
        with np.errstate(all="ignore"):
            small[failed] = np.linalg.det(x[failed])
    return small


@functools.lru_cache
def below(m: int, n: int) -> np.ndarray:
    """Which elements of a matrix are below its diagonal."""
    return np.tri(m, n, -1, bool)


def eigh(x: np.ndarray, UPLO: str) -> tuple[np.ndarray, np.ndarray] | None:
    values, vectors = empty(x.shape[:-1], REAL[x.dtype.char]), _columns(x.shape, x.dtype)
    routine = _routine("eigh_lo" if UPLO == "L" else "eigh_up", 1, "dT")
    return (values, vectors) if routine(x, values, vectors) else None


def eigvalsh(x: np.ndarray, UPLO: str) -> np.ndarray | None:
    values = empty(x.shape[:-1], REAL[x.dtype.char])
    return values if _routine("eigvalsh_lo" if UPLO == "L" else "eigvalsh_up", 1, "d")(x, values) else None


def svd(x: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    *batch, m, n = x.shape
    k, dtype = min(m, n), x.dtype
    U, Vh = _columns((*batch, m, m if full else k), dtype), _columns((*batch, n if full else k, n), dtype)
    S = empty((*batch, k), REAL[dtype.char])
    return (U, S, Vh) if _routine("svd_f" if full else "svd_s", 1, "TdT")(x, U, S, Vh) else None


def eig(x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    dtype = COMPLEX[x.dtype.char]
    values, vectors = empty(x.shape[:-1], dtype), _columns(x.shape, dtype)
    return (values, vectors) if _routine("eig", 1, "DD")(x, values, vectors) else None


def short_way(record: Op, compute: Callable[[np.ndarray, Any], Any], square: bool, attribute: str = "") -> FastPath:
    """The fast path of an op of one matrix, or a batch of them.

    Args:
        compute: gives the results from an array and the value of the attribute, or None.
        square: whether the matrices must be square.
        attribute: name of the op's attribute of which the path's first argument is the place in CHOICES[attribute].
    """

    def prepare(dtype: Any, shape: tuple[int, ...], choice: Any, option: None) -> Any:
        if len(shape) < 2 or (square and shape[-1] != shape[-2]):
            return None
        value = CHOICES[attribute][choice] if attribute else None
        return lambda a: compute(a, value), {attribute: value} if attribute else {}

    return FastPath(record, prepare, LARGEST, shares=True)  # the forward does not say which matrices failed


CHOICES: dict[str, tuple] = {"UPLO": ("L", "U"), "full_matrices": (False, True), "mode": ("reduced", "complete")}


def way(path: FastPath, attribute: str, value: Any) -> tuple[FastPath, int, None] | None:
    """For `takes`: the path and its arguments for a value of the attribute; None for a value that the function refuses."""
    choices = CHOICES[attribute]
    return (path, choices.index(value), None) if value in choices else None


def codes(x: np.ndarray) -> np.ndarray:
    """LAPACK's codes of matrices for which nothing failed."""
    return np.zeros(x.shape[:-2], np.int32)
