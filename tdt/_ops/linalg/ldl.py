"""LDL factors of symmetric and Hermitian matrices that need not be positive-definite (Bunch and Kaufman, 1977)."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import LAPACK
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import with_out
from tdt._ops.linalg._matrices import check_info, check_matrix, check_system, columns, each, lapack, no_derivative
from tdt.autograd._op import op

if TYPE_CHECKING:
    from tdt._core.return_types import linalg_ldl_factor, linalg_ldl_factor_ex


def _kind(char: str, hermitian: bool) -> str:
    return "he" if hermitian and char in "FD" else "sy"


@op(dtypes=LAPACK, outputs=("LD", "pivots", "info"))
def _ldl_factor(xp: ModuleType, x: Any, *, hermitian: bool) -> Any:
    factor = lapack(_kind(x.dtype.char, hermitian) + "trf", x.dtype.char)
    batch = x.shape[:-2]
    results = columns(x.shape, x.dtype), np.zeros(x.shape[:-1], np.int32), np.zeros(batch, np.int32)

    def packed(a: np.ndarray) -> tuple:
        LD, pivots, info = factor(a, lower=1)
        return np.tril(LD), pivots, info

    return each(packed, results, x)


no_derivative(_ldl_factor, "linalg_ldl_factor_ex", "x")


@op(dtypes=LAPACK, promote=("LD", "b"), broadcasts=False)
def _ldl_solve(xp: ModuleType, LD: Any, pivots: Any, b: Any, *, hermitian: bool) -> Any:
    solve = lapack(_kind(b.dtype.char, hermitian) + "trs", b.dtype.char)
    shape = (*np.broadcast_shapes(LD.shape[:-2], b.shape[:-2]), *b.shape[-2:])

    def solved(p: np.ndarray, i: np.ndarray, q: np.ndarray) -> tuple:
        _check_pivots(i[:, 0].tolist())
        return (solve(p, i[:, 0], q, lower=1)[0],)

    return each(solved, (columns(shape, b.dtype),), LD, pivots[..., None], b)[0]


def _check_pivots(pivots: list[int]) -> None:
    """RuntimeError for pivots that no factorization has, by which LAPACK would read and write outside of the matrix."""
    k, n = 0, len(pivots)
    while k < n:
        is_pair = pivots[k] < 0 and pivots[k : k + 2] == [pivots[k]] * 2  # of rows that a block of 2 × 2 exchanges
        if not 1 <= abs(pivots[k]) <= n or (pivots[k] < 0 and not is_pair):
            raise RuntimeError(f"linalg.ldl_solve: pivots must be those of ldl_factor, but entry {k} is {pivots[k]}")
        k += 2 if is_pair else 1


no_derivative(_ldl_solve, "linalg_ldl_solve", "LD", "b")


@front
@with_out
def ldl_factor_ex(input: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> linalg_ldl_factor_ex:
    """LDL decomposition that reports a singular D in `info` instead of raising.

    Args:
        hermitian: decompose A = L D Lᴴ instead of A = L D Lᵀ.
        check_errors: raise as `ldl_factor` does.
    Shape: input (*, N, N), only the lower triangle is read; LD the same, pivots (*, N), info (*), both int32.
    Returns: named tuple (LD, pivots, info); info is the place, from 1, of the first 0 on the diagonal of D, or 0.
    Raises:
        LinAlgError: when D is singular and check_errors=True.
        RuntimeError: when input is not square.

    >>> import tdt
    >>> tdt.linalg.ldl_factor_ex(tdt.zeros(1, 1)).info
    tensor(1, dtype=tdt.int32)
    """
    check_matrix("torch.linalg.ldl_factor_ex", input, square=True)
    LD, pivots, info = _ldl_factor(input, hermitian=hermitian)
    if check_errors:
        check_info("torch.linalg.ldl_factor_ex", info, ZERO)
    return return_type("linalg_ldl_factor_ex", ("LD", "pivots", "info"))(LD, pivots, info)


ZERO = (
    "D[{0},{0}] is zero and using it on ldl_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.ldl_factor_ex"
)


@front
@with_out
def ldl_factor(input: Tensor, *, hermitian: bool = False) -> linalg_ldl_factor:
    """LDL decomposition A = L D Lᵀ of symmetric matrices in LAPACK's packed form, for `ldl_solve`; D has blocks of 1 and 2.

    Args:
        hermitian: decompose A = L D Lᴴ instead.
    Shape: input (*, N, N), only the lower triangle is read; LD the same, pivots (*, N), int32.
    Returns: named tuple (LD, pivots).
    Raises:
        LinAlgError: when D is singular.
        RuntimeError: when input is not square.
    Source: Bunch and Kaufman, "Some Stable Methods for Calculating Inertia and Solving Symmetric Linear Systems", 1977.

    >>> import tdt
    >>> tdt.linalg.ldl_factor(tdt.tensor([[2.0, 0.0], [0.0, 1.0]])).pivots
    tensor([1, 2], dtype=tdt.int32)
    """
    check_matrix("torch.linalg.ldl_factor", input, square=True)
    LD, pivots, info = _ldl_factor(input, hermitian=hermitian)
    check_info("torch.linalg.ldl_factor", info, ZERO)
    return return_type("linalg_ldl_factor", ("LD", "pivots"))(LD, pivots)


@front
@with_out
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """Solution X of A X = B from the LDL decomposition that `ldl_factor` returns.

    Args:
        hermitian: the value that `ldl_factor` was called with.
    Shape: LD (*, N, N), pivots (*, N), B (*, N, K); result (*, N, K).
    Raises:
        RuntimeError: when shapes or dtypes do not match, or `pivots` are not those of a factorization.

    >>> import tdt
    >>> LD, pivots = tdt.linalg.ldl_factor(tdt.tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> tdt.linalg.ldl_solve(LD, pivots, tdt.ones(2, 1))
    tensor([[0.5000],
            [1.0000]])
    """
    name = "torch.linalg.ldl_solve"
    check_matrix(name, LD, square=True, which="LD")
    if B.ndim < 2:
        raise RuntimeError(f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead")
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype.category is not _dtype.int32.category or pivots.dtype is _dtype.bool:
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype}")
    check_system(name, LD, B, left=True)
    return _ldl_solve(LD, pivots, B, hermitian=hermitian)
