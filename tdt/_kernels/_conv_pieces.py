"""How the work of a convolution (`conv_cpu`) is cut into pieces, for one or several threads, and what its tiles are."""

from __future__ import annotations

import itertools

import numpy as np

from tdt._kernels._conv_loops import COLUMNS, ROWS, SCRATCH
from tdt._kernels._phases import three
from tdt._kernels._tile import Shape, same_columns

ITEMS = 8  # pieces of work that there should at least be
SAMPLED = 16  # pieces whose targets decide how many rows a tile has
PIECES = 2  # of a weight gradient's work for each thread, if there are several
PACKED = 8  # multiply-adds that take as long as to pack an element
MANY_PIECES = 8  # of a result's work for each thread, from which on it counts little how many more some threads have


def pieces(count: int, size: tuple, groups: int, in_group: int, shape: Shape, threads: int) -> tuple:
    """How many pieces of work `_conv_loops.gather` has in all; then what it takes.

    These are pieces of all lines, of a line, and of the columns of a group; panels of a piece; lines of a piece, targets of a
    line; lines in all; depth, height and width of the result.

    Which piece a target belongs to does not change its sum, so that several threads may have smaller ones.
    """
    depth, height, width = three(size, 1)
    across = min(width, ROWS)
    lines, along, most = count * depth * height, -(-width // across), max(1, ROWS // width)

    def cut(down: int) -> tuple:
        of_lines = -(-lines // down) * along
        together = max(1, min(COLUMNS // shape.columns, in_group * of_lines * groups // ITEMS, in_group))
        parts = -(-in_group // together)
        return of_lines * parts * groups, of_lines, along, parts, together, down, across, lines, depth, height, width

    def time(found: tuple) -> float:
        """Of the thread with most pieces, by lines and panels; reading weights takes an eighth of the largest piece's time."""
        return -(-found[0] // threads) * found[4] * (found[5] + most / 8)

    largest = cut(most)
    if threads == 1 or largest[0] >= MANY_PIECES * threads or largest[1] == 1:
        return largest
    numbers = range(-(-lines // most), -(-lines // max(1, most // 4)) + 1)
    return min([cut(-(-lines // n)) for n in numbers], key=time)


def rows_of_tiles(phases: np.ndarray, count: int, size: tuple, shape: Shape, down: int, across: int) -> list[int]:
    """For each phase the rows of the tile of such columns that computes its targets in a few pieces in the least time.

    down, across: lines of a piece, and targets of each.
    """
    depth, height, width = three(size, 1)
    line = np.arange(min(count * depth * height, SAMPLED * down))
    left = np.arange(0, width, across)
    tiles = [shape._replace(rows=rows) for rows in range(shape.rows, 0, -1)]
    found = []
    for phase in phases.tolist():
        met = _met(line // height % depth, *phase[0:3]) & _met(line % height, *phase[4:7])
        lines = np.bincount(line[met] // down)
        first, step, most = phase[8:11]
        begin, end = (
            np.clip(-(-(bound - first) // step), 0, most) for bound in (left, np.minimum(left + across, width))
        )
        targets = np.outer(lines, end - begin)
        found.append(min(tiles, key=lambda tile: tile.cycles * np.sum(-(-targets // tile.rows))).rows)
    return found


def _met(places: np.ndarray, first: int, step: int, count: int) -> np.ndarray:
    """Which of the places, in one dimension, are of first, first + step, …, `count` of them."""
    number, rest = np.divmod(places - first, step)
    return (rest == 0) & (number >= 0) & (number < count)


def piece_of_windows(channels: int, joined: int, cells: int, groups: int, in_group: int, shape: Shape,
                      threads: int) -> tuple[int, int, Shape]:  # fmt: skip
    """Channels and panels of a piece of a weight gradient's work, and its tile.

    Which piece an element belongs to does not change its sum, so that bits do not depend on the number of threads.
    """
    together = min(in_group, max(1, COLUMNS // 2 // shape.columns))
    while together > 1 and cells * shape.rows * together * shape.columns > SCRATCH:
        together -= 1
    most = max(1, min(channels, SCRATCH // (cells * together * shape.columns)))
    least = -(-channels // most)  # pieces: with all channels, the cells of a row are one run
    while threads > 1 and groups * -(-channels // most) * -(-in_group // together) < PIECES * threads:
        if most > 2 * shape.rows and cells * most >= 8 * shape.rows:  # else y is read again for few products
            most = -(-most // 2)
        elif together > 1:
            together = -(-together // 2)
        else:
            break
    count, parts = -(-channels // most), groups * -(-in_group // together)

    def time(piece: tuple[int, Shape]) -> float:
        some, tile = piece
        if some == channels:
            cycles = cells // joined * -(-channels * joined // tile.rows) * tile.cycles
            return cycles * -(-parts // threads)
        whole, rest = divmod(channels, some)
        if threads > 1:  # of the thread that has most pieces
            return cells * -(-some // tile.rows) * tile.cycles * -(-(whole + (rest > 0)) * parts // threads)
        return cells * (whole * -(-some // tile.rows) + -(-rest // tile.rows)) * tile.cycles * parts

    further = 2 * count if threads > 1 and count * parts < MANY_PIECES * threads else count
    evenly = [-(-channels // n) for n in range(least, further + 1)]
    tiles = same_columns(shape)
    some, tile = min([(n, t) for t in tiles for n in (*evenly, max(1, most - most % t.rows))], key=time)
    return some, together, tile


def blocks_of_products(count: int, rows: int, tiles: int, most: int, tile_rows: int, threads: int,
                       highest: int | None = None) -> tuple[int, int]:  # fmt: skip
    """Rows of a block, up to about `highest`, and its tiles of columns, `most` at most, for `count` products of so many.

    Few blocks are cut further so that several threads have as much each. Which block an element belongs to does not change it.
    """
    down, across = -(-rows // (highest or rows)), -(-tiles // most)
    further = 0 if count * down * across >= MANY_PIECES * threads else threads - 1
    heights = {tile_rows * -(-rows // (n * tile_rows)) for n in range(down, down + further + 1)}
    widths = {-(-tiles // n) for n in range(across, across + further + 1)}

    def time(cut: tuple[int, int]) -> float:
        """Of the thread with most, whose blocks follow each other; each packs its columns."""
        block = np.outer(_parts(rows, cut[0]) + PACKED, np.tile(_parts(tiles, cut[1]), count)).reshape(-1)
        ends = np.concatenate(([0], np.cumsum(block)))[len(block) * np.arange(threads + 1) // threads]
        return float(np.diff(ends).max())

    return min(itertools.product(*(sorted(sizes, reverse=True) for sizes in (heights, widths))), key=time)


def _parts(whole: int, part: int) -> np.ndarray:
    """The sizes of the parts of a whole."""
    starts = np.arange(0, whole, part)
    return np.minimum(part, whole - starts)
