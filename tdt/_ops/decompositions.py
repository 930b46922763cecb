"""Decompositions and inverses of matrices, in batches: svd, qr, cholesky, eigh, inv, det, solve."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._dtype import FLOATING_AND_COMPLEX, LAPACK, SCALAR_NAMES
from tdt._node_names import shown_as
from tdt._ops._common import with_out
from tdt._ops.order import return_type
from tdt._tensor import Tensor, wrap
from tdt.autograd._mode import state
from tdt.autograd._op import op

__all__ = ["cholesky", "det", "inverse", "logdet", "qr", "slogdet", "svd"]


def check_matrix(name: str, x: Tensor, square: bool = False) -> None:
    """RuntimeError unless x is floating-point with at least 2 dimensions, the last two equal where `square`."""
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if square and x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
        )
    check_float(name, x)


def check_float(name: str, x: Tensor) -> None:
    """RuntimeError unless x is floating-point or complex."""
    if x.dtype.category not in FLOATING_AND_COMPLEX:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {SCALAR_NAMES[x.dtype]}")


def _refusal(name: str, error: Exception) -> RuntimeError:
    from tdt._errors import LinAlgError

    return LinAlgError(f"{name}: {error}")


def by_columns(a: Any) -> Any:
    """The same matrices with their columns in order in memory, as LAPACK leaves them and PyTorch hands them on."""
    return a.swapaxes(-1, -2).copy(order="C").swapaxes(-1, -2)


@op(dtypes=LAPACK, outputs=("U", "S", "Vh"))
def _svd(xp: ModuleType, x: Any, *, full_matrices: bool = True) -> Any:
    m, n = x.shape[-2:]
    if not x.size:
        k, eye = min(m, n), x.shape[:-2]
        u = xp.zeros((*eye, m, m if full_matrices else k), x.dtype) + xp.eye(
            m, m if full_matrices else k, dtype=x.dtype
        )
        vh = xp.zeros((*eye, n if full_matrices else k, n), x.dtype) + xp.eye(
            n if full_matrices else k, n, dtype=x.dtype
        )
        return by_columns(u), xp.zeros((*eye, k), x.real.dtype), by_columns(vh)
    try:
        U, S, Vh = xp.linalg.svd(x, full_matrices=full_matrices)
    except np.linalg.LinAlgError as error:
        raise _refusal("linalg.svd", error) from None
    return by_columns(U), S, by_columns(Vh)


@_svd.vjp("x")
def _(g: tuple, U: Tensor, S: Tensor, Vh: Tensor, full_matrices: bool) -> Tensor:
    """Townsend, 2016 (real), and Wan and Zhang, arXiv:1909.02659 (complex), with the thin factors."""
    gU, gS, gVh = g
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    if gU is None and gVh is None:
        return U[..., :, :k] @ (gS.unsqueeze(-1) * Vh[..., :k, :])
    U, Vh = U[..., :k], Vh[..., :k, :]
    if k == 0:
        return (U * S.unsqueeze(-2)) @ Vh
    gU = gU if gU is None else gU[..., :k]
    gVh = gVh if gVh is None else gVh[..., :k, :]
    V, gV = Vh.mH, None if gVh is None else gVh.mH
    squares = S.square()
    gap = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    gap = gap + gap.new_ones(k).diag_embed()
    inner = S.diag_embed() * 0 if gS is None else gS.diag_embed()
    if gU is not None:
        turn = U.mH @ gU
        skew = (turn - turn.mH) / gap
        skew = skew - skew.diagonal(0, -2, -1).diag_embed()
        inner = inner + skew * S.unsqueeze(-2)
    if gV is not None:
        turn = V.mH @ gV
        skew = (turn - turn.mH) / gap
        skew = skew - skew.diagonal(0, -2, -1).diag_embed()
        inner = inner + S.unsqueeze(-1) * skew
    if U.is_complex() and gU is not None:
        phase = (U.mH @ gU).diagonal(0, -2, -1)
        # The vectors of a singular value that is 0 have a free phase each: nothing may depend on it.
        inner = inner + (phase.imag / S.masked_fill(S == 0, math.inf) * 1j).diag_embed()
    result = U @ inner @ Vh
    if gU is not None and m > k:
        result = result + (gU - U @ (U.mH @ gU)) / S.unsqueeze(-2) @ Vh
    if gV is not None and n > k:
        result = result + U @ ((gV - V @ (V.mH @ gV)) / S.unsqueeze(-2)).mH
    return result


@with_out
def svd_full(A: Tensor, full_matrices: bool = True) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh, singular values from large to small; all three in batches.

    Gradients through U and Vh exist where the singular values differ; for complex A the loss must not depend on the
    phase of the singular vectors. The further vectors that full_matrices adds are not unique and get no gradient.

    >>> import tdt
    >>> tdt.linalg.svd(tdt.tensor([[3.0, 0.0], [0.0, 2.0]])).S
    tensor([3., 2.])
    """
    check_matrix("linalg.svd", A)
    return return_type("linalg_svd", ("U", "S", "Vh"))(*_svd(A, full_matrices=full_matrices))


@with_out
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with input = U diag(S) V^H; linalg.svd is the newer form, which returns V^H.

    >>> import tdt
    >>> tdt.svd(tdt.tensor([[3.0, 0.0], [0.0, 2.0]])).S
    tensor([3., 2.])
    """
    check_matrix("svd", input)
    U, S, Vh = _svd(input, full_matrices=not some)
    if not compute_uv:
        m, n = input.shape[-2:]
        U, Vh = input.new_zeros((*input.shape[:-2], m, m)), input.new_zeros((*input.shape[:-2], n, n))
    return return_type("svd", ("U", "S", "V"))(U, S, Vh.mH)


@op(dtypes=LAPACK, outputs=("Q", "R"))
def _qr(xp: ModuleType, x: Any, *, mode: str = "reduced") -> Any:
    if mode == "r":
        return xp.empty(0, x.dtype), xp.linalg.qr(x, "r")
    Q, R = xp.linalg.qr(x, mode)
    return by_columns(Q), by_columns(R)


@_qr.vjp("x")
def _(g: tuple, Q: Tensor, R: Tensor, mode: str) -> Tensor:
    """Roberts and Roberts, arXiv:2009.10071."""
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    gQ, gR = g
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    k = min(m, n)
    main, rest = R[..., :k], R[..., k:]
    gQ = Q.new_zeros(Q.shape) if gQ is None else gQ
    gR = R.new_zeros(R.shape) if gR is None else gR
    if n > k:  # wide: the further columns are Q^H A, so their gradient joins that of Q
        gQ = gQ + (Q @ rest) @ gR[..., k:].mH
    inner = main @ gR[..., :k].mH - gQ.mH @ Q
    lower = inner.tril()
    strict = inner.tril(-1)
    symmetric = strict + strict.mH + (lower - strict).real.to(inner.dtype)
    left = _solve_right(gQ + Q @ symmetric, main.mH)
    from tdt._ops.join import cat

    return cat([left, Q @ gR[..., k:]], -1) if n > k else left


def _solve_right(B: Tensor, A: Tensor) -> Tensor:
    """X with X A = B."""
    return _solve(A.mT, B.mT).mT


@with_out
def qr_mode(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) with A = Q R, Q with orthonormal columns and R upper triangular; mode "reduced", "complete" or "r".

    >>> import tdt
    >>> tdt.linalg.qr(tdt.eye(2)).R.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return return_type("linalg_qr", ("Q", "R"))(*_qr(A, mode=mode))


@with_out
def qr(input: Tensor, some: bool = True) -> Any:
    """(Q, R) with input = Q R; linalg.qr is the newer form.

    >>> import tdt
    >>> tdt.qr(tdt.eye(2)).R.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_matrix("qr", input)
    return return_type("qr", ("Q", "R"))(*_qr(input, mode="reduced" if some else "complete"))


@op(dtypes=LAPACK)
def _inv(xp: ModuleType, x: Any) -> Any:
    try:
        return by_columns(xp.linalg.inv(x))
    except np.linalg.LinAlgError:
        raise _refusal(
            "linalg.inv",
            ValueError(
                "The diagonal element is zero, the inversion could not be completed because the input matrix is "
                "singular."
            ),
        ) from None


_inv.vjp("x")(lambda g, out: -(out.mH @ g @ out.mH))


@with_out
def inverse(input: Tensor) -> Tensor:
    """The inverse of each square matrix; LinAlgError where one is singular.

    >>> import tdt
    >>> tdt.inverse(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_matrix("linalg.inv", input, square=True)
    return _inv(input)


@op(dtypes=LAPACK)
def _det(xp: ModuleType, x: Any) -> Any:
    with np.errstate(all="ignore"):  # a warning would be of NumPy's own module, which no filter of ours covers
        return xp.asarray(xp.linalg.det(x))


@_det.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """det(A) · A^-H, from the cofactors: U diag(products of the other singular values) Vh, right for singular A too."""
    U, S, Vh = _svd(x, full_matrices=False)
    n = S.shape[-1]
    if not (S._a[..., -1:] <= n * np.finfo(S._a.dtype).eps * S._a[..., :1]).any():
        return (g * out.conj()).unsqueeze(-1).unsqueeze(-1) * _inv(x).mH
    g = g.unsqueeze(-1).unsqueeze(-1)
    if state.grad:  # the factors of a singular matrix have no derivatives
        return g * _cofactors(x).conj()
    eye = S.new_ones(n).diag_embed() != 0
    others = S.unsqueeze(-2).expand(*S.shape[:-1], n, n).masked_fill(eye, 1).prod(-1)
    phase = (_det(U) * _det(Vh)).unsqueeze(-1).unsqueeze(-1)
    return g * phase.conj() * (U @ (others.unsqueeze(-1) * Vh))


def _cofactors(x: Tensor) -> Tensor:
    """The determinants of what is left of each matrix without row i and column j, with the signs of a chessboard."""
    from tdt._ops.index import getitem

    n = x.shape[-1]
    left = np.array([[j for j in range(n) if j != i] for i in range(n)], np.int64).reshape(n, n - 1)
    rows, columns = (wrap(_backend.namespace(x._a).asarray(a)) for a in (left[:, None, :, None], left[:, None, :]))
    signs = x.new_tensor([[(-1) ** (i + j) for j in range(n)] for i in range(n)])
    return _det(getitem(x, (..., rows, columns))) * signs


@with_out
def det(input: Tensor) -> Tensor:
    """The determinant of each square matrix.

    >>> import tdt
    >>> tdt.det(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_matrix("linalg.det", input, square=True)
    return _det(input)


@op(dtypes=LAPACK, outputs=("sign", "logabsdet"))
def _slogdet(xp: ModuleType, x: Any) -> Any:
    sign, value = xp.linalg.slogdet(x)
    return xp.asarray(sign), xp.asarray(value)


@_slogdet.vjp("x")
def _(g: tuple, x: Tensor, sign: Tensor) -> Tensor:
    g_sign, g_log = g
    weight = 0 if g_log is None else g_log
    if g_sign is not None and x.is_complex():
        weight = weight - (g_sign.conj() * sign).imag * 1j
    if not isinstance(weight, Tensor):
        return x.new_zeros(x.shape)
    return weight.unsqueeze(-1).unsqueeze(-1) * _inv(x).mH


@with_out
def slogdet(input: Tensor) -> Any:
    """(sign, logabsdet): the determinant as sign · exp(logabsdet), without overflow.

    >>> import tdt
    >>> tdt.slogdet(tdt.eye(2))[1]
    tensor(0.)
    """
    check_matrix("linalg.slogdet", input, square=True)
    return return_type("slogdet", ("sign", "logabsdet"))(*_slogdet(input))


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; nan where it is negative.

    >>> import tdt
    >>> tdt.logdet(tdt.eye(2))
    tensor(0.)
    """
    check_matrix("logdet", input, square=True)
    sign, value = _slogdet(input)
    return value + sign.log()


@op(dtypes=LAPACK)
def _cholesky(xp: ModuleType, x: Any) -> Any:
    try:
        return xp.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise _refusal(
            "linalg.cholesky",
            ValueError("The factorization could not be completed because the input is not positive-definite."),
        ) from None


@_cholesky.vjp("x")
def _(g: Tensor, out: Tensor) -> Tensor:
    """Murray, arXiv:1602.07527."""
    phi = (out.mH @ g).tril()
    half = phi - phi.diagonal(0, -2, -1).diag_embed() / 2
    symmetric = (half + half.mH) / 2
    inner = _solve(out.mH, symmetric)
    return _solve_right(inner, out)


@with_out
@shown_as("LinalgCholeskyExBackward0")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The lower triangular L with input = L L^H (or its upper form); LinAlgError unless positive-definite.

    >>> import tdt
    >>> tdt.cholesky(tdt.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    check_matrix("linalg.cholesky", input, square=True)
    lower = _cholesky(input)
    return lower.mH if upper else lower


@op(dtypes=LAPACK, elementwise=False)
def _solve(xp: ModuleType, a: Any, b: Any) -> Any:
    try:
        return by_columns(xp.linalg.solve(a, b))
    except np.linalg.LinAlgError:
        raise _refusal("linalg.solve", ValueError("The solver failed because the input matrix is singular.")) from None


_solve.vjp("a")(lambda g, a, out: -(_solve(a.mH, g) @ out.mH))
_solve.vjp("b")(lambda g, a: _solve(a.mH, g))


@with_out
def solve(A: Tensor, B: Tensor, left: bool = True) -> Tensor:
    """X with A X = B (left=False: X A = B); B is a matrix, or a batch of vectors. LinAlgError where A is singular.

    >>> import tdt
    >>> tdt.linalg.solve(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]), tdt.tensor([2.0, 4.0]))
    tensor([1., 1.])
    """
    check_matrix("linalg.solve", A, square=True)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {SCALAR_NAMES[A.dtype]} "
            f"and B of type {SCALAR_NAMES[B.dtype]} instead"
        )
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    if vector:
        if not left:
            raise RuntimeError(
                "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False."
            )
        return _solve(A, B.unsqueeze(-1)).squeeze(-1)
    if (B.shape[-2] if left else B.shape[-1]) != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    return _solve(A, B) if left else _solve_right(B, A)


@op(dtypes=LAPACK, outputs=("eigenvalues", "eigenvectors"))
def _eigh(xp: ModuleType, x: Any, *, UPLO: str = "L") -> Any:
    values, vectors = xp.linalg.eigh(x, UPLO)
    return values, by_columns(vectors)


@_eigh.vjp("x")
def _(g: tuple, eigenvalues: Tensor, eigenvectors: Tensor) -> Tensor:
    """Magnus, 1985; for complex matrices the loss must not depend on the phase of the eigenvectors."""
    g_values, g_vectors = g
    V = eigenvectors
    if g_vectors is None:
        return (V * g_values.unsqueeze(-2)) @ V.mH
    gap = eigenvalues.unsqueeze(-2) - eigenvalues.unsqueeze(-1)
    inner = (V.mH @ g_vectors) / (gap + gap.new_ones(gap.shape[-1]).diag_embed())
    inner = inner - inner.diagonal(0, -2, -1).diag_embed()
    if g_values is not None:
        inner = inner + g_values.diag_embed()
    return V @ inner @ V.mH


@with_out
def eigh(A: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of Hermitian matrices, from small to large; UPLO says which triangle is read.

    >>> import tdt
    >>> tdt.linalg.eigh(tdt.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check_matrix("linalg.eigh", A, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return return_type("linalg_eigh", ("eigenvalues", "eigenvectors"))(*_eigh(A, UPLO=UPLO.upper()))
