"""The Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
import tdt.nn.functional as F
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _OfEvent
from tdt.distributions.exp_family import ExponentialFamily
from tdt.distributions.utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(_OfEvent, ExponentialFamily):
    """Bernoulli distribution: 1 with probability `probs`, or log-odds `logits`, else 0.

    Args:
        probs, logits: probability of 1 or its log-odds; exactly one of the two.
    Shape: parameter of the batch shape; event ().
    Raises:
        ValueError: when both or neither of probs and logits are given, or a probability is outside [0, 1].

    >>> import tdt
    >>> tdt.distributions.Bernoulli(probs=0.25).log_prob(tdt.ones(())).exp()
    tensor(0.2500)
    """

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, math.nan)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with tdt.no_grad():
            return tdt.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(tdt.arange(2, dtype=self._param.dtype, device=self._param.device), expand)
