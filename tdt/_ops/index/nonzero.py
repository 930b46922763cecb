"""Indices of elements that are not 0: nonzero, argwhere, nonzero_static."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal, overload

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap, wrap_new
from tdt._ops._common import store_into
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt.autograd._arrays import unrecorded
from tdt.autograd._op import op

__all__ = ["argwhere", "nonzero", "nonzero_static"]


@op(data_dependent=True)
def _nonzero(xp: ModuleType, x: Any) -> Any:
    if not x.ndim:
        return xp.zeros((int(x != 0), 0), "int64")
    return xp.stack(xp.nonzero(x), 0).T


def _columns(x: np.ndarray) -> np.ndarray:
    """The indices (x.ndim, number) of the elements that are not 0: NumPy finds flat ones in a fraction of the time."""
    flat = x.reshape(-1).nonzero()[0]
    if x.ndim == 1:
        return flat.reshape(1, -1)
    columns = np.empty((x.ndim, flat.size), np.int64)
    for d in range(x.ndim - 1, 0, -1):
        before = flat // x.shape[d]
        np.subtract(flat, before * x.shape[d], out=columns[d])
        flat = before
    columns[0] = flat
    return columns


@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@method()
@front
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Indices of the elements that are not 0.

    Args:
        as_tuple: return a vector of indices for each dimension instead of a matrix.
    Shape: input (*) with n dimensions; result (number of nonzero elements, n).
    Raises:
        RuntimeError: when `as_tuple` and `out` are both given.

    >>> import tdt
    >>> tdt.nonzero(tdt.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    tensor_argument("nonzero", input)
    if out is None and input._a.ndim and unrecorded(input) and input._a.dtype.isbuiltin == 1:
        columns = _columns(input._a)
        return tuple([wrap_new(places) for places in columns]) if as_tuple else wrap_new(columns.T)
    if out is not None:
        tensor_argument("nonzero", out, "out")
        if as_tuple:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        refuse_out(out, _dtype.int64)
        return _nonzero.into(out, input)
    found = _nonzero(input if input.ndim or not as_tuple else input.reshape(1))
    return (
        tuple(
            [wrap(column) for column in np.ascontiguousarray(found._a.T)]
            if isinstance(found._a, np.ndarray)
            else list(found.t())
        )
        if as_tuple
        else found
    )


@method()
@front
def argwhere(input: Tensor) -> Tensor:
    """Indices of the elements that are not 0, a row each.

    Shape: input (*) with n dimensions; result (number of nonzero elements, n).

    >>> import tdt
    >>> tdt.argwhere(tdt.tensor([0, 5]))
    tensor([[1]])
    """
    return nonzero(input)


@method()
@front
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The first `size` rows of `nonzero`, filled up with `fill_value`.

    Shape: input (*) with n dimensions; result (size, n).
    Raises:
        RuntimeError: when `size` is negative.

    >>> import tdt
    >>> tdt.nonzero_static(tdt.tensor([0, 5]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, but got {size}")
    found = nonzero(input)[:size]
    rows = found.new_full((size, input.ndim), fill_value)
    rows[: len(found)] = found
    return rows if out is None else store_into(out, rows, exact=True)
