"""Layer normalisation and its gradients over rows of float32 on the CPU: a row stays in the cache."""

from __future__ import annotations

import math

import numpy as np

from tdt._kernels._jit import Kernel, jit
from tdt._kernels._pool import parallel

# Elements of a block of rows, at least: about 20 µs of work, and sums of columns that are few beside it.
BLOCK = 1 << 15
ZERO, ONE = np.float32(0), np.float32(1)


def layer_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, dims: int, eps: float, centred: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The op `layer_norm` for contiguous x: the result, and mean and 1 / √(variance + eps) of every row."""
    shape = *x.shape[: x.ndim - dims], *(1,) * dims
    out, mean, rstd = np.empty_like(x), np.empty(shape, np.float32), np.empty(shape, np.float32)
    places = math.prod(x.shape[x.ndim - dims :])
    shift = np.zeros(places, np.float32) if b is None else _flat(b)
    _run(_forward, (x, out), mean.reshape(-1), rstd.reshape(-1), _weights(w, places), shift, float(eps), centred)
    return out, mean, rstd


def layer_norm_vjp(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray,
                   g_mean: np.ndarray, g_rstd: np.ndarray, *, dims: int,
                   centred: bool = True) -> tuple[np.ndarray, ...]:  # fmt: skip
    """The gradients in x, w and b, from those of the three results."""
    grad, shape = np.empty_like(x), x.shape[x.ndim - dims :]
    places = math.prod(shape)
    sums = np.empty((2, -(-mean.size // -(-BLOCK // places)), places), np.float32)
    _run(
        _backward,
        (g, x, grad),
        *map(_flat, (mean, rstd, g_mean, g_rstd)),
        _weights(w, places),
        sums[0],
        sums[1],
        centred,
    )
    gw, gb = sums.sum(axis=1, dtype=np.float64).astype(np.float32)
    return grad, gw.reshape(shape), gb.reshape(shape)


def _weights(w: np.ndarray | None, places: int) -> np.ndarray:
    return np.ones(places, np.float32) if w is None else _flat(w)


def _flat(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).reshape(-1)


def _run(kernel: Kernel, arrays: tuple[np.ndarray, ...], *rest: np.ndarray | float) -> None:
    """Call the kernel on blocks of rows; the first of `rest` has a number for each row."""
    count = rest[0].size  # type: ignore[union-attr]
    columns = arrays[0].size // count
    block = -(-BLOCK // columns)
    parallel(kernel, -(-count // block), block, *(a.reshape(count, columns) for a in arrays), *rest)


@jit
def refined(centre, deviation, square, count):
    """The mean of `count` numbers, and their squares about it, from their sums about a `centre` that rounding has moved."""
    moved = deviation / np.float32(count)
    square -= deviation * moved
    return centre + moved, ZERO if square < ZERO else square


@jit
def _forward(first, last, block, x, out, mean, rstd, w, b, eps, centred):
    for r in range(first * block, min(last * block, x.shape[0])):
        row, target, total, deviation, square = x[r], out[r], ZERO, ZERO, ZERO
        if centred:
            for j in range(row.size):
                total += row[j]
        centre = total / np.float32(row.size)
        for j in range(row.size):
            d = row[j] - centre
            deviation += d
            square += d * d
        if centred:
            centre, square = refined(centre, deviation, square, row.size)
        # In double precision: in single precision LLVM uses an estimate, which is NaN for infinity.
        scale = np.float32(1.0 / math.sqrt(np.float64(square / np.float32(row.size)) + eps))
        for j in range(row.size):
            target[j] = (row[j] - centre) * scale * w[j] + b[j]
        mean[r] = centre
        rstd[r] = scale


@jit
def _backward(first, last, block, g, x, grad, mean, rstd, g_mean, g_rstd, w, weighted, plain, centred):
    for number in range(first, last):
        gw, gb = weighted[number], plain[number]
        for j in range(gw.size):
            gw[j] = ZERO
            gb[j] = ZERO
        for r in range(number * block, min((number + 1) * block, x.shape[0])):
            g_row, row, target, centre, scale = g[r], x[r], grad[r], mean[r], rstd[r]
            total, product = ZERO, ZERO
            for j in range(row.size):
                v = g_row[j] * w[j]
                total += v
                product += v * (row[j] - centre)
            shift = (total * scale - g_mean[r]) / np.float32(row.size) if centred else ZERO
            # In (x - mean), not times 1 / √(variance + eps): so once more of that.
            slope = (product * scale + g_rstd[r] * scale) * scale * scale / np.float32(row.size)
            for j in range(row.size):
                target[j] = g_row[j] * w[j] * scale - shift - (row[j] - centre) * slope
            for j in range(row.size):
                gw[j] += g_row[j] * ((row[j] - centre) * scale)
                gb[j] += g_row[j]
