"""Triangular systems, and systems with a Cholesky factor: solve_triangular, cholesky_solve, cholesky_inverse."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt._core.calls import front
from tdt._core.dtype import LAPACK
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import product, small_triangular
from tdt._ops._common import with_out
from tdt._ops.linalg._matrices import blas, check_matrix, check_same_dtype, check_system, columns, each, scipy_linalg
from tdt._ops.shape.diagonals import _tril, _triu
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

__all__ = ["cholesky_inverse", "cholesky_solve", "triangular_solve"]


def trsm(a: np.ndarray, b: np.ndarray, upper: bool, unitriangular: bool) -> np.ndarray:
    """X with a X = b by BLAS, for one matrix; only a's triangle is read. Division by 0 is inf or nan, not an error."""
    solve = blas("trsm", b.dtype.char)
    if a.flags.c_contiguous:  # its transpose is Fortran-contiguous, so no copy is needed
        return solve(1, a.T, b, lower=upper, trans_a=1, diag=unitriangular)
    return solve(1, a, b, lower=not upper, diag=unitriangular)


def _shape(a: tuple[int, ...], b: tuple[int, ...], **attributes: Any) -> tuple[int, ...]:
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *b[-2:])


@op(dtypes=LAPACK, elementwise=False, shape=_shape)
def _solve_triangular(xp: ModuleType, a: Any, b: Any, *, upper: bool, unitriangular: bool = False) -> Any:
    if xp is np:
        if (small := small_triangular(a, b, upper, unitriangular)) is not None:
            return small
        if a.ndim == b.ndim == 2 and b.size:
            return trsm(a, b, upper, unitriangular)
        return each(
            lambda p, q: (trsm(p, q, upper, unitriangular),), (columns(_shape(a.shape, b.shape), b.dtype),), a, b
        )[0]
    shape = _shape(a.shape, b.shape)
    if 0 in shape:  # cuBLAS refuses it
        return xp.empty(shape, b.dtype)
    a, b = (xp.broadcast_to(v, (*shape[:-2], *v.shape[-2:])) for v in (a, b))
    return scipy_linalg(xp).solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular, check_finite=False)


@_solve_triangular.vjp("a")
def _(g: Tensor, a: Tensor, out: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    whole = -(_solve_triangular(a.mH, g, upper=not upper, unitriangular=unitriangular) @ out.mH)
    return whole.triu(int(unitriangular)) if upper else whole.tril(-int(unitriangular))


@_solve_triangular.fast_vjp("a")
def _(xp: ModuleType, g: Any, a: Any, out: Any, upper: bool, unitriangular: bool) -> Any:
    solved = _solve_triangular.forward(xp, adjoint(a), g, upper=not upper, unitriangular=unitriangular)
    whole = -product(xp, solved, adjoint(out))
    edge = int(unitriangular)
    return _triu.forward(xp, whole, diagonal=edge) if upper else _tril.forward(xp, whole, diagonal=-edge)


@_solve_triangular.vjp("b")
def _(g: Tensor, a: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    return _solve_triangular(a.mH, g, upper=not upper, unitriangular=unitriangular)


@_solve_triangular.fast_vjp("b")
def _(xp: ModuleType, g: Any, a: Any, upper: bool, unitriangular: bool) -> Any:
    return _solve_triangular.forward(xp, adjoint(a), g, upper=not upper, unitriangular=unitriangular)


def adjoint(x: Any) -> Any:
    """The conjugate transpose of the matrices in an array."""
    turned = x.swapaxes(-2, -1)
    return turned.conj() if x.dtype.kind == "c" else turned


@op(dtypes=LAPACK, elementwise=False, shape=_shape, name="cholesky_solve")
def _cholesky_solve(xp: ModuleType, a: Any, b: Any) -> Any:
    """`a`: the lower factors."""
    half = _solve_triangular.forward(xp, a, b, upper=False)
    return _solve_triangular.forward(xp, adjoint(a), half, upper=True)


@_cholesky_solve.vjp("a", "b")
def _(g: Tensor, a: Tensor, out: Tensor, needs: tuple[bool, bool]) -> tuple[Tensor | None, Tensor | None]:
    of_b = _cholesky_solve(a, g)
    if not needs[0]:
        return None, of_b
    part = of_b @ out.mH
    return -((part + part.mH) @ a.tril()).tril(), of_b if needs[1] else None


@_cholesky_solve.fast_vjp("a", "b")
def _(xp: ModuleType, g: Any, a: Any, out: Any, needs: tuple[bool, bool]) -> tuple[Any, Any]:
    of_b = _cholesky_solve.forward(xp, a, g)
    if not needs[0]:
        return None, of_b
    part = product(xp, of_b, adjoint(out))
    return -_tril.forward(xp, product(xp, part + adjoint(part), _tril.forward(xp, a))), of_b if needs[1] else None


def triangular_right(B: Tensor, A: Tensor, upper: bool, unitriangular: bool = False) -> Tensor:
    """X with X A = B, for a triangular A."""
    return _solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT


@calls_by_shape
@with_out
@node_name("LinalgSolveTriangularBackward0")
def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Solution X of A X = B with a triangular A = input; a 0 on the diagonal gives inf or nan.

    It takes N² operations for each column of B, where `solve` needs N³ for the decomposition in addition.

    Args:
        upper: read the upper triangle of A; otherwise the lower one.
        left: solve A X = B; otherwise X A = B.
        unitriangular: take the diagonal of A as ones, without reading it.
    Shape: input (*, N, N), B (*, N, K), with left=False (*, K, N); result as B with the batch dimensions broadcast.
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.linalg.solve_triangular(tdt.tensor([[2.0, 0.0], [1.0, 1.0]]), tdt.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    check_system("linalg.solve_triangular", input, B, left)
    if left:
        return _solve_triangular(input, B, upper=upper, unitriangular=unitriangular)
    return triangular_right(B, input, upper, unitriangular)


@method()
@front
@autocast("float32")
@with_out
@node_name("TriangularSolveBackward0")
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """Solution X of A X = input with a triangular A; `linalg.solve_triangular` is the newer form.

    Args:
        upper: read the upper triangle of A; otherwise the lower one.
        transpose: take Aᵀ instead of A.
        unitriangular: take the diagonal of A as ones, without reading it.
    Shape: input (*, N, K), A (*, N, N); solution (*, N, K), cloned_coefficient (*, N, N), with the batch dimensions broadcast.
    Returns: named tuple (solution, cloned_coefficient); the latter is a copy of A.
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.triangular_solve(tdt.ones(2, 1), 2 * tdt.eye(2)).solution
    tensor([[0.5000],
            [0.5000]])
    """
    for x, which in ((input, "b"), (A, "A")):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {which} to have at least 2 dimensions, but it has {x.ndim} "
                "dimensions instead"
            )
    if A.shape[-1] == A.shape[-2] != input.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {A.shape[-1]} by {A.shape[-1]} but each b "
            f"matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    check_system("triangular_solve", A, input, left=True)
    shape = (*np.broadcast_shapes(A.shape[:-2], input.shape[:-2]), *A.shape[-2:])
    clone = A.expand(shape).clone()
    matrix = A.mT if transpose else A
    X = _solve_triangular(matrix, input, upper=upper is not transpose, unitriangular=unitriangular)
    return return_type("triangular_solve", ("solution", "cloned_coefficient"))(X, clone)


@method()
@calls_by_shape
@autocast("float32")
@with_out
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Solution X of A X = input from the Cholesky factor of A: A = L Lᴴ with L = input2.

    Args:
        upper: input2 is the upper triangular factor Lᴴ.
    Shape: input (*, N, K), input2 (*, N, N); result (*, N, K) with the batch dimensions broadcast.
    Raises:
        RuntimeError: when shapes or dtypes do not match.
    Source: Golub and Van Loan, "Matrix Computations", 2013, section 4.2.

    >>> import tdt
    >>> tdt.cholesky_solve(tdt.tensor([[4.0], [9.0]]), tdt.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[1.],
            [1.]])
    """
    for x, which in ((input, "b"), (input2, "u")):
        if x.ndim < 2:
            raise RuntimeError(f"{which} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    if input2.shape[-1] != input2.shape[-2]:
        raise RuntimeError(
            "cholesky_solve: A must be batches of square matrices, but they are "
            f"{input2.shape[-2]} by {input2.shape[-1]} matrices"
        )
    check_same_dtype("cholesky_solve", input, input2, "bA")
    if input.shape[-2] != input2.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {input2.shape[-1]} by {input2.shape[-1]} but each "
            f"b matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    lower = input2.mH if upper else input2
    return _cholesky_solve(lower, input)


@method()
@front
@autocast("float32")
@with_out
@node_name("CholeskyInverseBackward0")
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Inverse of A from its Cholesky factor: A = L Lᴴ with L = input.

    Args:
        upper: input is the upper triangular factor Lᴴ.
    Shape: input (*, N, N); result the same.
    Raises:
        RuntimeError: when input is not square.

    >>> import tdt
    >>> tdt.cholesky_inverse(tdt.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])
    """
    check_matrix("cholesky_inverse", input, square=True)
    if input._a.__class__ is np.ndarray:
        eye = wrap(np.eye(input.shape[-1], dtype=input._a.dtype))
    else:
        eye = input.new_ones(input.shape[-1:]).diag_embed()
    half = _solve_triangular(input.mH if upper else input, eye, upper=False)
    return half.mH @ half
