"""Group normalisation of float32 on the CPU where a group, or a channels-last sample, stays in the cache: one pass over memory.

Contiguous, a group is a row of planes; channels-last, a sample is rows of channels. Larger ones are `norm_cpu`'s, which
needs a second pass.
"""

from __future__ import annotations

import math

import numpy as np

from tdt._backend.layout import to_last
from tdt._kernels._jit import jit
from tdt._kernels._layout import like
from tdt._kernels._pool import parallel

GRAIN = 1 << 15  # elements that a thread should at least have
ZERO = np.float32(0)


def group_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, groups: int, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The op `group_norm` for x (N, C, *) without gaps: the result, and the groups' statistics (N, groups)."""
    count, channels = x.shape[:2]
    out, mean, rstd = np.empty_like(x), np.empty((count, groups), np.float32), np.empty((count, groups), np.float32)
    scale = np.ones(channels, np.float32) if w is None else w
    shift = np.zeros(channels, np.float32) if b is None else b
    if x.flags.c_contiguous:
        shape = count * groups, x.size // mean.size
        views = x.reshape(shape), out.reshape(shape), mean.reshape(-1), rstd.reshape(-1)
        parallel(_planes, shape[0], *views, scale, shift, groups, float(eps), grain=-(-GRAIN // shape[1]))
    else:
        room = np.empty((3, count, channels), np.float32)
        views = _pixels_of(x), _pixels_of(out), mean, rstd
        parallel(_pixels, count, *views, scale, shift, *room, float(eps), grain=-(-GRAIN // x[0].size))
    return out, mean, rstd


def group_norm_vjp(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray,
                   g_mean: np.ndarray, g_rstd: np.ndarray) -> tuple[np.ndarray, ...]:  # fmt: skip
    """The gradients in x, w and b, from those of the three results."""
    count, channels = x.shape[:2]
    g, grad, sums = like(g, x), np.empty_like(x), np.empty((2, count, channels), np.float32)
    numbers = [np.ascontiguousarray(a) for a in (mean, rstd, g_mean, g_rstd)]
    scale = np.ones(channels, np.float32) if w is None else w
    if x.flags.c_contiguous:
        shape = mean.size, x.size // mean.size
        images = (a.reshape(shape) for a in (g, x, grad))
        parallel(_planes_backward, shape[0], *images, *(a.reshape(-1) for a in numbers), scale, *sums.reshape(2, shape[0], -1),
                 mean.shape[1], grain=-(-GRAIN // shape[1]))  # fmt: skip
    else:
        room = np.empty((4, count, channels), np.float32)
        parallel(_pixels_backward, count, *map(_pixels_of, (g, x, grad)), *numbers, scale, *sums, *room,
                 grain=-(-GRAIN // x[0].size))  # fmt: skip
    gb, gw = sums.sum(axis=1, dtype=np.float64).astype(np.float32)
    return grad, gw, gb


def _pixels_of(x: np.ndarray) -> np.ndarray:
    """(N, C, *), channels-last, as (N, pixels, C)."""
    return to_last(x).reshape(x.shape[0], -1, x.shape[1])


@jit
def _scale(square, count, eps):
    """1 / √(variance + eps), in double precision: in single precision LLVM uses an estimate, which is NaN for infinity."""
    return np.float32(1.0 / math.sqrt(np.float64(square / np.float32(count)) + eps))


@jit
def refined(centre, deviation, square, count):
    """The mean of `count` numbers, and their squares about it, from their sums about a `centre` that rounding has moved."""
    moved = deviation / np.float32(count)
    square -= deviation * moved
    return centre + moved, ZERO if square < ZERO else square


@jit
def _planes(first, last, x, out, mean, rstd, w, b, groups, eps):
    channels = w.size // groups
    places = x.shape[1] // channels
    for r in range(first, last):
        row, target, total, deviation, square = x[r], out[r], ZERO, ZERO, ZERO
        for j in range(row.size):
            total += row[j]
        centre = total / np.float32(row.size)
        for j in range(row.size):
            d = row[j] - centre
            deviation += d
            square += d * d
        centre, square = refined(centre, deviation, square, row.size)
        scale = _scale(square, row.size, eps)
        mean[r] = centre
        rstd[r] = scale
        at = r % groups * channels
        for c in range(channels):
            p, q = scale * w[at + c], b[at + c]
            plane, out_plane = row[c * places : (c + 1) * places], target[c * places : (c + 1) * places]
            for j in range(plane.size):
                out_plane[j] = (plane[j] - centre) * p + q


@jit
def _pixels(first, last, x, out, mean, rstd, w, b, centres, scales, deviations, eps):
    groups, pixels = mean.shape[1], x.shape[1]
    channels = w.size // groups
    count = np.float32(channels * pixels)
    for n in range(first, last):
        centre, scale, deviation = centres[n], scales[n], deviations[n]
        for c in range(w.size):
            scale[c] = ZERO
            deviation[c] = ZERO
        for i in range(pixels):
            row = x[n, i]
            for c in range(row.size):
                deviation[c] += row[c]
        for k in range(groups):
            total = ZERO
            for c in range(k * channels, (k + 1) * channels):
                total += deviation[c]
            for c in range(k * channels, (k + 1) * channels):
                centre[c] = total / count
                deviation[c] = ZERO
        for i in range(pixels):
            row = x[n, i]
            for c in range(row.size):
                d = row[c] - centre[c]
                deviation[c] += d
                scale[c] += d * d
        for k in range(groups):
            total, square = ZERO, ZERO
            for c in range(k * channels, (k + 1) * channels):
                total += deviation[c]
                square += scale[c]
            mean[n, k], square = refined(centre[k * channels], total, square, count)
            rstd[n, k] = _scale(square, count, eps)
            for c in range(k * channels, (k + 1) * channels):
                centre[c] = mean[n, k]
                scale[c] = rstd[n, k] * w[c]
        for i in range(pixels):
            row, target = x[n, i], out[n, i]
            for c in range(row.size):
                target[c] = (row[c] - centre[c]) * scale[c] + b[c]


@jit
def _shift(total, scale, g_mean, count):
    """What is subtracted from every gradient of a group."""
    return (total * scale - g_mean) / np.float32(count)


@jit
def _slope(product, scale, g_rstd, count):
    """What is subtracted from the gradient for each unit of x - mean: d rstd / d x = - rstd³ (x - mean) / count."""
    return (product + g_rstd) * scale * scale * scale / np.float32(count)


@jit
def _planes_backward(first, last, g, x, grad, mean, rstd, g_mean, g_rstd, w, plain, weighted, groups):
    channels = w.size // groups
    places = x.shape[1] // channels
    for r in range(first, last):
        centre, scale, at, total, product = mean[r], rstd[r], r % groups * channels, ZERO, ZERO
        for c in range(channels):
            g_plane, plane = g[r, c * places : (c + 1) * places], x[r, c * places : (c + 1) * places]
            p, q = ZERO, ZERO
            for j in range(plane.size):
                p += g_plane[j]
                q += g_plane[j] * (plane[j] - centre)
            plain[r, c] = p
            weighted[r, c] = q * scale
            total += p * w[at + c]
            product += q * w[at + c]
        shift = _shift(total, scale, g_mean[r], x.shape[1])
        slope = _slope(product, scale, g_rstd[r], x.shape[1])
        for c in range(channels):
            g_plane, plane = g[r, c * places : (c + 1) * places], x[r, c * places : (c + 1) * places]
            target, p = grad[r, c * places : (c + 1) * places], scale * w[at + c]
            for j in range(plane.size):
                target[j] = g_plane[j] * p - (plane[j] - centre) * slope - shift


@jit
def _pixels_backward(first, last, g, x, grad, mean, rstd, g_mean, g_rstd, w, plain, weighted, centres, scales, shifts,
                     slopes):  # fmt: skip
    groups, pixels = mean.shape[1], x.shape[1]
    channels = w.size // groups
    for n in range(first, last):
        p, q, centre, scale, shift, slope = plain[n], weighted[n], centres[n], scales[n], shifts[n], slopes[n]
        for c in range(w.size):
            p[c] = ZERO
            q[c] = ZERO
            centre[c] = mean[n, c // channels]
        for i in range(pixels):
            g_row, row = g[n, i], x[n, i]
            for c in range(row.size):
                p[c] += g_row[c]
                q[c] += g_row[c] * (row[c] - centre[c])
        for k in range(groups):
            total, product = ZERO, ZERO
            for c in range(k * channels, (k + 1) * channels):
                total += p[c] * w[c]
                product += q[c] * w[c]
            less = _shift(total, rstd[n, k], g_mean[n, k], channels * pixels)
            steep = _slope(product, rstd[n, k], g_rstd[n, k], channels * pixels)
            for c in range(k * channels, (k + 1) * channels):
                q[c] *= rstd[n, k]
                scale[c] = rstd[n, k] * w[c]
                shift[c] = less
                slope[c] = steep
        for i in range(pixels):
            g_row, row, target = g[n, i], x[n, i], grad[n, i]
            for c in range(row.size):
                target[c] = g_row[c] * scale[c] - (row[c] - centre[c]) * slope[c] - shift[c]
