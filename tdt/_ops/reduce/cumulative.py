"""Cumulative sums, products and extremes along a dimension, and differences of neighbours."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOAT, FLOATING_AND_COMPLEX, NUMBERS, REAL
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import check_out_dtype, store_into, wrap_dim
from tdt._ops.elementwise.binary_math import _logaddexp
from tdt._ops.reduce._along import along_path
from tdt._ops.reduce._selection import _add_gather_rule, _check_out_values, _pair, named
from tdt.autograd._arrays import as_tensor, compute, on_arrays
from tdt.autograd._fast_path import FastPath, takes
from tdt.autograd._in_place_methods import by_copy
from tdt.autograd._op import Op, finish, op
from tdt.autograd._op_table import OPS

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp"]


_SUMS, _PRODUCTS = ((_kernels.gpu_kernel(f"scan_gpu:{name}", _kernels.gpu_scanned),) for name in ("cumsum", "cumprod"))


@op(dtypes=NUMBERS, packed=True)
@repeatable
def _cumsum(xp: ModuleType, x: Any, *, dim: int, reverse: bool = False) -> Any:
    if xp is not np:
        if on_gpu := _kernels.chosen(_SUMS, xp, x):
            return on_gpu(x, dim=dim, reverse=reverse)
        refuse_program()
    fast = _kernels.scanned("sum", x, dim, reverse) if x.ndim else None
    if fast is not None:
        return fast
    if reverse and x.ndim:
        return xp.flip(_cumsum.forward(xp, xp.flip(x, dim), dim=dim), dim)
    return _backend.scan(xp, xp.add, x, dim) if xp is np else x.cumsum(dim, x.dtype) if x.ndim else x.copy()


def _scan_path(record: Op, name: str, attribute: str = "") -> FastPath:
    """The fast path with the arguments (dim, False)."""
    rows, columns = (
        lambda dtype, _, find=find: find(name, dtype) for find in (_kernels.row_scan, _kernels.column_scan)
    )
    return along_path(record, rows, lambda dtype: (dtype,), None, attribute, columns)


_short_cumsum = _scan_path(_cumsum, "sum", "reverse")
_cumsum.vjp("x")(lambda g, dim, reverse: _cumsum(g, dim=dim, reverse=not reverse))
_cumsum.fast_vjp("x")(repeatable(lambda xp, g, dim, reverse: _cumsum.forward(xp, g, dim=dim, reverse=not reverse)))


@method(in_place=by_copy)
@takes(lambda dim: (_short_cumsum, dim, False))
def cumsum(input: Tensor, dim: int, *, dtype: Dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Cumulative sums along `dim`; of integers and bools as int64.

    Args:
        dtype: dtype that the elements are converted to before they are added.
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.cumsum(tdt.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    x = _as_sum_type(input, dtype, out)
    return finish(_cumsum, out, x, dim=wrap_dim(dim, x.ndim))


def _as_sum_type(x: Tensor, dtype: Dtype | None, out: Tensor | None) -> Tensor:
    """x converted to `dtype`, or else to that of `out`; without either, integers become int64."""
    if out is not None:
        dtype = out.dtype if dtype is None else _dtype.as_dtype(dtype)
        check_out_dtype(out, dtype)
    return x.to(dtype) if dtype is not None else x.to(_dtype.int64) if x.dtype.category < FLOAT else x


@op(dtypes=NUMBERS, packed=True)
@repeatable
def _cumprod(xp: ModuleType, x: Any, *, dim: int) -> Any:
    if xp is not np:
        if on_gpu := _kernels.chosen(_PRODUCTS, xp, x):
            return on_gpu(x, dim=dim)
        refuse_program()
    fast = _kernels.scanned("prod", x, dim) if x.ndim else None
    if fast is not None:
        return fast
    return _backend.scan(xp, xp.multiply, x, dim) if xp is np else x.cumprod(dim, x.dtype) if x.ndim else x.copy()


_short_cumprod = _scan_path(_cumprod, "prod")


@_cumprod.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    if not x.ndim or x.shape[dim] == 1:
        return g
    if not (x == 0)._a.any():
        return _cumsum(g * out.conj(), dim=dim, reverse=True) / x.conj()
    # d out_j / d x_k is the product of all x_i, i <= j, but x_k: put a 1 in its place, for every k.
    rows = x.movedim(dim, -1).unsqueeze(-2)
    n = rows.shape[-1]
    one = x.new_ones(n, dtype=_dtype.bool).diag_embed()
    others = _cumprod(rows.expand(*rows.shape[:-2], n, n).masked_fill(one, 1), dim=rows.ndim - 1).triu()
    return (g.movedim(dim, -1).unsqueeze(-2) * others.conj()).sum(-1).movedim(-1, dim)


@method(in_place=by_copy)
@takes(lambda dim: (_short_cumprod, dim, False))
def cumprod(input: Tensor, dim: int, *, dtype: Dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Cumulative products along `dim`; of integers and bools as int64.

    Args:
        dtype: dtype that the elements are converted to before they are multiplied.
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.cumprod(tdt.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    x = _as_sum_type(input, dtype, out)
    dim = wrap_dim(dim, x.ndim)
    return x.clone() if not x.ndim and out is None else finish(_cumprod, out, x, dim=dim)


def _cumulative_extreme_op(name: str, better: Callable[[Any, Any], Any]) -> Op:
    """The op of `cummax` or `cummin`; `better(a, b)`: whether a replaces the extreme b found before it."""

    @op(name=name, dtypes=REAL, outputs=("values", "indices"), nondiff=("indices",))
    def cumulative(xp: ModuleType, x: Any, *, dim: int, keepdim: bool = True) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), "int64")
        fast = _kernels.running_extremes(name[3:], x, dim)
        if fast is not None:
            return fast
        result, index = x.copy(order="C"), xp.zeros(x.shape, "int64")
        moved, values, indices = (xp.moveaxis(a, dim, 0) for a in (x, result, index))
        for i in range(1, len(moved)):
            replaces = better(moved[i], values[i - 1]) | (moved[i] != moved[i])
            values[i] = xp.where(replaces, moved[i], values[i - 1])
            indices[i] = xp.where(replaces, i, indices[i - 1])
        return result, index

    _add_gather_rule(cumulative, repeated=True)
    return cumulative


_cummax = _cumulative_extreme_op("cummax", lambda a, b: a >= b)
_cummin = _cumulative_extreme_op("cummin", lambda a, b: a <= b)


def _extremes_path(record: Op, name: str) -> FastPath:
    """The fast path with the arguments (dim, True)."""
    find = lambda dtype, _: _kernels.row_scan(name, dtype)  # noqa: E731

    def takes(shape: tuple[int, ...]) -> bool:
        """Others than long rows of many elements, of which the op's own kernel takes several elements at a time."""
        return shape[-1] < FEW or math.prod(shape) < FEW**2

    return along_path(record, find, lambda dtype: (dtype, np.int64), takes, "keepdim")


FEW = 64


_short_cummax, _short_cummin = _extremes_path(_cummax, "cummax"), _extremes_path(_cummin, "cummin")


@method()
@takes(lambda dim: (_short_cummax, dim, True), named("cummax"))
def cummax(input: Tensor, dim: int, *, out: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Largest element up to each position along `dim`, and its index, of equal elements the last; nan persists.

    Shape: input (*); both results the same.
    Returns: named tuple (values, indices).

    >>> import tdt
    >>> tdt.cummax(tdt.tensor([2, 1, 3]), 0).values
    tensor([2, 2, 3])
    """
    _check_out_values(out, input)
    return _pair("cummax", _cummax, out, input, dim=wrap_dim(dim, input.ndim))


@method()
@takes(lambda dim: (_short_cummin, dim, True), named("cummin"))
def cummin(input: Tensor, dim: int, *, out: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Smallest element up to each position along `dim`, and its index, of equal elements the last; nan persists.

    Shape: input (*); both results the same.
    Returns: named tuple (values, indices).

    >>> import tdt
    >>> tdt.cummin(tdt.tensor([2, 1, 3]), 0).values
    tensor([2, 1, 1])
    """
    _check_out_values(out, input)
    return _pair("cummin", _cummin, out, input, dim=wrap_dim(dim, input.ndim))


@op(dtypes=FLOATING_AND_COMPLEX, packed=True)
def _logcumsumexp(xp: ModuleType, x: Any, *, dim: int) -> Any:
    if not x.ndim or x.dtype.kind == "f":
        return _backend.scan(xp, xp.logaddexp, x, dim)
    out = x.copy(order="C")
    out += 0  # as of other sums, -0 alone is 0
    steps = xp.moveaxis(out, dim, 0)
    for i in range(1, len(steps)):
        steps[i] = _logaddexp(xp, steps[i - 1], steps[i])
    return out


@_logcumsumexp.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    if not x.ndim:
        return g
    # As exp(x - out), since exp(-out) alone may overflow.
    rows, outs, gs = (v.movedim(dim, -1) for v in (x, out, g))
    weights = (rows.unsqueeze(-1) - outs.unsqueeze(-2)).exp().triu()
    return (gs.unsqueeze(-2) * weights.conj()).sum(-1).movedim(-1, dim)


@_logcumsumexp.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any, out: Any, dim: int) -> Any:
    if not x.ndim:
        return g
    if x.dtype.kind == "c":
        rows, outs, gs = (xp.moveaxis(v, dim, -1) for v in (x, out, g))
        weights = xp.triu(xp.exp(rows[..., :, None] - outs[..., None, :]))
        return xp.moveaxis((gs[..., None, :] * weights.conj()).sum(-1), -1, dim)

    def part(size: Any) -> Any:
        """Sums of g · exp(x - out) from the end, by logarithms, for positive g; others count as 0."""
        logs = xp.log(xp.maximum(size, 0).astype("float64")) - out
        sums = xp.flip(_backend.scan(xp, xp.logaddexp, xp.flip(logs, dim), dim), dim)
        return xp.exp(sums + x)

    return (part(g) - part(-g)).astype(x.dtype)


@method()
@front
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the cumulative sums of exp(x) along `dim`, computed without overflow.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.logcumsumexp(tdt.zeros(2), 0)
    tensor([0.0000, 0.6931])
    """
    return finish(_logcumsumexp, out, input, dim=wrap_dim(dim, input.ndim))


def neighbours(x: Any, d: int, op: Op) -> Any:
    """`op` of each element but the first along `d` and the one before it, of arrays."""
    before = (slice(None),) * d
    return compute(op, x[(*before, slice(1, None))], x[(*before, slice(None, -1))])


@method()
@front
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Differences of neighbouring elements along `dim`, taken n times; of bools, whether neighbours differ.

    Args:
        n: how often differences are taken; 0 returns a copy.
        prepend, append: tensors to concatenate before and after input along `dim` first.
    Shape: input (*) with at least 1 dimension; prepend and append the same except in `dim`; result the same with n fewer
        elements in `dim`.
    Raises:
        RuntimeError: when input has no dimensions, or n is negative.

    >>> import tdt
    >>> tdt.diff(tdt.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    ndim = input._a.ndim
    if not ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = wrap_dim(dim, ndim)
    if n == 1 and prepend is append is out is None and on_arrays(input) and input._a.dtype.kind != "b":
        return as_tensor(neighbours(input._a, d, OPS["sub"]))
    from tdt._ops.shape.join import cat
    from tdt._ops.shape.views import slice_along

    parts = [x for x in (prepend, input, append) if x is not None]
    x = cat(parts, d) if n and len(parts) > 1 else input
    for _ in range(builtins.min(n, x.shape[d])):
        a, b = slice_along(x, d, 1), slice_along(x, d, None, -1)
        x = a.logical_xor(b) if x.dtype is _dtype.bool else a - b
    result = x.clone() if x is input else x
    return result if out is None else store_into(out, result, exact=not n)
