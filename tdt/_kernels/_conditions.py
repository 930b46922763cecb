"""When a kernel applies: conditions of `kernel(path, when)` and the sizes from which generated code pays.

A condition decides by shape, dtype and strides alone, so that the same program takes the same path on every run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import is_dense, output_is_channels_last, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._formulas import BFLOAT16, FLOAT32
from tdt._kernels._registry import SWITCHES

# Multiply-adds of a convolution of bfloat16: of fewer, conversion to float32 costs less than the tiles' registers.
LARGE_PAIR_CONV = 1 << 20
# Columns of its products that fill a block's, and numbers of its weights: of fewer, packing takes more time than is saved. More
# are needed where the patches of an input gradient consist of zeros for the most part, as there is a stride.
PAIR_COLUMNS, PAIR_WEIGHTS, PAIR_CELLS, PAIR_WEIGHTS_SPREAD = 32, 1 << 10, 1 << 11, 1 << 18
# Multiply-adds by Winograd's algorithm of a sample, and of a weight gradient: of fewer, as many kernels cost more than they save,
# and its code takes a fifth of a second to compile.
# With fewer channels than these the images' transforms take too large a part of the time, with fewer pixels, counted by the share
# of their tiles that they fill, the weights' transforms. Results and input gradients are judged by a single image, so that they
# do not depend on the batch: one of 7 × 7 pixels would pay from batches of four on, one of 8 × 8 from two on.
LARGE_WINOGRAD, LARGE_WINOGRAD_SUM = 1 << 20, 1 << 23
WINOGRAD_CHANNELS = 32
MANY_PIXELS, MANY_SUMMED_PIXELS = 64, 192
# Pairs of channels whose transformed weights, 16 numbers of each, fill a level-two cache: of more, it takes as many pixels.
CACHED_WEIGHTS, MANY_PIXELS_OF_MANY_WEIGHTS = 1 << 15, 160
# Channels on one side, with which others are no vector; pairs of channels of which a weight gradient is computed so, cells of a
# kernel for few channels of the image, and of the result; the share of vectors of eight along a row that has to be used; and
# multiply-adds of a sample, of which fewer do not earn back the time to compile. More channels of a target or a source, with
# which that depends on how well rows fill vectors in comparison, or alone.
FEW_CHANNELS, FEW_PAIRS, FEW_CELLS, SOME_CELLS, FILLED, LARGE_FEW = 4, 64, 25, 64, 0.75, 1 << 15
SOME_CHANNELS, FILLED_ROWS, FILLED_ALONE = 12, 0.87, 0.9
MOST_CELLS = 81  # of a kernel, all of which are written out in the code of `_planes` and `_pixels`
# Numbers of a row of a patch, and of a whole patch, whose weight gradient is summed where they lie, as results are.
LONG_RUN, MOST_PATCH = 8, 1 << 10
# Windows of an image up to which they are multiplied as patches, also of a channels-last one, whose weights are packed sooner,
# and the least number of weights; and for a weight gradient the least number of weights for each window of all images. With the
# least channels of the result, of which each reads all patches.
FEW_WINDOWS, FEW_LAST_WINDOWS, PATCH_WEIGHTS, WEIGHTS_OF_WINDOW, PATCH_COLUMNS = 64, 16, 1 << 19, 2560, 128
PATCH_CHANNELS = 16  # of fewer, the cells of a patch are columns of a product: the channels alone would not fill a tile
LARGE_POOL = 1 << 16  # elements: a step saves about a fifth of a millisecond
LARGE_NORM = 1 << 13  # elements: a training step of a layer takes a third of NumPy's 0.4 ms
# Hidden units at all steps of a plain RNN, or its steps: packing the weights takes 15 µs, a step of the portable form 5 µs more.
LARGE_RNN, LONG_RNN = 1 << 11, 8
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
LARGE_TURN = 1 << 14  # elements of a copy that turns rows into columns: NumPy takes several times as long
LARGE_DRAW = 1 << 9  # words of the Mersenne Twister: NumPy takes as long for as many
MANY_DRAWS = 1 << 5  # numbers that take several words each, drawn one by one
FEW_PIXELS = 4  # of a plane: with fewer, a channel is no vector
CACHED = 1 << 19  # elements of a group, or of a channels-last sample, that are read three times: two megabytes
LARGE_RESAMPLE = 1 << 16  # elements of the result
# Multiply-adds of a matrix product: some 25 µs on one thread. The value of an element does not depend on it.
LARGE_PRODUCT = 1 << 20
LARGE_OPERAND = 1 << 18  # elements of an operand, which take half as long to read as as many multiply-adds
LARGE_BLAS = 1 << 21  # where the blocks are the BLAS's: 30 µs on one thread, where a second one saves a third of it


def some(arrays: Sequence[Any], attributes: dict) -> bool:
    """Any arrays."""
    return SWITCHES.kernels and bool(arrays)


def convolution(arrays: Sequence[Any], attributes: dict, dtype: Any = FLOAT32) -> bool:
    """Convolutions of float32 in one to three dimensions, of any size; arrays: (x, w, bias), (y, w, bias) or (y, x)."""
    if not SWITCHES.kernels or not 3 <= arrays[0].ndim <= 5:
        return False
    return all(a is None or (a.dtype == dtype and a.size > 0) for a in arrays)


def large_pair_convolution(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `convolution`, of bfloat16, in one group, where instructions for their products are faster than float32's."""
    if attributes["groups"] != 1 or not convolution(arrays, attributes, BFLOAT16):
        return False
    first, second = arrays[0], arrays[1]
    if "kernel" in attributes:  # the weight gradient: every y meets a window of x
        columns, lines = first.shape[1], second.shape[1] * math.prod(attributes["kernel"])
        work, least = first.size * lines, PAIR_CELLS
    elif (
        "size" in attributes
    ):  # the input gradient: every y meets the weights of its channel, and so do zeros between them
        columns, lines = second.shape[1], second.size // second.shape[1]
        work, spread = first.size * (second.size // second.shape[0]), math.prod(attributes["stride"])
        least = PAIR_WEIGHTS if spread == 1 else PAIR_WEIGHTS_SPREAD if spread <= 4 else math.inf
    else:
        how = attributes["stride"], attributes["padding"], attributes["dilation"]
        columns, lines = second.shape[0], second.size // second.shape[0]
        work = first.shape[0] * math.prod(output_sizes(first.shape[2:], second.shape[2:], *how)) * second.size
        least = PAIR_WEIGHTS
    return columns >= PAIR_COLUMNS and columns * lines >= least and work >= LARGE_PAIR_CONV and multiplies_bfloat16()


def many_tiles(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of float32 by kernels of 3 × 3 that Winograd's algorithm computes faster than the direct sum."""
    first, second = arrays[0], arrays[1]
    if attributes["groups"] != 1 or first.ndim != 4 or not (SWITCHES.kernels and SWITCHES.winograd):
        return False
    of_weights = "kernel" in attributes
    kernel = attributes["kernel"] if of_weights else second.shape[2:]
    padding = attributes["padding"]
    if kernel != (3, 3) or attributes["stride"] != (1, 1) or attributes["dilation"] != (1, 1) or max(padding) > 2:
        return False
    if any(a is not None and (a.dtype != np.float32 or not a.size) for a in arrays):
        return False
    channels, out_channels = (second.shape[1], first.shape[1]) if of_weights else second.shape[1::-1]
    if channels % 16 or out_channels % 16 or min(channels, out_channels) < WINOGRAD_CHANNELS:
        return False
    if of_weights:
        count, many, large = first.shape[0], MANY_SUMMED_PIXELS, LARGE_WINOGRAD_SUM
        height, width = first.shape[2:]
    else:
        many = MANY_PIXELS if channels * out_channels <= CACHED_WEIGHTS else MANY_PIXELS_OF_MANY_WEIGHTS
        count, large = 1, LARGE_WINOGRAD
        height, width = attributes.get("size") or [n + 2 * p - 2 for n, p in zip(first.shape[2:], padding, strict=True)]
    tiles, pixels = count * -(-height // 2) * -(-width // 2), count * height * width
    return (
        pixels * pixels >= 4 * tiles * many
        and pixels >= 3 * tiles  # else most tiles are cut off by the edges
        and pixels * channels * out_channels * 9 >= large
    )


def pointwise(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of images with kernels of 1 × 1, without padding.

    And input gradients of patches with few channels, weight gradients of small patches and of very large ones, and results of
    these if they are channels-last.
    """
    if attributes["groups"] != 1 or any(attributes["padding"]) or arrays[0].ndim != 4:
        return False
    kernel = attributes.get("kernel") or arrays[1].shape[2:]
    if math.prod(kernel) == 1:
        return convolution(arrays, attributes)
    channels = arrays[1].shape[1]
    if "kernel" in attributes:
        pays = kernel[-1] < LONG_RUN or channels * math.prod(kernel) > MOST_PATCH
    elif "size" in attributes:
        pays = channels < PATCH_CHANNELS
    else:
        pays = channels * math.prod(kernel) > MOST_PATCH and output_is_channels_last(*arrays[:2])
    return pays and of_patches(arrays, attributes)


def of_patches(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of images with kernels as large as their stride; without padding."""
    kernel = attributes.get("kernel") or arrays[1].shape[2:]
    if kernel != attributes["stride"] or any(attributes["padding"]) or max(attributes["dilation"]) > 1:
        return False
    return arrays[0].ndim == 4 and attributes["groups"] == 1 and convolution(arrays, attributes)


def some_cells(arrays: Sequence[Any], attributes: dict) -> bool:
    """Contiguous images, or their columns; cells: of all windows."""
    x = arrays[0]
    return attributes["cells"] > 0 and x.itemsize <= 8 and x.flags.c_contiguous and SWITCHES.kernels


def added_cells(arrays: Sequence[Any], attributes: dict) -> bool:
    """The same, to be added."""
    return arrays[0].dtype.char in "fd" and some_cells(arrays, attributes)


def few_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions, and weight gradients, of small images with so many weights that packing them takes long.

    Both operands are contiguous, or channels-last.

    A result is judged by a single image, so that it does not depend on the batch.
    """
    first, second = arrays[0], arrays[1]
    if attributes["groups"] != 1 or not convolution(arrays, attributes) or many_tiles(arrays, attributes):
        return False
    last = output_is_channels_last(first, second)
    if not all((to_last(a) if last else a).flags.c_contiguous for a in (first, second)):
        return False
    of_weights = "kernel" in attributes
    kernel = attributes["kernel"] if of_weights else second.shape[2:]
    out_channels = first.shape[1] if of_weights else second.shape[0]
    weights = out_channels * second.shape[1] * math.prod(kernel)
    if math.prod(kernel) == 1 or out_channels < PATCH_COLUMNS:
        return False
    if of_weights:
        return weights >= WEIGHTS_OF_WINDOW * (first.size // out_channels)
    how = attributes["stride"], attributes["padding"], attributes["dilation"]
    most = FEW_LAST_WINDOWS if last else FEW_WINDOWS
    return weights >= PATCH_WEIGHTS and math.prod(output_sizes(first.shape[2:], kernel, *how)) <= most


def overlapping_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Input gradients of images that are not channels-last, where products of windows take less time than sums of all pixels."""
    y, w = arrays[0], arrays[1]
    if (
        y.ndim != 4
        or attributes["groups"] != 1
        or attributes["stride"] != (1, 1)
        or not convolution(arrays, attributes)
    ):
        return False
    if output_is_channels_last(y, w) or math.prod(w.shape[2:]) == 1:
        return False
    from tdt._kernels._phases import windows_pay

    how = attributes["size"], y.shape[2:], w.shape[2:], attributes["padding"], attributes["dilation"]
    return windows_pay(*how, w.shape[1], len(w))


def few_line_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of lines with few input channels, whose patches are smaller than the result."""
    first, second = arrays[0], arrays[1]
    if first.ndim != 3 or attributes["groups"] != 1 or not convolution(arrays, attributes):
        return False
    of_weights = "kernel" in attributes
    channels, out_channels = (second.shape[1], first.shape[1]) if of_weights else second.shape[1::-1]
    cells = math.prod(attributes["kernel"] if of_weights else second.shape[2:])
    return channels <= FEW_CHANNELS and channels * cells <= out_channels


def few_image_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions, and weight gradients, of images with few input channels, or of patches with any number."""
    channels = arrays[1].shape[1]
    if arrays[0].ndim != 4 or attributes["groups"] != 1 or max(attributes["dilation"]) > 1:
        return False
    return (channels <= FEW_CHANNELS or of_patches(arrays, attributes)) and convolution(arrays, attributes)


def few_volume_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Input gradients of volumes with few channels, and weight gradients with one, that are not channels-last."""
    first, second = arrays[0], arrays[1]
    if first.ndim != 5 or attributes["groups"] != 1 or not convolution(arrays, attributes):
        return False
    of_weights = "kernel" in attributes
    kernel = attributes["kernel"] if of_weights else second.shape[2:]
    depth, *stride = attributes["stride"]
    cells, width = math.prod(kernel[1:]), (first.shape if of_weights else attributes["size"])[-1]
    if not 1 < cells <= MOST_CELLS or max(stride) > 2 or output_is_channels_last(first, second):
        return False
    if of_weights:
        return second.shape[1] == 1 and cells <= FEW_CELLS and width >= FILLED_ALONE * (width + -width % 16)
    return second.shape[1] <= FEW_CHANNELS and depth == 1 and width >= FILLED * (width + -width % 8)


def groups_of_images(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of images in several groups, or in one if one side has few channels."""
    if arrays[0].ndim != 4 or not convolution(arrays, attributes):
        return False
    return attributes["groups"] > 1 or (
        few_channels(arrays, attributes) and not pointwise(arrays, attributes) and not of_patches(arrays, attributes)
    )


def few_pairs(channels: int, out_channels: int) -> bool:
    """Whether a weight gradient with few channels on one side is summed along rows, not channel by channel."""
    return out_channels <= FEW_CHANNELS or channels * out_channels <= FEW_PAIRS


def few_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of images with so few channels on one side that vectors along rows are faster than along channels."""
    first, second = arrays[0], arrays[1]
    of_weights = "kernel" in attributes
    kernel, stride = attributes["kernel"] if of_weights else second.shape[2:], attributes["stride"]
    channels, out_channels = (second.shape[1], first.shape[1]) if of_weights else second.shape[1::-1]
    cells = math.prod(kernel)
    if cells > MOST_CELLS or max(stride) > 2:
        return False
    if of_weights:
        height, width = first.shape[2:]
        fast = few_pairs(channels, out_channels) or (cells <= FEW_CELLS and out_channels % 8 == 0)
        fast = fast and min(channels, out_channels) <= FEW_CHANNELS
    elif "size" in attributes:
        height, width = (-(-n // s) for n, s in zip(attributes["size"], stride, strict=True))
        few = out_channels <= FEW_CHANNELS and cells <= SOME_CELLS
        fast = few or _fills_rows(out_channels, channels, cells, width)
    else:
        height, width = output_sizes(first.shape[2:], kernel, stride, attributes["padding"], attributes["dilation"])
        fast = (channels <= FEW_CHANNELS and cells <= FEW_CELLS) or _fills_rows(channels, out_channels, cells, width)
    work = height * width * cells * channels * out_channels
    return fast and work >= LARGE_FEW and width >= FILLED * (width + -width % 8)


def _fills_rows(sources: int, targets: int, cells: int, width: int) -> bool:
    """Whether rows fill vectors, of eight and of sixteen numbers, about as well as so few channels of a target.

    Or fill them where a source has so few channels that turning its images takes long for the short sums.
    """
    if targets <= FEW_CHANNELS:
        return True
    if targets <= SOME_CHANNELS and all(
        -(-targets // n) * width >= FILLED_ROWS * targets * -(-width // n) for n in (8, 16)
    ):
        return True
    return sources <= SOME_CHANNELS and cells <= FEW_CELLS and width >= FILLED_ALONE * (width + -width % 16)


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


def cached_groups(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `large_channels`, if the elements of a mean are contiguous and fit in a cache: a group, or a channels-last sample."""
    x = arrays[0]
    return large_channels(arrays, attributes) and (
        x.size <= CACHED * x.shape[0] * (attributes["groups"] if x.flags.c_contiguous else 1)
    )


def several_steps(arrays: Sequence[Any], attributes: dict) -> bool:
    """Float32, with more than one step, which would not make up for packing the weights."""
    return SWITCHES.kernels and attributes["steps"] > 1 and float_operands(arrays)


def large_steps(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `several_steps`, with many steps or many hidden units."""
    return several_steps(arrays, attributes) and (attributes["steps"] >= LONG_RNN or arrays[0].size >= LARGE_RNN)


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
    """Matrices of bfloat16, or stacks of equally many, on a processor with instructions for their products; no vectors."""
    a, b = arrays
    return (
        SWITCHES.kernels
        and a.dtype == BFLOAT16 == b.dtype
        and 2 <= a.ndim == b.ndim
        and a.shape[-2] != 1 != b.shape[-1]
        and a.size * b.shape[-1] >= LARGE_PRODUCT
        and a.shape[:-2] == b.shape[:-2]
        and multiplies_bfloat16()
    )


def mixed_matrices(arrays: Sequence[Any], attributes: dict) -> bool:
    """Matrices, or stacks of them, of bfloat16 and float32."""
    kinds = (BFLOAT16, FLOAT32)
    a, b = arrays
    return SWITCHES.kernels and a.dtype in kinds and b.dtype in kinds and min(a.ndim, b.ndim) > 1 and vectors_of_eight()


def multiplies_bfloat16() -> bool:
    """Whether products of bfloat16 run on instructions for them: AMX or AVX-512-BF16."""
    from tdt._kernels import _dots

    return _dots.available() != ""


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
