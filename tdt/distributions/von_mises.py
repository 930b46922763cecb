"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import Distribution
from tdt.distributions.utils import broadcast_all

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Von Mises distribution on the circle: angles in radians about `loc`, the closer the larger `concentration`.

    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when `concentration` is not positive.
    Source: sampled in float64 as in Best and Fisher, "Efficient Simulation of the von Mises Distribution", 1979.

    >>> import tdt
    >>> tdt.distributions.VonMises(0.5, 2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k = self.concentration
        # log I₀(k), of the scaled function that does not overflow.
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - (tdt.special.i0e(k).log() + k)

    @property
    def variance(self) -> Tensor:
        return 1 - tdt.special.i1e(self.concentration) / tdt.special.i0e(self.concentration)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with tdt.no_grad():
            loc, k = self.loc.double(), self.concentration.double()
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = tdt.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
            x = loc.new_empty(self._extended_shape(sample_shape))
            done = tdt.zeros_like(x, dtype=tdt.bool)
            while not done.all():
                u1, u2, u3 = tdt.rand(3, *x.shape, dtype=x.dtype, device=x.device)
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = tdt.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done |= accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)
