"""Checks of indices on a GPU that wait until something is read from it: to read each flag at once would stop the host."""

from __future__ import annotations

from typing import Any

import numpy as np

# (GPU, message, limit, stream) → the largest index, read without sign, and CuPy's stream that computes it; of each CUDA graph,
# whose keys are longer, that of all replays.
_pending: dict[tuple, tuple[Any, Any]] = {}


def _current_stream() -> Any:
    import cupy

    return cupy.cuda.get_current_stream()


def expect_below(bits: Any, limit: int, message: str) -> None:
    """Check at the next read from a GPU that all of `bits`, unsigned integers there, are below `limit`.

    message: of the IndexError; {value} is the wrong index, {limit} the limit, {last} the last that is right.
    """
    largest, stream = bits.max(), _current_stream()
    key = bits.device.id, message, limit, stream.ptr
    if key in _pending:
        largest = np.maximum(_pending[key][0], largest)  # of CuPy, as the operands are
    _pending[key] = largest, stream


def largest_index(xp: Any, limit: int, message: str) -> Any:
    """A uint64 on the current GPU, for a kernel to raise to the largest index that it meets: checked as by `expect_below`."""
    stream = _current_stream()
    key = xp.cuda.Device().id, message, limit, stream.ptr
    if key not in _pending:
        _pending[key] = xp.zeros((), np.uint64), stream
    return _pending[key][0]


def raise_pending() -> None:
    """IndexError if an index since the last call was not below its limit. Streams in which indices are checked are waited for."""
    while _pending:
        (_, message, limit, *_), (largest, stream) = _pending.popitem()
        with largest.device:
            value, bits = int(largest.get(stream)), 8 * largest.dtype.itemsize
        if value >= limit:
            for each, its_stream in ((largest, stream), *_pending.values()):  # those of graphs are read again
                with each.device, its_stream:
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

    It must be set to 0 when the graph is captured. empty: makes an array that keeps its contents between replays.
    """
    found = {}
    for key, (largest, _) in checks.items():
        worst = empty(largest.shape, largest.dtype)
        np.maximum(worst, largest, out=worst)  # of CuPy, as the operands are
        found[*key, id(worst)] = worst
    return found


def add(checks: dict) -> None:
    """Let checks of a CUDA graph wait too, whose largest indices a replay has just computed."""
    stream = _current_stream()
    _pending.update({key: (worst, stream) for key, worst in checks.items()})
