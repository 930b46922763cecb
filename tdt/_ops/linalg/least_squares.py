"""Least squares, and functions computed from singular values: lstsq, pinv, matrix_rank, cond."""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import LAPACK
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import store_into, with_out
from tdt._ops.linalg._matrices import (
    by_columns,
    check_float,
    check_info,
    check_matrix,
    check_same_dtype,
    columns,
    each,
    lapack,
    scipy_linalg,
)
from tdt._ops.linalg.decompositions import svdvals
from tdt._ops.linalg.eigen import eigvalsh
from tdt._ops.linalg.matrix_norms import matrix_norm
from tdt._ops.linalg.solve import _inv
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

if TYPE_CHECKING:
    from tdt._core.return_types import linalg_lstsq

__all__ = ["pinverse"]


@op(dtypes=LAPACK, promote=("x",), broadcasts=False, node="LinalgPinvBackward0", autocast="float32")
def _pinv(xp: ModuleType, x: Any, atol: Any, rtol: Any, *, hermitian: bool = False) -> Any:
    """Singular values of at most max(atol, rtol · the largest) count as 0."""
    m, n = x.shape[-2:]
    if not x.size:
        return xp.zeros((*x.shape[:-2], n, m), x.dtype)
    if hermitian:
        values, U = xp.linalg.eigh(x)
        Vh, size = U.conj().swapaxes(-1, -2), abs(values)
    else:
        U, values, Vh = xp.linalg.svd(x, full_matrices=False)
        size = values
    limit = xp.maximum(xp.asarray(atol)[..., None], xp.asarray(rtol)[..., None] * size.max(-1, keepdims=True))
    significant = size > limit
    inverse = xp.where(significant, 1 / xp.where(significant, values, 1), 0).astype(values.dtype)
    return by_columns((Vh.conj().swapaxes(-1, -2) * inverse[..., None, :]) @ U.conj().swapaxes(-1, -2))


def _pinv_gradient(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Golub and Pereyra, 1973, for matrices whose rank does not change."""
    beyond = (g.mH - x @ (out @ g.mH)) @ out @ out.mH
    within = out.mH @ (out @ (g.mH - (g.mH @ out) @ x))
    return beyond + within - out.mH @ g @ out.mH


_pinv.vjp("x")(_pinv_gradient)


def _tolerances(x: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """atol and rtol with their defaults: 0, and, unless there is a positive atol, eps · the larger side."""
    default = _dtype.finfo(x.dtype).eps * max(x.shape[-2:])
    if rtol is None:
        if isinstance(atol, Tensor):
            rtol = x.new_full(atol.shape, default, dtype=atol.dtype).masked_fill(atol > 0, 0)
        else:
            rtol = 0.0 if atol else default
    return 0.0 if atol is None else atol, rtol


def _check_tolerances(name: str, *tolerances: Any) -> None:
    for value, which in zip(tolerances, ("atol", "rtol"), strict=True):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(f"{name}: {which} tensor of complex type is not supported.")


@front
@with_out
def pinv(
    input: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """Moore-Penrose pseudo-inverse; singular values up to max(atol, rtol · the largest one) count as 0.

    To solve a least squares problem, `lstsq(A, B)` is faster and more accurate than pinv(A) @ B.

    Args:
        rcond: NumPy's name of rtol.
        hermitian: compute it from eigenvalues, which is faster; only the lower triangle is read.
        atol: number, or a tensor with a value for each matrix; by default 0.
        rtol: the same; by default eps · max(M, N), or 0 if atol is positive.
    Shape: input (*, M, N), atol and rtol broadcastable to (*); result (*, N, M).
    Raises:
        RuntimeError: when input is not a floating-point or complex matrix, or a tolerance is complex.
    Source: Penrose, "A generalized inverse for matrices", 1955.

    >>> import tdt
    >>> tdt.linalg.pinv(tdt.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    check_matrix("linalg.pinv", input, square=hermitian)
    rtol = rtol if rcond is None else rcond
    _check_tolerances("torch.linalg.pinv", atol, rtol)
    return _pinv(input, *_tolerances(input, atol, rtol), hermitian=hermitian)


@method()
@front
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Moore-Penrose pseudo-inverse; `linalg.pinv` is the newer form.

    Args:
        rcond: singular values up to rcond · the largest one count as 0.
    Shape: input (*, M, N); result (*, N, M).
    Raises:
        RuntimeError: when input is not a floating-point or complex matrix.

    >>> import tdt
    >>> tdt.pinverse(tdt.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return pinv(input, rcond)


@front
def matrix_rank(
    input: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Number of singular values that are larger than max(atol, rtol · the largest one).

    Args:
        tol: atol, with rtol 0.
        hermitian: compute it from eigenvalues; only the lower triangle is read.
        atol, rtol: numbers, or tensors with a value for each matrix; defaults as for `pinv`.
    Shape: input (*, M, N); result (*), int64.
    Raises:
        RuntimeError: when input is not a floating-point or complex matrix, or a tolerance is complex.

    >>> import tdt
    >>> tdt.linalg.matrix_rank(tdt.ones(2, 2))
    tensor(1)
    """
    check_matrix("torch.linalg.matrix_rank", input, square=hermitian, which="input")
    if tol is not None:
        atol, rtol = tol, 0.0
    _check_tolerances("torch.linalg.matrix_rank", atol, rtol)
    input = input.detach()
    sizes = eigvalsh(input).abs() if hermitian else svdvals(input)
    atol, rtol = (t.unsqueeze(-1) if isinstance(t, Tensor) else t for t in _tolerances(input, atol, rtol))
    largest = sizes.amax(-1, keepdim=True) if sizes.shape[-1] else sizes.sum(-1, keepdim=True)
    limit = largest * rtol
    limit = limit.maximum(atol) if isinstance(atol, Tensor) else limit.clamp(min=atol)
    rank = (sizes > limit).sum(-1)
    return rank if out is None else store_into(out, rank)


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@functools.cache
def _gelsy_workspace(char: str, m: int, n: int, columns: int) -> int:
    return int(lapack("gelsy_lwork", char)(m, n, columns, 0.0)[0].real)


def gelsy(a: np.ndarray, b: np.ndarray, rcond: float) -> tuple[np.ndarray, int]:
    """Least squares solution by QR with pivots, and the rank."""
    m, n = a.shape
    padded = np.zeros((max(m, n), b.shape[1]), b.dtype, "F")
    padded[:m] = b
    pivots, work = np.zeros(n, np.int32), _gelsy_workspace(a.dtype.char, m, n, b.shape[1])
    _, x, _, rank, info = lapack("gelsy", a.dtype.char)(a, padded, pivots, rcond, work, overwrite_b=True)
    assert info == 0, info  # LAPACK names arguments that it does not accept
    return x[:n], rank


@op(
    dtypes=LAPACK,
    outputs=("solution", "rank", "singular_values", "info"),
    nondiff=("singular_values",),
    elementwise=False,
    autocast="float32",
)
def _lstsq(xp: ModuleType, a: Any, b: Any, *, rcond: float, driver: str) -> Any:
    m, n = a.shape[-2:]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])

    def solve(p: np.ndarray, q: np.ndarray) -> tuple:
        if driver == "gels":
            padded = np.zeros((max(m, n), q.shape[1]), q.dtype)
            padded[:m] = q
            _, x, info = lapack("gels", p.dtype.char)(p, padded)
            return x[:n], n, 0, info
        if driver == "gelsy":
            return *gelsy(p, q, rcond), 0, 0
        x, _, rank, s = scipy_linalg(np).lstsq(p, q, rcond, check_finite=False, lapack_driver=driver)
        return x, rank, 0 if s is None else s, 0

    results = (columns((*batch, n, b.shape[-1]), b.dtype), np.zeros(batch, np.int64),
            np.zeros((*batch, min(m, n)), b.real.dtype), np.zeros(batch, np.int32))  # fmt: skip
    return each(solve, results, a, b)


@_lstsq.vjp("a")
def _(g: tuple, a: Tensor, b: Tensor) -> Tensor:
    return _pinv_gradient(g[0] @ b.mH, a, _pinv(a, *_tolerances(a, None, None)))


@_lstsq.vjp("b")
def _(g: tuple, a: Tensor) -> Tensor:
    return _pinv(a, *_tolerances(a, None, None)).mH @ g[0]


@front
@with_out
@node_name("LinalgLstsqBackward0")
def lstsq(
    input: Tensor,
    b: Tensor,
    rcond: float | None = None,
    *,
    driver: Literal["gels", "gelsy", "gelsd", "gelss"] | None = None,
) -> linalg_lstsq:
    """Least squares solution X that minimizes ‖input X - b‖; if there are several, the one with the smallest norm.

    Args:
        rcond: singular values below rcond · the largest one count as 0; by default eps · max(M, N).
        driver: LAPACK routine: "gelsy" (the default, pivoted QR), "gels" (QR, requires full rank), "gelsd" or "gelss" (SVD).
    Shape: input (*, M, N), b (*, M, K) or (*, M); solution (*, N, K) or (*, N), rank (*), residuals and singular_values below.
    Returns: named tuple (solution, residuals, rank, singular_values). residuals (*, K): the squared norms of input X - b, if
        M > N, all ranks are N and the driver is not "gelsy"; else empty. rank is empty for "gels". singular_values
        (*, min(M, N)): only for "gelsd" and "gelss"; else empty.
    Raises:
        LinAlgError: when input does not have full rank with "gels".
        RuntimeError: when shapes or dtypes do not match, or `driver` is unknown.

    >>> import tdt
    >>> A, b = tdt.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), tdt.tensor([1.0, 3.0, 5.0])
    >>> tdt.linalg.lstsq(A, b.unsqueeze(1)).solution
    tensor([[1.0000],
            [2.0000]])
    """
    driver = driver or "gelsy"
    vector = _check_lstsq(input, b, driver)
    right = b.unsqueeze(-1) if vector else b
    m, n = input.shape[-2:]
    rcond = _dtype.finfo(input.dtype).eps * max(m, n) if rcond is None else float(rcond)
    X, rank, values, info = _lstsq(input, right, rcond=rcond, driver=driver)
    check_info("torch.linalg.lstsq", info, "The least squares solution could not be computed because the input matrix does "
               "not have full rank (error code: {}).")  # fmt: skip
    none = values.new_empty(0)
    residuals = X.flatten()[:0].abs() if X.requires_grad else none
    if m > n and driver != "gelsy" and (driver == "gels" or bool((rank == n).all())):
        residuals = (input @ X - right).abs().square().sum(-2)
    return return_type("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))(
        X.squeeze(-1) if vector else X,
        values.new_empty(0) if residuals is none else residuals,
        none.to(_dtype.int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else none,
    )


def _check_lstsq(A: Tensor, B: Tensor, driver: str) -> bool:
    """Check the arguments of lstsq; returns whether B is a batch of vectors."""
    name = "torch.linalg.lstsq"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    check_same_dtype(name, A, B)
    check_float(name, A)
    if not 0 <= A.ndim - B.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    if A.shape[-2] != B.shape[-1 if vector else -2]:
        side = -1 if vector else -2
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({side})")
    if driver not in DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of ({', '.join(DRIVERS)})")
    return vector


@front
@with_out
def cond(input: Tensor, p: float | Literal["fro", "nuc"] | None = None) -> Tensor:
    """Condition number ‖A‖ ‖A⁻¹‖ in a matrix norm; inf where A is singular.

    Args:
        p: None for 2; 2 or -2 for matrices of any shape; "fro", "nuc", inf, -inf, 1 or -1 for square ones.
    Shape: input (*, M, N); result (*).
    Raises:
        RuntimeError: when input has fewer than 2 dimensions, is not square where it must be, or `p` is unknown.

    >>> import tdt
    >>> tdt.linalg.cond(tdt.tensor([[2.0, 0.0], [0.0, 0.5]]))
    tensor(4.)
    """
    if input.ndim < 2:
        raise RuntimeError(f"linalg.cond: The input tensor must have at least 2 dimensions. It has {input.ndim}")
    if p is None or p in (2, -2):
        S = svdvals(input)
        if not S.shape[-1]:
            return S.sum(-1)
        return S[..., -1] / S[..., 0] if p == -2 else S[..., 0] / S[..., -1]
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    check_matrix(f"linalg.cond(ord={p})", input, square=True)
    if not input.numel():
        return matrix_norm(input, "fro")
    inverse, info = _inv(input)
    singular = info != 0
    inverse = inverse.masked_fill(singular.unsqueeze(-1).unsqueeze(-1), 0)
    return (matrix_norm(input, p) * matrix_norm(inverse, p)).masked_fill(singular, math.inf)
