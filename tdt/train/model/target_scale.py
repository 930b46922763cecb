"""Scale the targets of a regression for its loss, and undo it in the model's outputs."""

from __future__ import annotations

from collections.abc import Sequence

import tdt
from tdt import Tensor, nn


class TargetScale(nn.Module):
    """(target - shift) / scale, and its inverse.

    Args:
        shift, scale: a number for each number of a target, or one for all.
    Shape:
        target, output: (n, …), whose last dimension is that of several numbers.

    >>> import tdt
    >>> from tdt.train.model.target_scale import TargetScale
    >>> prices = TargetScale(shift=300_000.0, scale=50_000.0)
    >>> prices(tdt.tensor([[350_000.0]])), prices.undo(tdt.tensor([[1.0]]))
    (tensor([[1.]]), tensor([[350000.]]))
    """

    def __init__(self, shift: Sequence[float] | float, scale: Sequence[float] | float) -> None:
        super().__init__()
        self.shift = nn.Buffer(tdt.tensor(shift, dtype=tdt.get_default_dtype()))
        self.scale = nn.Buffer(tdt.tensor(scale, dtype=tdt.get_default_dtype()))

    def forward(self, target: Tensor) -> Tensor:
        return (target - self.shift) / self.scale

    def undo(self, output: Tensor) -> Tensor:
        """Outputs for scaled targets, in the unit of the targets."""
        return output * self.scale + self.shift
