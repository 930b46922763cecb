"""How many threads kernels may use, for code that is loaded before the pool."""

from __future__ import annotations

import os
import sys

# Elements from which a second thread saves more than the dispatch costs: of sums and other functions of rows, and of elementwise
# functions, which take less time for an element.
PARALLEL, PARALLEL_ELEMENTWISE = 1 << 15, 1 << 18
# Those from which one looks how the arrays lie, as rows with gaps take NumPy longer.
MANY = 1 << 13


class Threads:
    """The number of threads, and what follows from it.

    Attributes:
        count: of threads, the calling one included.
        elementwise, rows: the elements from which an elementwise function, or one of rows, uses them; with one thread, more
            than an array can have.
    """

    __slots__ = ("count", "elementwise", "rows")

    def __init__(self, count: int):
        self.set(count)

    def set(self, count: int) -> None:
        self.count = count
        self.elementwise, self.rows = (PARALLEL_ELEMENTWISE, PARALLEL) if count > 1 else (sys.maxsize, sys.maxsize)


def _default() -> int:
    """OMP_NUM_THREADS (its first number) where it is set, else the CPUs this process may run on."""
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = Threads(_default())
