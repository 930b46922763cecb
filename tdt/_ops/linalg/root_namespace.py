"""Functions of `tdt` whose namesakes in `tdt.linalg` have other parameters: cholesky, det, lu, lu_solve, qr, slogdet, svd."""

from __future__ import annotations

from tdt._core.calls import front
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import with_out
from tdt._ops.linalg._matrices import check_matrix
from tdt._ops.linalg.decompositions import _checked_cholesky, _qr, _svd
from tdt._ops.linalg.lu import lu_factor_ex
from tdt._ops.linalg.lu import lu_solve as _lu_solve
from tdt._ops.linalg.solve import _det, _slogdet
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import node_name

__all__ = ["cholesky", "det", "lu", "lu_solve", "qr", "slogdet", "svd"]


@method()
@front
@with_out
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition input = U diag(S) Vᴴ; `linalg.svd`, which returns Vᴴ, is the newer form.

    Args:
        some: return only the first min(M, N) singular vectors.
        compute_uv: if False, U and V are zeros (*, M, M) and (*, N, N).
    Shape: input (*, M, N); U (*, M, K), S (*, K), V (*, N, K) with K = min(M, N); with some=False U (*, M, M), V (*, N, N).
    Returns: named tuple (U, S, V).
    Raises:
        LinAlgError: when the algorithm does not converge.
        RuntimeError: when input is not a floating-point or complex matrix.

    >>> import tdt
    >>> tdt.svd(tdt.tensor([[3.0, 0.0], [0.0, 2.0]])).S
    tensor([3., 2.])
    """
    check_matrix("svd", input)
    U, S, Vh = _svd(input, full_matrices=not some)
    if not compute_uv:
        m, n = input.shape[-2:]
        U, Vh = input.new_zeros((*input.shape[:-2], m, m)), input.new_zeros((*input.shape[:-2], n, n))
    return return_type("svd", ("U", "S", "V"))(U, S, Vh.mH)


@method()
@front
@with_out
def qr(input: Tensor, some: bool = True) -> tuple[Tensor, Tensor]:
    """QR decomposition input = Q R; `linalg.qr` is the newer form.

    Args:
        some: K = min(M, N); otherwise K = M, and Q is square.
    Shape: input (*, M, N); Q (*, M, K), R (*, K, N).
    Returns: named tuple (Q, R).
    Raises:
        RuntimeError: when input is not a floating-point or complex matrix.

    >>> import tdt
    >>> tdt.qr(tdt.eye(2)).R.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_matrix("qr", input)
    return return_type("qr", ("Q", "R"))(*_qr(input, mode="reduced" if some else "complete"))


@method()
@front
@with_out
@node_name("LinalgCholeskyExBackward0")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Cholesky decomposition input = L Lᴴ: the lower triangular L; `linalg.cholesky` is the newer form.

    Args:
        upper: return the upper triangular factor Lᴴ.
    Shape: input (*, N, N); result the same.
    Raises:
        LinAlgError: when a matrix is not positive-definite.
        RuntimeError: when input is not square.

    >>> import tdt
    >>> tdt.cholesky(tdt.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    return _checked_cholesky("cholesky", input, upper)


@method()
@front
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """LU decomposition with partial pivoting in packed form; `linalg.lu_factor` is the newer form.

    Args:
        pivot: must be True on the CPU.
        get_infos: also return the place, from 1, of the first 0 on the diagonal of U, or 0.
    Shape: A (*, M, N); LU the same, pivots (*, min(M, N)), infos (*), both int32.
    Returns: tuple (LU, pivots) or (LU, pivots, infos).
    Raises:
        RuntimeError: when A is not a floating-point or complex matrix, or pivot=False.

    >>> import tdt
    >>> tdt.lu(2 * tdt.eye(2))[1]
    tensor([1, 2], dtype=tdt.int32)
    """
    found = lu_factor_ex(A, pivot=pivot)[: 3 if get_infos else 2]
    return (
        tuple(found) if out is None else tuple([t.resize_(r.shape).copy_(r) for t, r in zip(out, found, strict=True)])
    )


@method()
@front
@autocast("float32")
@with_out
@node_name("LinalgLuSolveBackward0")
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Solution X of A X = input from the LU decomposition of A; `linalg.lu_solve` is the newer form.

    Shape: input (*, N, K), LU_data (*, N, N), LU_pivots (*, N); result (*, N, K).
    Raises:
        RuntimeError: when shapes or dtypes do not match, or LU_pivots is not int32.

    >>> import tdt
    >>> tdt.lu_solve(tdt.ones(2, 1), *tdt.linalg.lu_factor(2 * tdt.eye(2)))
    tensor([[0.5000],
            [0.5000]])
    """
    return _lu_solve(LU_data, LU_pivots, input)


@method()
@front
@with_out
def det(input: Tensor) -> Tensor:
    """Determinant of each square matrix.

    Shape: input (*, N, N); result (*).
    Raises:
        RuntimeError: when input is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.det(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_matrix("linalg.det", input, square=True)
    return _det(input)


@method()
@front
@with_out
def slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the absolute value of the determinant, computed without overflow.

    Shape: input (*, N, N); both results (*).
    Returns: named tuple (sign, logabsdet).
    Raises:
        RuntimeError: when input is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.slogdet(tdt.eye(2))[1]
    tensor(0.)
    """
    check_matrix("linalg.slogdet", input, square=True)
    return return_type("slogdet", ("sign", "logabsdet"))(*_slogdet(input))
