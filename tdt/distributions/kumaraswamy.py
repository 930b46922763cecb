"""The Kumaraswamy distribution."""

from __future__ import annotations

import math

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import AffineTransform, PowerTransform
from tdt.distributions.uniform import Uniform
from tdt.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution on (0, 1): close to Beta of the same concentrations, with a density of powers alone.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when a parameter is not positive.
    Source: Kumaraswamy, "A generalized probability density function for double-bounded random processes", 1980.

    >>> import tdt
    >>> tdt.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(tdt.zeros_like(self.concentration0), tdt.ones_like(self.concentration0), validate_args)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args)

    def _moment(self, n: int) -> Tensor:
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
