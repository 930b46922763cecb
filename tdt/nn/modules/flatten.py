"""Flatten."""

from __future__ import annotations

from tdt._tensor import Tensor
from tdt.nn.modules.module import Module


class Flatten(Module):
    """Joins the dimensions `start_dim` to `end_dim` into one; by default all but the batch.

    >>> import tdt
    >>> tdt.nn.Flatten()(tdt.ones(2, 3, 4)).shape
    tdt.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
