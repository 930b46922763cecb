"""split, chunk, unbind (several views of one tensor), as_strided."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import front, is_bool, plain_number
from tdt._core.dtype import FLOAT8S, SCALAR_NAMES, int64
from tdt._core.methods import method
from tdt._core.mode import relation_read
from tdt._core.tensor import Tensor
from tdt._kernels import chosen, gpu_joined, gpu_kernel
from tdt._ops._common import tensor_argument, wrap_dim
from tdt._ops.shape.views import ALL_OF, slice_view
from tdt.autograd._dispatch import view_of
from tdt.autograd._in_place_methods import by_view
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

__all__ = [
    "as_strided", "chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unbind", "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes", "vsplit",
]  # fmt: skip


@op(multi_view=True, float8=FLOAT8S)
def _split(xp: ModuleType, x: Any, *, sizes: tuple[int, ...], dim: int) -> tuple[Any, ...]:
    return _taken(x, _parts(sizes, dim))


def _taken(x: Any, parts: list[tuple[slice, ...]]) -> tuple[Any, ...]:
    return tuple([x[part] for part in parts])


@functools.lru_cache(256)
def _parts(sizes: tuple[int, ...], dim: int) -> list[tuple[slice, ...]]:
    """The index of each part of so many entries along `dim`."""
    before, ends = (slice(None),) * dim, [0, *itertools.accumulate(sizes)]
    return [(*before, slice(*ends_of_part)) for ends_of_part in itertools.pairwise(ends)]


@_split.vjp("x")
def _(g: Any, x_shape: tuple[int, ...], sizes: tuple[int, ...], dim: int) -> Tensor:
    grads = g if isinstance(g, tuple) else (g,)
    some = next(part for part in grads if part is not None)
    shape = [*x_shape[:dim], 0, *x_shape[dim + 1 :]]
    parts = []
    for part, n in zip(grads, sizes, strict=True):
        shape[dim] = n
        parts.append(some.new_zeros(shape) if part is None else part)
    return parts[0].clone() if len(parts) == 1 else _cat(parts, dim)


@_split.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], sizes: tuple[int, ...], dim: int) -> Any:
    if (joined := _joined_on_gpu(xp, g, sizes, dim)) is not None:
        return joined
    some = next(part for part in g if part is not None)
    parts = []
    for part, n in zip(g, sizes, strict=True):
        parts.append(xp.zeros((*x_shape[:dim], n, *x_shape[dim + 1 :]), some.dtype) if part is None else part)
    return parts[0].copy() if len(parts) == 1 else _joined(xp, parts, dim)


_PARTS = (gpu_kernel("place_gpu:join", gpu_joined),)


def _joined_on_gpu(xp: ModuleType, parts: Sequence[Any], sizes: tuple[int, ...], dim: int) -> Any:
    """CuPy's arrays one after another by a kernel, zeros for those that are None; None where no kernel applies."""
    join = None if xp is np else chosen(_PARTS, xp, *parts, dim=dim)
    if join is None:
        if xp is not np:
            refuse_program()
        return None
    return join(*parts, dim=dim, sizes=sizes)


def _cat(parts: list[Tensor], dim: int) -> Tensor:
    from tdt._ops.shape.join import cat

    return cat(parts, dim)


def _joined(xp: ModuleType, parts: list, dim: int) -> Any:
    """`_cat` of arrays."""
    from tdt._ops.shape.join import _cat

    return _cat.forward(xp, *parts, dim=dim)


@op(multi_view=True, float8=FLOAT8S)
def _unbind(xp: ModuleType, x: Any, *, dim: int) -> tuple[Any, ...]:
    return _unbound(x, dim)


def _unbound(x: Any, dim: int) -> tuple[Any, ...]:
    if not dim and x.ndim > 1:
        return tuple(x)
    before = (slice(None),) * dim
    return tuple([x[(*before, i, ...)] for i in range(x.shape[dim])])


@_unbind.vjp("x")
def _(g: Any, dim: int) -> Tensor:
    grads = g if isinstance(g, tuple) else (g,)
    some = next(part for part in grads if part is not None)
    return _cat([(some.new_zeros(some.shape) if part is None else part).unsqueeze(dim) for part in grads], dim)


@_unbind.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, dim: int) -> Any:
    some = next(part for part in g if part is not None)
    if xp is not np:
        rows = [None if part is None else xp.expand_dims(part, dim) for part in g]
        if (joined := _joined_on_gpu(xp, rows, (1,) * len(g), dim)) is not None:
            return joined
    parts = [xp.expand_dims(xp.zeros(some.shape, some.dtype) if part is None else part, dim) for part in g]
    return _joined(xp, parts, dim)


@method()
@front
def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of `split_size_or_sections` entries each along `dim`, the last possibly smaller; or of the sizes in a list.

    Shape: tensor (*), at least 1-d; each result the same but for `dim`.
    Raises:
        RuntimeError: when `tensor` is 0-d, a size is negative, or sizes in a list do not add up to that of `dim`.

    >>> import tdt
    >>> tdt.split(tdt.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if not isinstance(split_size_or_sections, (int, Tensor)):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    shape = tensor._a.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d, size = wrap_dim(dim, len(shape)), operator.index(split_size_or_sections)
    n = shape[d]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    return _split_into(tensor, _equal_sizes(n, size), d)


@functools.lru_cache
def _equal_sizes(n: int, size: int) -> tuple[int, ...]:
    """The sizes of parts of `size` entries of `n`, the last possibly smaller."""
    sizes = [size] * (n // size if size else 1)
    if size and (n % size or not n):
        sizes.append(n % size)
    return tuple(sizes)


def _split_into(x: Tensor, sizes: tuple[int, ...], dim: int) -> tuple[Tensor, ...]:
    """`_split`."""
    out: tuple[Tensor, ...] = view_of(_split, x, {"sizes": sizes, "dim": dim}, _taken, _parts(sizes, dim))
    return out


@method()
@front
@node_name("SplitWithSizesBackward0")
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the given sizes along `dim`.

    Shape: input (*), at least 1-d; each result the same but for `dim`.
    Raises:
        RuntimeError: when `input` is 0-d, a size is negative, or the sizes do not add up to that of `dim`.

    >>> import tdt
    >>> tdt.split_with_sizes(tdt.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    if not input.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d, sizes = wrap_dim(dim, input.ndim), tuple([operator.index(n) for n in split_sizes])
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    if sum(sizes) != input._a.shape[d]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {input._a.shape[d]} (input tensor's size at "
            "dimension "
            f"{d}), but got split_sizes={list(sizes)}"
        )
    return _split_into(input, sizes, d)


@method()
@front
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along `dim`, the last possibly smaller.

    Shape: input (*), at least 1-d; each result the same but for `dim`: ceil(size / chunks).
    Raises:
        RuntimeError: when `input` is 0-d or `chunks` is not positive.

    >>> import tdt
    >>> tdt.chunk(tdt.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    shape, chunks = input._a.shape, plain_number(chunks)
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = wrap_dim(dim, len(shape))
    size = -(-shape[d] // chunks)
    if not size:
        return _split_into(input, (0,) * chunks, d)
    return _split_into(input, _equal_sizes(shape[d], size), d)


@method()
@front
@node_name("SliceBackward0")
def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views along `dim`: a number of them of nearly equal size, or split before the given indices.

    Shape: input (*), at least 1-d; each result the same but for `dim`.
    Raises:
        RuntimeError: when `input` is 0-d, or the number of sections is not positive.
        TypeError: when `indices_or_sections` is a string.

    >>> import tdt
    >>> tdt.tensor_split(tdt.arange(5), (1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = wrap_dim(dim, input.ndim)
    n = input._a.shape[d]
    cuts: Any = plain_number(indices_or_sections)
    if isinstance(cuts, Tensor):
        if cuts.dtype is not int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{SCALAR_NAMES[cuts.dtype]}"
            )
        if cuts.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
                f"got a tensor with {cuts.ndim} dims"
            )
        cuts = cuts.tolist()
    if is_bool(cuts) or isinstance(cuts, str):
        raise TypeError(
            f"tensor_split() received an invalid combination of arguments - got (Tensor, {type(cuts).__name__})"
        )
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        big, extra = divmod(n, cuts)
        cuts = [k * big + min(k, extra) for k in range(1, cuts)]
    edges = [0, *[int(c) for c in cuts], n]
    return tuple([slice_view(input, spec=(*(ALL_OF,) * d, (a, b, None), ...)) for a, b in itertools.pairwise(edges)])


def _split_along(name: str, input: Tensor, indices_or_sections: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    """`tensor_split` along `dim`, for a number in parts of equal size; `least`: the dimensions that input must have."""
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension{'s' * (least > 1)}, but got a tensor with "
            f"{input.ndim} dimensions!"
        )
    indices_or_sections = plain_number(indices_or_sections)
    if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or input.shape[dim] % indices_or_sections):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} "
            f"is not divisible by the split_size {indices_or_sections}!"
        )
    return tensor_split(input, indices_or_sections, dim)


@method()
@front
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views along dimension 1; of a vector along dimension 0: a number of them of equal size, or split before the given indices.

    Shape: input at least 1-d; each result the same but for that dimension.
    Raises:
        RuntimeError: when `input` has fewer dimensions, or the size is not divisible by the number of views.

    >>> import tdt
    >>> [x.shape for x in tdt.hsplit(tdt.zeros(2, 2, 2), 2)]
    [tdt.Size([2, 1, 2]), tdt.Size([2, 1, 2])]
    """
    return _split_along("hsplit", input, indices_or_sections, 1 if input.ndim != 1 else 0, 1)


@method()
@front
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views along dimension 0: a number of them of equal size, or split before the given indices.

    Shape: input at least 2-d; each result the same but for that dimension.
    Raises:
        RuntimeError: when `input` has fewer dimensions, or the size is not divisible by the number of views.

    >>> import tdt
    >>> [x.shape for x in tdt.vsplit(tdt.zeros(2, 2, 2), 2)]
    [tdt.Size([1, 2, 2]), tdt.Size([1, 2, 2])]
    """
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


@method()
@front
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views along dimension 2: a number of them of equal size, or split before the given indices.

    Shape: input at least 3-d; each result the same but for that dimension.
    Raises:
        RuntimeError: when `input` has fewer dimensions, or the size is not divisible by the number of views.

    >>> import tdt
    >>> [x.shape for x in tdt.dsplit(tdt.zeros(2, 2, 2), 2)]
    [tdt.Size([2, 2, 1]), tdt.Size([2, 2, 1])]
    """
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


@method()
@front
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """A view for each index along `dim`.

    Shape: input (*), at least 1-d; each result without dimension `dim`.
    Raises:
        IndexError: when `input` is 0-d.

    >>> import tdt
    >>> tdt.unbind(tdt.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    tensor_argument("unbind", input)
    d = wrap_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return view_of(_unbind, input, {"dim": d}, _unbound, d)


def _single_views(x: Tensor, parts: tuple[Tensor, ...], dim: int) -> tuple[Tensor, ...]:
    """The parts as single views, so that each may be written to."""
    d, start, views = wrap_dim(dim, x.ndim), 0, []
    for part in parts:
        end = start + part._a.shape[d]
        views.append(slice_view(x, spec=(*(ALL_OF,) * d, (start, end, None), ...)))
        start = end
    return tuple(views)


@method()
@front
@node_name("UnsafeSplitBackward0")
def unsafe_split(input: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """As `split`, but each view may be written to in place where autograd records.

    Shape: input (*), at least 1-d; each result the same but for `dim`.

    >>> import tdt
    >>> tdt.unsafe_split(tdt.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _single_views(input, split(input, split_size, dim), dim)


@method()
@front
@node_name("UnsafeSplitWithSizesBackward0")
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """As `split_with_sizes`, but each view may be written to in place where autograd records.

    Shape: input (*), at least 1-d; each result the same but for `dim`.

    >>> import tdt
    >>> tdt.unsafe_split_with_sizes(tdt.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return _single_views(input, split_with_sizes(input, split_sizes, dim), dim)


@method()
@front
@node_name("UnsafeSplitBackward0")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """As `chunk`, but each view may be written to in place where autograd records.

    Shape: input (*), at least 1-d; each result the same but for `dim`.

    >>> import tdt
    >>> tdt.unsafe_chunk(tdt.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _single_views(input, chunk(input, chunks, dim), dim)


IN_BUFFERS = frozenset("?bBhHiIlLqQefdFD")  # letters of the types that Python's buffers know


@op(view=True, float8=FLOAT8S)
def _as_strided(
    xp: ModuleType, x: Any, *, size: tuple[int, ...], stride: tuple[int, ...], offset: int, at: tuple
) -> Any:
    """`at`: the shape, strides and offset that x itself has, in elements."""
    owner = memory(x)
    where = _bytes_to(x, owner) // x.itemsize
    offset += where - at[2]  # of a copy, which begins anew
    if xp is np and owner.flags.c_contiguous and x.dtype.char in IN_BUFFERS and 0 not in size:
        return np.ndarray(size, x.dtype, owner, offset * x.itemsize, [s * x.itemsize for s in stride])
    start = x[(0,) * x.ndim + (...,)] if x.size else x.reshape(-1)
    flat = owner.reshape(-1) if owner.flags.c_contiguous else _backend.as_strided(start, (1,), (x.itemsize,))
    begin = (
        flat[offset:] if owner.flags.c_contiguous else _backend.as_strided(flat, (1,), (x.itemsize,))[offset - where :]
    )
    return _backend.as_strided(begin, size, [s * x.itemsize for s in stride])


def memory(x: Any) -> Any:
    """The array that owns the memory of x, viewed in x's dtype if it has another one."""
    owner = _backend.owner(x)
    return owner if owner.dtype == x.dtype else owner.reshape(-1).view(x.dtype)


def _bytes_to(x: Any, owner: Any) -> int:
    if x is owner:
        return 0
    address = operator.attrgetter("ctypes.data" if hasattr(x, "ctypes") else "data.ptr")
    return address(x) - address(owner)


@_as_strided.vjp("x")
def _(g: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int, at: tuple) -> Tensor:
    shape, strides, start = at
    inside, outside = positions(g, shape, strides, start), positions(g, size, stride, offset)
    extent = max([int(p._a.max()) + 1 for p in (inside, outside) if p.numel()], default=0)
    flat = g.new_zeros(extent).index_add(0, outside.reshape(-1), g.reshape(-1))
    # Where x names one element of memory several times, each name gets its share.
    names = g.new_zeros(extent).index_add(0, inside.reshape(-1), g.new_ones(inside.numel()))
    return (flat / names.clamp(min=1) if not flat.is_complex() else flat).take(inside)


def positions(like: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Tensor:
    """The place in memory, in elements, of each element of a strided tensor."""
    where = like.new_full(tuple([1] * len(shape)), start, dtype=_dtype.int64)
    for d, (n, s) in enumerate(zip(shape, strides, strict=True)):
        steps = like.new_tensor(range(n), dtype=_dtype.int64) * s
        where = where + steps.reshape([n if i == d else 1 for i in range(len(shape))])
    return where


@method()
def storage_offset(input: Tensor) -> int:
    """Number of elements in the storage before the first element of this tensor.

    Shape: input (*); result an int.

    >>> import tdt
    >>> tdt.arange(5)[2:].storage_offset()
    2
    """
    relation_read("Tensor.storage_offset")
    return _bytes_to(input._a, memory(input._a)) // input._a.itemsize


@method(in_place=by_view, in_place_function=True)
@front
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of the memory of `input` with any sizes and strides.

    Args:
        stride, storage_offset: in elements; the offset counts from the start of the memory, by default that of `input`.
    Shape: input (*); result of shape `size`.
    Raises:
        RuntimeError: when `size` and `stride` differ in length, a stride is negative, or the view leaves the memory.

    >>> import tdt
    >>> tdt.as_strided(tdt.arange(4), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    size, stride = tuple([int(n) for n in size]), tuple([int(n) for n in stride])
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    x = input._a
    here = _bytes_to(x, memory(x)) // x.itemsize
    offset = here if storage_offset is None else storage_offset
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    end = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and end > memory(x).size:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
            f"{x.itemsize} "
            f"requiring a storage size of {end * x.itemsize} are out of bounds for storage of size {memory(x).nbytes}"
        )
    return _as_strided(input, size=size, stride=stride, offset=offset, at=(x.shape, input.stride(), here))


@method()
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if not self.dim():
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))  # whose tensors have the class of `self`
