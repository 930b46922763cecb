"""Convolutions of lines of few channels, in float32 on the CPU, as products of patches (`pointwise_cpu`).

The patches take less memory than the result; for gradients of weights of few cells, also of images, some times that of x. They
are copied; of an input gradient each cell of the kernel is added where it lay.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tdt._backend.windows import output_sizes
from tdt._kernels import conv_cpu, pointwise_cpu, unfold_cpu
from tdt._kernels._registry import prepares
from tdt._kernels.conv_cpu import PLAIN, border_counts


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, L), w (O, C, K), b (O,) or None; one group."""
    windows = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    patches = _patches(x, w.shape[2:], windows, stride, padding, dilation)
    out: np.ndarray = pointwise_cpu.conv(patches, w.reshape(len(w), -1, 1, 1), b, **PLAIN)[:, :, 0]
    if any(padding) and border_counts(out, (0, slice(None), 0), w):
        return conv_cpu.conv(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=1)
    return out


@prepares(conv)
def _(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    windows, matrix = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation), (len(w), -1)
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    if windows == (1,) or not all(a is None or a.flags.c_contiguous for a in (w, b)):
        return None
    patches = _prepared_patches(x, w.shape[2:], windows, **how)
    images = patches and pointwise_cpu.prepared_images(w.reshape(matrix), patches(x), b)
    if images is None:
        return None

    def compute(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
        out = images(w.reshape(matrix), patches(x), b)
        if any(padding) and border_counts(out, (0, slice(None), 0), w):
            return conv_cpu.conv(x, w, b, **how, groups=1)
        return out

    return compute


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
    cells = parts[:, :, None, :, None]
    how = _of_row(kernel=parts.shape[2:3], stride=stride, padding=padding, dilation=dilation)
    out = unfold_cpu.fold(cells, (1, *size), **how)[:, :, 0]
    return out if b is None else np.add(out, b[:, None], out=out)


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, L'), x (N, C, L); as `conv`. Or for images, y (N, O, H', W'), x (N, C, H, W)."""
    patches = _patches(x, kernel, y.shape[2:], stride, padding, dilation)
    image = np.ascontiguousarray(y).reshape(*y.shape[:2], 1, -1)
    out = pointwise_cpu.conv_weight_grad(image, patches, kernel=(1, 1), **PLAIN)
    out = out.reshape(y.shape[1], x.shape[1], *kernel)
    if any(padding) and border_counts(out, (slice(None), 0, *(0,) * len(kernel)), y):
        return conv_cpu.conv_weight_grad(
            y, x, kernel=kernel, stride=stride, padding=padding, dilation=dilation, groups=1
        )
    return out


@prepares(conv_weight_grad)
def _(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    windows, shape = y.shape[2:], (y.shape[1], x.shape[1], *kernel)
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    if windows == (1,) or y.ndim != 3 or not y.flags.c_contiguous:
        return None
    patches = _prepared_patches(x, kernel, windows, **how)
    sums = patches and pointwise_cpu.prepared_sums(y.shape, patches(x).shape)
    if sums is None:
        return None

    def compute(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        out = sums(y, patches(x)).reshape(shape)
        if any(padding) and border_counts(out, (slice(None), 0, 0), y):
            return conv_cpu.conv_weight_grad(y, x, kernel=kernel, **how, groups=1)
        return out

    return compute


def _patches(
    x: np.ndarray, kernel: tuple, windows: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> np.ndarray:
    """Lines (N, C, L), or images, as images (N, C · cells, 1, windows) of the cells under each window."""
    rows = np.ascontiguousarray(x).reshape(*x.shape[:2], -1, x.shape[-1])
    how = _of_row(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    return unfold_cpu.unfold(rows, (1, *windows)[-2:], **how).reshape(len(x), -1, 1, math.prod(windows))


def _prepared_patches(
    x: np.ndarray, kernel: tuple, windows: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> Callable[[np.ndarray], np.ndarray] | None:
    """`_patches`, (N, C · cells, windows), as a function of lines like x; None where several threads compute it."""
    rows, shape = (*x.shape[:2], 1, x.shape[2]), (len(x), -1, *windows)
    how = _of_row(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    unfold = unfold_cpu.prepared_unfold(x.reshape(rows), (1, *windows), **how) if x.flags.c_contiguous else None
    return unfold and (lambda x: unfold(x.reshape(rows)).reshape(shape))


def _of_row(**how: tuple) -> dict[str, tuple]:
    """Settings of lines as those of images of one row; those of images as they are."""
    return {name: (0 if name == "padding" else 1, *value)[-2:] for name, value in how.items()}
