"""Distances between vectors, as layers."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class PairwiseDistance(Module):
    """p-norm of x1 - x2 along the last dimension.

    Args:
        keepdim: whether the result keeps the last dimension, with size 1.
        p: degree of the norm.
        eps: added to each difference.
    Shape: x1 and x2 (N, D) or (D,); result (N,) or (), with keepdim (N, 1) or (1,).

    >>> import tdt
    >>> tdt.nn.PairwiseDistance(eps=0.0)(tdt.tensor([[3.0, 0.0]]), tdt.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosine of the angle between vectors along `dim`.

    Args:
        eps: least value of each norm.
    Shape: x1 (*, D, *) and x2 broadcastable to it, D along `dim`; result (*, *).

    >>> import tdt
    >>> tdt.nn.CosineSimilarity()(tdt.tensor([[3.0, 4.0]]), tdt.tensor([[1.0, 0.0]]))
    tensor([0.6000])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
