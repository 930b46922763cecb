"""`torch.get_device_module`, and the streams and events of any device: `torch.Stream` and `torch.Event`.

>>> import tdt
>>> tdt.get_device_module("cpu").current_device()
'cpu'
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from tdt import accelerator
from tdt._backend.device import as_device, device
from tdt.compat import cpu
from tdt.cuda import streams

__all__ = ["Event", "Stream", "get_device_module"]

_MODULES = {
    "cpu": "tdt.compat.cpu",
    "cuda": "tdt.cuda",
    "mps": "tdt.compat.mps",
    "mtia": "tdt.compat.mtia",
    "xpu": "tdt.compat.xpu",
}


def get_device_module(device: Any = None) -> ModuleType:
    """The module of functions for a device: `tdt.cuda`, or `tdt.cpu`.

    Args:
        device: a device or its name; None for the GPU where there is one, else the CPU.
    Raises:
        RuntimeError: when there is no such kind of device, or `device` is neither a device nor a name.

    >>> import tdt
    >>> tdt.get_device_module("cuda") is tdt.cuda
    True
    """
    if device is None:
        kind = (accelerator.current_accelerator() or as_device("cpu")).type
    elif isinstance(device, str):
        kind = device.partition(":")[0]
    elif isinstance(device, type(as_device("cpu"))):
        kind = device.type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind not in _MODULES:
        raise RuntimeError(f"Expected one of {', '.join(_MODULES)} device type at start of device string: {device}")
    return importlib.import_module(_MODULES[kind])


def _where(place: Any) -> device:
    if place is None:
        return accelerator.current_accelerator() or as_device("cpu")
    return as_device(place)


class Stream:
    """A stream of work of a device: on a GPU a `tdt.cuda.Stream`, on the CPU one that is always done.

    Args:
        device: by default the GPU where there is one, else the CPU.

    >>> import tdt
    >>> tdt.Stream(device="cpu").query()
    True
    """

    def __new__(cls, device: Any = None, *, priority: int = 0) -> Any:
        where = _where(device)
        if where.type == "cuda":
            return streams.Stream(where, priority)
        stream = super().__new__(cls)
        stream.device, stream.device_index, stream.stream_id = where, -1, 0
        return stream

    device: Any
    device_index: int
    stream_id: int

    def query(self) -> bool:
        """Whether all work of the stream is done: True."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def wait_stream(self, other: Any) -> None:
        """Return at once."""

    def wait_event(self, event: Any) -> None:
        """Return at once."""

    def record_event(self, event: Any = None) -> Any:
        """An event that is done."""
        return Event(self.device) if event is None else event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"
        )


class Event(cpu.Event):
    """A marker in a stream of a device: on a GPU a `tdt.cuda.Event`, on the CPU one that is always reached.

    Args:
        device: by default the GPU where there is one, else the CPU.
        enable_timing, blocking, interprocess: those of `tdt.cuda.Event`.

    >>> import tdt
    >>> tdt.Event("cpu").query()
    True
    """

    def __new__(
        cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        where = _where(device)
        if where.type == "cuda":
            return streams.Event(enable_timing, blocking, interprocess)
        event = super().__new__(cls)
        event.device = where
        return event

    device: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        pass
