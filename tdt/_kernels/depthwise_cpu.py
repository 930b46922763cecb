"""Convolution in two dimensions in groups, or with few channels, in float32 on the CPU, and its gradients.

Contiguous images are computed as they lie by `_planes`, channels-last ones in groups by `_pixels`; groups of more channels, and
what these two cannot compute, by `conv_cpu`. Channels-last images in one group are turned for `_planes` where the few channels
are those of the result, or of its gradient for the weights.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels import _pixels, _planes, conv_cpu
from tdt._kernels._conv_conditions import FEW_CHANNELS, SOME_CHANNELS, few_pairs
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._layout import bordered, contiguous
from tdt._kernels._native import vector_width
from tdt._kernels._registry import prepares
from tdt._kernels._tile import choose, rates

# Channels in a group, times the stride in the result, up to which rows are faster than `conv_cpu`; with as many, which fill a
# vector, beyond NARROW.
WIDE, NARROW = 16, 8
LONG_SUM = (
    48  # products of a strided result of few channels from which on `conv_cpu` is faster, if vectors are not as wide
)
# Of weight gradients in one group: multiply-adds that take `conv_cpu` as long as to pack a number of y, and the rate of sums
# along rows in comparison with its tiles', by the floats of a vector, without a stride and with one.
PACKED, RATE_OF_ROWS = 16, {4: (0.75, 0.64), 8: (0.75, 0.64), 16: (0.8, 0.8)}
FEW_LAST = (
    6  # channels of a channels-last result, or of its gradient, up to which turning it takes less time than it saves
)
SUMMED_LAST = 8  # channels in a group from which on weight gradients of contiguous images are summed channels-last
# Channels in a group from which on `conv_cpu` is faster for channels-last images, even if they fill vectors of sixteen, and for
# weight gradients of those of up to NARROW pixels a row.
WIDE_LAST, WIDE_LAST_OF_NARROW = 64, 32


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, H, W), w (O, C / groups, KH, KW), b (O,) or None; groups > 1, or few channels."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    width = output_sizes(x.shape[3:], w.shape[3:], stride[1:], padding[1:], dilation[1:])[0]
    if output_is_channels_last(x, w):
        if groups == 1 and len(w) <= FEW_LAST:
            return _last(conv(contiguous(x), contiguous(w), b, **how))
        narrow = min(w.shape[1], len(w) // groups)
        out = _pixels.result(x, w, b, **how) if groups > 1 and _by_pixels(narrow) else None
    else:
        out = _planes.result(x, w, b, **how) if _results_by_rows(w, stride, groups, width) else None
    return conv_cpu.conv(x, w, b, **how) if out is None else out


@prepares(conv, half=True)
def _(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    width = output_sizes(x.shape[3:], w.shape[3:], stride[1:], padding[1:], dilation[1:])[0]
    if output_is_channels_last(x, w) or not all(a is None or a.flags.c_contiguous for a in (x, w, b)):
        return None
    if not _results_by_rows(w, stride, groups, width):
        return conv_cpu.prepared_conv(x, w, b, **how)
    by_rows = _planes.prepared_result(x, w, b, **how)
    if by_rows is None or x.dtype == BFLOAT16:  # for which None is no result
        return by_rows

    def compute(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
        out = by_rows(x, w, b)
        return conv_cpu.conv(x, w, b, **how) if out is None else out

    return compute


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C / groups, KH, KW), b (C,) or None; groups > 1, or few channels."""
    how = {"size": size, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    narrow = min(w.shape[1], len(w) // groups)
    if output_is_channels_last(y, w):
        if groups == 1 and w.shape[1] <= FEW_CHANNELS:
            return _last(conv_input_grad(contiguous(y), contiguous(w), b, **how))
        out = _pixels.input_grad(y, w, b, **how) if groups > 1 and _by_pixels(narrow) else None
    else:
        out = _planes.input_grad(y, w, b, **how) if _by_rows(narrow, size[1] // stride[1]) else None
    return conv_cpu.conv_input_grad(y, w, b, **how) if out is None else out


@prepares(conv_input_grad, half=True)
def _(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, size: tuple, stride: tuple, padding: tuple, dilation: tuple,
      groups: int, recorded: bool) -> Callable[..., np.ndarray | None] | None:  # fmt: skip
    by_rows = _by_rows(min(w.shape[1], len(w) // groups), size[1] // stride[1])
    if y.dtype != BFLOAT16 or not by_rows or not all(a is None or a.flags.c_contiguous for a in (w, b)):
        return None
    return _planes.prepared_input_grad(
        y, w, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, OH, OW), x (N, C, H, W); groups > 1, or few channels."""
    last = output_is_channels_last(y, x)
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if last and groups == 1:
        if y.shape[1] > FEW_LAST:
            return conv_cpu.conv_weight_grad(y, x, **how)
        return _last(conv_weight_grad(contiguous(y), contiguous(x), **how))
    narrow, out = min(x.shape[1], y.shape[1]) // groups, None
    if _sums_by_pixels(y, narrow, groups, last):
        out = _pixels.weight_grad(y, x, **how)
    if (
        out is None
        and not last
        and narrow < SUMMED_LAST
        and (groups > 1 or _sums_by_rows(y, x, math.prod(kernel), stride))
    ):
        out = _planes.weight_grad(y, x, **how)
    if out is None:
        return conv_cpu.conv_weight_grad(y, x, **how)
    return to_front(np.ascontiguousarray(to_last(out))) if last else out


@prepares(conv_weight_grad, half=True)
def _(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray | None] | None:  # fmt: skip
    if y.dtype != BFLOAT16 or not _sums_by_pixels(y, min(x.shape[1], y.shape[1]) // groups, groups, False):
        return None
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return functools.partial(_pixels.weight_grad, **how)


def _sums_by_pixels(y: np.ndarray, narrow: int, groups: int, last: bool) -> bool:
    """Whether `_pixels` sums the weight gradient of groups of so many channels, of channels-last images if `last`."""
    fast = _by_pixels(narrow) and (narrow < WIDE_LAST_OF_NARROW or y.shape[3] > NARROW)
    return groups > 1 and (last or narrow >= SUMMED_LAST or y.shape[2] > 1) and fast


def _results_by_rows(w: np.ndarray, stride: tuple, groups: int, width: int) -> bool:
    """Whether rows of the result of contiguous images, of such a width, are faster than `conv_cpu`."""
    strided_sums = groups == 1 and max(stride) > 1 and len(w) > SOME_CHANNELS and w[0].size >= LONG_SUM
    if strided_sums and vector_width() < WIDE:
        return False
    return _by_rows(min(w.shape[1], len(w) // groups) * max(stride), width)


def _by_pixels(channels: int) -> bool:
    """Whether `_pixels` is faster for groups of so many channels: few, or those that fill vectors of sixteen."""
    return channels <= WIDE or (channels < WIDE_LAST and channels % WIDE == 0 and vector_width() == WIDE)


def _by_rows(channels: int, width: int) -> bool:
    """Whether groups of contiguous images have few enough channels, times the stride, for rows of such a width."""
    return channels < WIDE or (channels == WIDE == vector_width() and width > NARROW)


def _sums_by_rows(y: np.ndarray, x: np.ndarray, cells: int, stride: tuple) -> bool:
    """Whether a weight gradient in one group takes less time along rows than by `conv_cpu`, which packs y."""
    (channels, out_channels), width, vector = (x.shape[1], y.shape[1]), y.shape[3], vector_width()
    if few_pairs(channels, out_channels):
        return True
    shape = choose(out_channels)
    filled = out_channels / (-(-out_channels // shape.columns) * shape.columns)
    by_rows = RATE_OF_ROWS[vector][max(stride) > 1] * width / (-(-width // vector) * vector)
    return by_rows * (channels * cells + PACKED) > rates()[shape] * filled * channels * cells


def _last(x: np.ndarray) -> np.ndarray:
    """A contiguous image as a channels-last one."""
    return to_front(bordered(x, x.shape[2:], (0, 0)))
