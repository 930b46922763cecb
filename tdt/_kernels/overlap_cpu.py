"""Input gradients of convolutions of small images with little padding, or of few channels, in float32 on the CPU.

    w' (C · cells, O)     times y[n] (O, windows)     added where the windows' cells lay

`conv_cpu` sums every cell of the kernel for each pixel. Near the edges most of them are of no window, so that it multiplies
zeros: half of all for 5 × 5 cells and an image of 14 × 14 without padding. Here each window's cells are multiplied once; and
they fill vectors, which the channels of an RGB image alone do not.

Of few windows so many weights that packing them takes longer than to multiply are read where they lie (`many_weights`):

    y' (N · windows, O)   times w (O, C · cells)       turned, and added

Of channels-last images, and of narrow ones, the cells of a row of a window lie together, and are added as vectors:

    y (N · windows, O)    times w (O, cells · C)       added
"""

from __future__ import annotations

import math

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front
from tdt._kernels import pointwise_cpu, product, unfold_cpu
from tdt._kernels._conv_conditions import many_weights
from tdt._kernels._formulas import BFLOAT16, convert_into, widen
from tdt._kernels._layout import contiguous, transposed
from tdt._kernels._pixels import channels_last
from tdt._kernels.conv_cpu import PLAIN

TOGETHER = 1 << 18  # floats of products that are added at a time: they stay in a level-two cache
# Windows of a row, of which fewer are added faster channels-last, if as many numbers of a window's cells lie together.
WIDE, LONG_RUN = 16, 32
ROWS = 512  # windows, about, that meet weights which are not packed


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C, KH, KW), b (C,) or None; one group.

    Or for contiguous y of bfloat16, to which the result is rounded, if it is not channels-last.
    """
    (count, rows, *windows), (_, channels, *kernel) = y.shape, w.shape
    last, few = output_is_channels_last(y, w), many_weights(w.shape, y.shape[2:])
    if last or (not few and windows[1] < WIDE and channels * kernel[1] >= LONG_RUN):
        how = {"stride": stride, "padding": padding, "dilation": dilation}
        out = _of_pixels(y, w, b, size, how)
        if y.dtype == BFLOAT16:
            images = np.empty((count, channels, *size), BFLOAT16)
            return transposed(out, math.prod(size), channels, images)
        return to_front(out) if last else contiguous(to_front(out))
    matrix, out = np.ascontiguousarray(w).reshape(rows, -1), np.empty((count, channels, *size), y.dtype)
    how, places = {"stride": stride, "padding": padding, "dilation": dilation}, math.prod(windows)
    some = -(-ROWS // places) if few else max(1, TOGETHER // (matrix.shape[1] * places))
    for low in range(0, count, some):
        part = np.ascontiguousarray(y[low : low + some])
        if few:
            lines = transposed(part, rows, places).reshape(-1, rows)
            cells = transposed(product(np, lines, matrix), places, matrix.shape[1])
        else:
            [part] = widen((part,))
            cells = pointwise_cpu.conv_input_grad(part, matrix[:, :, None, None], size=tuple(windows), **PLAIN)
        cells = cells.reshape(len(part), channels, *kernel, *windows)
        own = out[low : low + some]
        images = own if own.dtype == np.float32 else np.empty(own.shape, np.float32)
        unfold_cpu.fold(cells, size, kernel=tuple(kernel), **how, images=images)
        if b is not None:
            np.add(images, b[:, None, None], out=images)
        if images is not own:
            convert_into(own, images)
    return out


def _of_pixels(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, size: tuple, how: dict) -> np.ndarray:
    """The gradient as (N, H, W, C), of windows (N · windows, O) times weights (O, cells · C)."""
    [lines], weights = widen((channels_last(y),)), channels_last(w)
    (count, *windows, rows), (_, *kernel, channels) = lines.shape, weights.shape
    matrix, out = weights.reshape(rows, -1), np.empty((count, *size, channels), np.float32)
    some = max(1, TOGETHER // (matrix.shape[1] * math.prod(windows)))
    for low in range(0, count, some):
        part = lines[low : low + some]
        cells = product(np, part.reshape(-1, rows), matrix).reshape(len(part), *windows, *kernel, channels)
        unfold_cpu.fold_pixels(cells, size, kernel=tuple(kernel), **how, images=out[low : low + some])
    return out if b is None else np.add(out, b, out=out)
