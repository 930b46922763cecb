"""sort, topk, max and min along a dimension, median, unique, cumulative ops."""

from __future__ import annotations

import builtins
import math
from types import ModuleType
from typing import Any

from tdt._backend.scatter import accumulate
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOAT, FLOATING_AND_COMPLEX, NUMBERS, REAL, REAL_NUMBERS
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._core.writing import refuse_shared
from tdt._ops._common import check_out_dtype, keep, store_into, wrap_dim
from tdt._ops.elementwise._front import check_operands, named, refuse_out, tensor_argument
from tdt._ops.elementwise.arithmetic import maximum, minimum
from tdt._ops.elementwise.binary_math import _logaddexp
from tdt._ops.reduce.reductions import _amax, _amin, refuse_empty
from tdt.autograd._in_place_methods import by_copy
from tdt.autograd._node_names import label
from tdt.autograd._op import finish, op

__all__ = [
    "argsort", "cummax", "cummin", "cumprod", "cumsum", "diff", "kthvalue", "logcumsumexp", "max", "median", "min", "mode",
    "msort", "nanmedian", "sort", "topk", "unique", "unique_consecutive",
]  # fmt: skip


def _pair(name: str, record: Any, out: Any, x: Tensor, **attributes: Any) -> Any:
    """Run an op of two outputs, into `out` where given, and name the results."""
    return return_type(name)(*finish(record, out, x, **attributes))


def _same_values(out: Any, x: Tensor) -> None:
    """RuntimeError where the first of an `out=` pair has not x's dtype."""
    if out is not None:
        refuse_out(out[0], x)


def _chosen(record: Any) -> None:
    """The rule of ops that pick elements along `dim`: gradients go back to where the values came from."""

    @record.vjp("x")
    def _(g_values: Tensor, x_shape: tuple[int, ...], indices: Tensor, dim: int, keepdim: bool) -> Tensor:
        if not x_shape:
            return g_values
        if not keepdim:
            g_values, indices = g_values.unsqueeze(dim), indices.unsqueeze(dim)
        return g_values.new_zeros(x_shape).scatter_add(dim, indices, g_values)


def _picked(xp: ModuleType, x: Any, index: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The values at `index` (which keeps dim), and the index; without dim unless keepdim."""
    values = xp.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _along(name: str, find: Any, dtypes: frozenset, node: str = "") -> Any:
    @op(name=name, node=node, dtypes=dtypes, outputs=("values", "indices"), nondiff=("indices",))
    def along(xp: ModuleType, x: Any, *, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), "int64")
        return _picked(xp, x, find(xp, x, dim), dim, keepdim)

    _chosen(along)
    return along


def _extreme(name: str, method: str, node: str) -> Any:
    @op(name=name, node=node, dtypes=REAL, outputs=("values", "indices"), nondiff=("indices",))
    def extreme(xp: ModuleType, x: Any, *, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), "int64")
        values = xp.asarray(getattr(x, method)(dim, None, keepdim), order="C")
        return values, getattr(x, f"arg{method}")(dim, keepdims=keepdim)

    _chosen(extreme)
    return extreme


_max_dim, _min_dim = _extreme("max_dim", "max", "MaxBackward0"), _extreme("min_dim", "min", "MinBackward0")


def max_dim(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> Any:
    """(values, indices) of the largest elements along `dim`; of equals the first."""
    d = wrap_dim(dim, input.ndim)
    refuse_empty("max", input, (d,))
    _same_values(out, input)
    return _pair("max", _max_dim, out, input, dim=d, keepdim=keepdim)


def min_dim(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> Any:
    """(values, indices) of the smallest elements along `dim`; of equals the first."""
    d = wrap_dim(dim, input.ndim)
    refuse_empty("min", input, (d,))
    _same_values(out, input)
    return _pair("min", _min_dim, out, input, dim=d, keepdim=keepdim)


def _of_max(name: str, whole: Any, along: Any, of_two: Any) -> Any:
    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
    ) -> Any:
        check_operands(name, input, dim if other is None else other)
        other = dim if isinstance(dim, Tensor) and not keepdim else other
        if other is not None:
            return of_two(input, other, out=out)
        if dim is not None:
            return along(input, dim, keepdim, out=out)
        refuse_empty(name, input, None)
        return label(finish(whole, out, input), f"{name.capitalize()}Backward1")

    most = "largest" if name == "max" else "smallest"
    doc = f"""The {most} element: `{name}(x)`.

    `{name}(x, dim)`: (values, indices) along dim. `{name}(x, other)`: the {most} of each pair.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor([1, 5, 3]))
    tensor({5 if name == "max" else 1})
    """
    return named(function, name, doc)


max, min = _of_max("max", _amax, max_dim, maximum), _of_max("min", _amin, min_dim, minimum)


def _median_place(xp: ModuleType, x: Any, dim: int) -> Any:
    """Where the lower median stands; the first nan, if there is one."""
    order = xp.argsort(x, axis=dim, kind="stable")
    middle = xp.take(order, xp.asarray([(x.shape[dim] - 1) // 2]), axis=dim)
    if x.dtype.kind != "f":
        return middle
    bad = xp.isnan(x)
    return xp.where(bad.any(dim, keepdims=True), xp.expand_dims(bad.argmax(dim), dim), middle)


def _nanmedian_place(xp: ModuleType, x: Any, dim: int) -> Any:
    order = xp.argsort(x, axis=dim, kind="stable")
    good = x.shape[dim] - (xp.isnan(x).sum(dim, keepdims=True) if x.dtype.kind == "f" else 0)
    middle = xp.broadcast_to(xp.maximum((good - 1) // 2, 0), (*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    return xp.ascontiguousarray(xp.take_along_axis(order, middle, dim))


def _median(name: str, place: Any) -> Any:
    record = _along(f"{name}_dim", place, REAL_NUMBERS, f"{name.capitalize()}Backward1")

    @op(name=name, dtypes=REAL_NUMBERS)
    def of_all(xp: ModuleType, x: Any) -> Any:
        flat = x.reshape(-1)
        return flat[place(xp, flat, 0)].reshape(()) if flat.size else xp.asarray(math.nan).astype(x.dtype)

    @of_all.vjp("x")
    def _(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
        ties = (x == out) | (x.isnan() & out.isnan())
        return keep(g, None, x.shape, False) * ties / ties.sum()

    def function(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
        tensor_argument(name, input)
        if dim is not None:
            d = wrap_dim(dim, input.ndim)
            refuse_empty(name, input, (d,))
            return _pair(name, record, out, input, dim=d, keepdim=keepdim)
        if input.dtype is _dtype.bool and not input.numel():  # which PyTorch refuses only where there are any
            return input.new_ones(())
        return of_all(input)

    doc = f"""The lower median{", nan left out" if name != "median" else ""}.

    Of all elements, ties sharing the gradient, or (values, indices) along `dim`.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor([4, 1, 3, 2]))
    tensor(2)
    """
    return named(function, name, doc)


median, nanmedian = _median("median", _median_place), _median("nanmedian", _nanmedian_place)


def _mode_place(xp: ModuleType, x: Any, dim: int) -> Any:
    """The last place of the most frequent value, the smallest of equally frequent ones."""
    moved = xp.moveaxis(x, dim, -1)
    equal = moved[..., :, None] == moved[..., None, :]
    times = equal.sum(-1)
    most = times == times.max(-1, keepdims=True)
    rest = xp.inf if x.dtype.kind == "f" else moved.max(-1, keepdims=True)
    found = moved == xp.where(most, moved, rest).min(-1, keepdims=True)
    last = xp.where(found.any(-1), moved.shape[-1] - 1 - xp.flip(found, -1).argmax(-1), 0)  # 0: there are only nans
    return xp.moveaxis(last[..., None], -1, dim)


_mode = _along("mode", _mode_place, REAL)


@method()
@front
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """(values, indices): the most frequent value along `dim` (the smallest of several) and where it stands last.

    >>> import tdt
    >>> tdt.mode(tdt.tensor([1, 2, 2])).values
    tensor(2)
    """
    tensor_argument("mode", input)
    d = wrap_dim(dim, input.ndim)
    refuse_empty("mode", input, (d,))
    _same_values(out, input)
    return _pair("mode", _mode, out, input, dim=d, keepdim=keepdim)


@op(dtypes=REAL_NUMBERS, outputs=("values", "indices"), nondiff=("indices",))
def _kthvalue(xp: ModuleType, x: Any, *, k: int, dim: int, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x.copy(), xp.zeros((), "int64")
    return _picked(xp, x, xp.take(xp.argsort(x, axis=dim, kind="stable"), xp.asarray([k - 1]), axis=dim), dim, keepdim)


_chosen(_kthvalue)


@method()
@front
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """(values, indices) of the k-th smallest elements along `dim`, counted from 1.

    >>> import tdt
    >>> tdt.kthvalue(tdt.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    d = wrap_dim(dim, input.ndim)
    refuse_empty("kthvalue", input, (d,))
    if not 1 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}")
    _same_values(out, input)
    refuse_shared(out, input)
    return _pair("kthvalue", _kthvalue, out, input, k=k, dim=d, keepdim=keepdim)


def _argsort(xp: ModuleType, x: Any, dim: int, descending: bool) -> Any:
    """A stable argsort; nan is larger than everything."""
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable")
    order = xp.argsort(xp.flip(x, dim), axis=dim, kind="stable")  # of the reverse, so that equals keep their order
    return xp.ascontiguousarray(xp.flip(x.shape[dim] - 1 - order, dim))


@op(dtypes=REAL, outputs=("values", "indices"), nondiff=("indices",))
def _sort(xp: ModuleType, x: Any, *, dim: int, descending: bool = False, keepdim: bool = True) -> Any:
    if not x.ndim:
        return x.copy(), xp.zeros((), "int64")
    return _picked(xp, x, _argsort(xp, x, dim, descending), dim, True)


_chosen(_sort)


@method()
@front
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None) -> Any:
    """(values, indices) in order along `dim`; nan is the largest. Always stable here.

    >>> import tdt
    >>> tdt.sort(tdt.tensor([3, 1, 2])).values
    tensor([1, 2, 3])
    """
    tensor_argument("sort", input)
    _same_values(out, input)
    return _pair("sort", _sort, out, input, dim=wrap_dim(dim, input.ndim), descending=bool(descending))


@method()
@front
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that `sort` gives.

    >>> import tdt
    >>> tdt.argsort(tdt.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    tensor_argument("argsort", input)
    return sort(input.detach(), dim, descending)[1]


@method()
@front
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The values in order along the first dimension.

    >>> import tdt
    >>> tdt.msort(tdt.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    values = sort(input, 0)[0]
    return values if out is None else store_into(out, values, exact=True)


@op(dtypes=REAL_NUMBERS, outputs=("values", "indices"), nondiff=("indices",))
def _topk(xp: ModuleType, x: Any, *, k: int, dim: int, largest: bool = True, keepdim: bool = True) -> Any:
    if not x.ndim:
        return x.copy(), xp.zeros((), "int64")
    first = _argsort(xp, x, dim, largest)[(slice(None),) * dim + (slice(k),)]
    return _picked(xp, x, xp.ascontiguousarray(first), dim, True)


_chosen(_topk)


@method()
@front
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None) -> Any:
    """(values, indices) of the k largest (or smallest) elements along `dim`, in order.

    >>> import tdt
    >>> tdt.topk(tdt.tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """
    d = wrap_dim(dim, input.ndim)
    if not 0 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError(f"selected index k out of range: k = {k} for dimension {d} of {list(input.shape)}")
    _same_values(out, input)
    return _pair("topk", _topk, out, input, k=k, dim=d, largest=bool(largest))


@op(dtypes=NUMBERS, packed=True)
def _cumsum(xp: ModuleType, x: Any, *, dim: int) -> Any:
    return x.cumsum(dim, x.dtype) if x.ndim else x.copy()


_cumsum.vjp("x")(lambda g, dim: _reverse_cumsum(g, dim))


def _reverse_cumsum(g: Tensor, dim: int) -> Tensor:
    return _cumsum(g.flip(dim), dim=dim).flip(dim) if g.ndim else g


@method(in_place=by_copy)
@front
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """Running sums along `dim`, as int64 for integers.

    >>> import tdt
    >>> tdt.cumsum(tdt.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    x = _as_sum_type(input, dtype, out)
    return finish(_cumsum, out, x, dim=wrap_dim(dim, x.ndim))


def _as_sum_type(x: Tensor, dtype: Any, out: Tensor | None) -> Tensor:
    """x in the dtype asked for, else that of out; else integers as int64, where they cannot soon overflow."""
    if out is not None:
        dtype = out.dtype if dtype is None else _dtype.as_dtype(dtype)
        check_out_dtype(out, dtype)
    return x.to(dtype) if dtype is not None else x.to(_dtype.int64) if x.dtype.category < FLOAT else x


@op(dtypes=NUMBERS, packed=True)
def _cumprod(xp: ModuleType, x: Any, *, dim: int) -> Any:
    return x.cumprod(dim, x.dtype) if x.ndim else x.copy()


@_cumprod.vjp("x")
def _(g: Tensor, x: Tensor, dim: int) -> Tensor:
    if not x.ndim or x.shape[dim] == 1:
        return g
    if not (x == 0)._a.any():
        return _reverse_cumsum(g * _cumprod(x, dim=dim).conj(), dim) / x.conj()
    # d out_j / d x_k is the product of all x_i, i <= j, but x_k: put a 1 in its place, for every k.
    rows = x.movedim(dim, -1).unsqueeze(-2)
    n = rows.shape[-1]
    one = x.new_ones(n, dtype=_dtype.bool).diag_embed()
    others = _cumprod(rows.expand(*rows.shape[:-2], n, n).masked_fill(one, 1), dim=rows.ndim - 1).triu()
    return (g.movedim(dim, -1).unsqueeze(-2) * others.conj()).sum(-1).movedim(-1, dim)


@method(in_place=by_copy)
@front
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """Running products along `dim`, as int64 for integers.

    >>> import tdt
    >>> tdt.cumprod(tdt.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    x = _as_sum_type(input, dtype, out)
    dim = wrap_dim(dim, x.ndim)
    return x.clone() if not x.ndim and out is None else finish(_cumprod, out, x, dim=dim)


def _running(name: str, better: Any) -> Any:
    @op(name=name, dtypes=REAL, outputs=("values", "indices"), nondiff=("indices",))
    def running(xp: ModuleType, x: Any, *, dim: int, keepdim: bool = True) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), "int64")
        result, index = x.copy(order="C"), xp.zeros(x.shape, "int64")
        moved, values, places = (xp.moveaxis(a, dim, 0) for a in (x, result, index))
        for i in range(1, len(moved)):
            wins = better(moved[i], values[i - 1]) | (moved[i] != moved[i])
            values[i] = xp.where(wins, moved[i], values[i - 1])
            places[i] = xp.where(wins, i, places[i - 1])
        return result, index

    _chosen(running)

    def function(input: Tensor, dim: int, *, out: Any = None) -> Any:
        _same_values(out, input)
        return _pair(name, running, out, input, dim=wrap_dim(dim, input.ndim))

    doc = f"""(values, indices): the {"largest" if name == "cummax" else "smallest"} element so far.

    Along `dim`; of equals the last.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor([2, 1, 3]), 0).values
    tensor([{"2, 2, 3" if name == "cummax" else "2, 1, 1"}])
    """
    return named(function, name, doc)


cummax, cummin = _running("cummax", lambda a, b: a >= b), _running("cummin", lambda a, b: a <= b)


@op(dtypes=FLOATING_AND_COMPLEX)
def _logcumsumexp(xp: ModuleType, x: Any, *, dim: int) -> Any:
    if not x.ndim or x.dtype.kind == "f":
        return accumulate(xp, xp.logaddexp, x, dim) if x.ndim else x.copy()
    out = x.copy(order="C")
    steps = xp.moveaxis(out, dim, 0)
    for i in range(1, len(steps)):
        steps[i] = _logaddexp(xp, steps[i - 1], steps[i])
    return out


@_logcumsumexp.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    if not x.ndim:
        return g
    # Split by sign, so that the weights can be taken in logs; out - x may exceed the range of exp.
    rows, outs, gs = (v.movedim(dim, -1) for v in (x, out, g))
    weights = (rows.unsqueeze(-1) - outs.unsqueeze(-2)).exp().triu()
    return (gs.unsqueeze(-2) * weights.conj()).sum(-1).movedim(-1, dim)


@method()
@front
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """log of the running sums of exp(x) along `dim`.

    >>> import tdt
    >>> tdt.logcumsumexp(tdt.zeros(2), 0)
    tensor([0.0000, 0.6931])
    """
    return finish(_logcumsumexp, out, input, dim=wrap_dim(dim, input.ndim))


@method()
@front
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along `dim`, taken n times; prepend and append are joined to input first.

    >>> import tdt
    >>> tdt.diff(tdt.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    from tdt._ops.shape.join import cat

    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = wrap_dim(dim, input.ndim)
    parts = [x for x in (prepend, input, append) if x is not None]
    x = cat(parts, d) if n and len(parts) > 1 else input
    for _ in range(builtins.min(n, x.shape[d])):
        length = x.shape[d]
        a, b = x.narrow(d, 1, length - 1), x.narrow(d, 0, length - 1)
        x = a.logical_xor(b) if x.dtype is _dtype.bool else a - b
    result = x.clone() if x is input else x
    return result if out is None else store_into(out, result, exact=not n)


@op(dtypes=REAL, data_dependent=True, outputs=("values", "inverse", "counts"))
def _unique(xp: ModuleType, x: Any, *, dim: int | None = None) -> Any:
    return xp.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)


def _wanted(values: Tensor, inverse: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    picked = [values] + [inverse] * return_inverse + [counts] * return_counts
    return tuple(picked) if len(picked) > 1 else values


def _slices(name: str, x: Tensor, dim: int | None) -> int | None:
    """`dim` counted from the front; RuntimeError where the slices along it have no elements to be compared by."""
    tensor_argument(name, x)
    d = None if dim is None else wrap_dim(dim, x.ndim)
    if d is not None and 0 in x.shape[:d] + x.shape[d + 1 :]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return d


@method()
@front
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements (or slices along `dim`), in order; on request where each element went, and how many there were.

    >>> import tdt
    >>> tdt.unique(tdt.tensor([2, 1, 2]), return_counts=True)
    (tensor([1, 2]), tensor([1, 2]))
    """
    d = _slices("unique", input, dim)
    values, inverse, counts = _unique(input.detach(), dim=d)
    return _wanted(values, inverse if d is None else inverse.reshape(-1), counts, return_inverse, return_counts)


@op(dtypes=REAL, data_dependent=True, outputs=("values", "inverse", "counts"))
def _unique_consecutive(xp: ModuleType, x: Any, *, dim: int | None = None) -> Any:
    rows = x.reshape(-1) if dim is None else xp.moveaxis(x, dim, 0)
    new = (rows[1:] != rows[:-1]).reshape(builtins.max(len(rows) - 1, 0), math.prod(rows.shape[1:])).any(1)
    first = xp.concatenate([xp.ones(builtins.min(len(rows), 1), bool), new])
    starts = xp.flatnonzero(first)
    counts = xp.diff(xp.concatenate([starts, xp.asarray([len(rows)])]))
    values = rows[starts]
    inverse = first.cumsum() - 1
    return (values, inverse.reshape(x.shape), counts) if dim is None else (xp.moveaxis(values, 0, dim), inverse, counts)


@method()
@front
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or slices along `dim`) without those that equal their predecessor.

    >>> import tdt
    >>> tdt.unique_consecutive(tdt.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    d = _slices("unique_consecutive", input, dim)
    values, inverse, counts = _unique_consecutive(input.detach(), dim=d)
    return _wanted(values, inverse, counts, return_inverse, return_counts)


nanmedian = method()(front(nanmedian))
min = method()(front(min))
median = method()(front(median))
max = method()(front(max))
cummin = method()(front(cummin))
cummax = method()(front(cummax))
