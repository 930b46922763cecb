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
    """In training, zero each element with probability `p` and scale the rest by 1 / (1 - p) (Srivastava et al., 2014).

    ValueError for `p` outside [0, 1].

    >>> import tdt
    >>> tdt.nn.Dropout(0.5).eval()(tdt.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """`Dropout` of whole channels of (N, C, L) or (C, L).

    >>> import tdt
    >>> tdt.nn.Dropout1d(0.2)
    Dropout1d(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """`Dropout` of whole channels of (N, C, H, W); (N, C, L) too, with a warning.

    >>> import tdt
    >>> tdt.nn.Dropout2d(0.2)
    Dropout2d(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """`Dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> import tdt
    >>> tdt.nn.Dropout3d(0.2)
    Dropout3d(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """In training, put selu's lowest value in place of each element with probability `p`; mean and variance stay.

    `inplace` has no effect, as in PyTorch.

    >>> import tdt
    >>> tdt.nn.AlphaDropout(0.2)
    AlphaDropout(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels of (N, C, *).

    >>> import tdt
    >>> tdt.nn.FeatureAlphaDropout(0.2)
    FeatureAlphaDropout(p=0.2, inplace=False)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
