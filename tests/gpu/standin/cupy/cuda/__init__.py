"""Devices, streams and events of the stand-in."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import types
from collections import deque

import numpy as np

from cupy.cuda import memory as memory


class CUDARuntimeError(RuntimeError):
    pass


runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=lambda: int(os.environ.get("CUPY_STANDIN_GPUS", "1")),
    runtimeGetVersion=lambda: 13000,
    getDeviceProperties=lambda index: {
        "name": b"stand-in",
        "major": 9,
        "minor": 0,
        "totalGlobalMem": memory.capacity(),
        "multiProcessorCount": 1,
    },  # fmt: skip
    memGetInfo=lambda: (memory.capacity() - memory.pool.total_bytes(), memory.capacity()),
    driverGetVersion=lambda: 13000,
    getDevice=lambda: Device.current.ids[-1],
    deviceCanAccessPeer=lambda device, peer: 1,
    streamCaptureModeRelaxed=2,
)
MemoryHook, MemoryPool = memory.MemoryHook, memory.MemoryPool
set_allocator, get_allocator, using_allocator = memory.set_allocator, memory.get_allocator, memory.using_allocator


class function:  # noqa: N801 - a module of CuPy's
    class CPointer:
        """The address of a kernel's argument."""

        def __init__(self, p=0):
            self.ptr = p


def alloc(size):
    from cupy._array import ndarray

    return ndarray(size, np.uint8).data


def alloc_pinned_memory(size):
    return memory.pin(np.empty(size, np.uint8))


class _Current(threading.local):
    """The GPUs that a thread has made the current one, the last of which is."""

    def __init__(self):
        self.ids = [0]


class Device(contextlib.AbstractContextManager):
    """A GPU, the current one of this thread by default."""

    current = _Current()

    def __init__(self, device=None):
        self.id = Device.current.ids[-1] if device is None else int(getattr(device, "id", device))
        if not 0 <= self.id < runtime.getDeviceCount():
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    @property
    def pci_bus_id(self):
        return os.environ.get("CUPY_STANDIN_BUS") or f"0000:{self.id:02x}:00.0"

    compute_capability, cublas_handle = "90", 1

    def __int__(self):
        return self.id

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __enter__(self):
        Device.current.ids.append(self.id)
        return self

    def __exit__(self, *error):
        Device.current.ids.pop()

    def use(self):
        Device.current.ids[-1] = self.id

    def synchronize(self):
        _waits("Device.synchronize")
        for stream in Stream.all:
            stream.run_to(stream.put_count)


class Stream(contextlib.AbstractContextManager):
    """Work that is done in order, when something waits for it; that of the default stream at once."""

    all: list[Stream] = []
    current: list[Stream] = []

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.device_id = Device().id
        self.is_late, self.waiting, self.done_count, self.put_count = not null, deque(), 0, 0
        self.waited_for = -1  # what it knows of the default stream's work
        self.captured = None  # the work of the graph that it captures
        self.held, self.held_by_graph = [], []  # memory that work which is not done may use, or that of the graph
        self.allocated = {}  # in the capture: the arrays that each pool has allocated
        self.reused = []  # memory of those before which the pool had freed some, and may have given it to them
        Stream.all.append(self)
        self.ptr = len(Stream.all)

    def put(self, work):
        if self.captured is not None:
            self.captured.append(work)
            return
        self.put_count += 1
        if self.is_late:
            self.waiting.append(work)
        else:
            self.done_count += 1
            work()

    def hold(self, memory):
        if self.captured is not None:
            self.held_by_graph.append(memory)
        elif self.is_late:
            self.held.append(memory)

    def allocate(self, array, memory, pool):
        """Take note of memory of an array, both by weak references, that a capture has allocated in a pool."""
        if self.captured is not None:
            before = self.allocated.setdefault(pool, [])
            if any(each() is None for each in before):
                self.reused.append(memory)
            before.append(array)

    def run_to(self, count):
        while self.done_count < count:
            self.done_count += 1
            self.waiting.popleft()()
        if not self.waiting:
            self.held.clear()

    def synchronize(self):
        self._refuse("wait for the stream")
        self.run_to(self.put_count)

    def begin_capture(self, mode=None):
        if not self.is_late or self.captured is not None:
            raise CUDARuntimeError(
                "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
            )
        self.captured, self.allocated, self.reused = [], {}, []

    def end_capture(self):
        graph = Graph(self.captured, self.held_by_graph, self.reused)
        self.captured, self.held_by_graph = None, []
        return graph

    def is_capturing(self):
        return self.captured is not None

    def _refuse(self, what):
        if self.captured is not None:
            raise RuntimeError(f"the current stream is capturing, so it cannot {what}")

    @property
    def done(self):
        return not self.waiting

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        if self.is_late and not event.stream.is_late:
            self.waited_for = event.count
        elif event.stream is not self:
            self.put(lambda: event.stream.run_to(event.count))

    def use(self):
        Stream.current[:] = [self]

    def __enter__(self):
        Stream.current.append(self)
        return self

    def __exit__(self, *error):
        Stream.current.pop()


Stream.null = Stream(null=True)


class Graph:
    """Captured work, which each launch puts into a stream again.

    A launch first overwrites memory that was allocated after some of its pool had been freed in the capture: in CuPy's pool they
    may be the same, and then earlier kernels of the graph write there.
    """

    def __init__(self, work, memory, reused):
        self._work, self._memory, self._reused = work, memory, reused

    def launch(self, stream=None):
        from cupy._array import note

        note("launches", "graph")
        for reference in self._reused:
            (stream or get_current_stream()).put(functools.partial(memory.overwrite, reference))
        for work in self._work:
            (stream or get_current_stream()).put(work)


def _waits(name):
    from cupy._array import note

    note("syncs", name)


def get_elapsed_time(start, end):
    end.synchronize()
    return 0.01


def get_current_stream(device_id=-1):
    """Each GPU has one; the default one stands for all."""
    index = Device().id if device_id < 0 else device_id
    of = (stream for stream in reversed(Stream.current) if not stream.is_late or stream.device_id == index)
    return next(of, Stream.null)


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.stream, self.count, self.device_id = Stream.null, 0, Device().id

    def record(self, stream=None):
        self.stream = stream or get_current_stream()
        if self.device_id != (self.stream.device_id if self.stream.is_late else Device().id):
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        self.count = self.stream.put_count

    @property
    def done(self):
        self.stream.run_to(self.count)  # the other processes ask too
        return True

    def synchronize(self):
        _waits("Event.synchronize")
        self.stream.run_to(self.count)
