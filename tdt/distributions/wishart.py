"""The Wishart distribution of covariance matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import tdt
from tdt import Size, Tensor, linalg
from tdt.distributions import constraints
from tdt.distributions._scale_tril import FACTOR, ScaleTril, half_log_det, single_matrix
from tdt.distributions.chi2 import Chi2
from tdt.distributions.exp_family import ExponentialFamily

__all__ = ["Wishart"]


class Wishart(ScaleTril, ExponentialFamily):
    """Wishart distribution: sum of x xᵀ over `df` normal vectors of mean 0, a symmetric matrix.

    Args:
        df: degrees of freedom, above n - 1.
        covariance_matrix, precision_matrix, scale_tril: the vectors' covariance, its inverse, or its lower Cholesky
            factor;
            exactly one of the three.
    Shape: df of the batch shape, the matrix (*, n, n), of which (*) is the batch shape; event (n, n).
    Raises:
        ValueError: when not exactly one matrix is given, or `df` is too small.
    Source: sampled by Bartlett's decomposition; Anderson, "An Introduction to Multivariate Statistical Analysis", 2003.

    >>> import tdt
    >>> tdt.distributions.Wishart(4.0, covariance_matrix=tdt.eye(2)).mean
    tensor([[4., 0.],
            [0., 4.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> Mapping[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self, df: Tensor | float, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        name, matrix = single_matrix(
            AssertionError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if matrix.ndim < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        degrees = df if isinstance(df, Tensor) else tdt.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch, n = tdt.broadcast_shapes(matrix.shape[:-2], degrees.shape), matrix.shape[-1]
        self.df = degrees.expand(batch)
        if (self.df <= n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if (self.df < n).any():
            message = "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim."
            warnings.warn(message, stacklevel=2)
        setattr(self, name, matrix.expand(*batch, -1, -1))
        super().__init__(batch, (n, n), validate_args)
        self._unbroadcasted_scale_tril = FACTOR[name](matrix)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return tdt.where(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (self.covariance_matrix.pow(2) + outer)

    def _draw(self, sample_shape: Sequence[int]) -> Tensor:
        """Samples L A Aᵀ Lᵀ, A of chi on the diagonal and normal numbers below it (Bartlett)."""
        n, tril = self._event_shape[-1], self._unbroadcasted_scale_tril
        degrees = self.df.unsqueeze(-1) - tdt.arange(n, dtype=tril.dtype, device=tril.device)
        chi = Chi2(degrees).rsample(sample_shape).sqrt().clamp(min=tdt.finfo(tril.dtype).eps)
        rows, columns = tdt.tril_indices(n, n, offset=-1)
        shape = Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,)
        part = chi.diag_embed()
        part[..., rows, columns] = tdt.randn(shape, dtype=chi.dtype, device=chi.device)
        factor = tril @ part
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Samples with gradients; singular ones are drawn again, `max_try_correction` times at most, by default ten.

        PyTorch draws every sample that is not singular a second time, so this does: one seed, one result.
        """
        sample = self._draw(sample_shape)
        again = self._whole_batch(self.support.check(sample))
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not again.any():
                break
            drawn = self._draw(again[again].shape)
            sample[again] = drawn
            again[again.clone()] = self._whole_batch(~self.support.check(drawn))
        return sample

    def _whole_batch(self, marked: Tensor) -> Tensor:
        """Whether a matrix of the batch is marked, for each sample."""
        return marked.flatten(marked.ndim - len(self._batch_shape)).any(-1) if self._batch_shape else marked

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, tril = self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = tdt.cholesky_solve(value, tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        normalizer = self.df * (n * math.log(2) / 2 + half_log_det(tril)) + tdt.mvlgamma(self.df / 2, n)
        return (self.df - n - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2 - normalizer

    def entropy(self) -> Tensor:
        n, df = self._event_shape[-1], self.df
        digamma = (df.unsqueeze(-1) / 2 - tdt.arange(n, dtype=df.dtype, device=df.device) / 2).digamma().sum(-1)
        determinant = (n + 1) * (n * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
        return determinant + tdt.mvlgamma(df / 2, n) - (df - n - 1) / 2 * digamma + df * n / 2
