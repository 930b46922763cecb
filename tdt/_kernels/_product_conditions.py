"""Which products of matrices `_direct` computes, and instead of which the transposed product is: by shapes and strides."""

from __future__ import annotations

from tdt._kernels import _direct
from tdt._kernels._cut import part_size
from tdt._kernels._direct_parts import MOST_ROWS
from tdt._kernels._native import vector_width

DEPTH = 256  # products that are summed in registers; with a panel of 16 columns, half of a level-one cache
SHALLOW = (
    32  # depth up to which a block has one tile's rows: what is written counts most, and is then written row by row
)
# Products of `_direct`: of few rows, or of few multiply-adds a matrix; where lines of the right operand are contiguous, of a
# tile's rows, or of more if the lines stay in a cache, and of few columns, unless very many rows meet them; where its columns
# are, of rows that fill vectors badly, as those of the transposed product would be. Some by the floats of a vector.
FEW_ROWS, ROWS_BETWEEN = 4, 64
# Sums from which on rows fill vectors well enough, if they are more than turned columns meet in place (by bytes of an element).
LONG_SUM, ROWS_TURNED_IN_PLACE = {8: 1 << 62, 16: 512}, {4: 12, 8: 7}
FEW_ROWS_OF_COLUMNS = {8: 8, 16: 4}  # where the columns of the right operand, and rows of the left one, are contiguous
FEW_ROWS_OF_LINES = {8: (12, 12), 16: (48, 96)}  # of a shallow sum, of others
FEW_ROWS_OF_PAIRS = {8: 12, 16: 128}  # of others with up to two vectors of columns
FEW_COLUMNS = {8: (16, 32), 16: (16, 64)}  # where the left operand's rows are contiguous, where its columns are
ROWS_OF_FEW_COLUMNS = {8: 1 << 62, 16: 128}  # where its rows are contiguous
# Multiply-adds where the left operand's columns are: each is read in pieces of a tile's rows, as long as a cache holds them.
SIZE_OF_FEW_COLUMNS = {8: 1 << 62, 16: 1 << 22}
THREE_VECTORS = {
    8: range(0),
    16: range(33, 49),
}  # columns that a packed product's tile has, where those of `_direct` have two
ROWS_OF_THREE_VECTORS = {4: 32, 8: 128}  # by the bytes of an element
SMALL = 1 << 20
# Elements of the right operand that stay in a cache when lines are read in pieces, as `_direct` does.
CACHED = {8: 1 << 19, 16: 1 << 21}
# Columns of the right operand with which the transposed product is computed where lines of both are contiguous, by the floats
# of a vector, and rows of the left one at most: it is then packed by the tiles, or in wide panels.
TURNED_COLUMNS, MOST_TURNED = {8: range(17, 65), 16: range(0)}, 512


def is_direct(count: int, product: tuple[int, int, int], a: tuple[int, int], b: tuple[int, int],
               sizes: tuple[int, int]) -> bool:  # fmt: skip
    """Whether `_direct` computes `count` products, by rows, columns and products of a sum, the strides of the matrices and the
    bytes of their elements."""
    (m, n, k), width, item = product, vector_width(), max(sizes[0], 4)
    left, right = a[1] == sizes[0], b[1] == sizes[1]  # whether rows are contiguous
    few = FEW_ROWS_OF_COLUMNS[width] if left and not right and b[0] == sizes[1] else FEW_ROWS
    floats = n * item // 4  # that fill as many vectors as the columns
    if floats in THREE_VECTORS[width] and m >= ROWS_OF_THREE_VECTORS[item]:
        return False
    if (
        n == 1
        or m <= few
        or m * n * k < SMALL
        or (right and k == 1)
        or _direct.is_narrow(m, n, k, a, b[0], width, item)
    ):
        return True
    if right and not left and few_columns(m, n, k):
        return False
    if right:
        most = (
            FEW_ROWS_OF_PAIRS[width] if floats <= 2 * width and k > SHALLOW else FEW_ROWS_OF_LINES[width][k > SHALLOW]
        )
        short = m <= MOST_ROWS[width] or (m <= most and floats * k <= CACHED[width] * 4 // item)
        cached = m <= ROWS_OF_FEW_COLUMNS[width] if left else count * m * floats * k <= SIZE_OF_FEW_COLUMNS[width]
        return short or (floats <= FEW_COLUMNS[width][not left] and cached)
    badly = m <= ROWS_BETWEEN and 10 * part_size(m, 1, width * 4 // item) > 11 * m
    return badly and (k < LONG_SUM[width] or m <= ROWS_TURNED_IN_PLACE[item])


def few_columns(m: int, n: int, k: int) -> bool:
    """Whether lines of both operands are read for the transposed product, by rows, columns and products of a sum."""
    return n in TURNED_COLUMNS[vector_width()] and 2 * n <= m <= MOST_TURNED and k >= DEPTH
