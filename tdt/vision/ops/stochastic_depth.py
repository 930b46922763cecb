"""Stochastic depth: residual branches are left out at random."""

from __future__ import annotations

import tdt
from tdt import Tensor, nn

__all__ = ["StochasticDepth", "stochastic_depth"]


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Set samples of a batch, or the whole batch, to zero with probability `p`, and divide the others by 1 - p.

    Args:
        mode: "row", each sample by itself, or "batch".
        training: False returns the input.
    Shape:
        (N, ...) → the same.
    Raises:
        ValueError: when `p` is not in [0, 1], or for another mode.
    Source: Huang et al., "Deep Networks with Stochastic Depth", 2016.

    >>> import tdt
    >>> tdt.vision.ops.stochastic_depth(tdt.ones(2, 3), 0.5, "row", training=False).sum()
    tensor(6.)
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    samples = input.shape[0] if mode == "row" else 1
    noise = tdt.empty([samples] + [1] * (input.ndim - 1), dtype=input.dtype, device=input.device).bernoulli_(1.0 - p)
    return input * (noise / (1.0 - p) if p < 1.0 else noise)


class StochasticDepth(nn.Module):
    """`stochastic_depth` as a layer, in training mode.

    Shape:
        (N, ...) → the same.
    Source: Huang et al., "Deep Networks with Stochastic Depth", 2016.

    >>> import tdt
    >>> tdt.vision.ops.StochasticDepth(0.2, "row")
    StochasticDepth(p=0.2, mode=row)
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"
