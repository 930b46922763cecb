"""The normal distribution of vectors whose covariance is a diagonal and a matrix of low rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor, linalg
from tdt.distributions import constraints
from tdt.distributions._scale_tril import half_log_det, mahalanobis, solve_lower
from tdt.distributions.distribution import Distribution
from tdt.distributions.utils import lazy_property

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal distribution of covariance W Wᵀ + D, a matrix of low rank plus a diagonal.

    Inverse and determinant come from those of the small matrix I + Wᵀ D⁻¹ W (Woodbury's identity).

    Args:
        cov_factor, cov_diag: W and the diagonal of D.
    Shape: loc (*, n), cov_factor (*, n, rank), cov_diag (*, n), of which (*) is the batch shape; event (n,).
    Raises:
        ValueError: when a parameter has too few dimensions or sizes do not match.

    >>> import tdt
    >>> from tdt import distributions
    >>> distributions.LowRankMultivariateNormal(tdt.zeros(2), tdt.tensor([[1.0], [0.0]]), tdt.ones(2)).covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
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
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        size = loc.shape[-1:]
        if cov_factor.ndim < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != size:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {size[0]} x m")
        if cov_diag.shape[-1:] != size:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {size}")
        try:
            batch = tdt.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand(*batch, -1), cov_diag.expand(*batch, -1)
        self.cov_factor = cov_factor.expand(*batch, -1, -1)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        eye = tdt.eye(cov_factor.shape[-1], dtype=cov_factor.dtype, device=cov_factor.device)
        self._capacitance_tril = linalg.cholesky(eye + self._weighted() @ cov_factor)
        super().__init__(batch, size, validate_args)

    def _weighted(self) -> Tensor:
        """Wᵀ D⁻¹, (…, rank, n)."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _over_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + 2 * self._event_shape)

    @property
    def variance(self) -> Tensor:
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return self._over_batch(factor @ factor.mT + tdt.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        part = solve_lower(self._capacitance_tril, self._weighted())
        return self._over_batch(tdt.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - part.mT @ part)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, dtype, device = self._extended_shape(sample_shape), self.loc.dtype, self.loc.device
        low = tdt.randn(shape[:-1] + self.cov_factor.shape[-1:], dtype=dtype, device=device)
        own = tdt.randn(shape, dtype=dtype, device=device)
        shared = (self._unbroadcasted_cov_factor @ low.unsqueeze(-1)).squeeze(-1)
        return self.loc + shared + self._unbroadcasted_cov_diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self.log_det() + self.distance(value - self.loc))

    def entropy(self) -> Tensor:
        half = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self.log_det())
        return half.expand(self._batch_shape)

    def log_det(self) -> Tensor:
        """The log of the covariance's determinant."""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def distance(self, difference: Tensor) -> Tensor:
        """The squared Mahalanobis distance xᵀ Σ⁻¹ x of each vector x (…, n)."""
        small = (self._weighted() @ difference.unsqueeze(-1)).squeeze(-1)
        plain = (difference.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return plain - mahalanobis(self._capacitance_tril, small)

    def trace_of_quotient(self, factor: Tensor) -> Tensor:
        """The trace of Σ⁻¹ F Fᵀ for F (…, n, m)."""
        part = solve_lower(self._capacitance_tril, self._weighted() @ factor)
        return (factor.pow(2) / self._unbroadcasted_cov_diag.unsqueeze(-1)).sum((-2, -1)) - part.pow(2).sum((-2, -1))
