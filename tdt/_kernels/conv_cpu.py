"""Convolution in one to three dimensions in float32 on the CPU, and its two gradients, from one register tile (`_tile`).

Images lie channels-last with a border of zeros; then the patch of a window consists of contiguous runs, at the sum of an
offset of the window and an offset of the kernel's cell, for any stride and dilation (`_phases`):

    result           rows: windows        summed over: cells (kd, kh, kw, in)      times weights
    input gradient   rows: pixels         summed over: cells (kd, kh, kw, out)     times weights
    weight gradient  rows: cells          summed over: windows                     times the result's gradient

A block of results is finished in a scratch array on the thread's stack, and turned to the order of the result while it is in
the cache (E. Georganas et al., High-Performance Deep Learning via a Single Building Block, 2019). Every sum belongs to one
piece of work, and its order is a matter of shapes alone, so bits do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._addresses import address_of
from tdt._kernels._conv_loops import SCRATCH, SUMMED, gather, sum_windows
from tdt._kernels._conv_pieces import piece_of_windows, pieces, rows_of_tiles
from tdt._kernels._formulas import BFLOAT16, widen
from tdt._kernels._launches import all_finite, copy_to, words_for
from tdt._kernels._layout import COPY, bordered, contiguous, prepared_border, readable_behind
from tdt._kernels._panels import lined_up, panels, prepared_lines
from tdt._kernels._phases import pixels, share_inside, three, used_cells, valid, windows
from tdt._kernels._pool import get_num_threads, parallel, stays_on_caller
from tdt._kernels._registry import prepares
from tdt._kernels._tile import GRAIN, Shape, address, choose_for, choose_with_edge, edge, rates
from tdt._kernels._turn import MOST_APART, separator, turner
from tdt._kernels.moves_cpu import copy_into

FEW_WEIGHTS = 1 << 14  # numbers that are packed sooner by each piece than by a call of the kernel
CELLS = SCRATCH // 16  # of a kernel, of which a scratch array has the weights of a vector of channels
SHORT_RUN = 3  # elements of a run, if all have as many, up to which a tile is compiled for that number
NEAR_CHANNELS = 256  # of windows, so many of which stay in a level-one cache as a weight gradient sums at a time
# Floats of bordered images that a thread has at a time; targets of a channel from which on weights are packed for them alone.
# In groups there are fewer weights for each number of an image.
CACHED, FEW_TARGETS, FEW_TARGETS_OF_GROUPS = 1 << 18, 512, 64
# Floats of bordered images whose weight gradients are summed at a time, or twice as many as there are weights; least windows.
CACHED_SUMMED, FEW_WINDOWS = 1 << 19, 256
PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
BORDERED = 0.75  # share of pairs of windows and cells inside of the image, below which cells have products of their own
# Multiply-adds of a cell of the kernel, in all groups and in one, from which on it is worth a product of its own.
LARGE_CELL, LARGE_CELL_OF_GROUP = 3 << 22, 1 << 22


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, *spatial), w (O, C / groups, *kernel), b (O,) or None; float32.

    Or a contiguous image of bfloat16, to which the result is rounded, if it is not channels-last.
    """
    result = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if _of_one_cell(w.shape[2:], stride, padding, groups):
        out = _pointwise().conv(_image(x), _image(w), b, **PLAIN)
        return _volume(out, (len(x), len(w), *result), output_is_channels_last(x, w))
    numbers = x.shape[2:], result, w.shape[2:], stride, padding, dilation
    return _gathered(x, w, b, numbers, groups, True)


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, *spatial), w (O, C / groups, *kernel), b (C,) or None; as `conv`."""
    if _of_one_cell(w.shape[2:], stride, padding, groups) and tuple(size) == y.shape[2:]:
        image = _image(y)
        out = _pointwise().conv_input_grad(image, _image(w), b, size=image.shape[2:], **PLAIN)
        return _volume(out, (len(y), w.shape[1], *size), output_is_channels_last(y, w))
    numbers = tuple(size), y.shape[2:], w.shape[2:], stride, padding, dilation
    return _gathered(y, w, b, numbers, groups, False)


def _of_one_cell(kernel: tuple, stride: tuple, padding: tuple, groups: int) -> bool:
    """Whether it is a convolution of volumes with a kernel of one cell: one of images, `pointwise_cpu`'s."""
    return kernel == (1, 1, 1) == stride and not any(padding) and groups == 1


def _pointwise() -> Any:
    from tdt._kernels import pointwise_cpu

    return pointwise_cpu


def _image(x: np.ndarray) -> np.ndarray:
    """A volume as a contiguous image of as many rows as it is deep."""
    return np.ascontiguousarray(x).reshape(*x.shape[:3], -1)


def _volume(image: np.ndarray, shape: tuple, last: bool) -> np.ndarray:
    """An image as a volume, contiguous or channels-last."""
    out = np.ascontiguousarray(image).reshape(shape)
    return to_front(np.ascontiguousarray(to_last(out))) if last else out


def _used(w: np.ndarray, numbers: tuple) -> tuple:
    """The weights without outer cells that no window has inside of the image, and the numbers of their convolution."""
    cells = used_cells(*numbers)
    if cells is None:
        return w, numbers
    part = w[(slice(None), slice(None), *cells)]
    part = np.ascontiguousarray(part) if w.flags.c_contiguous else to_front(np.ascontiguousarray(to_last(part)))
    size, result, _, stride, padding, dilation = numbers
    padding = tuple(p - c.start * d for p, c, d in zip(padding, cells, dilation, strict=True))
    return part, (size, result, part.shape[2:], stride, padding, dilation)


def border_counts(out: np.ndarray, first: tuple, w: np.ndarray) -> bool:
    """Whether a weight is not finite: times the border's zeros it is nan, which a sum of the pixels alone may not be.

    Each weight is in the sums at `first`, so that these alone are looked at where all is well.
    """
    return not all_finite(*widen((out[first],))) and not np.isfinite(w).all()


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, *spatial), x (N, C, *spatial); float32, or both contiguous images of bfloat16."""
    [y] = widen((y,))
    if _of_one_cell(kernel, stride, padding, groups) and x.shape[2:] == y.shape[2:]:
        out = _pointwise().conv_weight_grad(_image(y), _image(x), kernel=(1, 1), **PLAIN)
        return _volume(out, (*out.shape[:2], 1, 1, 1), output_is_channels_last(y, x))
    numbers = x.shape[2:], y.shape[2:], kernel, stride, padding, dilation
    if _cells_apart(y, x, numbers, groups):
        return _cell_by_cell(y, x, numbers, groups)
    out = _weight_grad(y, x, numbers, groups)
    if any(padding) and border_counts(out, (slice(None), 0), y):  # not every window is in the sum of a cell
        return _cell_by_cell(y, x, numbers, groups)
    return out


@prepares(conv_weight_grad)
def _(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    numbers = x.shape[2:], y.shape[2:], kernel, stride, padding, dilation
    half = y.dtype == BFLOAT16
    if not (y.flags.c_contiguous and x.flags.c_contiguous):
        return None
    [y] = widen((y,))
    if output_is_channels_last(y, x):
        return None
    if _of_one_cell(kernel, stride, padding, groups) or _cells_apart(y, x, numbers, groups):
        return None
    full, some = _summed_at_a_time(y, x, numbers, groups)
    result, shape, in_place, items, grain, words, references = _windows(
        (*x.shape[:2], *full),
        y.shape,
        x.shape[2:],
        *numbers[2:],
        groups,
        False,
        to_last(y).flags.c_contiguous,
        get_num_threads(),
    )
    border, line_up = prepared_border(x, full, padding, groups), prepared_lines(y, groups, SUMMED, shape)
    if some < len(x) or in_place or border is None or line_up is None or not stays_on_caller(items, grain):
        return None
    run, padded = sum_windows().with_last(items, words), any(padding)

    def compute(y: np.ndarray, x: np.ndarray, held: Any = references) -> np.ndarray:
        [y] = widen((y,)) if half else (y,)
        image, right, out = readable_behind(border(x), shape.rows), line_up(y), np.empty(result, np.float32)
        run(image, right, out)
        if padded and border_counts(out, (slice(None), 0), y):
            return _cell_by_cell(y, x, numbers, groups)
        return out

    return compute


def _cells_apart(y: np.ndarray, x: np.ndarray, numbers: tuple, groups: int) -> bool:
    """Whether a weight gradient is computed cell by cell: a product for each costs more than the border, unless it is large."""
    if math.prod(numbers[2]) > CELLS:
        return True
    work = y.size * (x.shape[1] // groups)
    large = work >= LARGE_CELL and work >= LARGE_CELL_OF_GROUP * groups
    return large and math.prod(map(share_inside, *numbers)) < BORDERED


def _summed_at_a_time(y: np.ndarray, x: np.ndarray, numbers: tuple, groups: int) -> tuple[tuple[int, ...], int]:
    """The size of an image with its border, and how many samples a weight gradient sums at a time."""
    _, _, kernel, stride, _, dilation = numbers
    full = tuple(
        (n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(y.shape[2:], kernel, stride, dilation, strict=True)
    )
    weights = y.shape[1] * x.shape[1] // groups * math.prod(kernel)
    image = math.prod(full) * x.shape[1]
    most = max(max(CACHED_SUMMED, 2 * weights) // image, FEW_WINDOWS // math.prod(y.shape[2:]), 1)
    return full, -(-len(x) // -(-len(x) // most))


def _weight_grad(y: np.ndarray, x: np.ndarray, numbers: tuple, groups: int) -> np.ndarray:
    """The weight gradient, with the border."""
    size, _, kernel, stride, padding, dilation = numbers
    last = x.shape[1] > groups and output_is_channels_last(y, x)  # of one channel, weights lie in both orders
    full, some = _summed_at_a_time(y, x, numbers, groups)
    out = None
    for low in range(0, len(x), some):
        part = x[low : low + some]
        found = _sum_windows(
            y[low : low + some],
            bordered(part, full, padding, groups),
            part.shape[:2],
            (size, kernel, stride, padding, dilation),
            groups,
            last,
        )
        out = found if out is None else np.add(out, found, out=out)
    return to_front(out) if last else out


def _sum_windows(y: np.ndarray, image: np.ndarray, x: tuple, numbers: tuple, groups: int, last: bool,
                 first: int = 0) -> np.ndarray:  # fmt: skip
    """The weight gradient of an image as `bordered` gives it, (O, C, *kernel), or (O, *kernel, C) if `last`.

    Args:
        x: its samples and channels.
        numbers: size of the image without a border, kernel, stride, padding and dilation.
        first: the element of the image that is the first window's first.
    """
    lines = to_last(y)
    result, shape, in_place, items, grain, words, _ = _windows(
        (*x, *image.shape[1:-1]), y.shape, *numbers, groups, last, lines.flags.c_contiguous, get_num_threads()
    )
    image = readable_behind(image, shape.rows)  # the last tile has more rows, and columns, than there are
    right = readable_behind(lines, shape.columns) if in_place else lined_up(y, groups, SUMMED, shape)
    out = np.empty(result, np.float32)
    parallel(sum_windows(), items, image.reshape(-1)[first:], right, out, words, grain=grain)
    return out


def _tile_of_cells(rows: int, columns: int, cells: int) -> Shape:
    """The tile of a weight gradient: the fastest whose columns fit in a scratch array for so many cells."""
    shape = choose_for(rows, columns, together=True)
    if cells * shape.columns <= SCRATCH:
        return shape
    return next(each for each in rates() if each.vectors == 1)


def _cell_by_cell(y: np.ndarray, x: np.ndarray, numbers: tuple, groups: int) -> np.ndarray:
    """The weight gradient, for each cell of the kernel over the windows that have it inside of the image."""
    last = output_is_channels_last(y, x)
    size, _, kernel, stride, *_ = numbers
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    image, lines = bordered(x, size, zeros, groups), bordered(y, y.shape[2:], zeros)
    out = np.zeros((y.shape[1], *kernel, x.shape[1] // groups), np.float32)
    for cell, reach, first in _inside(numbers):
        part = lines[reach]
        met = np.empty(part.shape, np.float32)
        if not copy_into(met, part):
            copy_to(met, part)
        one = size, ones, stride, zeros, ones
        found = _sum_windows(to_front(met), image, x.shape[:2], one, groups, True, first * image.shape[-1])
        out[(slice(None), *cell)] = found.reshape(len(found), -1)
    return to_front(out) if last else contiguous(to_front(out))


@functools.lru_cache(256)
def _inside(numbers: tuple) -> list[tuple]:
    """Cells of the kernel that windows have inside of the image: the index of these windows, channels-last, and the first one's
    pixel, counted through the image."""
    found = []
    for cell in np.ndindex(*numbers[2]):
        reach = [valid(k, *each) for k, each in zip(cell, zip(*numbers, strict=True), strict=True)]
        if all(high > low for low, high, _ in reach):
            windows_of_cell = (slice(None), *(slice(low, high) for low, high, _ in reach))
            found.append((cell, windows_of_cell, int(np.ravel_multi_index([at for _, _, at in reach], numbers[0]))))
    return found


def _gathered(source: np.ndarray, w: np.ndarray, b: np.ndarray | None, numbers: tuple, groups: int,
              forward: bool) -> np.ndarray:  # fmt: skip
    """For every target, its sources times the weights: (N, channels, *spatial)."""
    last = output_is_channels_last(source, w)
    w, numbers = _used(w, numbers)
    weights_last = not w.flags.c_contiguous and to_last(w).flags.c_contiguous
    if not weights_last:
        w = np.ascontiguousarray(w)
    arguments = w.shape, numbers, groups, forward, last, weights_last, source.dtype
    plan = _plan(source.shape, *arguments, False)
    some = _together(plan, source.shape, math.prod(numbers[int(forward)]))
    out, packed, panels_of_parts = plan.empty(), None, None
    for low in range(0, len(source), some):
        part = source[low : low + some]
        of_part = _plan(part.shape, *arguments, False)
        if of_part.panels != panels_of_parts:
            packed, panels_of_parts = of_part.packed(w), of_part.panels
        of_part.compute(part, w, packed, b, out[low : low + some])
    out = to_front(out) if plan.last else out
    if plan.padded and border_counts(out, plan.first, w):
        plan = _plan(source.shape, *arguments, True)
        out = plan.compute(source, w, plan.packed(w), b, plan.empty())
        return to_front(out) if plan.last else out
    return out


@prepares(conv)
def prepared_conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
                  groups: int, recorded: bool = True) -> Callable[..., np.ndarray] | None:  # fmt: skip
    """`conv` as a function of x, w and b; see `prepares`."""
    if _of_one_cell(w.shape[2:], stride, padding, groups):
        return None
    result = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    return _prepared(x, w, b, (x.shape[2:], result, w.shape[2:], stride, padding, dilation), groups, True)


@prepares(conv_input_grad)
def _(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, size: tuple, stride: tuple, padding: tuple, dilation: tuple,
      groups: int, recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    if _of_one_cell(w.shape[2:], stride, padding, groups):
        return None
    return _prepared(y, w, b, (tuple(size), y.shape[2:], w.shape[2:], stride, padding, dilation), groups, False)


def _prepared(source: np.ndarray, w: np.ndarray, b: np.ndarray | None, numbers: tuple, groups: int,
              forward: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    """What `_gathered` does at once on the calling thread, as a function of source, w and b; None where it does more."""
    if not source.flags.c_contiguous or not w.flags.c_contiguous or used_cells(*numbers) is not None:
        return None
    plan = _plan(source.shape, w.shape, numbers, groups, forward, False, False, source.dtype, False)
    (count, elements, grain), first, padded = plan.panels, plan.first, plan.padded
    border = prepared_border(source, plan.size, plan.border, groups)
    if (
        border is None
        or _together(plan, source.shape, math.prod(numbers[int(forward)])) < len(source)
        or not stays_on_caller(count, grain)
        or not stays_on_caller(*plan.items)
    ):
        return None
    pack = panels().with_last(count, plan.words)
    run = gather().with_last(plan.items[0], plan.words)
    empty: Any = np.empty if plan.filled else np.zeros
    whole = b is None or (b.flags.c_contiguous and b.size == math.prod(plan.bias))

    def compute(source: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
        image, out = border(source), plan.empty()
        packed = empty(elements, np.float32) if elements else None
        if count:
            pack(w, packed)
        run(image, w, packed, b if whole else _padded(b, *plan.bias), out)
        if padded and border_counts(out, first, w):
            return _gathered(source, w, b, numbers, groups, forward)
        return out

    return compute


def _together(plan: _Plan, source: tuple, targets: int) -> int:
    """How many samples, of so many targets, are computed at a time: their bordered images stay in a cache until they are read."""
    if plan.last and plan.size == source[2:]:  # read where they lie
        return source[0]
    few = FEW_TARGETS if plan.bias[0] == 1 else FEW_TARGETS_OF_GROUPS
    return max(1, CACHED * get_num_threads() // (math.prod(plan.size) * source[1]), few // targets)


class _Plan(NamedTuple):
    """How results, or input gradients, of certain shapes are computed.

    Attributes:
        shape, dtype: of the result as it is computed; last: whether that is channels-last.
        border, size: of the source, as in `Gather`; padded: whether the border is summed.
        first: where some results are that all weights are in.
        panels: of weights that are packed before, 0 of them where each piece packs what it uses; elements of all panels, 0 where
            pieces pack block by block; panels that a thread should at least pack.
        filled: whether the panels have columns that are not packed.
        bias: groups, and columns of each.
        items: pieces of work, and how many of them a thread should at least have.
        words: of `_conv_loops.gather`; references: what they point into.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    last: bool
    border: tuple[int, ...]
    size: tuple[int, ...]
    padded: bool
    first: tuple
    panels: tuple[int, int, int]
    filled: bool
    bias: tuple[int, int]
    items: tuple[int, int]
    words: np.ndarray
    references: tuple

    def empty(self) -> np.ndarray:
        """Memory for the result as it is computed."""
        return np.empty(self.shape, self.dtype)

    def packed(self, w: np.ndarray) -> Any:
        """The weights in panels, or memory for those that pieces pack; 0 if they have their own."""
        panel_count, elements, grain = self.panels
        if not elements:
            return 0
        packed = (np.empty if self.filled else np.zeros)(elements, np.float32)
        if panel_count:
            parallel(panels(), panel_count, w, packed, self.words, grain=grain)
        return packed

    def compute(
        self, source: np.ndarray, w: np.ndarray, packed: Any, b: np.ndarray | None, out: np.ndarray
    ) -> np.ndarray:
        """The result for such arrays, in `out`."""
        image = bordered(source, self.size, self.border, self.bias[0])
        bias = 0 if b is None else _padded(b, *self.bias)
        items, grain = self.items
        parallel(gather(), items, image, w, packed, bias, out, self.words, grain=grain)
        return out


def _plan(source: tuple, weight: tuple, numbers: tuple, groups: int, forward: bool, last: bool, weights_last: bool,
          dtype: np.dtype, exact: bool) -> _Plan:  # fmt: skip
    """The plan for shapes of the source and of the weights; dtype: of the result; exact: no border is summed."""
    return _plan_of_threads(
        source, weight, numbers, groups, forward, last, weights_last, dtype, exact, get_num_threads()
    )


@functools.lru_cache(512)
def _plan_of_threads(source: tuple, weight: tuple, numbers: tuple, groups: int, forward: bool, last: bool,
                     weights_last: bool, dtype: np.dtype, exact: bool, threads: int) -> _Plan:  # fmt: skip
    assert not (last and dtype == BFLOAT16), "tiles write results that are channels-last, in float32"
    size, result, kernel, *_ = numbers
    sides = (weight[0] // groups, weight[1]) if forward else (weight[1], weight[0] // groups)
    columns, summed = sides
    target = result if forward else size
    table = (windows if forward else pixels)(*numbers, summed, exact)
    lines = np.ascontiguousarray(table.lines.T if weights_last else table.lines)
    shape = choose_with_edge(columns)
    in_group, cells, channels = -(-columns // shape.columns), math.prod(kernel), columns * groups
    items, *cut = pieces(source[0], target, groups, in_group, shape, threads)
    weight_size = math.prod(weight)
    # Each piece packs a block where it uses it, or its panels, or all are packed before.
    lazy = table.whole and (cut[0] == 1 or cut[0] * weight_size <= FEW_WEIGHTS)
    packs = cut[0] == 1 and not lazy
    filled = columns % shape.columns == 0
    unset = 0 if filled or not lazy else 4 * shape.columns * max(n * run for _, n, run, *_ in table.blocks.tolist())
    turned = not forward and not weights_last and 1 < cells <= MOST_APART
    separate = separator(cells, shape.width) if turned else 0
    runs = set(table.blocks[:, 2].tolist())
    form = {"places": True, "run": max(runs) if len(runs) == 1 and max(runs) <= SHORT_RUN else 0}
    tiles = [shape._replace(rows=rows) for rows in rows_of_tiles(table.phases, source[0], target, shape, *cut[4:6])]
    ends = [edge("rows", tile, columns, **form) for tile in tiles]
    functions = [(tile.rows, address("rows", tile, **form), end) for tile, (_, end) in zip(tiles, ends, strict=True)]
    phases = np.hstack((table.phases, functions))
    words = words_for([
        address_of(lines), lines.size, columns, summed, cells, weights_last, forward, in_group, shape.columns,
        turner("scatter"), turner("lines"), separate, address_of(table.offsets), address_of(phases), len(phases),
        address_of(table.blocks), turner(rounds=dtype == BFLOAT16), dtype.itemsize, ends[0][0], lazy, unset, packs, last, *cut,
        math.prod(table.size) * summed * groups, math.prod(table.size) * summed, channels,
    ], (lines, table.offsets, phases, table.blocks))  # fmt: skip
    out = (source[0], *target, channels) if last else (source[0], channels, *target)
    panel_count = groups * in_group
    work = math.prod(out) * (weight_size // channels)
    return _Plan(
        out, dtype, last, table.border, table.size, table.padded,
        (0, slice(None), *table.samples),
        (0 if lazy or packs else panel_count, 0 if lazy else panel_count * lines.size * shape.columns,
         -(-COPY * panel_count // max(1, weight_size))), filled,
        (groups, in_group * shape.columns), (items, -(-GRAIN * items // max(1, work))), words, (lines, table),
    )  # fmt: skip


def _padded(b: np.ndarray, groups: int, columns: int) -> np.ndarray:
    """The bias of each group, filled up to so many columns."""
    if b.size == groups * columns:
        return np.ascontiguousarray(b)
    bias = np.zeros((groups, columns), np.float32)
    copy_to(bias[:, : b.size // groups], b.reshape(groups, -1))
    return bias


@functools.lru_cache(256)
def _windows(x: tuple, y: tuple, image: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int,
             last: bool, pixels_together: bool, threads: int) -> tuple:  # fmt: skip
    """How a weight gradient of these shapes is computed, x being the shape with the border: the shape of the result, the tile,
    whether `y` is read where it lies, as it may be if the channels of its pixels are together, and near each other; how many
    pieces of work `sum_windows` has, and a thread should at least have; its words, and what they point into."""
    size, full, channels, columns = y[2:], x[2:], x[1] // groups, y[1] // groups
    shape = _tile_of_cells(channels * (kernel[-1] if dilation[-1] == 1 else 1), columns, math.prod(kernel))
    in_place = pixels_together and y[1] <= NEAR_CHANNELS
    out = (y[1], *kernel, channels) if last else (y[1], channels, *kernel)
    _, height, width = three(full, 1)
    steps = height * width * channels, width * channels, channels
    offsets = _offsets(three(size, 1), [n * s for n, s in zip(three(stride, 1), steps, strict=True)])
    cells = math.prod(kernel)
    in_group = -(-columns // shape.columns)
    joined = kernel[-1] if dilation[-1] == 1 else 1
    some, together, shape = piece_of_windows(channels, joined, cells, groups, in_group, shape, threads)
    joined = joined if some == channels else 1
    window = three(kernel, 1)
    starts = _offsets(window, [n * s for n, s in zip(three(dilation, 1), steps, strict=True)])
    starts = starts[::joined].copy()
    ranges = np.array(_ranges(image, size, kernel, stride, padding, dilation, joined))
    rows = np.arange(cells * some)
    order = (rows % cells * some + rows // cells) * together * shape.columns
    parts = -(-channels // some), -(-in_group // together)
    items = groups * math.prod(parts)
    group = math.prod(full) * channels
    words = words_for([
        address_of(offsets), address_of(starts), starts.size, address_of(ranges), address_of(order), group * groups, group,
        joined, some, together, *parts, y[0] * math.prod(size), math.prod(size), channels, columns, in_group, cells, groups,
        shape.rows, shape.columns, last, address("cells", shape, panels=not in_place), turner("plain" if last else "gather"),
        y[1] if in_place else 0,
    ], (offsets, starts, ranges, order))  # fmt: skip
    grain = -(-GRAIN * items // max(1, math.prod(y) * channels * cells))
    return out, shape, in_place, items, grain, words, (offsets, starts, ranges, order)


def _ranges(size: tuple, result: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
            joined: int) -> list[tuple[int, int]]:  # fmt: skip
    """For each run of `joined` cells: the first of a sample's windows with one of them inside, and the one behind the last."""
    numbers = list(zip(size, result, kernel, stride, padding, dilation, strict=True))
    met = [[valid(k, *each) for k in range(each[2])] for each in numbers]
    if joined > 1:
        met[-1] = [(min(low for low, _, _ in met[-1]), max(high for _, high, _ in met[-1]), 0)]
    found = []
    for run in itertools.product(*met):
        if all(low < high for low, high, _ in run):
            bounds = [[low for low, _, _ in run], [high - 1 for _, high, _ in run]]
            first, end = (int(np.ravel_multi_index(place, result)) for place in bounds)
            found.append((first, end + 1))
        else:
            found.append((0, 0))
    return found


def _offsets(counts: tuple, steps: list[int]) -> np.ndarray:
    """Sums of a multiple of each step, in order."""
    each = [np.arange(n) * s for n, s in zip(counts, steps, strict=True)]
    return (each[0][:, None, None] + each[1][:, None] + each[2]).reshape(-1)
