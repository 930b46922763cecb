"""Sorting along a dimension: sort, argsort, msort, topk."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.layout import in_order
from tdt._core.calls import front
from tdt._core.dtype import REAL, REAL_NUMBERS
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels._threads import THREADS
from tdt._ops._common import store_into, wrap_dim
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.reduce._along import Prepared, along_path, last, sortable
from tdt._ops.reduce._selection import _add_gather_rule, _along, _check_out_values, _pair, _take, named
from tdt.autograd._fast_path import FastPath, takes
from tdt.autograd._op import op

__all__ = ["argsort", "msort", "sort", "topk"]


_SORTED = (_kernels.gpu_kernel("order_gpu:sort", _kernels.gpu_sortable),)
_CHOSEN = (_kernels.gpu_kernel("order_gpu:topk", _kernels.gpu_sortable),)


def _argsort(xp: ModuleType, x: Any, dim: int, descending: bool) -> Any:
    """A stable argsort; nan is larger than everything."""
    fast = _kernels.argsorted(x, dim, descending)
    if fast is not None:
        return fast
    if sort_on_gpu := _kernels.chosen(_SORTED, xp, x, dim=dim):
        return sort_on_gpu(x, dim=dim, descending=descending)[1]
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable")
    order = xp.argsort(
        xp.flip(x, dim), axis=dim, kind="stable"
    )  # of the reverse, so that equal elements keep their order
    return xp.flip(x.shape[dim] - 1 - order, dim).copy()


@op(dtypes=REAL, outputs=("values", "indices"), nondiff=("indices",), kernels=_SORTED)
def _sort(xp: ModuleType, x: Any, *, dim: int, descending: bool = False, keepdim: bool = True) -> Any:
    if not x.ndim:
        return x.copy(), xp.zeros((), "int64")
    found = _kernels.in_order(x, dim, descending)
    if found is None:
        found = _take(xp, x, _argsort(xp, x, dim, descending), dim, True)
    return tuple([in_order(xp, each, [x]) for each in found])


_add_gather_rule(_sort)
_short_sort = along_path(
    _sort,
    lambda dtype, down: _kernels.row_order("sort", dtype, down),
    lambda dtype: (dtype, np.int64),
    sortable,
    "descending",
    copies=True,
)


@method()
@takes(lambda dim=-1, descending=False: (_short_sort, dim, descending), named("sort"))
def sort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Elements in ascending or descending order along `dim`; nan counts as larger than all numbers.

    Args:
        stable: has no effect: equal elements always keep their order.
    Shape: input (*); both results the same.
    Returns: named tuple (values, indices).

    >>> import tdt
    >>> tdt.sort(tdt.tensor([3, 1, 2])).values
    tensor([1, 2, 3])
    """
    tensor_argument("sort", input)
    _check_out_values(out, input)
    return _pair("sort", _sort, out, input, dim=wrap_dim(dim, input.ndim), descending=bool(descending))


@method()
@front
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Indices that put the elements in order along `dim`; nan counts as larger than all numbers.

    Args:
        stable: has no effect: equal elements always keep their order.
    Shape: input (*); result the same, int64.

    >>> import tdt
    >>> tdt.argsort(tdt.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    if out is None and (fast := _short_sort(input, dim, descending)) is not None:
        return fast[1]
    tensor_argument("argsort", input)
    indices = sort(input.detach(), dim, descending)[1]
    return indices if out is None else store_into(out, indices, exact=True)


@method()
@front
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements in ascending order along the first dimension.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.msort(tdt.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    values = sort(input, 0)[0]
    return values if out is None else store_into(out, values, exact=True)


@op(dtypes=REAL_NUMBERS, outputs=("values", "indices"), nondiff=("indices",), kernels=_CHOSEN)
def _topk(xp: ModuleType, x: Any, *, k: int, dim: int, largest: bool = True, keepdim: bool = True) -> Any:
    if not x.ndim:
        return x.copy(), xp.zeros((), "int64")
    found = _kernels.ranked(x, dim, k, "lowest", largest) if 4 * k <= x.shape[dim] and k else None
    if found is not None:  # in order of index, which a stable sort keeps for equal elements
        return _take(
            xp, x, xp.take_along_axis(found, _argsort(xp, _along(xp, x, found, dim), dim, largest), dim), dim, True
        )
    first = _argsort(xp, x, dim, largest)[(slice(None),) * dim + (slice(k),)]
    return _take(xp, x, first.copy(), dim, True)  # which has no strides of dimensions of size 1 from before


_add_gather_rule(_topk)
MOST_INSERTED = 64  # of the elements chosen by insertion, whose time grows with k
FEW_INSERTED = 16  # the same, of large arrays
MOST_CHOSEN = 1024  # of those chosen by sorting several times as many at a time


def _prepare_topk(dtype: Any, shape: tuple[int, ...], which: tuple[int, int], largest: bool) -> Prepared:
    """The short way with the arguments ((k, dim), largest)."""
    (k, dim), ndim = which, len(shape)
    if not ndim or k < 1:
        return None
    d, count = wrap_dim(dim, ndim), math.prod(shape)
    many = FEW_INSERTED < k <= MOST_CHOSEN and dtype.itemsize <= 4 and 4 * k <= shape[d]
    if not count or k > shape[d] or (not many and k > FEW_INSERTED and count > _kernels.PIECE):
        return None
    if not many and k > MOST_INSERTED:
        return None
    function = _kernels.row_order("topk of many" if many else "topk", dtype, largest)
    if function is None:
        return None
    order, size, how = last(d, ndim) or (*range(ndim),), np.empty(k, np.bool_), {"k": k, "dim": d, "largest": largest}
    if count >= THREADS.rows and d < ndim - 1:  # rows side by side are many for the threads
        back = [order.index(place) for place in range(ndim)]

        def compute_side_by_side(a: Any) -> tuple[Any, ...]:
            found = function(a.transpose(order).copy("C"), size)
            return tuple([each.transpose(back).copy("C") for each in found])

        return compute_side_by_side, how

    def new() -> tuple[Any, ...]:
        return tuple([np.empty((*shape[:d], k, *shape[d + 1 :]), t) for t in (dtype, np.int64)])

    def compute(a: Any, size: Any) -> Any:
        outs = new()
        function(a.transpose(order), size, *[o.transpose(order) for o in outs])
        return outs

    a = np.empty(shape, dtype)
    run = _kernels.for_arrays(compute, function, [a.transpose(order), size], [(o, o.transpose(order)) for o in new()])
    return lambda a: run(a, size), how


_short_topk = FastPath(_topk, _prepare_topk, sys.maxsize, copies=True, shares=True)


@method()
@takes(lambda k, dim=-1, largest=True: (_short_topk, (k, dim), largest), named("topk"))
def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest elements along `dim`, or the k smallest, in order, and their indices.

    Args:
        largest: whether to take the largest elements, in descending order, or the smallest, in ascending order.
        sorted: has no effect: the result is always sorted.
    Shape: input (*); both results input's shape with size k in `dim`.
    Returns: named tuple (values, indices).
    Raises:
        RuntimeError: when k is negative or larger than the size of the dimension.

    >>> import tdt
    >>> tdt.topk(tdt.tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """
    d = wrap_dim(dim, input.ndim)
    if not 0 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError(f"selected index k out of range: k = {k} for dimension {d} of {list(input.shape)}")
    _check_out_values(out, input)
    return _pair("topk", _topk, out, input, k=k, dim=d, largest=bool(largest))
