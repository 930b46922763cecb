"""Windows of an image as columns, and back."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module

Pair = int | tuple[int, int]


class _Windows(Module):
    def __init__(self, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Unfold(_Windows):
    """Contents of each window of an image, as columns (im2col).

    Args:
        kernel_size, dilation, padding, stride: one number for both spatial dimensions, or one each.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C · kernel cells, windows) or without N.

    >>> import tdt
    >>> tdt.nn.Unfold(2)(tdt.zeros(1, 3, 4, 5)).shape
    tdt.Size([1, 12, 12])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Windows):
    """Sums columns of windows into the image from which `Unfold` takes them, overlapping cells added up.

    Args:
        output_size: height and width of the result.
        kernel_size, dilation, padding, stride: one number for both spatial dimensions, or one each.
    Shape: input (N, C · kernel cells, windows) or without N; result (N, C, *output_size).

    >>> import tdt
    >>> tdt.nn.Fold((4, 5), 2)(tdt.zeros(1, 12, 12)).shape
    tdt.Size([1, 3, 4, 5])
    """

    def __init__(self, output_size: Pair, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1):
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
