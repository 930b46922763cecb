"""Linear algebra under PyTorch's names: `tdt.linalg.svd`, `norm`, `solve`, …"""

from __future__ import annotations

from tdt._core.calls import front, in_namespace
from tdt._core.errors import LinAlgError
from tdt._core.tensor import Tensor
from tdt._ops._common import store_into
from tdt._ops.linalg._matrices import check_float
from tdt._ops.linalg.cross import cross as _cross
from tdt._ops.linalg.decompositions import cholesky, cholesky_ex, qr, svd, svdvals
from tdt._ops.linalg.eigen import eig, eigh, eigvals, eigvalsh
from tdt._ops.linalg.householder import householder_product
from tdt._ops.linalg.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from tdt._ops.linalg.least_squares import cond, lstsq, matrix_rank, pinv
from tdt._ops.linalg.lu import lu, lu_factor, lu_factor_ex, lu_solve
from tdt._ops.linalg.matrix_functions import matrix_exp, matrix_power, multi_dot, vander
from tdt._ops.linalg.matrix_norms import matrix_norm, norm
from tdt._ops.linalg.norms import vector_norm
from tdt._ops.linalg.products import matmul, vdot
from tdt._ops.linalg.solve import det, inv, inv_ex, slogdet, solve, solve_ex, tensorinv, tensorsolve
from tdt._ops.linalg.triangular import solve_triangular
from tdt._ops.shape.diagonals import diagonal as _diagonal
from tdt.autograd._autocast import autocast

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm",
    "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander",
    "vecdot", "vector_norm",
]  # fmt: skip


@front
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Diagonal of the matrices in two dimensions, as a view.

    Args:
        offset: which diagonal: positive above the main one, negative below it.
    Shape: A (*, M, N); result (*, K), K the length of the diagonal.

    >>> import tdt
    >>> tdt.linalg.diagonal(tdt.eye(2))
    tensor([1., 1.])
    """
    return _diagonal(A, offset, dim1, dim2)


@front
@autocast("lower")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Dot products of vectors along `dim`, those in x conjugated.

    Shape: x (*), y broadcastable to it; result the broadcast shape without `dim`.
    Raises:
        RuntimeError: when x is integral.

    >>> import tdt
    >>> tdt.linalg.vecdot(tdt.ones(2, 3), tdt.ones(3))
    tensor([3., 3.])
    """
    check_float("linalg.vecdot", x)
    # The sum of rounded products loses digits in half precision; a product of vectors rounds once.
    result = vdot(x, y) if x.ndim == y.ndim == 1 and x.shape == y.shape else (x.conj() * y).sum(dim)
    return result if out is None else store_into(out, result)


@front
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Cross product of vectors of 3 elements along `dim`.

    Shape: input (*), other broadcastable to it with as many dimensions; result the broadcast shape.
    Raises:
        RuntimeError: when the numbers of dimensions or the dtypes differ, or the size of `dim` is not 3.

    >>> import tdt
    >>> tdt.linalg.cross(tdt.tensor([[1.0, 0.0, 0.0]]), tdt.tensor([[0.0, 1.0, 0.0]]))
    tensor([[0., 0., 1.]])
    """
    return _cross(input, other, dim, out=out)


in_namespace(__name__, globals())
