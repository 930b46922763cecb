"""NCCL's functions over MPI, on memory of the stand-in's GPU. It refuses what NCCL refuses, where NCCL may also hang or crash."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from mpi4py import MPI

from cupy.cuda import Device, Stream, memory

available = not os.environ.get("CUPY_STANDIN_NO_NCCL")
NCCL_UINT8 = 1
WAIT = 60  # seconds for the other processes of a communicator
_group: list | None = None  # calls since groupStart


class NcclError(RuntimeError):
    pass


def get_unique_id() -> bytes:
    return os.urandom(16).hex().encode().ljust(128, b"\0")


def groupStart():
    global _group
    if _group is not None:
        raise NcclError("NCCL_ERROR_INVALID_USAGE: groupStart twice")
    _group = []


def groupEnd():
    global _group
    if _group is None:
        raise NcclError("NCCL_ERROR_INVALID_USAGE: groupEnd without groupStart")
    calls, _group = _group, None
    for stream in {stream for stream, _, _ in calls}:
        own = [(begin, end) for of, begin, end in calls if of == stream]
        Stream.all[stream - 1].put(lambda own=own: _run(own))


def _run(calls):
    """All of a group at once: NCCL lets none of its calls wait for another."""
    requests = [begin() for begin, _ in calls]
    for (_, end), begun in zip(calls, requests, strict=True):
        end(begun)


class NcclCommunicator:
    def __init__(self, ndev: int, commId: bytes, rank: int):
        if not isinstance(commId, bytes) or len(commId) != 128 or not 0 <= rank < ndev:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT: invalid argument")
        name = commId.rstrip(b"\0").decode()
        base = Path(tempfile.gettempdir(), f"nccl-{name}")
        world, bus = MPI.COMM_WORLD.Get_rank(), Device().pci_bus_id
        Path(f"{base}.{rank}.new").write_text(f"{world} {bus}")
        Path(f"{base}.{rank}.new").rename(f"{base}.{rank}")
        until, members = time.monotonic() + WAIT, []
        for other in range(ndev):
            while not Path(f"{base}.{other}").exists():
                if time.monotonic() > until:
                    raise NcclError(f"NCCL_ERROR_SYSTEM_ERROR: rank {other} did not come")
                time.sleep(0.001)
            members.append(Path(f"{base}.{other}").read_text().split())
        if len({place for _, place in members}) < ndev:
            raise NcclError("NCCL_ERROR_INVALID_USAGE: Duplicate GPU detected")
        self._members, self._rank, self._tag = [int(number) for number, _ in members], rank, int(name[:4], 16) % 30000
        self._open = True

    def _add(self, stream: int, begin, end):
        if not self._open:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT: the communicator is destroyed")
        if _group is None:
            Stream.all[stream - 1].put(lambda: end(begin()))
        else:
            _group.append((stream, begin, end))

    def _memory(self, pointer: int, count: int, datatype: int, peer: int, stream: int):
        if datatype != NCCL_UINT8 or not 0 <= peer < len(self._members) or not 0 < stream <= len(Stream.all):
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT: invalid argument")
        if memory.find(pointer, count) is None:
            raise NcclError("NCCL_ERROR_UNHANDLED_CUDA_ERROR: the buffer is not memory of a GPU")
        of = Stream.all[stream - 1]
        if of.is_late and of.waited_for < Stream.null.put_count:
            raise NcclError("the stream has not waited for the default stream, whose work the call may depend on")

        def at():
            if (found := memory.find(pointer, count)) is None:
                raise NcclError("the buffer was freed before the call was done")
            return found

        return at

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int):
        buffer = self._memory(sendbuf, count, datatype, peer, stream)
        to = self._members[peer]
        self._add(stream, lambda: MPI.COMM_WORLD.Isend(buffer().copy(), to, self._tag), lambda request: request.Wait())

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int):
        buffer = self._memory(recvbuf, count, datatype, peer, stream)
        of = self._members[peer]

        def end(request):
            request.Wait(status := MPI.Status())
            if status.Get_count() != count:
                raise NcclError(f"{count} bytes are expected, and {status.Get_count()} were sent")

        self._add(stream, lambda: MPI.COMM_WORLD.Irecv(buffer(), of, self._tag), end)

    def broadcast(self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int):
        self._memory(recvbuff, count, datatype, root, stream)
        if sendbuff != recvbuff:
            raise NcclError("the stand-in broadcasts in place alone")
        if self._rank != root:
            self.recv(recvbuff, count, datatype, root, stream)
            return
        for peer in range(len(self._members)):
            if peer != root:
                self.send(sendbuff, count, datatype, peer, stream)

    def check_async_error(self):
        pass

    def destroy(self):
        self._open = False
