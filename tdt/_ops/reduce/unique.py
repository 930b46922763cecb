"""Distinct elements of a tensor: unique, unique_consecutive."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, overload

import numpy as np

from tdt import _kernels
from tdt._core.calls import front
from tdt._core.dtype import REAL
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import wrap_dim
from tdt._ops.elementwise._front import tensor_argument
from tdt.autograd._op import op

__all__ = ["unique", "unique_consecutive"]


TABLE = 1 << 10  # integers from which a table of them is tried
SORTED = 1 << 14  # integers that NumPy sorts and finds again sooner than they are sorted with their indices


@op(dtypes=REAL, data_dependent=True, outputs=("values", "inverse", "counts"))
def _unique(xp: ModuleType, x: Any, *, dim: int | None = None, rest: bool = True) -> Any:
    """rest: whether inverse and counts are computed; else they are empty."""
    integers = xp is np and dim is None and x.size and x.dtype.kind in "iub"
    if integers and x.size >= TABLE and (found := _by_table(x, rest)) is not None:
        return found
    if integers and (not rest or x.size < SORTED):
        return _of_runs(xp, np.sort(x, axis=None), lambda values, begins: _places(values, x), rest)
    order = _kernels.argsorted(x.reshape(-1), 0, False) if dim is None else None
    if order is None:
        return xp.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)

    def inverse(values: Any, begins: Any) -> Any:
        places = xp.empty(x.size, "int64")
        places[order] = begins.cumsum() - 1
        return places.reshape(x.shape)

    return _of_runs(xp, x.reshape(-1).take(order), inverse, rest)


def _by_table(x: np.ndarray, rest: bool) -> tuple[Any, Any, Any] | None:
    """`_unique` of integers that lie so close together that a table of all between them is not longer than x; else None."""
    low, high = x.min(), x.max()
    if int(high) - int(low) >= x.size:
        return None
    lifted = _above(x.reshape(-1), low)
    counts = np.bincount(lifted)
    places = counts.nonzero()[0]
    values = places.astype(x.dtype) + low if x.dtype.kind == "u" else (places + int(low)).astype(x.dtype)
    if not rest:
        return values, places[:0], places[:0]
    return values, ((counts > 0).cumsum() - 1)[lifted].reshape(x.shape), counts[places]


def _above(x: np.ndarray, low: Any) -> np.ndarray:
    """How far integers lie above the least one."""
    return (x - low).astype(np.int64) if x.dtype.kind == "u" else x.astype(np.int64) - int(low)


def _places(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Where in the ascending `values` the integers x, which are all among them, are: by a table if they lie close together."""
    low, count = values[0], int(values[-1]) - int(values[0]) + 1
    if count > 4 * x.size:
        return values.searchsorted(x)
    table = np.empty(count, np.int64)
    table[_above(values, low)] = np.arange(len(values))
    return table[_above(x, low)]


def _of_runs(xp: ModuleType, rows: Any, inverse: Callable[[Any, Any], Any], rest: bool) -> tuple[Any, Any, Any]:
    """The first of each run of equal elements of a vector, `inverse(these, where they begin)`, and the lengths of the runs."""
    n = len(rows)
    begins = xp.empty(n, bool)
    begins[:1] = True
    xp.not_equal(rows[1:], rows[:-1], out=begins[1:])
    if not rest:
        nothing = xp.empty(0, "int64")
        return rows[begins], nothing, nothing
    starts = begins.nonzero()[0]
    values, counts = rows[starts], xp.empty(len(starts), "int64")
    xp.subtract(starts[1:], starts[:-1], out=counts[:-1])
    counts[-1:] = n - starts[-1:]
    return values, inverse(values, begins), counts


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
    values, inverse, counts = _unique(input.detach(), dim=d, rest=bool(return_inverse or return_counts))
    return _requested(values, inverse if d is None else inverse.reshape(-1), counts, return_inverse, return_counts)


@op(dtypes=REAL, data_dependent=True, outputs=("values", "inverse", "counts"))
def _unique_consecutive(xp: ModuleType, x: Any, *, dim: int | None = None, rest: bool = True) -> Any:
    """rest: as of `_unique`."""
    if dim is None:
        return _of_runs(xp, x.reshape(-1), lambda values, begins: (begins.cumsum() - 1).reshape(x.shape), rest)
    rows = xp.moveaxis(x, dim, 0)
    new = (rows[1:] != rows[:-1]).reshape(builtins.max(len(rows) - 1, 0), math.prod(rows.shape[1:])).any(1)
    first = xp.concatenate([xp.ones(builtins.min(len(rows), 1), bool), new])
    starts = xp.flatnonzero(first)
    counts = xp.diff(xp.concatenate([starts, xp.asarray([len(rows)])]))
    return xp.moveaxis(rows[starts], 0, dim), first.cumsum() - 1, counts


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
    rest = bool(return_inverse or return_counts)
    values, inverse, counts = _unique_consecutive(input.detach(), dim=d, rest=rest)
    return _requested(values, inverse, counts, return_inverse, return_counts)
