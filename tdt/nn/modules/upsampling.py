"""Resampling layers."""

from __future__ import annotations

from tdt._core.aliases import Ints
from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class Upsample(Module):
    """Resamples signals, images or volumes to a given size or by a given factor.

    Args:
        size: spatial sizes of the result, one number for all or one each.
        scale_factor: the same as a factor of the input's; give one of the two.
        mode: "nearest", "linear" (3-d input), "bilinear" and "bicubic" (4-d input), "trilinear" (5-d input).
        align_corners: whether the corner pixels' centres, instead of their outer corners, stay in place.
        recompute_scale_factor: compute the factor again from the rounded sizes.
    Shape: input (N, C, *); result (N, C, *size).

    >>> import tdt
    >>> tdt.nn.Upsample(scale_factor=2)(tdt.rand(1, 3, 4, 4)).shape
    tdt.Size([1, 3, 8, 8])
    """

    def __init__(
        self,
        size: Ints | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor
        self.scale_factor: float | tuple[float, ...] | None = None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(map(float, scale_factor))
        elif scale_factor:
            self.scale_factor = float(scale_factor)

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        by = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{by}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Deprecated form of `Upsample`: the nearest pixel of the input.

    Args:
        size, scale_factor: sizes of the result, or the factor by which they grow; one of the two.
    Shape: input (N, C, H, W); result (N, C, *size).

    >>> import tdt
    >>> tdt.nn.UpsamplingNearest2d(scale_factor=2)(tdt.rand(1, 3, 4, 4)).shape
    tdt.Size([1, 3, 8, 8])
    """

    def __init__(self, size: Ints | None = None, scale_factor: float | tuple[float, ...] | None = None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Deprecated form of `Upsample`: bilinear with align_corners=True.

    Args:
        size, scale_factor: sizes of the result, or the factor by which they grow; one of the two.
    Shape: input (N, C, H, W); result (N, C, *size).

    >>> import tdt
    >>> tdt.nn.UpsamplingBilinear2d(size=(3, 5))(tdt.rand(1, 3, 4, 4)).shape
    tdt.Size([1, 3, 3, 5])
    """

    def __init__(self, size: Ints | None = None, scale_factor: float | tuple[float, ...] | None = None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
