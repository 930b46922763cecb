"""Gradients of convolutions of volumes with few input channels, in float32 on the CPU, as those of images (`depthwise_cpu`).

The cells of the kernel along the depth become channels: an image has, for each plane of the volume, the planes that its cells
meet, or zeros. Volumes of 1 to 4 channels would fill a part of a vector along the channels; rows of images fill it.
"""

from __future__ import annotations

import functools

import numpy as np

from tdt._kernels import conv_cpu, depthwise_cpu
from tdt._kernels._launches import all_finite, copy_to

# Floats of planes of an input gradient, and of y for a weight gradient, that are copied at a time, about: they stay in a cache.
COPIED, SUMMED = 1 << 20, 1 << 18


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, D', H', W'), w (O, C, KD, KH, KW), b (C,) or None; not strided in depth."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    count, channels, (depth, *image) = len(y), w.shape[1], size
    first = [padding[0] - k * dilation[0] for k in range(w.shape[2])]
    weights = np.ascontiguousarray(w.swapaxes(1, 2)).reshape(-1, channels, *w.shape[3:])
    out = np.empty((count, channels, *size), np.float32)
    some = max(1, COPIED // (y[0].size * len(first)))
    for low in range(0, count, some):
        planes = _met(y[low : low + some], first, 1, depth)
        part = depthwise_cpu.conv_input_grad(planes, weights, b, size=tuple(image), **_of_image(how))
        copy_to(out[low : low + some], part.reshape(-1, depth, channels, *image).swapaxes(1, 2))
    if conv_cpu.border_counts(out, (0,), w):
        return conv_cpu.conv_input_grad(y, w, b, size=size, **how)
    return out


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, D', H', W'), x (N, C, D, H, W); one group."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    first = [k * dilation[0] - padding[0] for k in range(kernel[0])]
    some, parts = max(1, SUMMED // y[0].size), []
    for low in range(0, len(y), some):
        part = y[low : low + some]
        planes = _met(x[low : low + some], first, stride[0], y.shape[2])
        lines = np.ascontiguousarray(part.swapaxes(1, 2)).reshape(-1, y.shape[1], *y.shape[3:])
        parts.append(depthwise_cpu.conv_weight_grad(lines, planes, kernel=kernel[1:], **_of_image(how)))
    out = functools.reduce(np.add, parts)
    if not all_finite(out):
        return conv_cpu.conv_weight_grad(y, x, kernel=kernel, **how)
    return out.reshape(y.shape[1], x.shape[1], *kernel)


def _met(x: np.ndarray, first: list[int], step: int, depth: int) -> np.ndarray:
    """(N, C, D, H, W) as (N · depth, C · cells, H, W): of plane z the planes first[k] + z · step, zeros where there is none."""
    count, channels, planes, *image = x.shape
    out = np.zeros((count, depth, channels, len(first), *image), np.float32)
    for k, at in enumerate(first):
        low = max(0, -(at // step))
        high = min(depth, -((at - planes) // step))
        if low < high:
            part = x[:, :, at + low * step : at + (high - 1) * step + 1 : step]
            copy_to(out[:, low:high, :, k], part.swapaxes(1, 2))
    return out.reshape(count * depth, channels * len(first), *image)


def _of_image(how: dict) -> dict:
    """The settings of a volume's convolution for its images."""
    return {name: value if name == "groups" else value[1:] for name, value in how.items()}
