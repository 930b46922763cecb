"""Names of parts of a program for NVIDIA's profilers: ranges and marks, through CuPy."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tdt._backend import gpu
from tdt.cuda._devices import is_available

__all__ = ["mark", "range", "range_pop", "range_push"]

_open = threading.local()  # the number of ranges that a thread has open


def _nvtx() -> Any:
    if not is_available():
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build? CuPy sees no GPU")
    return gpu().cuda.nvtx


def range_push(msg: str) -> int:
    """Begin a range named `msg`. Returns the number of ranges that are open around it.

    Raises:
        RuntimeError: when there is no GPU.
    """
    _nvtx().RangePush(msg)
    _open.depth = getattr(_open, "depth", 0) + 1
    return _open.depth - 1


def range_pop() -> int:
    """End the innermost range. Returns the number of ranges that are still open.

    Raises:
        RuntimeError: when there is no GPU.
    """
    _nvtx().RangePop()
    _open.depth = max(0, getattr(_open, "depth", 0) - 1)
    return _open.depth


def mark(msg: str) -> None:
    """Mark this moment with `msg`.

    Raises:
        RuntimeError: when there is no GPU.
    """
    _nvtx().Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A range around a block; `msg` is formatted with the other arguments.

    Raises:
        RuntimeError: when there is no GPU.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
