"""Input gradients of convolutions of small images with little padding, in float32 on the CPU.

    w' (C · cells, O)     times y[n] (O, windows)     added where the windows' cells lay

`conv_cpu` sums every cell of the kernel for each pixel. Near the edges most of them are of no window, so that it multiplies
zeros: half of all for 5 × 5 cells and an image of 14 × 14 without padding. Here each window's cells are multiplied once.
"""

from __future__ import annotations

import math

import numpy as np

from tdt._kernels import pointwise_cpu, unfold_cpu
from tdt._kernels._launches import copy_to
from tdt._kernels.conv_cpu import PLAIN

TOGETHER = 1 << 18  # floats of products that are added at a time: they stay in a level-two cache


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C, KH, KW), b (C,) or None; one group."""
    (count, rows, *windows), (_, channels, *kernel) = y.shape, w.shape
    matrix, out = np.ascontiguousarray(w).reshape(rows, -1, 1, 1), np.empty((count, channels, *size), np.float32)
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    some = max(1, TOGETHER // (matrix.shape[1] * math.prod(windows)))
    for low in range(0, count, some):
        part = np.ascontiguousarray(y[low : low + some])
        cells = pointwise_cpu.conv_input_grad(part, matrix, size=tuple(windows), **PLAIN)
        cells = cells.reshape(len(part), channels, *kernel, *windows)
        copy_to(out[low : low + some], unfold_cpu.fold(cells, size, kernel=tuple(kernel), **how))
    return out if b is None else np.add(out, b[:, None, None], out=out)
