"""Types of the arguments that constructors of layers share."""

from __future__ import annotations

from typing import TypeAlias

from tdt._backend.device import device
from tdt._core.dtype import dtype

Device: TypeAlias = device | str | int | None  # None: the default device
Dtype: TypeAlias = dtype | None  # None: the default dtype
