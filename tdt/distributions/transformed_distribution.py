"""Distributions of functions of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import tdt
from tdt import Size, Tensor
from tdt.distributions import constraints
from tdt.distributions.distribution import Distribution
from tdt.distributions.independent import Independent
from tdt.distributions.transforms import ComposeTransform, Transform
from tdt.distributions.utils import sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Distribution of samples of `base_distribution` after one or several transforms.

    Shape: batch shape and event as the transforms leave them.
    Raises:
        ValueError: when `transforms` are no transforms, or need more dimensions than the base distribution has.

    >>> import tdt
    >>> from tdt.distributions import Normal
    >>> from tdt.distributions.transforms import ExpTransform
    >>> tdt.distributions.TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(tdt.ones(()))
    tensor(-0.9189)
    """

    arg_constraints: Mapping[str, constraints.Constraint] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        chain = ComposeTransform(self.transforms)
        dims_in, dims_out = chain.domain.event_dim, chain.codomain.event_dim
        base = base_distribution
        shape, dims = base.batch_shape + base.event_shape, len(base.event_shape)
        if len(shape) < dims_in:
            raise ValueError(f"base_distribution needs to have shape with size at least {dims_in}, but got {shape}.")
        out = chain.forward_shape(shape)
        needed = chain.inverse_shape(out)
        if needed != shape:
            base = base.expand(needed[: len(needed) - dims])
        self.base_dist = Independent(base, dims_in - dims) if dims_in > dims else base
        cut = len(out) - max(dims_out, dims + dims_out - dims_in)
        super().__init__(out[:cut], out[cut:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Self | None = None) -> Self:
        new = super().expand(self._batch_shape, _instance)
        shape = Size(batch_shape) + self._event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        for name in self.arg_constraints:
            if name in vars(self):
                vars(new)[name] = vars(self)[name].expand(batch_shape)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        if not self.transforms:
            return self.base_dist.support
        support: constraints.Constraint = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with tdt.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._through(self.base_dist.rsample(sample_shape))

    def _through(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _back(self, y: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            y = transform.inv(y)
        return y

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        log_prob: Any = 0.0
        dims, y = len(self.event_shape), value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            log_prob = log_prob - sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return log_prob + sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _turned(self, probability: Tensor) -> Tensor:
        """A probability below, as one above where the transforms fall."""
        sign = math.prod(transform.sign for transform in self.transforms)
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        value = self._back(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._through(self.base_dist.icdf(self._turned(value)))
