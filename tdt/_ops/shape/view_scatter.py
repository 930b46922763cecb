"""A copy with a part replaced: select_scatter, slice_scatter, diagonal_scatter, as_strided_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt._backend import overlaps_itself
from tdt._core.calls import front
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap_new
from tdt._ops._common import store_into
from tdt._ops.shape.diagonals import diagonal
from tdt._ops.shape.memory import clone, copy_
from tdt._ops.shape.split import as_strided, memory, storage_offset
from tdt._ops.shape.views import decoded, select, slice_along, slice_spec, slice_view
from tdt.autograd._arrays import unrecorded
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op

__all__ = ["as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"]


def _clone(x: Tensor) -> Tensor:
    """A copy with the strides of x, including gaps in memory, so that a view by strides has the same elements.

    Elements that are one in memory, as after `expand`, are several in the copy, or a part could not be written to.
    """
    copied = clone(x)
    if x._a.base is None and x._a.flags.c_contiguous:  # the whole of its memory
        return copied
    if overlaps_itself(x._a) or (copied.stride() == x.stride() and not storage_offset(x)):
        return copied
    whole = clone(as_strided(x, (memory(x._a).size,), (1,), 0))
    return as_strided(whole, x.shape, x.stride(), storage_offset(x))


def _placed(name: str, copied: Tensor, view: Tensor, src: Tensor) -> Tensor:
    """`copied`, after `src` is written into `view`, a part of it."""
    if view._a.shape != src._a.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(view.shape)} ({name})"
        )
    copy_(view, src)
    return copied


@method()
@front
@node_name("SelectScatterBackward0")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` at `index` along `dim`.

    Shape: input (*); src the same without `dim`; result the shape of `input`.
    Raises:
        RuntimeError: when `src` has another shape.

    >>> import tdt
    >>> tdt.select_scatter(tdt.zeros(2, 2), tdt.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    copied = _clone(input)
    return _placed("select_scatter", copied, select(copied, dim, index), src)


@op(name="slice_scatter", promote=(), broadcasts=False, computes=False, node="SliceScatterBackward0")
def _slice_scatter(xp: ModuleType, x: Any, src: Any, *, spec: tuple[Any, ...]) -> Any:
    """A contiguous array with `src` in the place of a slice of its shape."""
    out = x.copy()
    out[decoded(spec)] = src
    return out


@_slice_scatter.vjp("x")
def _(g: Tensor, src_shape: tuple[int, ...], spec: tuple[Any, ...]) -> Tensor:
    return _slice_scatter(g.contiguous(), g.new_zeros(src_shape), spec=spec)


@_slice_scatter.fast_vjp("x")
def _(xp: ModuleType, g: Any, spec: tuple[Any, ...]) -> Any:
    out = g.copy()
    out[decoded(spec)] = 0
    return out


_slice_scatter.vjp("src")(lambda g, spec: slice_view(g, spec=spec))
_slice_scatter.fast_vjp("src")(lambda xp, g, spec: g[decoded(spec)])


@method()
@front
@node_name("SliceScatterBackward0")
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `src` at start, start + step, … before `end` along `dim`.

    Shape: input (*); src the shape of the slice; result the shape of `input`.
    Raises:
        RuntimeError: when `src` has another shape.

    >>> import tdt
    >>> tdt.slice_scatter(tdt.zeros(4), tdt.ones(2), 0, 0, None, 2)
    tensor([1., 0., 1., 0.])
    """
    a = input._a
    if (
        out is None
        and a.__class__ is np.ndarray
        and a.base is None
        and a.flags.c_contiguous
        and a.dtype is src._a.dtype
    ):
        spec = slice_spec(input, dim, start, end, step)
        if a[decoded(spec)].shape == src._a.shape:
            if unrecorded(input) and unrecorded(src):
                return wrap_new(_slice_scatter.forward(np, a, src._a, spec=spec))
            return _slice_scatter(input, src, spec=spec)
    copied = _clone(input)
    result = _placed("slice_scatter", copied, slice_along(copied, dim, start, end, step), src)
    return result if out is None else store_into(out, result, exact=True)


@method()
@front
@node_name("DiagonalScatterBackward0")
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` on the diagonal that `diagonal` returns.

    Args:
        offset: positive above the main diagonal, negative below it.
    Shape: input (*); src the shape of the diagonal; result the shape of `input`.
    Raises:
        RuntimeError: when `src` has another shape.

    >>> import tdt
    >>> tdt.diagonal_scatter(tdt.zeros(2, 2), tdt.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    copied = _clone(input)
    return _placed("diagonal_scatter", copied, diagonal(copied, offset, dim1, dim2), src)


@method()
@front
@node_name("AsStridedScatterBackward0")
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with `src` in the view that `as_strided` returns.

    Args:
        stride, storage_offset: in elements.
    Shape: input (*); src of shape `size`; result the shape of `input`.
    Raises:
        RuntimeError: when `src` has another shape, or the view leaves the memory.

    >>> import tdt
    >>> tdt.as_strided_scatter(tdt.zeros(2, 2), tdt.ones(2), (2,), (3,))
    tensor([[1., 0.],
            [0., 1.]])
    """
    copied = _clone(input)
    return _placed("as_strided_scatter", copied, as_strided(copied, size, stride, storage_offset), src)
