"""A table of arrays that a kernel walks: a row per tensor, with the address of each of its arrays and its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any
from weakref import ref

import numpy as np

from tdt._kernels._addresses import address_of

# Elements in a block. Five float64 arrays of it are 160 kB, which a level-two cache holds; and a block is the unit of
# work that threads share, so results do not depend on their number.
BLOCK = 4096


class Table:
    """Addresses of `columns[c][r]`, with sizes and the number of blocks before each row, as one int64 array.

    Every array must be C-contiguous. The table keeps references to its initial arrays. A column of None is for arrays that
    are named later, or that this use of the kernel does not touch.

    Attributes:
        launched: how a kernel was called last, and what was packed for that, if the next call is alike.
        columns: the initial arrays.
        launches: whether a kernel that is called with the table runs; else it only writes its numbers for a tape.
        write: `write(*numbers)` writes the numbers of all rows to where those of `numbered` were last, if that was one row.
    """

    launched: Any = None
    launches = True
    write: Callable[..., None]

    def __init__(self, columns: Sequence[Sequence[np.ndarray] | None]):
        first = next(column for column in columns if column is not None)
        sizes = [array.size for array in first]
        blocks = np.cumsum([0] + [-(-size // BLOCK) for size in sizes])
        self.rows = np.zeros((len(sizes), len(columns) + 2), np.int64)
        self.rows[:, -2] = sizes
        self.rows[:, -1] = blocks[:-1]
        self.blocks = int(blocks[-1])
        self.like = np.empty(0, first[0].dtype)
        self.columns = columns
        self._shape, self._numbers = (0, 0), np.empty((0, 0))
        self._array_refs: dict[int, list[ref]] = {}
        for number, column in enumerate(columns):
            if column is not None:
                self.rows[:, number] = _addresses(column)

    def point(self, column: int, arrays: Sequence[np.ndarray]) -> None:
        """Let a column name these arrays, which the caller keeps while the table is used."""
        # Gradients may be the same arrays in each step, but must not be kept alive.
        refs = self._array_refs.get(column)
        if refs is None or not all(r() is a for r, a in zip(refs, arrays, strict=True)):
            self.rows[:, column] = _addresses(arrays)
            self._array_refs[column] = [ref(a) for a in arrays]

    def with_column(self, number: int, arrays: Sequence[np.ndarray]) -> Table:
        """A table whose column `number` has these arrays, which it keeps."""
        return Table([arrays if k == number else column for k, column in enumerate(self.columns)])

    def numbered(self, values: Sequence[tuple[float, ...]]) -> np.ndarray:
        """The numbers of each row, or one for all, as a float64 array (rows, numbers), which is the same memory at each call.

        One row stands for all where they are equal.
        """
        first, rows = values[0], len(values)
        if rows > 1 and values.count(first) == rows:
            rows = 1
        if self._shape != (rows, len(first)):
            self._shape = rows, len(first)
            self._numbers = np.empty(self._shape)
            self.write = partial(Struct(f"{len(first)}d").pack_into, self._numbers, 0)
        if rows == 1:
            self.write(*first)
        else:
            self._numbers[...] = values
        return self._numbers


def _addresses(arrays: Sequence[np.ndarray]) -> list[int]:
    return [address_of(array) for array in arrays]
