"""A table of arrays that a kernel walks: a row per tensor, with the address of each of its arrays and its size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Elements in a block. Five float64 arrays of it are 160 kB, which a level-two cache holds; and a block is the unit of
# work that threads share, so results do not depend on their number.
BLOCK = 4096


class Table:
    """Addresses of `columns[c][r]`, with sizes and the number of blocks before each row, as one int64 array.

    Every array must be C-contiguous, and must live as long as the table is used: a table keeps them alive. A column of
    None stands for arrays that this use of the kernel does not touch.
    """

    def __init__(self, columns: Sequence[Sequence[np.ndarray] | None]):
        first = next(column for column in columns if column is not None)
        sizes = [array.size for array in first]
        blocks = np.cumsum([0] + [-(-size // BLOCK) for size in sizes])
        self.rows = np.zeros((len(sizes), len(columns) + 2), np.int64)
        self.rows[:, -2] = sizes
        self.rows[:, -1] = blocks[:-1]
        self.blocks = int(blocks[-1])
        self.like = np.empty(0, first[0].dtype)
        self._held: list[Sequence[np.ndarray] | None] = [None] * len(columns)
        for number, column in enumerate(columns):
            if column is not None:
                self.point(number, column)

    def point(self, column: int, arrays: Sequence[np.ndarray]) -> None:
        """Let a column name other arrays of the same sizes."""
        self.rows[:, column] = [array.__array_interface__["data"][0] for array in arrays]
        self._held[column] = arrays
