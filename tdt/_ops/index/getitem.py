"""Indexing with square brackets: basic indices are views, tensors of integers or bools gather and scatter."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.layout import in_order
from tdt._backend.scatter import add_at
from tdt._core import dtype as _dtype
from tdt._core.aliases import Number
from tdt._core.calls import front
from tdt._core.dtype import FLOAT8_SIGNED, FLOAT8S
from tdt._core.float8 import astype
from tdt._core.from_data import LARGE
from tdt._core.methods import method
from tdt._core.mode import state
from tdt._core.tensor import Tensor, wrap
from tdt._core.writing import SHARED
from tdt._ops.elementwise.select import _copy, _fill
from tdt._ops.index.nonzero import nonzero
from tdt._ops.shape.views import ALL_OF, decoded, expand, slice_view
from tdt.autograd._arrays import unrecorded
from tdt.autograd._dispatch import view_of
from tdt.autograd._inplace import check_writable, is_plain, write
from tdt.autograd._node import sum_to
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape
from tdt.autograd._views import follow

__all__ = ["index_put", "index_put_"]

BASIC = (int, slice, type(None), type(...))
PLAIN = {int, type(None)}
INTEGERS = {_dtype.int64, _dtype.int32}
MORE_THAN_NUMBERS = (Tensor, Sequence, np.ndarray, slice, type(None), type(...))


@method("__getitem__")
def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key], for any mix of integers, slices, None, Ellipsis, tensors, sequences and bools."""
    kind = key.__class__
    if kind is int:
        shape = x._a.shape
        if not shape or not -shape[0] <= key < shape[0]:
            _place(key, shape, 0)
        return view_of(slice_view, x, {"spec": (key, ...)})
    if kind is slice:
        if not x._a.ndim:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        return view_of(slice_view, x, {"spec": (_range(key), ...)})
    if kind is Tensor and (picked := _picked(x, key)) is not None:
        return picked
    if kind is Tensor and key._a.dtype == np.int64 and key._a.ndim and x._a.ndim:
        return _index(x, key, dims=(0,))
    if kind is Tensor and x._a.__class__ is np.ndarray and unrecorded(key):
        mask, ndim = key._a, key._a.ndim
        if ndim and mask.dtype == np.bool_ and mask.shape == x._a.shape[:ndim]:
            return _index(x, *[wrap(places) for places in mask.nonzero()], dims=tuple(range(ndim)))
    if key is None or key is ...:
        key, kind = (key,), tuple
    if kind is tuple:
        if (spec := _plain(x._a.shape, key)) is not None:
            return view_of(slice_view, x, {"spec": spec})
        if len(key) <= x._a.ndim and all(k.__class__ is Tensor and k._a.dtype == np.int64 and k._a.ndim for k in key):
            return _index(x, *key, dims=tuple(range(len(key))))
    viewed, indices = parse(x, key)
    return viewed if indices is None else index(viewed, indices)


def _picked(x: Tensor, key: Tensor) -> Tensor | None:
    """x[key] for contiguous NumPy tensors and integers or a mask, where nothing is recorded; None for all others."""
    record = state.fast_record
    if record is None or (record and (x._edge is not None or x._view is not None)):
        return None
    a, k = x._a, key._a
    if a.__class__ is not np.ndarray or k.__class__ is not np.ndarray or not a.flags.c_contiguous or not a.ndim:
        return None
    if (
        k.ndim
        and k.flags.c_contiguous
        and (k.dtype == np.int64 or (k.dtype == np.bool_ and k.shape == a.shape[: k.ndim]))
    ):
        try:
            return wrap(a[k])
        except IndexError:  # of which `index` says more
            return None
    return None


def _plain(shape: tuple[int, ...], key: tuple) -> tuple | None:
    """The spec of a key of integers in range, slices, None and one Ellipsis; None for any other, which `parse` takes apart."""
    spec: list[Any] = []
    d, ndim, expanded = 0, len(shape), False
    for k in key:
        kind = k.__class__
        if k is None:
            spec.append(None)
        elif k is ... and not expanded:
            expanded, rest = True, ndim - sum([k is not None and k is not ... for k in key])
            if rest < 0:
                return None
            spec += (ALL_OF,) * rest
            d += rest
        elif d >= ndim or (kind is not int and kind is not slice):
            return None
        else:
            if kind is slice:
                spec.append(_range(k))
            elif -shape[d] <= k < shape[d]:
                spec.append(k)
            else:
                return None
            d += 1
    return (*spec, ...)


@method("__setitem__")
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value, with value broadcast and converted."""
    if is_plain(x) and _set_directly(x, key, value):
        return
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
    viewed, indices = (x, None) if _names_all(x, key) else parse(x, key)
    if indices is None:
        if isinstance(value, Tensor):
            if value._a.ndim:
                value = _fitted(value, viewed._a.shape)
                value = value if value._a.shape == viewed._a.shape else expand(value, viewed._a.shape)
            _copy.inplace(viewed, value)
        else:
            write(_fill, viewed, (value,), {}, repeats=False)
        return
    if not isinstance(value, Tensor):
        value = x.new_full((), value)
    elif value.dtype is not x.dtype and value._a.size == 1 and _is_one_mask(x, key):  # as masked_fill, it converts
        value = value.to(x.dtype)
    index_put_(viewed, indices, value)


def _set_directly(x: Tensor, key: Any, value: Any) -> bool:
    """Write to the elements that integers and slices name: a number that fits, or a tensor of their shape and dtype.

    Returns: False, with nothing done, for all others.
    """
    a = x._a
    if key.__class__ is Tensor:
        return _set_at(x, key, value)
    spec = _plain(a.shape, key if key.__class__ is tuple else (key,))
    if spec is None:
        return False
    if value.__class__ is Tensor:
        view = a[decoded(spec)]
        if not is_plain(value) or value._a.dtype is not a.dtype or value._a.shape != view.shape:
            return False
        view[...] = value._a
    elif _fits(value, a):
        a[decoded(spec)] = value
    else:
        return False
    x._st.bump_version()
    return True


def _fits(value: Any, a: Any) -> bool:
    """Whether a Python number can be written to an array as it is."""
    return value.__class__ in (float, int) and a.dtype.kind == "f" and a.dtype.itemsize >= 4 and -LARGE < value < LARGE


def _set_at(x: Tensor, key: Tensor, value: Any) -> bool:
    """As `_set_directly`, to the elements that a mask or a tensor of integers names."""
    a, k = x._a, key._a
    if k.__class__ is not np.ndarray or not k.ndim or not a.ndim or key._st is x._st:
        return False
    if not (k.dtype == np.bool_ and k.shape == a.shape[: k.ndim]) and k.dtype != np.int64:
        return False
    if value.__class__ is Tensor:
        v = value._a
        if k.dtype != np.int64 or v.shape != k.shape + a.shape[1:] or not is_plain(value):
            return False
        if v.dtype is not a.dtype or value._st is x._st:
            return False
        value = v
    elif not _fits(value, a):
        return False
    try:
        a[k] = value
    except IndexError:  # of which `index_put_` says more
        return False
    x._st.bump_version()
    return True


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


def _range(key: slice) -> tuple[Any, Any, Any]:
    """A slice as a hashable triple of ints; ValueError for a step that is not positive."""
    start, stop, step = key.start, key.stop, key.step
    if start.__class__ not in PLAIN or stop.__class__ not in PLAIN or step.__class__ not in PLAIN:
        start, stop, step = [None if v is None else operator.index(v) for v in (start, stop, step)]
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return start, stop, step


def parse(x: Tensor, key: Any) -> tuple[Tensor, list[Tensor | None] | None]:
    """The view that the basic parts of `key` select, and the tensors that index it (None: a dimension left whole)."""
    parts = [_part(x, k) for k in _tuple_of(key)]
    shape = x._a.shape
    used = sum(_width(p) for p in parts)
    if used > len(shape):
        if not shape and used == 1 and isinstance(parts[0], int):
            _place(0, shape, 0)
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
            spec.append(_range(p))
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
    viewed = x if basic and has_tensors else slice_view(x, spec=(*spec, ...))
    return viewed, indices if has_tensors else None


def _tuple_of(key: Any) -> tuple:
    """The parts of a key. A list shorter than 32 that has more than numbers in it is a tuple, with a warning, as in PyTorch."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32 and any(isinstance(k, MORE_THAN_NUMBERS) for k in key):
        message = "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead of x[seq]"
        warnings.warn(message, stacklevel=4)
        return tuple(key)
    return (key,)


def _width(p: Any) -> int:
    """How many dimensions one part of a key takes up."""
    if p is None or p is ...:
        return 0
    if isinstance(p, Tensor) and p.dtype in (_dtype.bool, _dtype.uint8):
        return p.ndim
    return 1


def _part(x: Tensor, k: Any) -> Any:
    """One part of a key: an int, a slice, None, Ellipsis, or a tensor; IndexError for anything else."""
    if isinstance(k, (bool, np.bool_)):
        return x.new_full((), bool(k), dtype=_dtype.bool)
    if isinstance(k, BASIC):
        return k
    if isinstance(k, Tensor):
        if not k.ndim and k.dtype.category == _dtype.INT and k.dtype is not _dtype.uint8:
            return int(k.item())
        return k
    if isinstance(k, (Sequence, np.ndarray, range)) and not isinstance(k, str):
        from tdt._core.creation import tensor

        is_mask = isinstance(k, np.ndarray) and k.dtype in (np.bool_, np.uint8)
        return tensor(k, dtype=None if len(k) or is_mask else _dtype.int64, device=x.device)
    if hasattr(k, "__index__"):
        return operator.index(k)
    if isinstance(k, str):
        raise TypeError("new(): invalid data type 'str'; indices are integers, slices, lists and tensors")
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(k).__name__})"
    )


def _integers(p: Tensor, shape: tuple[int, ...], d: int) -> list[Tensor]:
    """An index tensor as integer tensors, one per dimension it takes: a mask becomes the places where it holds."""
    if p.dtype in (_dtype.bool, _dtype.uint8):
        for k, n in enumerate(p._a.shape):
            if n != shape[d + k]:
                raise IndexError(
                    f"The shape of the mask {list(p._a.shape)} at index {k} does not match the shape of the indexed "
                    "tensor "
                    f"{list(shape)} at index {d + k}"
                )
        return list(nonzero(p, as_tuple=True))
    if p.dtype not in (_dtype.int64, _dtype.int32):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return [p]


def _arrays(tensors: tuple, dims: tuple[int, ...], ndim: int) -> tuple[Any, ...]:
    """The index tuple of an array: `tensors` at `dims`, everything elsewhere."""
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


@op(promote=(), broadcasts=False, computes=False, name="index", float8=FLOAT8S)
def _index(xp: ModuleType, x: Any, *tensors: Any, dims: tuple[int, ...]) -> Any:
    try:
        picked = x[_arrays(tensors, dims, x.ndim)]
    except IndexError:
        _checked(x, tensors, dims)
        raise
    if all(a.flags.c_contiguous for a in (picked, x, *tensors)):
        return picked
    # PyTorch orders the result's memory as that of x without the indexed dimensions, and then as that of the indices.
    rest = [s for d, s in enumerate(x.strides) if d not in dims]
    place = dims[0] if dims[-1] - dims[0] + 1 == len(dims) else 0
    strides = [*rest[:place], *[0] * (picked.ndim - len(rest)), *rest[place:]]
    strided = _backend.as_strided(x, picked.shape, strides)
    return in_order(xp, picked, [strided, *[t.reshape(*t.shape, *[1] * (len(rest) - place)) for t in tensors]])


@_index.vjp("x")
def _(g: Tensor, tensors: list, x_shape: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    return _index_put(g.new_zeros(x_shape), g, *tensors, dims=dims, accumulate=True)


@_index.fast_vjp("x")
def _(xp: ModuleType, g: Any, tensors: list, x_shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    return _put_into(xp.zeros(x_shape, g.dtype), g, tensors, dims, True)


def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x indexed by one tensor per dimension, None for a dimension left whole."""
    dims = tuple([d for d, t in enumerate(indices) if t is not None])
    return _index(x, *[indices[d] for d in dims], dims=dims)


@op(promote=(), broadcasts=False, computes=False, repeats=True, name="index_put", float8=FLOAT8_SIGNED)
def _index_put(
    xp: ModuleType, x: Any, values: Any, *tensors: Any, dims: tuple[int, ...], accumulate: bool, out: Any = None
) -> Any:
    if out is None:
        out = x.copy()
        if _placed(out, values, tensors, dims, accumulate):
            return out
    _checked(x, tensors, dims)
    return _put_into(out, values, tensors, dims, accumulate)


@_kernels.prepares(_index_put.forward)
def _(x: Any, values: Any, *tensors: Any, dims: tuple[int, ...], accumulate: bool, recorded: bool) -> Any:
    if not _placed(x.copy(), values, tensors, dims, accumulate):
        return None
    if len(dims) == 1 == tensors[0].ndim:
        place = _kernels.prepared_placed(x, tensors[0], values, dims[0], negative=True, adds=accumulate)
        if place is not None:
            return lambda x, values, index: place(x, index, values)

    def put(x: Any, values: Any, *tensors: Any) -> Any:
        out = x.copy()
        if not _placed(out, values, tensors, dims, accumulate):
            raise IndexError("an index is out of range")
        return out

    return put


def _put_into(out: Any, values: Any, tensors: Any, dims: tuple[int, ...], accumulate: bool) -> Any:
    """`out` after `values` were written, or added, to its entries at indices in range."""
    if _placed(out, values, tensors, dims, accumulate):
        return out
    where = _arrays(tensors, dims, out.ndim)
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
    whole, present = [], []
    for t in indices:
        whole.append(int(t is None))
        if t is not None:
            present.append(t)
    if present and {getattr(t, "dtype", None) for t in present} <= INTEGERS:
        return _index_put_at(input, values, bool(accumulate), tuple(whole), *present)
    tensors, dims, values = _put_operands(input, indices, values)
    return _index_put(input, values, *tensors, dims=dims, accumulate=accumulate)


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
        RuntimeError: when `values` shares memory with `input`, dtypes differ or `values` does not broadcast.

    >>> import tdt
    >>> tdt.zeros(3).index_put_((tdt.tensor([0, 2]),), tdt.tensor(5.0))
    tensor([5., 0., 5.])
    """
    if state.grad and (input.requires_grad or values.requires_grad):
        check_writable(input)
        follow(input, values)
    if len(indices) > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim} (got {len(indices)})")
    if values is input or (values._st is input._st and _backend.may_overlap(input._a, values._a)):
        raise RuntimeError(SHARED)
    tensors, dims, values = _put_operands(input, indices, values)
    return _index_put.inplace(input, values, *tensors, dims=dims, accumulate=accumulate)


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
    for top in range(0, height if wrap and width else min(height, 1), width + 1):
        input[top:].diagonal().fill_(fill_value)
    return input


@method()
def __delitem__(self: Tensor, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")
