"""`torch.accelerator`: functions for the GPU of this machine, whatever its vendor.

>>> import tdt
>>> device = tdt.accelerator.current_accelerator() or "cpu"
>>> tdt.ones(2, device=device).sum().item()
2.0
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tdt import cuda
from tdt._backend.device import device

__all__ = [
    "current_accelerator", "current_device_index", "current_stream", "device_count", "device_index", "empty_cache",
    "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "memory_stats", "reset_peak_memory_stats", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

is_available = cuda.is_available
device_count = cuda.device_count


def _of_a_gpu(function: F) -> F:
    """The function of `tdt.cuda`, with an accelerator's RuntimeError where there is no GPU."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not is_available():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return function(*args, **kwargs)

    checked.__module__ = __name__
    return cast(F, checked)


current_device_index = _of_a_gpu(cuda.current_device)
current_stream = _of_a_gpu(cuda.current_stream)
empty_cache = _of_a_gpu(cuda.empty_cache)
get_memory_info = _of_a_gpu(cuda.mem_get_info)
max_memory_allocated = _of_a_gpu(cuda.max_memory_allocated)
max_memory_reserved = _of_a_gpu(cuda.max_memory_reserved)
memory_allocated = _of_a_gpu(cuda.memory_allocated)
memory_reserved = _of_a_gpu(cuda.memory_reserved)
memory_stats = _of_a_gpu(cuda.memory_stats)
reset_peak_memory_stats = _of_a_gpu(cuda.reset_peak_memory_stats)
set_device_index = _of_a_gpu(cuda.set_device)
set_stream = _of_a_gpu(cuda.set_stream)
synchronize = _of_a_gpu(cuda.synchronize)


class device_index(cuda.device):
    """Context manager that makes the GPU of this index current; None changes nothing."""

    def __enter__(self) -> None:
        if self._requested is not None and not is_available():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        super().__enter__()


def current_accelerator(check_available: bool = False) -> device | None:
    """The device `cuda` where CuPy sees a GPU, else None."""
    return device("cuda") if is_available() else None
