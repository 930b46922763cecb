"""PyTorch's older names for mixed precision on a GPU; `tdt.amp` has the newer ones."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from tdt import amp
from tdt._core.dtype import dtype, float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")


class autocast(amp.autocast):
    """Deprecated alias of `tdt.amp.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True) -> None:
        warnings.warn(
            "`torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """Deprecated alias of `tdt.amp.GradScaler("cuda", ...)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", *args, **kwargs)
