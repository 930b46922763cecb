"""Fast paths of ops along one dimension, by functions of the last one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._ops._common import wrap_dim
from tdt.autograd._fast_path import FastPath
from tdt.autograd._op import Op

Find = Callable[[Any, Any], Any]  # (NumPy dtype, option) → a function of arrays, or None


def last(dim: int, ndim: int) -> tuple[int, ...] | None:
    """The order of the dimensions that puts `dim` last; None if it is."""
    return None if dim == ndim - 1 else (*(d for d in range(ndim) if d != dim), dim)


def along_path(
    record: Op, find: Find, types: Callable[[Any], tuple], takes: Callable[[Any], bool], name: str,
    columns: Find | None = None,
) -> FastPath:  # fmt: skip
    """The fast path, with the arguments (dim, option), of an op whose results have the operand's shape.

    Args:
        types: the results' dtypes, from the operand's.
        takes: whether the function takes an array whose last dimension is `dim`.
        name: of the op's attribute that the option is.
        columns: gives a function of the first dimension of contiguous matrices.
    """

    def prepare(dtype: Any, ndim: int, dim: Any, option: Any) -> tuple[Callable[[Any], Any], dict[str, Any]] | None:
        if not ndim or (function := find(dtype, option)) is None:
            return None
        d = wrap_dim(dim, ndim)
        attributes = {"dim": d, name: option} if name else {"dim": d}
        order, results = last(d, ndim), types(dtype)
        if order is None:
            return lambda a: function(a) if takes(a) else None, attributes
        if columns is not None:
            of_columns = columns(dtype, option)
            return lambda a: _by_columns(of_columns, a, d) if takes(a) else None, attributes

        def compute(a: Any) -> Any:
            moved = a.transpose(order)
            if not takes(moved):
                return None
            outs = tuple([np.empty(a.shape, t) for t in results])
            function(moved, *[o.transpose(order) for o in outs])
            return outs if len(outs) > 1 else outs[0]

        return compute, attributes

    return FastPath(record, prepare)


def _by_columns(function: Callable[[Any], Any], a: Any, dim: int) -> Any:
    """A function of the first dimension of contiguous matrices, along any dimension but the last of a contiguous array."""
    if dim == a.ndim - 2:
        return function(a)
    return function(a.reshape(*a.shape[: dim + 1], -1)).reshape(a.shape)


def choice_path(record: Op, find: Find, takes: Callable[[Any], bool]) -> FastPath:
    """The fast path, with the arguments (dim, keepdim), of an op that gives an element along `dim` and its index."""

    def prepare(dtype: Any, ndim: int, dim: Any, keepdim: bool) -> tuple[Callable[[Any], Any], dict[str, Any]] | None:
        if not ndim or (function := find(dtype, None)) is None:
            return None
        d = wrap_dim(dim, ndim)
        order = last(d, ndim)

        def compute(a: Any) -> Any:
            moved = a if order is None else a.transpose(order)
            if not takes(moved):
                return None
            results = function(moved)
            return tuple([np.expand_dims(r, d) for r in results]) if keepdim else results

        return compute, {"dim": d, "keepdim": keepdim}

    return FastPath(record, prepare)


def sortable(x: Any) -> bool:
    """Whether code for sorting the last dimension is worth loading for an array, and its rows are short enough for it."""
    return x.size >= _kernels.LARGE_SORT and x.shape[-1] <= _kernels.LONGEST_ROW


def scannable(x: Any) -> bool:
    """Whether code for the last dimension is worth loading for an array."""
    return x.size >= _kernels.LARGE_SORT
