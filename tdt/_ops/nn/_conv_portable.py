"""Convolutions and their gradients by matrix products, in NumPy or CuPy: the form without kernels.

Forward: copy the cells under the kernel into a workspace, one row per window (im2col), and multiply it by the weights in
one BLAS call; a row of ones at the end carries the bias. A workspace holds as many samples as fit in the cache. Two memory
orders are computed without transposing: channels-last, where rows are pixels, and contiguous, where columns are.
"""

from __future__ import annotations

import math
from typing import Any

from tdt._backend.layout import empty_as, output_is_channels_last, to_front, to_last
from tdt._ops.nn._windows import bordered, inner, offsets, reached, windows, workspace

_CHUNK = 1 << 20  # bytes of im2col workspace at a time: about an L2 cache


class _Patches:
    """The cells of `x` under every window, as matrices (window, cell of the kernel) of a few samples at a time.

    `by_cell` lays them out cell by cell instead of window by window: longer runs to copy where there are few channels.
    `last`: cells are ordered (*kernel, C) instead of (C, *kernel). `ones`: one more cell, always 1.
    """

    def __init__(self, xp: Any, x: Any, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, out: tuple, last: bool,
                 ones: bool):  # fmt: skip
        self.xp, self.last, self.out, self.ones = xp, last, out, int(ones)
        self.count, channels = x.shape[:2]
        self.cells = math.prod(kernel) * channels
        self.places = math.prod(out)
        self.dtype = x.dtype
        view = windows(xp, bordered(xp, x, padding, last), kernel, stride, dilation, out)
        n = len(out)
        where, cell = range(2, 2 + n), range(2 + n, 2 + 2 * n)
        cells = (*cell, 1) if last else (1, *cell)
        self.by_cell = not last or channels * kernel[-1] < 16
        self.view = view.transpose(*cells, 0, *where) if self.by_cell else view.transpose(0, *where, *cells)
        self.cell_shape = tuple(view.shape[d] for d in cells)

    def __iter__(self) -> Any:
        """(first sample, past the last, matrix of (windows, cells)) for each part; the matrix is valid until the next."""
        width = self.cells + self.ones
        step = max(1, min(self.count, _CHUNK // max(1, self.places * width * self.dtype.itemsize)))
        for lo in range(0, self.count, step):
            hi = min(lo + step, self.count)
            rows = (hi - lo) * self.places
            if self.by_cell:
                m = workspace(self.xp, (width, rows), self.dtype)
                m[: self.cells].reshape(*self.cell_shape, hi - lo, *self.out)[...] = self.view[
                    ..., lo:hi, *(slice(None),) * len(self.out)
                ]
                if self.ones:
                    m[-1] = 1
                yield lo, hi, m.T
            else:
                m = workspace(self.xp, (rows, width), self.dtype)
                m[:, : self.cells].reshape(hi - lo, *self.out, *self.cell_shape)[...] = self.view[lo:hi]
                if self.ones:
                    m[:, -1] = 1
                yield lo, hi, m


def _flat(w: Any, last: bool) -> Any:
    """Weights as a matrix (out, cells), the cells in the order of `_Patches`."""
    return (to_last(w) if last else w).reshape(w.shape[0], -1)


def convolve_group(xp, x, w, b, out, stride, padding, dilation, last):
    kernel = w.shape[2:]
    patches = _Patches(xp, x, kernel, stride, padding, dilation, out.shape[2:], last, b is not None)
    flat = _flat(w, last)
    if b is not None:
        flat = xp.concatenate((flat, b[:, None]), axis=1)
    for lo, hi, m in patches:
        if last:
            target = to_last(out)[lo:hi]
            if target.flags.c_contiguous:
                xp.matmul(m, flat.T, out=target.reshape(-1, w.shape[0]))
            else:
                target[...] = (m @ flat.T).reshape(target.shape)
        else:
            product = (flat @ m.T).reshape(w.shape[0], hi - lo, *out.shape[2:])
            out[lo:hi] = product.swapaxes(0, 1)


def input_grad(xp, y, w, *, size, stride, padding, dilation, groups):
    """For each cell of the kernel, one product of `y` with that cell's weights, added where the cell lay."""
    last = output_is_channels_last(y, w)
    per, out_channels, out = w.shape[1], w.shape[0] // groups, y.shape[2:]
    full = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
    shape = (y.shape[0], per * groups, *full)
    # Contiguous: (C, N, *full), so that adding goes along whole rows; it is put in order at the end.
    padded = (
        empty_as(xp, shape, y.dtype, True) if last else xp.empty((shape[1], shape[0], *full), y.dtype).swapaxes(0, 1)
    )
    padded[...] = 0
    for i in range(groups if y.size else 0):
        o, c = slice(i * out_channels, (i + 1) * out_channels), slice(i * per, (i + 1) * per)
        rows = (
            to_last(y)[..., o].reshape(-1, out_channels) if last else y[:, o].swapaxes(0, 1).reshape(out_channels, -1)
        )
        for k in offsets(w.shape[2:]):
            cell = w[(o, slice(None), *k)]  # (out_channels, per)
            target = padded[reached(k, stride, dilation, out)][:, c]
            if last:
                target += to_front((rows @ cell).reshape(y.shape[0], *out, per))
            else:
                target += (cell.T @ rows).reshape(per, y.shape[0], *out).swapaxes(0, 1)
    result = padded[inner(full, padding)]
    if not last:
        return xp.ascontiguousarray(result)
    return to_front(xp.ascontiguousarray(to_last(result)))


def weight_grad(xp, y, x, *, kernel, stride, padding, dilation, groups, bias):
    """The gradients of weights and (if `bias`) bias, by one product per part of the patches."""
    last = output_is_channels_last(y, x)
    per, out_channels, out = x.shape[1] // groups, y.shape[1] // groups, y.shape[2:]
    grads = []
    for i in range(groups):
        yg, xg = (
            (y, x) if groups == 1 else (y[:, i * out_channels : (i + 1) * out_channels], x[:, i * per : (i + 1) * per])
        )
        patches = _Patches(xp, xg, kernel, stride, padding, dilation, out, last, bias)
        total = None
        for lo, hi, m in patches:
            rows = (
                to_last(yg)[lo:hi].reshape(-1, out_channels)
                if last
                else yg[lo:hi].swapaxes(0, 1).reshape(out_channels, -1).T
            )
            part = m.T @ rows  # the other way round takes BLAS half as long again
            total = part if total is None else xp.add(total, part, out=total)
        grads.append(xp.zeros((out_channels, patches.cells + bias), y.dtype) if total is None else total.T)
    grad = grads[0] if groups == 1 else xp.concatenate(grads)
    cells = grad[:, : per * math.prod(kernel)]
    gw = to_front(cells.reshape(-1, *kernel, per)) if last else cells.reshape(-1, per, *kernel)
    return xp.ascontiguousarray(gw) if not last else gw, grad[:, -1].copy() if bias else None
