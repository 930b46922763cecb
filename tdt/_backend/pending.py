"""Checks of indices on a GPU that wait until something is read from it: to read each flag at once would stop the host."""

from __future__ import annotations

from typing import Any

import numpy as np

# (GPU, message, limit) → the largest index, read without sign; of each CUDA graph, whose keys are longer, that of all replays.
_pending: dict[tuple, Any] = {}


def expect_below(bits: Any, limit: int, message: str) -> None:
    """Check at the next read from a GPU that all of `bits`, unsigned integers there, are below `limit`.

    message: of the IndexError; {value} is the wrong index, {limit} the limit, {last} the last that is right.
    """
    largest = bits.max()
    key = bits.device.id, message, limit
    known = _pending.get(key)
    _pending[key] = largest if known is None else np.maximum(known, largest)  # of CuPy, as the operands are


def largest_index(xp: Any, limit: int, message: str) -> Any:
    """A uint64 on the current GPU, for a kernel to raise to the largest index that it meets: checked as by `expect_below`."""
    key = xp.cuda.Device().id, message, limit
    if key not in _pending:
        _pending[key] = xp.zeros((), np.uint64)
    return _pending[key]


def raise_pending() -> None:
    """IndexError if an index since the last call was not below its limit."""
    while _pending:
        (_, message, limit, *_), largest = _pending.popitem()
        value, bits = int(largest.get()), 8 * largest.dtype.itemsize
        if value >= limit:
            for each in (largest, *_pending.values()):  # those of graphs are read again
                with each.device:
                    each.fill(0)
            _pending.clear()
            value -= (value >> bits - 1) << bits  # a negative index is a large one without its sign
            raise IndexError(message.format(value=value, limit=limit, last=limit - 1))


def swap(checks: dict) -> dict:
    """Let other checks be those that wait; those that have waited until now."""
    global _pending
    before, _pending = _pending, checks
    return before


def over_replays(checks: dict, empty: Any) -> dict:
    """For the checks of a CUDA graph, which is being captured, memory in which the largest indices of all replays stay.

    It must be set to 0 when the graph is captured. empty: makes an array.
    """
    found = {}
    for key, largest in checks.items():
        worst = empty(largest.shape, largest.dtype)
        np.maximum(worst, largest, out=worst)  # of CuPy, as the operands are
        found[*key, id(worst)] = worst
    return found


def add(checks: dict) -> None:
    """Let checks of a CUDA graph wait too, whose largest indices a replay has just computed."""
    _pending.update(checks)
