"""Indexing with square brackets: basic indices are views, tensors of integers or bools gather and scatter."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core import dtype as _dtype
from tdt._core.aliases import Number
from tdt._core.float8 import astype
from tdt._core.from_data import fill_number
from tdt._core.methods import method
from tdt._core.mode import state
from tdt._core.tensor import Tensor, alias, wrap
from tdt._core.writing import is_same_data
from tdt._ops.elementwise.fills import _copy, _fill
from tdt._ops.index.by_tensors import _fitted, _index, _index_mask, _integers, index, index_put_
from tdt._ops.index.direct import (
    INT64,
    picked_at,
    picked_by,
    plain_spec,
    range_of,
    set_directly,
    set_on_gpu,
    spec_and_places,
    width,
    with_numbers,
)
from tdt._ops.shape.views import ALL_OF, decoded, expand, slice_view
from tdt.autograd._arrays import unrecorded
from tdt.autograd._dispatch import view_of
from tdt.autograd._inplace import is_plain, write

__all__: list[str] = []  # methods of tensors alone

BASIC = (int, slice, type(None), type(...))
MORE_THAN_NUMBERS = (Tensor, Sequence, np.ndarray, slice, type(None), type(...))


@method("__getitem__")
def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key], for any mix of integers, slices, None, Ellipsis, tensors, sequences and bools."""
    kind = key.__class__
    if kind is Tensor and not key._a.ndim and x._a.ndim:
        key = key.item() if key._a.dtype is INT64 else _part(x, key)
        kind = key.__class__
    if kind is int:
        shape = x._a.shape
        if not shape or not -shape[0] <= key < shape[0]:
            _place(key, shape, 0)
        at = (key, ...)
        return view_of(slice_view, x, {"spec": at}, operator.getitem, at)
    if kind is slice:
        if not x._a.ndim:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        return view_of(slice_view, x, {"spec": (range_of(key), ...)}, operator.getitem, (key, ...))
    if kind is Tensor and (picked := _at_tensor(x, key)) is not None:
        return picked
    if kind is list and (picked := picked_at(x, (key,))) is not None:
        return picked
    if key is None or key is ...:
        key, kind = (key,), tuple
    if kind is tuple and (picked := _at_tuple(x, key)) is not None:
        return picked
    viewed, indices = parse(x, key)
    return viewed if indices is None else index(viewed, indices)


def _at_tuple(x: Tensor, key: tuple) -> Tensor | None:
    """x[key] for what needs no call of `parse`; None for all other keys."""
    if (spec := plain_spec(x._a.shape, key)) is not None:
        key = key if ... in key else (*key, ...)
        return view_of(slice_view, x, {"spec": spec}, operator.getitem, key)
    if (numbers := with_numbers(key)) is not None:
        return getitem(x, numbers)
    if (picked := picked_at(x, key)) is not None:
        return picked
    if (found := spec_and_places(x._a.shape, key)) is not None:
        spec, dims, tensors = found
        return _index(x if spec is None else _sliced(x, spec), *tensors, dims=dims)
    return None


def _at_tensor(x: Tensor, key: Tensor) -> Tensor | None:
    """x[key] for integers, or a mask, of one dimension or more; None for what `parse` takes apart."""
    if (picked := picked_by(x, key)) is not None:
        return picked
    if key._a.dtype == np.int64 and key._a.ndim and x._a.ndim:
        return _index(x, key, dims=(0,))
    if not x._a.flags.c_contiguous and (picked := picked_at(x, (key,))) is not None:
        return picked
    return _masked(x, key)


def _masked(x: Tensor, key: Tensor) -> Tensor | None:
    """x[key] for a NumPy tensor and a mask of its first dimensions; None for all others."""
    mask, ndim = key._a, key._a.ndim
    if x._a.__class__ is not np.ndarray or not unrecorded(key) or not ndim:
        return None
    if mask.dtype != np.bool_ or mask.shape != x._a.shape[:ndim]:
        return None
    if state.handler is None and x._a.flags.c_contiguous and mask.flags.c_contiguous:
        return _index_mask(x, key)
    return _index(x, *[alias(places, None, key._st) for places in mask.nonzero()], dims=tuple(range(ndim)))


@method("__setitem__")
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value, with value broadcast and converted."""
    if key.__class__ is Tensor and not key._a.ndim and x._a.ndim:
        key = key.item() if key._a.dtype is INT64 else _part(x, key)
    if (is_plain(x) and set_directly(x, key, value)) or set_on_gpu(x, key, value):
        return
    if isinstance(value, np.integer):
        value = int(value)
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if not isinstance(value, (Tensor, bool, int, float, complex)):
        raise TypeError(
            f"can't assign a {type(value).__name__} to a torch.{_dtype.SCALAR_NAMES[x.dtype]}Tensor; give a number or a tensor"
        )
    if key is False:  # names no element
        return
    key = None if key is True else key
    if x._a.dtype.itemsize < 4 and isinstance(value, int | float) and x.dtype.category == _dtype.FLOAT:
        value = astype(
            np.asarray(value, np.float64), x._a.dtype
        ).item()  # too large a number becomes what rounding gives
    viewed, indices = _target(x, key)
    if indices is None:
        if isinstance(value, Tensor):
            if value._a.ndim:
                value = _fitted(value, viewed._a.shape)
                value = value if value._a.shape == viewed._a.shape else expand(value, viewed._a.shape)
            write(_copy, viewed, (value,), {}, repeats=is_same_data(viewed, value))
        else:
            write(_fill, viewed, (value,), {}, repeats=False)
        return
    if not isinstance(value, Tensor):
        value = x.new_full((), value)
    elif value._a.size == 1 and (value.dtype is not x.dtype or value._st is x._st) and _is_one_mask(x, key):
        value = value.to(x.dtype, copy=True)  # as masked_fill, it converts, and takes one of x's elements
    index_put_(viewed, indices, value)


def _target(x: Tensor, key: Any) -> tuple[Tensor, list[Tensor | None] | None]:
    """What x[key] = v writes to, as of `parse`."""
    if _names_all(x, key):
        return x, None
    return (getitem(x, key), None) if key.__class__ in (int, slice) and x._a.ndim else parse(x, key)


def _names_all(x: Tensor, key: Any) -> bool:
    """Whether x[key] is x itself: x[...] = v and x[:] = v write to x, not to a view of it."""
    shape, parts = x._a.shape, key if isinstance(key, tuple) else (key,)
    d = 0
    for k in parts:
        if k is ... and len(parts) <= len(shape) + 1:
            d += len(shape) - len(parts) + 1
        elif not isinstance(k, slice) or not 0 <= d < len(shape) or k.indices(shape[d]) != (0, shape[d], 1):
            return False
        else:
            d += 1
    return parts != ()


def _is_one_mask(x: Tensor, key: Any) -> bool:
    """Whether all that a key has of tensors is a mask."""
    parts = [_part(x, k) for k in (key if isinstance(key, tuple) else (key,))]
    tensors = [p for p in parts if isinstance(p, Tensor)]
    return len(tensors) == 1 and tensors[0].ndim > 0 and tensors[0].dtype in (_dtype.bool, _dtype.uint8)


def _place(i: Any, shape: tuple[int, ...], d: int, position: int = 0) -> int:
    """`i` as an index of dimension `d`; IndexError, which names the position in the key as PyTorch does, outside it."""
    i = operator.index(i)
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
            "0-dim tensor to a number"
        )
    if not -shape[d] <= i < shape[d]:
        raise IndexError(f"index {i} is out of bounds for dimension {position} with size {shape[d]}")
    return i


def parse(x: Tensor, key: Any) -> tuple[Tensor, list[Tensor | None] | None]:
    """The view that the basic parts of `key` select, and the tensors that index it (None: a dimension left whole)."""
    parts = [_part(x, k) for k in _tuple_of(key)]
    shape = x._a.shape
    used = sum(width(p) for p in parts)
    if used > len(shape):
        if not shape and isinstance(parts[0], int) and not isinstance(key, (tuple, Tensor)):
            _place(0, shape, 0)
        if not shape and isinstance(key, slice):
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    spec: list[Any]
    indices: list[Tensor | None]
    spec, indices, d, expanded = [], [], 0, False
    for position, p in enumerate(parts):
        if p is ... and not expanded:
            expanded, missing = True, len(shape) - used
            spec.extend([ALL_OF] * missing)
            indices.extend([None] * missing)
            d += missing
        elif p is None or p is ...:
            spec.extend([None] if p is None else [])
            indices.extend([None] if p is None else [])
        elif isinstance(p, int):
            spec.append(_place(p, shape, d, position))
            d += 1
        elif isinstance(p, slice):
            spec.append(range_of(p))
            indices.append(None)
            d += 1
        elif p.dtype is _dtype.bool and not p.ndim:  # True and False add a dimension that is kept or emptied
            spec.append(None)
            indices.append(wrap(_backend.namespace(p._a).flatnonzero(p._a)))
        else:
            found = _integers(p, shape, d)
            spec.extend([ALL_OF] * len(found))
            indices.extend(found)
            d += len(found)
    basic = all(e == ALL_OF for e in spec)
    has_tensors = any(i is not None for i in indices)
    viewed = x if basic and has_tensors else _sliced(x, (*spec, ...))
    return viewed, indices if has_tensors else None


def _sliced(x: Tensor, spec: tuple) -> Tensor:
    return view_of(slice_view, x, {"spec": spec}, operator.getitem, decoded(spec))


def _tuple_of(key: Any) -> tuple:
    """The parts of a key. A list shorter than 32 that has more than numbers in it is a tuple, with a warning, as in PyTorch."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32 and any(isinstance(k, MORE_THAN_NUMBERS) for k in key):
        message = "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead of x[seq]"
        warnings.warn(message, stacklevel=4)
        return tuple(key)
    return (key,)


def _part(x: Tensor, k: Any) -> Any:
    """One part of a key: an int, a slice, None, Ellipsis, or a tensor; IndexError for anything else."""
    if isinstance(k, (bool, np.bool_)):
        return x.new_full((), bool(k), dtype=_dtype.bool)
    if isinstance(k, BASIC):
        return k
    if isinstance(k, Tensor):
        if not k.ndim and k.dtype.category == _dtype.INT and k.dtype is not _dtype.uint8:
            return int(k.item())
        return k if k.ndim or k.dtype is not _dtype.uint8 else k.to(_dtype.bool)
    if isinstance(k, (Sequence, np.ndarray, range)) and not isinstance(k, str):
        from tdt._core.creation import tensor

        is_mask = isinstance(k, np.ndarray) and k.dtype in (np.bool_, np.uint8)
        if isinstance(k, np.ndarray) and not k.ndim:
            return _part(x, k[()])
        return tensor(k, dtype=None if len(k) or is_mask else _dtype.int64, device=x.device)
    if hasattr(k, "__index__"):
        return operator.index(k)
    if isinstance(k, str):
        raise TypeError("new(): invalid data type 'str'; indices are integers, slices, lists and tensors")
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(k).__name__})"
    )


@method()
def fill_diagonal_(input: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Write a number to the elements whose indices are all equal.

    Args:
        wrap: in a matrix with more rows than columns, start the diagonal again one row after its end.
    Shape: input (m, n), or more dimensions of one size; result `input`.
    Raises:
        RuntimeError: when `input` has fewer than 2 dimensions, or more than 2 of different sizes.

    >>> import tdt
    >>> tdt.zeros(2, 2).fill_diagonal_(5)
    tensor([[5., 0.],
            [0., 5.]])
    """
    if input.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if input.ndim > 2 and len(set(input.shape)) != 1:
        raise RuntimeError(f"all dimensions of input must be of equal length, but got {list(input.shape)}")
    if input.ndim > 2:
        place = input.new_tensor(range(input.shape[0]), dtype=_dtype.int64)
        return index_put_(input, [place] * input.ndim, input.new_full((), fill_value))
    height, width = input.shape
    kind = input._a.dtype.char
    if (
        is_plain(input)
        and width
        and (kind in "fd" if fill_value.__class__ is float else type(fill_value) is int and kind in "fdl")
    ):
        last = height if wrap else min(height, width)
        input._a.reshape(-1)[: last * width : width + 1] = fill_number(fill_value, input.dtype, "fill_value")[0]
        for _ in range(2 if last > width + 1 else 1):  # PyTorch fills the diagonals below the first in a second call
            input._st.bump_version()
        return input
    for top in range(0, height if wrap and width else min(height, 1), width + 1):
        input[top:].diagonal().fill_(fill_value)
    return input


@method()
def __delitem__(self: Tensor, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")
