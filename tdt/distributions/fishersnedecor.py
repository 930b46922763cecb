"""The F distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import Distribution
from tdt.distributions.gamma import Gamma
from tdt.distributions.utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """F distribution: quotient of two mean squares of standard normal variables.

    Args:
        df1, df2: degrees of freedom of the numerator and the denominator.
    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when a parameter is not positive.

    >>> import tdt
    >>> tdt.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        n, m = self.df1, self.df2
        return (2 * m.pow(2) * (n + m - 2) / (n * (m - 2).pow(2) * (m - 4))).masked_fill(m <= 4, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        over, under = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = tdt.finfo(under.dtype).tiny
        return (over / under.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p() - log_beta
