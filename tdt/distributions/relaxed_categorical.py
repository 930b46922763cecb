"""The relaxed categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Size, Tensor
from tdt.distributions import constraints
from tdt.distributions.categorical import Categorical
from tdt.distributions.distribution import Distribution
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import ExpTransform
from tdt.distributions.utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The log of a RelaxedOneHotCategorical."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    def __init__(
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self.param_shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(tdt.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.param_shape[-1]
        logits, value = broadcast_all(self.logits, value)
        score = (logits - value * self.temperature).log_softmax(-1).sum(-1)
        return score + math.lgamma(n) + (n - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Concrete (Gumbel-softmax) distribution: probabilities near a corner of the simplex at a low `temperature`, with
    gradients.

    Args:
        probs, logits: probabilities of the classes, normalised here, or their unnormalised logarithms; exactly one of
            the two.
    Shape: temperature (); probs or logits (*, number of classes), of which (*) is the batch shape; event (number of
        classes,).
    Raises:
        ValueError: when both or neither of probs and logits are given.
    Source: Maddison, Mnih and Teh, "The Concrete Distribution", 2017; Jang, Gu and Poole, 2017.

    >>> import tdt
    >>> tdt.distributions.RelaxedOneHotCategorical(tdt.tensor(0.5), probs=tdt.tensor([1.0, 3.0])).rsample().shape
    tdt.Size([2])
    """

    base_dist: ExpRelaxedCategorical
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
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
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)
