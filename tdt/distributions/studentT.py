"""Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.chi2 import Chi2
from tdt.distributions.distribution import Distribution
from tdt.distributions.utils import broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t distribution with `df` degrees of freedom, shifted by `loc` and scaled by `scale`.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when `df` or `scale` is not positive.

    >>> import tdt
    >>> tdt.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def variance(self) -> Tensor:
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return finite.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = tdt.randn(shape, dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * (normal * (self._chi2.rsample(sample_shape) / self.df).rsqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, 0.5 * (self.df + 1)
        log_norm = self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi))
        return -half * (y**2 / self.df).log1p() - (log_norm + (0.5 * self.df).lgamma() - half.lgamma())

    def entropy(self) -> Tensor:
        half, whole = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = half.lgamma() + math.lgamma(0.5) - whole.lgamma()
        return self.scale.log() + whole * (whole.digamma() - half.digamma()) + 0.5 * self.df.log() + log_beta
