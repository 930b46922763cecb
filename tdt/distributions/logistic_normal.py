"""The logistic-normal distribution."""

from __future__ import annotations

from typing import cast

from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.independent import Independent
from tdt.distributions.normal import Normal
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Logistic-normal distribution: n + 1 probabilities, by stick breaking, from n independent normal variables.

    Shape: parameters broadcast to (*, n), of which (*) is the batch shape; event (n + 1,).
    Raises:
        ValueError: when `scale` is not positive.

    >>> import tdt
    >>> tdt.distributions.LogisticNormal(tdt.zeros(2), tdt.ones(2)).event_shape
    tdt.Size([3])
    """

    base_dist: Independent
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    @property
    def loc(self) -> Tensor:
        return cast(Normal, self.base_dist.base_dist).loc

    @property
    def scale(self) -> Tensor:
        return cast(Normal, self.base_dist.base_dist).scale

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        base = base if base.batch_shape else base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args)
