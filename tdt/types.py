"""The types that programs written for PyTorch annotate with: `from torch.types import Device, Number`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

from tdt import Tensor
from tdt._backend.device import device
from tdt._core.aliases import Device
from tdt._core.dtype import dtype
from tdt._core.size import Size

__all__ = ["Device", "FileLike", "Number", "Size", "Storage"]

Number: TypeAlias = int | float | bool
FileLike: TypeAlias = str | os.PathLike[str]
Storage: TypeAlias = object
_bool, _int, _float, _complex = bool, int, float, complex
_Number = (int, float, bool)
_dtype, _device, _size = dtype, device, Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
