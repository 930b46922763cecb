"""lobpcg: a few extreme eigenvalues of large symmetric matrices, by products with them alone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._ops.linalg.decompositions import cholesky
from tdt._ops.linalg.eigen import eigh
from tdt._ops.linalg.triangular import solve_triangular
from tdt._ops.random.creation import randn
from tdt._ops.shape.join import cat
from tdt.autograd._autocast import autocast

__all__ = ["lobpcg"]


@front
@autocast("float32")
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[Any], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest or smallest eigenvalues, and their eigenvectors, of the generalized problem A x = e B x.

    If A or B requires a gradient, all eigenvalues are computed by `linalg.eigh`, because the gradient depends on them.

    Args:
        A, B: symmetric matrices, B positive-definite; by default the identity.
        k: number of eigenvalues; by default the number of columns of X, or 1.
        X: initial vectors; by default n columns from the standard normal distribution.
        n: number of initial vectors; by default k.
        iK: preconditioner; residuals are multiplied by it.
        niter: largest number of iterations; by default 1000; -1 for no limit.
        tol: bound of the residuals relative to the norms of A and B; by default √eps.
        largest: False for the smallest eigenvalues.
        tracker: function called after each iteration with its state (E, X, R, ivars["istep"], …); it stops the iteration by
            bvars["force_stop"] = True.
        method, ortho_iparams, ortho_fparams, ortho_bparams: select PyTorch's orthogonalization; here they have no effect.
    Shape: A, B, iK (*, M, M), X (*, M, N) with M >= 3 N; E (*, K), X (*, M, K).
    Returns: tuple (E, X) of eigenvalues and eigenvectors, in columns.
    Raises:
        AssertionError: when the shapes of A, B and X do not match.
        ValueError: when M < 3 N, or `method` is unknown.
    Source: Knyazev, "Toward the Optimal Preconditioned Eigensolver", 2001; Stathopoulos and Wu, "A Block Orthogonalization
        Procedure with Constant Synchronization Requirements", 2002.

    >>> import tdt
    >>> A = tdt.diag(tdt.arange(1.0, 31.0))
    >>> _ = tdt.manual_seed(0)
    >>> tdt.lobpcg(A, k=2)[0]
    tensor([30.0000, 29.0000])
    """
    _check_problem(A, B, method)
    biggest = largest is None or largest
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    X = _initial_vectors(A, X, n)
    if A.requires_grad or (B is not None and B.requires_grad):
        E, X = _all_pairs(A, B)
        E, X = (E.flip(-1), X.flip(-1)) if biggest else (E, X)
        return E[..., :k], X[..., :k]
    with no_grad():
        limit = 1000 if niter is None else niter
        E, X = _iterate(A, B, X, iK, limit, _dtype.finfo(A.dtype).eps ** 0.5 if tol is None else tol, biggest, tracker)
        return E[..., :k], X[..., :k]


def _check_problem(A: Tensor, B: Tensor | None, method: str | None) -> None:
    if A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', but got {method!r}")


def _initial_vectors(A: Tensor, X: Tensor | None, n: int) -> Tensor:
    """X, or n columns from the normal distribution."""
    m = A.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={n})"
        )
    X = randn(*A.shape[:-2], m, n, dtype=A.dtype, device=A.device) if X is None else X
    if X.shape != (*A.shape[:-2], m, n):
        raise AssertionError(f"X shape mismatch: got {X.shape}, expected {(*A.shape[:-2], m, n)}")
    return X


def _all_pairs(A: Tensor, B: Tensor | None) -> tuple[Tensor, Tensor]:
    A = (A + A.mH) / 2
    if B is None:
        E, X = eigh(A)
        return E, X
    L = cholesky((B + B.mH) / 2)
    half = solve_triangular(L, A, upper=False)
    E, Y = eigh(solve_triangular(L, half.mH, upper=False))
    return E, solve_triangular(L.mH, Y, upper=True)


def _iterate(
    A: Tensor,
    B: Tensor | None,
    X: Tensor,
    iK: Tensor | None,
    limit: int,
    tol: float,
    largest: bool,
    tracker: Callable[[Any], None] | None,
) -> tuple[Tensor, Tensor]:
    n = X.shape[-1]
    size = X.norm()
    a_norm = (A @ X).norm() / size
    b_norm = (X if B is None else B @ X).norm() / size
    E, X, _ = _ritz(A, B, X, n, largest)
    P: Tensor | None = None
    at = SimpleNamespace(A=A, B=B, iK=iK, ivars={"istep": 0}, bvars={"force_stop": False}, fvars={}, tvars={})
    while True:
        R = A @ X - (X if B is None else B @ X) * E.unsqueeze(-2)
        error = R.norm(dim=-2) / (X.norm(dim=-2) * (a_norm + E.abs() * b_norm))
        done = error < tol
        at.E, at.X, at.R, at.tvars["rerr"] = E, X, R, error
        at.ivars["converged_count"] = int(done.sum())
        if tracker is not None:
            tracker(at)
        if bool(done.all()) or at.bvars["force_stop"] or at.ivars["istep"] == limit:
            return E, X
        W = R if iK is None else iK @ R
        new = W if P is None else cat([W, P], -1)
        E, X, P = _ritz(A, B, cat([X, _apart(new, X, B)], -1), n, largest)
        at.ivars["istep"] += 1


def _apart(W: Tensor, X: Tensor, B: Tensor | None) -> Tensor:
    """W with columns of length 1, orthogonalised against X, whose columns are orthonormal in B."""
    for _ in range(2):  # the second pass removes the rounding errors of the first
        W = W / W.norm(dim=-2, keepdim=True).clamp(min=_dtype.finfo(W.dtype).tiny)
        W = W - X @ (X.mH @ (W if B is None else B @ W))
    return W


def _ritz(A: Tensor, B: Tensor | None, S: Tensor, n: int, largest: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The n extreme Ritz values in the span of S, their vectors, and the part of these beyond S's first n columns."""
    d, V = eigh(S.mH @ (S if B is None else B @ S))
    independent = d > _dtype.finfo(d.dtype).eps * S.shape[-1] * d[..., -1:]
    # Columns that depend linearly on others become 0.
    basis = V * (independent / d.masked_fill(~independent, 1).sqrt()).unsqueeze(-2)
    Q = S @ basis
    T = Q.mH @ (A @ Q)
    beyond = 2 * (T.norm(dim=(-2, -1), keepdim=True) + 1)  # where those come last
    T = T + ((~independent).unsqueeze(-1) * (-beyond if largest else beyond)).expand(T.shape).tril().triu()
    E, Y = eigh((T + T.mH) / 2)
    E, Y = (E.flip(-1)[..., :n], Y.flip(-1)[..., :n]) if largest else (E[..., :n], Y[..., :n])
    C = basis @ Y
    return E, S @ C, S[..., n:] @ C[..., n:, :]
