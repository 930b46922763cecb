"""Fast kernels, all optional: the portable forward is the definition, and a kernel only does it faster.

An op states its kernels beside its forward, `@op(kernels=(kernel("norm_cpu:batch_norm", large_channels),))`, and other
functions beside their definition: they ask `chosen` for the one to call. A kernel has the portable function's signature
without `xp`. Its condition `when(arrays, attributes)` decides by shape, dtype and strides alone, so the same program takes
the same path on every run; it is false while kernels are switched off.

Nothing here imports Numba: a kernel's module, and llvmlite with it, is loaded by the first call that is large enough to
earn that time back.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tdt._backend.layout import is_dense, memory_order, output_is_channels_last
from tdt._backend.sums import total as _total
from tdt._backend.windows import output_sizes
from tdt._kernels._compilable import PARALLEL

When = Callable[[Sequence[Any], dict], bool]

# The first kernel of a process costs about 40 ms where it was compiled before, and a second or two where it was not.
# Below these many elements a call saves so little that a run of a thousand calls would not earn the 40 ms back.
LARGE_STEP = 1 << 17
# Multiply-adds of a convolution. At a million a kernel saves about 0.2 ms a call of the portable form's 0.3 to 0.5 ms, so
# three kernels (50 ms a process) are paid back within a hundred training steps, and larger ones at once.
LARGE_CONV = 1 << 20
# Multiply-adds of a convolution by Winograd's algorithm: its code takes a fifth of a second to compile, and a call saves half
# a millisecond. With fewer channels than these the images' transforms take too large a part of the time, with fewer pixels of
# the result (in the weight gradient) the weights' transforms.
LARGE_WINOGRAD = 1 << 26
WINOGRAD_CHANNELS = 32
MANY_PIXELS, MANY_SUMMED_PIXELS = 512, 384
LARGE_GROUPS = 1 << 12  # of one in groups, each of which takes the portable form tens of microseconds
LARGE_POOL = 1 << 16  # elements: a step saves about a fifth of a millisecond
LARGE_NORM = 1 << 13  # elements: a training step of a layer takes a third of NumPy's 0.4 ms
LARGE_LSTM = 1 << 14  # gates at all steps: a step of a few samples takes a fifth of the time
LONG_LSTM = 8  # steps, each of which saves 10 µs, whatever its size
LARGE_SUM = 1 << 18  # elements: from here on a second thread saves more than the dispatch costs
LARGE_FOLD = 1 << 12  # elements of a reduction: NumPy takes about as long for as many
SIMPLE_FOLDS = ("sum", "mean", "max", "min", "prod")  # the others take NumPy several passes, and so
LARGE_OTHER_FOLD = 1 << 9
LARGE_INDEX = 1 << 8  # elements taken or placed by an index
LARGE_SCAN = 1 << 9  # elements of a running sum; of running extremes, which NumPy finds step by step, LARGE_EXTREMES
LARGE_EXTREMES = 1 << 5
SIMPLE = "?bBhHiIlLqQefd"  # NumPy's letters of numbers of up to 8 bytes
LARGE_SORT = 1 << 8  # elements to sort or to choose from
LARGE_MOVE = 1 << 17  # elements that are copied: a second thread saves more than the call costs
LARGE_DRAW = 1 << 9  # words of the Mersenne Twister: NumPy takes as long for as many
LARGE_LOOKUP = 1 << 13  # elements of a gradient: NumPy's addition to places takes 8 ns for each
LARGE_SOFTMAX = 1 << 14  # elements, of layer norm too
CACHED = 1 << 19  # elements of a group, or of a channels-last sample, that are read three times: two megabytes
LARGE_RESAMPLE = 1 << 16  # elements of the result
LARGE_ATTENTION = 1 << 13  # weights: NumPy passes over them eight times, forward and backward
LARGE_LOSS = 1 << 15  # logits
# Multiply-adds of a matrix product: some 10 µs on one thread. Below, a call of NumPy's BLAS costs less than what ours saves.
LARGE_PRODUCT = 1 << 19
LARGE_BLAS = 1 << 21  # where the blocks are the BLAS's: 30 µs on one thread, where a second one saves a third of it

_enabled = os.environ.get("TDT_KERNELS", "") != "reference"
_winograd_enabled = os.environ.get("TDT_WINOGRAD", "") != "0"


def enabled() -> bool:
    """Whether kernels are in use: not under `TDT_KERNELS=reference` nor after `tdt.backends.kernels(False)`."""
    return _enabled


def enable(on: bool) -> None:
    """Switch all kernels."""
    global _enabled
    _enabled = on
    for ufuncs in UFUNCS:
        ufuncs.clear()


def winograd_enabled() -> bool:
    """Whether convolutions may use Winograd's algorithm: not under `TDT_WINOGRAD=0` nor after `tdt.backends.winograd(False)`."""
    return _winograd_enabled


def enable_winograd(on: bool) -> None:
    """Allow or forbid Winograd's algorithm."""
    global _winograd_enabled
    _winograd_enabled = on


class Kernel:
    """A compiled form of a function for NumPy arrays, and the condition under which it applies."""

    __slots__ = ("when", "function")

    def __init__(self, when: When, function: Callable):
        self.when, self.function = when, function


KERNELS: dict[str, Kernel] = {}  # all kernels that loaded modules state, by path


def kernel(path: str, when: When, *, lines: bool = False) -> Kernel:
    """The kernel at `path`, "module:function" in this package; the first call imports the module.

    lines: a kernel for images (N, C, H, W) that also takes (N, C, L), as images of one row.
    """
    assert path not in KERNELS, f"{path} is stated twice"
    registered = KERNELS[path] = _also_lines(when, _lazy(path)) if lines else Kernel(when, _lazy(path))
    return registered


def chosen(kernels: Sequence[Kernel], xp: Any, *arrays: Any, **attributes: Any) -> Callable | None:
    """The first of `kernels` that applies to these arrays, or None."""
    if xp is np:
        for each in kernels:
            if each.when(arrays, attributes):
                return each.function
    return None


def product(xp: Any, a: Any, b: Any, bias: Any = None) -> Any:
    """a @ b, for matrices or stacks of them, plus a bias for each column."""
    if a.size * b.shape[-1] >= LARGE_PRODUCT and (fast := chosen(PRODUCT, xp, a, b)):
        return fast(a, b, bias)
    # For small matrices `dot` has a third of the cost.
    out = a.dot(b) if a.ndim == 2 == b.ndim else xp.matmul(a, b)
    return out if bias is None else xp.add(out, bias, out=out)


def add(a: Any, b: Any) -> Any:
    """a + b, of arrays."""
    if a.size < LARGE_SUM or a.__class__ is not np.ndarray or (fast := chosen(ADD, np, a, b)) is None:
        return a + b
    return fast(a, b)


def folded(name: str, x: Any, axis: Any, keepdims: bool, dtype: Any = None, number: float = 0.0) -> Any:
    """A large array folded over dimensions by generated code, as `fold_cpu.fold` says; None where there is none."""
    if x.size < (LARGE_FOLD if name in SIMPLE_FOLDS else LARGE_OTHER_FOLD):
        return None
    if x.__class__ is not np.ndarray or not _enabled:
        return None
    return _fold_over(name, x, axis, keepdims, dtype, number)


def variance(name: str, x: Any, axis: Any, keepdims: bool, count: int, divisor: float) -> Any:
    """ "var" or "std" of a large array, as `fold_cpu.variance` says; None where there is no code."""
    if x.size < LARGE_OTHER_FOLD or x.__class__ is not np.ndarray or not _enabled:
        return None
    return _variance_over(name, x, axis, keepdims, count, divisor)


def total(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over `axis`, as `_backend.total` says, by generated code where the array is large."""
    if x.size >= LARGE_FOLD and x.__class__ is np.ndarray and _enabled:
        kind = x.dtype.kind
        if kind == "f" or kind == "V":
            name = "sum"
        elif kind in "iub" and dtype is not None and np.dtype(dtype).char in "lq":
            name = "sum" if kind == "i" else "sum_unsigned"
        else:
            return _total(x, axis, dtype, keepdims)
        result = _fold_over(name, x, axis, keepdims, dtype)
        if result is not None:
            return result
    return _total(x, axis, dtype, keepdims)


def taken(x: Any, index: Any, dim: int, negative: bool = False) -> Any:
    """Many entries of x along `dim`, as `index_cpu.take` says; None where no kernel applies or an index is out of range."""
    if not _enabled or x.__class__ is not np.ndarray or index.__class__ is not np.ndarray or not x.ndim:
        return None
    if not _indexed(x.shape, index, dim) or x.itemsize > 8 or not x.size:
        return None
    if index.ndim == 1 and dim < x.ndim - 1 and x.ndim > 1 and index.size * x.size // x.shape[dim] < LARGE_MOVE:
        return None  # NumPy copies whole entries as fast
    return _take_along(x, index, dim, negative)


def placed(out: Any, index: Any, source: Any, dim: int, how: str, negative: bool = False) -> bool:
    """Whether a kernel has placed `source` at many entries of `out` along `dim`, as `index_cpu.put` says.

    source: an array in which at least as many elements lie. If an index is out of range, the result is False, and some
    elements may be placed already: the caller raises the error.
    """
    if not _enabled or out.__class__ is not np.ndarray or not out.ndim or source.__class__ is not np.ndarray:
        return False
    if not _indexed(out.shape, index, dim) or out.dtype != source.dtype or not out.flags.c_contiguous:
        return False
    if out.dtype.char not in ("fdilq" if how != "set" else SIMPLE) or np.may_share_memory(out, source):
        return False
    if index.ndim == out.ndim and source.shape != index.shape:
        source = source[tuple([slice(n) for n in index.shape])]
    return _put_along(out, index, np.ascontiguousarray(source), dim, how, negative)


def _indexed(shape: tuple[int, ...], index: Any, dim: int) -> bool:
    """Whether `index` names many entries of an array along `dim`, as a vector or in all other dimensions alike."""
    if index.dtype.char not in "lqi" or not index.size:
        return False
    if index.ndim == 1 and len(shape) > 1:
        return index.size * math.prod(shape) // max(shape[dim], 1) >= LARGE_INDEX
    return index.size >= LARGE_INDEX and index.shape[:dim] == shape[:dim] and index.shape[dim + 1 :] == shape[dim + 1 :]


def scanned(how: str, x: Any, dim: int, backwards: bool = False) -> Any:
    """The running "sum" or "prod" of a large array, as `scan_cpu.scan` says; None where no kernel applies."""
    if not _enabled or x.__class__ is not np.ndarray or x.size < LARGE_SCAN or x.dtype.char not in "fdlq":
        return None
    return _scan(how, np.ascontiguousarray(x), dim, x.dtype.char, backwards)


def running_extremes(how: str, x: Any, dim: int) -> Any:
    """The running "max" or "min" of a large array and its index, as `scan_cpu.extremes` says; None where none applies."""
    if not _enabled or x.__class__ is not np.ndarray or x.size < LARGE_EXTREMES or x.dtype.char not in "fdbhilq":
        return None
    return _extremes(how, np.ascontiguousarray(x), dim, x.dtype.char)


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
    if not _enabled or x.__class__ is not np.ndarray or x.size < LARGE_SORT or x.dtype.char not in "fdbhilq":
        return False
    return x.shape[dim] < 1 << 31


def moved(target: Any, source: Any) -> bool:
    """Whether a kernel has copied `source` into `target`, of the same shape and type: where that takes less than NumPy."""
    if not _enabled or source.__class__ is not np.ndarray or source.dtype.char not in SIMPLE or not source.ndim:
        return False
    if source.size < LARGE_MOVE and not (source.strides[-1] < 0 and source.size >= LARGE_FOLD):
        return False
    return _copy_into(target, source)


def triangle(x: Any, edge: int, lower: bool) -> Any:
    """The lower or upper triangle of large contiguous matrices, as `moves_cpu.triangle` says; None where none applies."""
    if not _enabled or x.__class__ is not np.ndarray or x.size < LARGE_FOLD or x.dtype.char not in SIMPLE:
        return None
    return _triangle(x, edge, lower) if x.flags.c_contiguous else None


def _lazy(path: str) -> Callable:
    """A function of a kernel module that is imported when it is first called."""
    module, _, name = path.partition(":")
    loaded: list[Callable] = []

    def call(*args: Any, **attributes: Any) -> Any:
        if not loaded:
            loaded.append(getattr(importlib.import_module(f"tdt._kernels.{module}"), name))
        return loaded[0](*args, **attributes)

    call.__name__ = call.__qualname__ = name
    return call


UFUNCS: list[dict] = []  # what dispatch keeps of `ufunc_for`, by op; emptied when kernels are switched
FLOAT32, FLOAT16, BFLOAT16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
LOWER = frozenset((FLOAT16, BFLOAT16))
GENERATED = frozenset((FLOAT32, FLOAT16, BFLOAT16, np.dtype(np.float64)))
CONVERSIONS: dict[str, Callable | None] = dict.fromkeys(("fe", "fE", "ef", "Ef", "eE", "Ee"))  # by letters of dtypes


def widen(arrays: Sequence[Any]) -> list:
    """Half-precision arrays as float32, others as they are."""
    return [astype(a, FLOAT32) if getattr(a, "dtype", None) in LOWER else a for a in arrays]


def narrow(results: Any, low: Any) -> Any:
    """float32 results rounded to the half-precision dtype `low`; other types as they are."""
    if isinstance(results, tuple):
        return tuple(narrow(r, low) for r in results)
    return astype(results, low) if getattr(results, "dtype", None) == FLOAT32 else results


def astype(x: Any, dtype: Any) -> Any:
    """`x.astype(dtype)`, by vector instructions between float32, float16 and bfloat16."""
    if _enabled and x.__class__ is np.ndarray and (name := x.dtype.char + dtype.char) in CONVERSIONS:
        run = CONVERSIONS[name]
        if run is None:
            from tdt._kernels.generated import conversion

            run = CONVERSIONS[name] = conversion(x.dtype, dtype)
        result = run(x)
        return result if x.ndim else np.asarray(result)
    return x.astype(dtype)


def from_formula(
    name: str, formula: Callable, count: int, attributes: Sequence[str]
) -> tuple[Callable, Callable | None]:
    """`formula(xp, *arrays, *attributes)`, computed for NumPy's float arrays by machine code generated from it.

    The formula is of each element alone: it is traced once, by `functions` in place of NumPy. In float64 this holds for
    formulas whose only transcendental functions are exp and log; NumPy computes the others.

    float16 and bfloat16 are computed in float32, and results rounded once, in the formula's own form too.

    Args:
        count: how many operands it takes: arrays of one type and of bool, numbers, None.
        attributes: the names of its further parameters.
    Returns: a function of the formula's parameters and `out`, and one of a NumPy array alone (None for other formulas).
    """
    functions: list[Any] = []
    ufunc: Any = None
    writes_out = (
        "out" in formula.__code__.co_varnames[: formula.__code__.co_argcount + formula.__code__.co_kwonlyargcount]
    )

    def unary(x: Any) -> Any:
        """The fast path for one operand without attributes."""
        nonlocal ufunc
        if x.size < PARALLEL and x.dtype == FLOAT32 and _enabled:
            if ufunc is None:
                call(np, x)
                ufunc = functions[0].functions["f",].ufunc  # which the call has loaded
            return ufunc(x)
        return call(np, x)

    def call(xp: Any, *args: Any, out: Any = None, **named: Any) -> Any:
        if xp is np and _enabled and (functions or any(getattr(a, "dtype", None) in GENERATED for a in args)):
            if not functions:
                from tdt._kernels.generated import Elementwise

                functions.append(Elementwise(name, formula))
            how = dict(zip(attributes, args[count:], strict=True)) if len(args) > count else named
            result = functions[0](args[:count], how, out)
            if result is not None:
                return result
        low = next((a.dtype for a in args if getattr(a, "dtype", None) in LOWER), None)
        if low is None and writes_out and out is not None:
            return formula(xp, *args, out=out, **named)
        result = formula(xp, *args, **named) if low is None else narrow(formula(xp, *widen(args), **named), low)
        if out is None:
            return result
        out[...] = result
        return out

    def ufunc_for(operands: tuple, named: dict[str, Any]) -> tuple[Callable, tuple | None, tuple] | None:
        """The ufunc for arrays of these types, below PARALLEL elements, and for these numbers; None if there is none.

        Returns: the ufunc, the places of the arrays among the operands (None if all are), the arguments after them.
        """
        if not _enabled:
            return None
        if not functions:
            from tdt._kernels.generated import Elementwise

            functions.append(Elementwise(name, formula))
        function, places, numbers = functions[0]._prepare(operands, named)
        return None if function is None else (function.small, places, numbers)

    functools.update_wrapper(call, formula)
    call.ufunc_for = ufunc_for  # type: ignore[attr-defined]
    return call, unary if count == 1 and not attributes else None


def rounding_numbers(function: Any) -> Callable:
    """`function`, made by `from_formula`, of numbers that are rounded to the arrays' type."""

    def call(xp: Any, *args: Any, **named: Any) -> Any:
        kind = next(a for a in args if hasattr(a, "dtype")).dtype.type

        def rounded(value: Any) -> Any:
            return float(kind(value)) if value.__class__ is float or value.__class__ is int else value

        return function(xp, *map(rounded, args), **{name: rounded(value) for name, value in named.items()})

    call.ufunc_for = function.ufunc_for  # type: ignore[attr-defined]
    return call


def for_small_arrays(function: Any, attributes: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """`function(np, a, b, **attributes)`, made by `from_formula`, of two arrays of the same types in each call, or a number."""
    found: tuple | None = None

    def call(a: Any, b: Any) -> Any:
        nonlocal found
        if not _enabled or b.__class__ is not np.ndarray or a.size >= PARALLEL or b.size >= PARALLEL:
            return function(np, a, b, **attributes)
        if found is None:
            found = function.ufunc_for((a, b), attributes) or ()
        return found[0](a, b, *found[2]) if found else function(np, a, b, **attributes)

    return call


def _row_of_image(name: str, value: Any) -> Any:
    """An array (N, C, L), or a setting for it, as one for images of one row."""
    if isinstance(value, tuple):
        return (0 if name == "padding" else 1, *value)
    return value[:, :, None] if getattr(value, "ndim", 0) == 3 else value


def _also_lines(when: When, function: Callable) -> Kernel:
    """A kernel for images (N, C, H, W) as one for (N, C, L) too, whose results are contiguous."""

    def lifted(arrays: Sequence[Any], attributes: dict) -> tuple[list[Any], dict]:
        return [_row_of_image("", a) for a in arrays], {k: _row_of_image(k, v) for k, v in attributes.items()}

    def accepts(arrays: Sequence[Any], attributes: dict) -> bool:
        return when(*lifted(arrays, attributes)) if arrays[0].ndim == 3 else when(arrays, attributes)

    @functools.wraps(function)
    def call(*arrays: Any, **attributes: Any) -> Any:
        if arrays[0].ndim != 3:
            return function(*arrays, **attributes)
        images, how = lifted(arrays, attributes)
        return np.ascontiguousarray(function(*images, **how)[:, :, 0])

    return Kernel(accepts, call)


def large_group(arrays: Sequence[Any], attributes: dict) -> bool:
    return _enabled and sum([a.size for a in arrays]) >= LARGE_STEP


def large_image(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `large_convolution`, in two dimensions."""
    return _large_image(arrays, attributes, LARGE_CONV)


def _large_image(arrays: Sequence[Any], attributes: dict, least: int) -> bool:
    return arrays[0].ndim == 4 and _large_convolution(arrays, attributes, least)


def large_convolution(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of float32 in one to three dimensions, by the multiply-adds of (x, w), (y, w) or (y, x)."""
    return _large_convolution(arrays, attributes, LARGE_CONV)


def _large_convolution(arrays: Sequence[Any], attributes: dict, least: int) -> bool:
    first, second = arrays[0], arrays[1]
    if not _enabled or not 3 <= first.ndim <= 5:
        return False
    if any(a is not None and a.dtype != np.float32 for a in arrays) or not (first.size and second.size):
        return False
    if "kernel" in attributes:  # the weight gradient: every y meets a window of x
        return first.size * second.shape[1] // attributes["groups"] * math.prod(attributes["kernel"]) >= least
    if "size" in attributes:  # the input gradient: every y meets the weights of its channel
        return first.size * (second.size // second.shape[0]) >= least
    how = attributes["stride"], attributes["padding"], attributes["dilation"]
    windows = output_sizes(first.shape[2:], second.shape[2:], *how)
    return first.shape[0] * math.prod(windows) * second.size >= least


def many_tiles(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of float32 by kernels of 3 × 3 that Winograd's algorithm computes faster than the direct sum."""
    first, second = arrays[0], arrays[1]
    if attributes["groups"] != 1 or first.ndim != 4 or not (_enabled and _winograd_enabled):
        return False
    of_weights = "kernel" in attributes
    kernel = attributes["kernel"] if of_weights else second.shape[2:]
    padding = attributes["padding"]
    if kernel != (3, 3) or attributes["stride"] != (1, 1) or attributes["dilation"] != (1, 1) or max(padding) > 2:
        return False
    if any(a is not None and a.dtype != np.float32 for a in arrays):
        return False
    channels, out_channels = (second.shape[1], first.shape[1]) if of_weights else second.shape[1::-1]
    if channels % 16 or out_channels % 16 or min(channels, out_channels) < WINOGRAD_CHANNELS:
        return False
    if of_weights:
        height, width = first.shape[2:]
    else:
        height, width = attributes.get("size") or [n + 2 * p - 2 for n, p in zip(first.shape[2:], padding, strict=True)]
    tiles, pixels = first.shape[0] * -(-height // 2) * -(-width // 2), first.shape[0] * height * width
    return (
        pixels >= (MANY_SUMMED_PIXELS if of_weights else MANY_PIXELS)
        and pixels >= 3 * tiles  # else most tiles are cut off by the edges
        and pixels * channels * out_channels * 9 >= LARGE_WINOGRAD
    )


def pointwise(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `large_image`, of any size: kernels of 1 × 1, or as large as their stride; without padding."""
    if attributes["groups"] != 1 or any(attributes["padding"]):
        return False
    kernel = attributes.get("kernel") or arrays[1].shape[2:]
    if math.prod(kernel) != 1 and (kernel != attributes["stride"] or max(attributes["dilation"]) > 1):
        return False
    return _large_image(arrays, attributes, 1)


def large_groups(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `large_image`, in several groups; and from few multiply-adds on, as the portable forms loop over groups."""
    return attributes["groups"] > 1 and _large_image(arrays, attributes, LARGE_GROUPS)


def large_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Dense float32 images. arrays: (x,), or (g, out, x) for the gradient."""
    x = arrays[-1]
    return (
        _enabled
        and x.ndim == 4
        and not attributes["ceil_mode"]
        and x.size >= LARGE_POOL
        and all(a.dtype == np.float32 for a in arrays)
        and is_dense(x)
    )


def large_last(arrays: Sequence[Any], attributes: dict) -> bool:
    """Dense float32 images, channels-last."""
    x = arrays[0]
    return (
        _enabled
        and x.ndim == 4
        and x.size >= LARGE_POOL
        and x.dtype == np.float32
        and output_is_channels_last(x)
        and is_dense(x)
    )


def large_tiles(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `large_windows`, for windows of 2×2 with a stride of 2."""
    return (
        attributes["kernel"] == attributes["stride"] == (2, 2)
        and attributes["padding"] == (0, 0)
        and attributes["dilation"] == (1, 1)
        and large_windows(arrays, attributes)
    )


def alike(least: int) -> When:
    """Condition: dense float32 arrays with equal strides and at least `least` elements."""

    def when(arrays: Sequence[Any], attributes: dict) -> bool:
        first = arrays[0]
        return (
            _enabled
            and first.size >= least
            and memory_order(first) is not None
            and all(a.dtype == np.float32 and a.shape == first.shape and a.strides == first.strides for a in arrays)
        )

    return when


def large_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Dense float32 (N, C, *), with parameters per channel or None, or with a gradient in any memory order."""
    x = arrays[0]
    return _enabled and x.size >= LARGE_NORM and all(a is None or a.dtype == np.float32 for a in arrays) and is_dense(x)


def large_axis(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 (A, n, B), for a large result (A, count, B)."""
    x = arrays[0]
    return (
        _enabled
        and x.size // max(x.shape[1], 1) * attributes["count"] >= LARGE_RESAMPLE
        and x.dtype == np.float32
        and x.flags.c_contiguous
    )


def large_pixels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 (N, H, W, C), for a large result, by tables of few taps."""
    x, (down, across) = arrays[0], attributes["tables"]
    return (
        down.each == across.each in (1, 2)
        and _enabled
        and x.size // (x.shape[1] * x.shape[2]) * down.count * across.count >= LARGE_RESAMPLE
        and x.dtype == np.float32
        and x.flags.c_contiguous
    )


def cached_groups(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `large_channels`, if the elements of a mean are contiguous and fit in a cache: a group, or a channels-last sample."""
    x = arrays[0]
    return large_channels(arrays, attributes) and (
        x.size <= CACHED * x.shape[0] * (attributes["groups"] if x.flags.c_contiguous else 1)
    )


def large_steps(arrays: Sequence[Any], attributes: dict) -> bool:
    """Float32, with many gates or many steps."""
    many = attributes["steps"] >= LONG_LSTM or arrays[0].size >= LARGE_LSTM
    return _enabled and many and all(a.dtype == np.float32 for a in arrays)


def large_rows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 arrays of one shape, for an op along the last dimension."""
    first = arrays[0]
    return (
        _enabled
        and first.size >= LARGE_SOFTMAX
        and attributes.get("dim", first.ndim - 1) == first.ndim - 1
        and all(a.dtype == np.float32 and a.shape == first.shape and a.flags.c_contiguous for a in arrays)
    )


def large_layer(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 rows x, or (x, g), optionally followed by parameters for the elements of a row, or None."""
    x = arrays[0]
    return large_rows([a for a in arrays if a is not None and a.shape == x.shape], {}) and all(
        a is None or a.dtype == np.float32 for a in arrays
    )


def large_lookup(arrays: Sequence[Any], attributes: dict) -> bool:
    """A gradient (*indices, D) of float32 or float64."""
    y, indices = arrays
    return (
        _enabled
        and y.size >= LARGE_LOOKUP
        and y.ndim == indices.ndim + 1
        and y.dtype.char in "fd"
        and y.dtype.isnative
        and not attributes["by_frequency"]
    )


def large_draw(arrays: Sequence[Any], attributes: dict) -> bool:
    """A large number of words from a generator's state."""
    return _enabled and attributes["n"] >= LARGE_DRAW


def large_attention(arrays: Sequence[Any], attributes: dict) -> bool:
    """Float32 q, k and v with at most two leading dimensions, and a float32 mask whose rows are contiguous."""
    q, k, v, mask, _ = arrays
    if not _enabled or q.ndim > 4 or not (q.size and k.size and v.size):
        return False
    if any(a is not None and a.dtype != np.float32 for a in (q, k, v, mask)):
        return False
    if mask is not None and mask.shape[-1] > 1 and mask.strides[-1] != mask.itemsize:
        return False
    return q.size // q.shape[-1] * k.shape[-2] >= LARGE_ATTENTION


def large_matrices(arrays: Sequence[Any], attributes: dict) -> bool:
    """Matrices of float32, or stacks of equally many matrices, on a processor with `fma` in vectors of eight or more.

    No vectors: the BLAS reads a matrix once.
    """
    a, b = arrays
    shape, other = a.shape, b.shape
    return (
        _enabled
        and a.dtype == FLOAT32 == b.dtype
        and 2 <= len(shape) == len(other)
        and shape[-2] != 1 != other[-1]
        and a.size * other[-1] >= LARGE_PRODUCT
        and shape[:-2] == other[:-2]
        and _vectors_of_eight()
    )


@functools.cache
def _vectors_of_eight() -> bool:
    from tdt._kernels._native import vector_width

    return vector_width() >= 8


def large_for_blas(arrays: Sequence[Any], attributes: dict) -> bool:
    """Matrices of float32 or float64, or stacks of equally many matrices."""
    a, b = arrays
    if (
        not _enabled
        or a.size * b.shape[-1] < LARGE_BLAS
        or a.dtype != b.dtype
        or a.dtype.char not in "fd"
        or not a.dtype.isnative
        or not 2 <= a.ndim == b.ndim
        or a.shape[:-2] != b.shape[:-2]
        or 1 in (a.shape[-2], b.shape[-1])
    ):
        return False
    from tdt._kernels.blas_cpu import address

    return address(a.dtype.char) != 0


PRODUCT = (kernel("product_cpu:product", large_matrices), kernel("blas_cpu:product", large_for_blas))
_take_along, _put_along = _lazy("index_cpu:take"), _lazy("index_cpu:put")
_scan, _extremes = _lazy("scan_cpu:scan"), _lazy("scan_cpu:extremes")
_copy_into, _triangle = _lazy("moves_cpu:copy_into"), _lazy("moves_cpu:triangle")
_argsort, _ranked = _lazy("order_cpu:argsort"), _lazy("order_cpu:ranked")
_fold_over, _variance_over = _lazy("fold_cpu:fold"), _lazy("fold_cpu:variance")
ADD = (kernel("sum_cpu:add", alike(LARGE_SUM)),)
