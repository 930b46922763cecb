"""Copies with the entries in another order: flip, roll, rot90."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.layout import empty_in_order, in_order
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core.aliases import Dims
from tdt._core.calls import as_shape, front, is_empty
from tdt._core.dtype import FLOAT8S
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels._conditions import LARGE_FOLD
from tdt._ops._common import is_int, wrap_dim
from tdt._ops.shape.join import JOIN, in_rows
from tdt.autograd._dispatch import unary
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

__all__ = ["flip", "fliplr", "flipud", "roll", "rot90"]


_COPIED = (_kernels.gpu_kernel("move_gpu:copied_view", _kernels.gpu_view),)


@op(computes=False)
@repeatable
def _flip(xp: ModuleType, x: Any, *, dims: tuple[int, ...]) -> Any:
    flipped = x[_backwards(dims, x.ndim)]
    if xp is not np:
        if x.flags.c_contiguous and (copy := _kernels.chosen(_COPIED, xp, x, flipped)):
            return copy(x, flipped)
        refuse_program()
    if x.flags.c_contiguous and (rows := _kernels.copied_rows(flipped)) is not None:
        return rows
    if x.size < LARGE_FOLD:
        return flipped.copy() if x.flags.c_contiguous else in_order(xp, flipped.copy(order="K"), [x])
    out = xp.empty(x.shape, x.dtype) if x.flags.c_contiguous else empty_in_order(xp, x)
    if not _kernels.moved(out, flipped):
        out[...] = flipped
    return out


@functools.lru_cache
def _backwards(dims: tuple[int, ...], ndim: int) -> tuple[slice, ...]:
    """The index that reverses `dims`."""
    return tuple([slice(None, None, -1) if d in dims else slice(None) for d in range(ndim)])


_flip.vjp("x")(lambda g, dims: _flip(g, dims=dims))
_flip.fast_vjp("x")(repeatable(lambda xp, g, dims: _flip.forward(xp, g, dims=dims)))


@front
def flip(input: Tensor, dims: int | Sequence[int]) -> Tensor:
    """A copy with the entries along each of `dims` in reverse order.

    Shape: input (*); result the same.
    Raises:
        RuntimeError: when a dimension occurs twice in `dims`.

    >>> import tdt
    >>> tdt.flip(tdt.arange(3), (0,))
    tensor([2, 1, 0])
    """
    dims = as_shape((dims,) if not isinstance(dims, int) else ((dims,),))
    return unary(_flip, input, {"dims": _reversed_dims(dims, input._a.ndim)})


@functools.lru_cache
def _reversed_dims(dims: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """`dims` counted from the front; RuntimeError where one is named twice."""
    dims = tuple([wrap_dim(d, ndim) for d in dims])
    if len(set(dims)) != len(dims):
        raise RuntimeError(
            f"dim {next(d for d in dims if dims.count(d) > 1)} appears multiple times in the list of dims"
        )
    return dims if ndim else ()


@method()
@front
def fliplr(input: Tensor) -> Tensor:
    """A copy with the entries along dimension 1 in reverse order.

    Shape: input (m, n, *); result the same.
    Raises:
        RuntimeError: when `input` has fewer than 2 dimensions.

    >>> import tdt
    >>> tdt.fliplr(tdt.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    if input._a.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return unary(_flip, input, {"dims": (1,)})


@method()
@front
def flipud(input: Tensor) -> Tensor:
    """A copy with the entries along dimension 0 in reverse order.

    Shape: input (n, *); result the same.
    Raises:
        RuntimeError: when `input` is 0-d.

    >>> import tdt
    >>> tdt.flipud(tdt.tensor([1, 2]))
    tensor([2, 1])
    """
    if input._a.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return unary(_flip, input, {"dims": (0,)})


@op(computes=False, packed=True, float8=FLOAT8S)
@repeatable
def _roll(xp: ModuleType, x: Any, *, shifts: tuple[int, ...], dims: tuple[int, ...] | None) -> Any:
    if dims is None:
        return _rolled(xp, x.reshape(-1), shifts[0], 0).reshape(x.shape)
    for shift, d in zip(shifts, dims, strict=True):
        x = _rolled(xp, x, shift, d)
    return x


def _rolled(xp: ModuleType, x: Any, shift: int, d: int) -> Any:
    """A copy of `x` with the entries shifted along dimension d."""
    start = -shift % x.shape[d] if x.shape[d] else 0
    if not start:
        return _kernels.contiguous_copy(x)
    before = (slice(None),) * d
    parts = x[(*before, slice(start, None))], x[(*before, slice(None, start))]
    if xp is np and (small := _kernels.join_arrays(parts, d, False)) is not None:
        return small
    if xp is not np:
        if join := _kernels.chosen(JOIN, xp, *parts, dim=d):
            return join(*parts, dim=d)
        refuse_program()
    return xp.concatenate(parts, d) if (fast := in_rows(parts, d)) is None else fast


_roll.vjp("x")(lambda g, shifts, dims: _roll(g, shifts=tuple([-s for s in shifts]), dims=dims))
_roll.fast_vjp("x")(
    repeatable(lambda xp, g, shifts, dims: _roll.forward(xp, g, shifts=[-s for s in shifts], dims=dims))
)


@method()
@front
def roll(input: Tensor, shifts: int | Sequence[int], dims: Dims = None) -> Tensor:
    """A copy with the entries shifted along `dims`; those shifted past the end come in at the front.

    Args:
        shifts: places towards higher indices, one number for each of `dims`.
        dims: None for the flattened tensor.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `shifts` is empty or does not match `dims` in length.
        IndexError: when `dims` is given for a 0-d tensor.

    >>> import tdt
    >>> tdt.roll(tdt.arange(4), 1)
    tensor([3, 0, 1, 2])
    """
    if shifts.__class__ is dims.__class__ is int and input._a.ndim:
        return unary(_roll, input, {"shifts": (shifts,), "dims": (wrap_dim(dims, input._a.ndim),)})
    shifts = tuple(map(operator.index, (shifts,) if is_int(shifts) else shifts))
    dims = None if dims is None or is_empty(dims) else (dims,) if is_int(dims) else tuple(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if (dims is None and len(shifts) > 1) or (dims is not None and len(dims) != len(shifts)):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims or ())}")
    if dims is not None and not input.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return _roll(input, shifts=shifts, dims=None if dims is None else tuple([wrap_dim(d, input.ndim) for d in dims]))


@op(computes=False, name="rot90")
def _rot90(xp: ModuleType, x: Any, *, turns: int, dims: tuple[int, int]) -> Any:
    a, b = dims
    if not turns:
        return x.copy("C")
    turned = _flip.forward(xp, x, dims=((b,), (a, b), (a,))[turns - 1])
    return turned.swapaxes(a, b) if turns % 2 else turned


_rot90.vjp("x")(lambda g, turns, dims: _rot90(g, turns=-turns % 4, dims=dims))
_rot90.fast_vjp("x")(lambda xp, g, turns, dims: _rot90.forward(xp, g, turns=-turns % 4, dims=dims))


@method()
@calls_by_shape
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy with the plane `dims` rotated by k · 90°, from the first towards the second dimension.

    Shape: input at least 2-d; result the same, for odd `k` with the two sizes swapped.
    Raises:
        RuntimeError: when `input` has fewer than 2 dimensions, or `dims` are not two different dimensions of it.

    >>> import tdt
    >>> tdt.rot90(tdt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    ndim = input._a.ndim
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    a, b = dims
    if a == b or abs(a - b) == ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}")
    for d in dims:
        if not -ndim <= d < ndim:
            raise RuntimeError(f"Rotation dim{list(dims).index(d)} out of range, dim{list(dims).index(d)} = {d}")
    return unary(_rot90, input, {"turns": k % 4, "dims": (a % ndim, b % ndim)})


@method("flip")
def _flip_method(self: Tensor, *places: int | Sequence[int], dims: Dims = None) -> Tensor:
    """A copy with the entries along each of `dims` in reverse order: `x.flip(0, 1)` or `x.flip((0, 1))`.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 2]).flip(0)
    tensor([2, 1])
    """
    axes: Any = places if dims is None else dims
    return flip(self, axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes)


@method()
def __reversed__(self: Tensor) -> Tensor:
    return flip(self, 0) if self.ndim else self
