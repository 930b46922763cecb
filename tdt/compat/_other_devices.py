"""What the modules of devices that tdt does not support answer: no device, sizes of 0, and an error for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def is_available() -> bool:
    """Whether there is such a device: never."""
    return False


def device_count() -> int:
    """The number of such devices: 0."""
    return 0


def no_bytes(device: Any = None) -> int:
    """Bytes of memory: 0 without a device."""
    return 0


def no_states() -> list[Any]:
    """The states of all devices' random generators: an empty list without a device."""
    return []


def nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing: there is no such device."""


def missing(name: str, backend: str, error: type[Exception]) -> Callable[..., NoReturn]:
    """A function that raises `error`, since a backend is missing."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise error(f"{name}: Torch not compiled with {backend} enabled; tdt computes on the CPU and on NVIDIA's GPUs")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Not offered: tdt does not compute on {backend} devices."
    return function
