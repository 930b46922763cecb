"""The half-normal distribution."""

from __future__ import annotations

import math

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _LocScale
from tdt.distributions.normal import Normal
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import AbsTransform

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """Half-normal distribution: |x| of a normal variable of mean 0 and standard deviation `scale`.

    Shape: scale of the batch shape; event ().
    Raises:
        ValueError: when `scale` is not positive.

    >>> import tdt
    >>> tdt.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    base_dist: _LocScale
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return tdt.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return tdt.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
