"""How the rows and columns of a product of matrices are cut into pieces for threads."""

from __future__ import annotations

import itertools

PACKED = 12  # multiply-adds that take as long as to pack an element


def cut(pieces: int, count: int, sizes: tuple[int, int], steps: tuple[int, int], threads: int,
        least: int = 1) -> tuple[int, int]:  # fmt: skip
    """Rows and columns of a piece, of about `pieces` of `count` matrices, so that threads have equal shares.

    Args:
        sizes, steps: rows and columns of a matrix, and of which numbers those of a piece are multiples.
        least: blocks of rows that a matrix has at least.
    """
    m, n = sizes
    per = max(-(-pieces // count), least + threads - 1)
    cuts = [(down, across) for down in range(least, per + 1) for across in range(1, per // down + 1)]
    found = [(part_size(m, down, steps[0]), part_size(n, across, steps[1])) for down, across in cuts]
    return found[0] if len(found) == 1 else min(found, key=lambda piece: _time(piece, count, sizes, threads))


def _time(piece: tuple[int, int], count: int, sizes: tuple[int, int], threads: int) -> float:
    """About the time of the thread with the largest share, in multiply-adds for each product of a sum."""
    m, n = sizes
    heights, widths = ([min(each, size - start) for start in range(0, size, each)]
                       for each, size in zip(piece, sizes, strict=True))  # fmt: skip
    areas = [height * width for height in heights for width in widths] * count
    ends = [len(areas) * thread // threads for thread in range(threads + 1)]  # as the pool cuts them
    largest = max(sum(areas[start:end]) for start, end in itertools.pairwise(ends))
    late = max(areas) / 4  # a thread that starts late leaves whole pieces to the others
    return largest + late + PACKED * count * ((len(heights) - 1) * n + (len(widths) - 1) * m) / threads


def part_size(size: int, parts: int, step: int) -> int:
    """The size of a part, a multiple of a tile's."""
    return -(-size // (parts * step)) * step
