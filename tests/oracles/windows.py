"""Convolution and pooling as loops over every output cell: slow, and plain enough to be believed.

Inputs (N, C, *size), weights (out, in / groups, *kernel). `cells` names, for each output position and kernel position,
the input position, or None in the border.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np


def out_size(n: int, k: int, stride: int, padding: int, dilation: int, ceil_mode: bool = False) -> int:
    """How many windows fit; with ceil_mode one more may hang over, if it starts inside input or left border."""
    free = n + 2 * padding - dilation * (k - 1) - 1
    count = (free + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= n + padding:
        count -= 1
    return count


def cells(size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, out: tuple) -> Iterator[tuple]:
    """(output position, kernel position, input position or None) for every pair of the first two."""
    for o in itertools.product(*map(range, out)):
        for k in itertools.product(*map(range, kernel)):
            at = tuple(o[d] * stride[d] + k[d] * dilation[d] - padding[d] for d in range(len(size)))
            inside = all(0 <= i < n for i, n in zip(at, size, strict=True))
            yield o, k, at if inside else None


def conv(x, w, b, stride, padding, dilation, groups):
    """Cross-correlation; b may be None."""
    size, kernel = x.shape[2:], w.shape[2:]
    out = tuple(map(out_size, size, kernel, stride, padding, dilation))
    y = np.zeros((x.shape[0], w.shape[0], *out), np.result_type(x, w))
    per, filters = w.shape[1], w.shape[0] // groups
    for o, k, at in cells(size, kernel, stride, padding, dilation, out):
        if at is not None:
            for f in range(w.shape[0]):
                first = f // filters * per
                y[(slice(None), f, *o)] += x[(slice(None), slice(first, first + per), *at)] @ w[(f, slice(None), *k)]
    return y if b is None else y + b.reshape(-1, *(1,) * len(size))


def conv_input_grad(y, w, b, size, stride, padding, dilation, groups):
    """What each input cell receives from the output cells it took part in; b may be None."""
    x = np.zeros((y.shape[0], w.shape[1] * groups, *size), np.result_type(y, w))
    per, filters = w.shape[1], w.shape[0] // groups
    for o, k, at in cells(size, w.shape[2:], stride, padding, dilation, y.shape[2:]):
        if at is not None:
            for f in range(w.shape[0]):
                first = f // filters * per
                x[(slice(None), slice(first, first + per), *at)] += (
                    y[(slice(None), f, *o)][:, None] * w[(f, slice(None), *k)]
                )
    return x if b is None else x + b.reshape(-1, *(1,) * len(size))


def conv_weight_grad(y, x, kernel, stride, padding, dilation, groups):
    """What each weight receives from the pairs of cells it joined."""
    per, filters = x.shape[1] // groups, y.shape[1] // groups
    w = np.zeros((y.shape[1], per, *kernel), np.result_type(y, x))
    for o, k, at in cells(x.shape[2:], kernel, stride, padding, dilation, y.shape[2:]):
        if at is not None:
            for f in range(y.shape[1]):
                first = f // filters * per
                w[(f, slice(None), *k)] += y[(slice(None), f, *o)] @ x[(slice(None), slice(first, first + per), *at)]
    return w


def max_pool(x, kernel, stride, padding, dilation, ceil_mode):
    """The largest cell of each window and its flat index in the input plane."""
    size = x.shape[2:]
    out = tuple(
        out_size(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    y = np.full((*x.shape[:2], *out), -np.inf)
    index = np.zeros(y.shape, np.int64)
    for o, _, at in cells(size, kernel, stride, padding, dilation, out):
        if at is not None:
            value, here = x[(..., *at)], y[(..., *o)]
            better = value > here
            y[(..., *o)] = np.where(better, value, here)
            index[(..., *o)] = np.where(better, np.ravel_multi_index(at, size), index[(..., *o)])
    return y, index


def max_of_cells(x, *cells):
    """The largest of the cells that `cells[d][n, c, window, :]` name along each dimension d, and its flat index."""
    size, out = x.shape[2:], tuple(c.shape[2] for c in cells)
    y, index = np.zeros((*x.shape[:2], *out)), np.zeros((*x.shape[:2], *out), np.int64)
    for where in np.ndindex(*y.shape):
        named = [
            np.broadcast_to(c, (*x.shape[:2], *c.shape[2:]))[(*where[:2], o)]
            for c, o in zip(cells, where[2:], strict=True)
        ]
        best = max(itertools.product(*named), key=lambda at: x[(*where[:2], *at)])
        y[where], index[where] = x[(*where[:2], *best)], np.ravel_multi_index(best, size)
    return y, index


def adaptive_max(x, windows):
    """The largest cell of windows that cover x evenly, and its flat index."""
    cells = []
    for n, m in zip(x.shape[2:], windows, strict=True):
        spans = [range(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
        longest = max(map(len, spans))
        cells.append(np.array([[*s, *[s[-1]] * (longest - len(s))] for s in spans])[None, None])
    return max_of_cells(x, *cells)


def avg_pool(x, kernel, stride, padding, ceil_mode, include_pad, divisor):
    """The mean of each window; cells beyond the right border never count."""
    size = x.shape[2:]
    out = tuple(out_size(n, k, s, p, 1, ceil_mode) for n, k, s, p in zip(size, kernel, stride, padding, strict=True))
    total, count = np.zeros((*x.shape[:2], *out)), np.zeros(out)
    for o, k, at in cells(size, kernel, stride, padding, (1,) * len(size), out):
        reach = [o[d] * stride[d] + k[d] - padding[d] for d in range(len(size))]
        if at is not None:
            total[(..., *o)] += x[(..., *at)]
        count[o] += at is not None or (
            include_pad and all(i < n + p for i, n, p in zip(reach, size, padding, strict=True))
        )
    return total / (count if divisor is None else divisor)


def avg_pool_grad(y, size, kernel, stride, padding, ceil_mode, include_pad, divisor):
    """The transpose of avg_pool, one input cell at a time."""
    x = np.zeros((*y.shape[:2], *size))
    for at in itertools.product(*map(range, size)):
        one = np.zeros((1, 1, *size))
        one[(0, 0, *at)] = 1
        share = avg_pool(one, kernel, stride, padding, ceil_mode, include_pad, divisor)
        x[(..., *at)] = (y * share).reshape(*y.shape[:2], -1).sum(-1)
    return x


def scatter(y, indices, size):
    """Each value added at its flat index of a plane of `size`."""
    x = np.zeros((*y.shape[:2], *size))
    for where in np.ndindex(*y.shape):
        x[(*where[:2], *np.unravel_index(indices[where], size))] += y[where]
    return x


def gather(x, indices):
    """The value at each flat index."""
    y = np.zeros(indices.shape)
    for where in np.ndindex(*indices.shape):
        y[where] = x[where[:2]].reshape(-1)[indices[where]]
    return y
