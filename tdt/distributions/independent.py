"""Distributions whose batch dimensions count as one event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import Distribution
from tdt.distributions.utils import sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """Distribution whose last `reinterpreted_batch_ndims` batch dimensions become part of the event.

    Shape: batch shape without these dimensions; event these, followed by the base distribution's event.
    Raises:
        ValueError: when the base distribution has fewer batch dimensions.

    >>> import tdt
    >>> from tdt.distributions import Normal
    >>> joint = tdt.distributions.Independent(Normal(tdt.zeros(5, 3), 1.0), 1)
    >>> joint.batch_shape, joint.event_shape, joint.log_prob(tdt.zeros(5, 3)).shape
    (tdt.Size([5]), tdt.Size([3]), tdt.Size([5]))
    """

    arg_constraints: Mapping[str, constraints.Constraint] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                             f"actual {reinterpreted_batch_ndims} vs {len(batch)}")  # fmt: skip
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args)

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        support, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(support, dims) if dims else support

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
