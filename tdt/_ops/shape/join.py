"""Copies that join or repeat tensors: cat, stack, repeat, tile, meshgrid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Literal, overload

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.layout import joined
from tdt._backend.waiting import repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import TENSOR_TYPES, as_shape, front
from tdt._core.dtype import FLOAT8S
from tdt._core.methods import function_alias, method
from tdt._core.mode import state
from tdt._core.tensor import Tensor, View, wrap
from tdt._core.writing import refuse_shared
from tdt._ops._common import expanded_array, is_int, wrap_dim
from tdt._ops.shape.views import _expand, _reshape
from tdt.autograd._dispatch import apply, unary, view_of
from tdt.autograd._inplace import copy_into
from tdt.autograd._node_names import node_name
from tdt.autograd._op import finish, op
from tdt.autograd._views import follow

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "meshgrid",
    "repeat_interleave", "row_stack", "stack", "tile", "vstack",
]  # fmt: skip


def in_rows(parts: Sequence[Any], dim: int, contiguous: bool = False) -> Any:
    """Large arrays of one type joined along `dim` by a kernel; None where none applies, or where one must be contiguous."""
    if sum([x.size for x in parts]) < _kernels.LARGE_MOVE * len(parts):
        return None
    if contiguous and not all(x.flags.c_contiguous for x in parts):
        return None
    first, length = parts[0], 0
    for x in parts:
        if x.__class__ is not np.ndarray or x.dtype != first.dtype or x.ndim != first.ndim or not x.size:
            return None
        if x.shape[:dim] != first.shape[:dim] or x.shape[dim + 1 :] != first.shape[dim + 1 :]:
            return None
        length += x.shape[dim]
    out = np.empty((*first.shape[:dim], length, *first.shape[dim + 1 :]), first.dtype)
    if _kernels.joined_rows(parts, dim, out):
        return out
    begin, before = 0, (slice(None),) * dim
    for x in parts:
        target = out[(*before, slice(begin, begin + x.shape[dim]))]
        if not _kernels.moved(target, x):
            target[...] = x
        begin += x.shape[dim]
    return out


_JOIN = (_kernels.gpu_kernel("place_gpu:join", _kernels.gpu_joined),)


@op(broadcasts=False, computes=False, float8=FLOAT8S, sparse_gradients=True)
@repeatable
def _cat(xp: ModuleType, *tensors: Any, dim: int) -> Any:
    if xp is np and (small := _kernels.join_arrays(tensors, dim, False)) is not None:
        return small
    if (fast := in_rows(tensors, dim, contiguous=True)) is not None:
        return fast
    if xp is not np and (on_gpu := _kernels.chosen(_JOIN, xp, *tensors, dim=dim)):
        return on_gpu(*tensors, dim=dim)
    try:
        result = xp.concatenate(tensors, dim)
        return result if result.flags.c_contiguous else joined(xp, result, tensors)
    except ValueError:
        first = tensors[0].shape
        for i, x in enumerate(tensors):
            for k, (a, b) in enumerate(zip(first, x.shape, strict=True)):
                if k != dim and a != b:
                    raise RuntimeError(
                        f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} "
                        "for "
                        f"tensor number {i} in the list."
                    ) from None
        raise


@_cat.vjp("tensors")
def _(g: Tensor, index: int, tensors_shape: tuple, dim: int) -> Tensor:
    start = sum(shape[dim] for shape in tensors_shape[:index])
    return g.narrow(dim, start, tensors_shape[index][dim])


@_cat.fast_vjp("tensors")
def _(g: Any, index: int, tensors_shape: tuple, dim: int) -> Any:
    start = sum(shape[dim] for shape in tensors_shape[:index])
    return g[(*(slice(None),) * dim, slice(start, start + tensors_shape[index][dim]))]


@front
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after another along `dim`.

    Shape: tensors equal in all sizes but that of `dim`, or empty (0); result the same, its size along `dim` the sum.
    Raises:
        ValueError: when `tensors` is empty.
        RuntimeError: when a tensor is 0-d, or sizes other than that of `dim` differ.
        TypeError: when an entry is not a tensor, or the promoted dtype cannot be cast to that of `out`.

    >>> import tdt
    >>> tdt.cat([tdt.tensor([1, 2]), tdt.tensor([3])])
    tensor([1, 2, 3])
    """
    if out is None and (small := _small(tensors, dim, False)) is not None:
        return small
    if out is None and dim.__class__ is int and (arrays := unrecorded_arrays(tensors)) is not None:
        try:
            return wrap(_joined(arrays, dim))
        except (ValueError, TypeError):  # the general way raises PyTorch's error, or promotes
            pass
    if out is not None and copy_into(out, cat, (tensors, dim), {}) is not None:
        return out
    tensors = _checked("cat", tensors)
    if out is not None:
        refuse_shared(out, *tensors)
    first = len(tensors[0]._a.shape)
    uneven = not first
    for x in tensors:
        shape = x._a.shape
        if len(shape) != first or shape == (0,):
            uneven = True
    if uneven:
        tensors = _same_ndim(tensors, dim)
        first = tensors[0].ndim
    d = wrap_dim(dim, first)
    if out is None:
        return apply(_cat, tuple(tensors), {"dim": d})
    _castable(out, tensors)
    return finish(_cat, out, *tensors, dim=d)


def _small(tensors: Any, dim: Any, new: bool) -> Tensor | None:
    """Small tensors joined, of which nothing is recorded; None for others. new: `dim` is a new dimension."""
    recorded = state.fast_record
    if recorded is None or dim.__class__ is not int:
        return None
    array = _join["tensors"](tensors, dim, new, recorded)
    return None if array is None else wrap(array)


_join = _kernels.Found(lambda key: _kernels.join_of(Tensor, View) or (lambda *args: None))


def unrecorded_arrays(tensors: Any) -> list[np.ndarray] | None:
    """The arrays of NumPy tensors, small and not recorded; else None."""
    record, arrays, size = state.fast_record, [], 0
    if record is None or tensors.__class__ not in (list, tuple):
        return None
    for x in tensors:
        if x.__class__ not in TENSOR_TYPES:
            return None
        if record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)):  # type: ignore[attr-defined]
            return None
        a = x._a  # type: ignore[attr-defined]
        if a.__class__ is not np.ndarray:
            return None
        size += a.size
        arrays.append(a)
    return arrays if arrays and size < _kernels.LARGE_MOVE * len(arrays) else None


def _joined(arrays: list[np.ndarray], dim: int) -> np.ndarray:
    """Small arrays as `_cat` joins them; ValueError where they do not fit, TypeError for several dtypes."""
    result = np.concatenate(arrays, dim, dtype=arrays[0].dtype, casting="no")
    return result if result.flags.c_contiguous else joined(np, result, arrays)


concat = function_alias("concat", of=cat)
concatenate = function_alias("concatenate", of=cat)


def _same_ndim(tensors: list[Tensor], dim: int) -> list[Tensor]:
    """The tensors, 1-d empty ones reshaped so that `cat` accepts them; RuntimeError for different numbers of dimensions."""
    follow(*tensors)
    for i, x in enumerate(tensors):
        if not x.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    first = next((x for x in tensors if x._a.shape != (0,)), tensors[0])
    d = wrap_dim(dim, first.ndim)
    shape = tuple([0 if k == d else n for k, n in enumerate(first._a.shape)])
    alike = [x.reshape(shape) if x._a.shape == (0,) and first.ndim > 1 else x for x in tensors]
    for x in alike:
        if x.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}")
    return alike


def _castable(out: Tensor | None, tensors: list[Tensor]) -> None:
    """TypeError if the promoted dtype of the tensors cannot be cast to that of `out`."""
    if out is not None and any(not _dtype.can_cast(x.dtype, out.dtype) for x in tensors):
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {_dtype.SCALAR_NAMES[out.dtype]}"
        )


def _checked(name: str, tensors: Any) -> list[Tensor]:
    """The sequence as a list of tensors; PyTorch's errors for anything else."""
    if isinstance(tensors, Tensor):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = list(tensors)
    if not tensors:
        if name == "cat":
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    return tensors


@op(broadcasts=False, computes=False, float8=FLOAT8S, sparse_gradients=True)
def _stack(xp: ModuleType, *tensors: Any, dim: int) -> Any:
    if xp is np and (small := _kernels.join_arrays(tensors, dim, True)) is not None:
        return small
    shape = tensors[0].shape
    if dim == len(shape):
        return _cat.forward(xp, *[x[..., None] for x in tensors], dim=dim)
    return _cat.forward(xp, *tensors, dim=dim).reshape(*shape[:dim], len(tensors), *shape[dim:])


_stack.vjp("tensors")(lambda g, index, dim: g.select(dim, index))
_stack.fast_vjp("tensors")(lambda g, index, dim: g[(*(slice(None),) * dim, index, ...)])


@front
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors along a new dimension `dim`.

    Shape: n tensors of one shape (*); result (*, n, *), n at `dim`.
    Raises:
        RuntimeError: when `tensors` is empty or its shapes differ.
        TypeError: when an entry is not a tensor.

    >>> import tdt
    >>> tdt.stack([tdt.tensor([1, 2]), tdt.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    if out is None and (small := _small(tensors, dim, True)) is not None:
        return small
    tensors = _checked("stack", tensors)
    first = tensors[0]._a.shape
    for i, x in enumerate(tensors):
        if x._a.shape != first:
            follow(*tensors)
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(x._a.shape)} at entry {i}"
            )
    d = wrap_dim(dim, len(first) + 1)
    if out is None:
        return apply(_stack, tuple(tensors), {"dim": d})
    _castable(out, tensors)
    return finish(_stack, out, *tensors, dim=d)


def _for_each(tensors: tuple[Any, ...], convert: Callable[[Tensor], Tensor]) -> Any:
    """`convert` of one tensor, or of each one of several or of a sequence."""
    value = tensors[0] if len(tensors) == 1 else tensors
    if isinstance(value, Tensor):
        return convert(value)
    return tuple([convert(x) for x in value])


def _to_1d(x: Tensor) -> Tensor:
    return x if x.ndim else x.reshape(1)


def _to_2d(x: Tensor) -> Tensor:
    return x if x.ndim > 1 else x.reshape(1, 1) if not x.ndim else x[None]


def _to_3d(x: Tensor) -> Tensor:
    return (
        x.reshape(1, 1, 1) if not x.ndim else x[None, :, None] if x.ndim == 1 else x[:, :, None] if x.ndim == 2 else x
    )


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(tensor: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]: ...
@front
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Views of tensors with at least 1 dimension; a tensor that has them is returned unchanged.

    Shape: () becomes (1).

    >>> import tdt
    >>> tdt.atleast_1d(tdt.tensor(1.0)).ndim
    1
    """
    return _for_each(tensors, _to_1d)


@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensor: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]: ...
@front
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Views of tensors with at least 2 dimensions; a tensor that has them is returned unchanged.

    Shape: () becomes (1, 1), (n) becomes (1, n).

    >>> import tdt
    >>> tdt.atleast_2d(tdt.tensor(1.0)).ndim
    2
    """
    return _for_each(tensors, _to_2d)


@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensor: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]: ...
@front
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Views of tensors with at least 3 dimensions; a tensor that has them is returned unchanged.

    Shape: () becomes (1, 1, 1), (n) becomes (1, n, 1), (m, n) becomes (m, n, 1).

    >>> import tdt
    >>> tdt.atleast_3d(tdt.tensor(1.0)).ndim
    3
    """
    return _for_each(tensors, _to_3d)


@front
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The tensors joined along dimension 1; vectors along dimension 0.

    Shape: tensors equal in all other sizes; result the same, that size the sum.

    >>> import tdt
    >>> tdt.hstack([tdt.tensor([1]), tdt.tensor([2])])
    tensor([1, 2])
    """
    parts = atleast_1d(_checked("hstack", tensors))
    return cat(parts, 0 if parts[0].ndim == 1 else 1, out=out)


@front
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The tensors joined along dimension 0; a vector counts as a row.

    Shape: tensors (n) or (m, n, *) equal in all other sizes; result (sum of m, n, *).

    >>> import tdt
    >>> tdt.vstack([tdt.tensor([1]), tdt.tensor([2])])
    tensor([[1],
            [2]])
    """
    return cat(atleast_2d(_checked("vstack", tensors)), 0, out=out)


row_stack = function_alias("row_stack", of=vstack)


@front
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The tensors joined along dimension 2, after `atleast_3d`.

    Shape: tensors equal in all other sizes; result at least 3-d, its size along dimension 2 the sum.

    >>> import tdt
    >>> tdt.dstack([tdt.tensor([1]), tdt.tensor([2])])
    tensor([[[1, 2]]])
    """
    return cat(atleast_3d(_checked("dstack", tensors)), 2, out=out)


@front
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The tensors joined along dimension 1; a vector counts as a column.

    Shape: tensors (m) or (m, n, *) equal in all other sizes; result (m, sum of n, *).

    >>> import tdt
    >>> tdt.column_stack([tdt.tensor([1, 2]), tdt.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return cat([x if x.ndim > 1 else x.reshape(-1, 1) for x in _checked("column_stack", tensors)], 1, out=out)


@op(computes=False, float8=FLOAT8S)
def _repeat(xp: ModuleType, x: Any, *, times: tuple[int, ...]) -> Any:
    sizes = (1,) * (len(times) - x.ndim) + x.shape
    out = xp.empty([k * size for k, size in zip(times, sizes, strict=True)], x.dtype)
    parts = out.reshape([n for pair in zip(times, sizes, strict=True) for n in pair])
    parts[...] = x.reshape([n for size in sizes for n in (1, size)])
    return out


@_repeat.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], times: tuple[int, ...]) -> Tensor:
    return g.reshape(_pairs(x_shape, times)).sum(tuple(range(0, 2 * len(times), 2))).reshape(x_shape)


@_repeat.fast_vjp("x")
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], times: tuple[int, ...]) -> Any:
    several = tuple([2 * d for d, k in enumerate(times) if k != 1])
    pairs = g.reshape(_pairs(x_shape, times))
    return (_kernels.total(pairs, several, None, False) if several else pairs).reshape(x_shape)


def _pairs(shape: tuple[int, ...], times: tuple[int, ...]) -> list[int]:
    """The shape of a repeated tensor with two dimensions for each: how often, and the size."""
    sizes = (1,) * (len(times) - len(shape)) + tuple(shape)
    return [n for pair in zip(times, sizes, strict=True) for n in pair]


@method()
def repeat(input: Tensor, *times: int | Sequence[int], repeats: Sequence[int] | None = None) -> Tensor:
    """The tensor copied `times[d]` times along each dimension `d`; a method of Tensor.

    Args:
        times: one by one, as one sequence, or as `repeats`; more than the dimensions of `input` add dimensions in front.
    Shape: input (*); result as many dimensions as `times`, each size times its entry.
    Raises:
        RuntimeError: when there are fewer `times` than dimensions, or a negative one.

    >>> import tdt
    >>> tdt.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = as_shape(times if repeats is None else (*times, repeats))
    if len(counts) < input._a.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(n < 0 for n in counts):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(counts)}: {list(counts)}")
    return unary(_repeat, input, {"times": counts})


@front
@node_name("RepeatBackward0")
def tile(input: Tensor, dims: Sequence[int]) -> Tensor:
    """The tensor copied `dims[d]` times along each dimension, counted from the last.

    Args:
        dims: missing entries in front count as 1.
    Shape: input (*); result the longer of input.shape and `dims`, each size times its entry.
    Raises:
        RuntimeError: when an entry is negative.

    >>> import tdt
    >>> tdt.tile(tdt.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    times = as_shape((dims,))
    return repeat(input, *(1,) * (input.ndim - len(times)), *times)


@op(computes=False, float8=FLOAT8S, node="ViewBackward0")
def _repeat_each(xp: ModuleType, x: Any, *, dim: int, times: int) -> Any:
    return xp.repeat(x, times, axis=dim)


@_repeat_each.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: int, times: int) -> Tensor:
    return g.unflatten(dim, (x_shape[dim], times)).sum(dim + 1)


@_repeat_each.fast_vjp("x")
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], dim: int, times: int) -> Any:
    return _kernels.total(g.reshape(*x_shape[: dim + 1], times, *x_shape[dim + 1 :]), (dim + 1,), None, False)


@method()
@front
def repeat_interleave(
    input: Tensor, repeats: Tensor | int | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each entry along `dim` repeated in place: the same number of times, or each its own number.

    Args:
        repeats: a number, or a vector with one for each entry; None: `input` is that vector, and entry i becomes i.
        dim: None for the flattened tensor.
        output_size: the size of the result along `dim`, which is checked.
    Shape: input (*); repeats () or (n) with n = input.shape[dim]; result the same but for `dim`: the sum of `repeats`.
    Raises:
        IndexError: when `dim` is given and `input` has no dimensions.
        NotImplementedError: when `repeats` is not of an integer dtype.
        RuntimeError: when `repeats` is negative or of another size, or `output_size` is wrong.
        TypeError: when `repeats` is neither an integer nor a tensor.

    >>> import tdt
    >>> tdt.repeat_interleave(tdt.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        counts = input
        if counts.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return input.new_tensor(range(len(input))).repeat_interleave(counts, output_size=output_size)
    x = input.reshape(-1) if dim is None else input
    d = wrap_dim(0 if dim is None else dim, x.ndim)
    if not x.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    n = x.shape[d]
    times: Any = repeats._a if isinstance(repeats, Tensor) else repeats
    if not isinstance(repeats, Tensor) and (isinstance(repeats, bool) or not is_int(repeats)):
        raise TypeError(f"repeat_interleave(): repeats must be a Tensor or an int, not {type(repeats).__name__}")
    if isinstance(repeats, Tensor) and repeats.dtype not in (_dtype.int64, _dtype.int32):
        raise NotImplementedError(
            f"\"repeat_interleave_cpu\" not implemented for '{_dtype.SCALAR_NAMES[repeats.dtype]}'"
        )
    if isinstance(repeats, Tensor) and repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if isinstance(repeats, Tensor) and repeats.numel() not in (1, n):
        raise RuntimeError("repeats must have the same size as input along dim, but got "
                           f"repeats.size(0) = {repeats.numel()} and input.size({d}) = {n}")  # fmt: skip
    if (times < 0).any() if isinstance(repeats, Tensor) else times < 0:
        raise RuntimeError("repeats can not be negative")
    if not isinstance(repeats, Tensor):
        result = unary(_repeat_each, x, {"dim": d, "times": repeats})
    else:
        result = x.index_select(d, wrap(_repeated(_backend.namespace(x._a), times.reshape(-1), n)))
    if output_size not in (None, result.shape[d]):
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {result.shape[d]} but got {output_size}")
    return result


def _repeated(xp: Any, times: Any, n: int) -> Any:
    """The places 0 to n - 1, each as often as `times`, of one element or n, says."""
    counts = xp.broadcast_to(times, (n,))
    if not _backend.is_gpu(xp) or not n:
        return xp.repeat(xp.arange(n), counts if n else 1)
    ends = xp.cumsum(counts)  # CuPy repeats all as often
    return xp.searchsorted(ends, xp.arange(int(ends[-1])), side="right")


@front
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: Literal["ij", "xy"] | None = None) -> tuple[Tensor, ...]:
    """The vectors expanded over the grid that they span.

    Args:
        indexing: "ij" (also None): result i varies along dimension i; "xy": the first two dimensions are swapped.
    Shape: tensors (n1), (n2), …; each result (n1, n2, …), for "xy" (n2, n1, …).
    Raises:
        RuntimeError: when there is no tensor, one has 2 or more dimensions, dtypes differ, or `indexing` is unknown.

    >>> import tdt
    >>> tdt.meshgrid(tdt.tensor([1, 2]), tdt.tensor([3, 4]), indexing="ij")[0]
    tensor([[1, 1],
            [2, 2]])
    """
    vectors: list[Any]
    vectors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in vectors:
        if x._a.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
        if x._a.dtype != vectors[0]._a.dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[:2] = vectors[1::-1]
    shape = tuple([x._a.size for x in vectors])
    one = (1,) * len(vectors)
    ways = [(*one[:i], -1, *one[i + 1 :]) for i in range(len(vectors))]
    grids = [
        view_of(_reshape, x, {"shape": way}, np.ndarray.reshape, way) for x, way in zip(vectors, ways, strict=True)
    ]
    grids = [view_of(_expand, x, {"shape": shape}, expanded_array, shape) for x in grids]
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)


@method("tile")
def _tile_method(self: Tensor, *times: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """The tensor copied `times[d]` times along each dimension: `x.tile(2, 1)` or `x.tile((2, 1))`.

    Shape: self (*); result the longer of self.shape and `times`, each size times its entry.

    >>> import tdt
    >>> tdt.tensor([1, 2]).tile(2)
    tensor([1, 2, 1, 2])
    """
    return tile(self, as_shape(times if dims is None else (*times, dims)))
