"""The Gumbel distribution."""

from __future__ import annotations

import math

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import AffineTransform, ExpTransform
from tdt.distributions.uniform import Uniform
from tdt.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """Gumbel distribution of maxima: loc - scale · log(-log u) of a uniform u.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when `scale` is not positive.
    Source: Gumbel, "Statistics of Extremes", 1958.

    >>> import tdt
    >>> tdt.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        kind = tdt.finfo(self.loc.dtype)
        base = Uniform(tdt.full_like(self.loc, kind.tiny), tdt.full_like(self.loc, 1 - kind.eps), validate_args)
        minus = AffineTransform(0, -tdt.ones_like(self.scale))
        steps = [ExpTransform().inv, minus, ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        super().__init__(base, steps, validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
