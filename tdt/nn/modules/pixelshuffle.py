"""Layers that move channels into pixels and back."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class PixelShuffle(Module):
    """Moves channels into space: each r × r block of the result comes from r² channels, r being `upscale_factor`.

    Args:
        upscale_factor: factor of height and width.
    Shape: input (*, C r², H, W); result (*, C, H r, W r).
    Source: Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel CNN", 2016.

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
    """Moves space into channels, the inverse of `PixelShuffle`: each r × r block becomes r² channels, r being
    `downscale_factor`.

    Args:
        downscale_factor: divisor of height and width.
    Shape: input (*, C, H r, W r); result (*, C r², H, W).

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
