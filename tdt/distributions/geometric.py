"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence

import tdt
import tdt.nn.functional as F
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _OfEvent
from tdt.distributions.utils import broadcast_all

__all__ = ["Geometric"]


class Geometric(_OfEvent):
    """Geometric distribution: number of failures (0, 1, …) before the first success.

    Args:
        probs, logits: probability of success or its log-odds; exactly one of the two.
    Shape: parameter of the batch shape; event ().
    Raises:
        ValueError: when both or neither of probs and logits are given, or a probability is outside (0, 1].

    >>> import tdt
    >>> tdt.distributions.Geometric(probs=0.25).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return tdt.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            wrong = self.probs.detach()[self.probs <= 0]
            raise ValueError(f"Expected parameter probs of shape {tuple(self.probs.shape)} of distribution {self!r} "
                             f"to be positive but found invalid values:\n{wrong}")  # fmt: skip

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with tdt.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(tdt.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)  # 0 · log 0 is 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
