"""Types of recurring parameters, for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tdt._backend.device import device

Number: TypeAlias = bool | int | float | complex
Device: TypeAlias = device | str | int | None
Dims: TypeAlias = int | Sequence[int] | None
Ints: TypeAlias = int | Sequence[int]
