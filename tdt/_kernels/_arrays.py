"""Functions of NumPy's arrays by generated code where it applies, and by NumPy, or None, where it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from tdt import _backend
from tdt._backend.sums import total as _total
from tdt._backend.waiting import launch_waiting
from tdt._kernels._conditions import (
    FEW,
    LARGE_EXTREMES,
    LARGE_FOLD,
    LARGE_MOVE,
    LARGE_OPERAND,
    LARGE_PAIR_LINE,
    LARGE_PAIRS,
    LARGE_PRODUCT,
    LARGE_ROWS,
    LARGE_SCAN,
    LARGE_SORT,
    LARGE_TURN,
    SIMPLE,
    large_for_blas,
    large_pairs,
    mixed_matrices,
    multiplies_bfloat16,
    vectors_of_eight,
)
from tdt._kernels._formulas import BFLOAT16, FLOAT32, FLOAT64, LOWER, astype, narrow, widen
from tdt._kernels._gpu_conditions import gpu_foldable
from tdt._kernels._launches import WATCH, watched_copy
from tdt._kernels._registry import SWITCHES, Tiered, chosen, chosen_on_gpu, gpu_kernel, kernel, lazy
from tdt._kernels._stream import stream_from
from tdt._kernels._threads import THREADS

WORD = np.dtype(np.uint16)  # that holds a number of bfloat16


def product(xp: Any, a: Any, b: Any, bias: Any = None, dtype: Any = None) -> Any:
    """a @ b, for matrices, vectors or stacks of matrices, plus a bias for each column of a matrix.

    In float32 and float64 an element has one value, whatever the sizes, the strides and the code that computes it. The product
    of two vectors is NumPy's. Half precision is summed in float32 and rounded once; it may meet float32.

    dtype: of the result, for an operand of half precision: that or float32; None: the left operand's.
    """
    if a.__class__ is b.__class__ is ndarray and a.ndim == 1 == b.ndim and a.dtype is b.dtype and a.dtype.char in "fd":
        return np.asarray(_dot(a, b))
    if a.__class__ is ndarray and SWITCHES.kernels and (a.ndim > 1 or b.ndim > 1) and a.dtype == b.dtype:
        if bias is None and 1 in (a.ndim, b.ndim) and (vector := _vector_product(a, b)) is not None:
            return vector
        found = _small_products.get(a.dtype)
        if functions := _load_small_products(a.dtype) if found is None else found:
            size = a.size * b.shape[1] if a.ndim == 2 == b.ndim else _multiply_adds(a.shape, b.shape)
            if size < LARGE_PRODUCT and _is_cached(a, b):
                small, small_biased, parts, required, ufuncs = functions
                if a.ndim > 3 or b.ndim > 3:  # else they lie in this order anyway
                    out = ufuncs[0](a, b, order="C") if bias is None else ufuncs[1](a, b, bias, order="C")
                else:
                    out = small(a, b) if bias is None else small_biased(a, b, bias)
                if required[0]:
                    parts.compile()
                return out
            return _large_product(a, b, bias)
    if xp is not np and (fast := chosen(PRODUCT_ON_GPU, xp, a, b)):
        return fast(a, b, bias, dtype)
    if a.dtype in LOWER or b.dtype in LOWER:
        dtype = a.dtype if dtype is None else dtype
        size, by_pairs = a.size * b.shape[-1], xp is np and multiplies_bfloat16()
        if (
            by_pairs
            and size >= LARGE_PAIR_LINE
            and (bias is None or dtype == a.dtype)
            and (fast := chosen(PRODUCT_OF_HALF, xp, a, b))
        ):
            return fast(a, b, bias, dtype)
        if by_pairs and FLOAT32 in (a.dtype, b.dtype):  # as the kernel of pairs does
            a, b, bias = (x if x is None else astype(x, BFLOAT16) for x in (a, b, bias))
        if size >= LARGE_PRODUCT and chosen(PRODUCT_OF_MIXED, xp, a, b):
            return _large_product(a, b, bias, dtype)
        result = product(xp, *widen((a, b, bias)))
        return result if dtype == FLOAT32 else narrow(result, dtype)
    if xp is np and (fast := chosen(PRODUCT, xp, a, b)):
        return fast(a, b, bias)
    if a.ndim == 1 == b.ndim:  # as `matrix_product`: `matmul` adds in another order where a stride is 0
        return xp.asarray(_dot(a, b))
    # For small matrices `dot` has a third of the cost.
    out = a.dot(b) if a.ndim == 2 == b.ndim else xp.matmul(a, b)
    if out.ndim > 3:  # NumPy keeps the order of stacks in memory
        out = xp.ascontiguousarray(out)
    return out if bias is None else xp.add(out, bias, out=out)


def _dot(a: Any, b: Any) -> Any:
    """The product of two vectors: 0 where all terms are -0, as NumPy's is of vectors longer than one element."""
    return a.dot(b) if a.size != 1 else a.dot(b) + 0


def prepared_product(a: Any, b: Any) -> Any:
    """A function that does `product` for small matrices of float32 or float64 with these shapes, or None."""
    if not (
        a.__class__ is b.__class__ is ndarray and a.dtype == b.dtype and a.ndim == 2 == b.ndim and SWITCHES.kernels
    ):
        return None
    found = _small_products.get(a.dtype)
    functions = _load_small_products(a.dtype) if found is None else found
    if not functions or a.shape[1] != b.shape[0] or a.size * b.shape[1] >= LARGE_PRODUCT or not _is_cached(a, b):
        return None
    small, _, parts, required, _ = functions

    def run(a: ndarray, b: ndarray) -> ndarray:
        out = small(a, b)
        if required[0]:
            parts.compile()
        return out

    return run


def matrix_product(a: Any, b: Any, bias: Any = None) -> Any:
    """a @ b as `product` gives it, for two matrices of float32 or float64, or two stacks of as many, plus a bias of their dtype
    for each column of a matrix; or without one for a matrix or a vector and a vector. None for others, and before `product` has
    loaded its code."""
    if not (a.__class__ is b.__class__ is ndarray and a.dtype is b.dtype):
        return None
    if b.ndim == 1 or a.ndim == 1:
        return _vector_product(a, b) if bias is None else None
    functions = _small_products.get(a.dtype)
    if (
        functions and 4 > a.ndim == b.ndim > 1 and a.shape[-1] == b.shape[-2]
        and (a.ndim == 2 or len(a) == len(b)) and SWITCHES.kernels
    ):  # fmt: skip
        if a.size * b.shape[-1] >= LARGE_PRODUCT or not _is_cached(a, b):
            return _large_product(a, b, bias)
        small, small_biased, parts, required, _ = functions
        out = small(a, b) if bias is None else small_biased(a, b, bias)
        if required[0]:
            parts.compile()
        return out
    return None


def _vector_product(a: Any, b: Any) -> Any:
    """`matrix_product` of two vectors, or of a small matrix and a vector on either side."""
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[0] or a.ndim + b.ndim > 3:
        return None
    if a.ndim == 1 == b.ndim:
        if a.dtype.char not in "fd":
            return None
        out = np.empty((), a.dtype)  # a scalar would take longer to become an array
        np.dot(a, b, out)
        if a.size == 1:  # see `_dot`
            out += 0
        return out
    functions = _small_products.get(a.dtype)
    if not functions or not SWITCHES.kernels or max(a.size, b.size) >= LARGE_PRODUCT or not _is_cached(a, b):
        return None
    small, _, parts, required, _ = functions
    out = small(a, b[:, None])[:, 0] if b.ndim == 1 else small(a[None], b)[0]  # the call for vectors takes longer
    if required[0]:
        parts.compile()
    return out


def _is_cached(a: Any, b: Any) -> bool:
    """Whether operands of few products are so small, too, that a second thread would save nothing."""
    return THREADS.count == 1 or max(a.size, b.size) < LARGE_OPERAND


def _multiply_adds(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """About how many there are in a product of stacks, or of a vector and matrices."""
    rows, columns = a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1
    return max(math.prod(a) * columns, math.prod(b) * rows)


def _load_small_products(dtype: Any) -> tuple:
    """The functions of small products and of those with a bias, their parts, `Parts.required`, and both functions as ufuncs.

    Nothing for another type than float32 and float64, or where the processor has no vectors of eight.
    """
    functions: tuple = ()
    if dtype in (FLOAT32, FLOAT64) and vectors_of_eight():
        from tdt._kernels._direct import parts, ufuncs
        from tdt._kernels._quick import quick

        own, pair = parts(item=dtype.itemsize), ufuncs(item=dtype.itemsize)
        functions = (*map(quick, pair), own, own.required, pair)
    _small_products[dtype] = functions
    return functions


def folded(name: str, x: Any, axis: Any, keepdims: bool, dtype: Any = None, number: float = 0.0) -> Any:
    """An array folded over dimensions by generated code, as `fold_cpu.fold` says; None where there is none."""
    if x.__class__ is not np.ndarray:
        return None if dtype is not None and dtype != x.dtype else _folded_on_gpu(name, x, axis, keepdims, number)
    if not SWITCHES.kernels:
        return None
    return _without_gaps(x, lambda x: _fold_over(name, x, axis, keepdims, dtype, number))


def _without_gaps(x: np.ndarray, fold: Callable[[np.ndarray], Any]) -> Any:
    """`fold(x)`; of a copy where that is None and x has gaps, or is expanded, unless the copy takes much more memory than x."""
    found = fold(x)
    if found is not None or not has_gaps(x):
        return found
    spanned = sum([(n - 1) * abs(step) for n, step in zip(x.shape, x.strides, strict=True)])
    return fold(contiguous_copy(x)) if x.nbytes <= MOST_REPEATED + spanned else None


def has_gaps(x: np.ndarray) -> bool:
    """Whether the elements do not lie side by side in memory, in any order of the dimensions."""
    return x.size > 0 and not x.flags.c_contiguous and memory_order(x) is None


def _folded_on_gpu(name: str, x: Any, axis: Any, keepdims: bool, number: float = 0.0) -> Any:
    """An array folded as `fold_gpu.fold` says; None where that does not take it."""
    if x.__class__ is not _backend.GpuArray:
        return None
    launch_waiting()
    fast = chosen_on_gpu(_FOLD_ON_GPU, _backend.gpu(), (x,), {"name": name})
    return fast and fast(name, x, axis, keepdims, number)


def variance(name: str, x: Any, axis: Any, keepdims: bool, count: int, divisor: float) -> Any:
    """ "var" or "std" of an array, as `fold_cpu.variance` says; None where there is no code."""
    if x.__class__ is not np.ndarray:
        return _folded_on_gpu(name, x, axis, keepdims, divisor)
    if not SWITCHES.kernels:
        return None
    return _without_gaps(x, lambda x: _variance_over(name, x, axis, keepdims, count, divisor))


def logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    """log Σ exp(x), as `fold_cpu.logsumexp` says; None where there is no code."""
    if x.__class__ is not np.ndarray:
        return _folded_on_gpu("logsumexp", x, axis, keepdims)
    if not SWITCHES.kernels:
        return None
    return _without_gaps(x, lambda x: _logsumexp_over(x, axis, keepdims))


def row_function(name: str, dtype: Any, final: Any = None) -> Any:
    """The ufunc that folds the last dimension, as `fold_cpu.row_function` says; None while kernels are switched off."""
    return _row_function(name, dtype, final) if SWITCHES.kernels else None


def prepared_fold(name: str, dtype: Any, shape: tuple[int, ...], axis: Any, keepdims: bool, final: Any) -> Any:
    """What folds small arrays, as `fold_cpu.prepared_fold` says; None while kernels are switched off."""
    return _prepared_fold(name, dtype, shape, axis, keepdims, final) if SWITCHES.kernels else None


def join_arrays(arrays: tuple, dim: int, new: bool) -> Any:
    """Small arrays joined, as `_join.join` says; None where it does not take them."""
    return _join()(arrays, dim, new) if SWITCHES.kernels else None


def _unexpanded(x: np.ndarray, shape: tuple[int, ...]) -> None:
    """Leave it to NumPy."""


EXPAND = Tiered(_unexpanded, lambda: _expand() if SWITCHES.kernels else _unexpanded)  # as `_views.expand` says


def total(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over `axis`, as `_backend.total` says, by generated code; of few integers, which are exact, by NumPy."""
    if x.__class__ is np.ndarray and SWITCHES.kernels:
        kind = x.dtype.kind
        if kind == "f" or kind == "V":
            if x.size < FEW and axis is None and dtype is None and x.dtype.char == "f":
                # The bits of the generated code, for small programs that need not load it.
                return np.add.reduce(x, None, np.float64, None, keepdims, 0).astype(np.float32)
            name = "sum"
        elif x.size < LARGE_FOLD:
            return _total(x, axis, dtype, keepdims)
        elif kind == "c":
            return _complex_total(x, axis, dtype, keepdims)
        elif kind in "iub" and dtype is not None and np.dtype(dtype).char in "lq":
            name = "sum" if kind == "i" else "sum_unsigned"
        else:
            return _total(x, axis, dtype, keepdims)
        result = folded(name, x, axis, keepdims, dtype)
        if result is not None:
            return result
    elif x.__class__ is not np.ndarray:
        result = folded("sum", x, axis, keepdims, dtype)
        if result is not None:
            return result
        launch_waiting()
    return _total(x, axis, dtype, keepdims)


def _complex_total(x: np.ndarray, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """The sum of complex numbers, as the sums of their parts."""
    if dtype is not None and np.dtype(dtype) != x.dtype:
        return _total(x, axis, dtype, keepdims)
    axes = range(x.ndim) if axis is None else axis if axis.__class__ is tuple else (axis,)
    parts = x[..., None].view(x.real.dtype)
    return total(parts, tuple([d % x.ndim for d in axes]), None, keepdims).view(x.dtype)[..., 0]


def zeta(x: Any, q: Any) -> Any:
    """Hurwitz's zeta function of float32, as `zeta_cpu.zeta` says; None where no kernel applies."""
    if not SWITCHES.kernels or not (x.__class__ is ndarray is q.__class__) or not (x.dtype == FLOAT32 == q.dtype):
        return None
    return _zeta(x, q)


def distances(name: str, p: float, *arrays: Any) -> Any:
    """ "pdist" or "cdist" of order p, or a gradient of one, as `distance_cpu` says; None where there is no code."""
    function, orders = _DISTANCES[name]
    if p not in orders or not SWITCHES.kernels:
        return None
    dtype = arrays[0].dtype
    for a in arrays:
        if a.__class__ is not ndarray or a.dtype is not dtype:
            return None
    return function(*arrays, p) if dtype.char in "fd" else None


def prepared_distances(p: float, x: Any) -> Any:
    """A function that does `distances("pdist", …)` for arrays of this shape, or None."""
    return _prepared_pdist(x, p) if distances("pdist", p, x) is not None else None


def scanned(how: str, x: Any, dim: int, backwards: bool = False) -> Any:
    """The running "sum" or "prod" of a large array, as `scan_cpu.scan` says; None where no kernel applies."""
    if not SWITCHES.kernels or x.__class__ is not np.ndarray or x.size < LARGE_SCAN or x.dtype.char not in "fdlqFD":
        return None
    if x.dtype.kind == "c":
        return None if how == "prod" else _parts_scanned(how, np.ascontiguousarray(x), dim, backwards)
    if x.size < THREADS.elementwise:
        if dim == x.ndim - 1:
            out = np.empty(x.shape, x.dtype)
            return _row_scan(how, x.dtype, backwards)(x, out=out)
        matrices = np.ascontiguousarray(x).reshape(*x.shape[: dim + 1], -1)
        return _column_scan(how, x.dtype, backwards)(matrices).reshape(x.shape)
    return _scan(how, np.ascontiguousarray(x), dim, x.dtype.char, backwards)


def _parts_scanned(how: str, x: np.ndarray, dim: int, backwards: bool) -> np.ndarray:
    """`scanned` of the real and imaginary parts of a contiguous array."""
    parts = scanned(how, x.view(x.real.dtype).reshape(*x.shape, 2), dim, backwards)
    return parts.reshape(*x.shape[:-1], -1).view(x.dtype)


def running_extremes(how: str, x: Any, dim: int) -> Any:
    """The running "max" or "min" of a large array and its index, as `scan_cpu.extremes` says; None where none applies."""
    if (
        not SWITCHES.kernels
        or x.__class__ is not np.ndarray
        or x.size < LARGE_EXTREMES
        or x.dtype.char not in "fdbhilq"
    ):
        return None
    return _extremes(how, np.ascontiguousarray(x), dim, x.dtype.char)


def in_order(x: Any, dim: int, descending: bool) -> Any:
    """The elements along `dim` in stable order and their indices, as `order_cpu.sort` says; None where no kernel applies."""
    if not _sortable(x, dim):
        return None
    last = dim == x.ndim - 1
    done = _sort(np.ascontiguousarray(x if last else np.moveaxis(x, dim, -1)), descending)
    if done is None or last:
        return done
    return tuple([np.ascontiguousarray(np.moveaxis(a, -1, dim)) for a in done])


def row_order(name: str, dtype: Any, option: bool = False) -> Any:
    """As `order_cpu.row_function` says; None while kernels are switched off."""
    return _row_order(name, dtype, option) if SWITCHES.kernels else None


def row_scan(name: str, dtype: Any, option: bool = False) -> Any:
    """As `_row_scan.row_function` says; None while kernels are switched off."""
    return _row_scan(name, dtype, option) if SWITCHES.kernels else None


def column_scan(name: str, dtype: Any, option: bool = False) -> Any:
    """As `_row_scan.column_function` says; None while kernels are switched off."""
    return _column_scan(name, dtype, option) if SWITCHES.kernels else None


def argsorted(x: Any, dim: int, descending: bool) -> Any:
    """The indices that sort a large array along `dim` stably, as `order_cpu.argsort` says; None where no kernel applies."""
    if not _sortable(x, dim):
        return None
    order = _argsort(np.ascontiguousarray(np.moveaxis(x, dim, -1)), descending)
    return np.ascontiguousarray(np.moveaxis(order, -1, dim))


def ranked(x: Any, dim: int, m: int, mode: str, descending: bool = False) -> Any:
    """The index of the element of a rank, of size 1 along `dim`, or those of the m lowest, as `order_cpu.ranked` says.

    None where no kernel applies.
    """
    if not _sortable(x, dim):
        return None
    found = _ranked(np.ascontiguousarray(np.moveaxis(x, dim, -1)), m, mode, descending)
    if mode != "lowest":
        return np.expand_dims(found, dim)
    return np.ascontiguousarray(np.moveaxis(found, -1, dim))


def _sortable(x: Any, dim: int) -> bool:
    if not SWITCHES.kernels or x.__class__ is not np.ndarray or x.size < LARGE_SORT or x.dtype.char not in "fdbhilq":
        return False
    return x.shape[dim] < 1 << 31


def moved(target: Any, source: Any) -> bool:
    """Whether a kernel has copied `source` into `target`, of the same shape and type: where that takes less than NumPy."""
    if source.__class__ is np.ndarray and source.dtype == BFLOAT16 == target.dtype:
        if not moved(target.view(WORD), source.view(WORD)):
            np.copyto(target.view(WORD), source.view(WORD))  # an array of an added type is copied one by one
        return True
    if not SWITCHES.kernels or source.__class__ is not np.ndarray or source.dtype.char not in SIMPLE or not source.ndim:
        return False
    if source.size < LARGE_MOVE and not (-source.itemsize in source.strides and source.size >= LARGE_FOLD):
        return False
    return _copy_into(target, source)


def joined_rows(parts: Sequence[Any], dim: int, out: Any) -> bool:
    """Whether a kernel has joined arrays of one type along `dim` to the contiguous `out`, as `moves_cpu.join` says."""
    return SWITCHES.kernels and out.dtype.char in SIMPLE and _join_rows(parts, dim, out)


def copy_to(target: Any, source: Any) -> None:
    """Copy the elements of an array to another one of its type and shape; large ones by a kernel."""
    if (
        target.nbytes >= stream_from()
        and target.flags.c_contiguous
        and not np.may_share_memory(target, source)
        and moved(target, source)
    ):
        return
    np.copyto(target, source)


def paired(x: Any, y: Any, out: Any) -> bool:
    """Whether a kernel has written the elements of two large arrays in turn to `out`, as `moves_cpu.pairs` says."""
    if not SWITCHES.kernels or x.__class__ is not np.ndarray or x.size < LARGE_PAIRS or x.shape != y.shape:
        return False
    if not (x.flags.c_contiguous and y.flags.c_contiguous and out.flags.c_contiguous):
        return False
    _pairs(x, y, out)
    return True


def prepared_pairs(function: Any, x: Any, y: Any) -> Any:
    """`function`, which makes complex numbers of two arrays, for arrays like these; None where it is as fast itself."""
    if not SWITCHES.kernels or x.shape != y.shape or x.dtype is not y.dtype or x.dtype.char not in "fd":
        return None
    return _prepared_pairs(function, x, y) if 0 < x.size < LARGE_PAIRS else None


_contiguous_on_gpu = lazy("formula_gpu:contiguous")


def copied_rows(x: Any) -> Any:
    """A contiguous copy of an array whose rows are contiguous, as `_join.join` makes it; None where it does not."""
    if not SWITCHES.kernels or x.__class__ is not np.ndarray or x.size < LARGE_ROWS or WATCH.trace is not None:
        return None
    return _join()((x,), 0, False) if x.strides[-1] == x.itemsize and x.dtype.char in SIMPLE else None


def contiguous_copy(x: Any) -> Any:
    """A copy of an array in the order of its indices; of large arrays that lie across in memory, by a kernel."""
    if x.__class__ is np.ndarray and x.dtype == BFLOAT16 and WATCH.trace is None:
        return contiguous_copy(x.view(WORD)).view(BFLOAT16)  # words, which NumPy copies sooner, too
    short = x.__class__ is np.ndarray and WATCH.trace is None and _has_short_rows(x)
    if not (short and x.shape[-1] * x.itemsize < LEAST_ROW) and (rows := copied_rows(x)) is not None:
        return rows
    large = x.__class__ is np.ndarray and x.size >= LARGE_TURN and SWITCHES.kernels and x.dtype.char in SIMPLE
    if large and not x.flags.c_contiguous and (turned := _contiguous_copy(x)) is not None:
        return turned
    if short:
        out = np.empty(x.shape, x.dtype)
        for k in range(x.shape[-1]):
            out[..., k] = x[..., k]
        return out
    if large and x.nbytes >= stream_from() and _copy_into(out := np.empty(x.shape, x.dtype), x):
        return out
    if x.__class__ is not np.ndarray:
        launch_waiting()
        if x.__class__ is _backend.GpuArray and SWITCHES.kernels and (found := _contiguous_on_gpu(x)) is not None:
            return found
    return x.copy() if WATCH.trace is None or x.__class__ is not np.ndarray else watched_copy(x)


def _has_short_rows(x: np.ndarray) -> bool:
    """Whether there are many rows of a few elements, close to each other, which NumPy copies sooner column by column."""
    if x.ndim < 2 or not 1 < x.shape[-1] <= FEW_COLUMNS or x.shape[-2] < MANY_SHORT or x.size < LARGE_ROWS:
        return False
    apart, step = x.strides[-2:]
    return abs(apart) < CACHE_LINE and apart != x.shape[-1] * step  # of which all elements are evenly apart


def zeros_like(xp: Any, x: Any) -> Any:
    """Zeros in the memory order of `x`."""
    if x.__class__ is np.ndarray and x.dtype == BFLOAT16:
        return np.zeros_like(x.view(WORD)).view(BFLOAT16)  # NumPy fills an array of an added type one by one
    return xp.zeros_like(x)


def copy_in_order(x: Any, like: Any) -> Any:
    """A copy of an array in the order of memory of `like`, of its shape, if that lies without gaps; else contiguous."""
    if (order := memory_order(like)) is None:
        return contiguous_copy(x)
    return contiguous_copy(x.transpose(order)).transpose(sorted(order, key=order.__getitem__))


def is_in_order(x: Any, like: Any) -> bool:
    """Whether an array lies as `copy_in_order` copies it."""
    order = memory_order(like)
    return (x if order is None else x.transpose(order)).flags.c_contiguous


def memory_order(like: Any) -> list[int] | None:
    """The dimensions of an array that lies without gaps, ordered by decreasing stride; None if it is contiguous, or does not."""
    if like.flags.c_contiguous:
        return None
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    return order if like.transpose(order).flags.c_contiguous else None


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """x in another shape: a view where possible, else made of `contiguous_copy`. ValueError where it does not fit."""
    if x.__class__ is not np.ndarray or (x.size < LARGE_TURN and WATCH.trace is None) or x.flags.c_contiguous:
        if not (x.__class__ is np.ndarray or x.flags.c_contiguous):
            launch_waiting()  # before a copy
        return x.reshape(shape)
    try:
        return np.reshape(x, shape, copy=False)
    except TypeError:  # NumPy 2.0 has no `copy`
        return x.reshape(shape)
    except ValueError:
        return contiguous_copy(x).reshape(shape)


def triangle(x: Any, edge: int, lower: bool, out: Any = None) -> Any:
    """The lower or upper triangle of large matrices, as `moves_cpu.triangle` says; None where no kernel applies."""
    if not SWITCHES.kernels or x.__class__ is not np.ndarray or x.size < LARGE_FOLD:
        return None
    if x.dtype.char not in SIMPLE and x.dtype != BFLOAT16:
        return None
    if x.flags.c_contiguous:
        return _triangle(x, edge, lower, out)
    turned = x.swapaxes(-1, -2)
    if out is not None and turned.flags.c_contiguous:
        _triangle(turned, -edge - 1, not lower, turned)
        return out
    if out is not None and _backend.overlaps_itself(out):
        return None
    copy = contiguous_copy(x)
    _triangle(copy, edge, lower, copy)
    if out is None:
        return copy
    out[...] = copy
    return out


PRODUCT_OF_HALF = (kernel("bfloat16_cpu:product", large_pairs),)
PRODUCT_OF_MIXED = (kernel("product_cpu:product", mixed_matrices),)
PRODUCT = (kernel("blas_cpu:product", large_for_blas),)
PRODUCT_ON_GPU = (gpu_kernel("product_gpu:product", lazy("product_gpu:fits")),)
_FOLD_ON_GPU = (gpu_kernel("fold_gpu:fold", gpu_foldable),)
_small_products: dict[Any, tuple] = {}  # by dtype, as `_load_small_products` gives them
_large_product = lazy("product_cpu:product")
_prepared_pdist = lazy("distance_cpu:prepared_pdist")
_scan, _extremes = lazy("scan_cpu:scan"), lazy("scan_cpu:extremes")
bordered, border_gradient = lazy("border_cpu:prepared"), lazy("border_cpu:prepared_gradient")
_pairs, _prepared_pairs = lazy("moves_cpu:pairs"), lazy("_interleave:prepared_pairs")
_join_rows = lazy("moves_cpu:join")
_copy_into, _triangle = lazy("moves_cpu:copy_into"), lazy("moves_cpu:triangle")
_contiguous_copy = lazy("moves_cpu:contiguous_copy")
_DISTANCES = {
    "pdist": (lazy("distance_cpu:pdist"), (2.0, 1.0, 0.0, math.inf)),
    "cdist": (lazy("distance_cpu:cdist"), (2.0, 1.0, 0.0, math.inf)),
    "pdist_gradient": (lazy("distance_cpu:pdist_gradient"), (2.0, 1.0)),
    "cdist_gradient": (lazy("distance_cpu:cdist_gradient"), (2.0, 1.0)),
}
_zeta = lazy("zeta_cpu:zeta")
polynomial, prepared_polynomial = lazy("recurrence_cpu:polynomial"), lazy("recurrence_cpu:prepared_polynomial")
_row_scan, _column_scan = lazy("_row_scan:row_function"), lazy("_row_scan:column_function")
_sort, _row_order = lazy("order_cpu:sort"), lazy("order_cpu:row_function")
_argsort, _ranked = lazy("order_cpu:argsort"), lazy("order_cpu:ranked")
_row_function, _prepared_fold = lazy("fold_cpu:row_function"), lazy("fold_cpu:prepared_fold")
for_arrays, _join, _expand = lazy("_gufunc:for_arrays"), lazy("_join:join"), lazy("_views:expand")
FEW_COLUMNS, MANY_SHORT, LEAST_ROW, CACHE_LINE = 4, 64, 4, 64  # elements of a row; rows; bytes of a row and of a line
MOST_REPEATED = 1 << 28  # bytes of a copy of elements that share memory, more than they take
_logsumexp_over = lazy("fold_cpu:logsumexp")
_fold_over, _variance_over = lazy("fold_cpu:fold"), lazy("fold_cpu:variance")
