"""Rows of float32 brought to mean 0 and variance 1 on the CPU, and the gradient of that: a row stays in the cache."""

from __future__ import annotations

import math

import numpy as np

from tdt._kernels._jit import Kernel, jit
from tdt._kernels._pool import parallel

BLOCK = 4096  # elements of a block of rows, at least
GRAIN = 4  # blocks a thread should at least have: about 10 µs of work
ZERO, ONE = np.float32(0), np.float32(1)


def standardise(x: np.ndarray, *, dims: int, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The op `standardise` for contiguous x: the result, mean and 1 / √(variance + eps) over the last `dims` dimensions."""
    shape = *x.shape[: x.ndim - dims], *(1,) * dims
    out, mean, rstd = np.empty_like(x), np.empty(shape, np.float32), np.empty(shape, np.float32)
    _run(_forward, (x, out), mean, rstd, float(eps))
    return out, mean, rstd


def standardise_vjp(
    g: np.ndarray, out: np.ndarray, rstd: np.ndarray, g_mean: np.ndarray, g_rstd: np.ndarray
) -> np.ndarray:
    """The gradient in x, from those of the three results."""
    grad = np.empty_like(out)
    _run(_backward, (g, out, grad), rstd, g_mean, g_rstd)
    return grad


def _run(kernel: Kernel, arrays: tuple[np.ndarray, ...], *rest: np.ndarray | float) -> None:
    """Call it on blocks of rows: arrays of rows, then arrays of a number for each row, and numbers."""
    of_rows = [np.ascontiguousarray(a).reshape(-1) if isinstance(a, np.ndarray) else a for a in rest]
    count = of_rows[0].size
    columns = arrays[0].size // count
    block = -(-BLOCK // columns)
    parallel(kernel, -(-count // block), block, *(a.reshape(count, columns) for a in arrays), *of_rows, grain=GRAIN)


@jit
def _forward(first, last, block, x, out, mean, rstd, eps):
    for r in range(first * block, min(last * block, x.shape[0])):
        row, target, total, square = x[r], out[r], ZERO, ZERO
        for j in range(row.size):
            total += row[j]
        centre = total / np.float32(row.size)
        for j in range(row.size):
            d = row[j] - centre
            target[j] = d
            square += d * d
        scale = ONE / np.float32(math.sqrt(square / np.float32(row.size) + np.float32(eps)))
        for j in range(row.size):
            target[j] *= scale
        mean[r] = centre
        rstd[r] = scale


@jit
def _backward(first, last, block, g, out, grad, rstd, g_mean, g_rstd):
    for r in range(first * block, min(last * block, g.shape[0])):
        given, row, target, scale, total, product = g[r], out[r], grad[r], rstd[r], ZERO, ZERO
        for j in range(row.size):
            total += given[j]
            product += given[j] * row[j]
        shift = (total * scale - g_mean[r]) / np.float32(row.size)
        slope = (product * scale + g_rstd[r] * scale * scale) / np.float32(row.size)
        for j in range(row.size):
            target[j] = given[j] * scale - shift - row[j] * slope
