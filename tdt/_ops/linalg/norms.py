"""Norms of vectors and matrices, and the distance of two tensors."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, Literal, cast

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core.calls import front
from tdt._core.dtype import FLOAT, FLOATING_AND_COMPLEX
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap
from tdt._ops._common import Dims, keep, store_into, wrap_dims
from tdt._ops.linalg._matrices import check_float
from tdt._ops.linalg.decompositions import svdvals
from tdt._ops.reduce.reductions import float_fold, fold_path, reduces_nothing
from tdt.autograd._fast_path import takes
from tdt.autograd._node_names import node_name
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape

__all__ = ["dist", "frobenius_norm", "norm", "nuclear_norm"]

FOLDS = {1: "norm1", 2: "norm2", math.inf: "norm_inf"}  # compiled, by the norm's order


@op(dtypes=FLOATING_AND_COMPLEX, packed=True, node="LinalgVectorNormBackward0")
@repeatable
def _vector_norm(
    xp: ModuleType, x: Any, *, ord: float = 2.0, dim: tuple[int, ...] | None = None, keepdim: bool = False
) -> Any:
    if ord and reduces_nothing(x.shape, dim):
        ord = math.inf  # the element itself, whose power may be infinite or 0
    if (name := FOLDS.get(ord)) and (fast := _kernels.folded(name, x, dim, keepdim)) is not None:
        return fast
    if ord == 2 and x.dtype.kind != "c":
        return xp.sqrt(_backend.total(x * x, dim, None, keepdim))
    size = xp.abs(x)
    if ord == math.inf:
        return size.max(dim, None, keepdim)
    if ord == -math.inf:
        return size.min(dim, None, keepdim)
    if ord == 0:
        return (size != 0).sum(dim, size.dtype, None, keepdim)
    if ord == 1:
        return _backend.total(size, dim, None, keepdim)
    return _backend.total(size**ord, dim, None, keepdim) ** (1 / ord)


_short = {
    ord: fold_path(_vector_norm, float_fold(name), by_shape=True, alone=FOLDS[math.inf], ord=float(ord))
    for ord, name in FOLDS.items()
}


@_vector_norm.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, ord: float, dim: tuple[int, ...] | None, keepdim: bool) -> Tensor:
    g, out = keep(g, dim, x.shape, keepdim), keep(out, dim, x.shape, keepdim)
    if ord == 0:
        return x.new_zeros(x.shape)
    if ord == 1:
        return g * x.sgn()
    if ord == 2:
        return g * (x / out).masked_fill(out == 0, 0)
    size = x.abs()
    if math.isinf(ord):
        ties = (size == out) | size.isnan()
        return x.sgn() * (g * ties / ties.sum(dim, keepdim=True))
    if ord < 1:
        return (x.sgn() * size ** (ord - 1)).masked_fill(x == 0, 0) * (g * out ** (1 - ord))
    if ord < 2:
        return x.sgn() * size ** (ord - 1) * (g / out ** (ord - 1)).masked_fill(out == 0, 0)
    return x * size ** (ord - 2) * (g / out ** (ord - 1)).masked_fill(out == 0, 0)


_share = _kernels.from_formula("norm_gradient", lambda xp, g, x, out: g * xp.where(out == 0, out, x / out), 3, ())[0]


@_vector_norm.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, x: Any, out: Any, ord: float, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    if ord == 2:
        g, out = keep(g, dim, x.shape, keepdim), keep(out, dim, x.shape, keepdim)
        return xp.asarray(g * xp.where(out == 0, out, x / out) if xp is np else _share(xp, g, x, out))
    refuse_program()
    rule = _vector_norm.rules["x"].function
    return rule(wrap(g), wrap(x), wrap(out), ord, dim, keepdim)._a


def _short_norm(ord: Any = 2, dim: Any = None, keepdim: Any = False) -> tuple | None:
    path = _short.get(ord) if ord.__class__ in (int, float) else None
    return None if path is None else (path, dim, keepdim)


@takes(_short_norm)
def vector_norm(
    input: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Vector norm (Σ |x|^ord)^(1/ord) over `dim`.

    Args:
        ord: inf and -inf for the largest and the smallest absolute value, 0 for the number of non-zero elements.
        dim: one or several dimensions, as one vector; None for all.
        dtype: dtype that the elements are converted to first.
    Shape: input (*); result its shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when `input` is integral, `dtype` is not of its kind, or there are no elements and ord is negative or inf.

    >>> import tdt
    >>> tdt.linalg.vector_norm(tdt.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if dtype is None:
        check_float("linalg.vector_norm", input)
    if dtype is not None and (dtype.is_complex != input.is_complex() and input.dtype.category >= FLOAT):
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be {'complex' if input.is_complex() else 'floating point'} but got {dtype}"
        )
    x = input if dtype is None else input.to(dtype)
    dims = wrap_dims(dim, x.ndim)
    if (ord < 0 or ord == math.inf) and any(n == 0 for k, n in enumerate(x.shape) if dims is None or k in dims):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not "
            "have an identity"
        )
    return finish(_vector_norm, out, x, ord=float(ord), dim=dims, keepdim=keepdim)


@method()
@takes(lambda p="fro", dim=None, keepdim=False: _short_norm(2 if p == "fro" else p, dim, keepdim))
def norm(
    input: Tensor,
    p: float | Literal["fro", "nuc"] | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: Dtype | None = None,
) -> Tensor:
    """Norm of the elements over `dim`; `linalg.norm` is the newer form.

    Args:
        p: order of the vector norm over all of `dim`; "fro" for 2; "nuc" for the sum of the singular values of matrices.
        dim: one or several dimensions; for "nuc" two. None for all, for "nuc" the last two.
        dtype: dtype that the elements are converted to first.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when input is integral.

    >>> import tdt
    >>> tdt.norm(tdt.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if p == "nuc":
        rows_and_columns = (-2, -1) if dim is None else dim
        input = input if dtype is None else input.to(dtype)
        S = svdvals(input.movedim(rows_and_columns, (-2, -1)))
        result = keep(S.sum(-1), wrap_dims(rows_and_columns, input.ndim), input.shape, not keepdim)
        return result if out is None else store_into(out, result, exact=True)
    x = input if dtype is None else input.to(dtype)
    check_float("linalg.vector_norm", x)
    return vector_norm(x, cast(float, 2 if p in ("fro", None) else p), dim, keepdim, out=out)


@front
def frobenius_norm(input: Tensor, dim: Dims, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Square root of the sum of squared absolute values over `dim`; `linalg.matrix_norm` is the newer form.

    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when input is integral.

    >>> import tdt
    >>> tdt.frobenius_norm(tdt.tensor([[3.0, 4.0]]), (0, 1))
    tensor(5.)
    """
    return norm(input, "fro", dim, keepdim, out)


@front
def nuclear_norm(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Sum of the singular values of matrices; `linalg.matrix_norm` is the newer form.

    Args:
        dim: dimensions of rows and columns; by default the last two.
    Shape: input (*) with at least 2 dimensions; result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when input is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.nuclear_norm(tdt.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    return norm(input, "nuc", dim, keepdim, out)


@method()
@calls_by_shape
@node_name("DistBackward0")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other.

    Shape: input (*), other broadcastable to it; result ().
    Raises:
        RuntimeError: when the difference is integral.

    >>> import tdt
    >>> tdt.dist(tdt.tensor([3.0, 0.0]), tdt.tensor([0.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(input - other, p)
