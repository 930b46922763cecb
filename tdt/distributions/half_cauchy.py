"""The half-Cauchy distribution."""

from __future__ import annotations

import math

import tdt
from tdt import Tensor
from tdt.distributions.cauchy import Cauchy
from tdt.distributions.half_normal import HalfNormal
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(HalfNormal):
    """Half-Cauchy distribution: |x| of a Cauchy variable of median 0 and half-width `scale`.

    Shape: scale of the batch shape; event ().
    Raises:
        ValueError: when `scale` is not positive.

    >>> import tdt
    >>> tdt.distributions.HalfCauchy(1.0).cdf(tdt.tensor(1.0))
    tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return tdt.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        TransformedDistribution.__init__(self, Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)
