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
