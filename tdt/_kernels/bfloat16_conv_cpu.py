"""Convolutions of bfloat16 in one to three dimensions, and their gradients, as products of pairs (`bfloat16_cpu`).

Images lie channels-last, with a border of zeros where there is padding. A patch then consists of runs of numbers that lie
together, and is read (`_pair_windows`), or packed (`_pairs`), from where it lies:

    result            rows: windows        summed over: cells, in      columns: out
    input gradient    the convolution of the result's gradient, with zeros between its pixels where there is a stride, by the
                      weights with cells in reverse order; in and out exchanged
    weight gradient   rows: cells, in      summed over: windows        columns: out; images lie as planes of channels here

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
from tdt._kernels import _dots
from tdt._kernels._addresses import address_of
from tdt._kernels._dots import SIDE, STEP_BYTES, TILE, WAYS
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._pairs import pack_cells, place_rows, table_of, turn
from tdt._kernels._pool import parallel
from tdt._kernels.bfloat16_cpu import PACKED, Lines, Packed, aligned, multiply_rows, packed, pitches_of

WORD = np.dtype(np.uint16)
COPIED = 1 << 16  # numbers that a thread should at least transpose
EXPONENT = 0x7F80  # the bits of an infinity or NaN
CACHED_IMAGES = 1 << 20  # bytes of images and results that are computed at a time: half of a level-two cache
MOST_CELLS = 27  # of weights that are packed from where they lie: as many vectors hold a row of 32 channels
ONE = np.zeros(1, np.int64)  # the offset of a single matrix


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv` for x (N, C, *spatial), w (O, C, *kernel), b (O,) or None; bfloat16, one group."""
    size = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    full = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    places = Places(size, full, w.shape[2:], stride, dilation, x.shape[1])
    border = Border(full, padding, (1,) * len(size))
    return _windows_times_weights(x, border, places, w, b, output_is_channels_last(x, w), forward=True)


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, *spatial), w (O, C, *kernel), b (C,) or None; as `conv`."""
    reach = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    full = tuple(n + r for n, r in zip(size, reach, strict=True))
    border = Border(full, tuple(r - p for r, p in zip(reach, padding, strict=True)), stride)
    places = Places(tuple(size), full, w.shape[2:], (1,) * len(size), dilation, len(w))
    return _windows_times_weights(y, border, places, w, b, output_is_channels_last(y, w), forward=False)


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, *spatial), x (N, C, *spatial); as `conv`."""
    channels, columns = x.shape[1], y.shape[1]
    full = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    places = Places(y.shape[2:], full, tuple(kernel), stride, dilation, channels)
    grid = _grid(places, len(x), columns, WAYS[_dots.available()].IN_PLACE)
    planes, rows = _planes(x, padding, stride, grid), channels_last(y).reshape(-1, columns)
    right = Lines("flat", np.arange(0, columns, TILE) * 2, grid.table, columns)
    gradients = packed(rows, rows.nbytes, ONE, right, True)
    out = np.empty((math.prod(kernel), channels, columns), BFLOAT16)
    multiply_rows(
        planes, planes.nbytes, (grid.lines, grid.pitches, grid.steps), gradients, out.reshape(-1, columns), None
    )
    ends = out[:: max(1, len(out) - 1)] if set(stride) == {1} else out
    if not finite(ends) and not (finite(rows) and finite(x)):
        return None  # a number that is not finite has met zeros of the border, or between the windows of two lines
    cells = out.view(WORD)
    if output_is_channels_last(y, x):
        flat = transposed(cells.reshape(1, -1, columns))
        return to_front(flat.reshape(columns, *kernel, channels).view(BFLOAT16))
    flat = transposed(cells.swapaxes(0, 1)[None])
    return flat.reshape(columns, channels, *kernel).view(BFLOAT16)


class Grid(NamedTuple):
    """How a weight gradient sums over windows: as places of a grid that has the borders too, where results are zeros.

    The pixels that windows begin at are a grid of the bordered image; with a stride its other pixels are grids as well, one for
    each remainder. A cell of the kernel is a distance in one of them, the same for all windows.

    Attributes:
        size: of a grid; length: of its channel in `_planes`, for all images.
        table: of the places of results in memory, as `table_of`.
        lines: offsets of (cell, channel) in `_planes`; pitches: of each 16 lines; steps: (offset, count) of 32 windows.
    """

    size: tuple[int, ...]
    length: int
    table: np.ndarray
    lines: np.ndarray
    pitches: np.ndarray
    steps: np.ndarray


@functools.lru_cache(64)
def _grid(places: Places, count: int, columns: int, in_place: bool) -> Grid:
    """The grid for so many images, and results of so many channels. in_place: as `pitches_of`."""
    size = tuple(-(-n // s) for n, s in zip(places.full, places.stride, strict=True))
    across = [math.prod(size[d + 1 :]) for d in range(len(size))]
    windows = _sums((count, *places.size), (math.prod(size), *across))
    offsets = np.full(int(windows[-1]) + 1, -1)
    offsets[windows] = np.arange(len(windows))
    cells = np.array(list(np.ndindex(*places.kernel))) * places.dilation
    phase_steps = [math.prod(places.stride[d + 1 :]) for d in range(len(size))]
    phases, distances = (cells % places.stride) @ phase_steps, (cells // places.stride) @ across
    steps = -(-len(offsets) // SIDE)
    # An odd number of cache lines from a channel to the next: the rows of a tile are in different sets of the cache.
    length = SIDE * (-(-max(count * math.prod(size), steps * SIDE + int(distances.max())) // SIDE) | 1)
    lines = ((phases * places.channels)[:, None] + np.arange(places.channels)) * length + distances[:, None]
    lines = np.ascontiguousarray(lines.reshape(-1) * 2)
    table = table_of(np.where(offsets < 0, -1, offsets * columns * 2))
    each = np.stack([np.arange(steps) * SIDE * 2, np.full(steps, SIDE)], 1)
    return Grid(size, length, table, lines, pitches_of(lines, in_place), np.ascontiguousarray(each))


def _planes(x: np.ndarray, padding: tuple, stride: tuple, grid: Grid) -> np.ndarray:
    """(N, C, *spatial) as (grids, C, grid.length): the channels of each grid of the bordered images, and zeros."""
    if x.flags.c_contiguous and set(stride) == {1}:
        table, area = _row_places(x.shape, padding, grid.size), math.prod(x.shape[2:])
        out = np.empty((1, x.shape[1], grid.length), WORD)
        parallel(
            place_rows(), x.shape[1], x, out, table, len(table), x.shape[-1], 2 * area, 2 * grid.length, grid.length,
            grain=-(-COPIED // grid.length),
        )  # fmt: skip
        return out
    rows, count, channels = channels_last(x), len(x), x.shape[1]
    places = count * math.prod(grid.size)
    bordered = np.zeros((math.prod(stride), grid.length, channels), WORD)
    for number, remainders in enumerate(np.ndindex(*stride)):
        first = [(r - p) % s for r, p, s in zip(remainders, padding, stride, strict=True)]
        taken = rows[(slice(None), *(slice(f, None, s) for f, s in zip(first, stride, strict=True)))]
        begin = [(f + p) // s for f, p, s in zip(first, padding, stride, strict=True)]
        target = bordered[number, :places].reshape(count, *grid.size, channels)
        where = (slice(b, b + n) for b, n in zip(begin, taken.shape[1:-1], strict=True))
        target[(slice(None), *where)] = taken
    return transposed(bordered)


@functools.lru_cache(64)
def _row_places(shape: tuple[int, ...], padding: tuple[int, ...], full: tuple[int, ...]) -> np.ndarray:
    """Of each row of a channel of images (N, C, *spatial), its offset in the images and in planes of these sizes with borders."""
    count, channels, *size = shape
    steps, full_steps = ([2 * math.prod(sizes[d + 1 :]) for d in range(len(size))] for sizes in (size, full))
    source = _sums((count, *size[:-1]), (2 * channels * math.prod(size), *steps[:-1]))
    target = _sums((count, *size[:-1]), (2 * math.prod(full), *full_steps[:-1]))
    begin = sum(p * step for p, step in zip(padding, full_steps, strict=True))
    return np.ascontiguousarray(np.stack([source, target + begin], 1))


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
def _window_pitches(places: Places, count: int, in_place: bool) -> np.ndarray:
    """`pitches_of` the windows."""
    return pitches_of(_window_offsets(places, count), in_place)


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
    x: np.ndarray, border: Border, places: Places, w: np.ndarray, b: np.ndarray | None, last: bool, forward: bool
) -> np.ndarray | None:
    """The convolution (N, lines, *size) of bordered images, by the weights, or unless `forward` by their transposes.

    As many images at a time as stay, with their results, in a level-two cache.
    """
    lines = len(w) if forward else w.shape[1]
    weights, joined = _packed_weights(places, w, forward)
    steps, area = _run_steps(places, joined), math.prod(places.size)
    in_place = WAYS[_dots.available()].IN_PLACE and bool((steps[:, 1] == SIDE).all())
    some = min(len(x), max(1, CACHED_IMAGES // (2 * (math.prod(border.full) * places.channels + area * lines))))
    image = None if some == len(x) else np.zeros((some, *border.full, places.channels), WORD)
    out = np.empty((len(x), area, lines) if last else (len(x), lines, area), BFLOAT16)
    rows = np.empty((some, area, lines), BFLOAT16)
    for begin in range(0, len(x), some):
        part, to = x[begin : begin + some], out[begin : begin + some]
        count = len(part)
        taken = bordered(part, border, None if image is None else image[:count])
        found = to if last else rows[:count]
        where = _window_offsets(places, count), _window_pitches(places, count, in_place), steps
        multiply_rows(taken, taken.nbytes, where, weights, found.reshape(-1, lines), b)
        if begin == 0 and not finite(found[0, :1]) and not finite(w):
            return None
        if not last:
            transposed(found.view(WORD), to.view(WORD))
    return to_front(out.reshape(len(x), *places.size, lines)) if last else out.reshape(len(x), lines, *places.size)


def _packed_weights(places: Places, w: np.ndarray, forward: bool) -> tuple[Packed, bool]:
    """The weights, packed; whether cells of a row are joined in a run."""
    out_channels, channels = w.shape[:2]
    lies_last = to_last(w).flags.c_contiguous
    cells = math.prod(places.kernel)
    if not lies_last and out_channels % SIDE == channels % SIDE == 0 and cells % 2 and cells <= MOST_CELLS:
        return _packed_cells(contiguous(w), cells, forward), False
    if lies_last:
        source = to_last(w)
    else:
        source = transposed(contiguous(w).view(WORD).reshape(1, out_channels, -1))  # (channels, cells, out_channels)
    deep = lies_last is forward
    joined = forward or not deep  # a run of several cells cannot be reversed where it lies together
    lines = _weight_lines(places, out_channels if forward else channels, deep, joined, forward)
    return packed(source, source.nbytes, ONE, lines, True), joined


def _packed_cells(w: np.ndarray, cells: int, forward: bool) -> Packed:
    """Contiguous weights, packed by `_pairs.pack_cells`."""
    down, across = w.shape[0] // SIDE, w.shape[1] // SIDE
    memory = aligned(w.nbytes)
    kernel = pack_cells(cells, forward)
    parallel(kernel, down * across, w, memory, down, across, grain=max(1, PACKED // (STEP_BYTES * cells)))
    return Packed(memory, down if forward else across, w.nbytes)


class Border(NamedTuple):
    """How pixels lie in an image with its border: pixel i of each dimension at before + i · stride.

    Attributes:
        full: the size with the border.
    """

    full: tuple[int, ...]
    before: tuple[int, ...]
    stride: tuple[int, ...]


def bordered(x: np.ndarray, border: Border, out: np.ndarray | None = None) -> np.ndarray:
    """(N, C, *spatial) as (N, *full, C): pixels that lie inside, else zeros. out: the result, zeros where there is no pixel."""
    size, (full, before, stride) = x.shape[2:], border
    same = full == size and not any(before) and (set(stride) == {1} or math.prod(size) == 1)
    if same and (out is None or to_last(x).flags.c_contiguous):
        return channels_last(x)
    if out is None:
        out = np.zeros((len(x), *full, x.shape[1]), WORD)
    taken, target = [slice(None)], [slice(None)]
    for n, f, start, step in zip(size, full, before, stride, strict=True):
        low = max(0, -(start // step))  # the first pixel inside
        high = max(low, min(n, (f - 1 - start) // step + 1))
        taken.append(slice(low, high))
        target.append(slice(start + low * step, start + (high - 1) * step + 1, step) if high > low else slice(0, 0))
    if len(size) == 2 and x.flags.c_contiguous and taken[1:] == [slice(0, n) for n in size]:
        transposed(x.view(WORD).reshape(*x.shape[:2], -1), out[tuple(target)])
    else:
        out[tuple(target)] = channels_last(x)[tuple(taken)]
    return out


def channels_last(x: np.ndarray) -> np.ndarray:
    """(N, C, *spatial) as the words of contiguous (N, *spatial, C)."""
    if to_last(x).flags.c_contiguous:
        return to_last(x).view(WORD)
    return transposed(contiguous(x).view(WORD).reshape(*x.shape[:2], -1)).reshape(len(x), *x.shape[2:], x.shape[1])


def contiguous(x: np.ndarray) -> np.ndarray:
    """A contiguous array; NumPy copies words sooner than bfloat16."""
    return x if x.flags.c_contiguous else np.ascontiguousarray(x.view(WORD)).view(x.dtype)


def transposed(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Matrices (count, rows, columns) of words as (count, columns, rows), contiguous or in `out`; rows of each are contiguous.

    Rows of `x`, and those of `out`, may lie in two dimensions: (count, groups, size, columns).
    """
    count, columns, rows = len(x), x.shape[-1], math.prod(x.shape[1:-1])
    if out is None:
        out = np.empty((count, columns, rows), WORD)
    parallel(
        turn(), count * -(-rows // SIDE), address_of(x), address_of(out), rows, columns, *_row_steps(x), *_row_steps(out),
        grain=-(-COPIED // (SIDE * columns)),
    )  # fmt: skip
    return out


def _row_steps(x: np.ndarray) -> tuple[int, int, int, int]:
    """Of matrices of words, bytes from one to the next, from a group of rows to the next, rows in a group, bytes between them."""
    matrix, *rows, _ = x.strides
    return (matrix, *rows, 1, 0) if x.ndim == 3 else (matrix, rows[0], x.shape[2], rows[1])


def finite(x: np.ndarray) -> bool:
    """Whether no number of bfloat16, or its words, is an infinity or NaN."""
    return bool(((x.view(WORD) & EXPONENT) != EXPONENT).all())
