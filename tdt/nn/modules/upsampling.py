"""Resampling layers."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class Upsample(Module):
    """(N, C, *) resampled to `size`, or to `scale_factor` times its size; see `nn.functional.interpolate`.

    >>> import tdt
    >>> tdt.nn.Upsample(scale_factor=2)(tdt.rand(1, 3, 4, 4)).shape
    tdt.Size([1, 3, 8, 8])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
                 recompute_scale_factor: bool | None = None):  # fmt: skip
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor
        several = isinstance(scale_factor, tuple)
        self.scale_factor = (
            tuple(map(float, scale_factor)) if several else float(scale_factor) if scale_factor else None
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        by = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{by}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images (N, C, H, W) resampled by their nearest pixels: `Upsample` by its former name.

    >>> import tdt
    >>> tdt.nn.UpsamplingNearest2d(scale_factor=2)(tdt.rand(1, 3, 4, 4)).shape
    tdt.Size([1, 3, 8, 8])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Images (N, C, H, W) resampled linearly, their corner pixels where they were: `Upsample` by its former name.

    >>> import tdt
    >>> tdt.nn.UpsamplingBilinear2d(size=(3, 5))(tdt.rand(1, 3, 4, 4)).shape
    tdt.Size([1, 3, 3, 5])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
