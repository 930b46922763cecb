"""Products over dimensions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import keep, wrap_dim, wrap_dims
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.reduce.reductions import AllDims, accumulation_dtype, fold_path, integral, sum_name, sum_type
from tdt.autograd._fast_path import takes
from tdt.autograd._node_names import by_dim
from tdt.autograd._op import finish, op

__all__ = ["prod"]


def _product_name(dtype: Any) -> str:
    return "prod" if dtype.kind == "c" else sum_name(dtype, "prod")


_COMPLEX_PRODUCT = (_kernels.kernel("complex_fold_cpu:product", _kernels.some),)


@op(packed=True, node=by_dim("Prod"), autocast="float32")
@repeatable
def _prod(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if x.dtype.kind == "c" and xp is np and dtype is None:
        fast = _kernels.chosen(_COMPLEX_PRODUCT, xp, x)
        found = fast and fast(x, dim, keepdim)
        return _backend.complex_product(x, dim, keepdim) if found is None else found
    if dtype is None:
        fast = _kernels.folded(_product_name(x.dtype) or "prod", x, dim, keepdim, sum_type(x.dtype))
        if fast is not None:
            return fast
    refuse_program()
    return x.prod(dim, accumulation_dtype(x, dtype), None, keepdim)


_short_prod = fold_path(_prod, _product_name, sum_type)


@_prod.vjp("x")
def _(g: Tensor, x: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
    """Each element's gradient is the product of all others: of those before and those after it, so that zeros are no problem."""
    if not x.ndim or not x.numel():
        return g if not x.ndim else x * keep(g, dim, x.shape, keepdim)
    ends = tuple(range(-len(dim or ()), 0))
    flat = x.reshape(-1) if dim is None else x.movedim(dim, ends).flatten(ends[0])
    ones = flat.new_ones((*flat.shape[:-1], 1))
    from tdt._ops.shape.join import cat

    before = cat([ones, flat[..., :-1]], -1).cumprod(-1)
    after = cat([flat[..., 1:], ones], -1).flip(-1).cumprod(-1).flip(-1)
    others = before * after
    others = (
        others.reshape(x.shape) if dim is None else others.unflatten(-1, [x.shape[d] for d in dim]).movedim(ends, dim)
    )
    return keep(g, dim, x.shape, keepdim) * others.conj()


@_prod.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any, out: Any, dim: AllDims, keepdim: bool) -> Any:
    g, product = keep(g, dim, x.shape, keepdim), keep(out, dim, x.shape, keepdim)
    if (x != 0).all():
        return g * (product / x).conj()
    if dim is not None and len(dim) == 1:
        rows = xp.moveaxis(x, dim[0], -1)
    else:
        assert dim is None or len(dim) == x.ndim
        rows = x.reshape(-1)
    ones = xp.ones((*rows.shape[:-1], 1), x.dtype)
    before = xp.concatenate([ones, rows[..., :-1]], -1)
    after = xp.flip(xp.concatenate([rows[..., 1:], ones], -1), -1)
    before, after = (_backend.scan(xp, xp.multiply, v, v.ndim - 1) for v in (before, after))
    others = before * xp.flip(after, -1)
    others = others.reshape(x.shape) if rows.ndim != x.ndim or dim is None else xp.moveaxis(others, -1, dim[0])
    return g * others.conj()


@method()
@takes(lambda dim=None, keepdim=False: None if dim.__class__ is tuple else (_short_prod, dim, keepdim))
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: Dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Product of the elements over `dim`; of integers and bools an int64.

    Args:
        dim: one dimension; None for all.
        dtype: dtype that the elements are converted to before they are multiplied.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).

    >>> import tdt
    >>> tdt.prod(tdt.tensor([2, 3, 4]))
    tensor(24)
    """
    if dtype is None and isinstance(out, Tensor):
        dtype = out.dtype
    x = tensor_argument("prod", input) if dtype is None else input.to(dtype)
    dim = None if dim is None else wrap_dim(dim, x.ndim)
    return finish(_prod, out, x, dim=wrap_dims(dim, x.ndim), keepdim=keepdim, dtype=integral(dtype))
