"""Distances and angles between vectors: normalize, cosine_similarity, pairwise_distance, pdist, cdist."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.waiting import repeatable
from tdt._core.broadcasting import check_broadcast
from tdt._core.calls import front
from tdt._core.dtype import FLOAT, FLOATING, SCALAR_NAMES, float32, float64, promote_types
from tdt._core.tensor import Tensor, wrap, wrap_new
from tdt._kernels import chosen, float_rows, kernel
from tdt._kernels._threads import THREADS
from tdt._ops._common import store_into, wrap_dim
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.elementwise.select import where
from tdt._ops.linalg.norms import _vector_norm, norm, vector_norm
from tdt._ops.shape.join import cat
from tdt.autograd._arrays import as_tensor, compute, on_arrays, unrecorded
from tdt.autograd._autocast import autocast
from tdt.autograd._dispatch import unary
from tdt.autograd._op import op
from tdt.autograd._op_table import OPS
from tdt.autograd._remembered import calls_by_shape


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Vectors along `dim` divided by their p-norm, or by `eps` if that is larger.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.nn.functional.normalize(tdt.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    if out is None and input.__class__ is Tensor and on_arrays(input) and _has_norm(input, p, dim, eps):
        a = input._a
        return as_tensor(compute(OPS["div"], a, _clamped_norm(a, float(p), (wrap_dim(dim, a.ndim),), eps)))
    result = input / norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return result if out is None else store_into(out, result)


def _has_norm(x: Tensor, p: Any, dim: Any, eps: Any = 0.0) -> bool:
    """Whether the norm of order `p` along one dimension is a number for each vector of `x`, whatever its size."""
    a = x._a
    plain = p.__class__ in (int, float) and dim.__class__ is int and eps.__class__ in (int, float)
    return plain and p >= 0 and a.dtype.kind == "f" and a.size != 0 and a.ndim != 0


@calls_by_shape
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along `dim`.

    Args:
        eps: lower bound of the norms that the vectors are divided by, rounded to their dtype: in float16, 1e-8 is 0.
    Shape: x1 (*), x2 broadcastable to it; result the broadcast shape without `dim`.
    Raises:
        RuntimeError: when the common dtype is not floating-point, or `eps` is negative.

    >>> import tdt
    >>> tdt.cosine_similarity(tdt.tensor([[3.0, 4.0]]), tdt.tensor([[1.0, 0.0]]))
    tensor([0.6000])
    """
    common = promote_types(
        tensor_argument("cosine_similarity", x1, "x1").dtype, tensor_argument("cosine_similarity", x2, "x2", 2).dtype
    )
    if common.category != FLOAT:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {SCALAR_NAMES[common]}")
    if eps < 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    shape = check_broadcast(x1._a.shape, x2._a.shape)
    x1, x2 = (x if x.is_floating_point() else x.to(common) for x in (x1, x2))
    x1, x2 = (x if x._a.shape == shape else x.expand(shape) for x in (x1, x2))
    dim = wrap_dim(dim, len(shape))
    x1, x2 = (x if shape else x.reshape(1) for x in (x1, x2))
    return _cosine(x1, x2, dim=dim, eps=float(np.array(eps).astype(common.np)))


def _clamped_norm(a: Any, p: float, dims: tuple[int, ...], eps: float) -> Any:
    """The norms of an array's vectors, or `eps` if that is larger."""
    return compute(OPS["clamp"], compute(_vector_norm, a, ord=p, dim=dims, keepdim=True), eps, None)


def _at_least(xp: ModuleType, norm: Any, low: float) -> Any:
    return xp.where(norm < low, norm.dtype.type(low), norm)


def _without(shape: tuple[int, ...], *rest: Any, dim: int, eps: float) -> tuple[int, ...]:
    return (*shape[:dim], *shape[dim + 1 :])


def _float_vectors(arrays: Sequence[Any], attributes: dict) -> bool:
    return float_rows(arrays, {})


@op(name="cosine_similarity", dtypes=FLOATING, aux=("x_norm", "y_norm"), node="SumBackward1", shape=_without,
    recomputed=True, kernels=(kernel("cosine_cpu:cosine", _float_vectors),))  # fmt: skip
@repeatable
def _cosine(xp: ModuleType, x: Any, y: Any, *, dim: int, eps: float) -> Any:
    """The sum of the products of x and y over their norms, which count as `eps` where they are smaller."""
    norms = [xp.asarray(_vector_norm.forward(xp, v, ord=2.0, dim=(dim,), keepdim=True)) for v in (x, y)]
    if xp is not np:
        products = xp.asarray(_unit_product(xp, x, y, *norms, eps=eps))
        return _kernels.total(products, dim), *[norm.squeeze(dim) for norm in norms]
    units = [v / _at_least(xp, norm, eps) for v, norm in zip((x, y), norms, strict=True)]
    return _kernels.total(units[0] * units[1], dim), *[norm.squeeze(dim) for norm in norms]


def _unit_product_of(xp: Any, x: Any, y: Any, x_norm: Any, y_norm: Any, *, eps: Any) -> Any:
    return (x / xp.where(x_norm < eps, eps, x_norm)) * (y / xp.where(y_norm < eps, eps, y_norm))


_unit_product: Any = _kernels.from_formula("unit_product", _unit_product_of, 4, ("eps",))[0]
_SLOPES = (kernel("cosine_cpu:cosine_vjp", _float_vectors),)


@_cosine.vjp("x", "y")
def _(g: Tensor, needs: tuple, x: Tensor, y: Tensor, out: Tensor, dim: int, eps: float) -> tuple:
    norms = [vector_norm(v, 2, dim, keepdim=True) for v in (x, y)]
    # The gradient is that of the norm also where `eps` takes its place.
    least = [where(norm.detach() < eps, norm - norm.detach() + eps, norm) for norm in norms]
    units = [v / norm for v, norm in zip((x, y), least, strict=True)]
    g, out = g.unsqueeze(dim), out.unsqueeze(dim)
    found: list[Any] = [None, None]
    for k, v in enumerate((x, y)):
        if needs[k]:
            share = (v / norms[k]).masked_fill(norms[k] == 0, 0) * out
            found[k] = g / least[k] * (units[1 - k] - share)
    return tuple(found)


@_cosine.fast_vjp("x", "y")
def _(
    xp: ModuleType, g: Any, needs: tuple, x: Any, y: Any, out: Any, x_norm: Any, y_norm: Any, dim: int, eps: float
) -> Any:
    if fast := chosen(_SLOPES, xp, x, y):
        return fast(g, x, y, out, x_norm, y_norm, needs=needs, dim=dim, eps=eps)
    g, *norms = (xp.expand_dims(v, dim) for v in (g, x_norm, y_norm))
    least = [_at_least(xp, norm, eps) for norm in norms]
    units = [v / norm for v, norm in zip((x, y), least, strict=True)]
    found: list[Any] = [None, None]
    for k, v in enumerate((x, y)):
        if needs[k]:  # in PyTorch's order, so that of a vector of one element, where all is rounding, it is the same
            each = g * units[1 - k]
            of_norm = _kernels.total(each * (units[k] / least[k]), dim, None, True)
            found[k] = each / least[k] - of_norm * xp.where(norms[k] == 0, norms[k], v / norms[k])
    return tuple(found)


@_cosine.prepares_vjp("x", "y")
def _(
    xp: ModuleType, g: Any, needs: tuple, x: Any, y: Any, out: Any, x_norm: Any, y_norm: Any, dim: int, eps: float
) -> Any:
    prepare = getattr(chosen(_SLOPES, xp, x, y), "prepare", None)
    return prepare and prepare(g, x, y, out, x_norm, y_norm, needs=needs, dim=dim, eps=eps)


@calls_by_shape
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension.

    Shape: x1 (*, N), x2 broadcastable to it; result (*), or (*, 1) with keepdim=True.

    >>> import tdt
    >>> tdt.pairwise_distance(tdt.tensor([[3.0, 0.0]]), tdt.tensor([[0.0, 4.0]]), eps=0.0)
    tensor([5.])
    """
    return norm(x1 - x2 + eps, p, -1, keepdim)


def _check(name: str, p: float, **tensors: Tensor) -> None:
    """RuntimeError for a p below 0, or for integers."""
    for which, x in tensors.items():
        if not x.is_floating_point():
            raise RuntimeError(f"{name} only supports floating-point dtypes, {which} got: {SCALAR_NAMES[x.dtype]}")
    if not p >= 0:
        raise RuntimeError(f"{name} only supports non-negative p values, but got {p}")


FLOAT_OR_DOUBLE = frozenset((float32, float64))  # as in PyTorch not half precision


@op(dtypes=FLOAT_OR_DOUBLE, node="PdistBackward0")
def _pdist(xp: ModuleType, x: Any, *, p: float) -> Any:
    if (fast := _kernels.distances("pdist", p, x)) is not None:
        return fast
    first, second = (x.take(xp.asarray(rows), 0) for rows in _pairs(len(x)))
    return _norms(xp, first - second, p)


def _norms(xp: ModuleType, rows: Any, p: float) -> Any:
    """The p-norms over the last dimension."""
    if not rows.shape[-1]:
        return xp.zeros(rows.shape[:-1], rows.dtype)
    if p == 0:  # NaN of NaN, unlike `vector_norm`
        return xp.minimum(xp.ceil(abs(rows)), 1).sum(-1, rows.dtype)
    return _vector_norm.forward(xp, rows, ord=p, dim=(rows.ndim - 1,))


@_kernels.prepares(_pdist.forward)
def _(x: Any, *, p: float, recorded: bool) -> Any:
    return _kernels.prepared_distances(p, x)


@_pdist.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, p: float) -> Tensor:
    first, second = (wrap(rows).to(x.device) for rows in _pairs(x._a.shape[0]))
    change = _norm_gradient(g, x.index_select(0, first) - x.index_select(0, second), out, p)
    return x.new_zeros(x.shape).index_add(0, first, change).index_add(0, second, change, alpha=-1)


def _norm_gradient(g: Tensor, rows: Tensor, out: Tensor, p: float) -> Tensor:
    """The gradient in `rows` of their p-norms `out`."""
    if not rows.shape[-1]:
        return rows
    if p == 1:  # NaN of NaN, unlike in `vector_norm`
        return g.unsqueeze(-1) * rows.sign().masked_fill(rows.isnan(), math.nan)
    if p == math.inf:  # every element as large as the distance has the whole gradient, unlike in `vector_norm`
        short = rows.abs() - out.unsqueeze(-1)
        return g.unsqueeze(-1) * rows.sign() * (short == 0).to(rows.dtype).masked_fill(short.isnan(), math.nan)
    return _vector_norm.rules["x"].function(g, rows, out, p, (rows.ndim - 1,), False)


@_pdist.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any, out: Any, p: float) -> Any:
    fast = _kernels.distances("pdist_gradient", p, g, x, out)
    return _pdist.rules["x"].function(wrap(g), wrap(x), wrap(out), p)._a if fast is None else fast


@calls_by_shape
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distances, in the p-norm, of all pairs of rows, in the order of the elements above the diagonal of their matrix.

    Shape: input (N, M); result (N (N - 1) / 2).
    Raises:
        RuntimeError: when input is not a floating-point matrix, or p is negative.

    >>> import tdt
    >>> tdt.pdist(tdt.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if tensor_argument("pdist", input)._a.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not (input._a.dtype.kind == "f" and p >= 0):
        _check("pdist", p, X1=input)
    return unary(_pdist, input, {"p": float(p)})


@functools.lru_cache(8)
def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the first and of the second row of each pair."""
    return np.triu_indices(count, 1)


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
_MANY = 25  # rows from which on PyTorch takes a matrix product, faster and less exact for near points


@front
@autocast("float32")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = _MODES[0]) -> Tensor:
    """Distances, in the p-norm, between each row of x1 and each row of x2.

    Args:
        compute_mode: whether a matrix product computes distances with p=2, faster but less accurate for near points: if there
            are more than 25 rows, always, or never.
    Shape: x1 (*, P, M), x2 (*, R, M); result (*, P, R).
    Raises:
        ValueError: when compute_mode is unknown.
        RuntimeError: when shapes or dtypes do not match, the dtype is not floating-point, or p is negative.

    >>> import tdt
    >>> tdt.cdist(tdt.zeros(1, 2), tdt.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode; use {', '.join(_MODES)}")
    for name, x in (("X1", x1), ("X2", x2)):
        if tensor_argument("cdist", x, name.lower(), int(name[1])).ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    _check("cdist", p, X1=x1, X2=x2)
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"expected scalar type {SCALAR_NAMES[x1.dtype]} but found {SCALAR_NAMES[x2.dtype]}: cdist needs "
                           "two tensors of one dtype")  # fmt: skip
    many = max(x1.shape[-2], x2.shape[-2]) > _MANY
    if p == 2 and (compute_mode == _MODES[1] or (many and compute_mode == _MODES[0])):
        return _euclidean(x1, x2)
    if x1._a.shape[:-2] != x2._a.shape[:-2]:
        batch = check_broadcast(x1._a.shape[:-2], x2._a.shape[:-2])
        x1, x2 = (x.expand(*batch, *x.shape[-2:]) for x in (x1, x2))
    return _cdist(x1, x2, p=float(p))


@op(dtypes=FLOAT_OR_DOUBLE, broadcasts=False, packed=True, node="CdistBackward0")
def _cdist(xp: ModuleType, x: Any, y: Any, *, p: float) -> Any:
    """x (*, P, M), y (*, R, M) → (*, P, R)."""
    fast = _kernels.distances("cdist", p, x, y)
    if fast is not None:
        return fast
    difference = x[..., :, None, :] - y[..., None, :, :]
    if p == math.inf:  # as in PyTorch, the largest one of the numbers alone
        difference = xp.where(xp.isnan(difference), difference.dtype.type(0), difference)
    return _norms(xp, difference, p)


def _cdist_gradient(g: Tensor, x: Tensor, y: Tensor, out: Tensor, p: float) -> Tensor:
    """The gradient in x."""
    return _norm_gradient(g, x.unsqueeze(-2) - y.unsqueeze(-3), out, p).sum(-2)


def _fast_cdist_gradient(g: Any, x: Any, y: Any, out: Any, p: float) -> Any:
    fast = _kernels.distances("cdist_gradient", p, g, x, y, out)
    return _cdist_gradient(wrap(g), wrap(x), wrap(y), wrap(out), p)._a if fast is None else fast


_cdist.vjp("x")(_cdist_gradient)
_cdist.vjp("y")(lambda g, x, y, out, p: _cdist_gradient(g.mT, y, x, out.mT, p))
_cdist.fast_vjp("x")(_fast_cdist_gradient)
_cdist.fast_vjp("y")(lambda g, x, y, out, p: _fast_cdist_gradient(g.swapaxes(-2, -1), y, x, out.swapaxes(-2, -1), p))


def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    """The distances between rows from one product: |a - b|² = |a|² + |b|² - 2 a·b."""
    if x1.ndim == 2 == x2.ndim and unrecorded(x1) and unrecorded(x2) and _are_small(x1._a, x2._a):
        return wrap_new(_euclidean_of_arrays(x1._a, x2._a))
    (a, b), ones = [(x * x).sum(-1, keepdim=True) for x in (x1, x2)], [x.new_ones((*x.shape[:-1], 1)) for x in (x1, x2)]
    squares = cat((x1 * -2, a, ones[0]), -1) @ cat((x2, ones[1], b), -1).transpose(-2, -1)
    nothing = squares <= 0
    return squares.masked_fill(nothing, 1).sqrt().masked_fill(nothing, 0)  # the root's slope at 0 is infinite


def _are_small(*arrays: np.ndarray) -> bool:
    return all(0 < a.size < THREADS.rows for a in arrays)


def _euclidean_of_arrays(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`_euclidean` of small matrices, with its bits."""
    m = x.shape[1]
    left, right = (np.empty((len(a), m + 2), a.dtype) for a in (x, y))
    np.multiply(x, -2, out=left[:, :m])
    left[:, m : m + 1], left[:, m + 1] = _kernels.total(x * x, 1, None, True), 1
    right[:, :m], right[:, m], right[:, m + 1 :] = y, 1, _kernels.total(y * y, 1, None, True)
    squares = _kernels.product(np, left, right.T)
    np.copyto(squares, 0, where=squares <= 0)
    return np.sqrt(squares, out=squares)


__all__ = ["cdist", "cosine_similarity", "pairwise_distance", "pdist"]
