"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _OfEvent
from tdt.distributions.utils import broadcast_all

__all__ = ["Binomial"]


class Binomial(_OfEvent):
    """Binomial distribution: number of successes in `total_count` trials.

    Args:
        probs, logits: probability of success or its log-odds; exactly one of the two.
    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when both or neither of probs and logits are given, or a parameter is outside its set.

    >>> import tdt
    >>> tdt.distributions.Binomial(2, probs=0.5).log_prob(tdt.tensor(1.0)).exp()
    tensor(0.5000)
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_OfEvent.arg_constraints}
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def __init__(
        self,
        total_count: Tensor | float = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        count, value = broadcast_all(total_count, self._either(probs, logits))
        self.total_count = count.type_as(value)
        probs, logits = (None, value) if probs is None else (value, None)
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tdt.no_grad():
            return tdt.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        choices = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        # log(1 + e^l) is max(l, 0) + log(1 + e^-|l|): exp never overflows.
        return choices + value * self.logits - n * (_positive(self.logits) + (-self.logits.abs()).exp().log1p())

    def _count(self, name: str) -> int:
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{name}`.")
        return most

    def entropy(self) -> Tensor:
        self._count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = tdt.arange(1 + self._count("enumerate_support"), dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)


def _positive(x: Tensor) -> Tensor:
    """max(x, 0), whose gradient at 0 is one half: that of log(1 + e^x)."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2
