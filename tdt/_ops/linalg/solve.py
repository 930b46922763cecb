"""Batched linear equations, inverses and determinants: solve, inv, det, slogdet, tensorsolve, tensorinv."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._core.calls import front
from tdt._core.dtype import LAPACK
from tdt._core.methods import method
from tdt._core.mode import state
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor, wrap, wrap_new
from tdt._kernels import product
from tdt._ops._common import with_out, wrap_dim
from tdt._ops.linalg import _lapack
from tdt._ops.linalg._matrices import (
    by_columns,
    check_info,
    check_matrix,
    check_same_dtype,
    check_system,
    columns,
    each,
    lapack,
    raising,
)
from tdt._ops.linalg.decompositions import _svd
from tdt._ops.linalg.triangular import adjoint, trsm
from tdt.autograd._arrays import on_arrays
from tdt.autograd._fast_path import takes
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

if TYPE_CHECKING:
    from tdt._core.return_types import linalg_inv_ex, linalg_slogdet, linalg_solve_ex

__all__ = ["inverse", "logdet"]


def _by_factors(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, int]:
    """X with a X = b by LU, inf and nan where a is singular; and the place of the first 0 on U's diagonal."""
    lu, pivots, info = lapack("getrf", a.dtype.char)(a)
    rows = np.arange(len(a))
    for i, p in enumerate(pivots):
        rows[[i, p]] = rows[[p, i]]
    return trsm(lu, trsm(lu, b[rows], upper=False, unitriangular=True), upper=True, unitriangular=False), info


@op(dtypes=LAPACK, elementwise=False, outputs=("out", "info"), node="LinalgSolveExBackward0", autocast="float32")
def _solve(xp: ModuleType, a: Any, b: Any) -> Any:
    if xp is np and a.size and b.size and (out := _lapack.solve(a, b)) is not None:
        return out, _lapack.codes(a)
    batch, one = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), _by_factors
    if xp is np and batch:
        one = functools.partial(_solve.forward, np)
    else:
        try:
            with raising(xp):
                return by_columns(xp.linalg.solve(a, b)), xp.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:  # a matrix is singular: report which
            pass
    out, info = each(one, (columns((*batch, *b.shape[-2:]), b.dtype), np.zeros(batch, np.int32)), a, b)
    index = (0,) * (len(batch) - a.ndim + 2) + tuple(slice(n) for n in a.shape[:-2])
    return out, info[index]


@_solve.vjp("a", "b")
def _(g_out: Tensor, a: Tensor, out: Tensor, needs: tuple[bool, bool]) -> tuple[Tensor | None, Tensor | None]:
    of_b = _solve(a.mH, g_out)[0]
    return -(of_b @ out.mH) if needs[0] else None, of_b if needs[1] else None


@_solve.fast_vjp("a", "b")
def _(xp: ModuleType, g_out: Any, a: Any, out: Any, needs: tuple[bool, bool]) -> tuple[Any, Any]:
    of_b = _solve.forward(xp, adjoint(a), g_out)[0]
    return -product(xp, of_b, adjoint(out)) if needs[0] else None, of_b if needs[1] else None


SINGULAR = "The solver failed because the input matrix is singular."


def _solution(A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:
    name = "linalg.solve"
    check_matrix(name, A, square=True)
    check_same_dtype(name, A, B)
    if B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]):
        check_system(name, A, B.unsqueeze(-1), left)
        if not left:
            raise RuntimeError(f"{name}: Vector broadcasting of the left hand side is not supported for left=False.")
        X, info = _solve(A, B.unsqueeze(-1))
        return X.squeeze(-1), info
    check_system(name, A, B, left)
    if left:
        return _solve(A, B)
    X, info = _solve(A.mT, B.mT)
    return X.mT, info


@front
@with_out
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Solution X of the linear system A X = B.

    Args:
        left: solve A X = B; otherwise X A = B.
    Shape: A (*, N, N), B (*, N, K), with left=False (*, K, N), or vectors (*, N); result as B.
    Raises:
        LinAlgError: when a matrix is singular.
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.linalg.solve(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]), tdt.tensor([2.0, 4.0]))
    tensor([1., 1.])
    """
    if left and on_arrays(A, B) and (found := _solution_of_arrays(A._a, B._a)) is not None:
        return wrap_new(found)
    X, info = _solution(A, B, left)
    check_info("torch.linalg.solve", info, SINGULAR)
    return X


def _solution_of_arrays(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The solution where nothing is recorded; None where arguments are to be checked or LAPACK fails."""
    if a.dtype.char not in "fdFD" or a.ndim < 2 or a.shape[-1] != a.shape[-2] or not b.size:
        return None
    vectors = b.shape == a.shape[:-1]
    if not vectors and b.shape[:-1] != a.shape[:-1]:
        return None
    out = _lapack.solve(a, b[..., None] if vectors else b)
    return out[..., 0] if vectors and out is not None else out


@front
@with_out
@node_name("LinalgSolveExBackward0")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> linalg_solve_ex:
    """Solution of the linear system A X = B that reports singular matrices in `info` instead of raising.

    Args:
        left: solve A X = B; otherwise X A = B.
        check_errors: raise as `solve` does.
    Shape: A (*, N, N), B (*, N, K), with left=False (*, K, N), or vectors (*, N); result as B, info (*), int32.
    Returns: named tuple (result, info); where info is not 0, the matrix is singular and the result not finite.
    Raises:
        LinAlgError: when a matrix is singular and check_errors=True.
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.linalg.solve_ex(tdt.zeros(1, 1), tdt.ones(1)).info
    tensor(1, dtype=tdt.int32)
    """
    X, info = _solution(A, B, left)
    if check_errors:
        check_info("torch.linalg.solve_ex", info, SINGULAR)
    return return_type("linalg_solve_ex", ("result", "info"))(X, info)


@op(dtypes=LAPACK, outputs=("out", "info"), node="LinalgInvExBackward0", autocast="float32")
def _inv(xp: ModuleType, x: Any) -> Any:
    if xp is np and x.size and (out := _lapack.inverse(x)) is not None:
        return out, _lapack.codes(x)
    if xp is np and x.ndim > 2:
        return each(functools.partial(_inv.forward, np), (columns(x.shape, x.dtype), _lapack.codes(x)), x)
    try:
        with raising(xp):
            return by_columns(xp.linalg.inv(x)), xp.zeros(x.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        eye = np.eye(x.shape[-1], dtype=x.dtype)
        return each(lambda a: _by_factors(a, eye), (columns(x.shape, x.dtype), _lapack.codes(x)), x)


_inv.vjp("x")(lambda g_out, out: -(out.mH @ g_out @ out.mH))


@_inv.fast_vjp("x")
def _(xp: ModuleType, g_out: Any, out: Any) -> Any:
    turned = adjoint(out)
    return -product(xp, product(xp, turned, g_out), turned)


INVERSE = ("inverse", "info")
NO_INVERSE = (
    "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
)


def _inverse_and_code(x: np.ndarray, _: None) -> Any:
    out = _lapack.inverse(x)
    return None if out is None else (out, _lapack.codes(x))


_short_inv = _lapack.short_way(_inv, _inverse_and_code, square=True)


@method()
@takes(lambda: (_short_inv, None, None), lambda found: found[0])
@with_out
def inverse(input: Tensor) -> Tensor:
    """Inverse of each square matrix.

    Shape: input (*, N, N); result the same.
    Raises:
        LinAlgError: when a matrix is singular.
        RuntimeError: when input is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.inverse(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_matrix("linalg.inv", input, square=True)
    out, info = _inv(input)
    check_info("linalg.inv", info, NO_INVERSE)
    return out


@takes(lambda: (_short_inv, None, None), lambda found: found[0])
@with_out
def inv(A: Tensor) -> Tensor:
    """Inverse of each square matrix; `solve(A, B)` is faster and more accurate than inv(A) @ B.

    Shape: A (*, N, N); result the same.
    Raises:
        LinAlgError: when a matrix is singular.
        RuntimeError: when A is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.linalg.inv(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inverse(A)


@takes(
    lambda *, check_errors=False: (_short_inv, None, None), lambda found: return_type("linalg_inv_ex", INVERSE)(*found)
)
@with_out
def inv_ex(A: Tensor, *, check_errors: bool = False) -> linalg_inv_ex:
    """Inverse of each square matrix that reports singular matrices in `info` instead of raising.

    Args:
        check_errors: raise as `inv` does.
    Shape: A (*, N, N); inverse the same, info (*), int32.
    Returns: named tuple (inverse, info); where info is not 0, the matrix is singular and the inverse not finite.
    Raises:
        LinAlgError: when a matrix is singular and check_errors=True.
        RuntimeError: when A is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.linalg.inv_ex(tdt.zeros(1, 1)).info
    tensor(1, dtype=tdt.int32)
    """
    check_matrix("linalg.inv", A, square=True)
    out, info = _inv(A)
    if check_errors:
        check_info("linalg.inv_ex", info, NO_INVERSE)
    return return_type("linalg_inv_ex", INVERSE)(out, info)


@op(dtypes=LAPACK, node="LinalgDetBackward0")
def _det(xp: ModuleType, x: Any) -> Any:
    if xp is np and (found := _lapack.determinant(x)) is not None:
        return found
    with np.errstate(all="ignore"):  # a warning would be of NumPy's own module, which no filter of ours covers
        return xp.asarray(xp.linalg.det(x))


@_det.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """det(A) · A^-H, from the cofactors: U diag(products of the other singular values) Vh, right for singular A too."""
    U, S, Vh = _svd(x, full_matrices=False)
    n = S.shape[-1]
    if not (S._a[..., -1:] <= n * np.finfo(S._a.dtype).eps * S._a[..., :1]).any():
        return (g * out.conj()).unsqueeze(-1).unsqueeze(-1) * _inv(x)[0].mH
    g = g.unsqueeze(-1).unsqueeze(-1)
    if state.grad:  # the factors of a singular matrix have no derivatives
        return g * _cofactors(x).conj()
    eye = S.new_ones(n).diag_embed() != 0
    others = S.unsqueeze(-2).expand(*S.shape[:-1], n, n).masked_fill(eye, 1).prod(-1)
    phase = (_det(U) * _det(Vh)).unsqueeze(-1).unsqueeze(-1)
    return g * phase.conj() * (U @ (others.unsqueeze(-1) * Vh))


def _cofactors(x: Tensor) -> Tensor:
    """The cofactors of each matrix: the determinants without row i and column j, times (-1)^(i + j)."""
    from tdt._ops.index.getitem import getitem

    n = x.shape[-1]
    left = np.array([[j for j in range(n) if j != i] for i in range(n)], np.int64).reshape(n, n - 1)
    rows, columns = (wrap(_backend.namespace(x._a).asarray(a)) for a in (left[:, None, :, None], left[:, None, :]))
    signs = x.new_tensor([[(-1) ** (i + j) for j in range(n)] for i in range(n)])
    return _det(getitem(x, (..., rows, columns))) * signs


@op(dtypes=LAPACK, outputs=("sign", "logabsdet"), node="LinalgSlogdetBackward0")
def _slogdet(xp: ModuleType, x: Any) -> Any:
    with np.errstate(all="ignore"):  # as in `_det`
        sign, value = map(xp.asarray, xp.linalg.slogdet(x))
    if x.dtype.kind == "f":  # as in PyTorch, where the signs of pivots are multiplied: that of nan is 0
        sign = xp.where(xp.isnan(value), x.dtype.type(0), sign)
    return sign, value


@_slogdet.vjp("x")
def _(g: tuple, x: Tensor, sign: Tensor) -> Tensor:
    g_sign, g_log = g
    weight = 0 if g_log is None else g_log
    if g_sign is not None and x.is_complex():
        weight = weight - (g_sign.conj() * sign).imag * 1j
    if not isinstance(weight, Tensor):
        return x.new_zeros(x.shape)
    return weight.unsqueeze(-1).unsqueeze(-1) * _inv(x)[0].mH


@_slogdet.fast_vjp("x")
def _(xp: ModuleType, g: tuple, x: Any, sign: Any) -> Any:
    g_sign, g_log = g
    if g_sign is not None and x.dtype.kind == "c":
        turn = (g_sign.conj() * sign).imag * 1j
        g_log = -turn if g_log is None else g_log - turn
    if g_log is None:
        return xp.zeros(x.shape, x.dtype)
    return g_log[..., None, None] * adjoint(_inv.forward(xp, x)[0])


@method()
@front
def logdet(input: Tensor) -> Tensor:
    """Logarithm of the determinant of each square matrix; nan where it is negative, -inf where it is 0.

    Shape: input (*, N, N); result (*).
    Raises:
        RuntimeError: when input is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.logdet(tdt.eye(2))
    tensor(0.)
    """
    check_matrix("logdet", input, square=True)
    sign, value = _slogdet(input)
    return value + sign.log()


_short_det = _lapack.short_way(_det, lambda x, _: _lapack.determinant(x), square=True)


@takes(lambda: (_short_det, None, None))
@with_out
def det(A: Tensor) -> Tensor:
    """Determinant of each square matrix.

    Shape: A (*, N, N); result (*).
    Raises:
        RuntimeError: when A is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.linalg.det(tdt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_matrix("linalg.det", A, square=True)
    return _det(A)


@front
@with_out
def slogdet(A: Tensor) -> linalg_slogdet:
    """Sign and logarithm of the absolute value of the determinant, computed without overflow.

    Shape: A (*, N, N); both results (*).
    Returns: named tuple (sign, logabsdet).
    Raises:
        RuntimeError: when A is not square, or neither floating-point nor complex.

    >>> import tdt
    >>> tdt.linalg.slogdet(tdt.eye(2)).logabsdet
    tensor(0.)
    """
    check_matrix("linalg.slogdet", A, square=True)
    return return_type("linalg_slogdet", ("sign", "logabsdet"))(*_slogdet(A))


@front
@with_out
def tensorsolve(input: Tensor, other: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """Solution X of tensordot(input, X, X.ndim) = other.

    Args:
        dims: dimensions of input that are moved to its end first.
    Shape: input (*, **), other (*), both parts with equally many elements; result (**).
    Raises:
        RuntimeError: when input is not square in this sense.
        LinAlgError: when it is singular.

    >>> import tdt
    >>> tdt.linalg.tensorsolve(2 * tdt.eye(6).reshape(2, 3, 6), tdt.ones(2, 3))
    tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000])
    """
    if dims is not None:
        moved = [wrap_dim(d, input.ndim) for d in dims]
        input = input.movedim(moved, list(range(input.ndim - len(moved), input.ndim)))
    shape = tuple(input.shape[other.ndim :])
    size = math.prod(shape)
    if size != math.prod(input.shape[: other.ndim]) or size != other.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {size} != {math.prod(input.shape[: other.ndim])}"
        )
    return solve(input.reshape((size, size)), other.flatten()).reshape(shape)


@front
@with_out
def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """Inverse of the linear map X ↦ tensordot(input, X, input.ndim - ind).

    Args:
        ind: number of leading dimensions of input that belong to the image.
    Shape: input (*, **), with `ind` dimensions * and equally many elements in both parts; result (**, *).
    Raises:
        RuntimeError: when `ind` is not positive, or input is not square in this sense.
        LinAlgError: when it is singular.

    >>> import tdt
    >>> tdt.linalg.tensorinv(tdt.eye(6).reshape(6, 2, 3), ind=1).shape
    tdt.Size([2, 3, 6])
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, rest = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    size = math.prod(rest)
    if size != math.prod(first):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{size} != {math.prod(first)}"
        )
    return inv(input.reshape((size, size))).reshape((*rest, *first))
