"""Samples of products and factorisations. Matrices are well conditioned and singular values apart."""

import numpy as np

import tdt
from tests.samples._sample import call, distinct, samples, x, z

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

samples("cholesky", np.linalg.cholesky, call(POSITIVE), call(HERMITIAN), constrain=symmetric)
samples(
    "det", np.linalg.det, call(SQUARE), call(COMPLEX), call(SINGULAR), call(SINGULAR.real[:1] * SINGULAR.real[:, :1])
)
samples("slogdet", np.linalg.slogdet, call(SQUARE), call(COMPLEX))
samples("inv", np.linalg.inv, call(SQUARE), call(COMPLEX))
samples("solve", np.linalg.solve, call(SQUARE, x(2, 3, 2)), call(COMPLEX, z(3, 2)))
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
