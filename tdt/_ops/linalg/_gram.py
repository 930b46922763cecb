"""Singular values of float32 matrices as square roots of the eigenvalues of A Aᵀ or Aᵀ A, computed in float64.

A product of two float32 numbers is exact in float64, so that an eigenvalue's error is a few 2^-53 of the largest one.
"""

from __future__ import annotations

import numpy as np

from tdt._ops.linalg._lapack import eigvalsh

# Of the largest eigenvalue. Above, a singular value's error is 10^-10 of the largest one; an algorithm in float32 has 10^-7.
ENOUGH = 1e-10


def applies(x: np.ndarray) -> bool:
    """Whether x is such a matrix, or a batch of them, on the CPU."""
    return x.__class__ is np.ndarray and x.dtype == np.float32 and 0 not in x.shape


def singular_values(x: np.ndarray) -> np.ndarray:
    """Singular values in descending order."""
    squares, _ = _eigenvalues(_gram(x.astype(np.float64)), False)
    values = np.sqrt(np.maximum(squares, 0))[..., ::-1].astype(np.float32)
    rest = _inexact(squares)
    if rest.any():
        values[rest] = np.linalg.svd(x[rest], compute_uv=False)
    return values


def gradient(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """U diag(g) Vᵀ of the singular value decomposition U S Vᵀ of x."""
    wide = x.astype(np.float64)
    squares, vectors = _eigenvalues(_gram(wide), True)
    rest = _inexact(squares)
    squares[rest] = 1
    scaled = (vectors * (g[..., ::-1] / np.sqrt(squares))[..., None, :]) @ vectors.swapaxes(-1, -2)
    out = (scaled @ wide if x.shape[-2] < x.shape[-1] else wide @ scaled).astype(np.float32)
    if rest.any():
        U, _, Vh = np.linalg.svd(x[rest], full_matrices=False)
        out[rest] = U @ (g[rest][..., None] * Vh)
    return out


def _gram(x: np.ndarray) -> np.ndarray:
    turned = x.swapaxes(-1, -2)
    return x @ turned if x.shape[-2] < x.shape[-1] else turned @ x


def _eigenvalues(gram: np.ndarray, vectors: bool) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues in ascending order, and eigenvectors if they are wanted; NaN if some do not converge."""
    try:
        if vectors:
            return np.linalg.eigh(gram)
        values = eigvalsh(gram, "L")
        return np.linalg.eigvalsh(gram) if values is None else values, gram
    except np.linalg.LinAlgError:
        return np.full(gram.shape[:-1], np.nan), gram


def _inexact(squares: np.ndarray) -> np.ndarray:
    """The matrices whose smallest singular values would lose digits, or are not finite, as a mask (0-d for one)."""
    return ~(squares[..., 0] > ENOUGH * squares[..., -1])
