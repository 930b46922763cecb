"""Resampling of spatial axes, one after the other: the op of interpolation and of adaptive average pooling."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core.dtype import FLOAT, uint8
from tdt._kernels import chosen, gpu_kernel, gpu_resampled, kernel, large_axis, large_pixels, lazy, prepares, small_axis
from tdt._ops.nn._resampling import Axis, Taps, taps
from tdt.autograd._op import op


def _shape(x: tuple, *, axes: tuple[Axis | None, ...]) -> tuple:
    return *x[:2], *(n if a is None else a.inside if a.turned else a.outside for n, a in zip(x[2:], axes, strict=True))


_PIXELS = (kernel("resample_cpu:resample_pixels", large_pixels),)
_AXIS = (
    kernel("resample_cpu:resample", large_axis),
    kernel("resample_cpu:resample_few", small_axis),
    gpu_kernel("resample_gpu:resample", gpu_resampled),
)


@op(dtypes=frozenset((FLOAT, uint8)), shape=_shape)
@repeatable
def resample(xp, x, *, axes):
    """(N, C, *) with each spatial axis resampled by its entry of `axes`, unless it is None; in the memory order of x."""
    last = output_is_channels_last(x)
    out = to_last(x) if last else xp.ascontiguousarray(x)
    letter = x.dtype.char if x.dtype.char in "fd" else "B"
    tables = [axis and taps(axis, letter) for axis in axes]
    if last and len(axes) == 2 and all(axes):
        if fast := chosen(_PIXELS, xp, out, tables=tables):
            return to_front(fast(out, *tables))
    for d in _order(axes):
        if (table := tables[d]) is not None:
            at = d + 1 if last else d + 2
            shape = out.shape
            flat = out.reshape(math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :]))
            fast = chosen(_AXIS, xp, flat, count=table.count)
            out = fast(flat, table) if fast else along(xp, flat, table)
            out = out.reshape(*shape[:at], table.count, *shape[at + 1 :])
    out = to_front(out) if last else out
    return out.copy(order="K") if out.base is x or out is x else out


@functools.lru_cache(256)
def _order(axes: tuple[Axis | None, ...]) -> tuple[int, ...]:
    """The axes one after the other: the last first, but means from the first on, so that fewer rows are left for the others."""
    means = all(a is None or (a.kind == "mean" and not a.turned) for a in axes)
    return tuple(range(len(axes)) if means else reversed(range(len(axes))))


_PREPARED = lazy("resample_cpu:prepared_few")


@prepares(resample.forward)
def _(x, *, axes, recorded):
    if x.dtype.char not in "fd" or output_is_channels_last(x):
        return None
    steps, shape = [], x.shape
    for d in _order(axes):
        if axes[d] is not None:
            table = taps(axes[d], x.dtype.char)
            visible = math.prod(shape[: d + 2]), shape[d + 2], math.prod(shape[d + 3 :])
            flat = np.empty(visible, x.dtype)
            if chosen(_AXIS, np, flat, count=table.count) is not _AXIS[1].function:
                return None
            steps.append((visible, _PREPARED(flat, table)))
            shape = (*shape[: d + 2], table.count, *shape[d + 3 :])

    def resampled(x):
        for visible, step in steps:
            x = step(x.reshape(visible))
        return x.reshape(shape)

    return resampled if steps else None


def along(xp: Any, x: Any, table: Taps) -> Any:
    """(A, n, B) as (A, rows of the table, B)."""
    out = None
    refuse_program()
    for rows, index, weight in table.layers:  # the first has the most rows
        part = x.take(xp.asarray(index), axis=1)
        if weight is not None:
            part = part * xp.asarray(weight)
        if out is None and rows is None:
            out = part
            continue
        if out is None:
            out = xp.zeros((x.shape[0], table.count, x.shape[2]), part.dtype)
        out[:, slice(None) if rows is None else xp.asarray(rows)] += part
    if out is None:  # no output pixel has a source
        out = xp.zeros((x.shape[0], table.count, x.shape[2]), x.dtype)
    if table.bits:
        out = xp.clip((out + (1 << table.bits - 1)) >> table.bits, 0, 255).astype(x.dtype)
    return out


@resample.vjp("x")
def _(g, axes):
    return resample(g, axes=_turned(axes))


@resample.fast_vjp("x")
@repeatable
def _(xp, g, axes):
    return resample.forward(xp, g, axes=_turned(axes))


@functools.lru_cache(256)
def _turned(axes: tuple[Axis | None, ...]) -> tuple[Axis | None, ...]:
    return tuple(a and a._replace(turned=not a.turned) for a in axes)


__all__: list[str] = []
