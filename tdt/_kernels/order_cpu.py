"""Sorting and selection of NumPy arrays by generated code: what the ops of `reduce/sort` and `reduce/order` call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._kernels import _order
from tdt._kernels._order import INTEGERS, SIGNED_BITS
from tdt._kernels._pool import parallel
from tdt._kernels._row_order import MOST, row_kth, row_median, row_mode, row_sort, row_topk, row_topk_of_many, sort_rows
from tdt._kernels._threads import THREADS

UNITS = 1 << 12  # elements that a block of the pool's work has at least
SHORT = 16  # elements of a row up to which comparisons on one thread find a rank sooner than digits on several
LONG = 4096  # elements of a row from which digits have 11 bits


def _blocks(n: int, rows: int) -> tuple[int, int]:
    """The rows of a block, and the number of blocks."""
    each = max(1, UNITS // max(n, 1))
    return each, -(-rows // each)


def sort(x: np.ndarray, descending: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """The elements of the rows of the contiguous x (*, n) in stable order, and their indices; NaN is larger than all numbers.

    None for rows that are too long.
    """
    n, letter = x.shape[-1], x.dtype.char
    if n > MOST:
        return None
    if x.size < THREADS.rows:
        return row_sort(letter * 2 + "q", letter, descending)(x)
    rows = math.prod(x.shape[:-1])
    values, indices = np.empty_like(x), np.empty(x.shape, np.int64)
    each, blocks = _blocks(n, rows)
    parallel(sort_rows(letter, descending), blocks, x, values, indices, n, rows, each, grain=2)  # type: ignore[arg-type]
    return values, indices


def argsort(x: np.ndarray, descending: bool) -> np.ndarray:
    """The indices that sort the rows of the contiguous x (*, n) stably; NaN is larger than all numbers."""
    done = sort(x, descending)
    if done is not None:
        return done[1]
    n = x.shape[-1]
    rows = math.prod(x.shape[:-1])
    size = SIGNED_BITS[INTEGERS[x.dtype.char]] // 8
    out = np.empty(x.shape, np.int64)
    digit = 8 if n < LONG or size < 4 else 11
    each, blocks = _blocks(n, rows)
    room = (n * (2 * size + 8) + 4 * (1 << digit) + 64) // 64 * 64 + 64
    args = x, out, np.empty(blocks * room, np.int8), n, rows, each, room, -1 if descending else 0
    parallel(_order.argsort(x.dtype.char, digit), blocks, *args, grain=2)  # type: ignore[arg-type]
    return out


def row_function(name: str, dtype: np.dtype, option: bool = False) -> Any:
    """The ufunc of the last dimension of small arrays: "sort" or "topk", where `option` is descending, "median", "nanmedian",
    "mode", or "kth", whose second operand is the rank, from 0.

    None for other types. Rows have at most MOST elements; of "topk" any number, and k is the size of a second operand of bools,
    at most FEW where rows have more elements. "topk of many" is for types of up to 32 bits,
    17 ≤ k ≤ MOST / 2.
    """
    letter = dtype.char
    if letter not in INTEGERS or not dtype.isnative:
        return None
    if name == "sort":
        return row_sort(letter * 2 + "q", letter, option)
    if name == "topk":
        return row_topk(letter + "?" + letter + "q", letter, option)
    if name == "topk of many":
        return row_topk_of_many(letter + "?" + letter + "q", letter, option)
    if name == "mode":
        return row_mode(letter * 2 + "q", letter)
    if name == "kth":
        return row_kth(f"{letter}q{letter}q", letter)
    return row_median(letter * 2 + "q", letter, name == "nanmedian")


MODES = {"kth": 0, "median": 1, "nanmedian": 2, "lowest": 3}


def ranked(x: np.ndarray, m: int, mode: str, descending: bool = False) -> np.ndarray:
    """Of the rows of the contiguous x (*, n): the index of the element of rank m ("kth", (*)), or of the lower median.

    "median": of the first NaN where there is one; m is the median's rank. "nanmedian": of the numbers alone. "lowest": the
    indices (*, m) of the m lowest elements, in order of index. descending: ranks are counted from the largest.
    """
    n, letter = x.shape[-1], x.dtype.char
    if n <= MOST and (n <= SHORT or x.size < THREADS.rows) and mode != "lowest" and not descending:
        if mode == "kth":
            return row_function(mode, x.dtype)(x, np.int64(m))[1]
        return row_function(mode, x.dtype)(x)[1]
    rows = math.prod(x.shape[:-1])
    size = SIGNED_BITS[INTEGERS[letter]] // 8
    out = np.empty((*x.shape[:-1], m) if mode == "lowest" else x.shape[:-1], np.int64)
    digit = 8 if n < LONG or size < 4 else 11
    each, blocks = _blocks(n, rows)
    room = (n * 2 * size + 4 * (1 << digit) + 64) // 64 * 64 + 64
    scratch = np.empty(blocks * room, np.int8)
    args = x, out, scratch, out, n, rows, each, room, -1 if descending else 0, m, MODES[mode]
    parallel(_order.ranked(x.dtype.char, digit), blocks, *args, grain=2)  # type: ignore[arg-type]
    return out
