"""When a kernel of convolutions applies: conditions of `kernel(path, when)` and the sizes from which it pays.

A condition decides by shape, dtype and strides alone, so that the same program takes the same path on every run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._conditions import bfloat16_instructions
from tdt._kernels._formulas import BFLOAT16, FLOAT32
from tdt._kernels._native import vector_width
from tdt._kernels._registry import SWITCHES

# Multiply-adds of a convolution of bfloat16: of fewer, conversion to float32 costs less than the tiles' registers.
LARGE_PAIR_CONV = 1 << 20
# Columns of its products that fill half a block, and numbers of its weights: of fewer, packing takes more time than is saved.
# More are needed where the patches of an input gradient consist of zeros for the most part, as there is a stride.
PAIR_COLUMNS, PAIR_WEIGHTS, PAIR_CELLS, PAIR_WEIGHTS_SPREAD = 16, 1 << 10, 1 << 11, 1 << 18
# By AVX-512-BF16: the most multiply-adds, with those of zeros, for one of float32's, of all and of those inside images. Of weight
# gradients, in the time of one of float32's: one, one by Winograd's algorithm, turning a number of the images, how many times as
# much where windows lie apart, how many numbers each grid of these costs, and converting a weight.
FILLED_WORK, FILLED_INSIDE = 1.75, 2.4
SUMMED_WORK, WINOGRAD_WORK, TURNED, TURNED_APART, TURNED_GRID, CONVERTED = 0.45, 0.55, 12, 9, 1 << 16, 8
# Multiply-adds by Winograd's algorithm of a sample, and of a weight gradient: of fewer, as many kernels cost more than they save,
# and its code takes a fifth of a second to compile.
# With fewer channels than these the images' transforms take too large a part of the time, with fewer pixels, counted by the share
# of their tiles that they fill, the weights' transforms. Results and input gradients are judged by a single image, so that they
# do not depend on the batch: one of 7 × 7 pixels would pay from batches of four on, one of 8 × 8 from two on. The pixels by the
# most pairs of channels that need no more, of whose transformed weights, 16 numbers of each, 1 << 15 fill a level-two cache.
LARGE_WINOGRAD, LARGE_WINOGRAD_SUM = 1 << 20, 1 << 23
# Weight gradients in vectors of eight require more channels, as their products pass through memory.
WINOGRAD_CHANNELS, WINOGRAD_CHANNELS_OF_EIGHT = 32, 64
MANY_PIXELS, MANY_SUMMED_PIXELS = ((1 << 15, 64), (1 << 16, 100), (math.inf, 160)), 192
# Channels on one side, with which others are no vector; pairs of channels of which a weight gradient is computed so, cells of a
# kernel for few channels of the image, and of the result; the share of vectors of eight along a row that has to be used; and
# multiply-adds of a sample, of which fewer do not earn back the time to compile. More channels of a target or a source, with
# which that depends on how well rows fill vectors in comparison, or alone.
FEW_CHANNELS, FEW_PAIRS, FEW_CELLS, SOME_CELLS, FILLED, LARGE_FEW = 4, 64, 25, 64, 0.75, 1 << 15
SOME_CHANNELS, FILLED_ROWS, FILLED_ALONE = 12, 0.87, 0.9
NARROW = 8  # numbers of a row that fill vectors of eight, of which few channels' results are faster by other code
FEW_WINDOWS = 0.5  # for each pixel of an input gradient, of which fewer are each multiplied once faster than all pixels
FILLED_COLUMNS = 16  # channels of a result that fill tiles of vectors of eight, with which short runs are fast
MOST_CELLS = 81  # of a kernel, all of which are written out in the code of `_planes` and `_pixels`
# Numbers of a row of a patch, and of a whole patch, whose weight gradient is summed where they lie, as results are.
LONG_RUN, MOST_PATCH = 8, 1 << 10
# Weights for each window of an image, and in all, from which on packing them takes longer than is saved; channels of the result,
# at least, as each reads all patches. For a weight gradient the weights for each window of all images, and where these are
# contiguous in vectors of eight.
WEIGHTS_OF_WINDOW, MANY_WEIGHTS, PATCH_COLUMNS = 1 << 14, 1 << 19, 128
WEIGHTS_OF_SUMMED_WINDOW, WEIGHTS_OF_SUMMED_WINDOW_OF_EIGHT = 2560, 1024
# Cells of a line's kernel, at most, and channels of its result, at least, with which a weight gradient is summed over patches in
# vectors of eight: 16 registers hold fewer sums beside runs of cells than beside panels. Those of images of a few channels.
LINE_CELLS, LINE_COLUMNS, IMAGE_CELLS, IMAGE_COLUMNS = 3, 64, 16, 32
# Channels for each number of a row of a patch, of which more are better runs than these numbers; of results in vectors of eight.
RUNS, RUNS_OF_EIGHT = 32, 4
PATCH_CHANNELS = 16  # of fewer, the cells of a patch are columns of a product: the channels alone would not fill a tile


def convolution(arrays: Sequence[Any], attributes: dict, dtype: Any = FLOAT32) -> bool:
    """Convolutions of float32 in one to three dimensions, of any size; arrays: (x, w, bias), (y, w, bias) or (y, x)."""
    if not SWITCHES.kernels or not 3 <= arrays[0].ndim <= 5:
        return False
    return all(a is None or (a.dtype == dtype and a.size > 0) for a in arrays)


def large_pair_convolution(arrays: Sequence[Any], attributes: dict) -> bool:
    """As `convolution`, of bfloat16, in one group, where instructions for their products are faster than float32's."""
    instructions = bfloat16_instructions()
    if not instructions or attributes["groups"] != 1 or not convolution(arrays, attributes, BFLOAT16):
        return False
    first, second = arrays[0], arrays[1]
    if instructions.endswith("avx512_bf16"):
        return _faster_by_vectors(first.shape, second.shape, to_last(second).flags.c_contiguous, **attributes)
    if "kernel" in attributes:  # the weight gradient: every y meets a window of x
        columns, lines = first.shape[1], second.shape[1] * math.prod(attributes["kernel"])
        work, least = first.size * lines, PAIR_CELLS
    elif "size" in attributes:  # the input gradient: every y, and zeros between them, meet the weights of a channel
        columns, lines = second.shape[1], second.size // second.shape[1]
        work, spread = first.size * (second.size // second.shape[0]), math.prod(attributes["stride"])
        least = PAIR_WEIGHTS if spread == 1 else PAIR_WEIGHTS_SPREAD if spread <= 4 else math.inf
    else:
        how = attributes["stride"], attributes["padding"], attributes["dilation"]
        columns, lines = second.shape[0], second.size // second.shape[0]
        work = first.shape[0] * math.prod(output_sizes(first.shape[2:], second.shape[2:], *how)) * second.size
        least = PAIR_WEIGHTS
    return columns >= PAIR_COLUMNS and columns * lines >= least and work >= LARGE_PAIR_CONV


@functools.lru_cache(1024)
def _faster_by_vectors(
    first: tuple, second: tuple, last: bool, *, stride: tuple, padding: tuple, dilation: tuple, groups: int,
    kernel: tuple | None = None, size: tuple | None = None,
) -> bool:  # fmt: skip
    """Whether AVX-512-BF16, which has twice float32's rate, computes a convolution sooner than float32 and conversions.

    Sums and columns are filled up to multiples of 32 with zeros, of which there are many beside few channels.

    Args:
        first, second: shapes of the operands; last: whether the second one is channels-last.
        kernel, size: as the ops of gradients have them.
    """
    cells, image = kernel or second[2:], size or (second if kernel else first)[2:]
    channels, out = second[1] if kernel or size else first[1], first[1] if kernel or size else second[0]
    pixels = first[2:] if kernel or size else output_sizes(image, cells, stride, padding, dilation)
    weights = channels * out * math.prod(cells)
    work = first[0] * math.prod(pixels) * weights
    if work < LARGE_PAIR_CONV:
        return False
    inside = 1.0
    if max(dilation) > 1:
        inside = math.prod(map(_share_inside, image, pixels, cells, stride, padding, dilation))
    if kernel:
        spread = math.prod(stride)
        grid = [-(-(n + 2 * p) // s) for n, p, s in zip(image, padding, stride, strict=True)]
        padded = _filled(first[0] * math.prod(grid)) * _filled(channels * math.prod(cells)) * _filled(out)
        turned = math.prod(first) + math.prod(second)
        if spread > 1:
            turned += (TURNED_APART - 1) * math.prod(second) + TURNED_GRID * spread
        how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        tiles = many_tiles([np.broadcast_to(np.float32(0), shape) for shape in (first, second)], how)
        others = work * (WINOGRAD_WORK if tiles else 1) * min(1.0, 1.5 * inside) + CONVERTED * weights
        return SUMMED_WORK * padded + TURNED * turned < others
    windows, summed, columns = (image, out, channels) if size else (pixels, channels, out)
    if dilation[-1] == 1 and (not size or last):  # the cells of a row lie together
        steps = math.prod(cells[:-1]) * _filled(cells[-1] * summed)
    else:
        steps = math.prod(cells) * _filled(summed)
    padded = _filled(first[0] * math.prod(windows)) * steps * _filled(columns)
    return padded <= work * min(FILLED_WORK, FILLED_INSIDE * inside)


def _filled(n: int) -> int:
    """The multiple of 32 from `n` on."""
    return -(-n // 32) * 32


def _share_inside(n: int, pixels: int, cells: int, stride: int, padding: int, dilation: int) -> float:
    """The share of the numbers of all windows along a dimension that are not in the border."""
    places = np.arange(pixels)[:, None] * stride - padding + np.arange(cells) * dilation
    return float(((places >= 0) & (places < n)).mean())


def many_tiles(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of float32 by 3 × 3, or 1 × 3 × 3, cells that Winograd's algorithm computes faster than the direct sum."""
    first, second = arrays[0], arrays[1]
    if attributes["groups"] != 1 or not 4 <= first.ndim <= 5 or not (SWITCHES.kernels and SWITCHES.winograd):
        return False
    of_weights = "kernel" in attributes
    kernel = attributes["kernel"] if of_weights else second.shape[2:]
    stride, padding, dilation = (attributes[name][-2:] for name in ("stride", "padding", "dilation"))
    if kernel[-2:] != (3, 3) or stride != (1, 1) or dilation != (1, 1) or max(padding) > 2:
        return False
    if first.ndim == 5 and (kernel[0], attributes["stride"][0], attributes["padding"][0]) != (1, 1, 0):
        return False
    if any(a is not None and (a.dtype != np.float32 or not a.size) for a in arrays):
        return False
    channels, out_channels = (second.shape[1], first.shape[1]) if of_weights else second.shape[1::-1]
    least = WINOGRAD_CHANNELS_OF_EIGHT if of_weights and vector_width() <= 8 else WINOGRAD_CHANNELS
    if channels % 16 or out_channels % 16 or min(channels, out_channels) < least:
        return False
    if of_weights:
        count, many, large = (
            first.size // math.prod((out_channels, *first.shape[-2:])),
            MANY_SUMMED_PIXELS,
            LARGE_WINOGRAD_SUM,
        )
        height, width = first.shape[-2:]
    else:
        many = next(pixels for pairs, pixels in MANY_PIXELS if channels * out_channels <= pairs)
        count, large = 1, LARGE_WINOGRAD
        of_result = [n + 2 * p - 2 for n, p in zip(first.shape[-2:], padding, strict=True)]
        height, width = attributes.get("size", of_result)[-2:]
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
        few = output_is_channels_last(*arrays[:2]) and many_weights(arrays[1].shape, arrays[0].shape[2:])
        pays = channels < PATCH_CHANNELS or few
    else:
        pays = channels * math.prod(kernel) > MOST_PATCH and output_is_channels_last(*arrays[:2])
    return pays and of_patches(arrays, attributes)


def of_patches(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of images with kernels as large as their stride; without padding."""
    kernel = attributes.get("kernel") or arrays[1].shape[2:]
    if kernel != attributes["stride"] or any(attributes["padding"]) or max(attributes["dilation"]) > 1:
        return False
    return arrays[0].ndim == 4 and attributes["groups"] == 1 and convolution(arrays, attributes)


def few_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions, and weight gradients, of small images with so many weights that packing them takes long.

    Both operands are contiguous, or channels-last.
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
        of_eight = vector_width() <= 8 and first.ndim <= 4 and not last
        least = WEIGHTS_OF_SUMMED_WINDOW_OF_EIGHT if of_eight else WEIGHTS_OF_SUMMED_WINDOW
        return weights >= least * (first.size // out_channels)
    how = attributes["stride"], attributes["padding"], attributes["dilation"]
    return many_weights(second.shape, output_sizes(first.shape[2:], kernel, *how))


def many_weights(weights: tuple, windows: tuple) -> bool:
    """Whether an image has so few windows for so many weights that packing these takes longer than to multiply.

    They are counted by shape, for one image, so that its result does not depend on the batch.
    """
    return math.prod(weights) >= max(MANY_WEIGHTS, WEIGHTS_OF_WINDOW * math.prod(windows))


def overlapping_windows(arrays: Sequence[Any], attributes: dict) -> bool:
    """Input gradients where products of windows take less time than sums of all pixels.

    Those of few channels, which as columns of these sums fill a part of a vector, those of small images with little padding, and
    of contiguous images with few windows for many weights.
    """
    y, w = arrays[0], arrays[1]
    if y.ndim != 4 or attributes["groups"] != 1 or not convolution(arrays, attributes):
        return False
    if math.prod(w.shape[2:]) == 1:
        return False
    if w.shape[1] <= FEW_CHANNELS:
        return True
    last = output_is_channels_last(y, w)
    if not last and max(attributes["dilation"]) == 1 and many_weights(w.shape, y.shape[2:]):
        return True
    if attributes["stride"] != (1, 1) or attributes["size"][0] == 1:  # of lines little is border
        return False
    from tdt._kernels._phases import windows_pay

    how = attributes["size"], y.shape[2:], w.shape[2:], attributes["padding"], attributes["dilation"]
    return windows_pay(*how, w.shape[1], len(w), last)


def few_line_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions of lines with few input channels, whose patches are smaller than the result; and gradients of few cells."""
    first, second = arrays[0], arrays[1]
    of_weights = "kernel" in attributes
    if (first.ndim != 3 and not of_weights) or attributes["groups"] != 1 or not convolution(arrays, attributes):
        return False
    channels, out_channels = (second.shape[1], first.shape[1]) if of_weights else second.shape[1::-1]
    cells = math.prod(attributes["kernel"] if of_weights else second.shape[2:])
    if first.ndim > 3:
        few = 1 < channels <= FEW_CHANNELS and 1 < cells <= IMAGE_CELLS and out_channels >= IMAGE_COLUMNS
        return first.ndim == 4 and few and vector_width() <= 8 and not output_is_channels_last(first, second)
    if of_weights and vector_width() <= 8 and cells <= LINE_CELLS and out_channels >= LINE_COLUMNS:
        return True
    return channels <= FEW_CHANNELS and channels * cells <= out_channels


def few_image_channels(arrays: Sequence[Any], attributes: dict) -> bool:
    """Convolutions, and weight gradients, of images with few input channels, or of patches with rows as long beside these."""
    channels, stride = arrays[1].shape[1], attributes["stride"]
    if arrays[0].ndim != 4 or attributes["groups"] != 1 or max(attributes["dilation"]) > 1:
        return False
    runs = RUNS if "kernel" in attributes or vector_width() > 8 else RUNS_OF_EIGHT
    few = channels <= FEW_CHANNELS or (channels <= runs * stride[-1] and of_patches(arrays, attributes))
    return few and convolution(arrays, attributes)


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
        if second.shape[1] > 1 or (vector_width() <= 8 and first.shape[1] >= FILLED_COLUMNS):
            return False
        return cells <= FEW_CELLS and width >= FILLED_ALONE * (width + -width % 16)
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
        fast = few_pairs(channels, out_channels) or cells <= FEW_CELLS
        fast = fast and min(channels, out_channels) <= FEW_CHANNELS
    elif "size" in attributes:
        height, width = (-(-n // s) for n, s in zip(attributes["size"], stride, strict=True))
        few = out_channels <= FEW_CHANNELS and cells <= SOME_CELLS
        once = stride == (1, 1) and math.prod(first.shape[2:]) < FEW_WINDOWS * math.prod(attributes["size"])
        fast = few or (_fills_rows(out_channels, channels, cells, width) and not (once and channels > FEW_CHANNELS))
    else:
        height, width = output_sizes(first.shape[2:], kernel, stride, attributes["padding"], attributes["dilation"])
        few = channels <= FEW_CHANNELS and cells <= FEW_CELLS and width > NARROW
        fast = few or _fills_rows(channels, out_channels, cells, width)
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
