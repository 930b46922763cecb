"""How many windows of a convolution or pooling fit."""

from __future__ import annotations

import functools

import numpy as np


@functools.lru_cache(1024)
def output_sizes(
    size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool = False
) -> tuple[int, ...]:
    """The number of windows in each dimension, which is the spatial size of the result.

    Args:
        size: of the input.
        padding: of the border on both sides.
        ceil_mode: whether a last window may stick out at the end.
    """
    return tuple(
        [
            _count(n + 2 * p, d * (k - 1) + 1, s, n + p if ceil_mode else None)
            for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        ]
    )


def _count(full: int, extent: int, stride: int, end: int | None) -> int:
    """The windows of `extent` in `full` cells; `end`: the end of the cells in which a window that sticks out may start."""
    if end is None:
        return (full - extent) // stride + 1
    count = -(-(full - extent) // stride) + 1
    return count - 1 if (count - 1) * stride >= end else count


def adaptive_spans(n: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The cells [start, end) of an input of size n that belong to each of `out` windows."""
    i = np.arange(out)
    return i * n // max(out, 1), -(-(i + 1) * n // max(out, 1))
