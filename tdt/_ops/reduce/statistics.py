"""Quantiles, covariances, numerical integrals and gradients, and renorm, composed of other ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.methods import function_alias, method
from tdt._core.tensor import Tensor, wrap
from tdt._ops._common import store_into, with_out, wrap_dim
from tdt._ops.linalg.norms import vector_norm
from tdt._ops.reduce.cumulative import neighbours
from tdt._ops.shape.views import slice_along
from tdt.autograd._arrays import as_tensor, compute, on_arrays, unrecorded
from tdt.autograd._autocast import autocast
from tdt.autograd._in_place_methods import by_copy
from tdt.autograd._op_table import OPS

__all__ = [
    "corrcoef", "cov", "cumulative_trapezoid", "gradient", "nanquantile", "quantile", "renorm", "trapezoid", "trapz",
]  # fmt: skip

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@method()
@front
@autocast("float32")
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: Literal["linear", "lower", "higher", "midpoint", "nearest"] = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """Quantiles of the elements: the values below which the fractions `q` of them lie; nan if an element is nan.

    Args:
        q: fractions from 0 to 1, a number or a vector in input's dtype.
        dim: dimension to reduce; None for all elements.
        interpolation: how to choose between the two nearest elements.
    Shape: input (*), q () or (Q); result input's shape without `dim` (of size 1 with keepdim=True), after (Q) if q is a vector.
    Raises:
        RuntimeError: when input is empty or neither float32 nor float64, or q or interpolation is invalid.

    >>> import tdt
    >>> tdt.quantile(tdt.tensor([0.0, 1.0, 2.0, 3.0]), tdt.tensor([0.25, 0.5]))
    tensor([0.7500, 1.5000])
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, out)


@method()
@front
@autocast("float32")
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: Literal["linear", "lower", "higher", "midpoint", "nearest"] = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """Quantiles of the elements that are not nan: the values below which the fractions `q` of them lie.

    Args:
        q: fractions from 0 to 1, a number or a vector in input's dtype.
        dim: dimension to reduce; None for all elements.
        interpolation: how to choose between the two nearest elements.
    Shape: input (*), q () or (Q); result input's shape without `dim` (of size 1 with keepdim=True), after (Q) if q is a vector.
    Raises:
        RuntimeError: when input is empty or neither float32 nor float64, or q or interpolation is invalid.

    >>> import tdt
    >>> tdt.nanquantile(tdt.tensor([0.0, 1.0, 2.0, 3.0]), tdt.tensor([0.25, 0.5]))
    tensor([0.7500, 1.5000])
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, out)


def _quantile(
    name: str, x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, out: Tensor | None
) -> Tensor:
    q = _checked_q(name, x, q, interpolation)
    if out is not None and out.dtype is not x.dtype:
        raise RuntimeError(f"{name}() out tensor must be same dtype as the input tensor")
    d = None if dim is None else wrap_dim(dim, x.ndim)
    rows = x.reshape(-1) if d is None else x.movedim(d, -1) if x.ndim else x.reshape(1)
    if not rows.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    keepdim_shape = [1] * x.ndim if d is None else [1 if k == d else n for k, n in enumerate(x.shape)]
    shape = keepdim_shape if keepdim else list(rows.shape[:-1]) if d is not None else []
    ordered, skip_nan = rows.sort(-1)[0], name == "nanquantile"
    if unrecorded(ordered) and unrecorded(q):
        array = _array_at_ranks(ordered._a, q._a.reshape(-1), interpolation, skip_nan)  # (…, quantiles)
        result = as_tensor(array.transpose(-1, *range(array.ndim - 1)).reshape([*q.shape, *shape]))
    else:
        found = _at_ranks(ordered, q.reshape(-1), interpolation, skip_nan)
        result = found.movedim(-1, 0).reshape([*q.shape, *shape])
    return result if out is None else store_into(out, result.contiguous())


def _checked_q(name: str, x: Tensor, q: Any, interpolation: str) -> Tensor:
    is_tensor = isinstance(q, Tensor)
    if not is_tensor:
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
        q = wrap(np.array(q, x._a.dtype)) if x._a.__class__ is np.ndarray else x.new_tensor(float(q))
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if x.dtype not in (_dtype.float32, _dtype.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if q.dtype is not x.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if is_tensor and not bool(((q >= 0) & (q <= 1)).all()):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def _at_ranks(rows: Tensor, q: Tensor, interpolation: str, skip_nan: bool) -> Tensor:
    """The elements of sorted rows at the relative ranks q (0 to 1), interpolated between two."""
    last = rows.shape[-1] - 1
    bad = rows.isnan()
    if skip_nan:
        rank = q * (bad.logical_not().sum(-1, keepdim=True) - 1).clamp(min=0)
    else:  # a nan, sorted to the end, is the result
        rank = (q * last).expand([*rows.shape[:-1], q.numel()]).masked_fill(bad.any(-1, keepdim=True), last)
    if interpolation in ("lower", "higher", "nearest"):
        rank = {"lower": rank.floor, "higher": rank.ceil, "nearest": rank.round}[interpolation]()
    below = rank.to(_dtype.int64)
    values = rows.gather(-1, below)
    if interpolation not in ("linear", "midpoint"):
        return values
    weight = rank - below if interpolation == "linear" else rank.new_full(rank.shape, 0.5)
    return values.lerp(rows.gather(-1, rank.ceil().to(_dtype.int64)), weight)


def _array_at_ranks(rows: np.ndarray, q: np.ndarray, interpolation: str, skip_nan: bool) -> np.ndarray:
    """`_at_ranks` of arrays."""
    n, dtype = rows.shape[-1], rows.dtype
    if skip_nan:
        count = n - np.isnan(rows).sum(-1, keepdims=True)
        rank = q * np.maximum(count - 1, 0).astype(dtype)
    else:
        rank = np.where(np.isnan(rows[..., -1:]), dtype.type(n - 1), q * dtype.type(n - 1))
    if interpolation in ("lower", "higher", "nearest"):
        rank = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}[interpolation](rank)
    below = rank.astype(np.int64)
    flat = rows.reshape(-1)
    first = np.arange(0, flat.size, n).reshape((*rows.shape[:-1], 1))  # element of each row
    values = flat.take(first + below)
    if interpolation not in ("linear", "midpoint"):
        return values
    weight = rank - below.astype(dtype) if interpolation == "linear" else np.full(rank.shape, 0.5, dtype)
    return compute(OPS["lerp"], values, flat.take(first + np.ceil(rank).astype(np.int64)), weight)


@method()
@front
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Covariance matrix of variables (rows) over observations (columns).

    Args:
        correction: difference between the number of observations and the divisor.
        fweights: integer number of times that each observation is repeated.
        aweights: floating-point weight of each observation.
    Shape: input (V, N) or (N), fweights and aweights (N); result (V, V), () for a single variable.
    Raises:
        RuntimeError: when input is bool or has more than 2 dimensions, or the weights do not fit it or sum to zero.

    >>> import tdt
    >>> tdt.cov(tdt.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    _at_most_2d("cov", input)
    if input.dtype is _dtype.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input.ndim == 2 else input.reshape(1, -1)
    count = x.shape[1]
    for name, weights, kind, words in (("fweights", fweights, _dtype.INT, "integral"),
                                       ("aweights", aweights, _dtype.FLOAT, "floating point")):  # fmt: skip
        if weights is not None:
            _check_weights(name, weights, kind, words, count)
    w: Any = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    total = count if w is None else w.sum()
    if w is not None and not float(total):
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = (x if w is None else x * w).sum(1, keepdim=True) / total
    free = total - (correction * (w * aweights).sum() / total if aweights is not None and correction else correction)
    if float(free) <= 0:
        import warnings

        warnings.warn("cov(): degrees of freedom is <= 0", stacklevel=3)
        free = 0
    deviation = x - mean
    products = deviation @ (deviation if w is None else deviation * w).t().conj()
    return (products / free).squeeze()


def _at_most_2d(name: str, x: Tensor) -> None:
    if x.ndim > 2:
        raise RuntimeError(
            f"{name}(): expected input to have two or fewer dimensions but got an input with {x.ndim} dimensions"
        )


def _check_weights(name: str, weights: Tensor, kind: int, words: str, count: int) -> None:
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
        )
    if weights.dtype.category != kind:
        raise RuntimeError(
            f"cov(): expected {name} to have {words} dtype but got {name} with {SCALAR_NAMES[weights.dtype]} dtype"
        )
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {count}"
        )
    if weights.numel() and bool((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@method()
@front
def corrcoef(input: Tensor) -> Tensor:
    """Matrix of the Pearson correlation coefficients of variables (rows) over observations (columns).

    Shape: input (V, N) or (N); result (V, V), () for a single variable.
    Raises:
        RuntimeError: when input is bool or has more than 2 dimensions.

    >>> import tdt
    >>> tdt.corrcoef(tdt.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    _at_most_2d("corrcoef", input)
    c = cov(input)
    if not c.ndim:
        return c / c
    spread = c.diagonal().real.sqrt() if c.is_complex() else c.diagonal().sqrt()
    c = c / spread.unsqueeze(1) / spread
    if c.is_complex():
        from tdt._ops.elementwise import complex as as_complex

        return as_complex(c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
    return c.clamp(-1, 1)


def _steps(name: str, y: Tensor, x: Tensor | None, dx: float, dim: int) -> tuple[Any, int]:
    """The distances of neighbouring points, broadcastable to the differences of y, and `dim` counted from the front."""
    d = wrap_dim(dim, y.ndim)
    if y.dtype is _dtype.bool or (x is not None and x.dtype is _dtype.bool):
        raise RuntimeError(f"{name}: received a bool input for `x` or `y`, but bool is not supported")
    if x is None:
        if isinstance(dx, (bool, complex)):
            raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
        return dx, d
    if not y.shape[d]:
        return 1, d
    if x.ndim == 1:
        if x.shape[0] != y.shape[d]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        return x.diff().reshape([-1, *[1] * (y.ndim - 1 - d)]), d
    if x.ndim < y.ndim:
        x = x.reshape([*[1] * (y.ndim - x.ndim), *x.shape])
    return x.diff(dim=dim), d


def _neighbour_sums(y: Tensor, d: int) -> Tensor:
    """The sums of neighbouring elements along `d`."""
    if on_arrays(y):
        return as_tensor(neighbours(y._a, d, OPS["add"]))
    n = y.shape[d]
    return y.narrow(d, 0, n - 1) + y.narrow(d, 1, n - 1)


def _double_areas(y: Tensor, x: Tensor | None, dim: int) -> tuple[Any, int]:
    """Twice the areas below the curve between neighbouring points along `dim`, as an array; None where ops compute them."""
    if x is None or not on_arrays(y, x) or y._a.shape != x._a.shape or y._a.dtype.kind != "f" or not y._a.size:
        return None, 0
    d = wrap_dim(dim, y._a.ndim)
    return compute(OPS["mul"], neighbours(y._a, d, OPS["add"]), neighbours(x._a, d, OPS["sub"])), d


@front
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Integral along `dim` by the trapezoidal rule of the curve through the points y.

    Args:
        x: positions of the points; without it they are `dx` apart.
    Shape: y (*), x (N) with N the size of `dim`, or broadcastable to y; result y's shape without `dim`.
    Raises:
        RuntimeError: when x or y is bool, dx is not real, or x has another size than `dim`.

    >>> import tdt
    >>> tdt.trapezoid(tdt.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    areas, d = _double_areas(y, x, dim)
    if areas is not None:
        return as_tensor(compute(OPS["div"], compute(OPS["sum"], areas, dim=(d,)), 2))
    width, d = _steps("trapezoid", y, x, dx, dim)
    if not y.shape[d]:
        return y.new_zeros(y.shape).sum(d)
    if isinstance(width, Tensor):
        return (_neighbour_sums(y, d) * width).sum(d) / 2
    if width.__class__ in (int, float) and on_arrays(y) and y._a.dtype.kind == "f":
        a, add = y._a, OPS["add"]
        ends = compute(add, a.take(0, d), a.take(-1, d))
        inner = compute(OPS["sub"], compute(OPS["sum"], a, dim=(d,)), compute(OPS["mul"], ends, 0.5))
        return as_tensor(compute(OPS["mul"], inner, width))
    return (y.sum(d) - (y.select(d, 0) + y.select(d, -1)) * 0.5) * width


trapz = function_alias("trapz", of=trapezoid)


@front
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Cumulative integrals along `dim` by the trapezoidal rule, from the first point to each of the others.

    Args:
        x: positions of the points; without it they are `dx` apart.
    Shape: y (*), x (N) with N the size of `dim`, or broadcastable to y; result y's shape with one element fewer in `dim`.
    Raises:
        RuntimeError: when x or y is bool, dx is not real, or x has another size than `dim`.

    >>> import tdt
    >>> tdt.cumulative_trapezoid(tdt.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    areas, d = _double_areas(y, x, dim)
    if areas is not None:
        return as_tensor(compute(OPS["div"], compute(OPS["cumsum"], areas, dim=d), 2))
    width, d = _steps("cumulative_trapezoid", y, x, dx, dim)
    if isinstance(width, Tensor):
        return (_neighbour_sums(y, d) * width).cumsum(d) / 2
    return _neighbour_sums(y, d).cumsum(d) * (width / 2)


@front
def gradient(
    input: Tensor,
    *,
    spacing: float | Tensor | Sequence[float | Tensor] | None = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: Literal[1, 2] = 1,
) -> tuple[Tensor, ...]:
    """Numerical gradient by second-order central differences, and one-sided differences at the ends.

    Args:
        spacing: distance of neighbouring points: one number, one for each dimension, or vectors of the positions.
        dim: dimensions to differentiate along; None for all.
        edge_order: order of the one-sided differences, 1 or 2.
    Shape: input (*); each result the same.
    Returns: tuple of a tensor for each of `dim`.
    Raises:
        RuntimeError: when a dimension has fewer than edge_order + 1 elements, spacing does not fit `dim`, or input is uint8.

    >>> import tdt
    >>> tdt.gradient(tdt.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    dims = [
        wrap_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else range(input.ndim) if dim is None else dim)
    ]
    _check_gradient(input, spacing, dims, edge_order)
    spaces: list[Any]
    spaces = list(spacing) if isinstance(spacing, (list, tuple)) else [1 if spacing is None else spacing] * len(dims)
    spaces = [space.item() if isinstance(space, Tensor) and not space.ndim else space for space in spaces]
    return tuple([_slope(input, d, space, edge_order) for d, space in zip(dims, spaces, strict=True)])


def _check_gradient(x: Tensor, spacing: Any, dims: list[int], edge_order: int) -> None:
    if x.dtype is _dtype.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    if isinstance(spacing, (list, tuple)) and len(spacing) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length {len(dims)} to match the "
            f"dimensions in 'dim', but got a list of length {len(spacing)}"
        )
    for d in dims:
        if x.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    for d, space in zip(dims, spacing if isinstance(spacing, (list, tuple)) else (), strict=False):
        if isinstance(space, Tensor) and (space.ndim != 1 or space.shape[0] != x.shape[d]):
            raise RuntimeError("torch.gradient expected each element of spacing to have one value for each place along "
                               f"its dimension, but got {list(space.shape)} for size {x.shape[d]}")  # fmt: skip


def _slope(x: Tensor, d: int, space: Any, edge_order: int) -> Tensor:
    from tdt._ops.shape.join import cat

    def part(start: int | None, end: int | None) -> Tensor:
        return slice_along(difference, d, start, end)

    n = x.shape[d]
    difference = x.narrow(d, 1, n - 1) - x.narrow(d, 0, n - 1)
    if isinstance(space, Tensor):
        widths = space.diff()
        first, last = widths[:2].unbind(), widths[-2:].flip(0).unbind()
        left, right = (w.reshape([-1, *[1] * (x.ndim - 1 - d)]) for w in (widths[:-1], widths[1:]))
    else:
        left, right, first, last = space, space, (space, space), (space, space)
    inner = (part(None, -1) / left * right + part(1, None) / right * left) / (left + right)

    def end(gap: Tensor, beyond: Tensor, widths: Any) -> Tensor:
        """The slope at an end, from the differences there and next to it."""
        slope = gap / widths[0]
        return (
            slope if edge_order == 1 else slope + (slope - beyond / widths[1]) * (widths[0] / (widths[0] + widths[1]))
        )

    return cat([end(part(None, 1), part(1, 2), first), inner, end(part(-1, None), part(-2, -1), last)], d)


@method(in_place=by_copy)
@front
@with_out
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices along `dim` scaled down to the p-norm `maxnorm` where their norm is larger.

    Shape: input (*) with at least 2 dimensions; result the same.
    Raises:
        RuntimeError: when p is not positive, maxnorm is negative, one of them is complex, or input has fewer than 2 dimensions.

    >>> import tdt
    >>> tdt.renorm(tdt.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if isinstance(p, complex) or not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported" if not isinstance(p, complex) else
                           "renorm: p must be real-valued")  # fmt: skip
    if isinstance(maxnorm, complex):
        raise RuntimeError("renorm: maxnorm must be real-valued")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    d = wrap_dim(dim, input.ndim)
    others = [k for k in range(input.ndim) if k != d]
    if on_arrays(input) and input._a.dtype.kind == "f" and input._a.size:
        x, maxnorm = input._a, float(maxnorm)
        norms = compute(OPS["vector_norm"], x, ord=float(p), dim=tuple(others), keepdim=True)
        scale = np.where(norms > maxnorm, maxnorm / (norms + 1e-7), x.dtype.type(1))
        return as_tensor(np.multiply(x, scale, order="C"))
    size = vector_norm(input, p, others, keepdim=True)
    scale = (maxnorm / (size + 1e-7)).where(size > maxnorm, size.new_ones(()))
    return (input * scale).contiguous()
