"""Reductions of what is not zero: all, any, count_nonzero."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import is_empty
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import Dims, wrap_dims
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt._ops.reduce.reductions import AllDims, fold_path
from tdt.autograd._fast_path import takes
from tdt.autograd._op import Op, finish, op

__all__ = ["all", "any", "count_nonzero"]


def _truth_op(name: str) -> Op:
    """The op of `all` or `any`: bool, but uint8 for uint8."""

    @op(name=name, packed=True, float8=_dtype.FLOAT8S)
    @repeatable
    def truth(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
        fast = _kernels.folded(name, x, dim, keepdim, x.dtype if x.dtype == xp.uint8 else bool) if dim != () else None
        if fast is not None:
            return fast
        refuse_program()
        result = getattr(x.astype(bool), name)(axis=dim, keepdims=keepdim)
        return result.astype(x.dtype) if x.dtype == xp.uint8 else result

    return truth


_all, _any = _truth_op("all"), _truth_op("any")


def _truth_type(dtype: Any) -> Any:
    return dtype if dtype == np.uint8 else np.bool_


_short_all, _short_any = fold_path(_all, "all", _truth_type), fold_path(_any, "any", _truth_type)


@method()
@takes(lambda dim=None, keepdim=False: None if is_empty(dim) else (_short_all, dim, keepdim))
def all(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether all elements over `dim` are non-zero: bool, but uint8 for uint8 input.

    Args:
        dim: one or several dimensions; None for all.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).

    >>> import tdt
    >>> tdt.all(tdt.tensor([True, False]))
    tensor(False)
    """
    dims = () if is_empty(dim) else wrap_dims(dim, tensor_argument("all", input).ndim)
    refuse_out(out, out if out is not None and out.dtype is _dtype.uint8 else _dtype.bool)
    return finish(_all, out, input, dim=dims, keepdim=keepdim)


@method()
@takes(lambda dim=None, keepdim=False: None if is_empty(dim) else (_short_any, dim, keepdim))
def any(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether at least one element over `dim` is non-zero: bool, but uint8 for uint8 input.

    Args:
        dim: one or several dimensions; None for all.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).

    >>> import tdt
    >>> tdt.any(tdt.tensor([True, False]))
    tensor(True)
    """
    dims = () if is_empty(dim) else wrap_dims(dim, tensor_argument("any", input).ndim)
    refuse_out(out, out if out is not None and out.dtype is _dtype.uint8 else _dtype.bool)
    return finish(_any, out, input, dim=dims, keepdim=keepdim)


@op(packed=True)
def _count_nonzero(xp: ModuleType, x: Any, *, dim: AllDims = None) -> Any:
    fast = _kernels.folded("count", x, dim, False, "int64")
    return (x != 0).sum(dim, dtype="int64") if fast is None else fast


_short_count = fold_path(_count_nonzero, "count", np.dtype(np.int64), turned=False)


@method()
@takes(lambda dim=None: (_short_count, dim, False))
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Number of non-zero elements over `dim`, an int64.

    Args:
        dim: one or several dimensions; None or () for all.
    Shape: input (*); result input's shape without `dim`.

    >>> import tdt
    >>> tdt.count_nonzero(tdt.tensor([0, 3, 4]))
    tensor(2)
    """
    return _count_nonzero(input, dim=wrap_dims(dim, input.ndim))
