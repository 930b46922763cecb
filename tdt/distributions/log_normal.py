"""The log-normal distribution."""

from __future__ import annotations

from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.normal import Normal
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """Log-normal distribution: exponential of a normal variable of mean `loc` and standard deviation `scale`.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when `scale` is not positive.

    >>> import tdt
    >>> tdt.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    base_dist: Normal
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    @property
    def loc(self) -> Tensor:
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2).expm1() * (2 * self.loc + self.scale.pow(2)).exp()

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
