"""What ops do with sparse tensors: those that move or scale entries have a forward of their own and the dense op's rules, the
others are composed of ops on the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from types import ModuleType
from typing import Any

from tdt._core.layout import result_type
from tdt._core.sparse import BY_VALUE, SparseCOO
from tdt._core.tensor import Tensor, wrap
from tdt._ops.elementwise import arithmetic, powers
from tdt._ops.index import pick
from tdt._ops.linalg import norms
from tdt._ops.reduce import reductions, truth
from tdt._ops.shape import dimensions, join, memory, split, views
from tdt._ops.shape.join import cat
from tdt._ops.shape.memory import clone
from tdt.autograd._dispatch import apply, converted
from tdt.autograd._op import Op, Rule, Traits, op


def is_coo(t: Any) -> bool:
    """Whether `t` is a tensor of coordinates and values."""
    return isinstance(t, Tensor) and isinstance(t._a, SparseCOO)


# -- the ways in and out: all that is composed is composed of these ---------------------------------------------------------


@op(name="sparse_coo", promote=(), broadcasts=False, computes=False, sparse=True)
def _coo(xp: ModuleType, values: Any, *, indices: Any, shape: tuple[int, ...], coalesced: bool) -> SparseCOO:
    return SparseCOO(indices, values, shape, coalesced)


@_coo.vjp("values")
def _(g: Tensor, values_shape: tuple[int, ...], indices: Any) -> Tensor:
    return entries(g, indices)


def coo(values: Tensor, indices: Any, shape: Iterable[int], coalesced: bool = False) -> Tensor:
    """The sparse tensor of these values at the places `indices`, an array (sparse dims, nnz)."""
    return _coo(values, indices=indices, shape=tuple(shape), coalesced=coalesced)


@op(name="values", computes=False, sparse=True)
def _values(xp: ModuleType, x: Any) -> Any:
    return x.values


@_values.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    return to_layout(coo(g, x._a.indices, x.shape, x._a.coalesced), x._a.layout)


@op(name="coalesce", computes=False, sparse=True)
def _coalesce(xp: ModuleType, x: Any) -> Any:
    return x.coalesce()


_coalesce.vjp("x")(lambda g: g)


@op(name="to_dense", computes=False, sparse=True)
def _to_dense(xp: ModuleType, x: Any, *, masked: bool) -> Any:
    return x.dense()


_to_dense.vjp("x")(lambda g, x, masked: mask_like(g, x) if masked else to_sparse(g, len(x._a.indices)))


@op(name="to_sparse", computes=False, sparse=True)
def _to_sparse(xp: ModuleType, x: Any, *, sparse_dim: int) -> SparseCOO:
    filled = x != 0
    filled = filled.any(axis=tuple(range(sparse_dim, x.ndim))) if sparse_dim < x.ndim else filled
    at = filled.reshape(1).nonzero()[0] if not sparse_dim else None
    if at is not None:
        return SparseCOO(xp.zeros((0, len(at)), "int64"), x[None][at], x.shape, True)
    where = filled.nonzero()
    return SparseCOO(xp.stack(where).astype("int64"), x[where], x.shape, True)


_to_sparse.vjp("x")(lambda g: to_dense(g))


def to_sparse(x: Tensor, sparse_dim: int) -> Tensor:
    """The nonzero elements by their coordinates in the first dimensions; a sparse tensor is returned unchanged."""
    return x if is_coo(x) else apply(_to_sparse, (x,), {"sparse_dim": sparse_dim})


@op(name="sparse_mask_gradient", computes=False, sparse=True)
def _masked(xp: ModuleType, x: Any) -> Any:
    return x


_masked.vjp("x")(lambda g, x: mask_like(g, x))


def masked(x: Tensor) -> Tensor:
    """`x`, whose gradient, if x is sparse, is that of its entries alone."""
    return apply(_masked, (x,), {}) if is_coo(x) else x


def to_dense(x: Tensor, masked: bool = True) -> Tensor:
    """A dense copy of a sparse tensor; a dense one is returned unchanged. masked: the gradient is that of the entries."""
    return apply(_to_dense, (x,), {"masked": masked}) if is_coo(x) else x


@op(name="to_sparse_layout", computes=False, sparse=True)
def _to_layout(xp: ModuleType, x: Any, *, layout: str) -> Any:
    return x.to_layout(layout)


_to_layout.vjp("x")(lambda g: g)


def to_layout(x: Tensor, layout: str) -> Tensor:
    """A sparse tensor in another layout; a tensor is coalesced before its rows are compressed."""
    if x._a.layout == layout:
        return x
    return apply(_to_layout, (x if layout == "sparse_coo" else coalesced(x),), {"layout": layout})


def coalesced(x: Tensor) -> Tensor:
    """`x` with sorted coordinates, each once."""
    return x if x._a.coalesced else apply(_coalesce, (x,), {})


def values_of(x: Tensor) -> Tensor:
    """The values of all entries, with their gradient."""
    return apply(_values, (x,), {})


def mask_like(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of `x`, dense or sparse, at the places of `mask`, each place once."""
    at = mask._a.coalesce()
    return to_layout(coo(entries(x, at.indices), at.indices, x.shape, True), mask._a.layout)


def entries(x: Tensor, indices: Any) -> Tensor:
    """The elements of `x`, dense or sparse, at the places `indices`; 0 where a sparse one has none."""
    if not is_coo(x):
        if not len(indices):
            return x.unsqueeze(0).expand(indices.shape[1], *x.shape)
        return x[tuple([wrap(row) for row in indices])]
    x = coalesced(x)
    own, xp = x._a.places, x._a.xp
    requested = SparseCOO(indices, xp.zeros(indices.shape[1]), x.shape).places
    padded = xp.concatenate([own, xp.full(1, -1, "int64")])
    at = xp.searchsorted(own, requested)
    at = xp.where(padded[at] == requested, at, len(own))
    values = values_of(x)
    return cat([values, values.new_zeros(1, *values.shape[1:])]).index_select(0, wrap(at))


# -- sparse forms of ops ----------------------------------------------------------------------------------------------------


def form(dense: Op) -> Callable[[Callable[..., Any]], Op]:
    """Register a forward for sparse operands: an op like `dense`, with the same rules."""

    def register(forward: Callable[..., Any]) -> Op:
        traits = {f.name: getattr(dense, f.name) for f in fields(Traits)}
        overrides = {"sparse": True, "view": False, "multi_view": False, "broadcasts": False, "elementwise": False,
                 "same_shape": False, "packed": False, "ufunc": "", "check": None, "kernels": (), "half": False}  # fmt: skip
        sparse_op = Op(forward, dense.name, {**traits, **overrides})
        for rule in dense.rules.values():
            sparse_op.rules.update(dict.fromkeys(rule.wrt, Rule(rule.wrt, rule.function)))
        dense.sparse_form(sparse_op)
        return sparse_op

    return register


def _of_coalesced(dense: Op) -> Callable[..., Tensor]:
    """The form of a function with f(0) = 0: on the values of the coalesced tensor."""

    def function(x: Tensor, *rest: Any, **attributes: Any) -> Tensor:
        if any(is_coo(t) for t in rest):
            raise NotImplementedError(f"{dense.name} of two sparse tensors is not implemented; call .to_dense() first")
        x = coalesced(x)
        result = coo(dense(values_of(x), *rest, **attributes), x._a.indices, x.shape, True)
        return to_layout(result, x._a.layout)

    return function


def _of_all(dense: Op) -> Op:
    """The form of a linear function of one operand: on the values as they are, coalesced or not."""

    @form(dense)
    def forward(xp: ModuleType, x: Any, **attributes: Any) -> Any:
        return x.with_values(dense.forward(x.xp, x.values, **attributes))

    forward.attributes, forward.defaults = dense.attributes, dense.defaults
    return forward


BY_VALUE.update(coalesced=_of_coalesced, all=_of_all)


@powers._pow.sparse_form
def _pow(x: Any, exponent: Any) -> Tensor:
    if not is_coo(x) or isinstance(exponent, Tensor):
        raise NotImplementedError("pow: a sparse tensor takes a number as exponent; call .to_dense() first")
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    return _of_coalesced(powers._pow)(x, exponent)


@form(memory._clone)
def _clone(xp: ModuleType, x: Any, *, layout: Any = None) -> Any:
    return x.copy()


form(memory._to_device)(memory._to_device.forward)


@memory._copy.sparse_form
def _copy(x: Tensor, src: Tensor) -> Tensor:
    if not (is_coo(x) and is_coo(src)):
        own_type, src_type = (t.type() for t in (x, src))
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {own_type} and src type = "
            f"{src_type}; convert one with to_dense() or to_sparse()"
        )
    return converted(src, x.dtype) if src.dtype is not x.dtype else clone(src)


@memory._fill.sparse_form
def _fill(x: Tensor, value: Any) -> Tensor:
    if not is_coo(x) or isinstance(value, Tensor) or value != 0:
        raise NotImplementedError("fill_ sets a sparse tensor to 0 only; call .to_dense() first")
    return coo(values_of(x)[:0], x._a.indices[:, :0], x.shape, True)


# -- arithmetic -------------------------------------------------------------------------------------------------------------


@form(arithmetic._add)
def _add(xp: ModuleType, x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return x + (y if alpha == 1 else y.with_values(y.values * y.dtype.type(alpha)))


@arithmetic._add.sparse_form
def _add_front(x: Any, y: Any, alpha: Any = 1) -> Any:
    if not is_coo(y):
        raise RuntimeError(
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead: the sum is dense, as of x.to_dense()"
        )
    if not isinstance(x, Tensor):
        return _add_front(y, x)
    if x.shape != y.shape:
        sizes = f"self has size {list(x.shape)} while other has size {list(y.shape)}"
        message = (
            f"add: expected sizes of 'self' and 'other' to match, but {list(x.shape)} != {list(y.shape)}"
            if is_coo(x)
            else f"add: expected 'self' and 'other' to have same size, but {sizes} (FYI: dense-sparse addition does not "
            "currently support broadcasting)"
        )
        raise RuntimeError(message)
    return apply(_add, (x, y), {"alpha": alpha})


@arithmetic._sub.sparse_form
def _sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return _add_front(x, y, -alpha)


@form(arithmetic._mul)
def _mul(xp: ModuleType, x: Any, y: Any) -> Any:
    if isinstance(x, SparseCOO) and isinstance(y, SparseCOO):
        return _intersection(x, y)
    return x.with_values(x.values * _at(y, x))


def _at(y: Any, x: SparseCOO) -> Any:
    """A number, or the elements of a dense array at the places of x."""
    return y[tuple(x.indices)] if getattr(y, "ndim", 0) else y


def _spread(other: Any, x: Tensor) -> Any:
    """A dense factor in the shape of x, so that its gradient is summed; a number stays one."""
    if not isinstance(other, Tensor) or not (other.ndim or other.requires_grad):
        return other
    return (other if other.ndim else other.to(result_type(x, other))).expand(x.shape)


def _intersection(x: SparseCOO, y: SparseCOO) -> SparseCOO:
    """The products at the places that both have."""
    x, y = x.coalesce(), y.coalesce()
    _, at, there = x.xp.intersect1d(x.places, y.places, assume_unique=True, return_indices=True)
    return SparseCOO(x.indices[:, at], x.values[at] * y.values[there], x.shape, True)


@arithmetic._mul.sparse_form
def _mul_front(x: Any, y: Any) -> Any:
    if is_coo(x) and is_coo(y):
        if x.shape != y.shape or len(x._a.indices) != len(y._a.indices):
            raise RuntimeError(
                "mul: expects sparse inputs with equal dimensionality, number of sparse dimensions, and shape of sparse "
                f"dimensions; got {list(x.shape)} and {list(y.shape)}"
            )
        return apply(_mul, (x, y), {})
    sparse, other = (x, y) if is_coo(x) else (y, x)
    return apply(_mul, (sparse, _spread(other, sparse)), {})


@form(arithmetic._div)
def _div(xp: ModuleType, x: Any, y: Any) -> Any:
    return x.with_values(x.values / y)


@arithmetic._div.sparse_form
def _div_front(x: Any, y: Any) -> Any:
    if not is_coo(x) or is_coo(y) or (isinstance(y, Tensor) and y.ndim):
        shape = list(getattr(y, "shape", ()))
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    if isinstance(y, Tensor) and y.requires_grad:
        return x * (1 / y)  # whose gradient by y is a sum over the entries
    return apply(_div, (x, y), {})


# -- sums -------------------------------------------------------------------------------------------------------------------


@form(reductions._sum)
def _sum(xp: ModuleType, x: Any, *, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Over sparse dimensions; over dense ones too where no sparse dimension is left."""
    sum_dtype = dtype.np if dtype is not None else "int64" if x.dtype.kind in "biu" else None
    shape = [1 if d in dim else m for d, m in enumerate(x.shape) if keepdim or d not in dim]
    n = len(x.indices)
    if set(range(n)) <= set(dim):
        return x.values.sum(axis=(0, *[d - n + 1 for d in dim if d >= n]), dtype=sum_dtype).reshape(shape)
    rows = [x.xp.zeros_like(row) if d in dim else row for d, row in enumerate(x.indices) if keepdim or d not in dim]
    return SparseCOO(x.xp.stack(rows), x.values.astype(sum_dtype or x.dtype), tuple(shape)).coalesce()


@reductions._sum.sparse_form
def _sum_front(x: Tensor, dim: Any = None, **attributes: Any) -> Tensor:
    n = len(x._a.indices)
    dims = tuple(range(x.ndim)) if dim is None else dim
    within = tuple([d - n + 1 for d in dims if d >= n])
    if within and not set(range(n)) <= set(dims):  # the dense dimensions first
        x = coalesced(x)
        values = reductions._sum(values_of(x), dim=within, **attributes)
        x = coo(values, x._a.indices, (*x.shape[:n], *values.shape[1:]), True)
        dims = tuple([d for d in dims if d < n])
    return apply(_sum, (x,), {"dim": dims, **attributes}) if dims or not n else x


@truth._any.sparse_form
def _any(x: Tensor, **attributes: Any) -> Tensor:
    _whole_only("any", attributes)
    return truth._any(values_of(x))


@norms._vector_norm.sparse_form
def _norm(x: Tensor, *, ord: float, **attributes: Any) -> Tensor:
    _whole_only("norm", attributes)
    return norms._vector_norm(values_of(coalesced(x)).reshape(-1), ord=ord, **{**attributes, "dim": None})


def _whole_only(name: str, attributes: dict) -> None:
    if attributes.get("dim") is not None or attributes.get("keepdim"):
        raise NotImplementedError(f"{name} of a sparse tensor is that of all elements; call .to_dense() first")


# -- shapes -----------------------------------------------------------------------------------------------------------------


@form(dimensions._permute)
def _permute(xp: ModuleType, x: Any, *, dims: tuple[int, ...]) -> Any:
    n = len(x.indices)
    if any(d >= n for d in dims[:n]):
        raise RuntimeError(
            "transpositions between sparse and dense dimensions are not supported: got dims "
            f"{list(dims)} for {n} sparse and {x.ndim - n} dense ones"
        )
    values = x.values.transpose(0, *[d - n + 1 for d in dims[n:]])
    moved = SparseCOO(x.indices[list(dims[:n])], values, tuple([x.shape[d] for d in dims]))
    return x.with_values(values) if dims == tuple(range(x.ndim)) else moved


@form(views._reshape)
def _reshape(xp: ModuleType, x: Any, *, shape: tuple[int, ...]) -> Any:
    dense = x.values.shape[1:]
    if dense and (shape[-len(dense) :] != dense or not math.prod(dense)):
        x, dense = _all_sparse(x), ()
    within = shape[: len(shape) - len(dense)]
    flat, rows = x.places, []
    for n in reversed(within):
        rows.append(flat % max(n, 1))
        flat = flat // max(n, 1)
    indices = x.xp.stack(rows[::-1]) if rows else x.indices[:0]
    return SparseCOO(indices, x.values, shape, x.coalesced)


def _all_sparse(x: SparseCOO) -> SparseCOO:
    """The same elements, each with coordinates in all dimensions."""
    within = x.xp.stack([row.reshape(-1) for row in x.xp.indices(x.values.shape[1:])]).astype("int64")
    indices = x.xp.concatenate([x.xp.repeat(x.indices, within.shape[1], 1), x.xp.tile(within, len(x.values))])
    return SparseCOO(indices, x.values.reshape(-1), x.shape, x.coalesced)


@form(dimensions._unsqueeze)
def _unsqueeze(xp: ModuleType, x: Any, *, dim: int) -> Any:
    n, shape = len(x.indices), (*x.shape[:dim], 1, *x.shape[dim:])
    if dim > n:
        at = dim - n + 1
        values = x.values.reshape(*x.values.shape[:at], 1, *x.values.shape[at:])
        return SparseCOO(x.indices, values, shape, x.coalesced)
    rows = [*x.indices[:dim], x.xp.zeros_like(x.places), *x.indices[dim:]]
    return SparseCOO(x.xp.stack(rows), x.values, shape, x.coalesced)


@form(views._expand)
def _expand(xp: ModuleType, x: Any, *, shape: tuple[int, ...]) -> Any:
    xp, n = x.xp, len(shape) - x.values.ndim + 1
    new = n - len(x.indices)
    zeros = xp.zeros((new, x.indices.shape[1]), "int64")
    indices, old = xp.concatenate([zeros, x.indices]), (1,) * new + x.shape
    values = xp.broadcast_to(x.values, (len(x.values), *shape[n:]))
    for d in range(n):
        if old[d] != shape[d]:
            count = indices.shape[1]
            indices, values = xp.tile(indices, shape[d]), xp.concatenate([values] * shape[d])
            indices[d] = xp.repeat(xp.arange(shape[d]), count)
    return SparseCOO(indices, values, shape)


@form(join._cat)
def _cat(xp: ModuleType, *tensors: Any, dim: int) -> Any:
    for i, x in enumerate(tensors):
        if not isinstance(x, SparseCOO):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {i}; call .to_sparse() on it"
            )
    xp, first, start = tensors[0].xp, tensors[0], 0
    total = sum(x.shape[dim] for x in tensors)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    parts, within = [], dim - len(first.indices) + 1
    for i, x in enumerate(tensors):
        same = (*x.shape[:dim], total, *x.shape[dim + 1 :]) == shape and len(x.indices) == len(first.indices)
        if not same:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}, and so must sparse dimensions; expected "
                f"{list(first.shape)} with {len(first.indices)}, got {list(x.shape)} with {len(x.indices)} at position {i}"
            )
        indices, values = x.indices.copy(), x.values
        if within > 0:
            values = xp.zeros((len(x.values), *shape[len(indices) :]), x.dtype)
            values[(*(slice(None),) * within, slice(start, start + x.shape[dim]))] = x.values
        else:
            indices[dim] += start
        parts.append((indices, values))
        start += x.shape[dim]
    return SparseCOO(xp.concatenate([i for i, _ in parts], 1), xp.concatenate([v for _, v in parts]), shape)


@join._stack.sparse_form
def _stack(*tensors: Tensor, dim: int) -> Tensor:
    return join._cat(*[x.unsqueeze(dim) for x in tensors], dim=dim)


@views.slice_view.sparse_form
def _slice(x: Tensor, *, spec: tuple) -> Tensor:
    """Basic indexing: sparse dimensions by selecting entries, dense dimensions by indexing the values."""
    x = coalesced(x)
    a, rows, shape = x._a, [], []
    keep, d = a.xp.ones(len(a.values), bool), 0
    indexed = sum(e is not None and e is not ... for e in spec)
    spec = tuple([p for e in spec for p in ([slice(None)] * (x.ndim - indexed) if e is ... else [e])])
    rest: list[Any] = [slice(None)]
    for e in spec:
        e = slice(*e) if isinstance(e, tuple) else e
        if d >= len(a.indices):
            rest.append(e)
        elif e is None:
            rows.append(a.xp.zeros(len(a.values), "int64"))
            shape.append(1)
        elif isinstance(e, slice):
            span = range(a.shape[d])[e]
            row = a.indices[d] - span.start
            keep &= (row >= 0) & (row < len(span) * span.step) & (row % span.step == 0)
            rows.append(row // span.step)
            shape.append(len(span))
        else:
            if not -a.shape[d] <= e < a.shape[d]:
                raise IndexError(f"index {e} is out of bounds for dimension {d} with size {a.shape[d]}")
            keep &= a.indices[d] == e % a.shape[d]
        d += e is not None
    at = keep.nonzero()[0]
    values = values_of(x).index_select(0, wrap(at))
    values = values[tuple(rest)] if len(rest) > 1 else values
    if not rows:
        return values.sum(0)
    return coo(values, a.xp.stack(rows)[:, at], (*shape, *values.shape[1:]), True)


@split._unbind.sparse_form
def _unbind(x: Tensor, *, dim: int) -> tuple[Tensor, ...]:
    return tuple([x.select(dim, i) for i in range(x.shape[dim])])


@pick._index_select.sparse_form
def _index_select(x: Tensor, index: Tensor, *, dim: int) -> Tensor:
    x, requested = coalesced(x), index._a.reshape(-1)
    a, n = x._a, x.shape[dim]
    if requested.size and not (requested.min() >= 0 and requested.max() < n):
        raise IndexError(f"index_select(): index out of range: dimension {dim} has size {n}")
    shape = (*a.shape[:dim], len(requested), *a.shape[dim + 1 :])
    if dim >= len(a.indices):
        return coo(values_of(x).index_select(dim - len(a.indices) + 1, index), a.indices, shape, True)
    order = a.xp.argsort(a.indices[dim], kind="stable")
    row = a.indices[dim][order]
    first = a.xp.searchsorted(row, requested)
    counts = a.xp.searchsorted(row, requested, "right") - first
    selected = a.xp.arange(int(counts.sum()))
    new = a.xp.searchsorted(counts.cumsum(), selected, "right")  # for each selected entry, its place in `index`
    at = order[selected - (counts.cumsum() - counts - first)[new]]
    indices = a.indices[:, at]
    indices[dim] = new
    return coo(values_of(x).index_select(0, wrap(at)), indices, shape)
