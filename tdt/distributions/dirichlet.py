"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence

import tdt
import tdt.nn.functional as F
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions._samples import DirichletShares
from tdt.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution over probabilities that sum to one.

    Args:
        concentration: positive parameters; the mean is proportional to them.
    Shape: concentration (*, n), of which (*) is the batch shape; event (n,).
    Raises:
        ValueError: when `concentration` has no dimension or is not positive.
    Source: sampled from gamma variables; Devroye, "Non-Uniform Random Variate Generation", 1986.

    >>> import tdt
    >>> tdt.distributions.Dirichlet(tdt.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        corner = F.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode)
        return tdt.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return DirichletShares.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return tdt.xlogy(a - 1, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, total, k = self.concentration, self.concentration.sum(-1), self.concentration.shape[-1]
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (k - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)
