"""The Weibull distribution."""

from __future__ import annotations

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.exponential import Exponential
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import AffineTransform, PowerTransform
from tdt.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Weibull distribution: scale · e^(1 / concentration) of a standard exponential variable e.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when a parameter is not positive.

    >>> import tdt
    >>> tdt.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    @property
    def concentration_reciprocal(self) -> Tensor:
        return self.concentration.reciprocal()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(tdt.ones_like(self.scale), validate_args)
        steps = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, steps, validate_args)

    def _moment(self, n: int) -> Tensor:
        return self.scale.pow(n) * (1 + n * self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    def entropy(self) -> Tensor:
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + (self.scale * reciprocal).log() + 1
