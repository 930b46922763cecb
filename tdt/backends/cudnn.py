"""PyTorch's flags of cuDNN, which tdt does not use: they store their values and have no effect.

All operations are deterministic without a flag: tdt selects kernels by shape, dtype and device, never by timing.

>>> import tdt
>>> tdt.backends.cudnn.benchmark = True
>>> with tdt.backends.cudnn.flags(benchmark=False):
...     tdt.backends.cudnn.benchmark
False
>>> tdt.backends.cudnn.benchmark
True
>>> tdt.backends.cudnn.benchmark = False
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdt._core.tensor import Tensor

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "fp32_precision",
           "is_acceptable", "is_available", "set_flags", "version"]  # fmt: skip


def is_available() -> bool:
    """Whether cuDNN is in use: never."""
    return False


def version() -> int | None:
    """cuDNN's version: None, since it is not in use."""
    return None


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN could compute with a tensor: never."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Set the flags that are not None, and return the previous values of all six."""
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision")
    before = tuple(globals()[name] for name in names)
    values = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision)
    globals().update({name: value for name, value in zip(names, values, strict=True) if value is not None})
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """The block in which the flags have these values."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        globals()["benchmark_limit"] = before[2]
        set_flags(*before)
