"""Helpers of convolution and pooling: arguments, padding, sliding windows."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.layout import empty_as

_local = threading.local()
_KEEP = 1 << 23  # bytes of workspace kept between calls


def tuple_of(value: Any, count: int, name: str) -> tuple[int, ...]:
    """`value` as `count` integers: one is repeated. RuntimeError for another number of them, TypeError for no integers."""
    if value.__class__ is int:
        return (value,) * count
    if value.__class__ is tuple and len(value) == count:
        for number in value:
            if number.__class__ is not int:
                break
        else:
            return value
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for wrong in values:
        if not hasattr(wrong, "__index__") or isinstance(wrong, bool):
            raise TypeError(f"argument '{name}' must be tuple of ints, not {type(wrong).__name__}")
    values = tuple(map(operator.index, values))
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise RuntimeError(f"expected {name} to be a single integer value or a list of {count} values to match the "
                           f"convolution dimensions, but got {name}={list(values)}")  # fmt: skip
    return values


def workspace(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array to be overwritten by the next call on this thread: fresh memory costs a page fault every 4 kB."""
    count = math.prod(shape)
    nbytes = count * np.dtype(dtype).itemsize
    if xp is not np or nbytes > _KEEP:
        return xp.empty(shape, dtype)
    buffer = getattr(_local, "buffer", None)
    if buffer is None or buffer.nbytes < nbytes:
        buffer = _local.buffer = np.empty(min(_KEEP, 2 * nbytes), np.uint8)
    return buffer[:nbytes].view(dtype).reshape(shape)


def bordered(xp: Any, x: Any, padding: tuple[int, ...], last: bool, fill: Any = 0) -> Any:
    """`x` with `padding` cells of `fill` on both sides of each spatial dimension, in memory order as `last` says.

    Itself where there is nothing to add; negative numbers are not padding.
    """
    if not any(padding):
        return x
    shape = (*x.shape[:2], *(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)))
    padded = empty_as(xp, shape, x.dtype, last)
    padded[...] = fill
    padded[inner(padded.shape[2:], padding)] = x
    return padded


def inner(size: tuple[int, ...], padding: tuple[int, ...]) -> tuple:
    """The index that cuts `padding` off both ends of the spatial dimensions of (N, C, *size)."""
    return (slice(None), slice(None), *(slice(p, n - p) for n, p in zip(size, padding, strict=True)))


def windows(xp: Any, x: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...],
            out: tuple[int, ...]) -> Any:  # fmt: skip
    """A view (N, C, *out, *kernel) of `x`: the cells under the kernel at every place it stops."""
    steps = x.strides[2:]
    return _backend.as_strided(
        x,
        (*x.shape[:2], *out, *kernel),
        (
            *x.strides[:2],
            *(a * s for a, s in zip(steps, stride, strict=True)),
            *(a * d for a, d in zip(steps, dilation, strict=True)),
        ),
    )


def offsets(kernel: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every cell of the kernel as an index tuple, row by row."""
    return itertools.product(*map(range, kernel))


@functools.lru_cache(1024)
def reached(offset: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], out: tuple[int, ...]) -> tuple:
    """The index into (N, C, *padded) of the cells under kernel cell `offset`, one per window."""
    cells = (slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(offset, dilation, out, stride, strict=True))
    return (slice(None), slice(None), *cells)
