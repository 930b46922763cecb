"""Collectives on arrays of GPUs: the algorithms of `Communicator`, with NCCL moving the bytes.

NCCL adds nothing up itself: the order of additions in its own sums depends on the number of processes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import socket
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from tdt._backend import cuda_device_count, gpu
from tdt._backend.device import device
from tdt.distributed._communicator import Array, Communicator, Progress, Steps, _Turn
from tdt.distributed._store import DistBackendError

Call = tuple[str, Array, int]  # a function of NCCL, the array whose bytes it moves, and the other process or the root


class Place(NamedTuple):
    """Where a process has its arrays: machine, address of the GPU on its bus, number of GPUs that it sees; why it has no NCCL."""

    host: str
    bus: str
    gpus: int
    missing: str | None

    @classmethod
    def of_gpu(cls, index: int) -> Place:
        """The place of GPU `index` of this process."""
        return cls(socket.gethostname(), gpu().cuda.Device(index).pci_bus_id, cuda_device_count(), nccl_is_missing())


def _nccl() -> Any:
    return importlib.import_module("cupy.cuda.nccl")


def nccl_is_missing() -> str | None:
    """Why NCCL cannot be used; None if it can."""
    if not cuda_device_count():
        return "CuPy sees no GPU"
    if not _nccl().available:
        return f"CuPy does not find NCCL: pip install nvidia-nccl-cu{gpu().cuda.runtime.runtimeGetVersion() // 1000}"
    return None


def obstacle(places: Sequence[Place]) -> str | None:
    """Why processes, whose places are in order of rank, cannot use NCCL together; None if they can.

    >>> from tdt.distributed._nccl import Place, obstacle
    >>> obstacle([Place("a", "0000:01:00.0", 2, None), Place("a", "0000:02:00.0", 2, None)])
    >>> obstacle([Place("a", "0000:01:00.0", 1, None), Place("a", "0000:01:00.0", 1, None)])
    'ranks 0 and 1 on a, which see 1 GPU, share one (0000:01:00.0), but each must have its own'
    """
    users: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, place in enumerate(places):
        if place.missing is not None:
            return f"rank {rank} on {place.host}: {place.missing}"
        users[place.host, place.bus].append(rank)
    for (host, bus), ranks in users.items():
        if len(ranks) > 1:
            names = f"{', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
            count = places[ranks[0]].gpus
            visible = f"{count} {'GPU' if count == 1 else 'GPUs'}"
            return f"ranks {names} on {host}, which see {visible}, share one ({bus}), but each must have its own"
    return None


class GpuCommunicator(Communicator):
    """The processes of a group, each with a GPU of its own. Collectives run in a stream of their own.

    Created by all processes together.

    Args:
        host: their collectives over MPI.
        index: the GPU of this process.
    Raises:
        DistBackendError: in all processes, if NCCL is missing in one of them, or two share a GPU.
    """

    def __init__(self, host: Communicator, index: int) -> None:
        super().__init__(device=device("cuda", index))
        self.rank, self.size, self.alone = host.rank, host.size, False
        if (problem := obstacle(host.exchanged(Place.of_gpu(index), "places of GPUs"))) is not None:
            raise DistBackendError(f"NCCL cannot connect the GPUs: {problem}")
        identity = host.exchanged(_nccl().get_unique_id() if host.rank == 0 else None, "NCCL's unique id")[0]
        with self.xp.cuda.Device(index):
            self._nccl = _nccl().NcclCommunicator(self.size, identity, self.rank)
            self.stream = _stream(index)

    def begin(self, steps: Steps, name: str, timeout: float | None = None) -> Progress:
        for progress in tuple(self.begun):
            progress.poll()  # lets go of the arrays of those that are done
        return _InStream(steps, name, timeout, self)

    def close(self) -> None:
        """Wait for all collectives, and free what NCCL holds."""
        self.stream.synchronize()
        self._nccl.destroy()

    def check(self) -> None:
        """Raise DistBackendError if NCCL has failed since a collective began."""
        try:
            self._nccl.check_async_error()
        except _nccl().NcclError as error:
            raise DistBackendError(f"NCCL: {error}") from error

    def barrier(self) -> Steps:
        return self.broadcast(self.empty(1, "u1"), 0)

    def broadcast(self, array: Array, root: int) -> Steps:
        return self._at_once([("broadcast", array, root)])

    def all_gather(self, array: Array, into: Array, bounds: Sequence[int] | None = None) -> Steps:
        bounds = [array.size * i for i in range(self.size + 1)] if bounds is None else bounds
        parts = _parts(into, bounds)
        if _pointer(parts[self.rank]) != _pointer(array):
            parts[self.rank][...] = array
        return self._at_once([("broadcast", part, rank) for rank, part in enumerate(parts)])

    def _gather_second(self, array: Array, bounds: Sequence[int], turn: _Turn) -> Steps:
        return self.all_gather(_parts(array, bounds)[self.rank], array, bounds)  # a stream keeps the order

    def all_to_all(self, parts: Array, bounds: Sequence[int], into: Array, into_bounds: Sequence[int]) -> Steps:
        calls = [("send", part, rank) for rank, part in enumerate(_parts(parts, bounds))]
        return self._at_once(calls + [("recv", part, rank) for rank, part in enumerate(_parts(into, into_bounds))])

    def gather(self, array: Array, into: Array | None, root: int) -> Steps:
        received = () if into is None else into.reshape(self.size, -1)
        return self._at_once([("send", array, root), *(("recv", part, rank) for rank, part in enumerate(received))])

    def scatter(self, parts: Array | None, into: Array, root: int) -> Steps:
        sent = () if parts is None else parts.reshape(self.size, -1)
        return self._at_once([*(("send", part, rank) for rank, part in enumerate(sent)), ("recv", into, root)])

    def _at_once(self, calls: list[Call]) -> Steps:
        """Put a group of calls into the current stream. Values of any dtype are moved as bytes."""
        nccl, stream = _nccl(), self.xp.cuda.get_current_stream().ptr
        nccl.groupStart()
        try:
            for name, array, peer in calls:
                if array.size:  # all processes know which parts are empty
                    pointers = [_pointer(array)] * (2 if name == "broadcast" else 1)
                    getattr(self._nccl, name)(*pointers, array.nbytes, nccl.NCCL_UINT8, peer, stream)
                    self.bytes += array.nbytes
        finally:
            nccl.groupEnd()
        yield from ()


class _InStream(Progress):
    """A collective in the communicator's stream, behind the work that the current stream has when it begins.

    `wait` lets the current stream wait for its end, and the host only where it is given a time.
    """

    _communicator: GpuCommunicator

    def _advance(self) -> None:
        to = self._communicator
        # Kept until the end: memory that is freed here, CuPy gives to other work of the stream that it was allocated in.
        self._operands = inspect.getgeneratorlocals(self._steps)
        with to.xp.cuda.Device(to.device.index):
            to.stream.wait_event(_event_of(to.xp.cuda.get_current_stream()))
            with to.stream:
                for _ in self._steps:
                    raise AssertionError("a collective on GPUs has nothing to wait for")
                self._end = _event_of(to.stream)

    def poll(self) -> bool:
        if not self.done:
            self._communicator.check()
            if self._end.done:
                self._is_done()
        return self.done

    def wait(self, timeout: float | None = None) -> None:
        if timeout is not None:
            super().wait(timeout)
        elif not self.done:
            to = self._communicator
            with to.xp.cuda.Device(to.device.index):
                to.xp.cuda.get_current_stream().wait_event(self._end)
            self._is_done()

    def _is_done(self) -> None:
        self.done = True
        self._operands = {}
        self._communicator.begun.remove(self)


def _event_of(stream: Any) -> Any:
    """An event after all work that a stream has now."""
    event = gpu().cuda.Event(disable_timing=True)
    event.record(stream)
    return event


def _pointer(array: Any) -> int:
    return array.data.ptr


def _parts(array: Array, bounds: Sequence[int]) -> list[Array]:
    return [array[a:b] for a, b in itertools.pairwise(bounds)]


@functools.cache
def _stream(index: int) -> Any:
    """The stream of collectives of a GPU, for all groups: NCCL requires that their calls never overtake each other."""
    with gpu().cuda.Device(index):
        return gpu().cuda.Stream(non_blocking=True)
