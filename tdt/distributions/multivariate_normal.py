"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor, linalg
from tdt.distributions import constraints
from tdt.distributions.distribution import Distribution
from tdt.distributions.utils import lazy_property

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """Normal vectors (…, n) of mean `loc` and one of: covariance, its inverse, its lower Cholesky factor (…, n, n).

    >>> MultivariateNormal(tdt.zeros(2), tdt.eye(2)).entropy()
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
    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril
        }  # fmt: skip
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given
        if matrix.ndim < 2:
            raise ValueError(f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions")
        batch = tdt.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(*batch, -1, -1))
        self.loc = loc.expand(*batch, -1)
        super().__init__(batch, loc.shape[-1:], validate_args)
        # For one matrix and many means the factor is computed, and solved with, once.
        self._unbroadcasted_scale_tril = FACTOR[name](matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._over_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._over_batch(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        inverse = solve_lower(self._unbroadcasted_scale_tril, _eye_like(self._unbroadcasted_scale_tril))
        return self._over_batch(inverse.mT @ inverse)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def _over_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + 2 * self._event_shape)

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


def half_log_det(tril: Tensor) -> Tensor:
    """Half the log of the determinant of L Lᵀ."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def solve_lower(tril: Tensor, right: Tensor) -> Tensor:
    """L⁻¹ B for a lower triangular L."""
    return linalg.solve_triangular(tril, right, upper=False)


def mahalanobis(tril: Tensor, difference: Tensor) -> Tensor:
    """The squared length of L⁻¹ x for each vector x (…, n)."""
    if tril.ndim == 2:  # one factor: all vectors are right-hand sides of one system
        rows = difference.reshape(-1, difference.shape[-1])
        return solve_lower(tril, rows.mT).pow(2).sum(-2).reshape(difference.shape[:-1])
    tril = tril.expand(*difference.shape[:-1], *tril.shape[-2:])
    return solve_lower(tril, difference.unsqueeze(-1)).squeeze(-1).pow(2).sum(-1)


def _eye_like(matrix: Tensor) -> Tensor:
    return tdt.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape)


def _of_precision(matrix: Tensor) -> Tensor:
    """The lower factor of the inverse of P: of P turned by half a turn it is the inverse of the turned factor's transpose."""
    turned = linalg.cholesky(matrix.flip(-2, -1)).flip(-2, -1).mT
    return solve_lower(turned, _eye_like(turned))


FACTOR = {
    "covariance_matrix": linalg.cholesky, "precision_matrix": _of_precision, "scale_tril": lambda tril: tril
}  # fmt: skip
