"""The relaxed Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import _OfEvent
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import SigmoidTransform
from tdt.distributions.utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(_OfEvent):
    """The logit of a RelaxedBernoulli."""

    support = constraints.real

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(tdt.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Concrete relaxation of the Bernoulli distribution: values in (0, 1), near its ends at a low `temperature`, with
    gradients.

    Args:
        probs, logits: probability of 1 or its log-odds; exactly one of the two.
    Shape: temperature (); the parameter of the batch shape; event ().
    Raises:
        ValueError: when both or neither of probs and logits are given.
    Source: Maddison, Mnih and Teh, "The Concrete Distribution", 2017; Jang, Gu and Poole, 2017.

    >>> import tdt
    >>> tdt.distributions.RelaxedBernoulli(tdt.tensor(0.5), probs=tdt.tensor([0.25, 0.75])).rsample().shape
    tdt.Size([2])
    """

    base_dist: LogitRelaxedBernoulli
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)
