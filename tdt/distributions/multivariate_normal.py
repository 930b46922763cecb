"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions._scale_tril import FACTOR, ScaleTril, half_log_det, mahalanobis, single_matrix
from tdt.distributions.distribution import Distribution

__all__ = ["MultivariateNormal"]


class MultivariateNormal(ScaleTril, Distribution):
    """Multivariate normal distribution of mean `loc` and a covariance.

    Args:
        covariance_matrix, precision_matrix, scale_tril: the covariance, its inverse, or its lower Cholesky factor;
            exactly
            one of the three.
    Shape: loc (*, n) and the matrix (*, n, n) broadcast, of which (*) is the batch shape; event (n,).
    Raises:
        ValueError: when not exactly one matrix is given, or a parameter has too few dimensions.

    >>> import tdt
    >>> tdt.distributions.MultivariateNormal(tdt.zeros(2), tdt.eye(2)).entropy()
    tensor(2.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = single_matrix(
            ValueError, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        if matrix.ndim < 2:
            raise ValueError(f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions")
        batch = tdt.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(*batch, -1, -1))
        self.loc = loc.expand(*batch, -1)
        super().__init__(batch, loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = FACTOR[name](matrix)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        normal = tdt.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ normal.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + distance) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        half = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * n * (1.0 + math.log(2 * math.pi)) + half).expand(self._batch_shape)
