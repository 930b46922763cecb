"""PyTorch's flags of cuDNN, which computes convolutions and half-precision attention on a GPU where it is installed.

`enabled`, `allow_tf32` and `fp32_precision` take effect. Results are deterministic with every value of the other flags, which are
stored: of cuDNN's engines only those are used that always give the same bits, and none is selected by timing.

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

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tdt._kernels import SWITCHES, cudnn_version

if TYPE_CHECKING:
    from tdt._core.tensor import Tensor

enabled: bool
allow_tf32: bool
benchmark = False
benchmark_limit: int | None = None
deterministic = False
fp32_precision = "none"

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "fp32_precision",
           "is_acceptable", "is_available", "set_flags", "version"]  # fmt: skip
_DTYPES = ("float32", "float16", "bfloat16")


class _Flags(ModuleType):
    """This module, with the flags that kernels read."""

    @property
    def enabled(self) -> bool:
        """Whether convolutions and attention on a GPU may be cuDNN's."""
        return SWITCHES.cudnn

    @enabled.setter
    def enabled(self, on: bool) -> None:
        SWITCHES.cudnn = on

    @property
    def allow_tf32(self) -> bool:
        """Whether cuDNN may round the operands of float32 convolutions to ten bits of the mantissa."""
        return SWITCHES.conv_tf32

    @allow_tf32.setter
    def allow_tf32(self, on: bool) -> None:
        SWITCHES.conv_tf32 = on

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "fp32_precision" and value != "none":
            SWITCHES.conv_tf32 = value == "tf32"


_module = sys.modules[__name__]
_module.__class__ = _Flags


def is_available() -> bool:
    """Whether there is a GPU, and cuDNN 9 for the CUDA that CuPy uses, which supports it."""
    return version() is not None


def version() -> int | None:
    """cuDNN's version, as 91002 for 9.10.2; None where it is not available."""
    return cudnn_version()


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN may compute with a tensor: it is enabled and available, and takes the tensor's device and dtype."""
    return SWITCHES.cudnn and tensor.is_cuda and str(tensor.dtype).rpartition(".")[2] in _DTYPES and is_available()


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
    before = tuple(getattr(_module, name) for name in names)
    values = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision)
    for name, value in zip(names, values, strict=True):
        if value is not None:
            setattr(_module, name, value)
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
