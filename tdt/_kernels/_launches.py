"""What kernels launch, noted for a tape (`_tape`) while somebody watches."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

_lock = threading.Lock()  # one trace at a time


# Ufuncs whose inner loops read and write their operands, and do nothing else: NumPy's, and those that are added to it.
PLAIN_UFUNCS = {each for each in vars(np).values() if isinstance(each, np.ufunc) and each.signature is None}


class Launch(NamedTuple):
    """A call of `entry` for all blocks, with its words; or a check that a value has a truth.

    Attributes:
        entry: the address of the machine code; 0 for a check.
        words: packed; for a check the value.
        blocks: how many; for a check the truth.
        grain: blocks that a thread should at least have; 0 where one thread has to compute them all, in order.
        held: what must stay in memory.
    """

    entry: int
    words: Any
    blocks: int
    grain: int
    held: Any


class Trace:
    """What a thread launches.

    Attributes:
        launches: in order.
        complete: whether all that was seen can be launched again so.
    """

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.complete = True
        self.thread = threading.get_ident()


class Watch:
    """Who watches: `trace` is None, or notes what is launched.

    Attributes:
        array_type: of arrays that NumPy asks what a ufunc does (`_tape.Watched`).
    """

    __slots__ = ("array_type", "trace")

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.array_type: Any = np.ndarray

    def own(self) -> Trace | None:
        """The trace of this thread."""
        trace = self.trace
        return trace if trace is not None and trace.thread == threading.get_ident() else None

    def lose(self) -> None:
        """Say that the code launches something whose arrays are not known."""
        if self.trace is not None and (trace := self.own()) is not None:
            trace.complete = False


WATCH = Watch()


def _after_fork() -> None:
    """Reset the state of a forked child: the thread that watches may be one of its parent's."""
    global _lock
    _lock, WATCH.trace = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def watch() -> Iterator[Trace]:
    """Note what the block launches on this thread."""
    with _lock:
        WATCH.trace = trace = Trace()
        try:
            yield trace
        finally:
            WATCH.trace = None


class Words(np.ndarray):
    """Words of a kernel that hold addresses of the arrays in `references`."""

    references: Sequence[np.ndarray] = ()


def words_for(values: Sequence[int], references: Sequence[np.ndarray]) -> Words:
    """Words with the arrays that they hold addresses of."""
    words = np.array(values, np.int64).view(Words)
    words.references = references
    return words


def copy_to(target: np.ndarray, source: np.ndarray) -> None:
    """Copy an array's elements to another one, by a ufunc where somebody watches."""
    if WATCH.own() is None:
        target[...] = source
    elif source.dtype == bool:
        np.logical_or(source.view(WATCH.array_type), source, out=target)
    else:
        np.positive(source.view(WATCH.array_type), out=target)


def watched(x: np.ndarray) -> np.ndarray:
    """An array that a kernel has computed, for NumPy's functions: as one whose use is noted, where somebody watches."""
    return x if WATCH.trace is None else x.view(WATCH.array_type)


def watched_copy(x: np.ndarray) -> np.ndarray:
    """A contiguous copy, by a ufunc where somebody watches."""
    out = np.empty(x.shape, x.dtype)
    copy_to(out, x)
    return out


def watched_contiguous(x: np.ndarray) -> np.ndarray:
    """As NumPy's `ascontiguousarray`, by a ufunc where somebody watches."""
    return np.ascontiguousarray(x) if x.flags.c_contiguous or WATCH.own() is None else watched_copy(x)


def sum_of(parts: np.ndarray) -> np.ndarray:
    """parts.sum(0), by ufuncs where somebody watches: NumPy adds arrays one after the other."""
    if WATCH.own() is None or len(parts) == 1:
        return parts[0] if len(parts) == 1 else parts.sum(0)
    total: np.ndarray = np.empty(parts.shape[1:], parts.dtype)
    np.add(parts[0].view(WATCH.array_type), parts[1], out=total)
    for part in parts[2:]:
        np.add(total.view(WATCH.array_type), part, out=total)
    return total


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of float32, to which a kernel adds; of a launch that is noted, each time anew."""
    array = np.zeros(shape, np.float32)
    are_zeros(array)
    return array


def are_zeros(*arrays: np.ndarray) -> None:
    """Say that a kernel adds to arrays of zeros: of a launch that is noted, they are that each time anew."""
    for array in arrays if WATCH.own() is not None else ():
        copy_to(array, np.zeros_like(array))


def all_finite(array: np.ndarray) -> bool:
    """Whether all elements are finite; a check where somebody watches."""
    trace = WATCH.own()
    if trace is None:
        return math.isfinite(np.add.reduce(array, None)) or bool(np.isfinite(array).all())
    unlike = np.asarray(np.logical_not(np.isfinite(array.view(WATCH.array_type)))).view(np.ndarray)
    found = bool(unlike.any())
    trace.launches.append(Launch(0, unlike.reshape(-1).view(np.uint8), int(found), unlike.size, unlike))
    return not found


def note(entry: Any, words: bytes, blocks: int, grain: int, *held: Any) -> None:
    """Note a launch of a kernel, if somebody watches. held: the arrays whose addresses the words contain."""
    trace = WATCH.own()
    if trace is not None:
        trace.launches.append(
            Launch(entry.address, np.frombuffer(words, np.uint8).copy(), blocks, grain, (entry, held))
        )
