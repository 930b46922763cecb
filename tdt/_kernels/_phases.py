"""Tables of offsets of a convolution in one to three dimensions, for tiles that sum over contiguous runs of a bordered image.

In one dimension cell k of the kernel, at window o, lies on pixel i = o·stride - padding + k·dilation. The result gathers
pixels for windows: one phase, with all cells. The input gradient gathers windows for pixels: pixels whose i + padding has
the same remainder by the stride are a phase, which meets the cells of that remainder. In a phase, sources lie at a fixed
distance from a target's first one. Lines and images are volumes of depth, or height, 1.

Where the border would be much of what is summed, as with a large dilation, targets that meet the same cells inside of the
source are phases of their own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tdt._kernels._tile import choose, rates

DEPTH = 288  # terms that a tile sums at a time, at most: they and as many lines of weights fit in a level-one cache
RUN = 32  # channels that are summed together, at least, where there are more
MOST_PARTS = 64  # into which targets are divided, unless the border must not be summed
# Targets of tiles of two kinds, the second one twice as frequent, and of a tile whose time is counted; of a piece of work,
# about. Terms that take as long as it takes to begin a run, to write a tile, to look for a phase's targets in a line, and to copy
# a number into a bordered image.
ROWS, OF_TILE, PIECE, BEGUN, WRITTEN, LINE, COPIED = (6, 8, 8), 8, 192, 3, 24, 16, 0.1
STEP = 1  # rows of a tile that take as long as the rest of a step of its sum
# Multiply-adds that take as long as to add a row of windows, and each of a row; of channels-last images a row of a window's
# cells, and each number of it, and to turn a number; by how much that has to be faster.
WINDOW_ROW, WINDOW, RUN_OF_CELLS, CELL, TURNED, FASTER = 150, 8, 200, 22, 25, 1.1
WIDTH = 16  # of the vectors by which that is decided, on all processors: the order of a sum does not depend on theirs


class Phase(NamedTuple):
    """In one dimension: targets first, first + step, …, whose sources lie `source_step` apart.

    cells: (place of the first target's source, cell of the kernel), in order.
    """

    first: int
    step: int
    count: int
    source_step: int
    cells: tuple[tuple[int, int], ...]


class Gather(NamedTuple):
    """What tiles sum for each target, and how the source is bordered.

    Attributes:
        border: places before the source in each dimension.
        size: of the bordered source.
        phases: rows of (first, step, count) of targets and the step of their sources in the image, for three dimensions;
            the first of its blocks, and the one behind the last.
        blocks: terms that are summed at a time: first of `offsets`, how many, elements in the run of each, first line of the
            weights, first channel, and the one behind the last.
        offsets: in the bordered source, of the cells, for the first target.
        lines: the line of the weights of each (channel, cell of the kernel).
        whole: whether every block has all cells of the kernel.
        padded: whether the border is summed.
        samples: in each dimension, a few targets whose sums have all cells that any target's has.
    """

    border: tuple[int, ...]
    size: tuple[int, ...]
    phases: np.ndarray
    blocks: np.ndarray
    offsets: np.ndarray
    lines: np.ndarray
    whole: bool
    padded: bool
    samples: tuple[slice, ...]


def three(values: tuple, missing: int) -> tuple:
    """Three numbers: `missing` for leading dimensions that are not there."""
    return (missing,) * (3 - len(values)) + tuple(values)


@functools.lru_cache(64)
def windows(size: tuple, result: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, channels: int,
            exact: bool) -> Gather:  # fmt: skip
    """The result: each window gathers pixels of `channels`. exact: no border is summed."""
    phases = [
        [Phase(0, 1, o, s, tuple((k * d - p, k) for k in range(cells)))]
        for o, cells, s, p, d in zip(result, kernel, stride, padding, dilation, strict=True)
    ]
    return _gather(phases, size, kernel, channels, exact)


@functools.lru_cache(64)
def pixels(size: tuple, result: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, channels: int,
           exact: bool) -> Gather:  # fmt: skip
    """The input gradient: each of the pixels of an image of `size` gathers windows of `channels`."""
    phases = []
    for numbers in zip(size, kernel, stride, padding, dilation, strict=True):
        found = [_phase(remainder, *numbers) for remainder in range(numbers[2])]
        phases.append([phase for phase in found if phase.count])
    return _gather(phases, result, kernel, channels, exact)


@functools.lru_cache(256)
def windows_pay(
    size: tuple, result: tuple, kernel: tuple, padding: tuple, dilation: tuple, channels: int, rows: int, last: bool
) -> bool:
    """Whether an input gradient takes less time as products of windows (`overlap_cpu`) than as sums of pixels with the border.

    channels: of a pixel; rows: of the result, which one image alone decides; last: whether images are channels-last.
    """
    shape, table = choose(channels, WIDTH), pixels(size, result, kernel, (1, 1), padding, dilation, rows, False)
    terms = table.blocks[:, 1] * table.blocks[:, 2]
    summed = sum(math.prod(row[2:12:4]) * sum(terms[row[12] : row[13]]) for row in table.phases.tolist())
    every = summed * -(-channels // shape.columns) * shape.columns / rates(WIDTH)[shape]
    cells, places = math.prod(kernel) * channels, math.prod(result)
    added = places * kernel[0] * (RUN_OF_CELLS + CELL * kernel[1] * channels)
    if not last:
        by_rows = cells * result[0] * (WINDOW_ROW + WINDOW * result[1])
        added = min(by_rows, added + TURNED * (places * rows + math.prod(size) * channels))
    return bool(every >= FASTER * (cells * places * rows + added))


def share_inside(size: int, result: int, kernel: int, stride: int, padding: int, dilation: int) -> float:
    """In one dimension: of the pairs of a window and a cell of the kernel, the share that is not on the border."""
    met = [valid(k, size, result, kernel, stride, padding, dilation) for k in range(kernel)]
    return sum(high - low for low, high, _ in met) / (kernel * result)


def valid(
    cell: int, size: int, result: int, kernel: int, stride: int, padding: int, dilation: int
) -> tuple[int, int, int]:
    """In one dimension: the first window that has the cell inside of the image, the one behind the last, and its pixel there."""
    at = cell * dilation - padding
    low, high = _met(Phase(0, 1, result, stride, ()), at, size)
    return low, high, at + low * stride


@functools.lru_cache(256)
def used_cells(
    size: tuple, result: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> tuple[slice, ...] | None:
    """In each dimension: the cells of the kernel from the first to the last that any window has inside of the image.

    None: all of them.
    """
    ranges = []
    for numbers in zip(size, result, kernel, stride, padding, dilation, strict=True):
        met = [k for k in range(numbers[2]) if (reach := valid(k, *numbers))[1] > reach[0]] or [0]
        ranges.append(slice(met[0], met[-1] + 1))
    return None if all(c.stop - c.start == k for c, k in zip(ranges, kernel, strict=True)) else tuple(ranges)


def _phase(remainder: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> Phase:
    """The pixels i with (i + padding) % stride == remainder, and the cells that windows have there."""
    first = (remainder - padding) % stride
    count = max(0, -(-(size - first) // stride))
    cells = [
        ((first + padding - k * dilation) // stride, k) for k in range(kernel) if k * dilation % stride == remainder
    ]
    return Phase(first, stride, count, 1, tuple(sorted(cells)))


def _gather(phases: list[list[Phase]], source: tuple, kernel: tuple, channels: int, exact: bool) -> Gather:
    divided = [
        [part for phase in dimension for part in _parts(phase, length)]
        for dimension, length in zip(phases, source, strict=True)
    ]
    parts = divided if exact else _fastest(phases, divided, source, channels)
    border, size = zip(*map(_border, parts, source), strict=True)
    padded = any(low or low + length < full for low, length, full in zip(border, source, size, strict=True))
    inside = [[p._replace(cells=tuple((at + low, k) for at, k in p.cells)) for p in dimension]
              for dimension, low in zip(parts, border, strict=True)]  # fmt: skip
    order = None if parts == phases else _order(phases, kernel)
    return Gather(border, size, *_tables(inside, size, kernel, channels, order), padded, tuple(map(_samples, parts)))


def _samples(dimension: list[Phase]) -> slice:
    """In one dimension: a few targets, at equal distances, whose sums have all cells."""
    found, missing = [0], {k for p in dimension for _, k in p.cells}
    while missing:
        phase = max(dimension, key=lambda p: len(missing.intersection(k for _, k in p.cells)))
        missing.difference_update(k for _, k in phase.cells)
        found.append(phase.first)
    found = sorted(found[1:]) or found
    return slice(found[0], found[-1] + 1, math.gcd(*(b - found[0] for b in found)) or 1)


def _border(dimension: list[Phase], length: int) -> tuple[int, int]:
    """In one dimension: the places before a source of that length, and of the bordered source."""
    low = -min((at for p in dimension for at, _ in p.cells), default=0)
    end = max((at + (p.count - 1) * p.source_step + 1 for p in dimension for at, _ in p.cells), default=0)
    return (0, length) if low <= 0 and end <= length else (low, end + low)


def _fastest(phases: list[list[Phase]], divided: list[list[Phase]], source: tuple, channels: int) -> list[list[Phase]]:
    """In each dimension the phases, or their parts, with which a channels-last image takes the least time.

    It does not depend on the number of images, nor on how they lie in memory, so that a result does not either.
    """

    def time(parts: Sequence[list[Phase]]) -> float:
        lines = math.prod(sum(p.count for p in dimension) for dimension in parts[:-1])
        together = max(1, PIECE // sum(p.count for p in parts[-1]))
        each = list(itertools.product(*parts))
        total = sum(_time(phase, channels, lines, together) for phase in each)
        sizes = [_border(*of_one) for of_one in zip(parts, source, strict=True)]
        if sizes != [(0, length) for length in source]:
            total += COPIED * channels * math.prod(size for _, size in sizes)
        return total

    ways = [parts for parts in itertools.product(*zip(phases, divided, strict=True))
            if math.prod(map(len, parts)) <= MOST_PARTS or list(parts) == phases]  # fmt: skip
    return list(min(ways, key=time))


def _time(phase: tuple[Phase, ...], channels: int, lines: int, together: int) -> float:
    """About how many terms a tile could sum in the time that the targets of a phase take.

    lines: in all phases, of which so many are computed together.
    """
    *down, across = phase
    met = math.prod(p.count for p in down)
    pieces = max(1, met / together)
    targets = met * across.count // pieces
    tiles = pieces * sum(rows * _tiles(int(targets), rows) for rows in ROWS) / (len(ROWS) * OF_TILE)
    cells = math.prod(len(p.cells) for p in phase)
    joined = len(across.cells) if _consecutive(across.cells) and len(across.cells) * channels <= DEPTH else 1
    return LINE * lines + tiles * (cells * channels + BEGUN * (cells // max(1, joined)) + WRITTEN)


@functools.lru_cache(1024)
def _tiles(targets: int, most: int) -> float:
    """The time of as many targets in tiles of up to `most` rows, of as many as suit them best, in that of one with `most`."""
    return min(-(-targets // rows) * (rows + STEP) for rows in range(1, most + 1)) / (most + STEP)


def _met(phase: Phase, at: int, length: int) -> tuple[int, int]:
    """The first target whose source is inside, and the one behind the last; `at`: the source of target 0."""
    low = min(phase.count, max(0, -(at // phase.source_step)))
    return low, max(low, min(phase.count, -(-(length - at) // phase.source_step)))


def _parts(phase: Phase, length: int) -> list[Phase]:
    """The phase in parts whose targets have the same cells inside."""
    met = [(_met(phase, at, length), at, k) for at, k in phase.cells]
    bounds = sorted({0, phase.count, *(bound for reach, _, _ in met for bound in reach)})
    return [
        Phase(
            phase.first + low * phase.step, phase.step, high - low, phase.source_step,
            tuple((at + low * phase.source_step, k) for (begin, end), at, k in met if begin <= low and high <= end),
        )
        for low, high in itertools.pairwise(bounds)
    ]  # fmt: skip


def _order(phases: list[list[Phase]], kernel: tuple) -> list[int]:
    """All cells of the kernel, those of a phase one after the other."""
    found = [_cell(cells, kernel) for each in itertools.product(*phases)
             for cells in itertools.product(*(p.cells for p in each))]  # fmt: skip
    return found + sorted({*range(math.prod(kernel))} - {*found})


def _cell(cells: tuple, kernel: tuple) -> int:
    """The number of a cell of the kernel, from (place, cell) in each dimension."""
    return functools.reduce(lambda number, pair: number * pair[1] + pair[0][1], zip(cells, kernel, strict=True), 0)


def _tables(phases: list, size: list, kernel: tuple, channels: int, order: list[int] | None) -> tuple:
    """Phases, blocks, offsets, lines and whole of `Gather`. order: of the cells, where several phases have the same ones."""
    steps = [math.prod(size[k + 1 :]) * channels for k in range(len(size))]
    count = math.prod(kernel)
    lines = np.full((channels, count), -1)
    rows: list[tuple] = []
    blocks: list[tuple] = []
    offsets: list[int] = []
    if order is not None:
        lines[:, order] = np.arange(count) * channels + np.arange(channels)[:, None]
    line = 0
    whole = True
    for parts in itertools.product(*phases):
        begin = len(blocks)
        taken = [(sum(at * step for (at, _), step in zip(cells, steps, strict=True)), _cell(cells, kernel))
                 for cells in itertools.product(*(p.cells for p in parts))]  # fmt: skip
        joined = len(parts[-1].cells) if _consecutive(parts[-1].cells) else 1
        joined = joined if joined * channels <= DEPTH else 1
        ends = [0, len(taken)]
        if order is not None:
            first_lines = [lines[0, cell] for _, cell in taken]
            ends[1:1] = (i for i in range(1, len(taken)) if first_lines[i] != first_lines[i - 1] + channels)
        for low, high, first, end in _blocks(ends, joined, channels, order is not None):
            run = joined * (end - first)
            here = taken[low:high]
            if order is None:
                for number, (_, cell) in enumerate(here):
                    lines[first:end, cell] = line + number * (end - first) + np.arange(end - first)
            start = int(lines[first, here[0][1]])
            line += (high - low) * (end - first)
            blocks.append((len(offsets), (high - low) // joined, run, start, first, end))
            offsets += [at + first for at, _ in here[::joined]]
            whole = whole and high - low == count
        if begin == len(blocks):
            blocks.append((0,) * 6)  # no terms: the sum is 0
        numbers = [(0, 1, 1, 0)] * (3 - len(parts))
        numbers += [(p.first, p.step, p.count, p.source_step * step) for p, step in zip(parts, steps, strict=True)]
        rows.append((*itertools.chain(*numbers), begin, len(blocks)))
    unused = np.argwhere(lines < 0)  # cells that meet nothing; their weights are packed all the same
    lines[lines < 0] = line + np.arange(len(unused))
    return np.array(rows), np.array(blocks), np.array(offsets or [0]), lines, whole


def _consecutive(cells: tuple) -> bool:
    return all(b[0] - a[0] == 1 for a, b in itertools.pairwise(cells))


def _blocks(ends: list[int], joined: int, channels: int, split: bool) -> list[tuple[int, int, int, int]]:
    """(first cell, behind the last, first channel, behind the last) of terms that are summed at a time, about DEPTH of them.

    Args:
        ends: where lines of the weights do not follow each other, from the first cell to behind the last. joined: how many
            cells in a row are one run. split: whether all channels of a cell follow each other.
    """
    if not ends[-1]:
        return []
    if joined > 1 or split:
        rows = max(1, DEPTH // (joined * channels))
        ranges = [
            (low + a * joined, low + b * joined) for low, high in itertools.pairwise(ends)
            for a, b in _even((high - low) // joined, -(-(high - low) // (joined * rows)))
        ]  # fmt: skip
        return [(low, high, a, b) for low, high in ranges for a, b in _channels(channels, DEPTH, high - low)]
    together = _channels(channels, max(RUN, DEPTH // ends[-1]), 1)
    longest = together[0][1]
    ranges = _even(ends[-1], -(-ends[-1] // max(1, DEPTH // longest)))
    return [(low, high, a, b) for a, b in together for low, high in ranges]


def _channels(channels: int, most: int, cells: int) -> list[tuple[int, int]]:
    """Ranges of at most about `most` channels; of all where several cells follow each other."""
    if cells > 1:
        return [(0, channels)]
    size = -(-channels // -(-channels // most))
    size += -size % 8
    return [(low, min(low + size, channels)) for low in range(0, channels, size)]


def _even(count: int, parts: int) -> list[tuple[int, int]]:
    bounds = [count * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(bounds))
