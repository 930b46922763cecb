"""Samples of products and factorisations. Matrices are well conditioned and singular values apart."""

import math

import numpy as np

import tdt
from tests.samples._sample import by_torch, call, distinct, samples, x, z

SQUARE = x(2, 3, 3) + 3 * np.eye(3)
COMPLEX = z(3, 3) + 3 * np.eye(3)
HERMITIAN = COMPLEX @ COMPLEX.conj().T
SINGULAR = COMPLEX @ np.diag([1, 1, 0])
POSITIVE = SQUARE @ SQUARE.swapaxes(-2, -1)


def symmetric(a):
    """Half of a plus its adjoint: gradient checks perturb single entries, which these ops take to be mirrored."""
    return (a + a.mH) / 2


def weighted(vectors):
    """The columns, each times another number: with their adjoints again, they have no free phase."""
    return vectors * tdt.arange(1.0, vectors.shape[-1] + 1, dtype=tdt.float64)


samples("trace", np.trace, call(x(3, 4)), call(x(3, 3)), call(z(3, 2)))
samples(
    "cross",
    lambda a, b, dim: np.cross(a, b, axis=dim),
    call(x(3), x(3, seed=1), dim=-1),
    call(x(4, 3), x(4, 3, seed=1), dim=-1),
    call(x(2, 3, 9), x(1, 3, 9, seed=1), dim=-2),
    call(z(3, 2), z(3, 2, seed=1), dim=-2),
    call(x(0, 3), x(0, 3), dim=-1),
)
samples(
    "matmul",
    np.matmul,
    call(x(3, 4), x(4, 2)),
    call(x(4), x(4, 2)),
    call(x(2, 3, 4), x(4)),
    call(x(4), x(4, seed=1)),
    call(x(2, 1, 3, 4), x(5, 4, 2)),
    call(z(2, 3), z(3, 2)),
    call(z(3), z(3, 2)),
    call(z(2, 3), z(3)),
    call(z(2, 2, 3), z(3)),
    call(z(3), z(2, 3, 2)),
    call(z(3), z(3, seed=1)),
    call(x(0, 3), x(3, 2)),
    call(x(2, 0), x(0, 3)),
)
samples(
    "addmm",
    lambda a, b, c, beta, alpha: beta * a + alpha * np.matmul(b, c),
    call(x(3, 2), x(3, 4, seed=1), x(4, 2, seed=2), beta=1, alpha=1),
    call(x(2), x(3, 4, seed=1), x(4, 2, seed=2), beta=1, alpha=1),
    call(x(3, 1), x(3, 4, seed=1), x(4, 2, seed=2), beta=2, alpha=-0.5),
    call(x(2), x(2, 3, 4, seed=1), x(2, 4, 2, seed=2), beta=0.5, alpha=1),
    call(x(3), x(3, 4, seed=1), x(4, seed=2), beta=1, alpha=2),
)


def vector_norm(a, ord, dim, keepdim):
    size = np.abs(a)
    if np.isinf(ord):
        return (size.max if ord > 0 else size.min)(axis=dim, keepdims=keepdim)
    return (
        (size != 0).sum(dim, float, keepdims=keepdim)
        if ord == 0
        else (size**ord).sum(dim, keepdims=keepdim) ** (1 / ord)
    )


FAR = distinct(2, 3, 4)
samples(
    "vector_norm",
    vector_norm,
    *(call(FAR, ord=o, dim=(1,), keepdim=False) for o in (2.0, 1.0, 3.0, 1.5, np.inf, -np.inf)),
    call(FAR, ord=0.0, dim=None, keepdim=False),
    call(z(2, 3), ord=2.0, dim=None, keepdim=False),
    call(z(2, 3), ord=3.0, dim=(0,), keepdim=True),
)


def cosine(a, b, dim, eps):
    norms = [np.maximum(np.sqrt((v * v).sum(dim, keepdims=True)), eps) for v in (a, b)]
    return (a / norms[0] * (b / norms[1])).sum(dim)


samples(
    "cosine_similarity",
    cosine,
    call(x(3, 4), x(3, 4, seed=1), dim=1, eps=1e-8),
    call(x(2, 20, 3), x(2, 20, 3, seed=1), dim=1, eps=3.0),
    call(x(0, 3), x(0, 3), dim=1, eps=1e-8),
)


def fine(a):
    """LAPACK's code for each of the matrices: 0."""
    return np.zeros(a.shape[:-2], np.int32)


samples("cholesky", lambda a: (np.linalg.cholesky(a), fine(a)), call(POSITIVE), call(HERMITIAN), constrain=symmetric)
samples(
    "det", np.linalg.det, call(SQUARE), call(COMPLEX), call(SINGULAR), call(SINGULAR.real[:1] * SINGULAR.real[:, :1])
)
samples("slogdet", np.linalg.slogdet, call(SQUARE), call(COMPLEX))
samples("inv", lambda a: (np.linalg.inv(a), fine(a)), call(SQUARE), call(COMPLEX))
samples("solve", lambda a, b: (np.linalg.solve(a, b), fine(a)), call(SQUARE, x(2, 3, 2)), call(COMPLEX, z(3, 2)))


def solve_triangular(a, b, upper, unitriangular=False):
    a = np.triu(a) if upper else np.tril(a)
    diagonal = np.eye(a.shape[-1])
    return np.linalg.solve(np.where(diagonal, 1, a) if unitriangular else a, b)


samples(
    "solve_triangular",
    solve_triangular,
    call(SQUARE, x(2, 3, 2), upper=True),
    call(SQUARE, x(3, 1), upper=False),
    call(SQUARE[0], x(2, 3, 2), upper=True, unitriangular=True),
    call(SQUARE.swapaxes(-2, -1), x(2, 3, 2), upper=False, unitriangular=True),
    call(COMPLEX, z(3, 2), upper=False),
    call(x(2, 0, 0), x(2, 0, 3), upper=True),
)


def cholesky_solve(a, b):
    lower = np.tril(a)
    return np.linalg.solve(lower @ lower.conj().swapaxes(-2, -1), b)


samples("cholesky_solve", cholesky_solve, call(SQUARE, x(2, 3, 2)), call(SQUARE[0], x(2, 3, 1)), call(COMPLEX, z(3, 2)))


def lu_factor(a):
    from scipy.linalg import lu_factor

    found = [lu_factor(m) for m in a.reshape((-1, *a.shape[-2:]))]
    LU, pivots = (np.stack(f) for f in zip(*found, strict=True))
    return LU.reshape(a.shape), (pivots + 1).astype(np.int32).reshape((*a.shape[:-2], -1)), fine(a)


samples("lu_factor", lu_factor, call(SQUARE), call(x(4, 3)), call(x(2, 4)), call(z(3, 3)), call(z(4, 2)), call(z(2, 3)))
samples(
    "permutation",
    lambda pivots, rows: np.array([[1, 0, 2], [2, 0, 1]]),
    call(np.array([[2, 2, 3], [3, 3, 3]], np.int32), rows=3),
)
samples(
    "eig",
    np.linalg.eig,
    call(SQUARE),
    call(COMPLEX),
    unique=lambda values, V: (values, V * V.sum(-2, keepdim=True).conj()),
)
samples(
    "geqrf",
    by_torch(lambda torch, a: torch.geqrf(a)),
    call(x(2, 4, 3), grad=False),
    call(z(2, 3), grad=False),
)
samples(
    "pinv",
    lambda a, atol, rtol, hermitian=False: np.linalg.pinv(a, rtol, hermitian=hermitian),
    call(x(2, 4, 3), 0.0, 1e-10),
    call(x(2, 4), 0.0, 1e-10),
    call(z(3, 2), 0.0, 1e-10),
    call(x(0, 3), 0.0, 1e-10),
)


def lstsq(a, b, rcond, driver):
    from scipy.linalg import lstsq

    found = [lstsq(p, q) for p, q in zip(a, b, strict=True)]
    solution, rank = np.stack([f[0] for f in found]), np.array([f[2] for f in found])
    return solution, rank, np.stack([f[3] for f in found]), fine(a)


samples(
    "lstsq",
    lstsq,
    call(x(2, 4, 3), x(2, 4, 2), rcond=1e-10, driver="gelsd"),
    call(x(2, 3, 4), x(2, 3, 1), rcond=1e-10, driver="gelss"),
    call(z(1, 4, 2), z(1, 4, 2), rcond=1e-10, driver="gelsd"),
)


def matrix_exp(a):
    values, V = np.linalg.eig(a)
    result = (V * np.exp(values)[..., None, :]) @ np.linalg.inv(V)
    return result if np.iscomplexobj(a) else result.real


samples("matrix_exp", matrix_exp, call(x(2, 3, 3)), call(z(3, 3)), call(x(0, 0), grad=False))
samples(
    "ldl_factor",
    by_torch(lambda torch, a, hermitian: torch.linalg.ldl_factor_ex(a, hermitian=hermitian)),
    call(POSITIVE - 9 * np.eye(3), grad=False, hermitian=False),
    call(HERMITIAN, grad=False, hermitian=True),
)
samples(
    "ldl_solve",
    by_torch(lambda torch, LD, p, b, hermitian: torch.linalg.ldl_solve(LD, p, b, hermitian=hermitian)),
    call(SQUARE, np.array([[1, 2, 3]] * 2, np.int32), x(2, 3, 2), grad=False, hermitian=False),
)
samples(
    "eigh",
    lambda a, UPLO: np.linalg.eigh(a, UPLO),
    call(POSITIVE, UPLO="L"),
    call(POSITIVE, UPLO="U"),
    call(HERMITIAN, UPLO="L"),
    constrain=symmetric,
    unique=lambda values, V: (values, weighted(V) @ V.mH),
)
samples(
    "qr",
    lambda a, mode: np.linalg.qr(a, mode),
    call(SQUARE, mode="reduced"),
    call(x(4, 3), mode="reduced"),
    call(x(2, 4), mode="reduced"),
    call(COMPLEX, mode="reduced"),
    call(z(4, 3), mode="reduced"),
    call(z(2, 4), mode="reduced"),
)
samples(
    "svd",
    lambda a, full_matrices: np.linalg.svd(a, full_matrices),
    call(SQUARE, full_matrices=False),
    call(x(4, 3), full_matrices=False),
    call(x(2, 4), full_matrices=False),
    call(SQUARE[0], full_matrices=True),
    call(COMPLEX, full_matrices=False),
    call(z(4, 3), full_matrices=False),
    call(z(2, 4), full_matrices=False),
    unique=lambda U, S, Vh: (S, weighted(U) @ U.mH, weighted(U) @ Vh, weighted(Vh.mH) @ Vh),
)
samples(
    "svdvals", lambda a: np.linalg.svd(a, compute_uv=False), call(SQUARE), call(z(4, 3)), call(x(2, 4)), call(x(0, 3))
)
samples(
    "eigvalsh",
    np.linalg.eigvalsh,
    call(POSITIVE, UPLO="L"),
    call(HERMITIAN, UPLO="U"),
    constrain=symmetric,
)

for _name, _apply, *_operands in (
    ("pdist", lambda torch, a, p: torch.pdist(a, p), distinct(4, 3)),
    ("cdist", lambda torch, a, b, p: torch.cdist(a, b, p), x(2, 4, 3), x(2, 2, 3, seed=1, low=3, high=5)),
):
    samples(
        _name,
        by_torch(_apply),
        *(call(*_operands, p=p) for p in (1.0, 2.0, 3.0)),
        *(call(*_operands, p=p, grad=False) for p in (0.0, math.inf)),
    )
