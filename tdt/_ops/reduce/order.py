"""Selection along a dimension: max and min, medians, modes, the k-th value."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from tdt import _kernels
from tdt._backend.scatter import accumulate
from tdt._core import dtype as _dtype
from tdt._core.calls import TENSOR_TYPES
from tdt._core.dtype import REAL, REAL_NUMBERS
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._core.wrapping import wraps
from tdt._core.writing import refuse_shared
from tdt._ops._common import keep, wrap_dim
from tdt._ops.elementwise._front import check_operands, tensor_argument
from tdt._ops.elementwise.arithmetic import maximum, minimum
from tdt._ops.reduce._along import Prepared, choice_path, last, side_by_side, sortable, without
from tdt._ops.reduce._selection import _add_gather_rule, _check_out_values, _pair, _take, named
from tdt._ops.reduce.extremes import _amax, _amin, _short_amax, _short_amin, among_ties
from tdt._ops.reduce.reductions import refuse_empty
from tdt._ops.reduce.sort import _argsort
from tdt.autograd._fast_path import FastPath, takes
from tdt.autograd._node_names import label
from tdt.autograd._op import Op, finish, op

__all__ = ["kthvalue", "max", "median", "min", "mode", "nanmedian"]


F = TypeVar("F", bound=Callable[..., Any])
LONG_ROW = 32  # elements from which on NumPy finds a row's extreme sooner than a loop that keeps value and index


def _index_op(name: str, find: Callable[..., Any], dtypes: frozenset, node: str = "") -> Op:
    """An op that selects along `dim` the elements at the index that `find(xp, x, dim)` returns."""

    @op(name=name, node=node, dtypes=dtypes, outputs=("values", "indices"), nondiff=("indices",))
    def along(xp: ModuleType, x: Any, *, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), "int64")
        return _take(xp, x, find(xp, x, dim), dim, keepdim)

    _add_gather_rule(along)
    return along


def _find_extreme(name: str, dtype: Any, n: int) -> Any:
    scan = _kernels.row_scan(name, dtype)
    if scan is None or dtype.char not in "fdilq" or n < LONG_ROW:
        return scan

    def extreme(a: Any) -> Any:
        if not a.flags.c_contiguous:
            return scan(a)
        index = a.argmax(-1) if name == "max" else a.argmin(-1)
        rows = a.reshape(-1, n)
        return rows[np.arange(len(rows)), index.reshape(-1)].reshape(index.shape), index

    return extreme


def _find_columns(name: str, dtype: Any, n: int) -> Any:
    return _kernels.column_scan(name, dtype)


def _extreme_op(name: str, method: str, node: str) -> Op:
    """The op of max or min along a dimension."""

    kernel = _kernels.gpu_kernel(f"fold_gpu:{method}_at", _kernels.gpu_rows)

    @op(name=name, node=node, dtypes=REAL, outputs=("values", "indices"), nondiff=("indices",), kernels=(kernel,))
    def extreme(xp: ModuleType, x: Any, *, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), "int64")
        columns = _kernels.column_scan(method, x.dtype) if xp is np and dim < x.ndim - 1 else None
        if columns is not None and x.flags.c_contiguous:
            shape = without(x.shape, dim, keepdim)
            return tuple([each.reshape(shape) for each in columns(side_by_side(x, dim))])
        values, index = _take(xp, x, getattr(x, f"arg{method}")(dim, keepdims=True), dim, keepdim)
        return xp.asarray(values, order="C"), index

    _add_gather_rule(extreme)
    return extreme


# By name: the op along a dimension, the op of all elements, and the function of two tensors.
_EXTREMES: dict[str, tuple[Op, Op, Callable[..., Any]]] = {
    "max": (_extreme_op("max_dim", "max", "MaxBackward0"), _amax, maximum),
    "min": (_extreme_op("min_dim", "min", "MinBackward0"), _amin, minimum),
}
# By name: the fast path along a dimension.
_EXTREME_PATHS = {
    name: choice_path(
        along_dim,
        functools.partial(_find_extreme, name),
        columns=functools.partial(_find_columns, name),
    )
    for name, (along_dim, _, _) in _EXTREMES.items()
}


def _extreme_way(name: str, of_all: FastPath) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """For `takes`: the paths of `max` or `min`, and the function's result."""
    along_dim, node, pair = _EXTREME_PATHS[name], f"{name.capitalize()}Backward1", named(name)

    def choose(dim: Any = None, keepdim: bool = False) -> tuple[FastPath, Any, bool] | None:
        if dim.__class__ in TENSOR_TYPES:
            return None
        return (of_all, None, False) if dim is None else (along_dim, dim, keepdim)

    return (
        choose,
        lambda found: pair(found) if found.__class__ is tuple else label(found, node),
    )


def _takes_dim_of_tensor(function: F) -> F:
    """Let the keyword `dim` of `max` or `min` be an integer tensor without dimensions; TypeError for other tensors."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        dim = kwargs.get("dim")
        if isinstance(dim, Tensor):
            if dim.ndim or dim.dtype.category != _dtype.INT:
                raise TypeError(
                    f"{function.__name__}() received an invalid combination of arguments - got (Tensor, dim=Tensor), but dim "
                    "must be an integer; a tensor to compare with is the second argument, or other="
                )
            kwargs["dim"] = int(dim)
        return function(*args, **kwargs)

    return cast("F", called)


def _extreme(name: str, input: Tensor, dim: Any, keepdim: bool, other: Tensor | None, out: Any) -> Any:
    """`max` or `min`, by name."""
    along_dim, of_all, of_two = _EXTREMES[name]
    if dim.__class__ in TENSOR_TYPES and input.__class__ in TENSOR_TYPES and other is out is None and not keepdim:
        return of_two(input, dim)
    check_operands(name, input, dim if other is None else other)
    other = dim if isinstance(dim, Tensor) and not keepdim else other
    if other is not None:
        return of_two(input, other, out=out)
    if dim is None:
        refuse_empty(name, input, None)
        return label(finish(of_all, out, input), f"{name.capitalize()}Backward1")
    d = wrap_dim(dim, input.ndim)
    refuse_empty(name, input, (d,))
    _check_out_values(out, input)
    return _pair(name, along_dim, out, input, dim=d, keepdim=keepdim)


@method()
@takes(*_extreme_way("max", _short_amax))
@_takes_dim_of_tensor
def max(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Tensor | tuple[Tensor, Tensor] | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Largest element; along a dimension also its index; or the elementwise maximum of two tensors.

    Args:
        dim: dimension to search along, or by position a tensor, which is taken as `other`; None for the largest of all
            elements.
        other: tensor to compare with elementwise, as `maximum`.
    Shape: input (*); result (), or with `dim` input's shape without it (of size 1 with keepdim=True), or with `other` the
        broadcast shape.
    Returns: `max(x)`, `max(x, other)`: a tensor. `max(x, dim)`: named tuple (values, indices); of equal elements the first.
    Raises:
        IndexError: when the dimension to search along is empty.
        RuntimeError: when the input is empty and `dim` is None.

    >>> import tdt
    >>> tdt.max(tdt.tensor([1, 5, 3]))
    tensor(5)
    """
    return _extreme("max", input, dim, keepdim, other, out)


@method()
@takes(*_extreme_way("min", _short_amin))
@_takes_dim_of_tensor
def min(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Tensor | tuple[Tensor, Tensor] | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Smallest element; along a dimension also its index; or the elementwise minimum of two tensors.

    Args:
        dim: dimension to search along, or by position a tensor, which is taken as `other`; None for the smallest of all
            elements.
        other: tensor to compare with elementwise, as `minimum`.
    Shape: input (*); result (), or with `dim` input's shape without it (of size 1 with keepdim=True), or with `other` the
        broadcast shape.
    Returns: `min(x)`, `min(x, other)`: a tensor. `min(x, dim)`: named tuple (values, indices); of equal elements the first.
    Raises:
        IndexError: when the dimension to search along is empty.
        RuntimeError: when the input is empty and `dim` is None.

    >>> import tdt
    >>> tdt.min(tdt.tensor([1, 5, 3]))
    tensor(1)
    """
    return _extreme("min", input, dim, keepdim, other, out)


def _median_place(xp: ModuleType, x: Any, dim: int) -> Any:
    """The index of the lower median; of the first nan, if there is one."""
    fast = _kernels.ranked(x, dim, (x.shape[dim] - 1) // 2, "median")
    if fast is not None:
        return fast
    order = xp.argsort(x, axis=dim, kind="stable")
    middle = xp.take(order, xp.asarray([(x.shape[dim] - 1) // 2]), axis=dim)
    if x.dtype.kind != "f":
        return middle
    bad = xp.isnan(x)
    return xp.where(bad.any(dim, keepdims=True), xp.expand_dims(bad.argmax(dim), dim), middle)


def _nanmedian_place(xp: ModuleType, x: Any, dim: int) -> Any:
    fast = _kernels.ranked(x, dim, 0, "nanmedian")
    if fast is not None:
        return fast
    order = xp.argsort(x, axis=dim, kind="stable")
    good = x.shape[dim] - (xp.isnan(x).sum(dim, keepdims=True) if x.dtype.kind == "f" else 0)
    middle = xp.broadcast_to(xp.maximum((good - 1) // 2, 0), (*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    return xp.ascontiguousarray(xp.take_along_axis(order, middle, dim))


def _median_ops(name: str, place: Callable[..., Any]) -> tuple[Op, Op]:
    """The ops of a median of all elements, and along a dimension, from the function that finds its index."""

    @op(name=name, dtypes=REAL_NUMBERS)
    def of_all(xp: ModuleType, x: Any) -> Any:
        flat = x.reshape(-1)
        return flat[place(xp, flat, 0)].reshape(()) if flat.size else xp.asarray(math.nan).astype(x.dtype)

    @of_all.vjp("x")
    def _(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
        ties = (x == out) | (x.isnan() & out.isnan())
        return keep(g, None, x.shape, False) * ties / ties.sum()

    of_all.fast_vjp("x")(lambda xp, g, x, out: among_ties(xp, g, x, out, None))
    return of_all, _index_op(f"{name}_dim", place, REAL_NUMBERS, f"{name.capitalize()}Backward1")


def _median_of(name: str, of_all: Op, along_dim: Op, input: Tensor, dim: int | None, keepdim: bool, out: Any) -> Any:
    tensor_argument(name, input)
    if dim is not None:
        d = wrap_dim(dim, input.ndim)
        refuse_empty(name, input, (d,))
        return _pair(name, along_dim, out, input, dim=d, keepdim=keepdim)
    if input.dtype is _dtype.bool and not input.numel():  # PyTorch rejects bool tensors only if they have elements
        return input.new_ones(())
    return of_all(input)


_median, _median_dim = _median_ops("median", _median_place)
_nanmedian, _nanmedian_dim = _median_ops("nanmedian", _nanmedian_place)


def _median_paths(name: str, of_all: Op, along_dim: Op) -> tuple[FastPath, FastPath]:
    """The fast paths of a median of all elements and along a dimension."""

    def find(dtype: Any, option: Any) -> Any:
        return _kernels.row_order(name, dtype)

    def prepare(dtype: Any, shape: tuple[int, ...], dim: None, option: None) -> Prepared:
        function = find(dtype, None)
        if function is None or not sortable((math.prod(shape),)):
            return None
        return lambda a: function(a.reshape(-1))[0], {}

    return FastPath(of_all, prepare), choice_path(along_dim, find, sortable)


def _median_way(name: str, of_all: Op, along_dim: Op) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """For `takes`: the paths of a median, and the function's result."""
    whole, along = _median_paths(name, of_all, along_dim)
    pair = named(name)
    return (
        lambda dim=None, keepdim=False: (whole, None, None) if dim is None else (along, dim, keepdim),
        lambda found: pair(found) if found.__class__ is tuple else found,
    )


@method()
@takes(*_median_way("median", _median, _median_dim))
def median(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Median, of an even number of elements the lower one; nan if an element is nan.

    Args:
        dim: dimension to search along; None for the median of all elements, whose gradient is divided equally among ties.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Returns: a tensor; with `dim` named tuple (values, indices).
    Raises:
        IndexError: when the dimension to search along is empty.

    >>> import tdt
    >>> tdt.median(tdt.tensor([4, 1, 3, 2]))
    tensor(2)
    """
    return _median_of("median", _median, _median_dim, input, dim, keepdim, out)


@method()
@takes(*_median_way("nanmedian", _nanmedian, _nanmedian_dim))
def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Median of the elements that are not nan, of an even number of them the lower one.

    Args:
        dim: dimension to search along; None for the median of all elements, whose gradient is divided equally among ties.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Returns: a tensor; with `dim` named tuple (values, indices).
    Raises:
        IndexError: when the dimension to search along is empty.

    >>> import tdt
    >>> tdt.nanmedian(tdt.tensor([4, 1, 3, 2]))
    tensor(2)
    """
    return _median_of("nanmedian", _nanmedian, _nanmedian_dim, input, dim, keepdim, out)


def _mode_place(xp: ModuleType, x: Any, dim: int) -> Any:
    """The last index of the most frequent value, the smallest of equally frequent ones."""
    order = xp.moveaxis(_argsort(xp, x, dim, False), dim, -1)
    ordered = xp.take_along_axis(xp.moveaxis(x, dim, -1), order, -1)
    place = xp.arange(ordered.shape[-1])
    begins = xp.ones(ordered.shape, bool)
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    # How many equal elements there are up to each; the first of the largest numbers ends the smallest most frequent value.
    run = place - accumulate(xp, xp.maximum, xp.where(begins, place, 0), ordered.ndim - 1)
    found = xp.take_along_axis(order, run.argmax(-1)[..., None], -1)
    return found.reshape(without(x.shape, dim, True))


_mode = _index_op("mode", _mode_place, REAL)
_short_mode = choice_path(_mode, lambda dtype, n: _kernels.row_order("mode", dtype), sortable)


@method()
@takes(lambda dim=-1, keepdim=False: (_short_mode, dim, keepdim), named("mode"))
def mode(
    input: Tensor, dim: int = -1, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Most frequent value along `dim`, the smallest of equally frequent ones, and the last index at which it occurs.

    nan equals no value and is larger than all numbers. PyTorch's result beside nan depends on where it is.

    Shape: input (*); both results input's shape without `dim` (of size 1 with keepdim=True).
    Returns: named tuple (values, indices).
    Raises:
        IndexError: when the dimension is empty.

    >>> import tdt
    >>> tdt.mode(tdt.tensor([1, 2, 2])).values
    tensor(2)
    """
    tensor_argument("mode", input)
    d = wrap_dim(dim, input.ndim)
    refuse_empty("mode", input, (d,))
    _check_out_values(out, input)
    return _pair("mode", _mode, out, input, dim=d, keepdim=keepdim)


@op(dtypes=REAL_NUMBERS, outputs=("values", "indices"), nondiff=("indices",))
def _kthvalue(xp: ModuleType, x: Any, *, k: int, dim: int, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x.copy(), xp.zeros((), "int64")
    index = _kernels.ranked(x, dim, k - 1, "kth")
    if index is None:
        index = xp.take(xp.argsort(x, axis=dim, kind="stable"), xp.asarray([k - 1]), axis=dim)
    return _take(xp, x, index, dim, keepdim)


_add_gather_rule(_kthvalue)


def _prepare_kth(dtype: Any, shape: tuple[int, ...], which: tuple[int, int], keepdim: bool) -> Prepared:
    """The short way with the arguments ((k, dim), keepdim)."""
    (k, dim), ndim = which, len(shape)
    d = wrap_dim(dim, ndim)
    function = _kernels.row_order("kth", dtype) if ndim and 1 <= k <= shape[d] else None
    lead = (*shape[:d], *shape[d + 1 :])
    if function is None or not sortable((*lead, shape[d])):
        return None
    order, rank = last(d, ndim) or (*range(ndim),), np.array(k - 1, np.int64)

    def compute(a: Any) -> Any:
        found = function(a.transpose(order), rank)
        return tuple([np.expand_dims(r, d) for r in found]) if keepdim else found

    return compute, {"k": k, "dim": d, "keepdim": keepdim}


_short_kth = FastPath(_kthvalue, _prepare_kth)


@method()
@takes(lambda k, dim=-1, keepdim=False: (_short_kth, (k, dim), keepdim), named("kthvalue"))
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along `dim`, and its index.

    Args:
        k: rank of the element, counted from 1.
    Shape: input (*); both results input's shape without `dim` (of size 1 with keepdim=True).
    Returns: named tuple (values, indices).
    Raises:
        RuntimeError: when k is not between 1 and the size of the dimension.
        IndexError: when the dimension is empty.

    >>> import tdt
    >>> tdt.kthvalue(tdt.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    d = wrap_dim(dim, input.ndim)
    refuse_empty("kthvalue", input, (d,))
    if not 1 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}")
    _check_out_values(out, input)
    refuse_shared(out, input)
    return _pair("kthvalue", _kthvalue, out, input, k=k, dim=d, keepdim=keepdim)
