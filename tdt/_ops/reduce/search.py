"""Search in sorted values and membership: searchsorted, bucketize, isin, unravel_index."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

import numpy as np

from tdt import _kernels
from tdt._core import dtype as _dtype
from tdt._core.calls import front, plain_number
from tdt._core.dtype import REAL_NUMBERS, SCALAR_NAMES
from tdt._core.tensor import Tensor
from tdt._ops._common import Number
from tdt._ops.elementwise._front import refuse_out
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape

__all__ = ["bucketize", "isin", "searchsorted", "unravel_index"]


@op(promote=("edges", "x"), broadcasts=False, dtypes=REAL_NUMBERS)
def _searchsorted(xp: ModuleType, edges: Any, x: Any, order: Any = None, *, right: bool, small: bool) -> Any:
    side, kind = "right" if right else "left", "int32" if small else "int64"
    if order is None and (fast := _kernels.searched(edges, x, "i" if small else "l", right)) is not None:
        return fast
    rows = edges if order is None else xp.take_along_axis(edges, order, -1)
    found = xp.empty(x.shape, kind)
    search = xp.searchsorted
    if x.dtype.kind == "f" and (xp.isnan(rows).any() or xp.isnan(x).any()):
        search = functools.partial(_binary_search, xp)
    if search is np.searchsorted and rows.size and x.size:
        pairs = zip(rows.reshape(-1, rows.shape[-1]), x.reshape(math.prod(edges.shape[:-1]), -1), strict=True)
        return (
            np.concatenate([row.searchsorted(values, side) for row, values in pairs])
            .reshape(x.shape)
            .astype(kind, copy=False)
        )
    for where in np.ndindex(edges.shape[:-1]):
        found[(*where, ...)] = search(rows[where], x[where], side)
    return found


@_kernels.prepares(_searchsorted.forward)
def _(edges: Any, x: Any, order: Any = None, *, right: bool, small: bool, recorded: bool) -> Any:
    return _kernels.prepared_search(edges, x, "i" if small else "l", right) if order is None else None


def _binary_search(xp: ModuleType, row: Any, x: Any, side: str) -> Any:
    """Binary search with PyTorch's order of nan: it continues to the right of a nan edge, and to the end for a nan value.

    NumPy instead counts nan as larger than all numbers.
    """
    low, high = xp.zeros(x.shape, "int64"), xp.full(x.shape, len(row))
    for _ in range(len(row).bit_length()):
        middle = (low + high) // 2
        edge = row[xp.minimum(middle, len(row) - 1)]
        right = ~(edge > x if side == "right" else edge >= x)
        low, high = xp.where((low < high) & right, middle + 1, low), xp.where(right, high, middle)
    return low


@calls_by_shape
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Literal["left", "right"] | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Index at which to insert each value so that the sorted sequence remains sorted.

    Args:
        out_int32: return int32 instead of int64.
        right: insert after equal elements instead of before them; side="right" is the same.
        sorter: indices that sort sorted_sequence along its last dimension, if it is not sorted; int64.
    Shape: sorted_sequence (N), input (*); or sorted_sequence (*, N), input (*, M) with equal leading dimensions; result as
        input.
    Raises:
        RuntimeError: when shapes or dtypes do not fit, or `side` is unknown or contradicts `right`.

    >>> import tdt
    >>> tdt.searchsorted(tdt.tensor([1, 3, 5]), tdt.tensor([3, 4, 9]))
    tensor([1, 2, 3])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites, got side of left while right "
                           "was True")  # fmt: skip
    return _search(sorted_sequence, input, out_int32, right or side == "right", sorter, out)


@calls_by_shape
def bucketize(
    input: Tensor | Number,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Index of the bucket of each value: the number of boundaries below it.

    Args:
        boundaries: sorted vector.
        out_int32: return int32 instead of int64.
        right: count boundaries equal to the value, too.
    Shape: input (*), boundaries (N); result (*).
    Raises:
        RuntimeError: when boundaries is not a vector.

    >>> import tdt
    >>> tdt.bucketize(tdt.tensor([3, 6, 9]), tdt.tensor([1, 3, 5, 7, 9]))
    tensor([1, 3, 4])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


def _search(edges: Tensor, x: Any, small: bool, right: bool, order: Any, out: Tensor | None) -> Tensor:
    if not isinstance(x, Tensor):
        edges, x = _with_number(edges, plain_number(x))
    _check_search("torch.searchsorted()", edges, x, order)
    kind = _dtype.int32 if small else _dtype.int64
    if out is not None and out.dtype is not kind:
        raise RuntimeError(
            "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
            f"whether out_int32 flag is True, but we got output tensor dtype {SCALAR_NAMES[out.dtype]} and out_int32 flag "
            f"is {small}"
        )
    return finish(_searchsorted, out, edges, x, *([] if order is None else [order]), right=right, small=small)


def _with_number(x: Tensor, number: Any) -> tuple[Tensor, Tensor]:
    """x and a Python number as tensors of the dtype that they promote to."""
    both = _dtype.result_of([(x.dtype, False)], [_dtype.as_dtype(type(number))])
    wrapped = isinstance(number, int) and both.category == _dtype.INT
    return x.to(both), x.new_tensor(number, dtype=_dtype.int64 if wrapped else both).to(both)


def _check_search(name: str, edges: Tensor, x: Tensor, order: Tensor | None) -> None:
    if not x.ndim and edges.ndim != 1:
        raise RuntimeError(
            f"{name}: input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries "
            f"tensor dim({edges.ndim}) and input value's dim(0) numel(1)"
        )
    if not edges.ndim:
        raise RuntimeError(f"{name}: boundaries tensor should have positive dimension, but got 0 dimension")
    if edges.ndim != 1 and edges.shape[:-1] != x.shape[:-1]:
        raise RuntimeError(
            f"{name}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
            f"value tensor must match, but we got boundaries tensor {list(edges.shape)} and input value tensor "
            f"{list(x.shape)}"
        )
    if order is None:
        return
    if order.shape != edges.shape:
        raise RuntimeError(
            f"{name}: boundary and sorter must have the same size, but got boundary tensor {list(edges.shape)} and got "
            f"sorter tensor {list(order.shape)}"
        )
    if order.dtype is not _dtype.int64:
        raise RuntimeError(f"{name}: sorter must be a tensor of long dtype but got dtype {SCALAR_NAMES[order.dtype]}")
    if order.numel() and not (order.min() >= 0 and order.max() < edges.shape[-1]):
        raise RuntimeError(f"{name}: sorter index out of range")


MOST_PAIRS = 1 << 14  # elements of which each is compared with each in less time than they are sorted in


@op(broadcasts=False, dtypes=REAL_NUMBERS)
def _isin(xp: ModuleType, x: Any, tests: Any, *, invert: bool) -> Any:
    if xp is np and x.size * tests.size <= MOST_PAIRS:
        found = (x[..., None] == tests.reshape(-1)).any(-1)
        return np.logical_not(found) if invert else found
    return xp.isin(x, tests, invert=invert)


@front
def isin(
    elements: Tensor | Number,
    test_elements: Tensor | Number,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each element of `elements` is one of `test_elements`.

    Args:
        elements, test_elements: at least one of them is a tensor, the other may be a number.
        assume_unique: has no effect; in PyTorch a promise that allows a faster algorithm.
        invert: return whether it is not one of them.
    Shape: elements (*), test_elements any; result (*), bool.
    Raises:
        TypeError: when neither is a tensor.
        RuntimeError: when one is bool or complex, or `out` is not bool.

    >>> import tdt
    >>> tdt.isin(tdt.tensor([1, 2, 3]), tdt.tensor([2, 3]))
    tensor([False,  True,  True])
    """
    both = elements, test_elements = plain_number(elements), plain_number(test_elements)
    if not any(isinstance(x, Tensor) for x in both):
        raise TypeError(
            "isin() received an invalid combination of arguments - elements or test_elements must be a Tensor"
        )
    like = next(x for x in both if isinstance(x, Tensor))
    for x in both:
        kind = x.dtype if isinstance(x, Tensor) else _dtype.as_dtype(type(x))
        if kind.category not in REAL_NUMBERS:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {SCALAR_NAMES[kind]}")
    refuse_out(out, _dtype.bool)
    if isinstance(elements if like is test_elements else test_elements, int) and like.dtype.category == _dtype.INT:
        like = like.to(_dtype.int64)  # of numbers beyond other types none is found
    x, tests = (v.detach() if isinstance(v, Tensor) else _with_number(like, v)[1] for v in both)
    return finish(_isin, out, x, tests, invert=bool(invert))


@front
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Coordinates, in a tensor of shape `shape`, of indices into that tensor flattened.

    Shape: indices (*); result a tensor (*) for each dimension of `shape`, int64.
    Raises:
        TypeError: when indices is not integral, or shape is not an int or a sequence of ints.
        ValueError: when a size in shape is negative.

    >>> import tdt
    >>> tdt.unravel_index(tdt.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    """
    if indices.dtype.category != _dtype.INT:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in sizes:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    places = indices.new_tensor([math.prod(sizes[d + 1 :]) for d in range(len(sizes))], dtype=_dtype.int64)
    found = indices.unsqueeze(-1).floor_divide(places) % indices.new_tensor(sizes, dtype=_dtype.int64)
    return found.unbind(-1)
