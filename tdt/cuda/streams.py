"""Streams, in which a GPU works through what it is told in order, and events, which mark places in them."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tdt._backend import gpu
from tdt.cuda._devices import DeviceLike, current_device, index_of, is_available


class Stream:
    """A queue of work for a GPU, beside others. `with tdt.cuda.stream(s):` puts work into it.

    RuntimeError without a GPU.
    """

    def __init__(self, device: DeviceLike = None, priority: int = 0) -> None:
        if not is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support: CuPy sees no GPU")
        cupy = gpu()
        self.device_index = index_of(device)
        with cupy.cuda.Device(self.device_index):
            self._stream = cupy.cuda.Stream(non_blocking=True, priority=priority)

    @classmethod
    def _of(cls, stream: Any, index: int) -> Stream:
        """CuPy's `stream` on GPU `index`."""
        made = cls.__new__(cls)
        made._stream, made.device_index = stream, index
        return made

    @property
    def device(self) -> Any:
        """The GPU that it belongs to."""
        from tdt._backend.device import device

        return device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """CUDA's own handle."""
        return self._stream.ptr

    def synchronize(self) -> None:
        """Wait until all work in it is done."""
        self._stream.synchronize()

    def query(self) -> bool:
        """Whether all work in it is done."""
        return self._stream.done

    def wait_event(self, event: Event) -> None:
        """Let what comes next in it wait for `event`."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let what comes next in it wait for all that is in `stream` now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Mark the place reached now, with a new event if none is given, and return it."""
        event = event or Event()
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.cuda_stream, self.device_index) == (
            other.cuda_stream,
            other.device_index,
        )

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream: to wait for, or with enable_timing=True to measure the milliseconds between two.

    RuntimeError without a GPU.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if not is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event: CuPy sees no GPU")
        self._event = gpu().cuda.Event(blocking, not enable_timing, interprocess)

    def record(self, stream: Stream | None = None) -> None:
        """Set the mark at the place that `stream`, by default the current one, has reached."""
        self._event.record((stream or current_stream())._stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let what comes next in `stream`, by default the current one, wait for the mark."""
        (stream or current_stream())._stream.wait_event(self._event)

    def query(self) -> bool:
        """Whether the work before the mark is done."""
        return self._event.done

    def synchronize(self) -> None:
        """Wait until the work before the mark is done."""
        self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to `end_event`; both were made with enable_timing=True and are done."""
        return gpu().cuda.get_elapsed_time(self._event, end_event._event)


def current_stream(device: DeviceLike = None) -> Stream:
    """The stream that takes a GPU's work now."""
    cupy, index = gpu(), index_of(device)
    with cupy.cuda.Device(index):
        return Stream._of(cupy.cuda.get_current_stream(), index)


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that takes a GPU's work unless another one is chosen."""
    return Stream._of(gpu().cuda.Stream.null, index_of(device))


def set_stream(stream: Stream | None) -> None:
    """Choose the stream that takes the work from now on; None changes nothing."""
    if stream is not None:
        gpu().cuda.Device(stream.device_index).use()
        stream._stream.use()


class StreamContext(AbstractContextManager[None]):
    """The block whose work goes into a stream, on its GPU; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._inside = ExitStack()
        if self.stream is not None:
            if self.stream.device_index != current_device():
                self._inside.enter_context(gpu().cuda.Device(self.stream.device_index))
            self._inside.enter_context(self.stream._stream)

    def __exit__(self, *error: Any) -> None:
        self._inside.close()


stream = StreamContext
