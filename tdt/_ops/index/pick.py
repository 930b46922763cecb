"""Select along a dimension or by flat index: index_select, index_add, take, put."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.scatter import add_at
from tdt._backend.waiting import repeatable
from tdt._core import dtype as _dtype
from tdt._core.aliases import Number
from tdt._core.calls import front
from tdt._core.dtype import FLOAT8S, REAL_NUMBERS, SCALAR_NAMES, check_category
from tdt._core.from_data import held
from tdt._core.memory_format import preserve_format
from tdt._core.methods import method
from tdt._core.mode import values_read
from tdt._core.tensor import Tensor
from tdt._core.writing import check_memory, refuse_shared
from tdt._ops._common import wrap_dim
from tdt._ops.elementwise._factors import wrapped
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt._ops.elementwise.fills import fitting
from tdt._ops.index._checks import all_in_range, check_places, vector_index
from tdt._ops.index._on_gpu import gathered, gathered_grad, spread
from tdt._ops.index.scatter import _scatter_reduce, at_least_1d, gather, prepared_number
from tdt._ops.shape.memory import in_format
from tdt.autograd._dispatch import apply, converted
from tdt.autograd._in_place_methods import by_op_of
from tdt.autograd._node_names import by_number
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape

__all__ = [
    "index_add", "index_copy", "index_fill", "index_reduce", "index_select", "put", "take", "take_along_dim",
]  # fmt: skip


def _index_at(index: Any, dim: int) -> tuple[Any, ...]:
    return (*(slice(None),) * dim, index)


def _check_range(index: Any, n: int, error: type[Exception] = IndexError) -> None:
    """`error` for a position outside of [0, n); on a GPU it is not looked for, since that would wait for it."""
    if index.size and isinstance(index, np.ndarray) and not all_in_range(index, n):
        found = f"[{int(index.min())}, {int(index.max())}]"
        raise error(f"index out of range in self: indices lie in {found}, but the dimension has size {n}")


_ROWS = (_kernels.gpu_kernel("embedding_gpu:embedding", _kernels.gpu_table),)
_ROW_SUMS = (_kernels.gpu_kernel("embedding_gpu:embedding_grad", _kernels.gpu_lookup),)
OUTSIDE = "index out of range in self: an index is {value}, but the dimension has size {limit}"


@op(promote=(), broadcasts=False, computes=False, packed=True, float8=FLOAT8S)
@repeatable
def _index_select(xp: ModuleType, x: Any, index: Any, *, dim: int) -> Any:
    n = x.shape[dim] if x.ndim else 1
    index = index.reshape(-1)
    if xp is not np:
        if not dim and x.ndim and (rows := _kernels.chosen(_ROWS, xp, x, index)):
            return rows(x, index, message=OUTSIDE)
        if (fast := gathered(xp, x, spread(xp, index, x.shape, dim), dim, OUTSIDE)) is not None:
            return fast
    if not dim and (fast := _kernels.entries(x, index) if xp is np else None) is not None:
        return fast
    few = dim < x.ndim - 1 and x.size < _kernels.LARGE_MOVE and index.size <= n  # NumPy copies whole entries as fast
    fast = None if few else _kernels.taken(x, index, dim)
    if fast is not None:
        return fast
    _check_range(index, n)
    return (
        x.reshape(1)[index].reshape(())
        if not x.ndim and index.size == 1
        else x.reshape(1)[index]
        if not x.ndim
        else x.take(index, dim)
    )


@_kernels.prepares(_index_select.forward)
def _(x: Any, index: Any, *, dim: int, recorded: bool) -> Any:
    return None if dim or not x.ndim else _kernels.prepared_entries(x, index)


_index_select.vjp("x")(
    lambda g, index, x_shape, dim: _index_add(  # type: ignore[has-type]
        g.new_zeros(x_shape), index, g, dim=dim, alpha=1
    )
)


@_index_select.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, index: Any, x_shape: tuple[int, ...], dim: int) -> Any:
    if xp is not np:
        index, how = (
            index.reshape(-1),
            {"rows": x_shape[0] if x_shape else 1, "padding_idx": None, "by_frequency": False},
        )
        if not dim and x_shape and (rows := _kernels.chosen(_ROW_SUMS, xp, g, index, **how)):
            return rows(g, index, **how)
        if (fast := gathered_grad(xp, g, spread(xp, index, x_shape, dim), x_shape, dim)) is not None:
            return fast
    return _added(xp.zeros(x_shape, g.dtype), index, g, dim)


@method()
@calls_by_shape
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the entries `index` along `dim`.

    Shape: input (*); index (n), int32 or int64; result the same as input but for `dim`: n.
    Raises:
        IndexError: when `index` has more than 1 dimension or an entry out of range.
        RuntimeError: when `index` is of another dtype, empty where `input` has no dimensions, or not empty where the
            dimension of a matrix is.

    >>> import tdt
    >>> tdt.index_select(tdt.tensor([5, 6, 7]), 0, tdt.tensor([2, 0]))
    tensor([7, 5])
    """
    d = wrap_dim(dim, input._a.ndim)
    vector_index("index_select", index)
    if not input._a.ndim and index._a.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index._a.size} value(s)")
    if input._a.ndim > 1 and not input._a.shape[d] and index._a.size:
        raise RuntimeError(f"index_select(): dimension {d} is empty, but index has {index._a.size} entries")
    if out is None:
        return apply(_index_select, (input, index), {"dim": d})
    refuse_out(out, input)
    check_memory(out)  # before it is resized
    return _index_select.into(out, input, index, dim=d)


@op(promote=(), broadcasts=False)
def _index_add(xp: ModuleType, x: Any, index: Any, src: Any, *, dim: int, alpha: Any = 1, out: Any = None) -> Any:
    if out is None:
        out = x.copy()
    elif out.size < _kernels.SMALL_INDEXED:  # the kernel for others looks at all indices before it writes
        _check_range(index, out.shape[dim] if out.ndim else 1, _range_error(out, index))
    return _added(out, index, src if alpha == 1 else src * wrapped(alpha, src), dim)


@_kernels.prepares(_index_add.forward)
def _(x: Any, index: Any, src: Any, *, dim: int, alpha: Any = 1, recorded: bool) -> Any:
    return _kernels.prepared_placed(x, index, src, dim) if alpha == 1 and index.ndim == 1 <= x.ndim else None


def _added(out: Any, index: Any, src: Any, dim: int) -> Any:
    """`out`, to whose entries `index` along `dim` those of `src` were added."""
    target, index = at_least_1d(out), index.reshape(-1)
    src = src.reshape(*target.shape[:dim], len(index), *target.shape[dim + 1 :])
    if not _kernels.placed(target, index, src, dim, "sum"):
        _check_range(index, target.shape[dim], _range_error(target, index))
        add_at(target, _index_at(index, dim), src)
    return out


def _range_error(x: Any, index: Any) -> type[Exception]:
    """PyTorch's error of `index_add` for an index out of range."""
    return RuntimeError if x.ndim > 1 and index.dtype == np.int64 else IndexError


_index_add.vjp("x")(lambda g: g)


_index_add.fast_vjp("x")(lambda g: g)


@_index_add.vjp("src")
def _(g: Tensor, index: Tensor, src_shape: tuple[int, ...], dim: int, alpha: Any) -> Tensor:
    picked = _index_select(g, index, dim=dim).reshape(src_shape)
    return picked if alpha == 1 else picked * alpha.conjugate()


@_index_add.fast_vjp("src")
def _(xp: ModuleType, g: Any, index: Any, src_shape: tuple[int, ...], dim: int, alpha: Any) -> Any:
    picked = _index_select.forward(xp, g, index, dim=dim).reshape(src_shape)
    return picked if alpha == 1 else picked * wrapped(alpha.conjugate(), picked)


def _index_source(name: str, x: Tensor, dim: int, index: Tensor, source: Tensor) -> int:
    d = wrap_dim(dim, x._a.ndim)
    vector_index(name, index)
    shape, part = x._a.shape, source._a.shape
    if len(part) == len(shape) and part[d : d + 1] == index._a.shape and source.dtype is x.dtype:
        if part[:d] == shape[:d] and part[d + 1 :] == shape[d + 1 :]:
            return d
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}(): self ({SCALAR_NAMES[x.dtype]}) and source ({SCALAR_NAMES[source.dtype]}) must have the same "
            "scalar type"
        )
    copies, shapes = name == "index_copy", f"source {list(source.shape)}, self {list(x.shape)}"
    if copies and source.ndim != x.ndim and source.ndim and x.ndim:
        raise IndexError(f"{name}(): source and self should have the same number of dimensions: {shapes}")
    sizes, expected = ([n for k, n in enumerate(t.shape) if k != d] for t in (source, x))
    fits = sizes == expected and (copies or source.ndim == x.ndim)
    counts = index.numel() == (source.shape[wrap_dim(d, source.ndim)] if source.ndim else 1)
    if not counts and (fits or not (copies and source.ndim)):
        raise (IndexError if copies or not (source.ndim or d) else RuntimeError)(
            f"{name}(): Number of indices ({index.numel()}) should be equal to source.size(dim): {shapes}"
        )
    if not fits:
        raise RuntimeError(
            f"{name}(): the sizes of source and self but that of dimension {d} should be equal: {shapes}"
        )
    return d


def _add_operands(
    x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1
) -> tuple[tuple, dict[str, Any]]:
    """The operands of `_index_add` behind `x`, and its attributes."""
    dim = _index_source("index_add", x, dim, index, source)
    return (index, source), {
        "dim": dim,
        "alpha": alpha if alpha.__class__ is int and alpha == 1 else held(alpha, x.dtype),
    }


@method(in_place=by_op_of(_index_add, _add_operands))
@calls_by_shape
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """A copy of `input` with alpha · source added to the entries `index` along `dim`; repeated indices add up.

    Shape: input (*); index (n), int32 or int64; source the same as input but for `dim`: n; result the shape of `input`.
    Raises:
        IndexError: when `index` has more than 1 dimension, or, of 1-dimensional tensors, an entry out of range.
        RuntimeError: when `index` has such an entry, or is of another dtype; when `source` is of another dtype or shape.

    >>> import tdt
    >>> tdt.index_add(tdt.zeros(2), 0, tdt.tensor([1, 1]), tdt.ones(2))
    tensor([0., 2.])
    """
    refuse_out(out, input)
    operands, attributes = _add_operands(input, dim, index, source, alpha=alpha)
    return finish(_index_add, out, input, *operands, **attributes)


@op(promote=(), broadcasts=False, computes=False)
def _index_copy(xp: ModuleType, x: Any, index: Any, src: Any, *, dim: int, out: Any = None) -> Any:
    index = index.reshape(-1)
    _check_range(index, x.shape[dim] if x.ndim else 1)
    out = x.copy() if out is None else out
    target = at_least_1d(out)
    target[_index_at(index, dim)] = src.reshape(*target.shape[:dim], len(index), *target.shape[dim + 1 :])
    return out


@_kernels.prepares(_index_copy.forward)
def _(x: Any, index: Any, src: Any, *, dim: int, recorded: bool) -> Any:
    return _kernels.prepared_placed(x, index, src, dim, how="set") if index.ndim == 1 <= x.ndim else None


_index_copy.vjp("x")(lambda g, index, dim: _index_fill(g, index, 0, dim=dim))  # type: ignore[has-type]
_index_copy.vjp("src")(lambda g, index, src_shape, dim: _index_select(g, index, dim=dim).reshape(src_shape))


def _copy_operands(x: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[tuple, dict[str, Any]]:
    """The operands of `_index_copy` behind `x`, and its attributes."""
    return (index, source), {"dim": _index_source("index_copy", x, dim, index, source)}


@method(in_place=by_op_of(_index_copy, _copy_operands))
@calls_by_shape
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with the entries `index` along `dim` replaced by those of `source`.

    Shape: input (*); index (n), int32 or int64; source the same as input but for `dim`: n; result the shape of `input`.
    Raises:
        IndexError: when `index` has more than 1 dimension, an entry out of range or another size than `source`.
        RuntimeError: when `index` or `source` is of another dtype, or `source` differs in other sizes.

    >>> import tdt
    >>> tdt.index_copy(tdt.zeros(2), 0, tdt.tensor([1]), tdt.ones(1))
    tensor([0., 1.])
    """
    refuse_out(out, input)
    operands, attributes = _copy_operands(input, dim, index, source)
    return finish(_index_copy, out, input, *operands, **attributes)


def _reduce_operands(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> tuple[tuple, dict[str, Any]]:
    """The operands of `_scatter_reduce` behind `x` for `index_reduce`, and its attributes."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    check_category("index_reduce", REAL_NUMBERS, x.dtype)
    d = _index_source("index_reduce", x, dim, index, source)
    if index._a.__class__ is np.ndarray:
        _check_range(index._a, x.shape[d] if x.ndim else 1)
    spread = index.reshape([-1 if k == d else 1 for k in range(max(source.ndim, 1))]).expand(source._a.shape or (1,))
    index = spread.reshape(source._a.shape)
    return (index, source), {"dim": d, "reduce": reduce, "include_self": include_self}


@method(in_place=by_op_of(_scatter_reduce, _reduce_operands))
@front
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: Literal["prod", "mean", "amax", "amin"],
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` in which the entries `index` along `dim` are reduced with those of `source`.

    Args:
        reduce: how entries with the same index are combined.
        include_self: whether the entry of `input` takes part; False: only entries of `source`.
    Shape: input (*); index (n), int32 or int64; source the same as input but for `dim`: n; result the shape of `input`.
    Raises:
        IndexError: when `index` has more than 1 dimension or an entry out of range.
        RuntimeError: when `reduce` is unknown, or `index` or `source` is of another dtype or shape.
        NotImplementedError: when the dtype is bool or complex.

    >>> import tdt
    >>> tdt.index_reduce(tdt.ones(2), 0, tdt.tensor([1, 1]), tdt.tensor([3.0, 4.0]), "amax")
    tensor([1., 4.])
    """
    operands, attributes = _reduce_operands(input, dim, index, source, reduce, include_self=include_self)
    refuse_out(out, input)
    return finish(_scatter_reduce, out, input, *operands, **attributes)


@op(promote=(), broadcasts=False, computes=False, repeats=True, node=by_number("IndexFill", 2))
def _index_fill(xp: ModuleType, x: Any, index: Any, value: Any, *, dim: int, out: Any = None) -> Any:
    index, n = index.reshape(-1), x.shape[dim] if x.ndim else 1
    value = fitting(xp, value, x.dtype)
    out = in_format(xp, x, preserve_format) if out is None else out
    try:  # NumPy compares all indices before it writes
        at_least_1d(out)[_index_at(index, dim)] = value
    except IndexError:
        bad = index[(index < -n) | (index >= n)][0]
        raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {n}") from None
    return out


@_kernels.prepares(_index_fill.forward, strided=True)
def _(x: Any, index: Any, value: Any, *, dim: int, recorded: bool) -> Any:
    if not x.ndim or index.ndim != 1:
        return None
    shape = (*x.shape[:dim], index.size, *x.shape[dim + 1 :])
    return prepared_number(x, index, value, shape, dim, negative=True)


_index_fill.vjp("x")(lambda g, index, dim: _index_fill(g, index, 0, dim=dim))


@_index_fill.vjp("value")
def _(g: Tensor, index: Tensor, value_dtype: Any, dim: int) -> Tensor:
    return converted(_index_select(g, index.unique(), dim=dim).sum(), _dtype.of(value_dtype))


def _fill_operands(x: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> tuple[tuple, dict[str, Any]]:
    """The operands of `_index_fill` behind `x`, and its attributes."""
    vector_index("index_fill", index)
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return (index, value), {"dim": wrap_dim(dim, x.ndim)}


@method(in_place=by_op_of(_index_fill, _fill_operands))
@calls_by_shape
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """A copy of `input` with the entries `index` along `dim` set to `value`.

    Shape: input (*); index (n), int32 or int64; value a number or (); result the shape of `input`.
    Raises:
        IndexError: when `index` has more than 1 dimension, another dtype or an entry out of range.
        RuntimeError: when `value` has dimensions.

    >>> import tdt
    >>> tdt.index_fill(tdt.zeros(2), 0, tdt.tensor([1]), 7)
    tensor([0., 7.])
    """
    operands, attributes = _fill_operands(input, dim, index, value)
    return _index_fill(input, *operands, **attributes)


@op(promote=(), broadcasts=False, computes=False)
def _take(xp: ModuleType, x: Any, index: Any) -> Any:
    n = x.size
    fast = _kernels.taken(x.reshape(-1), index.reshape(-1), 0, negative=True)
    if fast is not None:
        return fast.reshape(index.shape)
    if index.size and not n:
        raise IndexError("take(): tried to take from an empty tensor")
    _check_flat(index, n)
    return x.reshape(-1)[index]


def _check_flat(index: Any, n: int) -> None:
    """IndexError for a place outside of [-n, n); on a GPU it is not looked for."""
    if index.size and isinstance(index, np.ndarray) and not (-n <= index.min() and index.max() < n):
        raise IndexError(
            f"out of range: tried to access index {index[(index < -n) | (index >= n)].flat[0]} on a tensor of {n} "
            "elements."
        )


@_take.vjp("x")
def _(g: Tensor, index: Tensor, x_shape: tuple[int, ...]) -> Tensor:
    return g.new_zeros(x_shape).put(index, g, accumulate=True)


@method()
@front
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of the flattened tensor at `index`.

    Shape: input (*); index any shape, int64; result the shape of `index`.
    Raises:
        TypeError: when `index` is not a tensor.
        RuntimeError: when `index` is not int64.
        IndexError: when an index is out of range.

    >>> import tdt
    >>> tdt.take(tdt.tensor([[1, 2], [3, 4]]), tdt.tensor([0, 3]))
    tensor([1, 4])
    """
    tensor_argument("take", index, "index", 2)
    if index.dtype is not _dtype.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {SCALAR_NAMES[index.dtype]}")
    refuse_out(out, input)
    refuse_shared(out, input, index)
    return finish(_take, out, input, index)


@op(promote=(), broadcasts=False, computes=False)
def _put(xp: ModuleType, x: Any, index: Any, source: Any, *, accumulate: bool = False, out: Any = None) -> Any:
    creates, out = out is None, x.copy(order="C") if out is None or not out.flags.c_contiguous else out
    flat, places, values = out.reshape(-1), index.reshape(-1), source.reshape(-1)
    if not _kernels.placed(flat, places, values, 0, "sum" if accumulate else "set", negative=True):
        _check_flat(index, x.size)
        if accumulate:
            add_at(flat, places, values)
        else:
            flat[places] = values
    if not creates or x.flags.c_contiguous:
        return out
    ordered = in_format(xp, x, preserve_format)
    ordered[...] = out
    return ordered


@_kernels.prepares(_put.forward)
def _(x: Any, index: Any, source: Any, *, accumulate: bool, recorded: bool) -> Any:
    shape, n, m, how = x.shape, x.size, index.size, "sum" if accumulate else "set"
    place = _kernels.prepared_placed(x.reshape(n), index.reshape(m), source.reshape(m), 0, negative=True, how=how)
    return place and (lambda x, index, source: place(x.reshape(n), index.reshape(m), source.reshape(m)).reshape(shape))


_put.vjp("x")(lambda g, index, accumulate: g if accumulate else _put(g, index, g.new_zeros(index.shape)))
_put.vjp("source")(lambda g, index, source_shape: _take(g, index).reshape(source_shape))


def _put_operands(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> tuple[tuple, dict[str, Any]]:
    """The operands of `_put` behind `x`, and its attributes."""
    if index.dtype is not _dtype.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {SCALAR_NAMES[index.dtype]}")
    if x.dtype is not source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{SCALAR_NAMES[x.dtype]} and source.dtype = {SCALAR_NAMES[source.dtype]}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    return (index, source), {"accumulate": bool(accumulate)}


@method(in_place=by_op_of(_put, _put_operands))
@calls_by_shape
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with the elements of the flattened tensor at `index` set to those of `source`, or increased by them.

    Args:
        accumulate: whether to add; repeated indices then add up.
    Shape: input (*); index and source with equally many elements; result the shape of `input`.
    Raises:
        RuntimeError: when `index` is not int64, or `source` is of another dtype or number of elements.
        IndexError: when an index is out of range.

    >>> import tdt
    >>> tdt.put(tdt.zeros(3), tdt.tensor([1]), tdt.tensor([9.0]))
    tensor([0., 9., 0.])
    """
    operands, attributes = _put_operands(input, index, source, accumulate)
    return _put(input, *operands, **attributes)


@method()
@front
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The elements at `indices` along `dim`, where `input` and `indices` broadcast along the other dimensions.

    Args:
        dim: None for the flattened tensors.
    Shape: input (*), indices (*) with as many dimensions; result the broadcast shape, along `dim` that of `indices`.
    Raises:
        RuntimeError: when `indices` is not int64 or has another number of dimensions.

    >>> import tdt
    >>> x = tdt.tensor([[3, 1, 2]])
    >>> tdt.take_along_dim(x, x.argsort(), 1)
    tensor([[1, 2, 3]])
    """
    if dim is not None:
        check_places(input, indices)
    n = input.numel() if dim is None else input.shape[wrap_dim(dim, input.ndim)] if input.ndim else 1
    on_gpu = indices._a.__class__ is _backend.GpuArray  # for which a read would wait
    if not on_gpu:
        values_read("take_along_dim()")
    if indices._a.size and (on_gpu or indices._a.min() < 0):
        indices = indices + n * (indices < 0)
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1), out=out)
    d = wrap_dim(dim, input.ndim)
    if all(k == d or n == m for k, (n, m) in enumerate(zip(input._a.shape, indices._a.shape, strict=True))):
        return gather(input, d, indices, out=out)
    from tdt._ops.shape.views import broadcast_shapes

    shared = list(
        broadcast_shapes(
            [1 if k == d else n for k, n in enumerate(input.shape)],
            [1 if k == d else n for k, n in enumerate(indices.shape)],
        )
    )

    def expanded(x: Tensor) -> Tensor:
        return x.expand([x.shape[k] if k == d else n for k, n in enumerate(shared)])

    return gather(expanded(input), d, expanded(indices), out=out)
