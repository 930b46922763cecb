"""Views: reshape, transpose, expand, slice. Writes to a view write to its base."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from operator import getitem
from types import ModuleType
from typing import Any

import numpy as np
from numpy import ndarray

from tdt._backend import may_overlap
from tdt._backend.waiting import gives_views, refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import as_shape, front, integer
from tdt._core.dtype import FLOAT8S
from tdt._core.methods import method
from tdt._core.tensor import Size, Tensor
from tdt._kernels import chosen, gpu_kernel, gpu_words, reshaped
from tdt._ops._common import expanded, expanded_array, tensor_argument, wrap_dim
from tdt.autograd._dispatch import view_of
from tdt.autograd._node import sum_to
from tdt.autograd._op import op
from tdt.autograd._views import follow

__all__ = [
    "broadcast_shapes", "broadcast_tensors", "broadcast_to", "flatten", "narrow", "ravel", "reshape",
    "select", "unflatten",
]  # fmt: skip


@op(view="maybe", node="ViewBackward0", float8=FLOAT8S, sparse_gradients=True)
def _reshape(xp: ModuleType, x: Any, *, shape: tuple[int, ...]) -> Any:
    try:
        return reshaped(x, shape)
    except ValueError:
        raise _misfit(shape, x.size) from None


def _misfit(shape: Sequence[int], size: int) -> RuntimeError:
    """Why `size` elements do not fill `shape`."""
    if list(shape).count(-1) > 1:
        return RuntimeError("only one dimension can be inferred")
    if -1 in shape and size == 0:
        return RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size "
            "-1 can be any value and is ambiguous"
        )
    return RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")


@op(view=True, float8=FLOAT8S)
def _view(xp: ModuleType, x: Any, *, shape: tuple[int, ...]) -> Any:
    try:
        out = x.reshape(shape)
    except ValueError:
        raise _misfit(shape, x.size) from None
    base = out.base
    if base is x or (base is not None and base is x.base):
        return out
    if x.size and not x.flags.c_contiguous and not may_overlap(out, x):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return out


for _op in (_view, _reshape):
    _op.vjp("x")(lambda g, x_shape: _reshape(g, shape=x_shape))
    _op.fast_vjp("x")(gives_views(lambda g, x_shape: reshaped(g, x_shape)))


@op(view=True, name="view_dtype", float8=FLOAT8S)
def _view_dtype(xp: ModuleType, x: Any, *, dtype: _dtype.dtype) -> Any:
    return x[..., None].view(dtype.np)[..., 0] if x.itemsize == dtype.itemsize else x.view(dtype.np)


@method()
def view(
    input: Tensor,
    *sizes: int | Sequence[int] | _dtype.dtype,
    size: Sequence[int] | None = None,
    dtype: _dtype.dtype | None = None,
) -> Tensor:
    """The same memory with another shape, or read as another dtype.

    Args:
        sizes: one by one or as a sequence, one of which may be -1; or a dtype.
    Shape: input (*); result of these sizes, or for a dtype of another item size with the last size scaled.
    Raises:
        RuntimeError: when the number of elements differs, or the strides of `input` do not allow a view.
        TypeError: when there are sizes and a dtype.

    >>> import tdt
    >>> tdt.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if size is not None:
        sizes = (*sizes, size)
    if dtype is None and sizes and sizes[0].__class__ is _dtype.dtype and len(sizes) == 1:
        dtype, sizes = sizes[0], ()
    if dtype is None:
        shape = as_shape(sizes, -1)
        return view_of(_view, input, {"shape": shape}, ndarray.reshape, shape)
    if sizes:
        raise TypeError(f"view() takes sizes or a dtype, but got both: {sizes} and {dtype}")
    if dtype is input.dtype:
        return _view(input, shape=input._a.shape)
    return _view_as(input, dtype)


def _view_as(input: Tensor, dtype: _dtype.dtype) -> Tensor:
    old, new = input.itemsize, dtype.itemsize
    if old != new:
        if not input.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 to view {input.dtype} as {dtype} (different element sizes)")
        if input.stride(-1) != 1 and input.shape[-1] != 1:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {input.dtype} as {dtype} (different element sizes), but got "
                f"{input.stride(-1)}"
            )
        if (input.shape[-1] * old) % new:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {new // old} to view {input.dtype} as {dtype} (different "
                "element sizes), "
                f"but got {input.shape[-1]}"
            )
    return _view_dtype(input, dtype=dtype)


def reshape(input: Tensor, shape: int | Sequence[int]) -> Tensor:
    """The elements in another shape: a view where possible, else a copy.

    Args:
        shape: one size may be -1.
    Shape: input (*); result of shape `shape`, with as many elements.
    Raises:
        RuntimeError: when the number of elements differs.

    >>> import tdt
    >>> tdt.reshape(tdt.arange(6), (3, 2)).shape
    tdt.Size([3, 2])
    """
    shape = as_shape((shape,), -1)
    try:
        return view_of(_reshape, input, {"shape": shape}, reshaped, shape)
    except RuntimeError:
        if (
            not input._a.flags.c_contiguous
        ):  # PyTorch then checks the shape before it rejects a view whose base was modified
            _reshape.forward(None, input._a, shape=shape)
        raise


@op(view=True, broadcasts=False, float8=FLOAT8S, sparse_gradients=True)
def _expand(xp: ModuleType, x: Any, *, shape: tuple[int, ...]) -> Any:
    return x[...] if x.shape == shape else expanded(xp, x, shape)


@_expand.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...]) -> Tensor:
    return sum_to(g, x_shape)


@_expand.fast_vjp("x")
@repeatable
def _(g: Any, x_shape: tuple[int, ...]) -> Any:
    return sum_to(g, x_shape)


@method()
@front
def expand(
    input: Tensor, *sizes: int | Sequence[int], size: Sequence[int] | None = None, implicit: bool = False
) -> Tensor:
    """A view with dimensions of size 1 repeated to `sizes`, without copying.

    Args:
        sizes: one by one or as a sequence; -1 keeps a size, further ones add dimensions in front.
        implicit: has no effect.
    Shape: input broadcastable to `sizes`; result of shape `sizes`.
    Raises:
        RuntimeError: when a size other than 1 differs, or there are fewer sizes than dimensions.

    >>> import tdt
    >>> tdt.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    sizes = as_shape(sizes if size is None else (*sizes, size))
    target = _expanded_shape(input._a.shape, sizes)
    if target is None:
        raise _cannot_expand(input, sizes)
    return view_of(_expand, input, {"shape": target}, expanded_array, target)


@functools.lru_cache
def _expanded_shape(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """`sizes` with those of `shape` in the place of -1; None where `shape` does not expand to them."""
    extra = len(sizes) - len(shape)
    if extra < 0 or any(n < 0 for n in sizes[:extra]):
        return None
    rest = [old if n == -1 else n for n, old in zip(sizes[extra:], shape, strict=True)]
    fits = all(n >= 0 and old in (1, n) for n, old in zip(rest, shape, strict=True))
    return (*sizes[:extra], *rest) if fits else None


def _cannot_expand(input: Tensor, sizes: tuple[int, ...]) -> RuntimeError:
    """Why `input` does not expand to `sizes`."""
    shape = input._a.shape
    extra = len(sizes) - len(shape)
    if extra < 0:
        follow(input)
        return RuntimeError(
            f"expand(torch.{_dtype.SCALAR_NAMES[input.dtype]}Tensor{{{list(shape)}}}, size={list(sizes)}): "
            "the number of sizes provided "
            f"({len(sizes)}) "
            f"must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    olds: list[int | None] = [*[None] * extra, *shape]
    i, n, old = next((i, n, old) for i, (n, old) in enumerate(zip(sizes, olds, strict=True))
                     if n < -1 or (n == -1 if old is None else n >= 0 and old not in (1, n)))  # fmt: skip
    if n < 0:
        return RuntimeError(
            f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {i}"
        )
    follow(input)
    return RuntimeError(
        f"The expanded size of the tensor ({n}) must match the existing size ({old}) at non-singleton "
        f"dimension {i}.  "
        f"Target sizes: {list(sizes)}.  Tensor sizes: {list(shape)}"
    )


@method()
@front
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """A view of `input` broadcast to a shape.

    Shape: input broadcastable to `size`; result of shape `size`.

    >>> import tdt
    >>> tdt.broadcast_to(tdt.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, *as_shape((size,)))


@front
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape to which several shapes broadcast.

    Raises:
        RuntimeError: when a size is negative, or the shapes do not broadcast.

    >>> import tdt
    >>> tdt.broadcast_shapes((2, 1), (3,))
    tdt.Size([2, 3])
    """
    result: list[int] = []
    for sizes in shapes:
        shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        result = [1] * (len(shape) - len(result)) + result
        for i in range(1, len(shape) + 1):
            if shape[-i] < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({shape[-i]}): ({shape[-i]})")
            if shape[-i] != 1 and result[-i] not in (1, shape[-i]):
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape: "
                    f"{' and '.join(str(tuple(s) if not isinstance(s, int) else (s,)) for s in shapes)}"
                )
            result[-i] = shape[-i] if result[-i] == 1 else result[-i]
    return Size(result)


@front
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of all tensors, expanded to the shape to which they broadcast.

    Shape: tensors (*), broadcastable; each result the broadcast shape.

    >>> import tdt
    >>> [x.shape for x in tdt.broadcast_tensors(tdt.zeros(2, 1), tdt.zeros(3))]
    [tdt.Size([2, 3]), tdt.Size([2, 3])]
    """
    operands: Any = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shape = broadcast_shapes(*[x._a.shape for x in operands])
    return tuple([expand(x, *shape) for x in operands])


@method()
@front
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions `start_dim` to `end_dim` as one: a view where possible, else a copy.

    Shape: input (*); result with the product of these sizes in their place; () becomes (1).
    Raises:
        RuntimeError: when `start_dim` comes after `end_dim`.

    >>> import tdt
    >>> tdt.flatten(tdt.zeros(2, 3, 4), 1).shape
    tdt.Size([2, 12])
    """
    shape = input._a.shape
    if start_dim == 0 and end_dim == -1 and len(shape) > 1:
        flat: tuple[int, ...] = (input._a.size,)
    elif (flat := _flat_shape(shape, start_dim, end_dim)) == shape:
        return input
    return view_of(_reshape, input, {"shape": flat}, reshaped, flat)


@functools.lru_cache(typed=True)
def _flat_shape(shape: tuple[int, ...], start_dim: int, end_dim: int) -> tuple[int, ...]:
    """`shape` with the sizes of two dimensions, and of those between them, as one."""
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]) if shape else (1,)


@method()
@front
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: a view where possible, else a copy.

    Shape: input (*) with n elements; result (n).

    >>> import tdt
    >>> tdt.ravel(tdt.zeros(2, 3)).shape
    tdt.Size([6])
    """
    a = input._a
    flat = (a.size,)
    return view_of(_view, input if a.flags.c_contiguous else input.contiguous(), {"shape": flat}, ndarray.reshape, flat)


@method()
@front
def unflatten(input: Tensor, dim: int, sizes: int | Sequence[int]) -> Tensor:
    """A view with dimension `dim` split into several.

    Args:
        sizes: of the new dimensions; one may be -1.
    Shape: input (*); result with `sizes` in place of the size of `dim`.
    Raises:
        RuntimeError: when `sizes` is empty, or its product is not the size of `dim`.

    >>> import tdt
    >>> tdt.unflatten(tdt.zeros(2, 12), 1, (3, -1)).shape
    tdt.Size([2, 3, 4])
    """
    shape = input._a.shape
    d = wrap_dim(dim, len(shape))
    sizes = as_shape((sizes,))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and known and shape[d] % known == 0:
        sizes = tuple([shape[d] // known if n == -1 else n for n in sizes])
    elif known != shape[d] or -1 in sizes:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({shape[d]}) in the "
            "input tensor"
        )
    split = (*shape[:d], *sizes, *shape[d + 1 :])
    return view_of(_view, input, {"shape": split}, ndarray.reshape, split)


def _slice_node_name(node: Any) -> str:
    """The last step in which PyTorch takes an index apart."""
    for part in reversed(node.attributes["spec"]):
        if isinstance(part, int):
            return "SelectBackward0"
        if part is None:
            return "UnsqueezeBackward0"
        if isinstance(part, tuple) and part != (None, None, None):
            return "SliceBackward0"
    return "AliasBackward0"


@functools.lru_cache
def decoded(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index of a slice spec."""
    return tuple([slice(*e) if e.__class__ is tuple else e for e in spec])


@op(view=True, part=decoded, name="slice", node=_slice_node_name, float8=FLOAT8S)
def slice_view(xp: ModuleType, x: Any, *, spec: tuple[Any, ...]) -> Any:
    """Basic indexing: integers, None, Ellipsis, and slices as (start, stop, step). The Ellipsis keeps 0-d views views."""
    return x[decoded(spec)]


slice_view.vjp("x")(lambda g, x_shape, spec: _slice_backward(g, shape=x_shape, spec=spec))  # type: ignore[has-type]


@slice_view.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], spec: tuple[Any, ...]) -> Any:
    return _slice_backward.forward(xp, g, shape=x_shape, spec=spec)


_PLACED = (gpu_kernel("place_gpu:placed", gpu_words),)


@op(computes=False, float8=FLOAT8S)
def _slice_backward(xp: ModuleType, x: Any, *, shape: tuple[int, ...], spec: tuple[Any, ...]) -> Any:
    if xp is not np and (fast := chosen(_PLACED, xp, x)) and (out := fast(x, shape, decoded(spec))) is not None:
        return out
    refuse_program()
    out = xp.zeros(shape, x.dtype)
    out[decoded(spec)] = x
    return out


_slice_backward.vjp("x")(lambda g, spec: slice_view(g, spec=spec))
ALL_OF, WHOLE = (None, None, None), slice(None)  # in a spec; in an index


@method()
@front
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The view at `index` along `dim`.

    Shape: input (*), at least 1-d; result without dimension `dim`.
    Raises:
        IndexError: when `input` is 0-d, or `index` is out of range.

    >>> import tdt
    >>> tdt.select(tdt.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    shape = input._a.shape
    if not shape:
        follow(input)
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d, i = wrap_dim(dim, len(shape)), integer(index)
    try:
        return view_of(slice_view, input, {"spec": (*(ALL_OF,) * d, i, ...)}, getitem, (*(WHOLE,) * d, i, ...))
    except IndexError:
        message = f"select(): index {i} out of range for tensor of size {list(shape)} at dimension {d}"
        raise IndexError(message) from None


def slice_along(input: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """`input[start:end:step]` along `dim`; a view."""
    spec = slice_spec(input, dim, start, end, step)
    return view_of(slice_view, input, {"spec": spec}, getitem, decoded(spec))


def slice_spec(input: Tensor, dim: int, start: Any, end: Any, step: int) -> tuple[Any, ...]:
    """The attribute of `slice_view` for `input[start:end:step]` along `dim`."""
    if not input._a.ndim:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    ends = tuple([None if v is None else integer(v) for v in (start, end, step)])
    return (*(ALL_OF,) * wrap_dim(dim, input._a.ndim), ends, ...)


@method()
@front
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """The view of `length` entries along `dim`, from `start` on.

    Args:
        start: counted from the end if negative.
    Shape: input (*), at least 1-d; result the same but for `dim`: `length`.
    Raises:
        RuntimeError: when `input` is 0-d, `length` is negative or too large, or `start` is not an integer 0-d tensor.
        IndexError: when `start` is out of range.

    >>> import tdt
    >>> tdt.narrow(tdt.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    shape = input._a.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != _dtype.INT):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    length = integer(length)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    d, first = wrap_dim(dim, len(shape)), integer(start)
    if not -shape[d] <= first <= shape[d]:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-shape[d]}, {shape[d]}], but got {first})"
        )
    first = first + shape[d] if first < 0 else first
    if first + length > shape[d]:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({shape[d]}).")
    spec, index = (
        (*(ALL_OF,) * d, (first, first + length, None), ...),
        (*(WHOLE,) * d, slice(first, first + length), ...),
    )
    return view_of(slice_view, input, {"spec": spec}, getitem, index)


@method("reshape")
def _reshape_method(self: Tensor, *sizes: int | Sequence[int], shape: Sequence[int] | None = None) -> Tensor:
    """The elements in another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`.

    Shape: self (*); result of the given sizes.

    >>> import tdt
    >>> tdt.arange(4).reshape(2, -1)
    tensor([[0, 1],
            [2, 3]])
    """
    # `reshape` takes a tuple of one tuple, too.
    return reshape(self, sizes if shape is None else (*sizes, shape))  # type: ignore[arg-type]


@method()
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """A view with the shape of another tensor.

    Shape: input (*); other with as many elements; result the shape of `other`.

    >>> import tdt
    >>> tdt.zeros(4).view_as(tdt.zeros(2, 2)).shape
    tdt.Size([2, 2])
    """
    return input.view(tensor_argument("view_as", other, "other", 2)._a.shape)


@method()
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """A view expanded to the shape of another tensor.

    Shape: input broadcastable to other; result the shape of `other`.

    >>> import tdt
    >>> tdt.zeros(1).expand_as(tdt.zeros(2, 2)).shape
    tdt.Size([2, 2])
    """
    return input.expand(tensor_argument("expand_as", other, "other", 2)._a.shape)


@method()
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The elements in the shape of another tensor: a view where possible, else a copy.

    Shape: input (*); other with as many elements; result the shape of `other`.

    >>> import tdt
    >>> tdt.zeros(4).reshape_as(tdt.zeros(2, 2)).shape
    tdt.Size([2, 2])
    """
    return input.reshape(tensor_argument("reshape_as", other, "other", 2)._a.shape)


@method()
def sum_to_size(input: Tensor, *sizes: int | Sequence[int], size: Sequence[int] | None = None) -> Tensor:
    """The sum over the dimensions along which a tensor of shape `size` would be broadcast to `input`.

    Shape: input (*); result of shape `size`.
    Raises:
        RuntimeError: when `size` does not broadcast to the shape of `input`.

    >>> import tdt
    >>> tdt.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    target = as_shape(sizes if size is None else (*sizes, size))
    if target == ():
        return input.sum()
    if tuple(broadcast_shapes(target, input.shape)) != input.shape or len(target) > input.ndim:
        raise RuntimeError(f"size {{{list(target)}}} is not expandable to size {{{list(input.shape)}}}.")
    return sum_to(input, target) if target != input._a.shape else input
