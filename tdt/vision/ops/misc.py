"""Normalisation whose statistics and weights stay as they are."""

from __future__ import annotations

from typing import Any

import tdt
from tdt import Tensor, nn

__all__ = ["FrozenBatchNorm2d"]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation of images with fixed statistics, scale and shift, which are buffers.

    Args:
        num_features: channels.
        eps: added to the variance.
    Shape:
        (N, num_features, H, W) → the same.

    >>> import tdt
    >>> layer = tdt.vision.ops.FrozenBatchNorm2d(2)
    >>> list(layer.parameters()), list(layer.state_dict())
    ([], ['weight', 'bias', 'running_mean', 'running_var'])
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", tdt.ones(num_features))
        self.register_buffer("bias", tdt.zeros(num_features))
        self.register_buffer("running_mean", tdt.zeros(num_features))
        self.register_buffer("running_var", tdt.ones(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)  # of a BatchNorm2d that is frozen
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor) -> Tensor:
        scale = (self.weight * (self.running_var + self.eps).rsqrt()).reshape(1, -1, 1, 1)
        shift = self.bias.reshape(1, -1, 1, 1) - self.running_mean.reshape(1, -1, 1, 1) * scale
        return x * scale + shift

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.weight)}, eps={self.eps})"
