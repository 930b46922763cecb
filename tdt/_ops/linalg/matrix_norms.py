"""Norms of matrices, and linalg.norm, which chooses between them and those of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, cast

from tdt._core.calls import front
from tdt._core.dtype import dtype as Dtype
from tdt._core.tensor import Tensor
from tdt._ops._common import store_into, with_out, wrap_dim
from tdt._ops.linalg._matrices import check_float
from tdt._ops.linalg.decompositions import svdvals
from tdt._ops.linalg.norms import vector_norm


@front
@with_out
def matrix_norm(
    input: Tensor,
    ord: float | Literal["fro", "nuc"] = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Dtype | None = None,
) -> Tensor:
    """Norm of the matrices in two dimensions of a tensor.

    Args:
        ord: "fro" (Frobenius), "nuc" (sum of singular values), inf or -inf (largest, smallest row sum), 1 or -1 (largest,
            smallest column sum), 2 or -2 (largest, smallest singular value).
        dim: dimensions of rows and columns.
        dtype: dtype that the elements are converted to first.
    Shape: input (*) with at least 2 dimensions; result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when input has fewer than 2 dimensions or is integral, both of `dim` are equal, or `ord` is unknown.

    >>> import tdt
    >>> tdt.linalg.matrix_norm(tdt.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions. It has {input.ndim}"
        )
    input = input if dtype is None else input.to(dtype)
    check_float("linalg.matrix_norm", input)
    rows, cols = (wrap_dim(d, input.ndim) for d in dim)
    if rows == cols:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({rows}, {cols})")
    if ord == "fro":
        return vector_norm(input, 2, (rows, cols), keepdim)
    if ord == "nuc" or ord in (2, -2):
        S = svdvals(input.movedim((rows, cols), (-2, -1)))
        result = S.sum(-1) if ord == "nuc" else _largest(S, -1) if ord == 2 else S.amin(-1)
    elif ord in (1, -1, math.inf, -math.inf):
        over, then = (rows, cols) if abs(ord) == 1 else (cols, rows)
        sums = input.abs().sum(over, keepdim=True)
        result = (_largest(sums, then, True) if ord > 0 else sums.amin(then, True)).squeeze((rows, cols))
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return result.unsqueeze(min(rows, cols)).unsqueeze(max(rows, cols)) if keepdim else result


def _largest(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The largest element along `dim`, which of none is 0."""
    return x.amax(dim, keepdim) if x.shape[dim] else x.sum(dim, keepdim)


@front
def norm(
    input: Tensor,
    ord: float | Literal["fro", "nuc"] | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: Dtype | None = None,
) -> Tensor:
    """Norm of vectors or matrices.

    Args:
        ord: order of `vector_norm` or `matrix_norm`; None for the 2-norm of all elements over `dim`.
        dim: one dimension for a vector norm, two for a matrix norm; by default all of a vector or a matrix.
        dtype: dtype that the elements are converted to first.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True), () without `dim`.
    Raises:
        RuntimeError: when input is integral, `ord` is given without `dim` for more than 2 dimensions, or `ord` or `dim` is
            invalid.

    >>> import tdt
    >>> tdt.linalg.norm(tdt.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if ord is None:
        result = vector_norm(input, 2, dim, keepdim, dtype=dtype)
    elif (dim is not None and (isinstance(dim, int) or len(dim) == 1)) or (dim is None and input.ndim == 1):
        result = vector_norm(input, cast(float, ord), dim, keepdim, dtype=dtype)
    elif dim is None and input.ndim != 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.ndim}D."
        )
    elif dim is not None and len(dim) != 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    else:
        result = matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return result if out is None else store_into(out, result)
