"""Softmax, its logarithm, cross-entropy and their gradients over contiguous rows of float32 on the CPU.

A row is read again while the cache still holds it, so each array passes through memory once. NaN, +inf, and a row of
nothing but -inf give NaN in the whole row, as inf - inf and the sum do.
"""

from __future__ import annotations

import math

import numpy as np

from tdt._kernels._intrinsics import difference, float_of_bits
from tdt._kernels._jit import Kernel, jit
from tdt._kernels._layout import check_indices
from tdt._kernels._polynomial import exp32
from tdt._kernels._pool import parallel

BLOCK = 4096  # elements of a block of rows, at least
GRAIN = 4  # blocks a thread should at least have: about 10 µs of work
ZERO, ONE = np.float32(0), np.float32(1)
LEAST, SIGN, MAGNITUDE = np.int32(-(2**31)), np.int32(31), np.int32(2**31 - 1)


def softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """exp(x) scaled to sum to 1 over the last dimension."""
    out = np.empty_like(x)
    _run(_softmax, (x, _bits(x), out))
    return out


def log_softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    """The logarithm of `softmax`."""
    out = np.empty_like(x)
    _run(_log_softmax, (x, _bits(x), out))
    return out


def softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The gradient of a loss in x, from `g`, that in softmax's result `out`."""
    grad = np.empty_like(out)
    _run(_softmax_grad, (g, out, grad))
    return grad


def log_softmax_vjp(g: np.ndarray, out: np.ndarray, *, dim: int) -> np.ndarray:
    """The same for the logarithm."""
    grad = np.empty_like(out)
    _run(_log_softmax_grad, (g, out, grad))
    return grad


def cross_entropy(x: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For rows x (N, C) and classes t (N,): the losses, exp(x - the row's maximum), and its sums over rows."""
    exps, (losses, sums) = np.empty_like(x), np.empty((2, len(x)), np.float32)
    _run(_cross_entropy, (x, _bits(x), exps), np.ascontiguousarray(t), losses, sums)
    return losses, exps, sums


def cross_entropy_vjp(exps: np.ndarray, sums: np.ndarray, t: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The gradient in x, from the losses' gradients `scale` (N,) or ()."""
    check_indices(t, exps.shape[1])
    grad = np.empty_like(exps)
    each = np.ascontiguousarray(np.broadcast_to(scale, sums.shape), np.float32)
    _run(_cross_entropy_grad, (exps, grad), np.ascontiguousarray(t), each, sums)
    return grad


def _run(kernel: Kernel, arrays: tuple[np.ndarray, ...], *of_rows: np.ndarray) -> None:
    """Call it on blocks of rows: arrays whose last dimensions are the rows, and arrays of a number for each row."""
    count, columns = arrays[0].size // arrays[0].shape[-1], arrays[0].shape[-1]
    block = -(-BLOCK // columns)
    matrices = [a.reshape(count, columns) for a in arrays]
    parallel(kernel, -(-count // block), block, *matrices, *of_rows, grain=GRAIN)


def _bits(x: np.ndarray) -> np.ndarray:
    return x.view(np.int32)


@jit
def _largest(bits):
    """The maximum of a row from its floats' bits, which in this order compare as they do. A maximum of floats, which have
    NaN, would not be vectorised. NaN is larger or smaller than all numbers."""
    best = LEAST
    for j in range(bits.size):
        key = np.int32(bits[j] ^ ((bits[j] >> SIGN) & MAGNITUDE))
        best = key if key > best else best
    return float_of_bits(best ^ ((best >> SIGN) & MAGNITUDE))


@jit
def _softmax(first, last, block, x, bits, out):
    for r in range(first * block, min(last * block, x.shape[0])):
        row, target, top, total = x[r], out[r], _largest(bits[r]), ZERO
        for j in range(row.size):
            e = exp32(row[j] - top)
            target[j] = e
            total += e
        share = ONE / total
        for j in range(row.size):
            target[j] *= share


@jit
def _log_softmax(first, last, block, x, bits, out):
    for r in range(first * block, min(last * block, x.shape[0])):
        row, target, top, total = x[r], out[r], _largest(bits[r]), ZERO
        for j in range(row.size):
            total += exp32(row[j] - top)
        shift = np.float32(math.log(total))
        for j in range(row.size):
            target[j] = difference(difference(row[j], top), shift)  # top + shift would be rounded


@jit
def _softmax_grad(first, last, block, g, out, grad):
    for r in range(first * block, min(last * block, g.shape[0])):
        g_row, row, target, total = g[r], out[r], grad[r], ZERO
        for j in range(row.size):
            total += g_row[j] * row[j]
        for j in range(row.size):
            target[j] = row[j] * (g_row[j] - total)


@jit
def _log_softmax_grad(first, last, block, g, out, grad):
    for r in range(first * block, min(last * block, g.shape[0])):
        g_row, row, target, total = g[r], out[r], grad[r], ZERO
        for j in range(row.size):
            total += g_row[j]
        for j in range(row.size):
            target[j] = g_row[j] - exp32(row[j]) * total


@jit
def _cross_entropy(first, last, block, x, bits, exps, t, losses, sums):
    for r in range(first * block, min(last * block, x.shape[0])):
        row, target, top, total = x[r], exps[r], _largest(bits[r]), ZERO
        for j in range(row.size):
            e = exp32(row[j] - top)
            target[j] = e
            total += e
        losses[r] = difference(np.float32(math.log(total)), difference(row[t[r]], top))
        sums[r] = total


@jit
def _cross_entropy_grad(first, last, block, exps, grad, t, scale, sums):
    for r in range(first * block, min(last * block, exps.shape[0])):
        row, target, share = exps[r], grad[r], scale[r] / sums[r]
        for j in range(row.size):
            target[j] = row[j] * share
        target[t[r]] -= scale[r]
