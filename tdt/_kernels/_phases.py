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

DEPTH = 288  # terms that a tile sums at a time, at most: they and as many lines of weights fit in a level-one cache
RUN = 32  # channels that are summed together, at least, where there are more
MOST_PARTS = 64  # into which targets are divided, unless the border must not be summed
# Targets of a tile, about; terms that take as long as it takes to begin and to write one; and tiles of all terms that take as
# long as it takes to pack the weights for parts, as they are packed once more than when each piece has all of them.
ROWS, WRITTEN, PACKED = 8, 128, 2


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
    """

    border: tuple[int, ...]
    size: tuple[int, ...]
    phases: np.ndarray
    blocks: np.ndarray
    offsets: np.ndarray
    lines: np.ndarray
    whole: bool
    padded: bool


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
    border, size, inside, padded = [], [], [], False
    divided = [
        [part for phase in dimension for part in _parts(phase, length)]
        for dimension, length in zip(phases, source, strict=True)
    ]
    parts = divided if exact else _fastest(phases, divided, channels)
    split = parts != phases
    for dimension, length in zip(parts, source, strict=True):
        places = [at for p in dimension for at, _ in p.cells]
        ends = [at + (p.count - 1) * p.source_step for p in dimension for at, _ in p.cells]
        low = -min(places, default=0)
        border.append(low)
        size.append(max(ends, default=0) + low + 1)
        padded = padded or low > 0 or low + length < size[-1]
        inside.append([p._replace(cells=tuple((at + low, k) for at, k in p.cells)) for p in dimension])
    return Gather(tuple(border), tuple(size), *_tables(inside, size, kernel, channels, split), padded)


def _fastest(phases: list[list[Phase]], divided: list[list[Phase]], channels: int) -> list[list[Phase]]:
    """In each dimension the phases, or their parts, with which the tiles of an image sum the fewest terms.

    It does not depend on the number of images, so that a result does not either.
    """

    def time(parts: Sequence[list[Phase]]) -> int:
        tiles = [
            (-(-math.prod(p.count for p in each) // ROWS), math.prod(len(p.cells) for p in each) * channels)
            for each in itertools.product(*parts)
        ]
        packed = 0 if list(parts) == phases else PACKED * max(terms for _, terms in tiles)
        return packed + sum(number * (terms + WRITTEN) for number, terms in tiles)

    ways = [parts for parts in itertools.product(*zip(phases, divided, strict=True))
            if math.prod(map(len, parts)) <= MOST_PARTS or list(parts) == phases]  # fmt: skip
    return list(min(ways, key=time))


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


def _tables(phases: list, size: list, kernel: tuple, channels: int, split: bool) -> tuple:
    """Phases, blocks, offsets, lines and whole of `Gather`."""
    _, height, width = three(tuple(size), 1)
    steps = height * width * channels, width * channels, channels
    count = math.prod(kernel)
    lines = np.full((channels, count), -1)
    rows: list[tuple] = []
    blocks: list[tuple] = []
    offsets: list[int] = []
    if split:  # several phases have the same cells: their lines are ordered by cells
        lines[...] = np.arange(count) * channels + np.arange(channels)[:, None]
    line = 0
    none = [[Phase(0, 1, 1, 1, ((0, 0),))]] * (3 - len(phases))
    _, down, across = three(kernel, 1)
    whole = True
    for parts in itertools.product(*none, *phases):
        begin = len(blocks)
        taken = [
            (sum(at * step for (at, _), step in zip(cell, steps, strict=True)),
             (cell[0][1] * down + cell[1][1]) * across + cell[2][1])
            for cell in itertools.product(*(p.cells for p in parts))
        ]  # fmt: skip
        joined = len(parts[2].cells) if not split and _consecutive(parts[2].cells) else 1
        joined = joined if joined * channels <= DEPTH else 1
        for low, high, first, end in _blocks(taken, joined, channels, split):
            run = joined * (end - first)
            here = taken[low:high]
            if not split:
                for number, (_, cell) in enumerate(here):
                    lines[first:end, cell] = line + number * (end - first) + np.arange(end - first)
            start = int(lines[first, here[0][1]])
            line += (high - low) * (end - first)
            blocks.append((len(offsets), (high - low) // joined, run, start, first, end))
            offsets += [at + first for at, _ in here[::joined]]
            whole = whole and high - low == count
        if begin == len(blocks):
            blocks.append((0,) * 6)  # no terms: the sum is 0
        numbers = [(p.first, p.step, p.count, p.source_step * step) for p, step in zip(parts, steps, strict=True)]
        rows.append((*itertools.chain(*numbers), begin, len(blocks)))
    unused = np.argwhere(lines < 0)  # cells that meet nothing; their weights are packed all the same
    lines[lines < 0] = line + np.arange(len(unused))
    return np.array(rows), np.array(blocks), np.array(offsets or [0]), lines, whole


def _consecutive(cells: tuple) -> bool:
    return all(b[0] - a[0] == 1 for a, b in itertools.pairwise(cells))


def _blocks(taken: list, joined: int, channels: int, split: bool) -> list[tuple[int, int, int, int]]:
    """(first cell, behind the last, first channel, behind the last) of terms that are summed at a time, about DEPTH of them.

    joined: how many cells in a row are one run.
    """
    if not taken:
        return []
    if joined > 1:
        rows = len(taken) // joined
        parts = -(-rows // max(1, DEPTH // (joined * channels)))
        return [(low * joined, high * joined, 0, channels) for low, high in _even(rows, parts)]
    if split:
        ends = [i for i in range(1, len(taken)) if taken[i][1] != taken[i - 1][1] + 1]
        ranges = [
            (low + a, low + b) for low, high in itertools.pairwise([0, *ends, len(taken)])
            for a, b in _even(high - low, -(-(high - low) // max(1, DEPTH // channels)))
        ]  # fmt: skip
        return [(low, high, a, b) for low, high in ranges for a, b in _channels(channels, DEPTH, high - low)]
    together = _channels(channels, max(RUN, DEPTH // len(taken)), 1)
    longest = together[0][1]
    ranges = _even(len(taken), -(-len(taken) // max(1, DEPTH // longest)))
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
