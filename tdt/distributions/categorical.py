"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _OfClasses

__all__ = ["Categorical"]


class Categorical(_OfClasses):
    """Categorical distribution: a class index by probability.

    Args:
        probs, logits: probabilities of the classes, normalised here, or their unnormalised logarithms; exactly one of
            the two.
    Shape: probs or logits (*, number of classes), of which (*) is the batch shape; event ().
    Raises:
        ValueError: when both or neither are given, or the given one has no dimension.

    >>> import tdt
    >>> tdt.distributions.Categorical(probs=tdt.tensor([1.0, 3.0])).log_prob(tdt.tensor(1)).exp()
    tensor(0.7500)
    """

    has_enumerate_support = True
    _one_hot = False

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return tdt.full_like(self.probs[..., 0], math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return tdt.full_like(self.probs[..., 0], math.nan)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        rows = self.probs.reshape(-1, self._num_events)
        drawn = tdt.multinomial(rows, math.prod(sample_shape), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, logits = tdt.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        finite = self.logits.clamp(min=tdt.finfo(self.logits.dtype).min)  # 0 · log 0 is 0
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(tdt.arange(self._num_events, device=self._param.device), expand)
