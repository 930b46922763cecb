"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tdt
import tdt.nn.functional as F
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _OfEvent
from tdt.distributions.exp_family import ExponentialFamily
from tdt.distributions.utils import broadcast_all, clamp_probs, lazy_property

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(_OfEvent, ExponentialFamily):
    """Continuous Bernoulli distribution on [0, 1], of density proportional to p^x (1 - p)^(1 - x).

    Args:
        probs, logits: the parameter p or its log-odds; exactly one of the two.
        lims: interval around one half, where the formulas are 0 / 0, in which Taylor series are used.
    Shape: parameters broadcast to the batch shape; event ().
    Raises:
        ValueError: when both or neither of probs and logits are given, or a parameter is outside its set.
    Source: Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error in VAEs", 2019.

    >>> import tdt
    >>> tdt.distributions.ContinuousBernoulli(probs=0.5).mean
    tensor(0.5000)
    """

    support = constraints.unit_interval
    has_rsample = True

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        if probs is not None:
            (probs,) = broadcast_all(probs)
            if validate_args is not None and not constraints.unit_interval.check(probs).all():
                raise ValueError(f"The parameter probs has invalid values: expected 0 to 1, but got {probs}")
            probs = clamp_probs(probs)
        super().__init__(probs, logits, validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(self.logits.sigmoid())

    def _away(self, formula: Any, near: Tensor) -> Tensor:
        """A formula of `probs` outside of the limits, `near` between them."""
        outside = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return tdt.where(outside, formula(tdt.where(outside, self.probs, self._lims[0])), near)

    def _cont_bern_log_norm(self) -> Tensor:
        x = (self.probs - 0.5).pow(2)
        return self._away(
            lambda p: ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log(),
            math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x,
        )

    @property
    def mean(self) -> Tensor:
        x = self.probs - 0.5
        return self._away(
            lambda p: p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log()),
            0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x,
        )

    @property
    def variance(self) -> Tensor:
        x = (self.probs - 0.5).pow(2)
        return self._away(
            lambda p: p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / ((-p).log1p() - p.log()).pow(2),
            1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x,
        )

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(tdt.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._cont_bern_log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = self._away(lambda p: (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0), value)
        return inside.masked_fill(value <= 0, 0).masked_fill(value >= 1, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return self._away(
            lambda p: ((-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p()), value
        )

    def entropy(self) -> Tensor:
        log_0, log_1 = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log_0 - log_1) - self._cont_bern_log_norm() - log_0
