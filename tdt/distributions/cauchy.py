"""The Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions.distribution import _LocScale

__all__ = ["Cauchy"]


class Cauchy(_LocScale):
    """Cauchy (Lorentz) distribution of median `loc` and half-width `scale`; it has no mean.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when `scale` is not positive.

    >>> import tdt
    >>> tdt.distributions.Cauchy(1.0, 2.0).cdf(tdt.tensor(1.0))
    tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return tdt.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return tdt.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).pow(2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
