"""Conversion of images between memory formats, optionally with a border of zeros."""

from __future__ import annotations

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._kernels._intrinsics import transpose8
from tdt._kernels._jit import jit
from tdt._kernels._pool import parallel

COPY = 1 << 16  # elements that a thread should at least copy: about 20 µs


def bordered(x: np.ndarray, size: tuple, start: tuple) -> np.ndarray:
    """(N, C, H, W) as contiguous (N, *size, C) with pixel (0, 0) at `start`; zero-padded and cropped to `size`."""
    count, channels, height, width = x.shape
    if x.flags.c_contiguous and channels >= 8 and start == (0, 0) and size == (height, width):
        return transposed(x, channels, height * width).reshape(count, height, width, channels)
    out = np.empty((count, *size, channels), np.float32)
    grain = -(-COPY // out[0].size)
    if x.flags.c_contiguous and channels >= 8:
        flat = x.reshape(-1), channels, height, width, *start, out.reshape(-1), *size
        parallel(_border_planes, count, *flat, grain=grain)
    else:
        parallel(_border, count, to_last(x), *start, out, grain=grain)
    return out


def transposed(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """(N, rows, columns) as (N, columns, rows), both flat."""
    out = np.empty(x.size, np.float32)
    parallel(_transpose, x.shape[0], x.reshape(-1), rows, columns, out, grain=-(-COPY // (rows * columns)))
    return out


def like(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`a`, of x's shape, in the memory order of x."""
    if a.strides == x.strides:
        return a
    if x.ndim == 4 and output_is_channels_last(x):
        return to_front(bordered(a, a.shape[2:], (0, 0)))
    if x.flags.c_contiguous and a.ndim == 4 and to_last(a).flags.c_contiguous:
        return transposed(to_last(a), a[0, 0].size, a.shape[1]).reshape(a.shape)
    ordered = np.empty_like(x)
    ordered[...] = a
    return ordered


def check_indices(indices: np.ndarray, size: int) -> None:
    """IndexError unless all are in [0, size). Kernels do not check, and indices may have changed since the op checked."""
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise IndexError(f"indices from {indices.min()} to {indices.max()} are out of range for {size} rows or classes")


@jit
def _border(first, last, x, top, left, out):
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    for n in range(first, last):
        for i in range(out.shape[1]):
            h, row, out_width = i - top, out[n, i], out.shape[2]
            low = min(max(left, 0), out_width) if h >= 0 and h < height else out_width
            high = max(low, min(width + left, out_width))
            _zero(row[:low])
            _zero(row[high:])
            if low < high:
                # In slices: where an index may be negative, LLVM gathers and scatters.
                source, target = x[n, h, low - left : high - left], row[low:high]
                if channels >= 8:
                    for j in range(target.shape[0]):
                        for c in range(channels):
                            target[j, c] = source[j, c]
                else:  # along the row: a loop of a few channels is mostly its beginning
                    for c in range(channels):
                        for j in range(target.shape[0]):
                            target[j, c] = source[j, c]


@jit
def _zero(row):
    for j in range(row.shape[0]):
        for c in range(row.shape[1]):
            row[j, c] = 0


@jit
def _border_planes(first, last, x, channels, height, width, top, left, out, out_height, out_width):
    """`_border` from contiguous (N, C, H, W) to (N, out_height, out_width, C), both flat."""
    for n in range(first, last):
        for i in range(out_height):
            h, here = i - top, (n * out_height + i) * out_width * channels
            low = min(max(left, 0), out_width) if h >= 0 and h < height else out_width
            high = max(low, min(width + left, out_width))
            before, behind = (
                out[here : here + low * channels],
                out[here + high * channels : here + out_width * channels],
            )
            for k in range(before.size):
                before[k] = 0
            for k in range(behind.size):
                behind[k] = 0
            _turn(x, (n * channels * height + h) * width + low - left, height * width, out, here + low * channels, channels,
                  channels, high - low)  # fmt: skip


@jit
def _transpose(first, last, x, rows, columns, out):
    """(N, rows, columns) to (N, columns, rows), both flat."""
    for n in range(first, last):
        start = n * rows * columns
        _turn(x, start, columns, out, start, rows, rows, columns)


@jit
def _turn(x, start, pitch, out, place, out_pitch, rows, columns):
    """Transpose rows × columns elements, in blocks of 8 × 8."""
    whole_rows, whole_columns = rows - rows % 8, columns - columns % 8
    for i in range(0, whole_rows, 8):
        for j in range(0, whole_columns, 8):
            transpose8(x, start + i * pitch + j, pitch, out, place + j * out_pitch + i, out_pitch)
    for j in range(whole_columns, columns):
        for i in range(whole_rows):
            out[place + j * out_pitch + i] = x[start + i * pitch + j]
    for i in range(whole_rows, rows):
        for j in range(columns):
            out[place + j * out_pitch + i] = x[start + i * pitch + j]
