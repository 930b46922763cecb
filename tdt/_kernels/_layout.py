"""Conversion of images between memory formats, optionally with a border of zeros."""

from __future__ import annotations

import math

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._kernels._intrinsics import transpose8
from tdt._kernels._jit import jit
from tdt._kernels._pool import parallel
from tdt._kernels._tile import place
from tdt._kernels._turn import turn, turner

COPY = 1 << 16  # elements that a thread should at least copy: about 20 µs
CHUNK = 32  # columns that are turned together: their lines stay in the level-one cache until they are full


def bordered(x: np.ndarray, size: tuple, start: tuple) -> np.ndarray:
    """(N, C, *spatial) as contiguous (N, *size, C) with element (0, …, 0) at `start`; zero-padded and cropped to `size`."""
    count, channels, *shape = x.shape
    last = channels == 1 or not x.flags.c_contiguous
    lines = np.ascontiguousarray(to_last(x)) if last else x
    if tuple(shape) == tuple(size) and not any(start):
        return lines if last else transposed(x, channels, math.prod(shape)).reshape(count, *shape, channels)
    out = np.empty((count, *size, channels), np.float32)
    missing = 3 - len(size)
    ones, zeros = (1,) * missing, (0,) * missing
    parallel(
        _image, out.size // (size[-1] * channels), lines.reshape(-1), out.reshape(-1), last, channels, *ones, *shape, *zeros,
        *start, *(*ones, *size), turner(), grain=-(-COPY // (size[-1] * channels)),
    )  # fmt: skip
    return out


def transposed(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """(N, rows, columns) as (N, columns, rows), both flat."""
    out = np.empty(x.size, np.float32)
    pieces = x.shape[0] * -(-columns // CHUNK)
    parallel(_transpose, pieces, x.reshape(-1), rows, columns, out, turner(), grain=-(-COPY // (rows * CHUNK)))
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
def _image(first, last, x, out, is_last, channels, depth, height, width, front, top, left, out_depth, out_height, out_width,
           function):  # fmt: skip
    """Lines [first, last) of a bordered image (N, D', H', W', C), from (N, C, D, H, W), or (N, D, H, W, C) if `is_last`."""
    low = min(max(left, 0), out_width)
    high = max(low, min(width + left, out_width))
    for line in range(first, last):
        rest = line // out_height
        n = rest // out_depth
        h, d = line - rest * out_height - top, rest - n * out_depth - front
        target = out[line * out_width * channels : (line + 1) * out_width * channels]
        inside = 0 <= h < height and 0 <= d < depth
        start, end = (low * channels, high * channels) if inside else (0, 0)
        for k in range(start):
            target[k] = 0
        for k in range(end, target.size):
            target[k] = 0
        if inside and is_last:
            inner = x[(((n * depth + d) * height + h) * width + low - left) * channels :]
            for k in range(start, end):
                target[k] = inner[k - start]
        elif inside:
            source = ((n * channels * depth + d) * height + h) * width + low - left
            turn(
                function,
                place(x, source),
                depth * height * width,
                high - low,
                place(target, start),
                channels,
                0,
                channels,
            )


@jit
def _transpose(first, last, x, rows, columns, out, function):
    """Pieces of (N, rows, columns) to (N, columns, rows), both flat; a piece has CHUNK columns."""
    pieces = (columns + CHUNK - 1) // CHUNK
    for number in range(first, last):
        n = number // pieces
        low = (number - n * pieces) * CHUNK
        start = n * rows * columns
        turn(function, place(x, start + low), columns, min(CHUNK, columns - low), place(out, start + low * rows), rows, 0,
             rows)  # fmt: skip


@jit
def _turn(x, start, pitch, out, place_of, out_pitch, rows, columns):
    """Transpose rows × columns elements, in blocks of 8 × 8: inside of a kernel that has no `turner`."""
    whole_rows, whole_columns = rows - rows % 8, columns - columns % 8
    for i in range(0, whole_rows, 8):
        for j in range(0, whole_columns, 8):
            transpose8(x, start + i * pitch + j, pitch, out, place_of + j * out_pitch + i, out_pitch)
    for j in range(whole_columns, columns):
        for i in range(whole_rows):
            out[place_of + j * out_pitch + i] = x[start + i * pitch + j]
    for i in range(whole_rows, rows):
        for j in range(columns):
            out[place_of + j * out_pitch + i] = x[start + i * pitch + j]
