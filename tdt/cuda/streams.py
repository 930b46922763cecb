"""CUDA streams (ordered queues of work for a GPU) and events (markers in a stream)."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tdt._backend import gpu
from tdt._backend.device import device
from tdt._core.mode import waits_for_gpu
from tdt.cuda._devices import DeviceLike, current_device, index_of, is_available


class Stream:
    """A CUDA stream: a queue of work for a GPU. `with tdt.cuda.stream(s):` makes it the current stream.

    Raises:
        RuntimeError: when there is no GPU.
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
        """Wrap CuPy's `stream` on GPU `index`."""
        wrapped = cls.__new__(cls)
        wrapped._stream, wrapped.device_index = stream, index
        return wrapped

    @property
    def device(self) -> device:
        """The device of the stream."""
        return device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """The CUDA handle of the stream."""
        return self._stream.ptr

    def synchronize(self) -> None:
        """Wait until all work in the stream is done."""
        waits_for_gpu("Stream.synchronize()")
        with gpu().cuda.Device(self.device_index):  # each GPU has a default stream: the current one's is meant
            self._stream.synchronize()

    def query(self) -> bool:
        """Whether all work in the stream is done."""
        waits_for_gpu("Stream.query()")
        with gpu().cuda.Device(self.device_index):
            return self._stream.done

    def wait_event(self, event: Event) -> None:
        """Make all later work in the stream wait for `event`."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Make all later work in the stream wait for all current work of `stream`."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event (a new one by default) in the stream, and return it."""
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
    """A marker in a stream, to synchronize or, with enable_timing=True, to measure time.

    It belongs to the GPU of the stream in which it is recorded first; before that, nothing waits for it.

    Raises:
        RuntimeError: when there is no GPU.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if not is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event: CuPy sees no GPU")
        self._options = blocking, not enable_timing, interprocess
        self._event: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Record the event in `stream` (default: the current one)."""
        stream = stream or current_stream()
        with gpu().cuda.Device(stream.device_index):
            if self._event is None:
                self._event = gpu().cuda.Event(*self._options)
            self._event.record(stream._stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Make all later work in `stream` (default: the current one) wait for the event."""
        if self._event is not None:
            stream = stream or current_stream()
            with gpu().cuda.Device(stream.device_index):
                stream._stream.wait_event(self._event)

    def query(self) -> bool:
        """Whether the work before the event is done."""
        waits_for_gpu("Event.query()")
        return self._event is None or self._event.done

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        waits_for_gpu("Event.synchronize()")
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`; both need enable_timing=True and must be done.

        Raises:
            ValueError: when one of them was not recorded.
        """
        waits_for_gpu("Event.elapsed_time()")
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return gpu().cuda.get_elapsed_time(self._event, end_event._event)


def current_stream(device: DeviceLike = None) -> Stream:
    """The current stream of a GPU."""
    cupy, index = gpu(), index_of(device)
    with cupy.cuda.Device(index):
        return Stream._of(cupy.cuda.get_current_stream(), index)


def default_stream(device: DeviceLike = None) -> Stream:
    """The default stream of a GPU."""
    return Stream._of(gpu().cuda.Stream.null, index_of(device))


def set_stream(stream: Stream | None) -> None:
    """Set the current stream; None changes nothing."""
    if stream is not None:
        gpu().cuda.Device(stream.device_index).use()
        stream._stream.use()


class StreamContext(AbstractContextManager[None]):
    """Context manager that makes a stream and its GPU current; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._stack = ExitStack()
        if self.stream is not None:
            if self.stream.device_index != current_device():
                self._stack.enter_context(gpu().cuda.Device(self.stream.device_index))
            self._stack.enter_context(self.stream._stream)

    def __exit__(self, *error: Any) -> None:
        self._stack.close()


stream = StreamContext
