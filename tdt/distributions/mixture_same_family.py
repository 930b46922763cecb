"""Mixtures of distributions of one family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.categorical import Categorical
from tdt.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Mixture of the distributions along the last batch dimension of `component_distribution`, chosen by a Categorical.

    Shape: batch shape and event of a single component.
    Raises:
        ValueError: when an argument is of another type, or batch shapes or numbers of components do not match.

    >>> import tdt
    >>> from tdt.distributions import Categorical, Normal
    >>> tdt.distributions.MixtureSameFamily(Categorical(tdt.ones(2)), Normal(tdt.tensor([0.0, 4.0]), 1.0)).mean
    tensor(2.)
    """

    arg_constraints: Mapping[str, constraints.Constraint] = {}

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                f"The mixture distribution must be a Categorical, but is {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                f"The component distribution must be a Distribution, but is {type(component_distribution).__name__}"
            )
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape
        if any(i != j and 1 not in (i, j) for i, j in zip(mixed[::-1], batch[-2::-1], strict=False)):
            raise ValueError(f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                             f"`component_distribution.batch_shape`({batch[:-1]})")  # fmt: skip
        count = mixture_distribution._num_events
        if count != batch[-1]:
            raise ValueError(f"`mixture_distribution component` ({count}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({batch[-1]})")  # fmt: skip
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    has_rsample = False

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _pad(self, x: Tensor) -> Tensor:
        """A value beside the components' dimension."""
        return x.unsqueeze(-1 - len(self.event_shape))

    def _weighted(self, x: Tensor) -> Tensor:
        """The mean over the components."""
        weights = self._mixture_distribution.probs
        weights = weights.view(*weights.shape, *(1 for _ in self.event_shape))
        return (weights * x).sum(-1 - len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        components = self._component_distribution
        return self._weighted(components.variance) + self._weighted((components.mean - self._pad(self.mean)).pow(2))

    def cdf(self, value: Tensor) -> Tensor:
        return (self._component_distribution.cdf(self._pad(value)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        log_prob = self._component_distribution.log_prob(self._pad(value))
        return (log_prob + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with tdt.no_grad():
            which = self._mixture_distribution.sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            which = which.view(*which.shape, *(1 for _ in range(len(self.event_shape) + 1)))
            return values.gather(dim, which.expand(*which.shape[: dim + 1], *self.event_shape)).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
