"""`torch.accelerator`: functions for the GPU of this machine, whatever its vendor.

>>> import tdt
>>> device = tdt.accelerator.current_accelerator() or "cpu"
>>> tdt.ones(2, device=device).sum().item()
2.0
"""

from __future__ import annotations

from tdt import cuda
from tdt._backend.device import device
from tdt._core.aliases import Device

__all__ = ["current_accelerator", "current_device_index", "device_count", "is_available", "set_device_index",
           "synchronize"]  # fmt: skip

is_available = cuda.is_available
device_count = cuda.device_count
current_device_index = cuda.current_device
set_device_index = cuda.set_device


def current_accelerator(check_available: bool = False) -> device | None:
    """The device `cuda` where CuPy sees a GPU, else None."""
    return device("cuda") if is_available() else None


def synchronize(device: Device = None, /) -> None:
    """Wait until a GPU has finished all submitted work."""
    cuda.synchronize(device)
