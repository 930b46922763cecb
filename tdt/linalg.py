"""Linear algebra under PyTorch's names: `tdt.linalg.svd`, `norm`, `solve`, …"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tdt import _dtype
from tdt._autocast import casts_as_one
from tdt._errors import LinAlgError
from tdt._ops._common import store_into, with_out, wrap_dim
from tdt._ops.decompositions import check_float, cholesky, det, eigh, slogdet, solve
from tdt._ops.decompositions import inverse as inv
from tdt._ops.decompositions import qr_mode as qr
from tdt._ops.decompositions import svd_full as svd
from tdt._ops.linalg import matmul, vdot, vector_norm
from tdt._ops.shape import diagonal as _diagonal
from tdt._tensor import Tensor

__all__ = [
    "LinAlgError", "cholesky", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "multi_dot", "norm", "qr", "slogdet", "solve", "svd", "svdvals", "vecdot", "vector_norm",
]  # fmt: skip


@with_out
def svdvals(A: Tensor) -> Tensor:
    """The singular values, from large to small.

    >>> import tdt
    >>> tdt.linalg.svdvals(tdt.tensor([[3.0, 0.0], [0.0, 2.0]]))
    tensor([3., 2.])
    """
    return svd(A, full_matrices=False)[1]


@with_out
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, from small to large.

    >>> import tdt
    >>> tdt.linalg.eigvalsh(tdt.eye(2))
    tensor([1., 1.])
    """
    return eigh(A, UPLO)[0]


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the last two dimensions, a view.

    >>> import tdt
    >>> tdt.linalg.diagonal(tdt.eye(2))
    tensor([1., 1.])
    """
    return _diagonal(A, offset, dim1, dim2)


@casts_as_one
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Σ conj(x) · y along `dim`, broadcast.

    >>> import tdt
    >>> tdt.linalg.vecdot(tdt.ones(2, 3), tdt.ones(3))
    tensor([3., 3.])
    """
    check_float("linalg.vecdot", x)
    # The sum of rounded products loses digits in half precision; a product of vectors rounds once.
    result = vdot(x, y) if x.ndim == y.ndim == 1 and x.shape == y.shape else (x.conj() * y).sum(dim)
    return result if out is None else store_into(out, result)


@with_out
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices in the dimensions `dim`: "fro", "nuc", inf, -inf, 1, -1, 2 or -2.

    >>> import tdt
    >>> tdt.linalg.matrix_norm(tdt.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    if A.ndim < 2:
        raise RuntimeError(f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions. It has {A.ndim}")
    A = A if dtype is None else A.to(dtype)
    check_float("linalg.matrix_norm", A)
    rows, cols = (wrap_dim(d, A.ndim) for d in dim)
    if rows == cols:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({rows}, {cols})")
    if ord == "fro":
        return vector_norm(A, 2, (rows, cols), keepdim)
    if ord == "nuc" or ord in (2, -2):
        S = svdvals(A.movedim((rows, cols), (-2, -1)))
        result = S.sum(-1) if ord == "nuc" else _largest(S, -1) if ord == 2 else S.amin(-1)
    elif ord in (1, -1, math.inf, -math.inf):
        over, then = (rows, cols) if abs(ord) == 1 else (cols, rows)
        sums = A.abs().sum(over, keepdim=True)
        result = (_largest(sums, then, True) if ord > 0 else sums.amin(then, True)).squeeze((rows, cols))
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return result.unsqueeze(min(rows, cols)).unsqueeze(max(rows, cols)) if keepdim else result


def _largest(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The largest element along `dim`, which of none is 0."""
    return x.amax(dim, keepdim) if x.shape[dim] else x.sum(dim, keepdim)


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, dtype: Any = None
) -> Tensor:
    """A vector norm (one dimension, or all elements without ord) or a matrix norm (two dimensions).

    >>> import tdt
    >>> tdt.linalg.norm(tdt.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if ord is None:
        result = vector_norm(A, 2, dim, keepdim, dtype=dtype)
    elif (dim is not None and (isinstance(dim, int) or len(dim) == 1)) or (dim is None and A.ndim == 1):
        result = vector_norm(A, ord, dim, keepdim, dtype=dtype)
    elif dim is None and A.ndim != 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    elif dim is not None and len(dim) != 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    else:
        result = matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return result if out is None else store_into(out, result)


@with_out
def matrix_power(A: Tensor, n: int) -> Tensor:
    """A square matrix multiplied n times with itself; of a negative n the inverse is taken.

    >>> import tdt
    >>> tdt.linalg.matrix_power(tdt.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but it has shape {list(A.shape)}"
        )
    if n == 0:
        return A.masked_fill(A.new_ones((), dtype=_dtype.bool), 0) + A.new_ones(A.shape[:-1]).diag_embed()
    base, n = (A, n) if n > 0 else (inv(A), -n)
    result: Tensor | None = None
    while n:  # by repeated squaring
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        base = base @ base if n else base
    assert result is not None
    return result.clone() if result is A else result


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of several matrices in the order of multiplication that costs least (Cormen et al., 15.2).

    >>> import tdt
    >>> tdt.linalg.multi_dot([tdt.ones(2, 3), tdt.ones(3, 4), tdt.ones(4)])
    tensor([12., 12.])
    """
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError("multi_dot(): expected at least 2 tensors but got " + str(len(chain)))
    row, column = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = chain[0].unsqueeze(0) if row else chain[0]
    chain[-1] = chain[-1].unsqueeze(1) if column else chain[-1]
    for i, x in enumerate(chain):
        if x.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {x.ndim}D")
    result = _cheapest(chain)
    result = result.squeeze(0) if row else result
    result = result.squeeze(-1) if column else result
    return result if out is None else store_into(out, result, exact=True)


def _cheapest(chain: list[Tensor]) -> Tensor:
    """Multiply by dynamic programming over where the last multiplication splits the chain."""
    sizes = [x.shape[0] for x in chain] + [chain[-1].shape[1]]
    n = len(chain)
    cost, cut = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        return chain[i] if i == j else product(i, cut[i, j]) @ product(cut[i, j] + 1, j)

    return product(0, n - 1)
