"""When kernels for CuPy's arrays apply."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import is_dense
from tdt._kernels._formulas import FLOAT32, LOWER
from tdt._kernels._registry import SWITCHES

FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def gpu_floats(arrays: Sequence[Any], attributes: dict) -> bool:
    """Arrays of float32 or of float64, contiguous and not empty; some may be absent."""
    kind = arrays[0].dtype
    return kind in FLOATS and all(
        a is None or (a.dtype == kind and a.flags.c_contiguous and a.size > 0) for a in arrays
    )


def gpu_images(arrays: Sequence[Any], attributes: dict) -> bool:
    """Images (N, C, H, W) of one floating-point type, not empty, without elements that share memory."""
    kind = arrays[0].dtype
    return kind in FLOATS and all(a.ndim == 4 and a.dtype == kind and a.size > 0 and min(a.strides) > 0 for a in arrays)


def gpu_convolution(arrays: Sequence[Any], attributes: dict) -> bool:
    """Lines or images, and weights, of one floating-point type, none of them empty."""
    kind = arrays[0].dtype
    return (
        kind in FLOATS
        and arrays[0].ndim in (3, 4)
        and all(a is None or (a.dtype == kind and a.size > 0) for a in arrays)
        and 0 not in attributes.get("size", ())
    )


def gpu_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """(N, C, *), contiguous or channels-last without gaps, then parameters of each channel, all of one floating-point type.

    Parameters of images in half precision are float32.
    """
    kind = arrays[0].dtype
    of_rest = np.dtype(np.float32) if kind in LOWER else kind
    images = [a for a in arrays if a is not None and a.ndim > 1]
    rest = [a for a in arrays if a is not None and a.ndim <= 1]
    return (
        of_rest in FLOATS
        and bool(images)
        and all(a.dtype == kind and a.size > 0 and is_dense(a) for a in images)
        and all(a.dtype == of_rest and a.flags.c_contiguous for a in rest)
    )


def gpu_channel_values(arrays: Sequence[Any], attributes: dict) -> bool:
    """(N, C, *) of a floating-point type, contiguous or channels-last without gaps, and not empty."""
    (x,) = arrays
    return (x.dtype in FLOATS or x.dtype in LOWER) and x.ndim > 1 and x.size > 0 and is_dense(x)


def gpu_attention(arrays: Sequence[Any], attributes: dict) -> bool:
    """Queries, keys and values of one floating-point type and of equal leading sizes; a mask of bools or numbers, or none."""
    q, k, v, mask, *_ = arrays
    if not q.dtype == k.dtype == v.dtype or (q.dtype not in FLOATS and q.dtype not in LOWER):
        return False
    if mask is not None and (mask.ndim > q.ndim or (mask.dtype != np.bool_ and mask.dtype not in (*FLOATS, *LOWER))):
        return False
    return q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and bool(q.size and k.size and v.size)


def gpu_alike(arrays: Sequence[Any], attributes: dict) -> bool:
    """Arrays of float32 or of float64 that are not empty and lie alike."""
    x, *others = arrays
    if x.dtype not in FLOATS or x.ndim > MOST_DIMENSIONS or not x.size:
        return False
    return all(a.dtype == x.dtype and a.shape == x.shape and a.strides == x.strides for a in others)


LARGEST_TABLE = 1 << 30  # comparisons of indices with rows or elements


def gpu_lookup(arrays: Sequence[Any], attributes: dict) -> bool:
    """The gradient of a lookup, of a floating-point type; indices that are compared with every row which occurs."""
    y, indices = arrays
    if y.dtype not in FLOATS or not y.size or attributes["by_frequency"]:
        return False
    rows = attributes["rows"]  # those that do not occur look at no indices
    return rows > 0 and min(rows, indices.size) * indices.size <= LARGEST_TABLE


MOST_JOINED = 8  # arrays


def gpu_joined(arrays: Sequence[Any], attributes: dict) -> bool:
    """A few arrays of `gpu_words`, of one type, whose sizes differ along `dim` alone; some of known size may be absent."""
    first, dim = next(x for x in arrays if x is not None), attributes["dim"]
    return len(arrays) <= MOST_JOINED and all(
        x is None
        or (
            gpu_words([x], {})
            and x.dtype == first.dtype
            and x.ndim == first.ndim
            and x.shape[:dim] == first.shape[:dim]
            and x.shape[dim + 1 :] == first.shape[dim + 1 :]
        )
        for x in arrays
    )


def gpu_table(arrays: Sequence[Any], attributes: dict) -> bool:
    """A contiguous table with elements of at most eight bytes, and indices; neither is empty."""
    table, indices = arrays
    return table.dtype.itemsize in (1, 2, 4, 8) and table.flags.c_contiguous and table.size > 0 and indices.size > 0


def gpu_elements(arrays: Sequence[Any], attributes: dict) -> bool:
    """A floating-point array that lies densely in memory and is not empty."""
    (x,) = arrays
    return (x.dtype in FLOATS or x.dtype in LOWER) and x.size > 0 and _has_no_gaps(x)


def _has_no_gaps(x: Any) -> bool:
    """Whether an array's elements are neighbours in memory, whatever the order of its dimensions."""
    expected = x.itemsize
    for step, size in sorted((s, n) for s, n in zip(x.strides, x.shape, strict=True) if n != 1):
        if step != expected:
            return False
        expected *= size
    return True


MOST_DIMENSIONS = 8


GPU_FOLDS = frozenset(("sum", "mean", "norm1", "norm2", "norm_inf", "max", "min", "var", "std", "prod", "logsumexp"))
TRUTH_FOLDS = frozenset(("all", "any"))


def gpu_foldable(arrays: Sequence[Any], attributes: dict) -> bool:
    """An array that is not empty, of at most eight dimensions, for a fold of its type that has a kernel."""
    (x,) = arrays
    floating = x.dtype in FLOATS or x.dtype in LOWER
    known = attributes["name"] in (GPU_FOLDS if floating else TRUTH_FOLDS) and (floating or x.dtype == np.bool_)
    return known and x.ndim <= MOST_DIMENSIONS and x.size > 0


def gpu_converted(arrays: Sequence[Any], attributes: dict) -> bool:
    """Two arrays of one shape, not empty: of float64, or one of float32 and the other of a floating-point type."""
    x, out = arrays
    kinds = {x.dtype, out.dtype}
    return x.shape == out.shape and x.size > 0 and kinds <= {*FLOATS, *LOWER} and (FLOAT32 in kinds or kinds < FLOATS)


def gpu_rows(arrays: Sequence[Any], attributes: dict) -> bool:
    """An array of float32 or float64 that is not empty, of one to eight dimensions."""
    (x,) = arrays
    return x.dtype in FLOATS and 0 < x.ndim <= MOST_DIMENSIONS and x.size > 0


MOST_SORTED = 4096  # elements of a row, for which a block has shared memory


def gpu_sortable(arrays: Sequence[Any], attributes: dict) -> bool:
    """An array of numbers or bools that is not empty, whose rows along `dim` are short; of `k` elements at least one."""
    (x,) = arrays
    known = x.dtype in FLOATS or x.dtype in LOWER or x.dtype.kind in "biu"
    if not known or not 0 < x.ndim <= MOST_DIMENSIONS or not x.size:
        return False
    return x.shape[attributes["dim"]] <= MOST_SORTED and attributes.get("k", 1) > 0


def gpu_scanned(arrays: Sequence[Any], attributes: dict) -> bool:
    """An array of floating-point numbers or integers that is not empty, of one to eight dimensions."""
    (x,) = arrays
    return (
        (x.dtype in FLOATS or x.dtype in LOWER or x.dtype.kind in "iu") and 0 < x.ndim <= MOST_DIMENSIONS and x.size > 0
    )


def gpu_places(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `gpu_rows`; contiguous, where places among all elements are asked for."""
    return gpu_rows(arrays, attributes) and (attributes["dim"] is not None or arrays[0].flags.c_contiguous)


def gpu_selected(arrays: Sequence[Any], attributes: dict) -> bool:
    """Elements and their indices along `dim`, along which both have size 1."""
    x, indices = arrays
    return gpu_words([x], {}) and x.shape == indices.shape and x.shape[attributes["dim"]] == 1


def gpu_words(arrays: Sequence[Any], attributes: dict) -> bool:
    """An array that is not empty, with elements of at most eight bytes and at most eight dimensions."""
    (x,) = arrays
    return x.dtype.itemsize in (1, 2, 4, 8) and x.ndim <= MOST_DIMENSIONS and x.size > 0


def gpu_view(arrays: Sequence[Any], attributes: dict) -> bool:
    """An array of `gpu_words`, and a view of it that is not empty, of at most eight dimensions."""
    x, view = arrays
    return gpu_words([x], {}) and view.ndim <= MOST_DIMENSIONS and view.size > 0


def gpu_gathered(arrays: Sequence[Any], attributes: dict) -> bool:
    """An array of `gpu_words`, and indices with as many dimensions, at least one."""
    x, index = arrays
    return gpu_words([x], {}) and index.ndim == x.ndim > 0 and index.size > 0 and index.dtype.char in "lqi"


def gpu_gathered_sums(arrays: Sequence[Any], attributes: dict) -> bool:
    """Floating-point numbers, and indices of their shape, each of which is compared with all elements along `dim`."""
    g, index = arrays
    if (
        (g.dtype not in FLOATS and g.dtype not in LOWER)
        or not 0 < g.ndim <= MOST_DIMENSIONS
        or index.dtype.char not in "lqi"
    ):
        return False
    shape, dim = attributes["shape"], attributes["dim"]
    if index.shape != g.shape or not index.size or len(shape) != g.ndim:
        return False
    return 0 < math.prod(shape) * index.shape[dim] <= LARGEST_TABLE


def gpu_resampled(arrays: Sequence[Any], attributes: dict) -> bool:
    """A contiguous array of float32 or float64 that is not empty, and a table with rows."""
    return gpu_floats(arrays, {}) and attributes["count"] > 0


def always(arrays: Sequence[Any], attributes: dict) -> bool:
    """Any call."""
    return True


def on_one_gpu(tensors: Sequence[Any]) -> list[Any] | None:
    """The arrays of tensors if they are `gpu_floats` of one dtype on one GPU; else None."""
    arrays = [t._a for t in tensors]
    if not SWITCHES.kernels or not arrays or arrays[0].__class__ is np.ndarray:
        return None
    if not all(hasattr(a, "__cuda_array_interface__") and a.device == arrays[0].device for a in arrays):
        return None
    return arrays if gpu_floats(arrays, {}) else None
