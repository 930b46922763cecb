"""Threads for kernels: one pool over a `queue.SimpleQueue`, made on first use and remade after a fork.

A kernel works on blocks `[first, last)` of fixed size, so its result never depends on how many threads share them.
OpenMP is not used: a forked child of a process that used it is killed, and its idle threads spin beside the BLAS's.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np


def _default_threads() -> int:
    """OMP_NUM_THREADS (its first number) where it is set, else the CPUs this process may run on."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Pool:
    """Threads that wait on one queue; they are daemons, so they end with the process."""

    def __init__(self, threads: int):
        self.tasks: SimpleQueue = SimpleQueue()
        self.threads = threads
        for number in range(threads):
            threading.Thread(target=self._work, name=f"tdt-kernel-{number}", daemon=True).start()

    def _work(self) -> None:
        while (task := self.tasks.get()) is not None:
            function, first, last, args, done = task
            try:
                function(first, last, *args)
            except BaseException as error:  # noqa: BLE001 - handed to the caller of `parallel`, which raises it
                done.put(error)
            else:
                done.put(None)

    def close(self) -> None:
        for _ in range(self.threads):
            self.tasks.put(None)


_threads = _default_threads()
_pool: _Pool | None = None
_lock = threading.Lock()


def _after_fork() -> None:
    """A forked child has none of its parent's threads, and maybe a lock that a lost thread held."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def parallel(function: Callable[..., Any], blocks: int, *args: Any, grain: int = 1) -> None:
    """Call `function(first, last, *args)` on parts that together cover `range(blocks)`, on several threads.

    A part has at least `grain` blocks; work too small for two parts stays on the calling thread. `function` should
    release the GIL. The first error of a part is raised once all parts have ended.
    """
    parts = min(_threads, blocks // max(grain, 1))
    if parts <= 1:
        function(0, blocks, *args)
        return
    pool = _running_pool()
    done: SimpleQueue = SimpleQueue()
    bounds = [blocks * i // parts for i in range(parts + 1)]
    for first, last in itertools.pairwise(bounds[1:]):
        pool.tasks.put((function, first, last, args, done))
    try:
        function(0, bounds[1], *args)
    finally:
        errors = [done.get() for _ in range(parts - 1)]
    for error in errors:
        if error is not None:
            raise error


def _running_pool() -> _Pool:
    global _pool
    pool = _pool
    if pool is None or pool.threads < _threads - 1:
        with _lock:
            if _pool is None or _pool.threads < _threads - 1:
                if _pool is not None:
                    _pool.close()
                _pool = _Pool(_threads - 1)
            pool = _pool
    return pool


def get_num_threads() -> int:
    """How many threads a kernel or a matrix product may use.

    >>> get_num_threads() >= 1
    True
    """
    return _threads


def set_num_threads(threads: int) -> None:
    """Let kernels and NumPy's BLAS use this many threads. RuntimeError unless it is a positive integer.

    Kernels give the same bits for every number of threads; matrix products only for a fixed one.
    """
    global _threads
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {threads!r}")
    _threads = threads
    for set_threads in _blas_setters():
        set_threads(threads)


def single_threaded() -> None:
    """One thread for kernels and BLAS from here on: what a loader worker calls, since its siblings fill the cores."""
    set_num_threads(1)


@functools.cache
def _blas_setters() -> list[Callable[[int], Any]]:
    """The function that sets the number of threads, of each BLAS that NumPy's wheel carries; empty for other builds."""
    home = Path(np.__file__).parent
    found = []
    for folder in (home.parent / "numpy.libs", home / ".dylibs"):
        for path in folder.glob("*openblas*"):
            library = ctypes.CDLL(str(path))  # already loaded by NumPy: the same copy
            for name in (
                "scipy_openblas_set_num_threads64_",
                "openblas_set_num_threads64_",
                "openblas_set_num_threads",
            ):
                if hasattr(library, name):
                    setter = getattr(library, name)
                    setter.argtypes, setter.restype = [ctypes.c_int], None
                    found.append(setter)
                    break
    return found
