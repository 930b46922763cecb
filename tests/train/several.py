"""Several processes of a run, as threads of one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tdt.distributed._communicator import Communicator
from tdt.train._ranks import Ranks

T = TypeVar("T")


class ThreadRanks(Ranks):
    """One of the processes; `exchange` meets those of the others. host: the machine of all; None: each has its own."""

    host: str | None = None

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, values: list[Any]) -> None:
        self._barrier, self._values = barrier, values
        self.communicator, self.rank, self.size = Communicator(), rank, size
        self.hosts = [self.host or f"node{number}" for number in range(size)]

    def exchange(self, value: T, name: str = "exchange") -> list[T]:
        self._values[self.rank] = value
        self._barrier.wait(10)
        values = list(self._values)
        self._barrier.wait(10)
        return values


def run(size: int, work: Callable[[Ranks], Any]) -> list[Any]:
    """What `work` returns or raises for each of `size` processes."""
    barrier, values, found = threading.Barrier(size), [None] * size, [None] * size

    def one(rank: int) -> None:
        try:
            found[rank] = work(ThreadRanks(rank, size, barrier, values))
        except Exception as error:  # noqa: BLE001 (the test looks at it)
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
