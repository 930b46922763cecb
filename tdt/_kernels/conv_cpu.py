"""Convolution in one to three dimensions in float32 on the CPU, and its two gradients, from one register tile (`_tile`).

Images lie channels-last with a border of zeros; then the patch of a window consists of contiguous runs, at the sum of an
offset of the window and an offset of the kernel's cell, for any stride and dilation (`_phases`):

    result           rows: windows        summed over: cells (kd, kh, kw, in)      times weights
    input gradient   rows: pixels         summed over: cells (kd, kh, kw, out)     times weights
    weight gradient  rows: cells          summed over: windows                     times the result's gradient

A block of results is finished in a scratch array on the thread's stack, and turned to the order of the result while it is in
the cache (E. Georganas et al., High-Performance Deep Learning via a Single Building Block, 2019). Work is cut by shapes alone
and every sum belongs to one thread, so bits do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._gemm import GRAIN
from tdt._kernels._intrinsics import array_at, local_floats
from tdt._kernels._jit import jit
from tdt._kernels._layout import COPY, bordered, transposed
from tdt._kernels._panels import lined_up, panel, weights
from tdt._kernels._phases import BORDERED, DEPTH, RUN, Gather, pixels, share_inside, three, used_cells, valid, windows
from tdt._kernels._pool import parallel
from tdt._kernels._taps import Pairs, meetings
from tdt._kernels._tile import Shape, address, choose, place, tile
from tdt._kernels._turn import turn, turner

ROWS = 192  # targets in a block
COLUMNS = 256  # channels in a block, at most
SCRATCH = ROWS * COLUMNS  # numbers of a block
WIDEST = 64  # columns of a tile, at most
FEW_WEIGHTS = 1 << 14  # numbers that are packed sooner by each piece than by a call of the kernel
ITEMS = 8  # pieces of work that there should at least be

scratch = local_floats(SCRATCH)
weights_scratch = local_floats(2 * DEPTH * WIDEST)
table = local_floats(4 * ROWS)  # two words for each row


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, *spatial), w (O, C / groups, *kernel), b (O,) or None; float32."""
    result = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if w.shape[1:] == (x.shape[1], 1, 1, 1) and stride == (1, 1, 1) and not any(padding) and x.flags.c_contiguous:
        return _as_images(x, w, b)
    w, padding = _used(w, x.shape[2:], result, stride, padding, dilation)
    arguments = x.shape[2:], result, w.shape[2:], stride, padding, dilation, w.shape[1], groups
    plan = windows(*arguments, False)
    out = _gathered(plan, x, w, b, result, len(w), groups, True)
    if plan.padded and _border_counts(out, (1,) * len(result), w):
        out = _gathered(windows(*arguments, True), x, w, b, result, len(w), groups, True)
    return out


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, *spatial), w (O, C / groups, *kernel), b (C,) or None; float32."""
    size = tuple(size)
    w, padding = _used(w, size, y.shape[2:], stride, padding, dilation)
    arguments = size, y.shape[2:], w.shape[2:], stride, padding, dilation, len(w) // groups, groups
    plan = pixels(*arguments, False)
    out = _gathered(plan, y, w, b, size, w.shape[1] * groups, groups, False)
    if plan.padded and _border_counts(out, stride, w):
        out = _gathered(pixels(*arguments, True), y, w, b, size, w.shape[1] * groups, groups, False)
    return out


def _as_images(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """A convolution of volumes with a kernel of one cell, as one of images."""
    from tdt._kernels import pointwise_cpu

    image = x.reshape(*x.shape[:3], -1)
    how = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    out = pointwise_cpu.conv(image, np.ascontiguousarray(w).reshape(*w.shape[:2], 1, 1), b, **how)
    return np.ascontiguousarray(out).reshape(len(x), len(w), *x.shape[2:])


def _used(w: np.ndarray, size: tuple, result: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple:
    """The weights without outer cells that no window has inside of the image, and the padding from the first that is left."""
    cells = used_cells(size, result, w.shape[2:], stride, padding, dilation)
    if all(c.stop - c.start == k for c, k in zip(cells, w.shape[2:], strict=True)):
        return w, padding
    part = w[(slice(None), slice(None), *cells)]
    part = np.ascontiguousarray(part) if w.flags.c_contiguous else to_front(np.ascontiguousarray(to_last(part)))
    return part, tuple(p - c.start * d for p, c, d in zip(padding, cells, dilation, strict=True))


def _border_counts(out: np.ndarray, first: tuple, w: np.ndarray) -> bool:
    """Whether a weight is not finite: times the border's zeros it is nan, which a sum of the pixels alone may not be.

    Each weight is in the sums of the first targets, so that these alone are looked at where all is well.
    """
    return not np.isfinite(out[(0, slice(None), *map(slice, first))]).all() and not np.isfinite(w).all()


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, *spatial), x (N, C, *spatial); float32."""
    numbers = x.shape[2:], y.shape[2:], kernel, stride, padding, dilation
    # With few channels a product for each cell costs more than the border.
    if x.shape[1] // groups >= RUN and math.prod(map(share_inside, *numbers)) < BORDERED:
        return _cell_by_cell(y, x, numbers, groups)
    out = _weight_grad(y, x, numbers, groups)
    if any(padding) and not np.isfinite(out[(slice(None), 0, *(0,) * len(kernel))]).all() and not np.isfinite(y).all():
        return _cell_by_cell(y, x, numbers, groups)  # as in `_border_counts`
    return out


def _weight_grad(y: np.ndarray, x: np.ndarray, numbers: tuple, groups: int) -> np.ndarray:
    """The weight gradient, with the border."""
    _, size, kernel, stride, padding, dilation = numbers
    channels, columns = x.shape[1] // groups, y.shape[1] // groups
    last = output_is_channels_last(y, x)
    full = tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(size, kernel, stride, dilation, strict=True))
    image = bordered(x, full, padding)
    shape = choose(columns)
    items, *arguments = _windows(size, full, kernel, stride, dilation, channels, columns, groups, shape)
    out = np.empty((groups * columns, *kernel, channels) if last else (groups * columns, channels, *kernel), np.float32)
    in_sample, cells = math.prod(size), math.prod(kernel)
    parallel(
        _sum_windows, items, image.reshape(-1), lined_up(y, groups, DEPTH, shape), out.reshape(-1), *arguments,
        len(y) * in_sample, in_sample, channels, columns, cells, groups, shape.rows, shape.columns, last,
        address("cells", shape), turner("plain" if last else "gather"),
        grain=-(-GRAIN * items // max(1, y.size * channels * cells)),
    )  # fmt: skip
    return to_front(out) if last else out


def _cell_by_cell(y: np.ndarray, x: np.ndarray, numbers: tuple, groups: int) -> np.ndarray:
    """The weight gradient, for each cell of the kernel over the windows that have it inside of the image."""
    last = output_is_channels_last(y, x)
    kernel, stride = numbers[2], numbers[3]
    out = np.zeros((y.shape[1], *kernel, x.shape[1] // groups), np.float32)
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    for cell in np.ndindex(*kernel):
        reach = [valid(k, *each) for k, each in zip(cell, zip(*numbers, strict=True), strict=True)]
        if all(high > low for low, high, _ in reach):
            ys = y[(..., *(slice(low, high) for low, high, _ in reach))]
            ends = [at + (high - low - 1) * s + 1 for (low, high, at), s in zip(reach, stride, strict=True)]
            xs = x[(..., *(slice(at, end) for (_, _, at), end in zip(reach, ends, strict=True)))]
            ys, xs = (to_front(np.ascontiguousarray(to_last(a))) if last else np.ascontiguousarray(a) for a in (ys, xs))
            part = _weight_grad(ys, xs, (xs.shape[2:], ys.shape[2:], ones, stride, zeros, ones), groups)
            out[(slice(None), *cell)] = part.reshape(len(part), -1)
    return to_front(out) if last else np.ascontiguousarray(to_front(out))


def _gathered(plan: Gather, source: np.ndarray, w: np.ndarray, b: np.ndarray | None, size: tuple, channels: int, groups: int,
              forward: bool) -> np.ndarray:  # fmt: skip
    """For every target, its sources times the weights: (N, channels, *size)."""
    last = output_is_channels_last(source, w)
    image = bordered(source, plan.size, plan.border)
    filters = weights(w, groups, forward, plan.lines)
    shape = choose(filters.columns)
    in_group = -(-filters.columns // shape.columns)
    cut = _pieces(len(source), size, filters.columns, groups, in_group, shape)
    items, pieces = cut[0], cut[1]
    lazy = plan.whole and (pieces == 1 or pieces * w.size <= FEW_WEIGHTS)  # each piece packs what it uses
    out = np.empty((len(source), *size, channels) if last else (len(source), channels, *size), np.float32)
    bias = _padded_bias(b, groups, in_group * shape.columns)
    how = (
        filters.lines,
        *filters[2:],
        forward,
        in_group,
        shape.rows,
        shape.columns,
        turner(),
        turner("scatter"),
        turner("lines"),
    )
    tables = plan.cells, plan.phases, plan.blocks
    packed = filters.flat
    if not lazy:
        space = np.zeros if filters.columns % shape.columns else np.empty
        packed = space(groups * in_group * plan.lines.size * shape.columns, np.float32)
        parallel(
            _gather, groups * in_group, image.reshape(-1), filters.flat, bias, packed, *tables, *how, 0, True, False, False,
            *(0,) * 12, grain=-(-COPY * groups * in_group // w.size),
        )  # fmt: skip
    parallel(
        _gather, items, image.reshape(-1), packed, bias, out.reshape(-1), *tables, *how, address("rows", shape, places=True),
        False, lazy, last, *cut[1:], math.prod(plan.size) * filters.summed * groups, channels,
        grain=-(-GRAIN * items // max(1, out.size * (w.size // channels))),
    )  # fmt: skip
    return to_front(out) if last else out


def _padded_bias(b: np.ndarray | None, groups: int, columns: int) -> np.ndarray:
    """The bias of each group, filled up to so many columns; empty if there is none."""
    if b is None:
        return np.empty(0, np.float32)
    bias = np.zeros((groups, columns), np.float32)
    bias[:, : b.size // groups] = b.reshape(groups, -1)
    return bias.reshape(-1)


@functools.lru_cache(256)
def _pieces(count: int, size: tuple, columns: int, groups: int, in_group: int, shape: Shape) -> tuple:
    """How many pieces of work `_gather` has in all; then what it takes: pieces of all lines, of a line, and of the columns of a
    group; panels of a piece; lines of a piece, targets of a line; lines in all; depth, height and width of the result."""
    depth, height, width = three(size, 1)
    across = min(width, ROWS)
    down = max(1, ROWS // width)
    lines = count * depth * height
    along = -(-width // across)
    pieces = -(-lines // down) * along
    together = max(1, min(COLUMNS // shape.columns, in_group * pieces * groups // ITEMS, in_group))
    parts = -(-in_group // together)
    return pieces * parts * groups, pieces, along, parts, together, down, across, lines, depth, height, width


@functools.lru_cache(32)
def _windows(size: tuple, full: tuple, kernel: tuple, stride: tuple, dilation: tuple, channels: int, columns: int, groups: int,
             shape: Shape) -> tuple:  # fmt: skip
    """How many pieces of work `_sum_windows` has; then what it takes: offsets of a sample's windows in the bordered image, of
    the kernel's runs in a window, the rows of a block in the order of the result; numbers in a sample of the image, cells of a
    run, channels of a piece, panels of a piece, pieces of the channels and of the columns."""
    every = channels * groups
    _, height, width = three(full, 1)
    steps = height * width * every, width * every, every
    offsets = _offsets(three(size, 1), [n * s for n, s in zip(three(stride, 1), steps, strict=True)])
    cells = math.prod(kernel)
    in_group = -(-columns // shape.columns)
    together = min(in_group, max(1, COLUMNS // 2 // shape.columns))
    while together > 1 and cells * shape.rows * together * shape.columns > SCRATCH:
        together -= 1
    some = max(1, min(channels, SCRATCH // (cells * together * shape.columns)))
    while groups * -(-channels // some) * -(-in_group // together) < ITEMS:
        if some > 2 * shape.rows:
            some = -(-some // 2)
        elif together > 1:
            together = -(-together // 2)
        else:
            break
    some = min(channels, some - some % shape.rows or some)
    merged = groups == 1 and some == channels and dilation[-1] == 1
    window = three(kernel, 1)
    starts = _offsets(window, [n * s for n, s in zip(three(dilation, 1), steps, strict=True)])
    joined = window[2] if merged else 1
    rows = np.arange(cells * some)
    order = (rows % cells * some + rows // cells) * together * shape.columns
    parts = -(-channels // some), -(-in_group // together)
    volume = math.prod(full) * every
    return groups * math.prod(parts), offsets, starts[::joined].copy(), order, volume, joined, some, together, *parts


def _offsets(counts: tuple, steps: list[int]) -> np.ndarray:
    """Sums of a multiple of each step, in order."""
    each = [np.arange(n) * s for n, s in zip(counts, steps, strict=True)]
    return (each[0][:, None, None] + each[1][:, None] + each[2]).reshape(-1)


def _pairs(
    size: tuple, windows: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> tuple[Pairs, Pairs]:
    rows, columns = map(meetings, size, windows, kernel, stride, padding, dilation)
    return rows, columns


def _channels_last(x: np.ndarray) -> np.ndarray:
    """(N, C, H, W) as contiguous (N, H, W, C)."""
    ordered = to_last(x)
    return ordered if ordered.flags.c_contiguous else bordered(x, x.shape[2:], (0,) * (x.ndim - 2))


def _ordered(out: np.ndarray, last: bool) -> np.ndarray:
    """The result (N, H, W, C) as (N, C, H, W) in the memory order that is asked for."""
    if last:
        return to_front(out)
    count, height, width, channels = out.shape
    return transposed(out, height * width, channels).reshape(count, channels, height, width)


@jit
def _gather(first, last, image, weights, bias, out, cells, phases, blocks, lines, columns, summed, kernel, weights_last,
            forward, in_group, tile_rows, tile_columns, turn_plain, turn_scatter, copy_lines, function, packing, lazy, is_last,
            pieces, along, parts, together, down, across, all_lines, depth, height, width, volume, channels):  # fmt: skip
    """Pieces [first, last): some lines of targets, or a part of a line, and some panels of columns; see `_pieces`.

    packing: instead, pack panels [first, last) of the weights into `out`. lazy: pack them here, where they are used.
    """
    local = array_at(scratch(), SCRATCH, image)
    packed = array_at(weights_scratch(), 2 * DEPTH * WIDEST, image)
    rows = array_at(table(), 2 * ROWS, cells)
    if lazy and columns % tile_columns != 0:
        for k in range(packed.size):
            packed[k] = 0
    for number in range(first, last):
        if packing:
            panel(weights, out, number * lines.size * tile_columns, 0, lines, columns, summed, kernel, weights_last, forward,
                  tile_columns, number, 0, summed, turn_scatter, copy_lines)  # fmt: skip
            continue
        part = number // pieces
        piece = number - part * pieces
        group = part // parts
        begin = (part - group * parts) * together
        end = min(begin + together, in_group)
        low = piece // along
        left = (piece - low * along) * across
        low *= down
        high, right = min(low + down, all_lines), min(left + across, width)
        column, here = group * columns + begin * tile_columns, min(columns, end * tile_columns) - begin * tile_columns
        pitch = channels if is_last else together * tile_columns
        target = place(out, column) if is_last else place(local, 0)
        for phase in phases:
            count = _targets(rows, phase, low, high, left, right, pitch, depth, height, width, volume, is_last)
            for index in range(phase[12], phase[13]):
                block = blocks[index]
                for j in range(begin, end):
                    if lazy:
                        panel(weights, packed, 0, block[3], lines, columns, summed, kernel, weights_last, forward,
                              tile_columns, group * in_group + j, block[4], block[5], turn_scatter, copy_lines)  # fmt: skip
                    at = ((group * in_group + j) * lines.size + block[3]) * tile_columns
                    b = place(packed, 0) if lazy else place(weights, at)
                    wide = min(tile_columns, columns - j * tile_columns) if is_last else tile_columns
                    adds = bias.size > 0 and index == phase[13] - 1
                    for i in range(0, count, tile_rows):
                        tile(function, place(image, group * summed), place(rows, i), place(cells, block[0]), block[1], block[2],
                             b, 0, target + 4 * (j - begin) * tile_columns, place(rows, ROWS + i),
                             place(bias, (group * in_group + j) * tile_columns) if adds else 0, min(tile_rows, count - i),
                             wide, index == phase[12])  # fmt: skip
        line = low
        while line < high and not is_last:  # to planes, sample by sample
            n = line // (depth * height)
            stop = min(high, (n + 1) * depth * height)
            to = (n * channels + column) * depth * height * width + (line - n * depth * height) * width + left
            turn(turn_plain, place(local, (line - low) * (right - left) * pitch), pitch, here, place(out, to),
                 depth * height * width, 0, (stop - line) * (right - left))  # fmt: skip
            line = stop


@jit
def _targets(rows, phase, low, high, left, right, pitch, depth, height, width, volume, is_last):
    """Write the offsets of sources of a phase's targets in a piece, and the places of targets; how many there are."""
    first, step, source_step = phase[8], phase[9], phase[11]
    begin = max(0, (left - first + step - 1) // step)
    end = min(phase[10], (right - first + step - 1) // step)
    count = 0
    for line in range(low, high):
        rest = line // height
        n = rest // depth
        h, d = line - rest * height - phase[4], rest - n * depth - phase[0]
        y, z = h // phase[5], d // phase[1]
        if h == y * phase[5] and d == z * phase[1] and 0 <= y < phase[6] and 0 <= z < phase[2]:
            source = n * volume + z * phase[3] + y * phase[7]
            put = (line * width if is_last else (line - low) * (right - left) - left) + first
            for k in range(begin, end):
                rows[count], rows[ROWS + count] = source + k * source_step, (put + k * step) * pitch
                count += 1
    return count


@jit
def _sum_windows(first, last, image, right, out, offsets, starts, order, volume, joined, some, together, parts, column_parts,
                 all_windows, in_sample, channels, columns, cells, groups, tile_rows, tile_columns, is_last, function,
                 turning):  # fmt: skip
    """Pieces [first, last) of the weight gradient: some channels, with all cells, and some panels; see `_windows`."""
    in_group = (columns + tile_columns - 1) // tile_columns
    local = array_at(scratch(), SCRATCH, image)
    at = array_at(table(), 2 * ROWS, offsets)
    pitch = together * tile_columns
    for number in range(first, last):
        group = number // (parts * column_parts)
        rest = number - group * parts * column_parts
        begin, channel = rest // parts * together, rest % parts * some
        end, here = min(begin + together, in_group), min(some, channels - channel)
        for low in range(0, all_windows, DEPTH):
            high = min(low + DEPTH, all_windows)
            for i in range(high - low):
                n = (low + i) // in_sample
                at[i] = offsets[low + i - n * in_sample] + n * volume
            for j in range(begin, end):
                b = place(right, (low * groups * in_group + (group * in_group + j) * (high - low)) * tile_columns)
                for run in range(starts.size):
                    a = place(image, group * channels + channel + starts[run])
                    to = place(local, run * joined * some * pitch + (j - begin) * tile_columns)
                    for i in range(0, here * joined, tile_rows):
                        tile(function, a + 4 * i, 0, place(at, 0), high - low, 0, b, 0, to + 4 * i * pitch, pitch, 0,
                             min(tile_rows, here * joined - i), tile_columns, low == 0)  # fmt: skip
        column = group * columns + begin * tile_columns
        wide = min(columns, end * tile_columns) - begin * tile_columns
        for cell in range(cells if is_last else 1):
            if is_last:
                to, step, count = (column * cells + cell) * channels + channel, cells * channels, here
            else:
                to, step, count = (column * channels + channel) * cells, channels * cells, here * cells
            turn(turning, place(local, cell * some * pitch), pitch, wide, place(out, to), step, place(order, 0), count)
