"""`torch.utils._foreach_utils`: queries by which PyTorch optimizers select an implementation.

>>> import tdt
>>> from tdt.optim._subclass import _group_tensors_by_device_and_dtype
>>> groups = _group_tensors_by_device_and_dtype([[tdt.ones(1), tdt.ones(1, dtype=tdt.float64)], [None, None]], True)
>>> [(str(device), dtype, indices) for (device, dtype), (lists, indices) in groups.items()]
[('cpu', tdt.float32, [0]), ('cpu', tdt.float64, [1])]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim._subclass import _group_tensors_by_device_and_dtype  # noqa: F401


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Types of devices on which `torch._foreach_*` is one kernel: none, each tensor is computed by itself."""
    return []


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _device_has_foreach_support(device: Any) -> bool:
    """Whether `torch._foreach_*` is one kernel on `device`: no."""
    return False


def _has_foreach_support(tensors: Sequence[Tensor], device: Any) -> bool:
    """Whether `torch._foreach_*` is one kernel for these tensors: no."""
    return False
