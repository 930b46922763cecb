"""Copies that join tensors: cat, stack, hstack and their like; atleast_1d to atleast_3d."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, overload

import numpy as np

from tdt import _kernels
from tdt._backend.layout import joined
from tdt._backend.waiting import gives_views, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import TENSOR_TYPES, front
from tdt._core.dtype import FLOAT8S
from tdt._core.methods import function_alias
from tdt._core.mode import INFERENCE, state
from tdt._core.tensor import Tensor, View, wrap
from tdt._core.writing import refuse_shared
from tdt._ops._common import wrap_dim
from tdt.autograd._dispatch import apply
from tdt.autograd._inplace import copy_into
from tdt.autograd._op import Op, finish, op
from tdt.autograd._record import FINISH, GATHER, repeated
from tdt.autograd._views import follow

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack",
    "stack", "vstack",
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


JOIN = (_kernels.gpu_kernel("place_gpu:join", _kernels.gpu_joined),)


@op(broadcasts=False, computes=False, float8=FLOAT8S, sparse_gradients=True)
@repeatable
def _cat(xp: ModuleType, *tensors: Any, dim: int) -> Any:
    if xp is np and (small := _kernels.join_arrays(tensors, dim, False)) is not None:
        return small
    if (fast := in_rows(tensors, dim, contiguous=True)) is not None:
        return fast
    if xp is not np and (on_gpu := _kernels.chosen(JOIN, xp, *tensors, dim=dim)):
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
@gives_views
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
    if _cat.layouts and out is None and (found := _on_gpu(_cat, tensors, dim, False)) is not None:
        return found
    if out is None and (small := _small(_cat, tensors, dim, False)) is not None:
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


def _on_gpu(op: Op, tensors: Any, dim: Any, new: bool) -> Any:
    """Tensors joined by the program of such calls on a GPU; None without one. new: `dim` is a new dimension."""
    if dim.__class__ is not int or tensors.__class__ not in (list, tuple) or not tensors:
        return None
    if dim < 0:
        kind = tensors[0].__class__
        if kind not in TENSOR_TYPES:
            return None
        dim += tensors[0]._a.ndim + new
    return repeated(op, tuple(tensors), {"dim": dim})[0]


def _small(op: Op, tensors: Any, dim: Any, new: bool) -> Tensor | None:
    """Small tensors of one type joined, by `op` where that is recorded; None for others. new: `dim` is a new dimension."""
    recorded = state.fast_record
    if recorded is None and state.inference:
        recorded = state.uncast_record
    if recorded is None or dim.__class__ is not int:
        return None
    array = _join["tensors"](tensors, dim, new, recorded is True)
    if array is None:
        return _recorded(op, tensors, dim, new) if recorded is True else None
    joined = wrap(array)
    if recorded is INFERENCE:
        joined._st.inference = True
    return joined


def _recorded(op: Op, tensors: Any, dim: int, new: bool) -> Tensor | None:
    """As `_small`, where one may require a gradient."""
    if tensors.__class__ is not list and tensors.__class__ is not tuple:
        return None
    operands = tuple(tensors)
    found = GATHER.call(op.plans, operands)
    if found is None or (array := _kernels.join_arrays(found[1], dim, new)) is None:
        return None
    place = {"dim": dim if dim >= 0 else dim + array.ndim}
    out: Tensor = FINISH.call(op, found[0], operands, found[1], place, array, None, None)
    return out


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
@repeatable
def _stack(xp: ModuleType, *tensors: Any, dim: int) -> Any:
    if xp is np and (small := _kernels.join_arrays(tensors, dim, True)) is not None:
        return small
    shape = tensors[0].shape
    if dim == len(shape):
        return _cat.forward(xp, *[x[..., None] for x in tensors], dim=dim)
    return _cat.forward(xp, *tensors, dim=dim).reshape(*shape[:dim], len(tensors), *shape[dim:])


_stack.vjp("tensors")(lambda g, index, dim: g.select(dim, index))
_stack.fast_vjp("tensors")(gives_views(lambda g, index, dim: g[(*(slice(None),) * dim, index, ...)]))


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
    if _stack.layouts and out is None and (found := _on_gpu(_stack, tensors, dim, True)) is not None:
        return found
    if out is None and (small := _small(_stack, tensors, dim, True)) is not None:
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
    refuse_shared(out, *[x for x in tensors if x._a.size])
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
