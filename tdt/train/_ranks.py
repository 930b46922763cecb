"""The processes that train a run together: one alone, or those that a launcher has started."""

from __future__ import annotations

import atexit
import socket
from functools import lru_cache
from typing import Any, TypeVar

import tdt
from tdt._activity import ACTIVITY, PREPARING
from tdt._backend import gpu_index
from tdt.distributed._communicator import Communicator, Progress, Steps
from tdt.distributed._launch import launched, load_mpi
from tdt.distributed._nccl import GpuCommunicator
from tdt.distributed._store import DistBackendError
from tdt.distributed._watchdog import Watchdog

T = TypeVar("T")


class Ranks:
    """The processes of a run, each with a rank from 0; all of them call `exchange`, `from_first` and `wait` in one order.

    Attributes:
        communicator: their collectives on arrays of the host.
        rank, size: of this process, and how many there are.
        hosts: the name of each one's machine.
        watchdog: the heartbeats between them; None if nobody watches.
        unwatched: ranks that cannot reach rank 0 for that.

    >>> from tdt.train._ranks import Ranks
    >>> ranks = Ranks.alone()
    >>> ranks.rank, ranks.size, ranks.first, ranks.exchange("mine"), ranks.from_first("its")
    (0, 1, True, ['mine'], 'its')
    """

    _gpus: Communicator | None = None
    watchdog: Watchdog | None = None

    def __init__(self, communicator: Communicator) -> None:
        self.communicator, self.rank, self.size = communicator, communicator.rank, communicator.size
        self.hosts: list[str] = self.exchange(socket.gethostname())
        self.unwatched: list[int] = []

    @staticmethod
    def alone() -> Ranks:
        """This process alone, without MPI."""
        return Ranks(Communicator())

    @staticmethod
    def of_launch() -> Ranks:
        """The processes that a launcher (mpirun, srun) has started, or this process alone.

        Raises:
            LaunchError: there are several that cannot talk to one another.
        """
        return Ranks.alone() if launched() is None else _of_mpi()

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which alone owns the run's folder, logs and terminal."""
        return self.rank == 0

    def watch(self) -> None:
        """Begin the heartbeats: from now on a process that ends, or whose machine hangs, ends all."""
        if self.size > 1:
            self.watchdog = Watchdog(self.rank, self.hosts)
            self.unwatched = self.watchdog.start(self.exchange)
            atexit.register(self.watchdog.stop)  # before MPI ends, which was loaded earlier
            ACTIVITY.report(PREPARING)

    def set_stall_timeout(self, seconds: float) -> None:
        """Set the time without progress after which the run is aborted."""
        if self.watchdog is not None:
            self.watchdog.timeout = seconds

    def name(self, rank: int) -> str:
        """A process in messages: "rank 2 on host x"."""
        return f"rank {rank} on {self.hosts[rank]}"

    def exchange(self, value: T, name: str = "exchange") -> list[T]:
        """The value of every process, by rank; values are pickled. name: for messages."""
        return self.communicator.exchanged(value, name)

    def from_first(self, value: T, name: str = "broadcast") -> T:
        """The value of rank 0."""
        return value if self.size == 1 else self.exchange(value if self.first else None, name)[0]  # type: ignore[return-value]

    @property
    def transport(self) -> Communicator:
        """What sends arrays of the run's device: NCCL from GPU to GPU, after `connect`; else `communicator`."""
        return self._gpus or self.communicator

    def connect(self, device: tdt.device) -> str | None:
        """Let `transport` send from the device of the run. Returns why the host must send for GPUs; else None."""
        self._gpus = None
        if device.type == "cuda":
            try:
                alone = self.size == 1
                self._gpus = (
                    Communicator(device=device) if alone else GpuCommunicator(self.communicator, gpu_index(device))
                )
            except DistBackendError as error:
                return str(error)
        return None

    def wait(self, steps: Steps, name: str) -> None:
        """Begin a collective on arrays, and wait for its end."""
        self.begin(steps, name).wait()

    def begin(self, steps: Steps, name: str) -> Progress:
        """Begin a collective on arrays."""
        return self.communicator.begin(steps, name)

    def __reduce__(self) -> Any:
        raise TypeError("Ranks cannot be pickled: a worker process takes no part in collectives")


@lru_cache(maxsize=1)
def _of_mpi() -> Ranks:
    """All processes of MPI, connected and watched once."""
    mpi = load_mpi()
    ranks = Ranks(Communicator(mpi, mpi.COMM_WORLD))
    ranks.watch()
    return ranks
