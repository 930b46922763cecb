"""Decompositions of matrices, in batches: svd, qr, cholesky. Eigenvalues are in eigen.py, LU in lu.py."""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tdt._core.dtype import LAPACK
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._kernels import product
from tdt._ops._common import with_out
from tdt._ops.linalg import _gram, _lapack
from tdt._ops.linalg._matrices import by_columns, check_info, check_matrix, columns, converging, each, lapack, raising
from tdt._ops.linalg.triangular import _solve_triangular, adjoint, triangular_right
from tdt._ops.shape.diagonals import _tril
from tdt.autograd._fast_path import takes
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

if TYPE_CHECKING:
    from tdt._core.return_types import linalg_cholesky_ex, linalg_qr, linalg_svd

SVD, QR, CHOLESKY = ("U", "S", "Vh"), ("Q", "R"), ("L", "info")  # names of results
FAILED = "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."


@op(dtypes=LAPACK, outputs=("U", "S", "Vh"), node="LinalgSvdBackward0", autocast="float32")
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
    if xp is np and (found := _lapack.svd(x, full_matrices)) is not None:
        return found
    with converging(FAILED):
        U, S, Vh = xp.linalg.svd(x, full_matrices=full_matrices)
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


def _check_svd(A: Tensor, driver: str | None) -> None:
    check_matrix("linalg.svd", A)
    if driver is not None and not A.is_cuda:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


_short_svd = _lapack.short_way(_svd, _lapack.svd, square=False, attribute="full_matrices")


@takes(
    lambda full_matrices=True: _lapack.way(_short_svd, "full_matrices", full_matrices),
    lambda found: return_type("linalg_svd", SVD)(*found),
)
@with_out
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> linalg_svd:
    """Singular value decomposition A = U diag(S) Vh, with the singular values in descending order.

    Gradients through U and Vh exist where the singular values differ; for complex A the loss must not depend on the phase of
    the singular vectors. The additional vectors of full_matrices=True are not unique and get no gradient.

    Args:
        full_matrices: complete U and Vh to square matrices.
        driver: cuSOLVER algorithm, for GPU tensors only.
    Shape: A (*, M, N); U (*, M, K), S (*, K), Vh (*, K, N) with K = min(M, N); with full_matrices U (*, M, M), Vh (*, N, N).
    Returns: named tuple (U, S, Vh).
    Raises:
        LinAlgError: when the algorithm does not converge.
        RuntimeError: when A is not a floating-point or complex matrix, or `driver` is given for a CPU tensor.

    >>> import tdt
    >>> tdt.linalg.svd(tdt.tensor([[3.0, 0.0], [0.0, 2.0]])).S
    tensor([3., 2.])
    """
    _check_svd(A, driver)
    return return_type("linalg_svd", SVD)(*_svd(A, full_matrices=full_matrices))


@op(dtypes=LAPACK, node="LinalgSvdBackward0", autocast="float32")
def _svdvals(xp: ModuleType, x: Any) -> Any:
    if not x.size:
        return xp.zeros((*x.shape[:-2], min(x.shape[-2:])), x.real.dtype)
    with converging(FAILED):
        return _gram.singular_values(x) if _gram.applies(x) else xp.linalg.svd(x, compute_uv=False)


@_svdvals.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    U, _, Vh = _svd(x, full_matrices=False)
    return U @ (g.unsqueeze(-1) * Vh)


@_svdvals.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any) -> Any:
    if _gram.applies(x):
        return _gram.gradient(g, x)
    U, _, Vh = _svd.forward(xp, x, full_matrices=False)
    return U @ (g[..., None] * Vh)


def _short_values(x: np.ndarray, _: None) -> np.ndarray | None:
    try:
        return _gram.singular_values(x) if _gram.applies(x) else None
    except np.linalg.LinAlgError:
        return None


_short_svdvals = _lapack.short_way(_svdvals, _short_values, square=False)


@takes(lambda: (_short_svdvals, None, None))
@with_out
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values in descending order, with a gradient also where they are equal.

    Args:
        driver: cuSOLVER algorithm, for GPU tensors only.
    Shape: A (*, M, N); result (*, min(M, N)).
    Raises:
        LinAlgError: when the algorithm does not converge.
        RuntimeError: when A is not a floating-point or complex matrix, or `driver` is given for a CPU tensor.

    >>> import tdt
    >>> tdt.linalg.svdvals(tdt.tensor([[3.0, 0.0], [0.0, 2.0]]))
    tensor([3., 2.])
    """
    _check_svd(A, driver)
    return _svdvals(A)


@op(dtypes=LAPACK, outputs=("Q", "R"), node="LinalgQrBackward0", autocast="float32")
def _qr(xp: ModuleType, x: Any, *, mode: str = "reduced") -> Any:
    if mode == "r":
        return xp.empty(0, x.dtype), xp.linalg.qr(x, "r")
    if xp is np and x.size:
        if (found := _lapack.qr(x, mode)) is not None:
            return found
        if x.ndim > 2:
            *batch, m, n = x.shape
            k = m if mode == "complete" else min(m, n)
            results = columns((*batch, m, k), x.dtype), columns((*batch, k, n), x.dtype)
            return each(functools.partial(_qr.forward, np, mode=mode), results, x)
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
    left = triangular_right(gQ + Q @ symmetric, main.mH, upper=False)
    from tdt._ops.shape.join import cat

    return cat([left, Q @ gR[..., k:]], -1) if n > k else left


_short_qr = _lapack.short_way(_qr, _lapack.qr, square=False, attribute="mode")


@takes(
    lambda mode="reduced": _lapack.way(_short_qr, "mode", mode),
    lambda found: return_type("linalg_qr", QR)(*found),
)
@with_out
def qr(A: Tensor, mode: Literal["reduced", "complete", "r"] = "reduced") -> linalg_qr:
    """QR decomposition A = Q R: Q with orthonormal columns, R upper triangular.

    Args:
        mode: "reduced": K = min(M, N); "complete": K = M, Q square; "r": R as for "reduced", Q empty.
    Shape: A (*, M, N); Q (*, M, K), R (*, K, N).
    Returns: named tuple (Q, R).
    Raises:
        RuntimeError: when A is not a floating-point or complex matrix, or `mode` is unknown.

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
    return return_type("linalg_qr", QR)(*_qr(A, mode=mode))


@op(dtypes=LAPACK, outputs=("L", "info"), node="LinalgCholeskyExBackward0", autocast="float32")
def _cholesky(xp: ModuleType, x: Any, *, upper: bool = False) -> Any:
    if upper:  # the triangle that is read; its gradient has no transpose, as the matrix is Hermitian
        x = adjoint(x)
    if xp is np and x.size and (L := _lapack.cholesky(x)) is not None:
        return L, _lapack.codes(x)
    if xp is np and x.ndim > 2:
        return each(functools.partial(_cholesky.forward, np), (np.zeros(x.shape, x.dtype), _lapack.codes(x)), x)
    try:
        with raising(xp):
            L = xp.linalg.cholesky(x)
        if xp is not np or not x.size or _lapack.has_numbers(L):
            return L, xp.zeros(x.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass
    factor = lapack("potrf", x.dtype.char)  # a matrix has no factor: report which
    return each(lambda a: _with_code(*factor(a, lower=1, clean=1)), (columns(x.shape, x.dtype), _lapack.codes(x)), x)


def _with_code(L: np.ndarray, code: int) -> tuple[np.ndarray, int]:
    """A factor and LAPACK's code, which counts NaN on the diagonal as failure; OpenBLAS does not."""
    places = np.isnan(L.diagonal()).nonzero()[0]
    return L, min([code or len(L), *(places[:1] + 1)]) if code or len(places) else 0


@_cholesky.vjp("x")
def _(g: tuple, L: Tensor) -> Tensor:
    """Murray, arXiv:1602.07527."""
    phi = (L.mH @ g[0]).tril()
    half = (phi + phi.tril(-1).mH) / 2
    return triangular_right(_solve_triangular(L.mH, half, upper=True), L, upper=False)


@_cholesky.fast_vjp("x")
def _(xp: ModuleType, g: tuple, L: Any) -> Any:
    phi = _tril.forward(xp, product(xp, adjoint(L), g[0]))
    half = (phi + adjoint(_tril.forward(xp, phi, diagonal=-1))) / 2
    solved = _solve_triangular.forward(xp, adjoint(L), half, upper=True)
    return _solve_triangular.forward(xp, L.swapaxes(-2, -1), solved.swapaxes(-2, -1), upper=True).swapaxes(-2, -1)


NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order {} "
    "is not positive-definite)."
)


def _factor_and_code(x: np.ndarray, _: None) -> Any:
    L = _lapack.cholesky(x)
    return None if L is None else (L, _lapack.codes(x))


_short_cholesky = _lapack.short_way(_cholesky, _factor_and_code, square=True)


@takes(
    lambda *, upper=False, check_errors=False: None if upper else (_short_cholesky, None, None),
    lambda found: return_type("linalg_cholesky_ex", CHOLESKY)(*found),
)
@with_out
@node_name("LinalgCholeskyExBackward0")
def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> linalg_cholesky_ex:
    """Cholesky decomposition that reports matrices that are not positive-definite in `info` instead of raising.

    Args:
        upper: return the upper triangular factor Lᴴ.
        check_errors: raise as `cholesky` does.
    Shape: input (*, N, N); L the same, info (*), int32.
    Returns: named tuple (L, info); info is 0, or the order of the first leading minor that is not positive-definite.
    Raises:
        LinAlgError: when a matrix is not positive-definite and check_errors=True.
        RuntimeError: when input is not square.

    >>> import tdt
    >>> tdt.linalg.cholesky_ex(tdt.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=tdt.int32)
    """
    check_matrix("linalg.cholesky", input, square=True)
    L, info = _cholesky(input, upper=upper)
    if check_errors:
        check_info("linalg.cholesky_ex", info, NOT_POSITIVE)
    return return_type("linalg_cholesky_ex", CHOLESKY)(L.mH if upper else L, info)


@takes(lambda *, upper=False: None if upper else (_short_cholesky, None, None), lambda found: found[0])
@with_out
@node_name("LinalgCholeskyExBackward0")
def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """Cholesky decomposition A = L Lᴴ of Hermitian positive-definite matrices: the lower triangular L.

    Args:
        upper: return the upper triangular factor Lᴴ.
    Shape: input (*, N, N); result the same.
    Raises:
        LinAlgError: when a matrix is not positive-definite.
        RuntimeError: when input is not square.

    >>> import tdt
    >>> tdt.linalg.cholesky(tdt.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    return _checked_cholesky("linalg.cholesky", input, upper)


def _checked_cholesky(name: str, A: Tensor, upper: bool) -> Tensor:
    check_matrix(name, A, square=True)
    L, info = _cholesky(A, upper=upper)
    check_info(name, info, NOT_POSITIVE)
    return L.mH if upper else L
