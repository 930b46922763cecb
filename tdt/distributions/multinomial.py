"""The multinomial distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tdt
from tdt import Size, Tensor
from tdt.distributions import constraints
from tdt.distributions.binomial import Binomial
from tdt.distributions.categorical import Categorical
from tdt.distributions.distribution import Distribution
from tdt.distributions.utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """Multinomial distribution: numbers of draws that fall into each class, of `total_count`.

    Args:
        probs, logits: probabilities of the classes, normalised here, or their unnormalised logarithms; exactly one of
            the two.
    Shape: probs or logits (*, number of classes), of which (*) is the batch shape; event (number of classes,).
    Raises:
        NotImplementedError: when `total_count` is not one int.
        ValueError: when both or neither of probs and logits are given, or `total_count` is negative.

    >>> import tdt
    >>> tdt.distributions.Multinomial(4, probs=tdt.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError(f"total_count must be one int, not {type(total_count).__name__}: inhomogeneous "
                                      "total_count is not supported")  # fmt: skip
        if total_count < 0:
            raise ValueError(f"Expected parameter total_count of Multinomial to be at least 0, but found {total_count}")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self.param_shape[-1:], validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, tdt.ones_like(drawn)).type_as(self.probs)

    def entropy(self) -> Tensor:
        n = tdt.tensor(self.total_count)
        trials = Binomial(self.total_count, probs=self.probs)
        counts = trials.enumerate_support(expand=False)[1:]
        repeats = (trials.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - (n + 1).lgamma() + repeats

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)  # 0 · log 0 is 0
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)
