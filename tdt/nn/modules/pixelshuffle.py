"""Layers that move channels into pixels and back."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class PixelShuffle(Module):
    """(*, C r², H, W) to (*, C, H r, W r), r being `upscale_factor` (Shi et al., 2016).

    >>> import tdt
    >>> tdt.nn.PixelShuffle(2)(tdt.zeros(1, 8, 3, 3)).shape
    tdt.Size([1, 2, 6, 6])
    """

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(*, C, H r, W r) to (*, C r², H, W), r being `downscale_factor`.

    >>> import tdt
    >>> tdt.nn.PixelUnshuffle(2)(tdt.zeros(1, 2, 6, 6)).shape
    tdt.Size([1, 8, 3, 3])
    """

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
