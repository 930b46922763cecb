"""Two-dimensional convolution in float32 on the CPU, and its two gradients, from one register tile (`_gemm`).

Images lie channels-last; then every element of a patch lies at the sum of an offset of the window and an offset of the
kernel's cell, for any stride and dilation. Tables of both (`_taps`) are all that tells the three apart:

    result           rows: windows        summed over: cells (kh, kw, in)      times weights
    input gradient   rows: pixels         summed over: cells (kh, kw, out)     times weights
    weight gradient  rows: cells          summed over: windows                 times the result's gradient

Work is cut by shapes alone and every sum belongs to one thread, so bits do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._gemm import GRAIN, PANEL, packed, tiles
from tdt._kernels._jit import jit
from tdt._kernels._layout import bordered, transposed
from tdt._kernels._pool import parallel
from tdt._kernels._taps import ROWS, Pairs, Sums, Targets, meetings, sums, targets

DEPTH = 160  # products summed at a time: 32 columns of them are 20 kB, most of a level-one cache
SHARE = 24  # rows of the weight gradient that are one piece of work: a multiple of every tile's


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, H, W), w (O, C / groups, KH, KW), b (O,) or None; float32."""
    last = output_is_channels_last(x, w)
    kernel = w.shape[2:]
    size = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    image = _channels_last(x)
    out = np.empty((x.shape[0], *size, w.shape[0]), np.float32)
    bias = np.zeros(w.shape[0], np.float32) if b is None else np.ascontiguousarray(b)
    pairs = _pairs(x.shape[2:], size, kernel, stride, padding, dilation)
    plan = targets(x.shape[0], pairs, True, image.shape[1:], out.shape[1:], kernel, PANEL, w.shape[1])
    for i, part in enumerate(_groups(w, groups)):
        _gather(image, i * w.shape[1], plan, packed(part.transpose(2, 3, 1, 0)), len(part), out, i * len(part), bias)
    return _ordered(out, last)


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C / groups, KH, KW), b (C,) or None; float32."""
    last = output_is_channels_last(y, w)
    image = _channels_last(y)
    out_channels, summed = w.shape[1], w.shape[0] // groups
    out = np.empty((y.shape[0], *size, out_channels * groups), np.float32)
    pairs = _pairs(size, y.shape[2:], w.shape[2:], stride, padding, dilation)
    plan = targets(y.shape[0], pairs, False, image.shape[1:], out.shape[1:], w.shape[2:], PANEL, summed)
    bias = np.zeros(out_channels * groups, np.float32) if b is None else np.ascontiguousarray(b)
    for i, part in enumerate(_groups(w, groups)):
        _gather(image, i * summed, plan, packed(part.transpose(2, 3, 0, 1)), out_channels, out, i * out_channels, bias)
    return _ordered(out, last)


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, OH, OW), x (N, C, H, W); float32."""
    last = output_is_channels_last(y, x)
    count, out_channels, channels = y.shape[0], y.shape[1] // groups, x.shape[1] // groups
    size = y.shape[2:]
    right = _channels_last(y)
    how = size, kernel, stride, padding, dilation
    if _skips_border(channels, size):
        image = _channels_last(x)
        rows = _multiples(channels, 1)
        plan = sums(count, _pairs(x.shape[2:], *how), image.shape[1:], right.shape[1:], kernel)
    else:
        image = _image(x, *how)
        rows = _cells(kernel, dilation, image.shape[2:], channels)
        plan = _all_windows(count, size, stride, image.shape[1:], y.shape[1])
    out = np.empty((groups, channels * math.prod(kernel), out_channels), np.float32)
    pieces = _shares(plan.parts, rows.size, out_channels)
    work = count * plan.parts[0, 1] * out_channels * min(rows.size, SHARE)
    for i in range(groups):
        parallel(
            _walk, len(pieces), image.reshape(-1)[i * channels :], math.prod(image.shape[1:]), rows, plan.windows, plan.lines,
            pieces, ROWS, right.reshape(-1)[i * out_channels :], PANEL, math.prod(right.shape[1:]), out[i].reshape(-1), 0,
            _multiples(rows.size, out_channels), np.zeros(out_channels, np.float32), count, plan.samples, True,
            grain=-(-GRAIN // max(1, int(work))),
        )  # fmt: skip
    cells = out.reshape(groups, *kernel, channels, out_channels)
    if last:
        return to_front(cells.transpose(0, 4, 1, 2, 3).reshape(-1, *kernel, channels))
    return np.ascontiguousarray(cells.transpose(0, 4, 3, 1, 2).reshape(-1, channels, *kernel))


def _shares(parts: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The pieces of a weight gradient: SHARE rows of each part."""
    found = []
    for number, (place, windows) in enumerate(parts.tolist()):
        for low in range(0, rows, SHARE):
            found.append((0, rows, low, min(low + SHARE, rows), place, place, windows, number * rows * columns))
    return np.array(found)


def _groups(w: np.ndarray, groups: int) -> list[np.ndarray]:
    """The weights of each group."""
    return [w] if groups == 1 else np.split(w, groups)


def _pairs(
    size: tuple, windows: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> tuple[Pairs, Pairs]:
    rows, columns = map(meetings, size, windows, kernel, stride, padding, dilation)
    return rows, columns


def _skips_border(channels: int, size: tuple) -> bool:
    """Whether a weight gradient is summed cell by cell, over the windows that have the cell inside of the image.

    That takes a table for each cell, and tiles of one cell's channels; it pays where images are small.
    """
    return channels >= 16 and math.prod(size) <= 256


@functools.lru_cache(64)
def _all_windows(count: int, size: tuple, stride: tuple, shape: tuple, channels: int) -> Sums:
    """Every window of a bordered image, for all cells at once."""
    _, width, depth = shape
    pixels = math.prod(size)
    samples = min(count, -(-ROWS // pixels))
    at = (np.arange(size[0])[:, None] * stride[0] * width + np.arange(size[1]) * stride[1]).reshape(-1) * depth
    windows = (np.arange(samples)[:, None] * math.prod(shape) + at).reshape(-1)
    return Sums(samples, windows, np.arange(windows.size) * channels, np.array([(0, pixels)]))


@functools.lru_cache(256)
def _cells(kernel: tuple, dilation: tuple, shape: tuple, channels: int) -> np.ndarray:
    """Offsets of the cells (row, column, channel) of a kernel in bordered images of shape (width, all channels)."""
    rows, columns = (np.arange(k) * d for k, d in zip(kernel, dilation, strict=True))
    width, pitch = shape
    return (((rows[:, None] * width + columns) * pitch)[:, :, None] + np.arange(channels)).reshape(-1)


@functools.lru_cache(64)
def _multiples(count: int, step: int) -> np.ndarray:
    return np.arange(count) * step


def _channels_last(x: np.ndarray) -> np.ndarray:
    """(N, C, H, W) as contiguous (N, H, W, C)."""
    ordered = to_last(x)
    return ordered if ordered.flags.c_contiguous else bordered(x, x.shape[2:], (0, 0))


def _image(x: np.ndarray, size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> np.ndarray:
    """`x` channels-last and padded for the windows; `x` itself if it needs no change."""
    if padding == (0, 0):
        return _channels_last(x)
    shape = tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(size, kernel, stride, dilation, strict=True))
    return bordered(x, shape, padding)


def _gather(image: np.ndarray, source: int, plan: Targets, w: np.ndarray, columns: int, out: np.ndarray, target: int,
            bias: np.ndarray) -> None:  # fmt: skip
    """For every target, its sources times the weights into its place in `out`: channels from `source` and `target` on."""
    count, runs = image.shape[0], plan.runs
    bias = bias[target : target + columns]
    work = int((runs[:, 3] - runs[:, 2]) @ (runs[:, 5] - runs[:, 4])) // len(runs) * bias.size
    parallel(
        _walk, -(-count // plan.samples) * len(runs), image.reshape(-1)[source:], math.prod(image.shape[1:]), plan.rows,
        plan.cells, plan.lines, runs, DEPTH, w.reshape(-1), PANEL * w.shape[1], 0, out.reshape(-1)[target:],
        math.prod(out.shape[1:]), plan.places, bias, count, plan.samples, False, grain=-(-GRAIN // max(1, work)),
    )  # fmt: skip


def _ordered(out: np.ndarray, last: bool) -> np.ndarray:
    """The result (N, H, W, C) as (N, C, H, W) in the memory order that is asked for."""
    if last:
        return to_front(out)
    count, height, width, channels = out.shape
    return transposed(out, height * width, channels).reshape(count, channels, height, width)


@jit
def _walk(first, last, a, a_step, rows, cells, lines, pieces, depth, b, panel, b_step, out, out_step, places, bias, count,
          samples, summed):  # fmt: skip
    """Pieces [first, last): rows of the result, each summed over cells.

    The tables are those of a group of `samples`; a_step, b_step and out_step lead from a sample to the next. Where a result
    is `summed` over all samples, groups are taken one after the other; else they are pieces of their own. A row of
    `pieces`: first row of the table, rows in a sample, from and to which row; first and last cell, more cells for each
    sample; where the result begins.
    """
    for base in range(0, count if summed else 1, samples):
        for number in range(first, last):
            group = 0 if summed else number // pieces.shape[0]
            piece = pieces[number - group * pieces.shape[0]]
            sample = base if summed else group * samples
            here = min(samples, count - sample)
            left, right, target = a[sample * a_step :], b[sample * b_step :], out[piece[7] + sample * out_step :]
            low, high = piece[0] + piece[2], piece[0] + min(piece[3], piece[1] * here)
            start, end = piece[4], piece[5] + piece[6] * here
            begins = base == 0
            while low < high:
                stop = min(start + depth, end)
                tiles(left, rows, low, high, cells, lines, start, stop, right, panel, target, places, bias, begins)
                start, begins = stop, False
                if start >= end:  # only now: a target without a cell has a result too, the bias or 0
                    break
