"""Many of CuPy's arrays copied in one launch, and memory for such copies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.layout import is_dense
from tdt._kernels import _cuda, _lists

WORDS = {size: name for size, (_, name) in _cuda.WORDS.items()} | {16: "two_words"}
ALIGNED = 512  # bytes, to multiples of which arrays begin in memory that they share
SOURCE = r"""
struct two_words { unsigned long long low, high; };
extern "C" __global__ void copy_each(arrays all) {
    LOOP(all) ((word*)all.at[0][array])[k] = ((const word*)all.at[1][array])[k];
}
"""


@functools.cache
def _copy_each(itemsize: int) -> Callable[..., None]:
    source = _lists.source(2) + SOURCE.replace("extern", f"typedef {WORDS[itemsize]} word;\nextern", 1)
    return _cuda.compiled(source, "copy_each")


def like(a: Any) -> Any:
    """New memory on the current GPU for the values of an array, with its strides."""
    xp = _backend.gpu()
    if is_dense(a):
        found = xp.empty_like(a)
        if found.strides == a.strides:
            return found
    low, high = _backend.byte_bounds(a)
    if not a.size or any(stride < 0 for stride in a.strides):
        return xp.empty_like(a)
    return xp.ndarray(a.shape, a.dtype, xp.empty(high - low, np.uint8).data, a.strides)


def copy(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """Write arrays to others of their shapes and dtypes, those that lie alike in one launch for each size of elements."""
    at_once: dict[int, tuple[list, list]] = {}
    for target, source in zip(targets, sources, strict=True):
        size = source.dtype.itemsize
        alike = target.strides == source.strides and is_dense(source) and size in WORDS
        if alike and source.data.ptr % size == target.data.ptr % size == 0:
            pair = at_once.setdefault(size, ([], []))
            pair[0].append(target)
            pair[1].append(source)
        else:
            target[...] = source
    for size, columns in at_once.items():
        for arrays, blocks in _lists.parameters(columns):
            _copy_each(size)((min(blocks, _cuda.MOST_BLOCKS),), (_cuda.THREADS,), (arrays,))


def copies(arrays: Sequence[Any]) -> list[Any]:
    """Copies of arrays, with their strides."""
    found = [*map(like, arrays)]
    copy(found, arrays)
    return found


class Copies:
    """Copies of the same arrays, made again and again: those of a call lie in one piece of memory.

    Args:
        arrays: on the current GPU.
    """

    def __init__(self, arrays: Sequence[Any]):
        self._size, self._places, self._rest = 0, [], []
        at_once: dict[int, tuple[list, list]] = {}
        for k, a in enumerate(arrays):
            low, high = _backend.byte_bounds(a)
            forward = all(stride >= 0 for stride in a.strides)
            self._places.append((a.shape, a.dtype, self._size, a.strides if forward else None))
            if a.itemsize in WORDS and is_dense(a) and low % a.itemsize == 0:
                columns = at_once.setdefault(a.itemsize, ([], []))
                columns[0].append(a)
                columns[1].append(self._size)
            else:
                self._rest.append((k, a))
            self._size += -(-(high - low) // ALIGNED) * ALIGNED
        self._launches = []
        for itemsize, (sources, offsets) in at_once.items():
            first = 0
            for parameters, blocks in _lists.parameters((sources, sources)):
                known = parameters.view(_lists.fields(2))
                count = int(known["count"][0])
                part = np.array(offsets[first : first + count], np.uint64)
                self._launches.append(
                    (_copy_each(itemsize), min(blocks, _cuda.MOST_BLOCKS), parameters, known["at"][0, 0, :count], part)
                )
                first += count

    def __call__(self) -> list[Any]:
        """The copies, with the strides of the arrays."""
        xp = _backend.gpu()
        memory = xp.empty(self._size, np.uint8).data
        found = [
            xp.ndarray(shape, dtype, memory + at, strides) for shape, dtype, at, strides in self._places
        ]  # None: in rows
        for kernel, blocks, parameters, targets, offsets in self._launches:
            np.add(offsets, np.uint64(memory.ptr), out=targets)
            kernel((blocks,), (_cuda.THREADS,), (parameters,))
        for k, a in self._rest:
            found[k][...] = a
        return found
