"""Distinct elements of a tensor: unique, unique_consecutive."""

from __future__ import annotations

import builtins
import math
from types import ModuleType
from typing import Any, Literal, overload

from tdt import _kernels
from tdt._core.calls import front
from tdt._core.dtype import REAL
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import wrap_dim
from tdt._ops.elementwise._front import tensor_argument
from tdt.autograd._op import op

__all__ = ["unique", "unique_consecutive"]


@op(dtypes=REAL, data_dependent=True, outputs=("values", "inverse", "counts"))
def _unique(xp: ModuleType, x: Any, *, dim: int | None = None) -> Any:
    order = _kernels.argsorted(x.reshape(-1), 0, False) if dim is None else None
    if order is not None:
        ordered = x.reshape(-1).take(order)
        begins = xp.concatenate([xp.ones(1, bool), ordered[1:] != ordered[:-1]])
        starts = begins.nonzero()[0]
        inverse = xp.empty(x.size, "int64")
        inverse[order] = begins.cumsum() - 1
        return ordered[starts], inverse.reshape(x.shape), xp.diff(starts, append=x.size)
    return xp.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)


def _requested(values: Tensor, inverse: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    picked = [values] + [inverse] * return_inverse + [counts] * return_counts
    return tuple(picked) if len(picked) > 1 else values


def _slices(name: str, x: Tensor, dim: int | None) -> int | None:
    """`dim` counted from the front; RuntimeError if the slices along it have no elements to compare."""
    tensor_argument(name, x)
    d = None if dim is None else wrap_dim(dim, x.ndim)
    if d is not None and 0 in x.shape[:d] + x.shape[d + 1 :]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return d


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[False] = False,
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]: ...
@method()
@front
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order.

    Args:
        sorted: has no effect: the result is always sorted.
        return_inverse: also return the index in the result of each element (or slice) of input.
        return_counts: also return the number of occurrences of each.
    Shape: input (*); result (n), or with `dim` input's shape with size n in it; inverse (*), or with `dim` its size;
        counts (n).
    Returns: a tensor, or a tuple of it, the inverse and the counts, as far as requested.
    Raises:
        RuntimeError: when the slices along `dim` have no elements to compare.

    >>> import tdt
    >>> tdt.unique(tdt.tensor([2, 1, 2]), return_counts=True)
    (tensor([1, 2]), tensor([1, 2]))
    """
    d = _slices("unique", input, dim)
    values, inverse, counts = _unique(input.detach(), dim=d)
    return _requested(values, inverse if d is None else inverse.reshape(-1), counts, return_inverse, return_counts)


@op(dtypes=REAL, data_dependent=True, outputs=("values", "inverse", "counts"))
def _unique_consecutive(xp: ModuleType, x: Any, *, dim: int | None = None) -> Any:
    rows = x.reshape(-1) if dim is None else xp.moveaxis(x, dim, 0)
    new = (rows[1:] != rows[:-1]).reshape(builtins.max(len(rows) - 1, 0), math.prod(rows.shape[1:])).any(1)
    first = xp.concatenate([xp.ones(builtins.min(len(rows), 1), bool), new])
    starts = xp.flatnonzero(first)
    counts = xp.diff(xp.concatenate([starts, xp.asarray([len(rows)])]))
    values = rows[starts]
    inverse = first.cumsum() - 1
    return (values, inverse.reshape(x.shape), counts) if dim is None else (xp.moveaxis(values, 0, dim), inverse, counts)


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]: ...
@method()
@front
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Elements, or slices along `dim`, without those that are equal to the one directly before them.

    Args:
        return_inverse: also return the index in the result of each element (or slice) of input.
        return_counts: also return the length of each run of equal elements.
    Shape: input (*); result (n), or with `dim` input's shape with size n in it; inverse (*), or with `dim` its size;
        counts (n).
    Returns: a tensor, or a tuple of it, the inverse and the counts, as far as requested.
    Raises:
        RuntimeError: when the slices along `dim` have no elements to compare.

    >>> import tdt
    >>> tdt.unique_consecutive(tdt.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    d = _slices("unique_consecutive", input, dim)
    values, inverse, counts = _unique_consecutive(input.detach(), dim=d)
    return _requested(values, inverse, counts, return_inverse, return_counts)
