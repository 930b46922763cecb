"""The categorical distribution over one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tdt
import tdt.nn.functional as F
from tdt import Size, Tensor
from tdt.distributions import constraints
from tdt.distributions.categorical import Categorical
from tdt.distributions.distribution import Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """Categorical distribution of one-hot vectors.

    Args:
        probs, logits: probabilities of the classes, normalised here, or their unnormalised logarithms; exactly one of
            the two.
    Shape: probs or logits (*, number of classes), of which (*) is the batch shape; event (number of classes,).
    Raises:
        ValueError: when both or neither of probs and logits are given.

    >>> import tdt
    >>> tdt.distributions.OneHotCategorical(tdt.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self.param_shape[-1:], validate_args)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return F.one_hot(self._categorical.sample(sample_shape), self.param_shape[-1]).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = tdt.eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view(n, *(1 for _ in self.batch_shape), n)
        return values.expand(n, *self.batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients on to the probabilities as if they were these.

    Args:
        probs, logits: probabilities of the classes, normalised here, or their unnormalised logarithms; exactly one of
            the two.
    Shape: probs or logits (*, number of classes), of which (*) is the batch shape; event (number of classes,).
    Raises:
        ValueError: when both or neither of probs and logits are given.
    Source: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons", 2013.

    >>> import tdt
    >>> probs = tdt.tensor([0.25, 0.75], requires_grad=True)
    >>> tdt.distributions.OneHotCategoricalStraightThrough(probs).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())
