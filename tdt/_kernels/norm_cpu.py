"""Batch and group normalisation in float32 on the CPU: two passes over memory forward, two backward.

An image is rows of channels (channels-last; also (N, C) inputs), or planes of one channel each (contiguous). Sums are
taken over blocks that a cache holds, about a centre near the block's own mean (T. F. Chan, G. H. Golub, R. J. LeVeque,
1983: such parts join without loss), and joined in float64, in order: bits do not depend on the number of threads.

Numbers per channel, (C,), are the same for all samples; those per sample and channel, (N, C), are group normalisation's.
"""

from __future__ import annotations

import math

import numpy as np

from tdt._backend.layout import to_last
from tdt._kernels._jit import jit
from tdt._kernels._layout import like
from tdt._kernels._pool import parallel

WIDTH = 128  # floats of a row, at least: narrower images are seen as wider ones, several rows in one
BLOCK = 1 << 15  # elements of a block of rows
GRAIN = 1 << 15  # elements that a thread should at least have
ZERO = np.float32(0)


def batch_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The op `batch_norm` for x (N, C, *) without gaps: the result, and mean and 1 / √(variance + eps) per channel."""
    mean, variance = _View(x, 1).moments(x)
    mean, rstd = mean[0], 1 / np.sqrt(variance[0] + eps)
    return affine(x, mean, rstd if w is None else rstd * w, b), mean.astype(np.float32), rstd.astype(np.float32)


def group_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, groups: int, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The op `group_norm` for x (N, C, *) without gaps: the result, and the groups' statistics (N, groups)."""
    count, channels = x.shape[:2]
    means, variances = (v.reshape(count, groups, -1) for v in _View(x, count).moments(x))
    mean = means.mean(axis=2, keepdims=True)
    variance = (variances + (means - mean) ** 2).mean(axis=2)
    mean, rstd = mean[..., 0], 1 / np.sqrt(variance + eps)
    each = channels // groups
    scale = rstd.repeat(each, axis=1)
    out = affine(x, mean.repeat(each, axis=1), scale if w is None else scale * w, b)
    return out, mean.astype(np.float32), rstd.astype(np.float32)


def batch_norm_sums(g: np.ndarray, x: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per number of `mean`, the sums of g and of g (x - mean)."""
    view = _View(x, _samples(mean))
    plain, weighted = view.parts(), view.parts()
    view.run(_row_sums if view.by_rows else _plane_sums, like(g, x), x, view.spread(mean), plain, weighted)
    plain, weighted = (view.joint(a).sum(axis=1, dtype=np.float64).astype(np.float32) for a in (plain, weighted))
    return plain.reshape(mean.shape), weighted.reshape(mean.shape)


def batch_norm_input_grad(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, scale: np.ndarray, slope: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """g scale - (x - mean) slope - shift, with numbers per channel, or per sample and channel."""
    view, out = _View(x, _samples(mean)), np.empty_like(x)
    numbers = map(view.spread, (mean, scale, slope, shift))
    view.run(_row_input_grad if view.by_rows else _plane_input_grad, like(g, x), x, *numbers, out)
    return out


def affine(x: np.ndarray, mean: np.ndarray, scale: np.ndarray, shift: np.ndarray | None) -> np.ndarray:
    """(x - mean) scale + shift, with numbers per channel, or per sample and channel; the shift per channel."""
    view, out = _View(x, _samples(mean)), np.empty_like(x)
    shift = np.zeros(x.shape[1], np.float32) if shift is None else shift
    view.run(_row_affine if view.by_rows else _plane_affine, x, *map(view.spread, (mean, scale, shift)), out)
    return out


def _samples(numbers: np.ndarray) -> int:
    return numbers.shape[0] if numbers.ndim == 2 else 1


class _View:
    """How an array (N, C, *) is cut: rows of several times C numbers, or planes. `samples`: N, or 1 for all as one."""

    def __init__(self, x: np.ndarray, samples: int):
        self.channels, self.samples = x.shape[1], samples
        self.by_rows = x.ndim == 2 or not x.flags.c_contiguous
        if self.by_rows:
            rows, repeats = x.size // self.channels // samples, 1
            while repeats * self.channels < WIDTH and rows % (2 * repeats) == 0:
                repeats *= 2
            self.rows = rows // repeats  # of a sample
            self.shape = self.rows * samples, repeats * self.channels
            self.block = max(1, min(BLOCK // self.shape[1], self.rows))
        else:
            self.shape = x.shape[0] * self.channels, math.prod(x.shape[2:])
            self.block = self.rows = 1
        self.cuts = -(-self.rows // self.block)  # blocks of a sample, or 1 for each plane
        self.blocks = self.shape[0] // self.rows * self.cuts

    def of(self, x: np.ndarray) -> np.ndarray:
        return (to_last(x) if self.by_rows and x.ndim > 2 else x).reshape(self.shape)

    def run(self, kernel, x: np.ndarray, *arrays: np.ndarray) -> None:
        """Call the kernel on all blocks; images are viewed as matrices."""
        matrices = [self.of(a) if a.shape == x.shape else a for a in (x, *arrays)]
        cut = (self.rows, self.block, self.cuts) if self.by_rows else ()
        parallel(kernel, self.blocks, *cut, *matrices, grain=-(-GRAIN // (self.block * self.shape[1])))

    def parts(self) -> np.ndarray:
        """Room for a sum per block and column, or per plane."""
        return np.empty((self.blocks, self.shape[1]) if self.by_rows else self.shape[0], np.float32)

    def spread(self, v: np.ndarray) -> np.ndarray:
        """Numbers per channel, or sample and channel, as the kernels read them: for every column of a row, or every plane."""
        v = np.asarray(v, np.float32)
        if self.by_rows:
            rows = np.ascontiguousarray(np.broadcast_to(v, (self.samples, self.channels)))
            return np.concatenate([rows] * (self.shape[1] // self.channels), axis=1)
        return np.concatenate([v.reshape(-1)] * (self.shape[0] // v.size))

    def joint(self, parts: np.ndarray) -> np.ndarray:
        """Parts as (samples, parts of a channel, channels)."""
        return parts.reshape(self.samples, -1, self.channels)

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (samples, C), from the parts' sums of x - centre and of (x - centre)²."""
        parts = self.parts(), self.parts(), self.parts()
        self.run(_row_moments if self.by_rows else _plane_moments, x, *parts)
        centres, deviations, squares = (self.joint(a).astype(np.float64) for a in parts)
        counts = np.full((centres.shape[1], 1), float(self.block if self.by_rows else self.shape[1]))
        if self.by_rows:
            counts[-(self.shape[1] // self.channels) :] = self.rows - (self.cuts - 1) * self.block
        deviations /= counts
        total, means = counts.sum(), centres + deviations
        mean = (counts * means).sum(axis=1) / total
        variance = (squares + counts * ((means - mean[:, None]) ** 2 - deviations**2)).sum(axis=1) / total
        return mean, np.maximum(variance, 0)  # of equal values it might round to less


@jit
def _rows_of(number, count, block, cuts):
    """The rows of a block: `block` of them, fewer where a sample of `count` rows, in `cuts` blocks, ends."""
    sample, part = number // cuts, number % cuts
    return sample * count + part * block, sample * count + min((part + 1) * block, count)


@jit
def _row_moments(first, last, count, block, cuts, x, centres, deviations, squares):
    for number in range(first, last):
        start, end = _rows_of(number, count, block, cuts)
        rows = x[start:end]
        centre, deviation, square = centres[number], deviations[number], squares[number]
        for j in range(centre.size):
            centre[j] = ZERO
            deviation[j] = ZERO
            square[j] = ZERO
        for i in range(rows.shape[0]):
            row = rows[i]
            for j in range(row.size):
                centre[j] += row[j]
        each = np.float32(1) / np.float32(rows.shape[0])
        for j in range(centre.size):
            centre[j] *= each
        for i in range(rows.shape[0]):
            row = rows[i]
            for j in range(row.size):
                d = row[j] - centre[j]
                deviation[j] += d
                square[j] += d * d


@jit
def _plane_moments(first, last, x, centres, deviations, squares):
    for number in range(first, last):
        plane = x[number]
        total = ZERO
        for i in range(plane.size):
            total += plane[i]
        centre, deviation, square = total / np.float32(plane.size), ZERO, ZERO
        for i in range(plane.size):
            d = plane[i] - centre
            deviation += d
            square += d * d
        centres[number] = centre
        deviations[number] = deviation
        squares[number] = square


@jit
def _row_sums(first, last, count, block, cuts, g, x, mean, plain, weighted):
    for number in range(first, last):
        total, other = plain[number], weighted[number]
        for j in range(total.size):
            total[j] = ZERO
            other[j] = ZERO
        start, end = _rows_of(number, count, block, cuts)
        centre = mean[number // cuts]
        for i in range(start, end):
            g_row, row = g[i], x[i]
            for j in range(row.size):
                total[j] += g_row[j]
                other[j] += g_row[j] * (row[j] - centre[j])


@jit
def _plane_sums(first, last, g, x, mean, plain, weighted):
    for number in range(first, last):
        g_plane, plane, centre = g[number], x[number], mean[number]
        total, other = ZERO, ZERO
        for i in range(plane.size):
            total += g_plane[i]
            other += g_plane[i] * (plane[i] - centre)
        plain[number] = total
        weighted[number] = other


@jit
def _row_input_grad(first, last, count, block, cuts, g, x, mean, scale, slope, shift, out):
    for number in range(first, last):
        start, end = _rows_of(number, count, block, cuts)
        sample = number // cuts
        m, a, b, c = mean[sample], scale[sample], slope[sample], shift[sample]
        for i in range(start, end):
            g_row, row, target = g[i], x[i], out[i]
            for j in range(row.size):
                target[j] = g_row[j] * a[j] - (row[j] - m[j]) * b[j] - c[j]


@jit
def _plane_input_grad(first, last, g, x, mean, scale, slope, shift, out):
    for number in range(first, last):
        g_plane, plane, target = g[number], x[number], out[number]
        m, a, b, c = mean[number], scale[number], slope[number], shift[number]
        for i in range(plane.size):
            target[i] = g_plane[i] * a - (plane[i] - m) * b - c


@jit
def _row_affine(first, last, count, block, cuts, x, mean, scale, shift, out):
    for number in range(first, last):
        start, end = _rows_of(number, count, block, cuts)
        sample = number // cuts
        m, a, b = mean[sample], scale[sample], shift[sample]
        for i in range(start, end):
            row, target = x[i], out[i]
            for j in range(row.size):
                target[j] = (row[j] - m[j]) * a[j] + b[j]


@jit
def _plane_affine(first, last, x, mean, scale, shift, out):
    for number in range(first, last):
        plane, target = x[number], out[number]
        m, a, b = mean[number], scale[number], shift[number]
        for i in range(plane.size):
            target[i] = (plane[i] - m) * a + b
