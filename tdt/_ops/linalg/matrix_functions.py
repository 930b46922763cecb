"""Functions of matrices: powers, the exponential, products of several, Vandermonde matrices."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOATING_AND_COMPLEX, SCALAR_NAMES
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import store_into, with_out
from tdt._ops.linalg._matrices import check_matrix, scipy_linalg
from tdt._ops.linalg.solve import inverse
from tdt._ops.shape.join import cat
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

__all__ = ["chain_matmul", "matrix_exp", "matrix_power"]


@method()
@front
@with_out
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Power of square matrices; for negative n, of their inverses.

    Shape: input (*, N, N); result the same.
    Raises:
        RuntimeError: when input is not square.
        LinAlgError: when n is negative and a matrix is singular.

    >>> import tdt
    >>> tdt.linalg.matrix_power(tdt.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    if n >= 0:
        return _power(input, n)
    _check_square(input)
    inverted = inverse(input)
    return inverted if n == -1 else _power(inverted, -n)


def _check_square(input: Tensor) -> None:
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but it has shape {list(input.shape)}"
        )


@calls_by_shape  # which does not look whether a matrix has an inverse
def _power(input: Tensor, n: int) -> Tensor:
    """The n-th power, n >= 0."""
    _check_square(input)
    if n == 0:
        return (
            input.masked_fill(input.new_ones((), dtype=_dtype.bool), 0) + input.new_ones(input.shape[:-1]).diag_embed()
        )
    base, result = input, None
    while n:  # by repeated squaring
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        base = base @ base if n else base
    assert result is not None
    return result if result is not input else input.clone()


@op(dtypes=FLOATING_AND_COMPLEX, node="LinalgMatrixExpBackward0")
def _matrix_exp(xp: ModuleType, x: Any) -> Any:
    if not x.size:
        return x.copy()
    if xp is np:  # in double precision: each of the squarings would double the error of single precision
        with np.errstate(over="ignore"):
            return (
                scipy_linalg(xp)
                .expm(x.astype(np.promote_types(x.dtype, np.float64), copy=False))
                .astype(x.dtype, copy=False)
            )
    if x.ndim == 2:
        return scipy_linalg(xp).expm(x)
    matrices = [scipy_linalg(xp).expm(matrix) for matrix in x.reshape((-1, *x.shape[-2:]))]  # CuPy takes one at a time
    return xp.stack(matrices).reshape(x.shape)


@_matrix_exp.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    """The exponential of [[Aᴴ, g], [0, Aᴴ]] has the derivative of that of Aᴴ in the direction g in its corner (Mathias, 1996)."""
    A, n = x.mH, x.shape[-1]
    both = cat([cat([A, g], -1), cat([A.new_zeros(A.shape), A], -1)], -2)
    return _matrix_exp(both)[..., :n, n:]


@method()
@front
def matrix_exp(input: Tensor) -> Tensor:
    """Exponential of square matrices: Σ Aᵏ / k!.

    Shape: input (*, N, N); result the same.
    Raises:
        RuntimeError: when input is not square, or neither floating-point nor complex.
    Source: Al-Mohy and Higham, "A New Scaling and Squaring Algorithm for the Matrix Exponential", 2009.

    >>> import tdt
    >>> tdt.matrix_exp(tdt.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    check_matrix("linalg.matrix_exp", input, square=True)
    return _matrix_exp(input)


@front
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of several matrices, multiplied in the order that needs the fewest operations.

    Shape: tensors (N, M), (M, P), …, (Q, R), the first may be (M), the last (Q); result (N, R), without the dimensions of
        vectors.
    Raises:
        RuntimeError: when there are fewer than 2 tensors, or one between the first and the last is not a matrix.
    Source: Cormen et al., "Introduction to Algorithms", 2009, section 15.2.

    >>> import tdt
    >>> tdt.linalg.multi_dot([tdt.ones(2, 3), tdt.ones(3, 4), tdt.ones(4)])
    tensor([12., 12.])
    """
    result = _cheapest(*tensors)
    return result if out is None else store_into(out, result, exact=True)


@calls_by_shape
def _cheapest(*tensors: Tensor) -> Tensor:
    """Multiply by dynamic programming over where the last multiplication splits the chain."""
    chain, n = list(tensors), len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    row, column = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = chain[0].unsqueeze(0) if row else chain[0]
    chain[-1] = chain[-1].unsqueeze(1) if column else chain[-1]
    for i, x in enumerate(chain):
        if x.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {x.ndim}D")
    sizes = [x.shape[0] for x in chain] + [chain[-1].shape[1]]
    cost, cut = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        return chain[i] if i == j else product(i, cut[i, j]) @ product(cut[i, j] + 1, j)

    result = product(0, n - 1)
    result = result.squeeze(0) if row else result
    return result.squeeze(-1) if column else result


@front
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Product of several matrices; deprecated in favour of `linalg.multi_dot`.

    Shape: matrices (N, M), (M, P), …, (Q, R); result (N, R).
    Raises:
        RuntimeError: when there are none, or one is not a matrix.

    >>> import tdt
    >>> tdt.chain_matmul(tdt.ones(2, 3), tdt.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    warnings.warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters.",
        stacklevel=3,
    )
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for i, x in enumerate(matrices):
        if x.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {x.ndim}, expected 2 instead. (matrix {i} of chain_matmul)")
    if len(matrices) == 1:
        return matrices[0].clone() if out is None else store_into(out, matrices[0])
    return multi_dot(matrices, out=out)


@front
def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Vandermonde matrices: the powers 0 to N - 1 of each element, in rows.

    Args:
        N: number of columns; by default the size of x's last dimension.
    Shape: x (*, M); result (*, M, N).
    Raises:
        RuntimeError: when N is below 2, or x is bool, float16 or bfloat16.

    >>> import tdt
    >>> tdt.linalg.vander(tdt.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    if x.dtype is _dtype.bool or (x.is_floating_point() and x.itemsize == 2):
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {SCALAR_NAMES[x.dtype]}"
        )
    x = x if x.ndim else x.unsqueeze(0)
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError(f"N must be greater than 1. linalg.vander got {n}")
    column = x.unsqueeze(-1)
    powers = column.expand((*x.shape, n - 1)).cumprod(-1)
    return cat([column.new_ones(column.shape, dtype=powers.dtype), powers], -1)
