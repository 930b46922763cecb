"""Layers whose results along a dimension are probabilities, or their logarithms."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


# A layer is an instance of another one only where it is in PyTorch; what they share is in this.
class _AlongDim(Module):
    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """Exponentials of the input, scaled to sum to 1 along `dim`.

    Args:
        dim: dimension whose results sum to 1; None chooses one by the number of dimensions and warns.
    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Softmax(dim=0)(tdt.tensor([1.0, 1.0]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """Logarithm of `Softmax` along `dim`, computed without overflow.

    Args:
        dim: dimension whose exponentials sum to 1; None chooses one by the number of dimensions and warns.
    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.LogSoftmax(dim=0)(tdt.tensor([1.0, 1.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """Softmax of -x along `dim`: the smallest element gets the largest result.

    Args:
        dim: dimension whose results sum to 1; None chooses one by the number of dimensions and warns.
    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Softmin(dim=0)(tdt.tensor([0.0, 100.0])).round()
    tensor([1., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels at each position of an image.

    Shape: input (N, C, H, W) or (C, H, W); result the same shape.
    Raises:
        ValueError: when the input has another number of dimensions.

    >>> import tdt
    >>> tdt.nn.Softmax2d()(tdt.zeros(4, 1, 1)).flatten()
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)
