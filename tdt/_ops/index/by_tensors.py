"""Indexing with tensors of integers or bools: entries are gathered, written to and added to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.layout import in_order, is_descending
from tdt._backend.scatter import add_at
from tdt._backend.waiting import repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import TENSOR_TYPES, front
from tdt._core.dtype import FLOAT8_SIGNED, FLOAT8S
from tdt._core.memory_format import preserve_format
from tdt._core.methods import method
from tdt._core.mode import state
from tdt._core.tensor import Tensor, alias, wrap
from tdt._core.writing import SHARED, fills_block
from tdt._kernels import chosen
from tdt._kernels._conditions import LARGE_INDEX
from tdt._ops.index.direct import set_directly
from tdt._ops.index.nonzero import nonzero
from tdt._ops.shape.memory import in_format
from tdt._ops.shape.views import expand
from tdt.autograd._in_place_methods import small_overwritten
from tdt.autograd._inplace import check_inplace, is_plain
from tdt.autograd._node import sum_to
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape
from tdt.autograd._views import follow

__all__ = ["index_put", "index_put_"]

INTEGERS = {_dtype.int64.np, _dtype.int32.np}


def _fitted(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A value of another shape than the target's without its leading dimensions of size 1; RuntimeError if it is no fit."""
    have = value._a.shape
    if have != shape and have[:1] == (1,):
        value = value.reshape(have[next((i for i, n in enumerate(have) if n != 1), len(have)) :])
        have = value._a.shape
    try:
        fits = np.broadcast_shapes(have, shape) == shape
    except ValueError:
        fits = False
    if len(have) > len(shape):
        expand(value, shape)  # raises the error for missing dimensions
    if not fits:
        follow(value)
        d = next((i for i in range(1, len(have) + 1) if i > len(shape) or have[-i] not in (1, shape[-i])), 1)
        raise RuntimeError(
            f"The expanded size of the tensor ({shape[-d] if d <= len(shape) else ''}) must match the existing size "
            f"({have[-d]}) "
            f"at non-singleton dimension {max(len(shape) - d, 0)}.  Target sizes: {list(shape)}.  Tensor sizes: "
            f"{list(have)}"
        )
    return value


def _integers(p: Tensor, shape: tuple[int, ...], d: int) -> list[Tensor]:
    """An index tensor as integer tensors, one per dimension it takes: a mask becomes the places where it holds.

    These have its storage, so that a backward pass is refused after a write to the mask.
    """
    if p.dtype in (_dtype.bool, _dtype.uint8):
        for k, n in enumerate(p._a.shape):
            if n != shape[d + k]:
                raise IndexError(
                    f"The shape of the mask {list(p._a.shape)} at index {k} does not match the shape of the indexed "
                    "tensor "
                    f"{list(shape)} at index {d + k}"
                )
        return [alias(places._a, None, p._st) for places in nonzero(p, as_tuple=True)]
    if p.dtype not in (_dtype.int64, _dtype.int32):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return [p]


def _arrays(tensors: tuple, dims: tuple[int, ...], ndim: int) -> tuple[Any, ...]:
    """The index tuple of an array: `tensors` at `dims`, everything elsewhere."""
    if dims and len(dims) == dims[-1] + 1:
        return tensors
    full: list[Any] = [slice(None)] * ndim
    for d, t in zip(dims, tensors, strict=True):
        full[d] = t
    return tuple(full)


def _check_broadcast(tensors: Sequence[Any]) -> None:
    """IndexError for index tensors (or arrays) whose shapes do not broadcast."""
    try:
        np.broadcast_shapes(*[t.shape for t in tensors])
    except ValueError:
        shapes = ", ".join(str(list(t.shape)) for t in tensors)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


def _checked(x: Any, tensors: tuple, dims: tuple[int, ...]) -> None:
    """IndexError for an entry outside its dimension; broadcasting errors in PyTorch's words."""
    _check_shapes(x.shape, tensors, dims)
    for d, t in zip(dims, tensors, strict=True):
        n = x.shape[d]
        if t.size and isinstance(t, np.ndarray) and not (-n <= t.min() and t.max() < n):
            bad = t[(t < -n) | (t >= n)].flat[0]
            raise IndexError(f"index {bad} is out of bounds for dimension {d} with size {n}")


def _check_shapes(shape: tuple[int, ...], tensors: Sequence[Any], dims: tuple[int, ...]) -> None:
    """IndexError for index tensors (or arrays) that do not broadcast, or that point into a dimension of size 0."""
    _check_broadcast(tensors)
    if any(not shape[d] and 0 not in t.shape for d, t in zip(dims, tensors, strict=True)):
        raise IndexError("index is out of bounds for dimension with size 0")


def _indexed_shape(shape: tuple[int, ...], tensors: Sequence[Any], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of x[tensors at dims]: the tensors' broadcast shape replaces adjacent dims; else it comes first."""
    rest = [n for d, n in enumerate(shape) if d not in dims]
    place = dims[0] if dims and dims[-1] - dims[0] + 1 == len(dims) else 0
    return (*rest[:place], *np.broadcast_shapes(*[t.shape for t in tensors]), *rest[place:])


_ROWS = (_kernels.gpu_kernel("embedding_gpu:embedding", _kernels.gpu_table),)
_ROWS_GRADIENT = (_kernels.gpu_kernel("embedding_gpu:embedding_grad", _kernels.gpu_lookup),)
OUTSIDE = "index {value} is out of bounds for dimension 0 with size {limit}"


@op(promote=(), broadcasts=False, computes=False, name="index", float8=FLOAT8S)
@repeatable
def _index(xp: ModuleType, x: Any, *tensors: Any, dims: tuple[int, ...]) -> Any:
    if xp is not np and dims == (0,) and tensors[0].flags.c_contiguous and (rows := chosen(_ROWS, xp, x, *tensors)):
        return rows(x, *tensors, message=OUTSIDE, from_end=True)
    try:
        if xp is np and len(dims) == 1 and x.flags.c_contiguous and tensors[0].flags.c_contiguous:
            return np.asarray(x.take(tensors[0], dims[0]))
        picked = x[_arrays(tensors, dims, x.ndim)]
    except IndexError:
        _checked(x, tensors, dims)
        raise
    if picked.flags.c_contiguous and x.flags.c_contiguous and all(t.flags.c_contiguous for t in tensors):
        return picked
    # PyTorch orders the result's memory as that of x without the indexed dimensions, and then as that of the indices.
    rest = [s for d, s in enumerate(x.strides) if d not in dims]
    in_rows = all(t.shape == tensors[0].shape and (t.ndim == 1 or t.flags.c_contiguous) for t in tensors)
    if in_rows and is_descending(tuple(rest)):
        return xp.ascontiguousarray(picked)
    place = dims[0] if dims[-1] - dims[0] + 1 == len(dims) else 0
    strides = [*rest[:place], *[0] * (picked.ndim - len(rest)), *rest[place:]]
    strided = _backend.as_strided(x, picked.shape, strides)
    return in_order(xp, picked, [strided, *[t.reshape(*t.shape, *[1] * (len(rest) - place)) for t in tensors]])


@_index.vjp("x")
def _(g: Tensor, tensors: list, x_shape: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    return _index_put(g.new_zeros(x_shape), g, *tensors, dims=dims, accumulate=True)


@_index.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, tensors: list, x_shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    how = {"rows": x_shape[0] if x_shape else 0, "padding_idx": None, "by_frequency": False}
    if xp is not np and dims == (0,) and (rows := chosen(_ROWS_GRADIENT, xp, g, *tensors, **how)):
        return rows(g, *tensors, **how)
    return _put_into(xp.zeros(x_shape, g.dtype), g, tensors, dims, True)


@op(promote=(), broadcasts=False, computes=False, data_dependent=True, node="IndexBackward0", float8=FLOAT8S)
def _index_mask(xp: ModuleType, x: Any, mask: Any) -> Any:
    """The entries of a contiguous x where a mask of its first dimensions is set."""
    return x[mask]


@_index_mask.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], mask: Tensor) -> Tensor:
    places = [wrap(each) for each in mask._a.nonzero()]
    return _index_put(g.new_zeros(x_shape), g, *places, dims=tuple(range(mask.ndim)), accumulate=True)


@_index_mask.fast_vjp("x")
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], mask: Any) -> Any:
    out = xp.zeros(x_shape, g.dtype)
    out[mask] = g + g.dtype.type(0)  # as a sum with 0, which -0.0 is not
    return out


def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x indexed by one tensor per dimension, None for a dimension left whole."""
    dims = tuple([d for d, t in enumerate(indices) if t is not None])
    return _index(x, *[indices[d] for d in dims], dims=dims)


@op(promote=(), broadcasts=False, computes=False, repeats=True, name="index_put", float8=FLOAT8_SIGNED)
def _index_put(
    xp: ModuleType, x: Any, values: Any, *tensors: Any, dims: tuple[int, ...], accumulate: bool, out: Any = None
) -> Any:
    creates, out = out is None, in_format(xp, x, preserve_format) if out is None else out
    looks_first = not accumulate or out.size >= _kernels.SMALL_INDEXED  # at all indices, before the kernel writes
    if (creates or looks_first) and _placed(out, values, tensors, dims, accumulate):
        return out
    _checked(x, tensors, dims)
    return _put_into(out, values, tensors, dims, accumulate)


@_kernels.prepares(_index_put.forward)
def _(x: Any, values: Any, *tensors: Any, dims: tuple[int, ...], accumulate: bool, recorded: bool) -> Any:
    if not _placed(x.copy(), values, tensors, dims, accumulate):
        return None
    how = "sum" if accumulate else "set"
    if len(dims) == 1 == tensors[0].ndim:
        place = _kernels.prepared_placed(x, tensors[0], values, dims[0], negative=True, how=how)
        if place is not None:
            return lambda x, values, index: place(x, index, values)
    elif (place := _prepared_at_pairs(x, values, tensors, dims, how)) is not None:
        return place

    def put(x: Any, values: Any, *tensors: Any) -> Any:
        out = x.copy()
        if not _placed(out, values, tensors, dims, accumulate):
            raise IndexError("an index is out of range")
        return out

    return put


def _prepared_at_pairs(x: Any, values: Any, tensors: Any, dims: tuple[int, ...], how: str) -> Any:
    """A function that places as many values as there are pairs of integers, for two neighbouring dimensions; None for others."""
    indexed, shape = x.shape[dims[0] : dims[-1] + 1], x.shape
    rows = (*shape[: dims[0]], tensors[0].size, *shape[dims[-1] + 1 :])
    target = (*shape[: dims[0]], math.prod(indexed), *shape[dims[-1] + 1 :])
    places = _kernels.prepared_flat_index(tensors, indexed)
    if places is None or values.size != math.prod(rows):
        return None
    place = _kernels.prepared_placed(x.reshape(target), places(*tensors), values.reshape(rows), dims[0], how=how)
    return place and (
        lambda x, values, *tensors: place(x.reshape(target), places(*tensors), values.reshape(rows)).reshape(shape)
    )


def _put_into(out: Any, values: Any, tensors: Any, dims: tuple[int, ...], accumulate: bool) -> Any:
    """`out` after `values` were written, or added, to its entries at indices in range."""
    if _placed(out, values, tensors, dims, accumulate):
        return out
    where = _arrays(tuple(tensors), dims, out.ndim)
    if accumulate:
        add_at(out, where, values)
    else:
        out[where] = values
    return out


def _placed(out: Any, values: Any, tensors: Any, dims: tuple[int, ...], accumulate: bool) -> bool:
    """Whether a kernel has written `values` to the entries at indices of neighbouring dimensions, or added them.

    If an index is out of range, the result is False, and some values may be written already.
    """
    first, count = dims[0] if dims else 0, len(dims)
    if not dims or dims[-1] - first + 1 != count or not out.flags.c_contiguous:
        return False
    before, indexed, behind = out.shape[:first], out.shape[first : first + count], out.shape[first + count :]
    if max([t.size for t in tensors]) * math.prod(before) * math.prod(behind) < LARGE_INDEX:
        return False
    index = tensors[0] if count == 1 else _kernels.flat_index(tensors, indexed)
    if index is None or index.dtype.kind != "i":
        return False
    shape = (*before, *index.shape, *behind)
    if values.shape != shape:
        if not accumulate:  # NumPy writes one value to many places without repeating it in memory
            return False
        values = np.broadcast_to(values, shape)
    rows = values.reshape(*before, index.size, *behind)
    target = out.reshape(*before, math.prod(indexed), *behind)
    return _kernels.placed(target, index.reshape(-1), rows, first, "sum" if accumulate else "set", True)


@_index_put.vjp("x")
def _(g: Tensor, tensors: list, values_shape: tuple[int, ...], dims: tuple[int, ...], accumulate: bool) -> Tensor:
    return g if accumulate else _index_put(g, g.new_zeros(values_shape), *tensors, dims=dims, accumulate=False)


@_index_put.vjp("values")
def _(g: Tensor, tensors: list, values_shape: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    return _index(g, *tensors, dims=dims).sum_to_size(values_shape)


@_index_put.fast_vjp("x")
def _(xp: ModuleType, g: Any, tensors: list, dims: tuple[int, ...], accumulate: bool) -> Any:
    if accumulate:
        return g
    rest = g.copy()
    rest[_arrays(tuple(tensors), dims, g.ndim)] = 0
    return rest


@_index_put.fast_vjp("values")
def _(xp: ModuleType, g: Any, tensors: list, values_shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    picked = _index.forward(xp, g, *tensors, dims=dims)
    return picked if picked.shape == values_shape else sum_to(picked, values_shape)


def _put_operands(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> tuple[list[Tensor], tuple[int, ...], Tensor]:
    full: list[Tensor | None] = []
    for t in indices:
        full.extend([None] if t is None else _integers(t, x._a.shape, len(full)))
    if len(full) > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {len(full)})")
    dims = tuple([d for d, t in enumerate(full) if t is not None])
    tensors: list[Any] = [full[d] for d in dims]
    _check_shapes(x._a.shape, tensors, dims)
    target = _indexed_shape(x._a.shape, tensors, dims)
    try:
        fitted = _fitted(values, target)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(target)}"
        ) from None
    if values.dtype is not x.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {_dtype.SCALAR_NAMES[x.dtype]} for the "
            f"destination and {_dtype.SCALAR_NAMES[values.dtype]} for the source."
        )
    return tensors, dims, fitted


def _integer_places(indices: Sequence[Tensor | None]) -> list[Any] | None:
    """The arguments of `_index_put_at` for tensors of integers, at least one; None for others."""
    whole: list[int] = []
    present: list[Any] = []
    for t in indices:
        whole.append(int(t is None))
        if t is not None:
            if t.__class__ not in TENSOR_TYPES or t._a.dtype not in INTEGERS:
                return None
            present.append(t)
    return [tuple(whole), *present] if present else None


@method()
@front
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with input[indices] set to `values`, or increased by them.

    Args:
        indices: one integer or bool tensor for each dimension, or None for all of it; as in `input[indices]`.
        accumulate: whether to add; repeated indices then add up.
    Shape: input (*); values broadcastable to input[indices]; result the shape of `input`.
    Raises:
        IndexError: when there are more indices than dimensions, or an index is out of range.
        RuntimeError: when dtypes differ or `values` does not broadcast.

    >>> import tdt
    >>> tdt.index_put(tdt.zeros(3), (tdt.tensor([0, 0]),), tdt.ones(2), accumulate=True)
    tensor([2., 0., 0.])
    """
    if (places := _integer_places(indices)) is not None:
        return _index_put_at(input, values, bool(accumulate), *places)
    if any(map(_is_whole_mask, indices)):
        target, rest = _without_whole_masks(input, indices)
        return index_put(target, rest, values, accumulate).reshape(input._a.shape)
    tensors, dims, values = _put_operands(input, indices, values)
    return _index_put(input, values, *tensors, dims=dims, accumulate=accumulate)


def _is_whole_mask(t: Tensor | None) -> bool:
    return t is not None and not t._a.ndim and t.dtype is _dtype.bool


def _without_whole_masks(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor | None]]:
    """What is indexed, and by what, in PyTorch: masks without dimensions count where there is nothing else."""
    rest = [t for t in indices if not _is_whole_mask(t)]
    if rest:
        return x, rest
    holds = all(t is not None and t.item() for t in indices)
    return x.unsqueeze(0), [x.new_zeros(int(holds), dtype=_dtype.int64)]


@calls_by_shape
def _index_put_at(input: Tensor, values: Tensor, accumulate: bool, whole: tuple[int, ...], *indices: Tensor) -> Tensor:
    """`index_put` at integers; whole: 1 for each dimension without an index before the last that has one, else 0."""
    present = iter(indices)
    tensors, dims, values = _put_operands(input, [None if each else next(present) for each in whole], values)
    return _index_put(input, values, *tensors, dims=dims, accumulate=accumulate)


@method()
@front
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """In-place version of `index_put`.

    Raises:
        IndexError: when there are more indices than dimensions, or an index is out of range.
        RuntimeError: when `values` shares memory with `input` and neither has gaps, dtypes differ or `values` does not broadcast.

    >>> import tdt
    >>> tdt.zeros(3).index_put_((tdt.tensor([0, 2]),), tdt.tensor(5.0))
    tensor([5., 0., 5.])
    """
    if state.grad and (input.requires_grad or values.requires_grad):
        check_inplace(input)
        follow(input, values)
    if len(indices) > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim} (got {len(indices)})")
    if values is input or (values._st is input._st and _backend.may_overlap(input._a, values._a)):
        values = _apart(input, indices, values, accumulate)
    alike = not accumulate and values.__class__ is Tensor and {*map(type, indices)} == {Tensor}
    if alike and is_plain(input) and set_directly(input, tuple(indices), values):
        return input
    places = _integer_places(indices)
    if places is not None and small_overwritten(_index_put_at, input, values, bool(accumulate), *places):
        return input
    if any(map(_is_whole_mask, indices)):
        index_put_(*_without_whole_masks(input, indices), values, accumulate)
        return input
    tensors, dims, values = _put_operands(input, indices, values)
    return _index_put.inplace(input, values, *tensors, dims=dims, accumulate=accumulate)


def _apart(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """A copy of `values`, which share memory with `input`; RuntimeError where PyTorch refuses them.

    It does where both are without gaps, but for one value at the places of a mask, which it fills with that.
    """
    is_fill = values._a.size == 1 and not accumulate and [t.dtype for t in indices if t is not None] == [_dtype.bool]
    if not is_fill and (values is input or (fills_block(input._a) and fills_block(values._a))):
        raise RuntimeError(SHARED)
    return values.clone()
