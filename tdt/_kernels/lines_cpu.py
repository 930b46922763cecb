"""Convolutions of lines of few channels, in float32 on the CPU, as products of patches (`pointwise_cpu`).

The patches take less memory than the result. They are copied; of an input gradient each cell of the kernel is added where it lay.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tdt._kernels import conv_cpu, pointwise_cpu
from tdt._kernels._registry import prepares
from tdt._kernels.conv_cpu import PLAIN, border_counts


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, L), w (O, C, K), b (O,) or None; one group."""
    patches = _patches(x, w.shape[2], stride[0], padding[0], dilation[0])
    out: np.ndarray = pointwise_cpu.conv(patches, w.reshape(len(w), -1, 1, 1), b, **PLAIN)[:, :, 0]
    if any(padding) and border_counts(out, (0, slice(None), 0), w):
        return conv_cpu.conv(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=1)
    return out


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, L), w (O, C, K), b (C,) or None; as `conv`."""
    image = np.ascontiguousarray(y)[:, :, None]
    plain = {**PLAIN, "size": (1, y.shape[2])}
    parts = pointwise_cpu.conv_input_grad(image, w.reshape(len(w), -1, 1, 1), **plain)
    return _sum_of_cells(parts.reshape(len(y), *w.shape[1:], -1), b, size, stride, padding, dilation)


@prepares(conv_input_grad)
def _(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, size: tuple, stride: tuple, padding: tuple, dilation: tuple,
      groups: int, recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    matrix, shape = (len(w), -1), (len(y), *w.shape[1:], y.shape[2])
    if y.shape[2] == 1 or not y.flags.c_contiguous or not w.flags.c_contiguous:
        return None
    images = pointwise_cpu.prepared_images(w.reshape(matrix), y, None, turned=True)
    if images is None:
        return None
    return lambda y, w, b: _sum_of_cells(
        images(w.reshape(matrix), y, None).reshape(shape), b, size, stride, padding, dilation
    )


def _sum_of_cells(parts: np.ndarray, b: np.ndarray | None, size: tuple, stride: tuple, padding: tuple,
                  dilation: tuple) -> np.ndarray:  # fmt: skip
    """What each window has of the pixels under its cells, (N, C, K, windows), added where they lie, (N, C, *size); plus b."""
    count, few, cells, windows = parts.shape
    reach = (windows - 1) * stride[0] + (cells - 1) * dilation[0] + 1
    full = np.zeros((count, few, max(reach, padding[0] + size[0])), np.float32)
    for k in range(cells):
        first = k * dilation[0]
        lines = full[:, :, first : first + (windows - 1) * stride[0] + 1 : stride[0]]
        np.add(lines, parts[:, :, k], out=lines)
    inside = full[:, :, padding[0] : padding[0] + size[0]]
    return np.ascontiguousarray(inside) if b is None else inside + b[:, None]


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, L'), x (N, C, L); as `conv`."""
    patches = _patches(x, kernel[0], stride[0], padding[0], dilation[0])
    image = np.ascontiguousarray(y)[:, :, None]
    out = pointwise_cpu.conv_weight_grad(image, patches[..., : y.shape[2]], kernel=(1, 1), **PLAIN)
    out = out.reshape(y.shape[1], x.shape[1], *kernel)
    if any(padding) and border_counts(out, (slice(None), 0, 0), y):
        return conv_cpu.conv_weight_grad(
            y, x, kernel=kernel, stride=stride, padding=padding, dilation=dilation, groups=1
        )
    return out


def _patches(x: np.ndarray, cells: int, stride: int, padding: int, dilation: int) -> np.ndarray:
    """Lines (N, C, L) as images (N, C · cells, 1, windows) of the cells under each window."""
    count, channels, length = x.shape
    windows = (length + 2 * padding - dilation * (cells - 1) - 1) // stride + 1
    full = x
    if padding:
        full = np.zeros((count, channels, length + 2 * padding), np.float32)
        full[:, :, padding : padding + length] = x
    out = np.empty((count, channels, cells, windows), np.float32)
    for k in range(cells):
        out[:, :, k] = full[:, :, k * dilation :][:, :, : (windows - 1) * stride + 1 : stride]
    return out.reshape(count, channels * cells, 1, windows)
