"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions.distribution import _LocScale
from tdt.distributions.exp_family import ExponentialFamily

__all__ = ["Normal"]


class Normal(_LocScale, ExponentialFamily):
    """Normal (Gaussian) distribution of mean `loc` and standard deviation `scale`.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when `scale` is not positive.

    >>> import tdt
    >>> from tdt import tensor
    >>> tdt.distributions.Normal(0.0, 1.0).log_prob(tensor(0.0))
    tensor(-0.9189)
    """

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tdt.no_grad():
            return tdt.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + tdt.randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 0.5 * (1 + tdt.erf((value - self.loc) / self.scale / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * tdt.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()
