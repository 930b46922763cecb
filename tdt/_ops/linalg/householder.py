"""Products of Householder reflections, in batches, and the factorisation that gives them: geqrf, orgqr, ormqr."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt._core.calls import front
from tdt._core.dtype import LAPACK
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import with_out
from tdt._ops.linalg._matrices import check_matrix, check_same_dtype, columns, each, lapack, no_derivative
from tdt._ops.linalg.triangular import _solve_triangular
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

__all__ = ["geqrf", "orgqr", "ormqr"]


@op(dtypes=LAPACK, outputs=("a", "tau"), autocast="float32")
def _geqrf(xp: ModuleType, x: Any) -> Any:
    *batch, m, n = x.shape
    factor = lapack("geqrf", x.dtype.char)
    return each(lambda a: factor(a)[:2], (columns(x.shape, x.dtype), np.zeros((*batch, min(m, n)), x.dtype)), x)


no_derivative(_geqrf, "geqrf", "x")


@method()
@front
@with_out
def geqrf(input: Tensor) -> tuple[Tensor, Tensor]:
    """QR decomposition in packed form: R in the upper triangle, the Householder reflections whose product is Q below it.

    Shape: input (*, M, N); a the same, tau (*, min(M, N)).
    Returns: named tuple (a, tau); tau are the factors of the reflections.
    Raises:
        RuntimeError: when input is not a floating-point or complex matrix.
    Source: Anderson et al., "LAPACK Users' Guide", 1999, routine geqrf.

    >>> import tdt
    >>> tdt.geqrf(tdt.eye(2)).tau
    tensor([0., 0.])
    """
    check_matrix("torch.geqrf", input, which="input")
    return return_type("geqrf", ("a", "tau"))(*_geqrf(input))


def _reflect(input: Tensor, tau: Tensor, other: Tensor, adjoint: bool = False) -> Tensor:
    """Q other, or Qᴴ other, for Q = H₁ H₂ …, Hᵢ = 1 - tauᵢ vᵢ vᵢᴴ, the vᵢ in input's columns below the diagonal.

    Q = 1 - V T Vᴴ with the triangular T⁻¹ = diag(1 / tau) + triu(Vᴴ V, 1) (Joffrain et al., Accumulating Householder
    transformations, revisited, 2006); multiplied by tau, so that tau may be 0.
    """
    m, k = input.shape[-2], tau.shape[-1]
    V = input[..., :k].tril(-1) + input.new_ones(m).diag_embed()[..., :k]
    scale = tau.unsqueeze(-1)
    inner = scale * (V.mH @ V).triu(1)
    if adjoint:
        return other - V @ (scale.conj() * _solve_triangular(inner.mH, V.mH @ other, upper=False, unitriangular=True))
    return other - V @ _solve_triangular(inner, scale * (V.mH @ other), upper=True, unitriangular=True)


@front
@autocast("float32")
@with_out
@node_name("LinalgHouseholderProductBackward0")
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first N columns of the product of the Householder reflections that `geqrf` returns: Q of its decomposition.

    Shape: input (*, M, N) with M >= N, tau (*, K) with K <= N; result (*, M, N).
    Raises:
        RuntimeError: when shapes or dtypes do not match.
    Source: Joffrain et al., "Accumulating Householder Transformations, Revisited", 2006.

    >>> import tdt
    >>> a, tau = tdt.geqrf(tdt.tensor([[3.0], [4.0]]))
    >>> tdt.linalg.householder_product(a, tau)
    tensor([[-0.6000],
            [-0.8000]])
    """
    return _product(input, tau)


def _product(A: Tensor, tau: Tensor) -> Tensor:
    name = "torch.linalg.householder_product"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_tau(name, A, tau)
    return _reflect(A, tau, A.new_ones(m).diag_embed()[..., :n])


def _check_tau(name: str, A: Tensor, tau: Tensor) -> None:
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {A.ndim}"
        )
    if tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if tau.dtype is not A.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype} does not match input dtype {A.dtype}")


@method()
@front
@autocast("float32")
@with_out
@node_name("LinalgHouseholderProductBackward0")
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """Product of Householder reflections: `linalg.householder_product` under LAPACK's name.

    Args:
        input2: factors of the reflections, tau of `geqrf`.
    Shape: input (*, M, N) with M >= N, input2 (*, K) with K <= N; result (*, M, N).
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.orgqr(*tdt.geqrf(tdt.tensor([[3.0], [4.0]])))
    tensor([[-0.6000],
            [-0.8000]])
    """
    return _product(input, input2)


@method()
@front
@autocast("float32")
@with_out
@node_name("OrmqrBackward0")
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Product of input3 and the square Q whose Householder reflections `geqrf` returned as (input, input2).

    Args:
        left: compute Q input3; otherwise input3 Q.
        transpose: take Qᴴ instead of Q.
    Shape: input (*, M, N), input2 (*, K), input3 (*, M, P), with left=False (*, P, M); result as input3.
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> a, tau = tdt.geqrf(tdt.tensor([[3.0], [4.0]]))
    >>> tdt.ormqr(a, tau, tdt.tensor([[5.0], [0.0]]), transpose=True)
    tensor([[-3.],
            [-4.]])
    """
    name = "torch.ormqr"
    for x, which in ((input, "input"), (input3, "other")):
        if x.ndim < 2:
            raise RuntimeError(f"{name}: {which} must have at least 2 dimensions.")
    side = -2 if left else -1
    if input3.shape[side] < input2.shape[-1]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if input3.shape[side] != input.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if input2.shape[-1] > input.shape[-1]:
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    _check_tau(name, input, input2)
    if input3.ndim != input.ndim:
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got other.ndim equal to "
            f"{input3.ndim} and input.ndim is equal to {input.ndim}"
        )
    if input3.shape[:-2] != input.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got {list(input3.shape[:-2])}"
        )
    check_same_dtype(name, input, input3)
    if left:
        return _reflect(input, input2, input3, adjoint=transpose)
    return _reflect(input, input2, input3.mH, adjoint=not transpose).mH
