"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import tdt
from tdt.distributions.cauchy import Cauchy
from tdt.distributions.half_normal import HalfNormal
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(HalfNormal):
    """|x| of a Cauchy x about 0 of half-width `scale`."""

    mean = property(lambda self: tdt.full_like(self.scale, math.inf))
    variance = property(lambda self: self.base_dist.variance)

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        TransformedDistribution.__init__(self, Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)
