"""Convolutions of bfloat16 in one to three dimensions, and their gradients, as products of pairs (`bfloat16_cpu`).

Images lie channels-last, with a border of zeros where there is padding. A patch then consists of runs of numbers that lie
together, and is read (`_pair_windows`), or packed (`_pairs`), from where it lies:

    result            rows: windows        summed over: cells, in      columns: out
    input gradient    the convolution of the result's gradient, with zeros between its pixels where there is a stride, by the
                      weights with cells in reverse order; in and out exchanged
    weight gradient   rows: cells, in      summed over: windows        columns: out

Images and weights in the order (N, C, *spatial) are transposed first.

Each of the three functions returns None where an infinity or NaN would meet the border's zeros: their product is NaN, which
is not in the sum of the pixels alone.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._dots import SIDE, TILE, WAYS, available
from tdt._kernels._formulas import BFLOAT16, astype
from tdt._kernels._jit import address_of
from tdt._kernels._pair_windows import windows_times
from tdt._kernels._pairs import table_of, turn
from tdt._kernels._pool import parallel
from tdt._kernels.bfloat16_cpu import ACROSS, DOWN, GRAIN, Lines, Packed, multiply, packed, padded_bias

WORD = np.dtype(np.uint16)
SUMMED = 1 << 24  # of a weight gradient: each part of its sum is added to all of its results
PART = 512  # windows that a part of such a sum is a multiple of
COPIED = 1 << 16  # numbers that a thread should at least transpose
EXPONENT = 0x7F80  # the bits of an infinity or NaN
ONE = np.zeros(1, np.int64)  # the offset of a single matrix


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv` for x (N, C, *spatial), w (O, C, *kernel), b (O,) or None; bfloat16, one group."""
    size = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    full = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    image = bordered(x, full, padding, (1,) * len(size))
    places = Places(size, full, w.shape[2:], stride, dilation, x.shape[1])
    return _windows_times_weights(image, places, w, b, output_is_channels_last(x, w), forward=True)


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, *spatial), w (O, C, *kernel), b (C,) or None; as `conv`."""
    reach = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    full = tuple(n + r for n, r in zip(size, reach, strict=True))
    image = bordered(y, full, tuple(r - p for r, p in zip(reach, padding, strict=True)), stride)
    places = Places(tuple(size), full, w.shape[2:], (1,) * len(size), dilation, len(w))
    return _windows_times_weights(image, places, w, b, output_is_channels_last(y, w), forward=False)


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, *spatial), x (N, C, *spatial); as `conv`."""
    full = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    image = bordered(x, full, padding, (1,) * len(full))
    channels, columns = x.shape[1], y.shape[1]
    places = Places(y.shape[2:], full, tuple(kernel), stride, dilation, channels)
    windows = _window_offsets(places, len(x))
    starts, length = _runs(places, True)
    padded = -(-length // TILE) * TILE
    lines = (starts[:, None] + np.arange(0, padded, TILE) * 2).reshape(-1)
    rows = channels_last(y).reshape(-1, columns)
    total = np.empty((len(starts) * padded, columns), np.float32)
    step = max(PART, SUMMED // (2 * len(total)) // PART * PART)
    across = np.arange(0, columns, TILE) * 2
    for low in range(0, len(windows), step):
        part = windows[low : low + step]
        left = Lines("flat", lines, table_of(part), len(total))
        right = Lines("flat", across, table_of(np.arange(low, low + len(part)) * columns * 2), columns)
        operands = packed(image, image.nbytes, ONE, left, False), packed(rows, rows.nbytes, ONE, right, True)
        multiply(*operands, (1, *total.shape, left.steps), total, adds=low > 0)
    if any(padding) and not np.isfinite(total[0]).all() and not finite(rows):
        return None
    result = astype(total, BFLOAT16).view(WORD).reshape(len(starts), padded, columns)[:, :length]
    cells = result.reshape(-1, channels, columns)
    if output_is_channels_last(y, x):
        flat = transposed(np.ascontiguousarray(cells).reshape(1, -1, columns))
        return to_front(flat.reshape(columns, *kernel, channels).view(BFLOAT16))
    flat = transposed(np.ascontiguousarray(cells.swapaxes(0, 1)).reshape(1, -1, columns))
    return flat.reshape(columns, channels, *kernel).view(BFLOAT16)


class Places(NamedTuple):
    """Where the windows of a convolution lie: how many there are, the image's size with its border, its channels."""

    size: tuple[int, ...]
    full: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    channels: int

    def steps(self) -> list[int]:
        """Bytes from a pixel to the next, in each dimension."""
        return [2 * self.channels * math.prod(self.full[d + 1 :]) for d in range(len(self.full))]


@functools.lru_cache(64)
def _window_offsets(places: Places, count: int) -> np.ndarray:
    """The offset of each window of so many images, ascending."""
    steps = [s * step for s, step in zip(places.stride, places.steps(), strict=True)]
    return _sums((count, *places.size), (2 * places.channels * math.prod(places.full), *steps))


@functools.lru_cache(64)
def _pitches(places: Places, count: int, in_place: bool) -> np.ndarray:
    """Of each 16 windows, the distance at which they lie; 0 if that differs among them, or they are fewer, or not `in_place`."""
    windows = _window_offsets(places, count)
    pitches = np.zeros(-(-len(windows) // SIDE) * (SIDE // TILE), np.int64)
    if in_place:
        whole = len(windows) // TILE
        steps = np.diff(windows[: whole * TILE].reshape(whole, TILE), axis=1)
        pitches[:whole] = np.where((steps == steps[:, :1]).all(1), steps[:, 0], 0)
    return pitches


@functools.lru_cache(256)
def _runs(places: Places, joined: bool) -> tuple[np.ndarray, int]:
    """The offsets in a window of runs of numbers that lie together, and their length: cells, or if `joined` rows of them."""
    steps = [d * step for d, step in zip(places.dilation, places.steps(), strict=True)]
    if joined and places.dilation[-1] == 1:
        return _sums(places.kernel[:-1], steps[:-1]), places.kernel[-1] * places.channels
    return _sums(places.kernel, steps), places.channels


def _sums(counts: tuple[int, ...], steps: tuple[int, ...] | list[int]) -> np.ndarray:
    """The sums of a multiple of each step, in order."""
    total = np.zeros(1, np.int64)
    for count, step in zip(counts, steps, strict=True):
        total = (total[:, None] + np.arange(count) * step).reshape(-1)
    return total


@functools.lru_cache(256)
def _run_steps(places: Places, joined: bool) -> np.ndarray:
    """(offset, count) of each step of 32 k of a window."""
    starts, length = _runs(places, joined)
    return _steps_from(starts, length)


def _steps_from(starts: np.ndarray, length: int) -> np.ndarray:
    within = np.arange(0, length, SIDE)
    counts = np.broadcast_to(np.minimum(length - within, SIDE), (len(starts), len(within)))
    return np.ascontiguousarray(np.stack([starts[:, None] + within * 2, counts], -1).reshape(-1, 2))


@functools.lru_cache(256)
def _weight_lines(places: Places, lines: int, deep: bool, joined: bool, forward: bool) -> Lines:
    """The weights (lines, cells, summed) if `deep`, else (summed, cells, lines), in the order of `_run_steps`."""
    summed, cells = places.channels, math.prod(places.kernel)
    order = np.arange(cells) if forward else np.arange(cells)[::-1]
    if deep:
        starts, length = _runs(places, joined)
        steps = _steps_from(order[:: cells // len(starts)] * summed * 2, length)
        return Lines("deep", np.arange(lines) * cells * summed * 2, steps, lines)
    runs = len(_runs(places, joined)[0])
    offsets = (np.arange(summed) * cells + order[:, None]).reshape(runs, -1) * lines * 2
    table = np.concatenate([table_of(run) for run in offsets])
    return Lines("flat", np.arange(0, lines, TILE) * 2, table, lines)


def _windows_times_weights(
    image: np.ndarray, places: Places, w: np.ndarray, b: np.ndarray | None, last: bool, forward: bool
) -> np.ndarray | None:
    """The convolution (N, lines, *size) of an image, by the weights, or unless `forward` by their transposes."""
    lines = len(w) if forward else w.shape[1]
    weights, joined = _packed_weights(places, w, forward)
    steps, windows = _run_steps(places, joined), _window_offsets(places, len(image))
    out, bias = np.empty((len(windows), lines), BFLOAT16), padded_bias(b, lines)
    way, start = available(), address_of(image)
    pitches = _pitches(places, len(image), WAYS[way].IN_PLACE and bool((steps[:, 1] == SIDE).all()))
    pieces = -(-len(windows) // (SIDE * DOWN)) * -(-weights.panels // ACROSS)
    work = DOWN * min(weights.panels, ACROSS) * SIDE * SIDE * SIDE * len(steps)
    parallel(
        windows_times(way), pieces, start, start + image.nbytes, windows, pitches, steps, weights.memory, out, bias,
        len(windows), lines, weights.panels, len(steps), grain=max(1, GRAIN // work),
    )  # fmt: skip
    if not finite(out[:1]) and not finite(w):
        return None
    if last:
        return to_front(out.reshape(len(image), *places.size, lines))
    return (
        transposed(out.view(WORD).reshape(len(image), -1, lines))
        .view(BFLOAT16)
        .reshape(len(image), lines, *places.size)
    )


def _packed_weights(places: Places, w: np.ndarray, forward: bool) -> tuple[Packed, bool]:
    """The weights, packed; whether cells of a row are joined in a run."""
    out_channels, channels = w.shape[:2]
    lies_last = to_last(w).flags.c_contiguous
    if lies_last:
        source = to_last(w)
    else:
        source = transposed(contiguous(w).view(WORD).reshape(1, out_channels, -1))  # (channels, cells, out_channels)
    deep = lies_last is forward
    joined = forward or not deep  # a run of several cells cannot be reversed where it lies together
    lines = _weight_lines(places, out_channels if forward else channels, deep, joined, forward)
    return packed(source, source.nbytes, ONE, lines, True), joined


def bordered(x: np.ndarray, full: tuple[int, ...], before: tuple[int, ...], stride: tuple[int, ...]) -> np.ndarray:
    """(N, C, *spatial) as (N, *full, C): pixel i of each dimension at before + i · stride if that is inside, else zeros."""
    rows = channels_last(x)
    size = x.shape[2:]
    if full == size and not any(before) and (set(stride) == {1} or math.prod(size) == 1):
        return rows
    out = np.zeros((len(x), *full, x.shape[1]), WORD)
    taken, target = [slice(None)], [slice(None)]
    for n, f, start, step in zip(size, full, before, stride, strict=True):
        low = max(0, -(start // step))  # the first pixel inside
        high = max(low, min(n, (f - 1 - start) // step + 1))
        taken.append(slice(low, high))
        target.append(slice(start + low * step, start + (high - 1) * step + 1, step) if high > low else slice(0, 0))
    out[tuple(target)] = rows[tuple(taken)]
    return out


def channels_last(x: np.ndarray) -> np.ndarray:
    """(N, C, *spatial) as the words of contiguous (N, *spatial, C)."""
    if to_last(x).flags.c_contiguous:
        return to_last(x).view(WORD)
    return transposed(contiguous(x).view(WORD).reshape(*x.shape[:2], -1)).reshape(len(x), *x.shape[2:], x.shape[1])


def contiguous(x: np.ndarray) -> np.ndarray:
    """A contiguous array; NumPy copies words sooner than bfloat16."""
    return x if x.flags.c_contiguous else np.ascontiguousarray(x.view(WORD)).view(x.dtype)


def transposed(x: np.ndarray) -> np.ndarray:
    """Contiguous (count, rows, columns) of words as (count, columns, rows)."""
    count, rows, columns = x.shape
    out, size = np.empty((count, columns, rows), WORD), 2 * rows * columns
    parallel(
        turn(), count * -(-rows // TILE), x, out, rows, columns, size, 2 * columns, size, 2 * rows,
        grain=-(-COPIED // (TILE * columns)),
    )  # fmt: skip
    return out


def finite(x: np.ndarray) -> bool:
    """Whether no number of bfloat16, or its words, is an infinity or NaN."""
    return bool(((x.view(WORD) & EXPONENT) != EXPONENT).all())
