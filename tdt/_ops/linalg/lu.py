"""LU factors of matrices, in batches: lu_factor, lu, lu_solve, lu_unpack."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import LAPACK
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor, wrap_new
from tdt._ops._common import with_out
from tdt._ops.index.pick import take_along_dim
from tdt._ops.linalg import _lapack
from tdt._ops.linalg._matrices import (
    check_float,
    check_info,
    check_matrix,
    check_same_dtype,
    check_system,
    columns,
    each,
    lapack,
    scipy_linalg,
)
from tdt._ops.linalg.triangular import _solve_triangular, triangular_right, trsm
from tdt._ops.shape.join import cat
from tdt.autograd._arrays import on_arrays, unrecorded
from tdt.autograd._fast_path import takes
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

if TYPE_CHECKING:
    from tdt._core.return_types import linalg_lu, linalg_lu_factor, linalg_lu_factor_ex

__all__ = ["lu_unpack"]


@op(dtypes=LAPACK, outputs=("LU", "pivots", "info"), node="LinalgLuFactorExBackward0", autocast="float32")
def _lu_factor(xp: ModuleType, x: Any) -> Any:
    *batch, m, n = x.shape
    if xp is np:
        if (found := _lapack.factors(x)) is not None:
            return *found, _lapack.codes(x)
        results = columns(x.shape, x.dtype), np.zeros((*batch, min(m, n)), np.int32), np.zeros(batch, np.int32)
        return each(_factors_and_code, results, x)
    LU, pivots = xp.empty_like(x), xp.empty((*batch, min(m, n)), np.int32)
    for at in np.ndindex(*batch):
        LU[at], pivots[at] = scipy_linalg(xp).lu_factor(x[at], check_finite=False)
    zeros = xp.diagonal(LU, 0, -2, -1) == 0
    return LU, pivots + 1, xp.where(zeros.any(-1), zeros.argmax(-1) + 1, 0).astype(np.int32)


def _factors_and_code(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The factors of one matrix, which do not depend on others in its batch."""
    if (found := _lapack.factors(x)) is not None:
        return *found, 0
    LU, pivots, info = lapack("getrf", x.dtype.char)(x)
    return LU, pivots + 1, info


@_lu_factor.vjp("x")
def _(g: tuple, LU: Tensor, pivots: Tensor) -> Tensor:
    """For A = P L U: P L⁻ᴴ (tril(Lᴴ gL, -1) + triu(gU Uᴴ)) U⁻ᴴ; the rows or columns beyond the square add terms."""
    gLU = g[0]
    m, n = LU.shape[-2:]
    k = min(m, n)
    square, gL, gU = LU[..., :k, :k], gLU[..., :k, :k].tril(-1), gLU[..., :k, :k].triu()
    L, U = square.tril(-1) + square.new_ones(k).diag_embed(), square.triu()
    lower, upper = L.mH @ gL, gU @ U.mH
    if n > k:
        lower = lower - gLU[..., k:] @ LU[..., k:].mH
    if m > k:
        upper = upper - LU[..., k:, :].mH @ gLU[..., k:, :]
    inner = lower.tril(-1) + upper.triu()
    result = _solve_triangular(L.mH, triangular_right(inner, U.mH, upper=False), upper=True, unitriangular=True)
    if n > k:
        result = cat([result, _solve_triangular(L.mH, gLU[..., k:], upper=True, unitriangular=True)], -1)
    if m > k:
        result = cat([result, triangular_right(gLU[..., k:, :], U.mH, upper=False)], -2)
    return _back(result, _permutation(pivots, rows=m))


@op
def _permutation(xp: ModuleType, pivots: Any, *, rows: int) -> Any:
    """For each row of L U the row of A, as a permutation, from the sequence of row swaps."""
    swaps = _backend.to_device(pivots, _backend.CPU)
    perm = np.empty((*swaps.shape[:-1], rows), np.int64)
    for at in np.ndindex(*swaps.shape[:-1]):
        perm[at] = _order(swaps[at], rows)
    return _backend.to_device(perm, _backend.device_of(pivots))


def _order(pivots: np.ndarray, rows: int) -> list[int]:
    """`_permutation` for one matrix."""
    order = list(range(rows))
    for i, other in enumerate(pivots.tolist()):
        order[i], order[other - 1] = order[other - 1], order[i]
    return order


def _back(x: Tensor, perm: Tensor) -> Tensor:
    """P x."""
    return _rows(x, perm.argsort(-1))


def _rows(x: Tensor, at: Tensor) -> Tensor:
    """Rows of x in the order `at`; Pᵀ x for the permutation of P."""
    batch = np.broadcast_shapes(x.shape[:-2], at.shape[:-1])
    at = at.unsqueeze(-1).expand((*batch, at.shape[-1], x.shape[-1]))
    return take_along_dim(x.expand((*batch, *x.shape[-2:])), at, -2)


def _check_lu(name: str, A: Tensor, pivot: bool) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    check_float(name, A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


FACTORS = ("LU", "pivots", "info")
ZERO_PIVOT = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


def _factor_one(x: np.ndarray, _: None) -> Any:
    """The factors of small matrices, or of one; None where U has a 0 on its diagonal."""
    if (found := _lapack.factors(x)) is not None:
        return *found, _lapack.codes(x)
    if x.ndim > 2:
        return None
    LU, pivots, info = _factors_and_code(x)
    return None if info else (LU, pivots, _lapack.codes(x))


_short_lu = _lapack.short_way(_lu_factor, _factor_one, square=False)


@takes(
    lambda *, pivot=True, check_errors=False: (_short_lu, None, None) if pivot else None,
    lambda found: return_type("linalg_lu_factor_ex", FACTORS)(*found),
)
@with_out
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> linalg_lu_factor_ex:
    """LU decomposition in packed form that reports singular matrices in `info` instead of raising.

    Args:
        pivot: must be True on the CPU.
        check_errors: raise as `lu_factor` does.
    Shape: A (*, M, N); LU the same, pivots (*, min(M, N)), info (*), both int32.
    Returns: named tuple (LU, pivots, info); info is the place, from 1, of the first 0 on the diagonal of U, or 0.
    Raises:
        LinAlgError: when U has a 0 on its diagonal and check_errors=True.
        RuntimeError: when A is not a floating-point or complex matrix, or pivot=False.

    >>> import tdt
    >>> tdt.linalg.lu_factor_ex(tdt.zeros(1, 1)).info
    tensor(1, dtype=tdt.int32)
    """
    _check_lu("torch.lu_factor_ex", A, pivot)
    LU, pivots, info = _lu_factor(A)
    if check_errors:
        check_info("torch.linalg.lu_factor_ex", info, ZERO_PIVOT)
    return return_type("linalg_lu_factor_ex", FACTORS)(LU, pivots, info)


@takes(
    lambda *, pivot=True: (_short_lu, None, None) if pivot else None,
    lambda found: return_type("linalg_lu_factor", FACTORS[:2])(*found[:2]),
)
@with_out
def lu_factor(A: Tensor, *, pivot: bool = True) -> linalg_lu_factor:
    """LU decomposition A = P L U with partial pivoting in packed form, for `lu_solve`.

    LU has U in its upper triangle and L, without its diagonal of ones, below it. Row i was swapped with row pivots[i], counted
    from 1, one after the other.

    Args:
        pivot: must be True on the CPU.
    Shape: A (*, M, N); LU the same, pivots (*, min(M, N)), int32.
    Returns: named tuple (LU, pivots).
    Raises:
        LinAlgError: when U has a 0 on its diagonal.
        RuntimeError: when A is not a floating-point or complex matrix, or pivot=False.

    >>> import tdt
    >>> LU, pivots = tdt.linalg.lu_factor(tdt.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> LU, pivots
    (tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]]), tensor([2, 2], dtype=tdt.int32))
    """
    _check_lu("torch.lu_factor", A, pivot)
    LU, pivots, info = _lu_factor(A)
    check_info("torch.linalg.lu_factor", info, ZERO_PIVOT)
    return return_type("linalg_lu_factor", FACTORS[:2])(LU, pivots)


@front
@with_out
def lu(A: Tensor, *, pivot: bool = True) -> linalg_lu:
    """LU decomposition A = P L U: a permutation matrix, L lower triangular with ones on its diagonal, U upper triangular.

    Args:
        pivot: must be True on the CPU.
    Shape: A (*, M, N); P (*, M, M), L (*, M, K), U (*, K, N) with K = min(M, N).
    Returns: named tuple (P, L, U).
    Raises:
        RuntimeError: when A is not a floating-point or complex matrix, or pivot=False.

    >>> import tdt
    >>> tdt.linalg.lu(tdt.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    _check_lu("linalg.lu", A, pivot)
    if on_arrays(A) and (found := _lapack.permuted(A._a)) is not None:
        return return_type("linalg_lu", ("P", "L", "U"))(*map(wrap_new, found))
    if A._a.ndim == 2 and A._a.size and on_arrays(A):
        LU, pivots, _ = _lu_factor.forward(np, A._a)
        return return_type("linalg_lu", ("P", "L", "U"))(*map(wrap_new, _unpacked(LU, pivots)))
    LU, pivots, _ = _lu_factor(A)
    return return_type("linalg_lu", ("P", "L", "U"))(*_unpack(LU, pivots))


def _unpack(LU: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m, n = LU.shape[-2:]
    k = min(m, n)
    perm = _permutation(pivots, rows=m)
    P = LU.new_zeros((*perm.shape, m)).scatter(-2, perm.unsqueeze(-2), 1.0)
    L = LU[..., :k].tril(-1)
    return P, L + LU.new_ones(k).diag_embed() if m == k else _ones_on_diagonal(L), LU[..., :k, :].triu()


def _unpacked(LU: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`_unpack` for one matrix of NumPy."""
    m, n = LU.shape
    k = min(m, n)
    P, L, U = np.zeros((m, m), LU.dtype), np.array(LU[:, :k], order="C"), np.array(LU[:k], order="C")
    P[_order(pivots, m), np.arange(m)] = 1
    lower = _lapack.below(m, k)
    np.copyto(L, 0, where=~lower)
    np.copyto(U, 0, where=_lapack.below(k, n))
    return P, L + np.eye(m, k, dtype=LU.dtype), U


def _ones_on_diagonal(L: Tensor) -> Tensor:
    """L, taller than wide, plus the identity."""
    m, k = L.shape[-2:]
    return L + L.new_ones(m).diag_embed()[..., :k]


@front
@with_out
@node_name("LuUnpackBackward0")
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U from the packed LU decomposition that `lu_factor` returns.

    Args:
        unpack_data: compute L and U; else they are empty.
        unpack_pivots: compute P; else it is empty.
    Shape: LU_data (*, M, N), LU_pivots (*, K); P (*, M, M), L (*, M, K), U (*, K, N) with K = min(M, N).
    Returns: named tuple (P, L, U).
    Raises:
        RuntimeError: when LU_data has fewer than 2 dimensions, or LU_pivots is not int32.

    >>> import tdt
    >>> LU, pivots = tdt.linalg.lu_factor(tdt.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> tdt.lu_unpack(LU, pivots).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    if LU_data.ndim < 2:
        raise RuntimeError(
            "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: " + str(LU_data.shape)
        )
    if unpack_pivots and LU_pivots.dtype is not _dtype.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Note: this function "
            "is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    P, L, U = _unpack(LU_data, LU_pivots)
    none = LU_data.new_empty(0)
    return return_type("lu_unpack", ("P", "L", "U"))(
        P if unpack_pivots else none, *((L, U) if unpack_data else (none, none.clone()))
    )


@front
@with_out
@node_name("LinalgLuSolveBackward0")
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Solution X of A X = B from the LU decomposition of A that `lu_factor` returns.

    Args:
        left: solve A X = B; otherwise X A = B.
        adjoint: take Aᴴ instead of A.
    Shape: LU (*, N, N), pivots (*, N), B (*, N, K), with left=False (*, K, N); result as B.
    Raises:
        RuntimeError: when shapes or dtypes do not match, or pivots is not int32.

    >>> import tdt
    >>> LU, pivots = tdt.linalg.lu_factor(2 * tdt.eye(2))
    >>> tdt.linalg.lu_solve(LU, pivots, tdt.ones(2, 1))
    tensor([[0.5000],
            [0.5000]])
    """
    check_same_dtype("linalg.lu_solve", LU, B)
    _check_factors("linalg.lu_solve", LU, pivots)
    check_system("linalg.lu_solve", LU, B, left)
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    if not adjoint and LU._a.ndim == B._a.ndim == 2 and B._a.size and on_arrays(B) and unrecorded(LU):
        if unrecorded(pivots):
            lu, rows = LU._a, B._a[_order(pivots._a, len(LU._a))]
            return wrap_new(trsm(lu, trsm(lu, rows, upper=False, unitriangular=True), upper=True, unitriangular=False))
    perm = _permutation(pivots, rows=LU.shape[-1])
    if adjoint:
        X = _solve_triangular(LU.mH, B, upper=False)
        return _back(_solve_triangular(LU.mH, X, upper=True, unitriangular=True), perm)
    X = _solve_triangular(LU, _rows(B, perm), upper=False, unitriangular=True)
    return _solve_triangular(LU, X, upper=True)


def _check_factors(name: str, LU: Tensor, pivots: Tensor) -> None:
    if pivots.dtype is not _dtype.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    check_matrix(name, LU, square=True, which="LU")
    if pivots.ndim < 1 or pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix")
    if pivots.shape[:-1] != LU.shape[:-2]:
        raise RuntimeError(f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                           f"{list(pivots.shape)} instead")  # fmt: skip
