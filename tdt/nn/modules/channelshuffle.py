"""ChannelShuffle."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class ChannelShuffle(Module):
    """Interleaves channels so that neighbours come from different groups.

    Shape: input (N, C, *), C divisible by `groups`; result the same shape.
    Source: Zhang et al., "ShuffleNet", 2018.

    >>> import tdt
    >>> tdt.nn.ChannelShuffle(2)(tdt.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
