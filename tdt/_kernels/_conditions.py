"""When a kernel applies: conditions of `kernel(path, when)` and the sizes from which generated code pays.

A condition decides by shape, dtype and strides alone, so that the same program takes the same path on every run.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import is_dense, output_is_channels_last, to_last
from tdt._kernels._formulas import BFLOAT16, FLOAT32
from tdt._kernels._registry import SWITCHES

LARGE_POOL = 1 << 16  # elements: a step saves about a fifth of a millisecond
LARGE_NORM = 1 << 13  # elements: a training step of a layer takes a third of NumPy's 0.4 ms
LARGE_ARITHMETIC = 1 << 15  # elements of + - * /, from which on rows are combined faster than by NumPy
LARGE_FOLD = 1 << 12  # elements of a sum of integers: NumPy takes about as long for as many
FEW = 8  # elements that generated code adds one by one, in double precision
LARGE_INDEX = 1 << 5  # elements taken or placed by an index
LARGE_SCAN = 1 << 5  # elements of a running sum; of running extremes, which NumPy finds step by step, LARGE_EXTREMES
LARGE_EXTREMES = 1 << 5
SMALL_INDEXED = 1 << 14  # elements of an array, and of an index, that are taken or added to on one thread
NUMBERS = "fdilqhb"  # NumPy's letters of signed numbers
SIMPLE = "?bBhHiIlLqQefd"  # NumPy's letters of numbers of up to 8 bytes
LARGE_SORT = 1 << 5  # elements to sort or to choose from: for fewer it is not worth while to load code
PIECE = 1 << 17  # elements of a row that are folded one after the other: longer rows are cut, for threads
LONGEST_ROW = 2048  # elements of a row that is sorted on the stack
LARGE_PAIRS = 1 << 14  # real numbers that become complex ones: NumPy writes with gaps, twice
LARGE_MOVE = 1 << 17  # elements that are copied row by row: NumPy calls a loop for each row
LARGE_ROWS = 1 << 10  # elements of an array with gaps, from whose row to the next NumPy goes by a call of a loop
LARGE_TURN = 1 << 14  # elements of a copy that turns rows into columns: NumPy takes several times as long
LARGE_DRAW = 1 << 9  # words of the Mersenne Twister: NumPy takes as long for as many
MANY_DRAWS = 1 << 5  # numbers that take several words each, drawn one by one
FEW_PIXELS = 4  # of a plane: with fewer, a channel is no vector
CACHED = 1 << 19  # elements of a group, or of a channels-last sample, that are read three times: two megabytes
LARGE_RESAMPLE = 1 << 16  # elements of the result
# Multiply-adds of a matrix product: some 25 µs on one thread. The value of an element does not depend on it.
LARGE_PRODUCT = 1 << 20
LARGE_PAIR_LINE = 1 << 18  # of a product of bfloat16 with one row or column, whose time is that of reading
LARGE_OPERAND = 1 << 18  # elements of an operand, which take half as long to read as as many multiply-adds
LARGE_BLAS = 1 << 21  # where the blocks are the BLAS's: 30 µs on one thread, where a second one saves a third of it


def some(arrays: Sequence[Any], attributes: dict) -> bool:
    """Any arrays."""
    return SWITCHES.kernels and bool(arrays)


def some_cells(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous images, or their columns; cells: of all windows."""
    x = arrays[0]
    return attributes["cells"] > 0 and x.itemsize <= 8 and x.flags.c_contiguous and SWITCHES.kernels


def added_cells(arrays: Sequence[Any], attributes: dict) -> bool:
    """The same, to be added."""
    return arrays[0].dtype.char in "fd" and some_cells(arrays, attributes)


def large_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Dense float32 images, unless they are contiguous with windows so near to each other that planes are faster.

    arrays: (x,), or (g, out, x) for the gradient.
    """
    x = arrays[-1]
    return (
        SWITCHES.kernels
        and x.ndim == 4
        and (attributes["stride"][1] > 2 or not x.flags.c_contiguous)
        and not attributes["ceil_mode"]
        and x.size >= LARGE_POOL
        and all(a.dtype == np.float32 for a in arrays)
        and is_dense(x)
    )


def float_images(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 images or lines, the last of the arrays."""
    x = arrays[-1]
    return SWITCHES.kernels and x.ndim in (3, 4) and x.dtype == FLOAT32 and x.flags.c_contiguous and x.size > 0


def float_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """float32 lines, images or volumes (N, C, *), of which one has fewer than 2³¹ elements."""
    x = arrays[0]
    return (
        SWITCHES.kernels
        and 2 < x.ndim < 6
        and x.dtype == FLOAT32
        and x.size > 0
        and x.size // (x.shape[0] * x.shape[1]) < 1 << 31
    )


def sampled_images(arrays: Sequence[Any], attributes: dict) -> bool:
    """float32 or float64 images (N, C, H, W) of fewer than 2³¹ pixels, and positions of the same type."""
    x = arrays[0]
    kinds = all(a.dtype.char in "fd" for a in arrays)
    return SWITCHES.kernels and kinds and x.shape[2] * x.shape[3] < 1 << 31


def large_last(arrays: Sequence[Any], attributes: dict) -> bool:
    """Dense float32 images, channels-last."""
    x = arrays[0]
    return (
        SWITCHES.kernels
        and x.ndim == 4
        and x.size >= LARGE_POOL
        and x.dtype == np.float32
        and output_is_channels_last(x)
        and is_dense(x)
    )


def tiled_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Windows of 2×2 with a stride of 2, of contiguous float32 images or large channels-last ones.

    arrays: (x,), or (g, out, x) for the gradient.
    """
    return (
        attributes["kernel"] == attributes["stride"] == (2, 2)
        and attributes["padding"] == (0, 0)
        and attributes["dilation"] == (1, 1)
        and not attributes["ceil_mode"]
        and (float_images(arrays, attributes) or large_windows(arrays, attributes))
        and all(a.dtype == FLOAT32 for a in arrays)
    )


def tiled_volumes(arrays: Sequence[Any], attributes: dict) -> bool:
    """Windows of 2×2×2 with a stride of 2, of contiguous float32 volumes, the last of the arrays, or of their gradients."""
    x = arrays[-1]
    return (
        SWITCHES.kernels
        and x.ndim == 5
        and attributes["kernel"] == attributes["stride"] == (2, 2, 2)
        and attributes["padding"] == (0, 0, 0)
        and attributes.get("dilation", (1, 1, 1)) == (1, 1, 1)
        and not attributes["ceil_mode"]
        and x.size > 0
        and x.flags.c_contiguous
        and all(a.dtype == FLOAT32 for a in arrays)
    )


def large_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Dense float32 (N, C, *), with parameters per channel or None, or with a gradient in any memory order."""
    x = arrays[0]
    return (
        SWITCHES.kernels
        and x.size >= LARGE_NORM
        and all(a is None or a.dtype == np.float32 for a in arrays)
        and is_dense(x)
    )


def large_axis(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 (A, n, B), for a large result (A, count, B)."""
    x = arrays[0]
    return (
        SWITCHES.kernels
        and x.size // max(x.shape[1], 1) * attributes["count"] >= LARGE_RESAMPLE
        and x.dtype == np.float32
        and x.flags.c_contiguous
    )


def small_axis(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 or float64 (A, n, B)."""
    x = arrays[0]
    return SWITCHES.kernels and x.size > 0 and x.dtype.char in "fd" and x.flags.c_contiguous


def large_pixels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 (N, H, W, C), for a large result, by tables of few taps."""
    x, (down, across) = arrays[0], attributes["tables"]
    return (
        down.each == across.each in (1, 2)
        and SWITCHES.kernels
        and x.size // (x.shape[1] * x.shape[2]) * down.count * across.count >= LARGE_RESAMPLE
        and x.dtype == np.float32
        and x.flags.c_contiguous
    )


def float_planes(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `float_images_of_channels`, of several pixels."""
    x = arrays[0]
    return float_images_of_channels(arrays, attributes) and x.size >= FEW_PIXELS * x.shape[0] * x.shape[1]


def float_images_of_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous float32 (N, C, *) of any number of pixels, then float32 arrays or None.

    Or bfloat16, and so are arrays of x's shape; all others are float32.
    """
    x = arrays[0]
    if x.dtype == BFLOAT16:
        arrays = [a for a in arrays if a is not None and (a.dtype != BFLOAT16 or a.shape != x.shape)]
        of_params = not arrays or float_operands(arrays)
        return x.ndim > 2 and x.flags.c_contiguous and x.size > 0 and SWITCHES.kernels and of_params
    return x.ndim > 2 and x.flags.c_contiguous and float_operands(arrays)


def float_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """float32 (N, C, *) whose channels lie side by side, without gaps, then float32 arrays or None."""
    x = arrays[0]
    if x.ndim == 2:
        return x.flags.c_contiguous and float_operands(arrays)
    return x.ndim > 2 and x.strides[1] == x.itemsize and to_last(x).flags.c_contiguous and float_operands(arrays)


def float_or_half_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `float_channels`, or images of bfloat16, and so are arrays of x's shape; all others are float32."""
    x = arrays[0]
    if x.dtype != BFLOAT16:
        return float_channels(arrays, attributes)
    others = [a for a in arrays if a is not None and (a.dtype != BFLOAT16 or a.shape != x.shape)]
    of_params = not others or float_operands(others)
    last = x.ndim > 2 and x.strides[1] == x.itemsize and to_last(x).flags.c_contiguous
    return last and x.size > 0 and SWITCHES.kernels and of_params


def float_operands(arrays: Sequence[Any]) -> bool:
    """float32 arrays, of which the first is not empty, or None."""
    if not SWITCHES.kernels or not arrays[0].size:
        return False
    for a in arrays:  # noqa: SIM110  (all() would take twice the time)
        if a is not None and a.dtype != FLOAT32:
            return False
    return True


def floats_of_one_shape(arrays: Sequence[Any], attributes: dict) -> bool:
    """Two arrays of float32 or float64, of one type and shape, that are not empty."""
    x, y = arrays
    return SWITCHES.kernels and x.size > 0 and x.dtype.char in "fd" and x.dtype == y.dtype and x.shape == y.shape


def cached_groups(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `large_channels`, if the elements of a mean are contiguous and fit in a cache: a group, or a channels-last sample."""
    x = arrays[0]
    return large_channels(arrays, attributes) and (
        x.size <= CACHED * x.shape[0] * (attributes["groups"] if x.flags.c_contiguous else 1)
    )


def several_steps(arrays: Sequence[Any], attributes: dict) -> bool:
    """Float32, with more than one step, which would not make up for packing the weights."""
    return SWITCHES.kernels and attributes["steps"] > 1 and float_operands(arrays)


def one_step(arrays: Sequence[Any], attributes: dict) -> bool:
    """Float32, for one step of a recurrence without a projection of the state, `w_hr`."""
    if len(attributes["sizes"]) > 1 or not arrays[1].size or (len(arrays) > 7 and arrays[7] is not None):
        return False
    return float_operands(arrays)


def float_rows(arrays: Sequence[Any], attributes: dict) -> bool:
    """float32 arrays of one shape, for an op along the last dimension, `dim`."""
    shape = arrays[0].shape
    if (
        not SWITCHES.kernels
        or not shape
        or attributes.get("dim", len(shape) - 1) != len(shape) - 1
        or not arrays[0].size
    ):
        return False
    for a in arrays:  # noqa: SIM110  (all() would take twice the time)
        if a.dtype != FLOAT32 or a.shape != shape:
            return False
    return True


def float_columns(arrays: Sequence[Any], attributes: dict) -> bool:
    """float32 arrays of one shape, for an op along a dimension that is not the last one, `dim`."""
    first = arrays[0]
    if not SWITCHES.kernels or not first.size or not 0 <= attributes["dim"] < first.ndim - 1:
        return False
    return all(a.dtype == FLOAT32 and a.shape == first.shape for a in arrays)


def float_logits(arrays: Sequence[Any], attributes: dict) -> bool:
    """float32 arrays that are not empty, or None."""
    return arrays[0].ndim > 0 and float_operands(arrays)


def float_layer(arrays: Sequence[Any], attributes: dict) -> bool:
    """float32 rows x, or (x, g), optionally followed by parameters for the elements of a row, or None.

    Or bfloat16, with parameters of float32.
    """
    x = arrays[0]
    if not SWITCHES.kernels or not x.size:
        return False
    if x.dtype == BFLOAT16:
        kinds = [a.dtype for a in arrays if a is not None]
        count = kinds.count(BFLOAT16)
        return count < len(kinds) == count + kinds.count(FLOAT32) and kinds[count - 1] == BFLOAT16
    for a in arrays:  # noqa: SIM110  (all() would take twice the time)
        if a is not None and a.dtype != FLOAT32:
            return False
    return True


def float_lookup(arrays: Sequence[Any], attributes: dict) -> bool:
    """A gradient (*indices, D) of float32 or float64 that is not empty."""
    y, indices = arrays
    return (
        SWITCHES.kernels
        and y.size > 0
        and y.ndim == indices.ndim + 1
        and y.dtype.char in "fd"
        and y.dtype.isnative
        and not attributes["by_frequency"]
    )


def large_draw(arrays: Sequence[Any], attributes: dict) -> bool:
    """A large number of words from a generator's state."""
    return SWITCHES.kernels and attributes["n"] >= LARGE_DRAW


def many_draws(arrays: Sequence[Any], attributes: dict) -> bool:
    """Numbers that take several words of a generator each, so many that generated code is worth loading."""
    return SWITCHES.kernels and attributes["n"] >= MANY_DRAWS


def float_attention(arrays: Sequence[Any], attributes: dict) -> bool:
    """Float32 or bfloat16 q, k and v with at most two leading dimensions, and a mask of float32 or bools."""
    q, k, v, mask, _ = arrays
    if not SWITCHES.kernels or len(q.shape) > 4 or not (q.size and k.size and v.size):
        return False
    if q.dtype != k.dtype or q.dtype != v.dtype:
        return False
    if q.dtype != FLOAT32 and q.dtype != BFLOAT16:
        return False
    return mask is None or mask.dtype == FLOAT32 or mask.dtype == np.bool_


def large_pairs(arrays: Sequence[Any], attributes: dict) -> bool:
    """Matrices of bfloat16, one of them perhaps of float32, or stacks of equally many, on a processor with instructions for
    products of bfloat16."""
    a, b = arrays
    return (
        SWITCHES.kernels
        and {BFLOAT16} <= {a.dtype, b.dtype} <= {BFLOAT16, FLOAT32}
        and 2 <= a.ndim == b.ndim
        and a.size * b.shape[-1] >= (LARGE_PAIR_LINE if 1 in (a.shape[-2], b.shape[-1]) else LARGE_PRODUCT)
        and a.shape[:-2] == b.shape[:-2]
        and multiplies_bfloat16()
    )


def mixed_matrices(arrays: Sequence[Any], attributes: dict) -> bool:
    """Matrices, or stacks of them, of bfloat16 and float32."""
    kinds = (BFLOAT16, FLOAT32)
    a, b = arrays
    return SWITCHES.kernels and a.dtype in kinds and b.dtype in kinds and min(a.ndim, b.ndim) > 1 and vectors_of_eight()


@functools.cache
def _instructions() -> Any:
    """The module `_dots`, which is loaded when it is first asked for."""
    from tdt._kernels import _dots

    return _dots


def bfloat16_instructions() -> str:
    """Those that products of bfloat16 run on, as `_dots.available` names them."""
    return _instructions().available()


def multiplies_bfloat16() -> bool:
    """Whether products of bfloat16 run on instructions for them: AMX or AVX-512-BF16."""
    return bfloat16_instructions() != ""


@functools.cache
def vectors_of_eight() -> bool:
    """Whether this processor has `fma` in vectors of eight float32 numbers, or more."""
    from tdt._kernels._native import vector_width

    return vector_width() >= 8


def large_for_blas(arrays: Sequence[Any], attributes: dict) -> bool:
    """Matrices of float32 or float64, or stacks of equally many matrices."""
    a, b = arrays
    if (
        not SWITCHES.kernels
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
