"""Dropout."""

from __future__ import annotations

from tdt._tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class Dropout(Module):
    """In training, zero each element with probability `p` and scale the rest by 1 / (1 - p) (Srivastava et al., 2014).

    ValueError for `p` outside [0, 1].

    >>> import tdt
    >>> tdt.nn.Dropout(0.5).eval()(tdt.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
