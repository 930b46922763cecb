"""Distances and angles between vectors: normalize, cosine_similarity, pairwise_distance, pdist, cdist."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt._core.broadcasting import check_broadcast
from tdt._core.calls import front
from tdt._core.dtype import FLOAT, SCALAR_NAMES, check_category, float32, float64, promote_types
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor, wrap
from tdt._ops._common import store_into, wrap_dim
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.linalg.norms import _vector_norm, norm, vector_norm
from tdt._ops.nn.embedding import embedding
from tdt._ops.shape.join import cat
from tdt.autograd._arrays import as_tensor, compute, on_arrays
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import node_name
from tdt.autograd._op_table import OPS


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


@front
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along `dim`.

    Args:
        eps: lower bound of the norms that the vectors are divided by.
    Shape: x1 (*), x2 broadcastable to it; result the broadcast shape without `dim`.
    Raises:
        RuntimeError: when the common dtype is not floating-point.

    >>> import tdt
    >>> tdt.cosine_similarity(tdt.tensor([[3.0, 4.0]]), tdt.tensor([[1.0, 0.0]]))
    tensor([0.6000])
    """
    common = promote_types(
        tensor_argument("cosine_similarity", x1, "x1").dtype, tensor_argument("cosine_similarity", x2, "x2", 2).dtype
    )
    if common.category != FLOAT:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {SCALAR_NAMES[common]}")
    if on_arrays(x1, x2) and x1._a.shape == x2._a.shape and _has_norm(x1, 2, dim, eps):
        d = (wrap_dim(dim, x1._a.ndim),)
        units = [compute(OPS["div"], a, _clamped_norm(a, 2.0, d, eps)) for a in (x1._a, x2._a)]
        return as_tensor(compute(OPS["sum"], compute(OPS["mul"], *units), dim=d))
    shape = check_broadcast(x1._a.shape, x2._a.shape)
    x1, x2 = ((x if x.is_floating_point() else x.to(common)).expand(shape) for x in (x1, x2))
    return (_unit(x1, dim, eps) * _unit(x2, dim, eps)).sum(dim)


def _clamped_norm(a: Any, p: float, dims: tuple[int, ...], eps: float) -> Any:
    """The norms of an array's vectors, or `eps` if that is larger."""
    return compute(OPS["clamp"], compute(_vector_norm, a, ord=p, dim=dims, keepdim=True), eps, None)


def _unit(x: Tensor, dim: int, eps: float) -> Tensor:
    """`x` over its norm along `dim`, whose gradient is that of the norm also where `eps` takes its place."""
    size = vector_norm(x, 2, dim, keepdim=True).clone()
    with no_grad():
        size.clamp_min_(eps)
    return x / size


@front
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension.

    Shape: x1 (*, N), x2 broadcastable to it; result (*), or (*, 1) with keepdim=True.

    >>> import tdt
    >>> tdt.pairwise_distance(tdt.tensor([[3.0, 0.0]]), tdt.tensor([[0.0, 4.0]]), eps=0.0)
    tensor([5.])
    """
    if on_arrays(x1, x2) and x1._a.shape == x2._a.shape and _has_norm(x1, p, -1, eps):
        shifted = compute(OPS["add"], compute(OPS["sub"], x1._a, x2._a), eps)
        return as_tensor(compute(_vector_norm, shifted, ord=float(p), dim=(x1._a.ndim - 1,), keepdim=keepdim))
    return norm(x1 - x2 + eps, p, -1, keepdim)


def _check(name: str, p: float, **tensors: Tensor) -> None:
    """RuntimeError for a p below 0, or for integers."""
    for which, x in tensors.items():
        if not x.is_floating_point():
            raise RuntimeError(f"{name} only supports floating-point dtypes, {which} got: {SCALAR_NAMES[x.dtype]}")
    if not p >= 0:
        raise RuntimeError(f"{name} only supports non-negative p values, but got {p}")


def _norms(name: str, rows: Tensor, p: float) -> Tensor:
    """The p-norms of `rows`; as in PyTorch not in half precision."""
    check_category(name, frozenset((float32, float64)), rows.dtype)
    return vector_norm(rows, p, -1) if rows.shape[-1] else rows.sum(-1)


@front
@node_name("PdistBackward0")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distances, in the p-norm, of all pairs of rows, in the order of the elements above the diagonal of their matrix.

    Shape: input (N, M); result (N (N - 1) / 2).
    Raises:
        RuntimeError: when input is not a floating-point matrix, or p is negative.

    >>> import tdt
    >>> tdt.pdist(tdt.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if tensor_argument("pdist", input).ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    _check("pdist", p, X1=input)
    if on_arrays(input) and _has_norm(input, p, 1) and input._a.shape[0] > 1:
        first, second = [input._a.take(rows, 0) for rows in _pairs(input._a.shape[0])]
        return as_tensor(compute(_vector_norm, compute(OPS["sub"], first, second), ord=float(p), dim=(1,)))
    first, second = (wrap(rows).to(input.device) for rows in _pairs(input._a.shape[0]))
    return _norms("pdist", embedding(input, first) - embedding(input, second), p)


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
    return _norms("cdist", x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    """The distances between rows from one product: |a - b|² = |a|² + |b|² - 2 a·b."""
    (a, b), ones = [(x * x).sum(-1, keepdim=True) for x in (x1, x2)], [x.new_ones((*x.shape[:-1], 1)) for x in (x1, x2)]
    squares = cat((x1 * -2, a, ones[0]), -1) @ cat((x2, ones[1], b), -1).transpose(-2, -1)
    nothing = squares <= 0
    return squares.masked_fill(nothing, 1).sqrt().masked_fill(nothing, 0)  # the root's slope at 0 is infinite


__all__ = ["cdist", "cosine_similarity", "pairwise_distance", "pdist"]
