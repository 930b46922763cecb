"""The gradient of an embedding on the CPU: rows added to those of the table that they were taken from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._layout import check_indices
from tdt._kernels._pool import parallel
from tdt._kernels._registry import prepares

BLOCK = 64  # columns: each block walks through all rows, so that the sums have the order of the indices
GRAIN = 1 << 15  # elements a thread should at least add: about 10 µs


def embedding_grad(
    y: np.ndarray, indices: np.ndarray, *, rows: int, padding_idx: int | None, by_frequency: bool
) -> np.ndarray:
    """The op `embedding_grad` for y (*indices, D); bit for bit the portable result."""
    columns = y.shape[-1]
    grad = np.zeros((rows, columns), y.dtype)
    which = np.ascontiguousarray(indices, np.int64).reshape(-1)
    check_indices(which, rows)
    grain = -(-GRAIN // (min(columns, BLOCK) * which.size))
    arguments = np.ascontiguousarray(y), which, grad, which.size, columns
    parallel(_add_rows(KINDS[y.dtype.char]), -(-columns // BLOCK), *arguments, grain=grain)
    if padding_idx is not None:
        grad[padding_idx] = 0
    return grad


@prepares(embedding_grad)
def _(
    y: np.ndarray, indices: np.ndarray, *, rows: int, padding_idx: int | None, by_frequency: bool
) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    if y.size >= GRAIN or not (y.flags.c_contiguous and indices.flags.c_contiguous) or indices.dtype != np.int64:
        return None
    dtype, columns = y.dtype, y.shape[-1]
    run = _add_rows(KINDS[dtype.char]).with_last(-(-columns // BLOCK), indices.size, columns)

    def gradient(y: np.ndarray, indices: np.ndarray) -> np.ndarray:
        check_indices(indices, rows)
        grad = np.zeros((rows, columns), dtype)
        run(y, indices, grad)
        if padding_idx is not None:
            grad[padding_idx] = 0
        return grad

    return gradient


KINDS = {"f": "float", "d": "double"}


@native("pppqq", vectorize=False)
def _add_rows(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    y, which, grad, count, columns = arguments
    start = first * BLOCK
    width = code.minimum(last * BLOCK, columns) - start
    with code.loop(0, count) as i:
        source = code.at(kind, y, i * columns + start)
        target = code.at(kind, grad, code.load("i64", which, i) * columns + start)

        def add(place: Value, vectors: int, lanes: int, source: Value = source, target: Value = target) -> None:
            total = code.load(kind, target, place, lanes) + code.load(kind, source, place, lanes)
            code.store(total, target, place)

        code.vectors(width, 16, add, once=True)
