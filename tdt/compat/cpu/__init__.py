"""`torch.cpu`: the functions of a device's module, for the CPU, whose work is done when a call returns.

>>> import tdt
>>> tdt.cpu.is_available(), tdt.cpu.device_count(), tdt.cpu.current_device()
(True, 1, 'cpu')
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tdt.compat.cpu import amp

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """A stream of work, which on the CPU is always done.

    Args:
        priority: without effect.
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        """Return at once."""

    def record_event(self) -> None:
        """Return at once."""

    def wait_event(self, event: Event) -> None:
        """Return at once."""


class Event:
    """A marker in a stream, which on the CPU is always reached."""

    def query(self) -> bool:
        """Whether the work before the event is done: True."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""

    def wait(self, stream: Stream | None = None) -> None:
        """Return at once."""


_default = _current = Stream()


class StreamContext(AbstractContextManager[None]):
    """Context manager that makes a stream current.

    >>> import tdt
    >>> stream = tdt.cpu.Stream()
    >>> with tdt.cpu.stream(stream):
    ...     tdt.cpu.current_stream() is stream
    True
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        global _current
        self._before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, *error: object) -> None:
        global _current
        _current = self._before


def stream(stream: Stream | None) -> StreamContext:
    """A context in which `stream` is the current one; None changes nothing."""
    return StreamContext(stream)


def is_available() -> bool:
    """Whether there is a CPU: True."""
    return True


is_initialized = is_available


def device_count() -> int:
    """The number of CPU devices: 1."""
    return 1


def current_device() -> str:
    """The name of the current device: "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one CPU device."""


def current_stream(device: Any = None) -> Stream:
    """The current stream."""
    return _current


def synchronize(device: Any = None) -> None:
    """Return at once: the work of a call is done when it returns."""
