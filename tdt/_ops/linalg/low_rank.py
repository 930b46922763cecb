"""Leading singular values of large matrices, by random projections: svd_lowrank, pca_lowrank."""

from __future__ import annotations

from tdt._core.calls import front
from tdt._core.tensor import Tensor
from tdt._ops.linalg.decompositions import qr, svd
from tdt._ops.random.creation import randn

__all__ = ["pca_lowrank", "svd_lowrank"]


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns whose span is about that of A's q leading left singular vectors: powers of A Aᴴ on random ones."""
    Q = qr(A @ randn(A.shape[-1], q, dtype=A.dtype, device=A.device)).Q
    for _ in range(niter):
        Q = qr(A @ qr(A.mH @ Q).Q).Q
    return Q


@front
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Approximate leading singular values and vectors of A, or of A - M, from random projections.

    U diag(S) Vᴴ is close to the matrix if its other singular values are small. For small matrices `linalg.svd` is faster.

    Args:
        q: number of singular values; None for 6.
        niter: number of subspace iterations; None for 2.
        M: matrix to subtract from A.
    Shape: A (*, M, N); U (*, M, q), S (*, q), V (*, N, q).
    Returns: tuple (U, S, V).
    Source: Halko, Martinsson and Tropp, "Finding structure with randomness", 2009, algorithm 5.1.

    >>> import tdt
    >>> U, S, V = tdt.svd_lowrank(tdt.ones(20, 10), q=2)
    >>> S[0]
    tensor(14.1421)
    """
    A = A if M is None else A - M.broadcast_to(A.shape)
    swapped = A.shape[-2] < A.shape[-1]
    A = A.mH if swapped else A
    Q = _basis(A, 6 if q is None else q, 2 if niter is None else niter)
    U, S, Vh = svd(Q.mH @ A, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if swapped else (U, S, V)


@front
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Approximate principal component analysis of rows of samples, from random projections.

    The columns of V are the principal directions, A @ V the projections onto them, S² / (M - 1) the variances.

    Args:
        q: number of components; by default min(6, M, N).
        center: subtract the mean of each column first.
        niter: number of subspace iterations.
    Shape: A (*, M, N); U (*, M, q), S (*, q), V (*, N, q).
    Returns: tuple (U, S, V).
    Raises:
        ValueError: when q is negative or larger than min(M, N), or niter is negative.
    Source: Halko, Martinsson and Tropp, "Finding structure with randomness", 2009.

    >>> import tdt
    >>> U, S, V = tdt.pca_lowrank(tdt.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), q=1)
    >>> V.abs()
    tensor([[0.7071],
            [0.7071]])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
