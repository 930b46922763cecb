"""Tensors repeated: repeat, tile, repeat_interleave, meshgrid."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import as_shape, front
from tdt._core.dtype import FLOAT8S
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap
from tdt._ops._common import expanded_array, is_int, wrap_dim
from tdt._ops.shape.views import _expand, _reshape
from tdt.autograd._dispatch import unary, view_of
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

__all__ = ["meshgrid", "repeat_interleave", "tile"]


_COPIED = (_kernels.gpu_kernel("move_gpu:copied_view", _kernels.gpu_view),)


@op(computes=False, float8=FLOAT8S)
@repeatable
def _repeat(xp: ModuleType, x: Any, *, times: tuple[int, ...]) -> Any:
    sizes = (1,) * (len(times) - x.ndim) + x.shape
    if xp is not np:
        if x.flags.c_contiguous:
            view = xp.broadcast_to(x.reshape([n for size in sizes for n in (1, size)]), _pairs(x.shape, times))
            if copy := _kernels.chosen(_COPIED, xp, x, view):
                return copy(x, view).reshape([k * size for k, size in zip(times, sizes, strict=True)])
        refuse_program()
    out = xp.empty([k * size for k, size in zip(times, sizes, strict=True)], x.dtype)
    parts = out.reshape([n for pair in zip(times, sizes, strict=True) for n in pair])
    parts[...] = x.reshape([n for size in sizes for n in (1, size)])
    return out


@_repeat.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], times: tuple[int, ...]) -> Tensor:
    return g.reshape(_pairs(x_shape, times)).sum(tuple(range(0, 2 * len(times), 2))).reshape(x_shape)


@_repeat.fast_vjp("x")
@repeatable
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
@repeatable
def _repeat_each(xp: ModuleType, x: Any, *, dim: int, times: int) -> Any:
    if xp is not np:
        shape = (*x.shape[: dim + 1], times, *x.shape[dim + 1 :])
        view = xp.broadcast_to(xp.expand_dims(x, dim + 1), shape)
        if copy := _kernels.chosen(_COPIED, xp, x, view):
            return copy(x, view).reshape(*shape[:dim], shape[dim] * times, *shape[dim + 2 :])
        refuse_program()
    return xp.repeat(x, times, axis=dim)


@_repeat_each.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: int, times: int) -> Tensor:
    return g.unflatten(dim, (x_shape[dim], times)).sum(dim + 1)


@_repeat_each.fast_vjp("x")
@repeatable
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
