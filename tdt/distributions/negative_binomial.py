"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence

import tdt
import tdt.nn.functional as F
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _OfEvent
from tdt.distributions.gamma import Gamma
from tdt.distributions.utils import broadcast_all, lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(_OfEvent):
    """Negative binomial distribution: number of successes before `total_count` failures.

    Args:
        probs, logits: probability of success or its log-odds; exactly one of the two.
    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when both or neither of probs and logits are given, or a parameter is outside its set.

    >>> import tdt
    >>> tdt.distributions.NegativeBinomial(3.0, probs=0.5).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        count, value = broadcast_all(total_count, self._either(probs, logits))
        self.total_count = count.type_as(value)
        probs, logits = (None, value) if probs is None else (value, None)
        super().__init__(probs, logits, validate_args)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with tdt.no_grad():
            return tdt.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        choices = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        choices = choices.masked_fill(n + value == 0, 0)
        return n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits) + choices
