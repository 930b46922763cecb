"""What distributions share whose parameter is a covariance, its inverse, or its lower Cholesky factor."""

from __future__ import annotations

from collections.abc import Callable

import tdt
from tdt import Size, Tensor, linalg
from tdt.distributions.utils import lazy_property


class ScaleTril:
    """The part of a distribution that has a lower Cholesky factor of its covariance: all forms of the matrix.

    The factor is kept without the batch: for one matrix and many means it is computed, and solved with, once.
    """

    _unbroadcasted_scale_tril: Tensor
    _batch_shape: Size

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._over_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._over_batch(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        inverse = solve_lower(self._unbroadcasted_scale_tril, eye_like(self._unbroadcasted_scale_tril))
        return self._over_batch(inverse.mT @ inverse)

    def _over_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])


def single_matrix(error: type[Exception], **matrices: Tensor | None) -> tuple[str, Tensor]:
    """Name and value of the one matrix that is not None. Raises `error` if there are none or several."""
    present = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(present) != 1:
        raise error(f"Exactly one of {' or '.join(matrices)} may be specified.")
    return present[0]


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


def eye_like(matrix: Tensor) -> Tensor:
    """Identity matrices in the shape of `matrix`."""
    return tdt.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape)


def _of_precision(matrix: Tensor) -> Tensor:
    """The lower factor of the inverse of P: of P turned by half a turn it is the inverse of the turned factor's transpose."""
    turned = linalg.cholesky(matrix.flip(-2, -1)).flip(-2, -1).mT
    return solve_lower(turned, eye_like(turned))


FACTOR: dict[str, Callable[[Tensor], Tensor]] = {
    "covariance_matrix": linalg.cholesky, "precision_matrix": _of_precision, "scale_tril": lambda tril: tril
}  # fmt: skip
