"""Eigenvalues and eigenvectors, in batches: of Hermitian matrices (eigh, eigvalsh) and of any (eig, eigvals)."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt._core.dtype import LAPACK
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import with_out
from tdt._ops.linalg import _lapack
from tdt._ops.linalg._matrices import by_columns, check_matrix, converging
from tdt._ops.linalg.solve import _solve
from tdt.autograd._fast_path import takes
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

if TYPE_CHECKING:
    from tdt._core.return_types import linalg_eig, linalg_eigh

PAIRS = ("eigenvalues", "eigenvectors")
FAILED = (
    "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
    "eigenvalues."
)


@op(dtypes=LAPACK, outputs=("eigenvalues", "eigenvectors"), node="LinalgEighBackward0", autocast="float32")
def _eigh(xp: ModuleType, x: Any, *, UPLO: str = "L") -> Any:
    if xp is np and x.size and (found := _lapack.eigh(x, UPLO)) is not None:
        return found
    with converging(FAILED):
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
    result = V @ inner @ V.mH
    return (result + result.mH) / 2


def _check_eigh(input: Tensor, UPLO: str) -> None:
    check_matrix("linalg.eigh", input, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")


_short_eigh = _lapack.short_way(_eigh, _lapack.eigh, square=True, attribute="UPLO")


@takes(
    lambda UPLO="L": _lapack.way(_short_eigh, "UPLO", UPLO),
    lambda found: return_type("linalg_eigh", PAIRS)(*found),
)
@with_out
def eigh(input: Tensor, UPLO: str = "L") -> linalg_eigh:
    """Eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        UPLO: triangle to read, "L" (lower) or "U" (upper).
    Shape: input (*, N, N); eigenvalues (*, N), eigenvectors (*, N, N), in columns.
    Returns: named tuple (eigenvalues, eigenvectors).
    Raises:
        LinAlgError: when the algorithm does not converge.
        RuntimeError: when input is not square, or UPLO is unknown.

    >>> import tdt
    >>> tdt.linalg.eigh(tdt.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    _check_eigh(input, UPLO)
    return return_type("linalg_eigh", PAIRS)(*_eigh(input, UPLO=UPLO.upper()))


@op(dtypes=LAPACK, node="LinalgEighBackward0", autocast="float32")
def _eigvalsh(xp: ModuleType, x: Any, *, UPLO: str) -> Any:
    if xp is np and x.size and (values := _lapack.eigvalsh(x, UPLO)) is not None:
        return values
    with converging(FAILED):
        return xp.linalg.eigvalsh(x, UPLO)


@_eigvalsh.vjp("x")
def _(g: Tensor, x: Tensor, UPLO: str) -> Tensor:
    V = _eigh(x, UPLO=UPLO)[1]
    return (V * g.unsqueeze(-2)) @ V.mH


_short_eigvalsh = _lapack.short_way(_eigvalsh, _lapack.eigvalsh, square=True, attribute="UPLO")


@takes(lambda UPLO="L": _lapack.way(_short_eigvalsh, "UPLO", UPLO))
@with_out
def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of Hermitian matrices in ascending order.

    Args:
        UPLO: triangle to read, "L" (lower) or "U" (upper).
    Shape: input (*, N, N); result (*, N).
    Raises:
        LinAlgError: when the algorithm does not converge.
        RuntimeError: when input is not square, or UPLO is unknown.

    >>> import tdt
    >>> tdt.linalg.eigvalsh(tdt.eye(2))
    tensor([1., 1.])
    """
    _check_eigh(input, UPLO)
    return _eigvalsh(input, UPLO=UPLO.upper())


@op(dtypes=LAPACK, outputs=("eigenvalues", "eigenvectors"), node="LinalgEigBackward0", autocast="float32")
def _eig(xp: ModuleType, x: Any) -> Any:
    if not xp.isfinite(x).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    if xp is np and x.size and (found := _lapack.eig(x)) is not None:
        return found
    with converging("linalg.eig: The algorithm failed to converge."):
        values, vectors = xp.linalg.eig(x)
    complex_dtype = np.result_type(x.dtype, np.complex64)  # NumPy's are real where all eigenvalues are
    return values.astype(complex_dtype, copy=False), by_columns(vectors.astype(complex_dtype, copy=False))


@_eig.vjp("x")
def _(g: tuple, eigenvalues: Tensor, eigenvectors: Tensor, x_dtype: np.dtype) -> Tensor:
    """Boeddeker et al., arXiv:1701.00392, with vectors of norm 1; the loss must not depend on their phase."""
    g_values, g_vectors = g
    V = eigenvectors
    inner = V.new_zeros(V.shape) if g_values is None else g_values.diag_embed()
    if g_vectors is not None:
        turn = V.mH @ g_vectors
        turn = turn - (V.mH @ V) * turn.diagonal(0, -2, -1).real.unsqueeze(-2)
        gap = eigenvalues.conj().unsqueeze(-2) - eigenvalues.conj().unsqueeze(-1)
        turn = turn / (gap + gap.new_ones(gap.shape[-1]).diag_embed())
        inner = inner + turn - turn.diagonal(0, -2, -1).diag_embed()
    result = _solve(V.mH, inner @ V.mH)[0]
    return result if x_dtype.kind == "c" else result.real


_short_eig = _lapack.short_way(_eig, lambda x, _: _lapack.eig(x) if np.isfinite(x).all() else None, square=True)


@takes(lambda: (_short_eig, None, None), lambda found: return_type("linalg_eig", PAIRS)(*found))
@with_out
def eig(input: Tensor) -> linalg_eig:
    """Eigenvalues and eigenvectors of square matrices, complex and in no particular order.

    The eigenvectors have norm 1. Gradients exist where the eigenvalues differ; the loss must not depend on the phase of the
    eigenvectors.

    Shape: input (*, N, N); eigenvalues (*, N), eigenvectors (*, N, N), in columns.
    Returns: named tuple (eigenvalues, eigenvectors).
    Raises:
        LinAlgError: when the algorithm does not converge.
        RuntimeError: when input is not square, or contains inf or nan.

    >>> import tdt
    >>> tdt.linalg.eig(tdt.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    check_matrix("linalg.eig", input, square=True)
    return return_type("linalg_eig", PAIRS)(*_eig(input))


@takes(lambda: (_short_eig, None, None), lambda found: found[0])
@with_out
@node_name("LinalgEigBackward0")
def eigvals(input: Tensor) -> Tensor:
    """Eigenvalues of square matrices, complex and in no particular order.

    Shape: input (*, N, N); result (*, N).
    Raises:
        LinAlgError: when the algorithm does not converge.
        RuntimeError: when input is not square, or contains inf or nan.

    >>> import tdt
    >>> tdt.linalg.eigvals(tdt.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    check_matrix("linalg.eigvals", input, square=True)
    return _eig(input)[0]
