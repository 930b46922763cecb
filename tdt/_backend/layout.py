"""Which way the memory of (N, C, *spatial) arrays lies: contiguous, or channels-last as (N, *spatial, C)."""

from __future__ import annotations

from typing import Any


def is_channels_last(a: Any) -> bool:
    """Whether PyTorch would call the memory of this 4-d or 5-d array channels-last: (N, *spatial, C) in order.

    A size of 1 fits anywhere, so some arrays are both; those count as contiguous, as they do there.
    """
    if a.ndim not in (4, 5):
        return False
    shape, strides = a.shape, a.strides
    if strides[1] == 0:
        return False
    least = 0
    for d in (1, *range(a.ndim - 1, 1, -1), 0):
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(shape[d], 1)
    return True


def empty_as(xp: Any, shape: tuple[int, ...], dtype: Any, last: bool) -> Any:
    """An array of shape (N, C, *spatial), channels-last in memory if `last`."""
    if not last:
        return xp.empty(shape, dtype)
    return to_front(xp.empty((shape[0], *shape[2:], shape[1]), dtype))


def to_last(a: Any) -> Any:
    """(N, C, *spatial) seen as (N, *spatial, C)."""
    return a.transpose(0, *range(2, a.ndim), 1)


def to_front(a: Any) -> Any:
    """(N, *spatial, C) seen as (N, C, *spatial)."""
    return a.transpose(0, a.ndim - 1, *range(1, a.ndim - 1))
