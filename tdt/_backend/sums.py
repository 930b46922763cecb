"""Sums of NumPy arrays whose rounding error does not grow with the number of rows.

NumPy adds pairwise along the axis that is innermost in memory, but one by one along all others, so that a sum over the
first axis of (200000, 8) has hundreds of times the error of a pairwise one. Here such axes are cut into blocks of at most
`BLOCK` rows, which are added one by one, and the blocks' sums are joined in double precision. Blocks depend on the shape
and strides alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._backend.scatter import accumulate

BLOCK = 128  # rows that are added one by one
LARGE = 1 << 17  # elements of which NumPy's pairwise sums are joined in double precision
SMALL = 1 << 14  # elements that are added in double precision, which is as fast
WIDTH = 256  # elements of a row, at least: shorter rows are seen as longer ones, several in one
LINE = 1024  # elements that are added pairwise
HALVED = 256  # rows of complex numbers that are multiplied by as many others, at least
WIDER = {"f": np.dtype("float64"), "F": np.dtype("complex128")}  # to join blocks in, by dtype.char


def total(x: Any, axis: int | tuple[int, ...] | None = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """x.sum(axis, dtype, None, keepdims), as accurate over any axes as over the last; half precision is added in float32.

    Without NumPy's method, which is written in Python, a warning of the sum does not count as one of tdt's.
    """
    if type(x) is not np.ndarray:
        return x.sum(axis, dtype, None, keepdims)
    kind = x.dtype
    if kind.itemsize == 2 and dtype is None and kind.kind not in "iu":  # float16 and bfloat16
        return total(x, axis, np.float32, keepdims).astype(kind)
    whole = axis is None and x.flags.c_contiguous
    if whole and x.size > LARGE and kind.char in WIDER and dtype is None:
        out = _sum_lines(x.reshape(-1), kind)
        return out.reshape((1,) * x.ndim) if keepdims else out
    if (
        x.size <= BLOCK
        or kind.kind in "iub"
        or whole
        or (
            axis is not None
            and (_count(x.shape, axis) <= BLOCK or (axis in (-1, x.ndim - 1) and x.strides[-1] == kind.itemsize))
        )
    ):
        return _added(x, axis, dtype, keepdims)
    result = kind if dtype is None else np.dtype(dtype)
    if x.size <= SMALL:
        wider = WIDER.get(result.char, result)
        return _added(x, axis, wider, keepdims).astype(result, copy=False)
    return _total_in_blocks(x, axis, result, keepdims)


def _added(x: np.ndarray, axis: int | tuple[int, ...] | None, dtype: Any = None, keepdims: bool = False) -> Any:
    """NumPy's sum, which begins at 0: at -0, as it does by itself, a sum of -0 would be -0, unlike PyTorch's."""
    return np.add.reduce(x, axis, dtype, None, keepdims, 0)  # type: ignore[call-overload]


def _count(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> int:
    return math.prod([shape[a] for a in axis]) if axis.__class__ is tuple else shape[axis]  # type: ignore[index]


def _total_in_blocks(x: np.ndarray, axis: int | tuple[int, ...] | None, dtype: np.dtype, keepdims: bool) -> Any:
    reduced = {a % x.ndim for a in ((axis,) if isinstance(axis, int) else range(x.ndim) if axis is None else axis)}
    order = sorted(range(x.ndim), key=lambda d: -abs(x.strides[d]))  # innermost in memory last
    view, groups = _coalesced(x.transpose(order), [d in reduced for d in order])
    rows = math.prod(n for n, summed in zip(view.shape[:-1], groups[:-1], strict=True) if summed)
    if rows <= BLOCK:
        return _added(x, axis, dtype, keepdims)
    for d in reversed(range(view.ndim)):
        if not groups[d]:
            continue
        if d == view.ndim - 1:  # NumPy's pairwise sum
            view = _added(view, d, dtype)
        else:  # behind this axis are axes that remain alone
            behind = view.shape[d + 1 :]
            view = _sum_rows(view.reshape(*view.shape[: d + 1], -1), dtype).astype(dtype, copy=False)
            view = view.reshape(*view.shape[:d], *behind)
    remaining = [d for d in order if d not in reduced]
    out = view.reshape([x.shape[d] for d in remaining]).transpose(np.argsort(remaining))
    if keepdims:
        return np.expand_dims(out, tuple(reduced))
    return out if remaining else out[()]


def _sum_lines(x: np.ndarray, dtype: np.dtype) -> Any:
    """The sum of x (n,), in which pairwise sums of `LINE` elements are joined in double precision."""
    used = x.size - x.size % LINE
    sums = _added(_added(x[:used].reshape(-1, LINE), 1), 0, WIDER[dtype.char])
    return (sums + _added(x[used:], 0)).astype(dtype)


def dot(a: Any, b: Any) -> Any:
    """The sum of the products of two vectors, as accurate for long ones as for short ones."""
    if type(a) is not np.ndarray or a.size <= LINE or a.dtype.char != "f":
        return a.dot(b)
    used = a.size - a.size % LINE
    products = np.matmul(a[:used].reshape(-1, 1, LINE), b[:used].reshape(-1, LINE, 1))
    return (np.add.reduce(products, None, np.float64) + a[used:].dot(b[used:])).astype(a.dtype)


def scan(xp: Any, function: Any, x: Any, axis: int) -> Any:
    """The running results of `function`, an associative ufunc, along `axis`; rounded once, from a wider dtype."""
    if not x.ndim:
        return x.copy()
    if xp is not np:
        return accumulate(xp, function, x, axis)
    wider = np.dtype("float32") if x.dtype.kind not in "iub" and x.dtype.itemsize == 2 else WIDER.get(x.dtype.char)
    found = function.accumulate(x, axis, wider or x.dtype)
    if function is not np.multiply:  # a sum begins at 0
        found += 0
    return found.astype(x.dtype, copy=False)


def complex_product(x: np.ndarray, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    """x.prod(axis, keepdims=keepdims) of complex numbers, whose halves are multiplied: NumPy multiplies them one by one.

    complex64 is multiplied in complex128, and rounded once.
    """
    axes = tuple(range(x.ndim)) if axis is None else axis
    remaining = [n for d, n in enumerate(x.shape) if d not in axes]
    rows = np.moveaxis(x, axes, range(len(axes))).reshape(math.prod(x.shape[d] for d in axes), *remaining)
    while (half := len(rows) // 2) >= HALVED:
        products = np.multiply(rows[:half], rows[half : 2 * half], dtype=WIDER.get(x.dtype.char))
        if len(rows) % 2:
            products[0] *= rows[-1]
        rows = products
    out = np.multiply.reduce(rows, 0, WIDER.get(x.dtype.char)).astype(x.dtype, copy=False)
    return np.expand_dims(out, axes) if keepdims else out


def _coalesced(x: np.ndarray, groups: list[bool]) -> tuple[np.ndarray, list[bool]]:
    """x with neighbouring axes of one group joined where memory allows it, and the groups of the new axes."""
    shape: list[int] = []
    strides: list[int] = []
    joined: list[bool] = []
    for n, stride, group in zip(x.shape, x.strides, groups, strict=True):
        if n == 1:
            continue
        if joined and joined[-1] == group and strides[-1] == stride * n:
            shape[-1], strides[-1] = shape[-1] * n, stride
        else:
            shape.append(n)
            strides.append(stride)
            joined.append(group)
    return x.reshape(shape or [1]), joined or [True]


def _sum_rows(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sums over the last axis but one of x (*, rows, columns), in `dtype` or a wider one."""
    rows, columns = x.shape[-2:]
    wider = WIDER.get(dtype.char, dtype)
    if rows <= BLOCK:
        return _added(x, -2, dtype)
    each = 1  # rows that are seen as one
    if 0 < columns < WIDTH and x.strides[-1] == x.itemsize and x.strides[-2] == columns * x.itemsize:
        each = min(WIDTH // columns, rows // 2)
    length = rows // each
    blocks = -(-length // BLOCK)
    size = length // blocks
    used = blocks * size * each
    parts = x[..., :used, :].reshape(*x.shape[:-2], blocks, size, each * columns)
    sums = _sum_rows(_added(parts, -2, dtype), wider)
    if each > 1:
        sums = _added(sums.reshape(*x.shape[:-2], each, columns), -2, wider)
    return sums + _sum_rows(x[..., used:, :], wider) if used < rows else sums
