"""What NumPy's arrays have at indices, and where values belong: by generated code where it applies, else None or False."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._backend import overlaps_itself
from tdt._kernels._arrays import contiguous_copy
from tdt._kernels._conditions import LARGE_INDEX, LARGE_MOVE, NUMBERS, SIMPLE, SMALL_INDEXED
from tdt._kernels._registry import SWITCHES, lazy

FEWER = 4  # times as many elements as are placed may be copied before and after


def taken(x: Any, index: Any, dim: int, negative: bool = False) -> Any:
    """Many entries of x along `dim`, as `index_cpu.take` says; None where no kernel applies or an index is out of range."""
    if not SWITCHES.kernels or x.__class__ is not np.ndarray or index.__class__ is not np.ndarray or not x.ndim:
        return None
    expanded = 0 in index.strides
    if x.shape == index.shape and LARGE_INDEX <= x.size < SMALL_INDEXED and x.dtype.char in NUMBERS and not expanded:
        return _take_rows(x, index, dim, negative) if index.dtype.char in "lqi" else None
    if not _indexed(x.shape, index, dim) or x.itemsize > 8 or not x.size:
        return None
    if expanded and index.ndim == x.ndim and (whole := _expanded(index, dim)) is not None:
        return _take_along(x, index[whole], dim, negative)
    if index.ndim == 1 and dim < x.ndim - 1 and x.ndim > 1 and index.size * x.size // x.shape[dim] < LARGE_MOVE:
        return None  # NumPy copies whole entries as fast
    if x.size < SMALL_INDEXED and index.size < SMALL_INDEXED and x.dtype.char in NUMBERS:
        if index.ndim == x.ndim or dim == x.ndim - 1:
            return _take_rows(x, index, dim, negative)
    return _take_along(x, index, dim, negative)


def prepared_taken(x: Any, index: Any, dim: int) -> Any:
    """A function that does `taken` for few elements of arrays of these shapes; None where there are more."""
    if not SWITCHES.kernels or not x.ndim == index.ndim > 0 or not _indexed(x.shape, index, dim, 1) or not x.size:
        return None
    if index.size >= LARGE_MOVE or x.dtype.char not in NUMBERS:
        return None
    if not x.flags.c_contiguous:
        found = prepared_taken(x.copy("C"), index, dim) if x.size < SMALL_INDEXED else None
        return found and (lambda x, index: found(x.copy("C"), index))
    if 0 in index.strides and (whole := _expanded(index, dim)) is not None and dim < x.ndim - 1:
        return _prepared_entries_along(x, index, dim, whole)
    if index.size >= SMALL_INDEXED:
        return None
    take = _prepared_take(x, index.copy("C"), dim)
    return take if index.flags.c_contiguous else lambda x, index: take(x, index.copy("C"))


def prepared_placed(x: Any, index: Any, source: Any, dim: int, *, negative: bool = False, how: str = "sum") -> Any:
    """A function that copies x and places `source` at `index`, for few elements of arrays of these shapes, or None.

    x and `source` are contiguous; the index is a vector, or of source's shape, which is x's but for `dim`.
    """
    if not x.ndim or not SWITCHES.kernels or not (x.flags.c_contiguous and source.flags.c_contiguous):
        return None
    shape = (*x.shape[:dim], source.shape[dim] if source.ndim == x.ndim else -1, *x.shape[dim + 1 :])
    if source.shape != shape or index.shape not in (shape, shape[dim : dim + 1]):
        return None
    if not 0 < x.size < SMALL_INDEXED or not 0 < source.size < LARGE_MOVE:
        return None
    if x.dtype != source.dtype or x.dtype.char not in "fdilq" or index.dtype.char not in "lqi":
        return None
    expanded = _expanded(index, dim) if index.ndim > 1 else None
    if expanded is None:
        return _prepared_place(x, index, dim, negative, how)
    place = _prepared_place(x, index[expanded], dim, negative, how)
    return lambda x, index, source: place(x, index[expanded], source)


def prepared_entries(x: Any, index: Any) -> Any:
    """A function that does `entries` for arrays of these shapes, or None."""
    return _prepared_entries(x, index) if _takes_entries(x, index, 1) and _entries(x, index) is not None else None


def entries(x: Any, index: Any) -> Any:
    """Few rows of a contiguous array, as `_row_index.entries` says; None where no kernel applies."""
    return _entries(x, index) if _takes_entries(x, index, LARGE_INDEX) else None


def _takes_entries(x: Any, index: Any, least: int) -> bool:
    """Whether an index names few rows of a contiguous array, of at least so many elements."""
    if not SWITCHES.kernels or not x.flags.c_contiguous or x.dtype.char not in SIMPLE or index.dtype.char not in "lqi":
        return False
    if not (index.ndim == 1 or (index.ndim and x.ndim > 1 and index.flags.c_contiguous)) or not x.ndim:
        return False
    return least <= index.size * (x.size // max(len(x), 1)) < LARGE_MOVE


def bags(x: Any, index: Any, first: Any, last: Any) -> Any:
    """Sums of rows of x, as `_row_index.bags` says; None where no kernel applies, or indices or places are wrong."""
    if not SWITCHES.kernels or x.dtype.char not in "fd" or index.dtype.char not in "lqi" or not x.size:
        return None
    if not x.flags.c_contiguous or first.dtype != last.dtype or first.dtype.char not in "lqi":
        return None
    return _bags(x, index, first, last)


def placed(out: Any, index: Any, source: Any, dim: int, how: str, negative: bool = False) -> bool:
    """Whether a kernel has placed `source` at many entries of `out` along `dim`, as `index_cpu.put` says.

    source: an array in which at least as many elements lie. If an index is out of range, the result is False, and some
    elements may be placed already: the caller raises the error.
    """
    if not SWITCHES.kernels or out.__class__ is not np.ndarray or not out.ndim or source.__class__ is not np.ndarray:
        return False
    if not out.size or not _indexed(out.shape, index, dim) or out.dtype != source.dtype:
        return False
    if not out.flags.c_contiguous:
        few = out.size <= FEWER * source.size and not overlaps_itself(out)
        return few and _placed_in_copy(out, index, source, dim, how, negative)
    if out.dtype.char not in ("fdilq" if how != "set" else SIMPLE) or np.may_share_memory(out, source):
        return False
    if index.ndim == out.ndim and source.shape != index.shape:
        source = source[tuple([slice(n) for n in index.shape])]
    whole = _expanded(index, dim) if index.ndim > 1 else None
    index = index if whole is None else index[whole]
    few = how == "sum" and out.size < SMALL_INDEXED and source.size < LARGE_MOVE and source.ndim == out.ndim
    if index.ndim < out.ndim or not few:
        source = np.ascontiguousarray(source)
    return (_add_rows if few else _put_along)(out, index, source, dim, *(() if few else (how,)), negative)


def _placed_in_copy(out: Any, index: Any, source: Any, dim: int, how: str, negative: bool) -> bool:
    """`placed`, for an array with gaps."""
    copy = contiguous_copy(out)
    done = placed(copy, index, source, dim, how, negative)
    if done:
        out[...] = copy
    return done


def _expanded(index: Any, dim: int) -> tuple | None:
    """How an index is indexed that was expanded over all dimensions behind `dim`, so that it names whole entries; else None.

    What is left is (m) if it was expanded over the dimensions before `dim`, too, else (*, m) with these.
    """
    varies = [n > 1 and stride != 0 for n, stride in zip(index.shape, index.strides, strict=True)]
    if any(varies[dim + 1 :]):
        return None
    if not any(varies[:dim]):
        return tuple([slice(None) if k == dim else 0 for k in range(index.ndim)])
    if math.prod(index.shape[dim + 1 :]) == 1:  # single elements
        return None
    return tuple([slice(None) if k <= dim else 0 for k in range(index.ndim)])


def flat_index(index: Any, shape: tuple[int, ...]) -> Any:
    """The places in an array of a shape, flat, of integers for each dimension, which are broadcast.

    None where no kernel applies, or one is out of range.
    """
    for a in index:
        if not SWITCHES.kernels or a.__class__ is not np.ndarray or a.dtype.char not in "lqi":
            return None
    return _flat_index(index, shape)


def prepared_flat_index(index: Any, shape: tuple[int, ...]) -> Any:
    """A function that does `flat_index` for integers of two dimensions, of one shape, as a vector; None for others."""
    if len(index) != 2 or index[0].shape != index[1].shape or flat_index(index, shape) is None:
        return None
    return _prepared_flat_index(index, shape)


def searched(edges: Any, x: Any, target: str, right: bool) -> Any:
    """The places of x in sorted edges of its type, as `_row_search.search` says; None where no kernel applies."""
    if x.size < LARGE_INDEX or not _searchable(edges, x):
        return None
    return _search_rows(edges, x, target, right)


def prepared_search(edges: Any, x: Any, target: str, right: bool) -> Any:
    """A function that does `searched` for arrays of these shapes, few elements too; None where no kernel applies."""
    return _prepared_search(edges, x, target, right) if x.size and _searchable(edges, x) else None


def _searchable(edges: Any, x: Any) -> bool:
    if not SWITCHES.kernels or x.__class__ is not np.ndarray or edges.dtype != x.dtype or x.dtype.char not in NUMBERS:
        return False
    return bool(edges.size and x.ndim)


def _indexed(shape: tuple[int, ...], index: Any, dim: int, many: int = LARGE_INDEX) -> bool:
    """Whether `index` names many elements of an array along `dim`, as a vector or in all other dimensions alike."""
    if index.dtype.char not in "lqi" or not index.size:
        return False
    if index.ndim == 1 and len(shape) > 1:
        return index.size * math.prod(shape) // max(shape[dim], 1) >= many
    return index.size >= many and index.shape[:dim] == shape[:dim] and index.shape[dim + 1 :] == shape[dim + 1 :]


_take_rows, _add_rows, _search_rows = lazy("_row_index:take"), lazy("_row_index:add"), lazy("_row_search:search")
_prepared_search, _flat_index = lazy("_row_search:prepared_search"), lazy("_row_index:flat_index")
_prepared_flat_index = lazy("_row_index:prepared_flat_index")
_entries, _bags = lazy("_row_index:entries"), lazy("_row_index:bags")
_prepared_take, _prepared_place = lazy("_row_index:prepared_take"), lazy("_row_index:prepared_place")
_prepared_entries_along = lazy("_row_index:prepared_entries_along")
_prepared_entries = lazy("_row_index:prepared_entries")
_take_along, _put_along = lazy("index_cpu:take"), lazy("index_cpu:put")
