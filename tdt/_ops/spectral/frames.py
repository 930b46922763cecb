"""Frames: overlapping windows of a dimension as a view, and the transpose, which adds frames up at their positions."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.calls import integer
from tdt._core.dtype import FLOAT8S, FLOATING_AND_COMPLEX
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import wrap_dim
from tdt.autograd._dispatch import view_of
from tdt.autograd._op import op

LONGEST = 2**63 - 1  # bytes of a step: with longer ones there is one window, whose stride has no effect


@op(view=True, float8=FLOAT8S)
def _unfold(xp: ModuleType, x: Any, *, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        x = x.reshape(1)[:size]
        return _backend.as_strided(x, (size,), x.strides)
    return _backend.as_strided(x, *_layout(x.shape, x.strides, dim, size, step))


@functools.lru_cache(1000)
def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...], dim: int, size: int, step: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of the windows of an array with these."""
    count, step = (shape[dim] - size) // step + 1, min(step, LONGEST // max(1, strides[dim]))
    windows = *shape[:dim], count, *shape[dim + 1 :], size
    return windows, (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim])


@_unfold.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: int, size: int, step: int) -> Tensor:
    return overlap_add(g, dim=dim, step=min(step, x_shape[dim] + 1), n=x_shape[dim]) if x_shape else g.sum()


@method()
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` along `dimension`, `step` apart, in a new last dimension; a view.

    Shape: input (*, n, *), n along `dimension`; result (*, (n - size) // step + 1, *, size).
    Raises:
        RuntimeError: when `size` is negative or larger than n, or `step` is not positive.
        ValueError: when `step` has more than 64 bits.
        IndexError: when `dimension` is out of range.

    >>> import tdt
    >>> tdt.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    shape = input._a.shape
    d = wrap_dim(dimension, len(shape))
    length = shape[d] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {length} but size is {size}")
    if integer(step) <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if step >= 2**63:
        raise ValueError("Overflow when unpacking long long")
    return view_of(_unfold, input, {"dim": d, "size": size, "step": step}, _windows, (d, size, step))


def _windows(x: Any, windows: tuple[int, int, int]) -> Any:
    dim, size, step = windows
    return _unfold.forward(np, x, dim=dim, size=size, step=step)


@op(dtypes=FLOATING_AND_COMPLEX)
def overlap_add(xp: ModuleType, x: Any, *, dim: int, step: int, n: int) -> Any:
    """Frames, counted along `dim` and each along the last dimension, added up `step` apart into `n` points along `dim`."""
    frames = x if dim == x.ndim - 2 else xp.moveaxis(x, dim, -2)
    *batch, count, size = frames.shape
    parts = range(-(-size // step))  # of a frame, each as long as a step: there is no overlap among those of one number
    rows = max(count + len(parts), -(-n // step))
    total = xp.zeros((*batch, rows, step), x.dtype)
    for k in parts:
        part = frames[..., k * step : (k + 1) * step]
        total[..., k : k + count, : part.shape[-1]] += part
    total = total.reshape(*batch, rows * step)[..., :n]
    return xp.ascontiguousarray(total if dim == x.ndim - 2 else xp.moveaxis(total, -1, dim))


@overlap_add.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: int, step: int) -> Tensor:
    return _unfold(g, dim=dim, size=x_shape[-1], step=step)
