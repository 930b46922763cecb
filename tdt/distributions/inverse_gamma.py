"""The inverse gamma distribution."""

from __future__ import annotations

import math

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.gamma import Gamma
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """Inverse gamma distribution: 1 / x of a Gamma(concentration, rate) variable.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when a parameter is not positive.

    >>> import tdt
    >>> tdt.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    base_dist: Gamma
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    @property
    def concentration(self) -> Tensor:
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        return self.base_dist.rate

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args)

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return tdt.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return tdt.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
