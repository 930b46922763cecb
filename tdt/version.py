"""`torch.version`: version numbers. tdt is not built with CUDA or ROCm; CuPy has its own CUDA toolkit."""

from __future__ import annotations

import re

from tdt._about import __version__

cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
__all__ = ["__version__", "cuda", "debug", "hip", "xpu"]


class TorchVersion(str):
    """A version that compares by its numbers, with strings and with tuples.

    >>> from tdt.version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.4"
    True
    >>> TorchVersion("2.13.0+cpu") >= (2, 13)
    True
    """

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: object) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: object) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: object) -> bool:
        return _numbers(self) >= _numbers(other)


def _numbers(value: object) -> list[int]:
    """The release of a version, without zeros at its end: "2.4.0+cpu" → [2, 4]."""
    parts = value if isinstance(value, (tuple, list)) else re.split(r"[^\d.]", str(value).lstrip("v"))[0].split(".")
    numbers = [int(part) for part in parts if str(part).isdigit()]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


pytorch = TorchVersion("2.13.0")  # the PyTorch release whose API tdt implements; `torch.__version__` under tdt.as_torch
torchvision = TorchVersion("0.28.0")
