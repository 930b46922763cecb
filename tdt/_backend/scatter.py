"""Scatter with repeated indices, and cumulative ufuncs, for NumPy and CuPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# What CuPy's add.at adds; the others are added in the type named here, complex numbers in their two parts.
_ADDED = {"f": "float32", "i": "int64", "u": "uint64", "b": "int64", "V": "float32"}
_ADDS = frozenset("iIlLqQefd")
_unordered = 0


def unordered_sums() -> int:
    """How often numbers that are rounded were added on a GPU in no particular order, so that bits may differ each time."""
    return _unordered


def add_at(out: Any, index: Any, values: Any) -> None:
    """`out[index] += values`, which adds all values of a repeated index; for bools the logical or."""
    if isinstance(out, np.ndarray):
        (np.logical_or if out.dtype == bool else np.add).at(out, index, values)
        return
    if out.dtype.kind == "c":
        add_at(out.real, index, values.real)
        add_at(out.imag, index, values.imag)
    elif out.dtype.char in _ADDS:
        import cupy

        global _unordered
        _unordered += out.dtype.kind == "f"
        cupy.add.at(out, index, values)
    else:
        promoted = out.astype(_ADDED[out.dtype.kind])
        add_at(promoted, index, values.astype(promoted.dtype) if hasattr(values, "astype") else values)
        out[...] = promoted.astype(out.dtype)


def combine_at(function: str, out: Any, index: tuple[Any, ...], values: Any) -> None:
    """`out[index] = function(out[index], values)` for "add", "multiply", "maximum" or "minimum", repeated places included.

    index: an integer array for each dimension of `out`, which are broadcast. CuPy has no such function for products, nor for
    all types, so there the values of one place are combined pairwise: in rounds, as many as the logarithm of how often the
    place is named that is named most. The order, and so the result's bits, do not depend on the GPU's timing.
    """
    if isinstance(out, np.ndarray):
        getattr(np, function).at(out, index, values)
        return
    import cupy

    _combine_by_place(cupy, function, out, index, values)


def _combine_by_place(xp: Any, function: str, out: Any, index: tuple[Any, ...], values: Any) -> None:
    combine = getattr(xp, function)
    steps = [math.prod(out.shape[d + 1 :]) for d in range(out.ndim)]
    places = sum(part * step for part, step in zip(index, steps, strict=True))
    places, values = (a.reshape(-1) for a in xp.broadcast_arrays(places, values))
    order = xp.argsort(places)
    places, values = places[order], values[order]
    first = xp.searchsorted(places, places)  # where the values of the same index begin
    step, longest = 1, int((xp.arange(len(places)) - first).max()) + 1
    while step < longest:  # each value takes in the one that begins `step` further on: 2 · step values from there
        same = (first[step:] == first[:-step]).nonzero()[0]
        joined = combine(values[same], values[same + step])
        values = values.copy()
        values[same] = joined
        step *= 2
    heads = (first == xp.arange(len(places))).nonzero()[0]
    flat = out.reshape(-1)
    flat[places[heads]] = combine(flat[places[heads]], values[heads]).astype(out.dtype)
    out[...] = flat.reshape(out.shape)


def accumulate(xp: Any, function: Callable[[Any, Any], Any], x: Any, axis: int) -> Any:
    """The running results of `function`, an associative ufunc of `xp`, along `axis`; CuPy has that for sums alone."""
    if xp is np:
        return function.accumulate(x, axis=axis)  # type: ignore[attr-defined]
    out = xp.moveaxis(x, axis, 0).copy()
    step = 1
    while step < len(out):  # out[i] covers `step` elements up to i, and takes in those before
        out[step:] = function(out[:-step], out[step:])
        step *= 2
    return xp.moveaxis(out, 0, axis)
