"""The base of distributions whose log-density is linear in functions of the value: normal, gamma, Poisson and others."""

from __future__ import annotations

from typing import Any

import tdt
from tdt import Tensor
from tdt.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base class of distributions of density exp(t(x) · θ - F(θ) + k(x)), with natural parameters θ.

    A subclass that has `_natural_params`, `_log_normalizer` (F) and `_mean_carrier_measure` (the mean of k) has an
    entropy.

    Raises:
        ValueError: when a parameter is outside its set.
    Source: Nielsen and Nock, "Entropies and cross-entropies of exponential families", 2010.

    >>> import tdt
    >>> from tdt.distributions import Exponential
    >>> isinstance(Exponential(1.0), tdt.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no _natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no _log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _mean_carrier_measure")

    def entropy(self) -> Tensor:
        """F(θ) - θ·∇F(θ) - E[k(x)], of shape `batch_shape`."""
        carrier = self._mean_carrier_measure
        natural = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        entropy = normalizer - carrier
        slopes = tdt.autograd.grad(normalizer.sum(), natural, create_graph=True)
        for parameter, slope in zip(natural, slopes, strict=True):
            entropy = entropy - (parameter * slope).reshape(*self._batch_shape, -1).sum(-1)
        return entropy
