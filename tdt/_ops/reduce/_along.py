"""Fast paths of ops along one dimension, by functions of the last one."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._kernels import PIECE, for_arrays
from tdt._ops._common import wrap_dim
from tdt.autograd._fast_path import FastPath
from tdt.autograd._op import Op

Find = Callable[[Any, Any], Any]  # (NumPy dtype, option) → a function of arrays, or None
MOST_COLUMNS, LEAST_COLUMNS = 512, 64  # of a piece that a thread finds the extremes of
Prepared = tuple[Callable[[Any], Any], dict[str, Any]] | None


def last(dim: int, ndim: int) -> tuple[int, ...] | None:
    """The order of the dimensions that puts `dim` last; None if it is."""
    return None if dim == ndim - 1 else (*(d for d in range(ndim) if d != dim), dim)


def along_path(
    record: Op, find: Find, types: Callable[[Any], tuple], takes: Callable[[tuple[int, ...]], bool] | None, name: str,
    columns: Find | None = None, copies: bool = False,
) -> FastPath:  # fmt: skip
    """The fast path, with the arguments (dim, option), of an op whose results have the operand's shape.

    Args:
        types: the results' dtypes, from the operand's.
        takes: whether the function takes an array of a shape, whose last dimension is `dim`; None: it takes all.
        name: of the op's attribute that the option is.
        columns: gives a function of the first dimension of contiguous matrices.
        copies: as of `FastPath`.
    """

    def prepare(dtype: Any, shape: tuple[int, ...], dim: Any, option: Any) -> Prepared:
        ndim = len(shape)
        if not ndim or (function := find(dtype, option)) is None:
            return None
        d = wrap_dim(dim, ndim)
        if takes is not None and not takes((*shape[:d], *shape[d + 1 :], shape[d])):
            return None
        order, a = last(d, ndim), np.empty(shape, dtype)
        if order is None:
            compute = for_arrays(function, function, [a])
        elif columns is not None:
            compute = of_columns(columns(dtype, option), a, d)
        else:
            outs = [np.empty(shape, t) for t in types(dtype)]

            def compute(a: Any) -> Any:
                outs = tuple([np.empty(shape, t) for t in types(dtype)])
                function(a.transpose(order), *[o.transpose(order) for o in outs])
                return outs if len(outs) > 1 else outs[0]

            compute = for_arrays(compute, function, [a.transpose(order)], [(o, o.transpose(order)) for o in outs])
        return compute, {"dim": d, name: option} if name else {"dim": d}

    return FastPath(record, prepare, copies=copies, other_order="" if copies else "copied")


def of_columns(function: Callable[[Any], Any], a: Any, dim: int) -> Callable[[Any], Any]:
    """A function of the first dimension of contiguous matrices, along any dimension but the last of arrays like a."""
    if dim == a.ndim - 2:
        return for_arrays(function, function, [a])
    shape, as_matrices = a.shape, (*a.shape[: dim + 1], -1)
    out, matrices = np.empty_like(a), a.reshape(as_matrices)
    return for_arrays(
        lambda a: function(a.reshape(as_matrices)).reshape(shape),
        function,
        [matrices],
        [(out, out.reshape(as_matrices))],
    )


def without(shape: tuple[int, ...], dim: int, keepdim: bool) -> tuple[int, ...]:
    """A shape of which `dim` is left out, or kept with size 1."""
    return (*shape[:dim], *[1] * keepdim, *shape[dim + 1 :])


def side_by_side(x: Any, dim: int) -> Any:
    """A contiguous array (outer, pieces, n, columns), whose n is `dim`: pieces are cut so that threads find many."""
    outer, n = math.prod(x.shape[:dim]), x.shape[dim]
    inner = math.prod(x.shape[dim + 1 :])
    columns = math.gcd(inner, MOST_COLUMNS)
    if inner <= MOST_COLUMNS or columns < LEAST_COLUMNS:
        columns = inner
    return x.reshape(outer, n, inner // max(columns, 1), columns).transpose(0, 2, 1, 3)


def choice_of_columns(function: Callable[[Any], Any], x: Any, dim: int, keepdim: bool) -> Callable[[Any], Any]:
    """The elements that a function of matrices' first dimension chooses along `dim` of arrays like x, and their indices."""
    result, view = without(x.shape, dim, keepdim), side_by_side(x, dim)
    outs = [np.empty(result, t) for t in (x.dtype, np.int64)]
    return for_arrays(
        lambda a: tuple([each.reshape(result) for each in function(side_by_side(a, dim))]),
        function,
        [view],
        [(each, each.reshape(*view.shape[:2], view.shape[3])) for each in outs],
    )


def choice_path(
    record: Op, find: Find, takes: Callable[[tuple[int, ...]], bool] | None = None, columns: Find | None = None
) -> FastPath:
    """The fast path, with the arguments (dim, keepdim), of an op that gives an element along `dim` and its index.

    Args:
        find: gets the NumPy dtype and the size of `dim`.
        takes: as of `along_path`.
        columns: gives a function of the first dimension of matrices, for large arrays as well.
    """

    def prepare(dtype: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Prepared:
        ndim = len(shape)
        d = wrap_dim(dim, ndim)
        if not ndim or (function := find(dtype, shape[d])) is None:
            return None
        order, lead = last(d, ndim), (*shape[:d], *shape[d + 1 :])
        if takes is not None and not takes((*lead, shape[d])):
            return None
        attributes = {"dim": d, "keepdim": keepdim}
        if order is not None and columns is not None:
            return choice_of_columns(columns(dtype, shape[d]), np.empty(shape, dtype), d, keepdim), attributes

        def compute(a: Any) -> Any:
            results = function(a if order is None else a.transpose(order))
            return tuple([np.expand_dims(r, d) for r in results]) if keepdim else results

        a = np.empty(shape, dtype)
        outs = [np.empty(without(shape, d, keepdim), t) for t in (dtype, np.int64)]
        views = [(o, o.reshape(lead)) for o in outs]
        return for_arrays(compute, function, [a if order is None else a.transpose(order)], views), attributes

    most = PIECE if columns is None else sys.maxsize
    return FastPath(record, prepare, most, copies=True, other_order="copied", shares=columns is not None)


def sortable(shape: tuple[int, ...]) -> bool:
    """Whether rows are short enough for the code that sorts them on the stack."""
    return shape[-1] <= _kernels.LONGEST_ROW
