"""Picking and placing along a dimension by a tensor of indices: gather, scatter, scatter_add, scatter_reduce."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Literal

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.scatter import accumulate, add_at, combine_at
from tdt._backend.waiting import repeatable
from tdt._core.aliases import Number
from tdt._core.dtype import ALL, NUMBERS, REAL, check_category
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap
from tdt._core.writing import refuse_shared
from tdt._ops.elementwise._front import refuse_out
from tdt._ops.elementwise.fills import fitting
from tdt._ops.index._checks import checked_dim, in_range
from tdt._ops.index._on_gpu import gathered, gathered_grad
from tdt.autograd._dispatch import apply
from tdt.autograd._in_place_methods import by_one_of, by_op_of
from tdt.autograd._node_names import by_number
from tdt.autograd._op import Op, finish, op
from tdt.autograd._remembered import calls_by_shape

__all__ = ["gather", "scatter", "scatter_add", "scatter_reduce"]


def _grid(xp: ModuleType, index: Any, dim: int) -> tuple[Any, ...]:
    """The full index of the elements that `index` names along `dim`, all other dimensions counted up."""
    last = index.ndim - 1
    count = _count_along if xp is np and index.size <= MAX_CACHED else _count_along.__wrapped__
    where = [index if d == dim else count(xp, n, last - d) for d, n in enumerate(index.shape)]
    return tuple(where)


MAX_CACHED = 1 << 14  # elements of an index whose grid is kept for the next call


@functools.lru_cache(64)
def _count_along(xp: ModuleType, n: int, after: int) -> Any:
    """0 to n - 1 along a dimension with `after` dimensions behind it."""
    return xp.arange(n).reshape((n,) + (1,) * after)


@op(promote=(), broadcasts=False, computes=False, packed=True)
@repeatable
def _gather(xp: ModuleType, x: Any, index: Any, *, dim: int) -> Any:
    if (fast := gathered(xp, x, index, dim)) is not None:
        return fast
    if not x.ndim or not index.ndim:
        in_range(index, x.shape[0] if x.ndim else 1, dim)
        return x.reshape(-1)[index]
    fast = _kernels.taken(x, index, dim) if index.ndim == x.ndim else None
    if fast is not None:
        return fast
    in_range(index, x.shape[dim], dim)
    return x[_grid(xp, index, dim)] if index.size else xp.zeros(index.shape, x.dtype)


@_kernels.prepares(_gather.forward, strided=True, large=True)
def _(x: Any, index: Any, *, dim: int, recorded: bool) -> Any:
    return _kernels.prepared_taken(x, index, dim)


@_gather.vjp("x")
def _(g: Tensor, index: Tensor, x_shape: tuple[int, ...], dim: int) -> Tensor:
    return _scatter_add(g.new_zeros(x_shape), index, g, dim=dim)


@_gather.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, index: Any, x_shape: tuple[int, ...], dim: int) -> Any:
    if (fast := gathered_grad(xp, g, index, x_shape, dim)) is not None:
        return fast
    out = xp.zeros(x_shape, g.dtype)
    return _scatter_add.forward(xp, out, index, g, dim=dim, out=out)


@op(promote=(), broadcasts=False, computes=False)
def _scatter_add(xp: ModuleType, x: Any, index: Any, src: Any, *, dim: int, out: Any = None) -> Any:
    out, target, index = _target(x, index, dim, out)
    src = at_least_1d(src)
    if index.size and not _kernels.placed(target, index, src, dim, "sum"):
        in_range(index, target.shape[dim], dim)
        add_at(target, _grid(xp, index, dim), src[tuple([slice(n) for n in index.shape])])
    return out


@_kernels.prepares(_scatter_add.forward, strided=True)
def _(x: Any, index: Any, src: Any, *, dim: int, recorded: bool) -> Any:
    return _kernels.prepared_placed(x, index, src, dim)


def at_least_1d(a: Any) -> Any:
    return a if a.ndim else a.reshape(1)


def _target(x: Any, index: Any, dim: int, out: Any) -> tuple[Any, Any, Any]:
    """The result (a copy of `x`, or `out`, of which nothing is written if an index is out of range), and with one dimension or
    more the result and the index."""
    index = at_least_1d(index)
    if out is None:
        out = x.copy()
    else:
        in_range(index, out.shape[dim] if out.ndim else 1, dim)
    return out, at_least_1d(out), index


_scatter_add.vjp("x")(lambda g: g)
_scatter_add.vjp("src")(lambda g, index, src_shape, dim: _padded(_gather(g, index, dim=dim), src_shape))


@_scatter_add.fast_vjp("x")
def _(g: Any) -> Any:
    return g


def _placed_at(xp: ModuleType, g: Any, index: Any, src_shape: tuple[int, ...], dim: int) -> Any:
    """The gradient of what was placed at an index, zeros for elements of which nothing was."""
    picked = _gather.forward(xp, g, index, dim=dim)
    if picked.shape == src_shape:
        return picked
    out = xp.zeros(src_shape, g.dtype)
    if picked.size == out.size:
        return picked.reshape(src_shape)
    out[tuple([slice(n) for n in picked.shape])] = picked
    return out


_scatter_add.fast_vjp("src")(_placed_at)


def _padded(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """g in the low corner of zeros of a shape: only that part of a source was used."""
    if g._a.shape == shape:
        return g
    if g.numel() == g.new_zeros(shape).numel():
        return g.reshape(shape)
    from tdt._ops.shape.views import _slice_backward

    return _slice_backward(g, shape=shape, spec=tuple([(0, n, None) for n in g._a.shape]))


@op(promote=(), broadcasts=False, computes=False, node=by_number("Scatter", 2, number=1))
def _scatter(xp: ModuleType, x: Any, index: Any, src: Any, *, dim: int, out: Any = None) -> Any:
    out, target, index = _target(x, index, dim, out)
    if not index.size:
        return out
    src = src if hasattr(src, "dtype") else fitting(xp, src, x.dtype)
    values = src if getattr(src, "ndim", 0) or xp is not np else np.full(index.shape, src, x.dtype)
    if not (getattr(values, "ndim", 0) and _kernels.placed(target, index, values, dim, "set")):
        in_range(index, target.shape[dim], dim)
        if getattr(src, "ndim", 0) and src.shape != index.shape:
            src = src[tuple([slice(n) for n in index.shape])]
        target[_grid(xp, index, dim)] = src
    return out


@_kernels.prepares(_scatter.forward, strided=True)
def _(x: Any, index: Any, src: Any, *, dim: int, recorded: bool) -> Any:
    if getattr(src, "ndim", 0):
        return _kernels.prepared_placed(x, index, src, dim, how="set")
    return prepared_number(x, index, src, index.shape, dim)


def prepared_number(x: Any, index: Any, value: Any, shape: tuple[int, ...], dim: int, negative: bool = False) -> Any:
    """`_kernels.prepared_placed` for a number, as which an array of a shape is placed; None where nothing is prepared."""
    if 0 in shape or (value.__class__ is not float and value.__class__ is not int):
        return None
    held = fitting(np, value, x.dtype)  # RuntimeError for a value that the dtype cannot hold
    numbers = np.full(shape, held, x.dtype)
    place = _kernels.prepared_placed(x, index, numbers, dim, negative=negative, how="set")
    return place and (lambda x, index, value: place(x, index, numbers))


_scatter.vjp("x")(lambda g, index, dim: _scatter(g, index, 0, dim=dim))
_scatter.vjp("src")(lambda g, index, src_shape, dim: _padded(_gather(g, index, dim=dim), src_shape))
_scatter.fast_vjp("x")(lambda xp, g, index, dim: _scatter.forward(xp, g, index, 0, dim=dim))
_scatter.fast_vjp("src")(_placed_at)


@method()
@calls_by_shape
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Elements of `input` along `dim`: result[i][j] = input[index[i][j]][j] for dim 0, and so on.

    Args:
        sparse_grad: has no effect.
    Shape: input (*); index with as many dimensions, not larger than input but along `dim`; result the shape of `index`.
    Raises:
        RuntimeError: when `index` is not of an integer dtype, has another number of dimensions, or is out of range.

    >>> import tdt
    >>> tdt.gather(tdt.tensor([[1, 2], [3, 4]]), 1, tdt.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    if out is None:
        return apply(_gather, (input, index), {"dim": checked_dim("gather", input, dim, index)})
    refuse_out(out, input)
    refuse_shared(out, input, index)
    return _gather.into(out, input, index, dim=checked_dim("gather", input, dim, index))


REDUCE = {"add": "sum", "multiply": "prod"}


def _scatter_operands(
    x: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> tuple[Op, tuple, dict[str, Any]]:
    """The op of `scatter`, its operands behind `x`, and its attributes."""
    src = value if src is None else src
    d = checked_dim("scatter", x, dim, index, src if isinstance(src, Tensor) else None)
    if reduce is None:
        return _scatter, (index, src), {"dim": d}
    if reduce not in REDUCE:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(src, Tensor):
        src = x.new_full(index.shape, src)
    return _scatter_reduce, (index, src), {"dim": d, "reduce": REDUCE[reduce], "include_self": True}


@method(in_place=by_one_of(_scatter_operands))
@calls_by_shape
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: Literal["add", "multiply"] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with result[index[i][j]][j] = src[i][j] for dim 0, and so on.

    Args:
        src: a tensor or a number; a number also as `value`.
        reduce: add to the element or multiply it, instead of replacing it.
    Shape: input (*); index with as many dimensions; src at least as large as index; result the shape of `input`.
    Raises:
        RuntimeError: when `index` or `src` is of another dtype or shape, an index is out of range, or `reduce` is unknown.

    >>> import tdt
    >>> tdt.scatter(tdt.zeros(3), 0, tdt.tensor([2]), 5.0)
    tensor([0., 0., 5.])
    """
    refuse_out(out, input)
    record, operands, attributes = _scatter_operands(input, dim, index, src, value=value, reduce=reduce)
    return finish(record, out, input, *operands, **attributes)


def _add_operands(x: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[tuple, dict[str, Any]]:
    """The operands of `_scatter_add` behind `x`, and its attributes."""
    return (index, src), {"dim": checked_dim("scatter_add", x, dim, index, src)}


@method(in_place=by_op_of(_scatter_add, _add_operands))
@calls_by_shape
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with src[i][j] added to result[index[i][j]][j] for dim 0, and so on; repeated indices add up.

    Shape: input (*); index with as many dimensions; src at least as large as index; result the shape of `input`.
    Raises:
        RuntimeError: when `index` or `src` is of another dtype or shape, or an index is out of range.

    >>> import tdt
    >>> tdt.scatter_add(tdt.zeros(2), 0, tdt.tensor([1, 1]), tdt.ones(2))
    tensor([0., 2.])
    """
    refuse_out(out, input)
    operands, attributes = _add_operands(input, dim, index, src)
    return finish(_scatter_add, out, input, *operands, **attributes)


AT = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}
ALLOWED = {"mean": NUMBERS, "amax": REAL, "amin": REAL}
START = {"sum": 0, "mean": 0, "prod": 1}


def _limit(np_dtype: Any, highest: bool) -> Any:
    """The largest or smallest value of a dtype."""
    if np_dtype.kind == "b":
        return highest
    if np_dtype.kind == "f":
        return np.inf if highest else -np.inf
    return np.iinfo(np_dtype).max if highest else np.iinfo(np_dtype).min


@op(promote=(), broadcasts=False)
def _scatter_reduce(
    xp: ModuleType, x: Any, index: Any, src: Any, *, dim: int, reduce: str, include_self: bool = True, out: Any = None
) -> Any:
    out, target, index = _target(x, index, dim, out)
    src = at_least_1d(src)
    if not index.size:
        return out
    if not include_self:
        _scatter.forward(xp, target, index, _start(x.dtype, reduce), dim=dim, out=target)
    _combine(xp, target, index, src, dim, "sum" if reduce == "mean" else reduce)
    if reduce == "mean":
        count = xp.maximum(_counts(xp, index, target.shape, dim, int(include_self)), 1)
        if x.dtype.kind in "iu":
            target[...] = target // count
        else:
            xp.divide(target, count.astype(target.real.dtype), out=target)
    return out


def _counts(xp: ModuleType, index: Any, shape: tuple[int, ...], dim: int, start: int) -> Any:
    """How often `index` names each element of a shape, added to `start`; of size 1 where the index was expanded."""
    sizes = [*shape]
    for k, n in enumerate(index.shape):
        if k != dim and n == shape[k] and not index.strides[k]:
            sizes[k] = 1
    index = index[tuple([slice(n if k != dim else None) for k, n in enumerate(sizes)])]
    count = xp.full(sizes, start)
    _combine(xp, count, index, xp.ones(index.shape, count.dtype), dim, "sum")
    return count


def _combine(xp: ModuleType, target: Any, index: Any, src: Any, dim: int, how: str) -> None:
    """Combine elements of `target` with those of `src`: "sum", "prod", "amax" or "amin"."""
    if not _kernels.placed(target, index, src, dim, how):
        in_range(index, target.shape[dim], dim)
        combine_at(AT[how], target, _grid(xp, index, dim), src[tuple([slice(n) for n in index.shape])])


@_kernels.prepares(_scatter_reduce.forward, strided=True)
def _(x: Any, index: Any, src: Any, *, recorded: bool, dim: int, reduce: str, include_self: bool) -> Any:
    general = functools.partial(_scatter_reduce.forward, np, dim=dim, reduce=reduce, include_self=include_self)
    place = combine = _kernels.prepared_placed(x, index, src, dim, how="sum" if reduce == "mean" else reduce)
    if place is None:
        return general
    if not include_self:
        starts = np.full(src.shape, _start(x.dtype, reduce), x.dtype)
        begin = _kernels.prepared_placed(x, index, starts, dim, how="set")
        if begin is None:
            return general
        combine = lambda x, index, src: place(begin(x, index, starts), index, src)  # noqa: E731
    if reduce != "mean":
        return combine
    before, ones = np.full(x.shape, int(include_self), x.dtype), np.ones(src.shape, x.dtype)
    count = _kernels.prepared_placed(before, index, ones, dim)
    divide = np.floor_divide if x.dtype.kind in "iu" else np.true_divide
    return lambda x, index, src: divide(combine(x, index, src), np.maximum(count(before, index, ones), 1))


def _start(dtype: Any, reduce: str) -> Any:
    """What elements are reduced with first that take no part themselves."""
    return START[reduce] if reduce in START else _limit(dtype, reduce == "amin")


@_scatter_reduce.vjp("x", "src")
def _(
    g: Tensor, needs: Any, x: Tensor, index: Tensor, src: Tensor, out: Tensor, dim: int, reduce: str, include_self: bool
) -> tuple:
    def masked(value: Tensor) -> Tensor:
        return value if include_self else _scatter(value, index, 0, dim=dim)

    def back(value: Tensor) -> Tensor:
        return _padded(_gather(value, index, dim=dim), src._a.shape)

    if reduce == "sum":
        return masked(g), back(g)
    if reduce == "mean":
        ones = g.new_ones(x.shape)
        count = _scatter_add(masked(ones), index, g.new_ones(src.shape), dim=dim)
        g = g / count.masked_fill(count == 0, 1)
        return masked(g), back(g)
    if reduce == "prod":
        return _prod_grads(g, masked, back, x, index, src, dim, include_self)
    hit, hits = (
        x == out,
        src == _gather(out, index, dim=dim) if src._a.shape == index._a.shape else _padded_hits(src, out, index, dim),
    )
    shares = _scatter_add(masked(hit.to(g.dtype)), index, hits.to(g.dtype), dim=dim)
    g = g / shares  # which is 0 where the extreme is NaN, and NaN are the gradients then
    return masked(hit * g), hits * back(g)


@_scatter_reduce.fast_vjp("x", "src")
def _(
    xp: ModuleType, g: Any, needs: Any, x: Any, index: Any, src: Any, out: Any, dim: int, reduce: str, include_self: bool,
) -> tuple:  # fmt: skip
    if reduce == "prod" or src.shape != index.shape or not x.ndim:
        on_tensors: Any = _scatter_reduce.rules["x"].function
        tensors = [wrap(a) for a in (x, index, src, out)]
        found = on_tensors(wrap(g), needs, *tensors, dim, reduce, include_self)
        return tuple([each._a for each in found])

    return _shared(
        xp, g, needs, x, index, src, out, reduce,
        lambda value, index: _gather.forward(xp, value, index, dim=dim),
        lambda value, index, src: _scatter_add.forward(xp, value, index, src, dim=dim),
        lambda value, index: value if include_self else _scatter.forward(xp, value, index, 0, dim=dim),
    )  # fmt: skip


def _shared(
    xp: ModuleType, g: Any, needs: Any, x: Any, index: Any, src: Any, out: Any, reduce: str, take: Any, add: Any, masked: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The gradients (arrays) of x and src, by what each has in the elements of the result.

    Args:
        take, add: `_gather`, `_scatter_add`.
        masked: `masked(value, index)` is what `value` has for elements of x that take part.
    """
    hit: Any = True  # the elements of x and of src that the result has, for extremes
    hits: Any = True
    if reduce != "sum":
        if reduce == "mean":
            parts = xp.ones(x.shape, g.dtype), xp.ones(src.shape, g.dtype)
        else:
            hit, hits = x == out, src == take(out, index)
            parts = hit.astype(g.dtype), hits.astype(g.dtype)
        total = add(masked(parts[0], index), index, parts[1])
        if reduce == "mean":
            total[total == 0] = 1
        with np.errstate(divide="ignore", invalid="ignore"):  # of extremes that are NaN it is 0
            g = g / total
            return masked(g * hit, index) if needs[0] else None, take(g, index) * hits if needs[1] else None
    return masked(g * hit, index) if needs[0] else None, take(g, index) * hits if needs[1] else None


@_scatter_reduce.prepares_vjp("x", "src")
def _(
    xp: ModuleType, g: Any, needs: Any, x: Any, index: Any, src: Any, out: Any, dim: int, reduce: str, include_self: bool,
) -> Any:  # fmt: skip
    if (
        reduce == "prod"
        or src.shape != index.shape
        or not x.ndim
        or not (x.flags.c_contiguous and g.flags.c_contiguous)
    ):
        return None
    take, add = _kernels.prepared_taken(x, index, dim), _kernels.prepared_placed(x, index, src, dim)
    clear = prepared_number(x, index, 0, index.shape, dim)
    if take is None or add is None or clear is None:
        return None
    masked = lambda value, index: value if include_self else clear(value, index, 0)  # noqa: E731
    return lambda g, x, index, src, out: _shared(xp, g, needs, x, index, src, out, reduce, take, add, masked)


def _padded_hits(src: Tensor, out: Tensor, index: Tensor, dim: int) -> Tensor:
    used = src[tuple([slice(n) for n in index.shape])]
    return _padded((used == _gather(out, index, dim=dim)).to(src.dtype), src._a.shape) != 0


def _prod_grads(
    g: Tensor, masked: Any, back: Any, x: Tensor, index: Tensor, src: Tensor, dim: int, include_self: bool
) -> tuple:
    """Each factor's gradient is the product of the others: the whole divided by it or, where one is 0, from a table."""
    start, src = (x if include_self else _scatter(x, index, 1, dim=dim)).conj(), src.conj()
    if (start._a != 0).all() and (src._a != 0).all():
        whole = g * _scatter_reduce(start, index, src, dim=dim, reduce="prod", include_self=True)
        return masked(whole / start), back(whole) / src
    of_start, of_src = _prod_grads_by_table(
        _at_least_1d(g), _at_least_1d(start), _at_least_1d(index), _at_least_1d(src), dim
    )
    return masked(of_start.reshape(x.shape)), _padded(of_src, src._a.shape)


def _at_least_1d(x: Tensor) -> Tensor:
    return x if x.ndim else x.reshape(1)


def _prod_grads_by_table(g: Tensor, start: Tensor, index: Tensor, src: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """What `prod` says for a table with a row of factors for each place of the result, filled up with ones."""
    from tdt._ops.reduce.product import _prod
    from tdt._ops.shape.join import cat

    last = start.ndim - 1
    g, start, index, src = (t.movedim(dim, last) for t in (g, start, index, src))
    rank = _rank(_backend.namespace(index._a), index._a)
    width = int(rank.max()) + 1 if rank.size else 0
    places = index * width + wrap(rank)
    used = src[tuple([slice(n) for n in index.shape])]
    ones = start.new_ones((*start.shape[:-1], start.shape[-1] * width))
    table = cat(
        [start.unsqueeze(-1), _scatter(ones, places, used, dim=last).unflatten(-1, (start.shape[-1], width))], -1
    )
    grads = _prod.rules["x"].function(g, table, (last + 1,), False)
    of_src = _gather(grads[..., 1:].flatten(-2), places, dim=last)
    return grads[..., 0].movedim(last, dim), of_src.movedim(last, dim)


def _rank(xp: ModuleType, index: Any) -> Any:
    """How many equal entries stand before each, along the last dimension."""
    order = xp.argsort(index, -1, kind="stable")
    ordered = xp.take_along_axis(index, order, -1)
    at = xp.arange(index.shape[-1])
    new = xp.concatenate([xp.ones_like(ordered[..., :1], bool), ordered[..., 1:] != ordered[..., :-1]], -1)
    rank = xp.empty_like(order)
    xp.put_along_axis(rank, order, at - accumulate(xp, xp.maximum, xp.where(new, at, 0), -1), -1)
    return rank


def _reduce_operands(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> tuple[tuple, dict[str, Any]]:
    """The operands of `_scatter_reduce` behind `x`, and its attributes."""
    if reduce not in AT:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    check_category(f"scatter_reduce_{reduce}", ALLOWED.get(reduce, ALL), x.dtype)
    d = checked_dim("scatter", x, dim, index, src)
    return (index, src), {"dim": d, "reduce": reduce, "include_self": include_self}


@method(in_place=by_op_of(_scatter_reduce, _reduce_operands))
@calls_by_shape
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: Literal["sum", "prod", "mean", "amax", "amin"],
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` in which the elements that `index` names along `dim` are reduced with those of `src`.

    Args:
        reduce: how elements of the same position are combined.
        include_self: whether the element of `input` takes part; False: only elements of `src`.
    Shape: input (*); index with as many dimensions; src at least as large as index; result the shape of `input`.
    Raises:
        RuntimeError: when `reduce` is unknown, `index` or `src` is of another dtype or shape, or an index is out of range.
        NotImplementedError: when the dtype does not support `reduce`.

    >>> import tdt
    >>> tdt.scatter_reduce(tdt.zeros(2), 0, tdt.tensor([1, 1]), tdt.tensor([3.0, 4.0]), "amax")
    tensor([0., 4.])
    """
    operands, attributes = _reduce_operands(input, dim, index, src, reduce, include_self=include_self)
    refuse_out(out, input)
    return finish(_scatter_reduce, out, input, *operands, **attributes)
