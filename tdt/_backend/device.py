"""Devices: `cpu`, and `cuda:N` where CuPy finds a GPU."""

from __future__ import annotations

import functools
import threading
from typing import Any

KINDS = ("cpu", "cuda", "meta")


class device:
    """The device of a tensor: `device("cpu")`, `device("cuda", 1)`, `device("cuda:1")`.

    As a context manager it sets the default device of tensor factories.

    Raises:
        RuntimeError: when the name is not one of cpu, cuda, cuda:N, meta.

    >>> import tdt
    >>> tdt.device("cuda:1").index
    1
    """

    __slots__ = ("type", "index")

    def __init__(self, type: Any, index: int | None = None):
        if isinstance(type, device):
            type, index = type.type, type.index
        elif isinstance(type, int):
            type, index = "cuda", type
        kind, colon, number = type.partition(":")
        if kind not in KINDS or (colon and not number.isdigit()):
            raise RuntimeError(
                f"Expected one of {', '.join(KINDS)} device type at start of device string: {type!r}; "
                "write 'cpu', 'cuda' or 'cuda:0'"
            )
        if colon and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        self.type: str = kind
        self.index: int | None = int(number) if colon else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + ("" if self.index is None else f", index={self.index}") + ")"

    def __reduce__(self) -> tuple:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        _default.before.append(_default.device)
        _default.device = self
        return self

    def __exit__(self, *exc: object) -> None:
        _default.device = _default.before.pop()


CPU, META = device("cpu"), device("meta")


class _Default(threading.local):
    """Where this thread's factories make tensors that name no device; `before`: what the blocks around had."""

    device = CPU

    def __init__(self) -> None:
        self.before: list[device] = []


_default = _Default()


def get_default_device() -> device:
    """The default device of tensor factories.

    >>> import tdt
    >>> tdt.get_default_device()
    device(type='cpu')
    """
    return _default.device


def set_default_device(device: device | str | int | None) -> None:
    """Set the default device of tensor factories in this thread; None resets it to the CPU.

    >>> import tdt
    >>> tdt.set_default_device("cpu")
    """
    _default.device = CPU if device is None else as_device(device)


def as_device(value: Any) -> device:
    """`value` as a device; None is the default one."""
    if value is None:
        return _default.device
    if value.__class__ is str:
        return _named(value)
    return value if value.__class__ is device else device(value)


@functools.lru_cache
def _named(name: str) -> device:
    """The device of a name, one object for all calls."""
    found = device(name)
    return CPU if found == CPU else found
