"""The Laplace distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions.distribution import _LocScale

__all__ = ["Laplace"]


class Laplace(_LocScale):
    """Laplace distribution: exponential of mean `scale` on both sides of `loc`.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when `scale` is not positive.

    >>> import tdt
    >>> tdt.distributions.Laplace(0.0, 1.0).log_prob(tdt.tensor(0.0))
    tensor(-0.6931)
    """

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = self.loc.new_empty(shape).uniform_(tdt.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        from_loc = value - self.loc
        return 0.5 - 0.5 * from_loc.sign() * (-from_loc.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        from_half = value - 0.5
        return self.loc - self.scale * from_half.sign() * (-2 * from_half.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
