"""Convolution in two dimensions in groups, in float32 on the CPU, and its gradients.

Contiguous images are computed as they lie by `_planes`. What follows here is for channels-last images in groups of few
channels, and for what `_planes` cannot compute; groups of more channels go to `conv_cpu`.

Depthwise (every channel has its own kernel), or with small groups (`_grouped`). As in `conv_cpu`, but for the tile: a column
of the result is a channel, and reads its own channel, or those of its group, from the image.
"""

from __future__ import annotations

import math

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front
from tdt._backend.windows import output_sizes
from tdt._kernels import _grouped as grouped
from tdt._kernels import _planes, conv_cpu
from tdt._kernels._gemm import (
    GRAIN,
    own_narrow_edge,
    own_wide_edge,
    own_wide_tile,
    patch_columns,
    patch_narrow_edge,
    patch_rows,
    patch_wide_edge,
    patch_wide_tile,
    tile_columns,
    tile_rows,
    vector_size,
)
from tdt._kernels._grouped import CHANNELS
from tdt._kernels._jit import jit
from tdt._kernels._pool import parallel
from tdt._kernels._stencil import stencil, stencil_edge
from tdt._kernels._taps import ROWS, patches, targets
from tdt._kernels.conv_cpu import _channels_last, _ordered, _pairs

# Channels in a group from which on `conv_cpu` is faster, times the stride in the result; and in the weight gradient.
WIDE, WIDE_SUMMED = 16, 8


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, H, W), w (O, C / groups, KH, KW), b (O,) or None; groups > 1."""
    last = output_is_channels_last(x, w)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    wide = min(w.shape[1], len(w) // groups) * max(stride) >= WIDE
    if not last and not wide and (out := _planes.result(x, w, b, **how)) is not None:
        return out
    if (wide and not last) or not _has_tile(x.shape[1], len(w), groups):
        return conv_cpu.conv(x, w, b, **how)
    size = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    bias = np.zeros(len(w), np.float32) if b is None else np.ascontiguousarray(b)
    pairs = _pairs(x.shape[2:], size, w.shape[2:], stride, padding, dilation)
    return _ordered(_gather(_channels_last(x), w.transpose(2, 3, 1, 0), size, pairs, True, bias), last)


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C / groups, KH, KW), b (C,) or None; groups > 1."""
    last = output_is_channels_last(y, w)
    how = {"size": size, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    wide = min(w.shape[1], len(w) // groups) >= WIDE
    if not last and not wide and (out := _planes.input_grad(y, w, b, **how)) is not None:
        return out
    if wide or not _has_tile(w.shape[1] * groups, len(w), groups):
        return conv_cpu.conv_input_grad(y, w, b, **how)
    pairs = _pairs(size, y.shape[2:], w.shape[2:], stride, padding, dilation)
    per = w.shape[1]
    bias = np.zeros(len(w), np.float32) if b is None else np.ascontiguousarray(b)
    turned = w.reshape(groups, per, per, *w.shape[2:]).transpose(3, 4, 1, 0, 2).reshape(*w.shape[2:], per, len(w))
    return _ordered(_gather(_channels_last(y), turned, size, pairs, False, bias), last)


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, OH, OW), x (N, C, H, W); groups > 1."""
    last = output_is_channels_last(y, x)
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    wide = min(x.shape[1], y.shape[1]) // groups >= WIDE_SUMMED
    if not last and not wide and (out := _planes.weight_grad(y, x, **how)) is not None:
        return out
    if (wide and not last) or not _has_tile(x.shape[1], y.shape[1], groups):
        return conv_cpu.conv_weight_grad(y, x, **how)
    right, image = _channels_last(y), _channels_last(x)
    channels = x.shape[1]
    per = channels // groups
    pairs = _pairs(x.shape[2:], y.shape[2:], kernel, stride, padding, dilation)
    plan = patches(y.shape[0], pairs, image.shape[1:], right.shape[1:], (*kernel, per))
    out = np.zeros((*kernel, per, channels), np.float32)
    work = y.size // groups * math.prod(kernel) * CHANNELS
    parallel(
        _weights if per == 1 else grouped.weights, -(-channels // CHANNELS), image.reshape(-1), math.prod(image.shape[1:]),
        plan.rows, plan.places, plan.windows, plan.lines, plan.parts, y.shape[0], plan.samples, right.reshape(-1),
        math.prod(right.shape[1:]), out.reshape(-1), out[0, 0, 0], per, grain=-(-GRAIN // work),
    )  # fmt: skip
    return (
        to_front(np.ascontiguousarray(out.transpose(3, 0, 1, 2)))
        if last
        else np.ascontiguousarray(out.transpose(3, 2, 0, 1))
    )


def _has_tile(channels: int, out_channels: int, groups: int) -> bool:
    """Whether a group has as many channels on both sides: one, two, four or eight."""
    return channels == out_channels and channels // groups in (1, 2, 4, 8)


def _gather(image: np.ndarray, w: np.ndarray, size: tuple, pairs: tuple, forward: bool, bias: np.ndarray) -> np.ndarray:
    """For every target, its sources times the weights w (KH, KW, C / groups, C), group by group: (N, *size, C)."""
    count, channels = image.shape[0], image.shape[3]
    per = w.shape[2]
    out = np.empty((count, *size, channels), np.float32)
    plan = targets(count, pairs, forward, image.shape[1:], out.shape[1:], w.shape[:2], per * channels, 1)
    runs = plan.runs
    work = int((runs[:, 3] - runs[:, 2]) @ (runs[:, 5] - runs[:, 4])) // len(runs) * channels * per
    parallel(
        _outputs if per == 1 else grouped.outputs, -(-count // plan.samples) * len(runs), image.reshape(-1),
        math.prod(image.shape[1:]), plan.rows, plan.cells, plan.lines, runs, np.ascontiguousarray(w).reshape(-1),
        out.reshape(-1), math.prod(out.shape[1:]), plan.places, bias, count, plan.samples, per,
        grain=-(-GRAIN // max(1, work)),
    )  # fmt: skip
    return out


@jit
def _tiles(a, rows, low, high, cells, lines, start, stop, b, out, places, bias, first, last, begins):
    """All tiles of rows [low, high) and of columns [first, last), summed over cells [start, stop)."""
    step = tile_rows()
    for j in range(first, last, tile_columns()):
        own, right, target, old, left = a[j:], b[j:], out[j:], bias[j:], last - j
        if left >= tile_columns():
            for i in range(low, high, step):
                own_wide_tile(
                    own, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins
                )
        elif left > vector_size():
            for i in range(low, high, step):
                own_wide_edge(
                    own, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins
                )
        else:
            for i in range(low, high, step):
                own_narrow_edge(
                    own, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins
                )


@jit
def _windows(a, rows, low, high, cells, lines, start, b, out, places, bias):
    """As `_tiles`, of all columns, for nine cells from `start` on."""
    whole = bias.size - bias.size % patch_columns()
    for j in range(0, whole, patch_columns()):
        stencil(a[j:], rows, low, high, cells, lines, start, b[j:], out[j:], places, bias[j:], bias.size)
    for j in range(whole, bias.size, vector_size()):
        stencil_edge(a[j:], rows, low, high, cells, lines, start, b[j:], out[j:], places, bias[j:], bias.size - j)


@jit
def _outputs(first, last, image, step, rows, cells, lines, runs, w, out, out_step, places, bias, count, samples, per):
    """Runs [first, last) of `_gather`, counted over groups of samples."""
    for number in range(first, last):
        group = number // runs.shape[0]
        run = runs[number - group * runs.shape[0]]
        here = min(samples, count - group * samples)
        low, high = run[0] + run[2], run[0] + min(run[3], run[1] * here)
        a, target = image[group * samples * step :], out[group * samples * out_step :]
        if run[5] - run[4] == patch_rows():
            _windows(a, rows, low, high, cells, lines, run[4], w, target, places, bias)
        else:
            _tiles(a, rows, low, high, cells, lines, run[4], run[5], w, target, places, bias, 0, bias.size, True)


@jit
def _patch(a, rows, low, high, windows, lines, start, stop, b, out, places, bias, first, last):
    """Add to rows [low, high) and columns [first, last) their sums over windows [start, stop)."""
    for j in range(first, last, patch_columns()):
        own, right, target, left = a[j:], b[j:], out[j:], last - j
        for i in range(low, high, patch_rows()):
            if left >= patch_columns():
                patch_wide_tile(
                    own, rows, i, high - 1, windows, lines, start, stop, right, target, places, bias, left, False
                )
            elif left > vector_size():
                patch_wide_edge(
                    own, rows, i, high - 1, windows, lines, start, stop, right, target, places, bias, left, False
                )
            else:
                patch_narrow_edge(
                    own, rows, i, high - 1, windows, lines, start, stop, right, target, places, bias, left, False
                )


@jit
def _weights(first, last, image, step, rows, places, windows, lines, parts, count, samples, y, y_step, out, bias, per):
    """Channels of the weight gradient, by CHANNELS; `out` is zero at first, and `bias`, as long as a row, is not read."""
    for number in range(first, last):
        low, high = number * CHANNELS, min((number + 1) * CHANNELS, bias.size)
        for base in range(0, count, samples):
            a, right = image[base * step :], y[base * y_step :]
            for part in parts:
                stop = part[2] + part[3] * min(samples, count - base)
                for start in range(part[2], stop, ROWS):
                    end = min(start + ROWS, stop)
                    _patch(a, rows, part[0], part[1], windows, lines, start, end, right, out, places, bias, low, high)
