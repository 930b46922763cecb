"""Counts of values by bin: bincount, and histograms of any number of dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOATING, INT, SCALAR_NAMES
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import store_into
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt.autograd._op import finish, op

NOT_COUNTED = "bincount only supports 1-d non-negative integral inputs."

__all__ = ["bincount", "histc", "histogram", "histogramdd"]


@op(promote=(), broadcasts=False, data_dependent=True, name="bincount")
def _bincount(xp: ModuleType, x: Any, weights: Any = None, *, minlength: int) -> Any:
    try:
        counts = xp.bincount(x.astype("int64", copy=False), weights, minlength)
    except ValueError:  # NumPy's, for negative ones
        raise RuntimeError(NOT_COUNTED) from None
    return counts.astype("int64" if weights is None else weights.dtype, copy=False)


@method()
@front
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Number of occurrences of each integer 0, 1, … in a vector, or the sum of the weights of its occurrences.

    Args:
        weights: weight of each element.
        minlength: smallest length of the result.
    Shape: input (N), weights the same; result (max(largest element + 1, minlength)), int64; with weights their dtype, or
        float64 unless they are float32.
    Raises:
        RuntimeError: when input is not a vector of integers >= 0, weights has another shape, or minlength is negative.

    >>> import tdt
    >>> tdt.bincount(tdt.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    tensor_argument("bincount", input)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.dtype.category != INT:
        raise RuntimeError(
            f"\"bincount_cpu\" not implemented for '{SCALAR_NAMES[input.dtype]}'; input must hold integers"
        )
    if input.ndim != 1 or (input._a.__class__ is not np.ndarray and input.numel() and int(input.min()) < 0):
        raise RuntimeError(NOT_COUNTED)
    if weights is None:
        return _bincount(input, minlength=minlength)
    if weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if weights.dtype is not _dtype.float32:
        weights = weights.to(_dtype.float64)
    return _bincount(input, weights, minlength=minlength)


@op(dtypes=FLOATING, broadcasts=False, name="histogram")
def _histogram(xp: ModuleType, x: Any, weights: Any = None, *edges: Any) -> Any:
    """x: points as rows; edges: those of the bins, in order, for each of their coordinates."""
    sizes = [len(e) - 1 for e in edges]
    inside, cell = xp.ones(len(x), bool), xp.zeros(len(x), "int64")
    for column, e, n in zip(x.T, edges, sizes, strict=True):
        inside &= (column >= e[0]) & (column <= e[-1])
        cell = cell * n + xp.clip(xp.searchsorted(e, column, "right") - 1, 0, n - 1)  # the last bin has its end too
    counts = xp.bincount(cell[inside], None if weights is None else weights[inside], math.prod(sizes))
    return counts.astype(x.dtype).reshape(sizes)


@op(dtypes=FLOATING, broadcasts=False, name="histc")
def _histc(xp: ModuleType, x: Any, *, bins: int, low: float, high: float) -> Any:
    x = x[(x >= low) & (x <= high)]
    width = x.dtype.type(high) - x.dtype.type(low)
    cell = xp.minimum((x - x.dtype.type(low)) * x.dtype.type(bins) / width, bins - 1).astype("int64")
    return xp.bincount(cell, None, bins).astype(x.dtype)


@method()
@front
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None) -> Tensor:
    """Histogram of all elements with `bins` bins of equal width between min and max; elements outside are not counted.

    Args:
        min, max: ends of the range; if both are equal, the smallest and largest element.
    Shape: input (*); result (bins), in input's dtype.
    Raises:
        RuntimeError: when bins is not positive, the range is not finite, or min is larger than max.

    >>> import tdt
    >>> tdt.histc(tdt.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    tensor_argument("histc", input)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    refuse_out(out, input)
    low, high = _finite_range("histc", input, None if min == max and input.numel() else (min, max))
    if low == high:
        low, high = low - 1, high + 1
    return finish(_histc, out, input.detach().reshape(-1), bins=bins, low=low, high=high)


def _finite_range(name: str, x: Tensor, ends: Sequence[float] | None) -> tuple[float, float]:
    """`ends`, or else the smallest and largest value; RuntimeError if they are not finite, or in the wrong order."""
    if ends is None:
        ends = (float(x.detach().min()), float(x.detach().max())) if x.numel() else (0.0, 1.0)
    low, high = (float(v) for v in ends)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.{name}: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.{name}: max must be larger than min" if name == "histc" else
                           f"torch.{name}: min should not exceed max, but got min: {low:g} max: {high:g}")  # fmt: skip
    return low, high


@method()
@front
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Histogram of all elements; a bin contains its left edge, the last one also its right edge.

    Args:
        bins: number of bins of equal width, or the edges, an increasing vector (bins + 1).
        range: ends of the first and last bin; by default the smallest and largest element.
        weight: weight of each element.
        density: whether to scale the counts so that the integral over the range is 1.
    Shape: input (*), weight the same; hist (bins), bin_edges (bins + 1).
    Returns: named tuple (hist, bin_edges).
    Raises:
        RuntimeError: when bins, range or weight do not fit the input.
        NotImplementedError: when bins is a number and the input is neither float32 nor float64.

    >>> import tdt
    >>> tdt.histogram(tdt.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    per_dim = [bins] if isinstance(bins, Tensor) else (bins,)
    x = input.reshape(-1, 1)
    weight = None if weight is None else weight.reshape(-1)
    hist, edges = _histogram_of(x, per_dim, range, weight, density, input.numel())
    results: tuple[Tensor, ...] = (hist, edges[0].clone())
    if out is not None:
        results = tuple([store_into(t, r, exact=True) for t, r in zip(out, results, strict=True)])
    return return_type("histogram", ("hist", "bin_edges"))(*results)


@front
def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Histogram of points in D dimensions, whose coordinates lie along the last dimension of input.

    Args:
        bins: number of bins in each dimension, one number for all dimensions, or a vector of edges for each.
        range: ends of the bins of each dimension, a flat list (low, high, low, high, …); by default those of the points.
        weight: weight of each point.
        density: whether to scale the counts so that the integral over the range is 1.
    Shape: input (*, D) with at least 2 dimensions, weight (*); hist (bins of dimension 1, …, bins of dimension D),
        bin_edges D vectors (bins + 1).
    Returns: named tuple (hist, bin_edges).
    Raises:
        RuntimeError: when input has fewer than 2 dimensions, or bins, range or weight do not fit it.
        NotImplementedError: when bins are numbers and the input is neither float32 nor float64.

    >>> import tdt
    >>> tdt.histogramdd(tdt.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions, but got "
                           f"{input.ndim}")  # fmt: skip
    n = input.shape[-1]
    per_dim = [bins] * n if isinstance(bins, int) else list(bins)
    if len(per_dim) != n:
        if isinstance(per_dim[0], Tensor):
            raise RuntimeError(
                f"torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got {len(per_dim)}"
            )
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input, "
            f"{n}, but got {len(per_dim)} sizes"
        )
    points = input.reshape(-1, n)
    weight = None if weight is None else weight.reshape(-1)
    hist, edges = _histogram_of(points, per_dim, range, weight, density, len(points))
    return return_type("histogramdd", ("hist", "bin_edges"))(hist, tuple(edges))


def _histogram_of(
    points: Tensor, bins: Sequence, ends: Any, weight: Tensor | None, density: bool, count: int
) -> tuple[Tensor, list[Tensor]]:
    points = points.detach()
    if weight is not None and weight.dtype is not points.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but "
            f"got input {SCALAR_NAMES[points.dtype]}, and weight {SCALAR_NAMES[weight.dtype]}"
        )
    if weight is not None and weight.numel() != count:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got {count} points and {weight.numel()} weights"
        )
    if isinstance(bins[0], Tensor):
        edges = [_checked_edges(points, e) for e in bins]
        _refuse_no_bins([e.numel() - 1 for e in edges])
    else:
        edges = _equal_edges(points, bins, ends)
    hist = _histogram(points, weight, *edges)
    if density:
        hist = hist / hist.sum()
        for d, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1] + [1] * (hist.ndim - 1 - d))
    return hist, edges


def _refuse_no_bins(bins: Sequence[int]) -> None:
    for d, n in enumerate(bins):
        if n <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {n} for dimension {d}")


def _checked_edges(points: Tensor, edges: Tensor) -> Tensor:
    if edges.dtype is not points.dtype:
        raise RuntimeError(f"torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
                           f"dtype {SCALAR_NAMES[points.dtype]} and bins with dtype {SCALAR_NAMES[edges.dtype]}")  # fmt: skip
    if edges.ndim != 1:
        raise RuntimeError(f"torch.histogramdd: bins tensor should have one dimension, but got {edges.ndim} dimensions")
    if not edges.numel():
        raise RuntimeError("torch.histogramdd: bins tensor should have at least 1 element, but got 0")
    return edges.detach()


def _equal_edges(points: Tensor, bins: Sequence[int], ends: Any) -> list[Tensor]:
    if points.dtype not in (_dtype.float32, _dtype.float64):
        raise NotImplementedError(
            f"\"histogramdd\" not implemented for '{SCALAR_NAMES[points.dtype]}'; pass the bin edges as tensors"
        )
    _refuse_no_bins(bins)
    if ends is not None and len(ends) != 2 * len(bins):
        raise RuntimeError(f"torch.histogramdd: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} "
                           f"elements, but got {len(ends)}")  # fmt: skip
    from tdt._core.ranges import linspace

    edges = []
    for d, n in enumerate(bins):
        low, high = _finite_range("histogramdd", points[:, d], None if ends is None else ends[2 * d : 2 * d + 2])
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(linspace(low, high, n + 1, dtype=points.dtype, device=points.device))
    return edges
