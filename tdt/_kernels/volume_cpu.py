"""Convolutions of images of few channels, or of patches, in float32 on the CPU, as those of volumes of one channel (`conv_cpu`).

A contiguous image (N, C, H, W) is a volume (N, 1, C, H, W) of one channel, which lies channels-last as it is, and a kernel
(O, C, KH, KW) reaches through all of its depth: runs of KW numbers are read where they lie, and nothing is laid out anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tdt._backend.layout import output_is_channels_last
from tdt._kernels import conv_cpu
from tdt._kernels._conv_conditions import FEW_CHANNELS, LONG_RUN
from tdt._kernels._registry import prepares


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, H, W), w (O, C, KH, KW), b (O,) or None; one group."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if output_is_channels_last(x, w):
        return conv_cpu.conv(x, w, b, **how)
    out: np.ndarray = conv_cpu.conv(_volume(x), _volume(w), b, **_of_volume(how))[:, :, 0]
    return out


@prepares(conv)
def _(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    if output_is_channels_last(x, w) or not x.flags.c_contiguous or not w.flags.c_contiguous:
        return None
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    compute = conv_cpu.prepared_conv(_volume(x), _volume(w), b, **_of_volume(how))
    return compute and (lambda x, w, b: compute(x[:, None], w[:, None], b)[:, :, 0])


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, H', W'), x (N, C, H, W); as `conv`."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    channels, some = (
        x.shape[1],
        conv_cpu.CELLS // math.prod(kernel),
    )  # channels at a time, whose cells fit in the scratch array
    if output_is_channels_last(y, x) or (kernel[-1] < LONG_RUN and channels > FEW_CHANNELS) or not some:
        return conv_cpu.conv_weight_grad(y, x, kernel=kernel, **how)
    y, x, of_one = np.ascontiguousarray(y)[:, :, None], np.ascontiguousarray(x), _of_volume(how)
    parts = [
        conv_cpu.conv_weight_grad(y, _volume(x[:, k : k + some]), kernel=(min(some, channels - k), *kernel), **of_one)[
            :, 0
        ]
        for k in range(0, channels, some)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)


def _volume(x: np.ndarray) -> np.ndarray:
    """Images, or weights, as volumes of one channel."""
    return np.ascontiguousarray(x)[:, None]


def _of_volume(how: dict) -> dict:
    """The settings of an image's convolution for its volume, in whose depth there is one window."""
    return {
        "stride": (1, *how["stride"]),
        "padding": (0, *how["padding"]),
        "dilation": (1, *how["dilation"]),
        "groups": 1,
    }
