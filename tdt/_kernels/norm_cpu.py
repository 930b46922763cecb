"""Batch normalisation in float32 on the CPU: two passes over memory forward, two backward.

An image is rows of channels (channels-last; also (N, C) inputs), or planes of one channel each (contiguous). Sums are
taken over blocks that a cache holds, about a centre near the block's own mean (T. F. Chan, G. H. Golub, R. J. LeVeque,
1983: such parts join without loss), and joined in float64, in order: bits do not depend on the number of threads.
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
    view = _View(x)
    parts = view.parts(), view.parts(), view.parts()
    view.run(_row_moments if view.by_rows else _plane_moments, x, *parts)
    mean, variance = view.joined(*parts)
    rstd = 1 / np.sqrt(variance + eps)
    return affine(x, mean, rstd if w is None else rstd * w, b), mean.astype(np.float32), rstd.astype(np.float32)


def batch_norm_sums(g: np.ndarray, x: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per channel, the sums of g and of g (x - mean)."""
    view = _View(x)
    plain, weighted = view.parts(), view.parts()
    view.run(_row_sums if view.by_rows else _plane_sums, like(g, x), x, view.spread(mean), plain, weighted)
    return view.total(plain).astype(np.float32), view.total(weighted).astype(np.float32)


def batch_norm_input_grad(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, scale: np.ndarray, slope: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """g scale - (x - mean) slope - shift, with numbers per channel."""
    view, out = _View(x), np.empty_like(x)
    numbers = map(view.spread, (mean, scale, slope, shift))
    view.run(_row_input_grad if view.by_rows else _plane_input_grad, like(g, x), x, *numbers, out)
    return out


def affine(x: np.ndarray, mean: np.ndarray, scale: np.ndarray, shift: np.ndarray | None) -> np.ndarray:
    """(x - mean) scale + shift, with numbers per channel."""
    view, out = _View(x), np.empty_like(x)
    shift = np.zeros(x.shape[1], np.float32) if shift is None else shift
    view.run(_row_affine if view.by_rows else _plane_affine, x, *map(view.spread, (mean, scale, shift)), out)
    return out


class _View:
    """How an array (N, C, *) is cut: rows of several times C numbers, or planes."""

    def __init__(self, x: np.ndarray):
        self.channels = x.shape[1]
        self.by_rows = x.ndim == 2 or not x.flags.c_contiguous
        if self.by_rows:
            rows, repeats = x.size // self.channels, 1
            while repeats * self.channels < WIDTH and rows % (2 * repeats) == 0:
                repeats *= 2
            self.shape = rows // repeats, repeats * self.channels
            self.block = max(1, BLOCK // self.shape[1])  # rows
        else:
            self.shape = x.shape[0] * self.channels, math.prod(x.shape[2:])
            self.block = 1
        self.blocks = -(-self.shape[0] // self.block)

    def of(self, x: np.ndarray) -> np.ndarray:
        return (to_last(x) if self.by_rows and x.ndim > 2 else x).reshape(self.shape)

    def run(self, kernel, *arrays: np.ndarray) -> None:  # noqa: ANN001 - a kernel
        """Call it on all blocks; images are seen as matrices."""
        seen = [self.of(a) if a.ndim > 1 and a.size == math.prod(self.shape) else a for a in arrays]
        parallel(kernel, self.blocks, self.block, *seen, grain=-(-GRAIN // (self.block * self.shape[1])))

    def parts(self) -> np.ndarray:
        """Room for a sum per block and column, or per plane."""
        return np.empty((self.blocks, self.shape[1]) if self.by_rows else self.shape[0], np.float32)

    def spread(self, v: np.ndarray) -> np.ndarray:
        """A number per channel as the kernels read it: for every column of a row, or for every plane."""
        repeats = (self.shape[1] if self.by_rows else self.shape[0]) // self.channels
        return np.concatenate([np.asarray(v, np.float32)] * repeats)

    def total(self, parts: np.ndarray) -> np.ndarray:
        """The sum of all parts, per channel."""
        return parts.reshape(-1, self.channels).sum(axis=0, dtype=np.float64)

    def joined(self, centres: np.ndarray, rests: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance per channel from the parts' sums of x - centre and of (x - centre)²."""
        if self.by_rows:
            counts = np.full((self.blocks, 1), float(self.block))
            counts[-1] = self.shape[0] - (self.blocks - 1) * self.block
            counts = np.repeat(counts, self.shape[1] // self.channels, axis=0)
        else:
            counts = np.full((self.shape[0] // self.channels, 1), float(self.shape[1]))
        centres, rests, squares = (a.reshape(-1, self.channels).astype(np.float64) for a in (centres, rests, squares))
        rests /= counts
        total, means = counts.sum(), centres + rests
        mean = (counts * means).sum(axis=0) / total
        variance = (squares + counts * ((means - mean) ** 2 - rests**2)).sum(axis=0) / total
        return mean, np.maximum(variance, 0)  # of equal values it might round to less


@jit
def _row_moments(first, last, block, x, centres, rests, squares):
    for number in range(first, last):
        rows = x[number * block : (number + 1) * block]
        centre, rest, square = centres[number], rests[number], squares[number]
        for j in range(centre.size):
            centre[j] = ZERO
            rest[j] = ZERO
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
                rest[j] += d
                square[j] += d * d


@jit
def _plane_moments(first, last, block, x, centres, rests, squares):
    for number in range(first, last):
        plane = x[number]
        total = ZERO
        for i in range(plane.size):
            total += plane[i]
        centre, rest, square = total / np.float32(plane.size), ZERO, ZERO
        for i in range(plane.size):
            d = plane[i] - centre
            rest += d
            square += d * d
        centres[number] = centre
        rests[number] = rest
        squares[number] = square


@jit
def _row_sums(first, last, block, g, x, mean, plain, weighted):
    for number in range(first, last):
        total, other = plain[number], weighted[number]
        for j in range(total.size):
            total[j] = ZERO
            other[j] = ZERO
        gs, xs = g[number * block : (number + 1) * block], x[number * block : (number + 1) * block]
        for i in range(gs.shape[0]):
            given, row = gs[i], xs[i]
            for j in range(row.size):
                total[j] += given[j]
                other[j] += given[j] * (row[j] - mean[j])


@jit
def _plane_sums(first, last, block, g, x, mean, plain, weighted):
    for number in range(first, last):
        given, plane, centre = g[number], x[number], mean[number]
        total, other = ZERO, ZERO
        for i in range(plane.size):
            total += given[i]
            other += given[i] * (plane[i] - centre)
        plain[number] = total
        weighted[number] = other


@jit
def _row_input_grad(first, last, block, g, x, mean, scale, slope, shift, out):
    for i in range(first * block, min(last * block, x.shape[0])):
        given, row, target = g[i], x[i], out[i]
        for j in range(row.size):
            target[j] = given[j] * scale[j] - (row[j] - mean[j]) * slope[j] - shift[j]


@jit
def _plane_input_grad(first, last, block, g, x, mean, scale, slope, shift, out):
    for number in range(first, last):
        given, plane, target = g[number], x[number], out[number]
        m, a, b, c = mean[number], scale[number], slope[number], shift[number]
        for i in range(plane.size):
            target[i] = given[i] * a - (plane[i] - m) * b - c


@jit
def _row_affine(first, last, block, x, mean, scale, shift, out):
    for i in range(first * block, min(last * block, x.shape[0])):
        row, target = x[i], out[i]
        for j in range(row.size):
            target[j] = (row[j] - mean[j]) * scale[j] + shift[j]


@jit
def _plane_affine(first, last, block, x, mean, scale, shift, out):
    for number in range(first, last):
        plane, target = x[number], out[number]
        m, a, b = mean[number], scale[number], shift[number]
        for i in range(plane.size):
            target[i] = (plane[i] - m) * a + b
