"""Types of the arguments that constructors of layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tdt._backend.device import device
from tdt._core.dtype import dtype

if TYPE_CHECKING:
    from tdt.nn.modules.module import Module

Device: TypeAlias = device | str | int | None  # None: the default device
Dtype: TypeAlias = dtype | None  # None: the default dtype
M = TypeVar("M", bound="Module")
