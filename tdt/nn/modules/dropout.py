"""Dropout layers: of elements, of channels, and by selu's lowest value instead of zeros."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeros each element with probability `p` in training and scales the others by 1 / (1 - p); identity in evaluation.

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].
    Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.

    >>> import tdt
    >>> tdt.nn.Dropout(0.5).eval()(tdt.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Zeros whole channels with probability `p` in training and scales the others by 1 / (1 - p).

    Args:
        inplace: write the result into the input's memory.
    Shape: input (N, C, L) or (C, L); result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].
    Source: Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    >>> import tdt
    >>> tdt.nn.Dropout1d(0.2)
    Dropout1d(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Zeros whole channels with probability `p` in training and scales the others by 1 / (1 - p).

    Args:
        inplace: write the result into the input's memory.
    Shape: input (N, C, H, W), or (N, C, L) with a warning; result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].
    Source: Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    >>> import tdt
    >>> tdt.nn.Dropout2d(0.2)
    Dropout2d(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Zeros whole channels with probability `p` in training and scales the others by 1 / (1 - p).

    Args:
        inplace: write the result into the input's memory.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].
    Source: Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    >>> import tdt
    >>> tdt.nn.Dropout3d(0.2)
    Dropout3d(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Replaces each element by SELU's lowest value with probability `p` in training, then restores mean 0 and variance 1.

    Args:
        inplace: accepted without effect, as in PyTorch.
    Shape: input (*); result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.nn.AlphaDropout(0.2)
    AlphaDropout(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels: each is replaced with probability `p` in training.

    Args:
        inplace: accepted without effect, as in PyTorch.
    Shape: input (N, C, *); result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.nn.FeatureAlphaDropout(0.2)
    FeatureAlphaDropout(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
