"""Reductions over dimensions: sums, means. Others are in extremes.py, product.py, truth.py (all, any) and variance.py."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import ends_by_formula, gives_views, refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import check_call
from tdt._core.dtype import FLOAT, FLOATING, FLOATING_AND_COMPLEX, REAL, SCALAR_NAMES
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels import LOWER, narrow, widen
from tdt._kernels.programs_gpu import depending
from tdt._ops._common import Dims, count, expanded, keep, keepdim_shape, store_into, wrap_dims
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt.autograd._fast_path import FastPath, takes
from tdt.autograd._node_names import by_dim
from tdt.autograd._op import Op, finish, op

__all__ = ["hash_tensor", "logsumexp", "mean", "nanmean", "nansum", "sum"]

AllDims = tuple[int, ...] | None


def fold_path(
    record: Op,
    name: str | Callable[[Any], str],
    final: Any = None,
    *,
    by_shape: bool = False,
    turned: bool = True,
    alone: str = "",
    **others: Any,
) -> FastPath:
    """The fast path of a reduction with the arguments (dim, keepdim).

    Args:
        name: of the fold, or a function that gives it for a NumPy dtype, "" for none.
        final: NumPy's dtype of the result, None for the operand's; or a function of that. Of a variance the correction.
        turned: whether arrays whose dimensions lie in another order in memory are folded in that order.
        by_shape: prepare calls by shape (`tdt._kernels.prepares`) too, for an op that has no other fold of these attributes.
        alone: name of the fold of single elements, where that is another one.
        others: further attributes of the op.
    """

    def prepare(
        dtype: Any, shape: tuple[int, ...], dim: Any, keepdim: bool
    ) -> tuple[Callable[[Any], Any], dict[str, Any]] | None:
        dims = wrap_dims(dim, len(shape))
        fold = name if isinstance(name, str) else name(dtype)
        if fold and alone and reduces_nothing(shape, dims):
            fold = alone
        to = final(dtype) if callable(final) else final
        if shape:
            run = _kernels.prepared_fold(fold, dtype, shape, dims, keepdim, to) if fold else None
        else:
            one = _kernels.prepared_fold(fold, dtype, (1,), None, False, to) if fold and turned else None
            run = one and (lambda a: np.asarray(one(a.reshape(1))))
        return run and (run, {"dim": dims, "keepdim": keepdim, **others})

    if by_shape:
        _prepare_calls(record, prepare, others)
    return FastPath(record, prepare, sys.maxsize, other_order="turned" if turned else "", shares=True)


def reduces_nothing(shape: tuple[int, ...], dims: tuple[int, ...] | None) -> bool:
    """Whether all the dimensions that are reduced, None for all, have size 1."""
    return math.prod([n for d, n in enumerate(shape) if dims is None or d in dims]) == 1


def _prepare_calls(record: Op, prepare: Callable[..., Any], others: dict[str, Any]) -> None:
    """Let calls by shape of `record` with the attributes `others` take the fold that `prepare` gives."""
    own, earlier = {**record.defaults, **others}, getattr(record.forward, "prepare", None)

    @_kernels.prepares(record.forward)
    def _(x: Any, *, recorded: bool, **attributes: Any) -> Any:
        dim, keepdim = attributes.get("dim"), attributes.get("keepdim", False)
        if attributes != {**own, "dim": dim, "keepdim": keepdim}:
            return earlier and earlier(x, recorded=recorded, **attributes)
        found: Any = prepare(x.dtype, x.shape, dim, keepdim) if x.size else None
        return found and found[0]


def sum_name(dtype: Any, fold: str = "sum") -> str:
    """The fold that sums (or with "prod" multiplies) elements of a type, integers and bools as int64."""
    return {"f": fold, "i": fold, "u": f"{fold}_unsigned", "b": f"{fold}_unsigned"}.get(dtype.kind, "")


def float_fold(name: str) -> Callable[[Any], str]:
    """The fold `name` for floating-point types alone."""
    return lambda dtype: name if dtype.kind == "f" else ""


def sum_type(dtype: Any) -> Any:
    return np.int64 if dtype.kind in "iub" else None


def accumulation_dtype(x: Any, dtype: Any) -> Any:
    """The dtype to accumulate in: `dtype` if given, else int64 for integers and bools."""
    return dtype.np if dtype is not None else "int64" if x.dtype.kind in "biu" else None


@op(packed=True, node=by_dim("Sum"), sparse_gradients=True, fold="sum", half="everywhere")
@repeatable
def _sum(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if x.dtype in LOWER:
        if dtype is None and (fast := _kernels.folded("sum", x, dim, keepdim)) is not None:
            return fast
        return narrow(_sum.forward(xp, *widen([x]), dim=dim, keepdim=keepdim, dtype=dtype), x.dtype)
    return _kernels.total(x, dim, accumulation_dtype(x, dtype), keepdim)


def integral(dtype: Any) -> Any:
    """`dtype` if it is integral (or bool), where the accumulation would otherwise be in int64; else None."""
    return dtype if dtype is not None and dtype.category < FLOAT else None


def spread(xp: ModuleType, g: Any, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Any:
    """The gradient (array) of a sum: each input element's is that of the sum it went into. A view of g."""
    if xp is np:
        return expanded(xp, keep(g, dim, x_shape, keepdim), x_shape)
    return depending(_broadcast, xp, g, g.shape if keepdim else keepdim_shape(dim, x_shape), x_shape)


def _broadcast(xp: ModuleType, x: Any, shape: tuple[int, ...], target: tuple[int, ...]) -> Any:
    return xp.broadcast_to(x.reshape(shape), target)


@_sum.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Tensor:
    return keep(g, dim, x_shape, keepdim).expand(x_shape)


_sum.fast_vjp("x")(gives_views(spread))
_short_sum = fold_path(_sum, sum_name, sum_type, by_shape=True)


@method()
@takes(lambda dim=None, keepdim=False: (_short_sum, dim, keepdim))
def sum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Sum of the elements over `dim`; of integers and bools an int64.

    Args:
        dim: one or several dimensions; None or () for all.
        dtype: dtype that the elements are converted to before they are added.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).

    >>> import tdt
    >>> tdt.sum(tdt.tensor([[1, 2], [3, 4]]), 0)
    tensor([4, 6])
    """
    if dtype is None and isinstance(out, Tensor):
        dtype = out.dtype
    x = tensor_argument("sum", input) if dtype is None else input.to(dtype)
    return finish(_sum, out, x, dim=wrap_dims(dim, x._a.ndim), keepdim=keepdim, dtype=integral(dtype))


@op(packed=True, dtypes=REAL)
def _nansum(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if x.dtype.kind != "f":
        return _kernels.total(x, dim, accumulation_dtype(x, dtype), keepdim)
    fast = _kernels.folded("nansum", x, dim, keepdim)
    return _backend.total(xp.where(xp.isnan(x), x.dtype.type(0), x), dim, None, keepdim) if fast is None else fast


@_nansum.vjp("x")
def _(g: Tensor, x: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
    return keep(g, dim, x.shape, keepdim).expand(x.shape).masked_fill(x.isnan(), 0)


@_nansum.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any, dim: AllDims, keepdim: bool) -> Any:
    return xp.where(xp.isnan(x), g.dtype.type(0), spread(xp, g, x.shape, dim, keepdim))


_short_nansum = fold_path(_nansum, float_fold("nansum"))


@method()
@takes(lambda dim=None, keepdim=False: (_short_nansum, dim, keepdim))
def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Sum over `dim` with nan counted as 0.

    Args:
        dim: one or several dimensions; None or () for all.
        dtype: dtype that the elements are converted to before they are added.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when the input is complex.

    >>> import tdt
    >>> tdt.nansum(tdt.tensor([1.0, float("nan")]))
    tensor(1.)
    """
    if input.is_complex():
        raise RuntimeError("nansum does not support complex inputs")
    x = input if dtype is None else input.to(dtype)
    return finish(_nansum, out, x, dim=wrap_dims(dim, x._a.ndim), keepdim=keepdim, dtype=integral(dtype))


def _float_only(name: str, x: Tensor) -> None:
    if x.dtype.category < FLOAT:
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {SCALAR_NAMES[x.dtype]}"
        )


@op(dtypes=FLOATING_AND_COMPLEX, packed=True, node=by_dim("Mean"), fold="mean")
@ends_by_formula
@repeatable
def _mean(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
    n = x.size if dim is None else count(x.shape, dim)
    fast = _kernels.folded("mean", x, dim, keepdim, None, n)
    total = _kernels.total if x.dtype.kind == "c" else _backend.total
    return _kernels.quotient(total(x, dim, None, keepdim), n or math.nan) if fast is None else fast


@_mean.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Tensor:
    return (keep(g, dim, x_shape, keepdim) / (count(x_shape, dim) or math.nan)).expand(x_shape)


@_mean.fast_vjp("x")
@ends_by_formula
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Any:
    return spread(xp, xp.asarray(_kernels.quotient(g, count(x_shape, dim) or math.nan)), x_shape, dim, keepdim)


_short_mean = fold_path(_mean, float_fold("mean"))


@method()
@takes(lambda dim=None, keepdim=False: (_short_mean, dim, keepdim))
def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Mean of the elements over `dim`; nan of no elements.

    Args:
        dim: one or several dimensions; None or () for all.
        dtype: dtype that the elements are converted to first.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when the input is integral or bool and no floating-point `dtype` is given.

    >>> import tdt
    >>> tdt.mean(tdt.tensor([1.0, 3.0]))
    tensor(2.)
    """
    x = tensor_argument("mean", input) if dtype is None else input.to(dtype)
    _float_only("mean", x)
    return finish(_mean, out, x, dim=wrap_dims(dim, x._a.ndim), keepdim=keepdim)


@op(packed=True, dtypes=FLOATING, node="DivBackward0")
def _nanmean(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
    if (fast := _kernels.folded("nanmean", x, dim, keepdim)) is not None:
        return fast
    return _nansum.forward(xp, x, dim=dim, keepdim=keepdim) / (~xp.isnan(x)).sum(dim, x.dtype, None, keepdim)


@_nanmean.vjp("x")
def _(g: Tensor, x: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
    share = g / x.isnan().logical_not().sum(dim, keepdim=keepdim)
    return keep(share, dim, x.shape, keepdim).expand(x.shape).masked_fill(x.isnan(), 0)


@_nanmean.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any, dim: AllDims, keepdim: bool) -> Any:
    known = x == x
    share = xp.asarray(g / known.sum(dim, g.dtype, None, keepdim))
    return xp.where(known, spread(xp, share, x.shape, dim, keepdim), g.dtype.type(0))


_short_nanmean = fold_path(_nanmean, float_fold("nanmean"))


@method()
@takes(lambda dim=None, keepdim=False: (_short_nanmean, dim, keepdim))
def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Mean over `dim` of the elements that are not nan; nan where there are none.

    Args:
        dim: one or several dimensions; None or () for all.
        dtype: dtype that the elements are converted to first.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when the input is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.nanmean(tdt.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    if input.dtype.category < FLOAT:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {SCALAR_NAMES[input.dtype]}"
        )
    if input.dtype.is_complex or dtype is not None:
        result = nansum(input, dim, keepdim, dtype=dtype) / input.isnan().logical_not().sum(dim, keepdim)
        return result if out is None else store_into(out, result)
    return finish(_nanmean, out, input, dim=wrap_dims(dim, input._a.ndim), keepdim=keepdim)


@op(dtypes=FLOATING_AND_COMPLEX, to_float=True, packed=True)
@repeatable
def _logsumexp(xp: ModuleType, x: Any, *, dim: AllDims, keepdim: bool = False) -> Any:
    if x.size and x.dtype.kind == "f":
        fast = _kernels.logsumexp(x, dim, keepdim)
        if fast is not None:
            return fast
    refuse_program()
    if not x.size:
        return xp.log(_backend.total(xp.exp(x), dim, None, keepdim))
    top = x.real.max(dim, None, True)
    top = xp.where(xp.isfinite(top), top, 0).astype(top.dtype)
    total = xp.log(_kernels.total(_exp_of_difference(xp, x, top), dim, None, True)) + top
    return total if keepdim else total.squeeze(dim)


_short_logsumexp = fold_path(_logsumexp, float_fold("logsumexp"), turned=False)


@_logsumexp.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
    return keep(g, dim, x.shape, keepdim) * (x - keep(out, dim, x.shape, keepdim)).exp().conj()


@_logsumexp.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, x: Any, out: Any, dim: AllDims, keepdim: bool) -> Any:
    g, total = keep(g, dim, x.shape, keepdim), keep(out, dim, x.shape, keepdim)
    if x.dtype.kind == "f":
        return _share(xp, g, x, total)
    refuse_program()
    return g * xp.exp(x - total).conj()


_exp_of_difference = _kernels.from_formula("exp_of_difference", lambda xp, x, top: xp.exp(x - top), 2, ())[0]
_share = _kernels.from_formula("logsumexp_share", lambda xp, g, x, total: g * xp.exp(x - total), 3, ())[0]


@method()
@takes(lambda dim, keepdim=False: (_short_logsumexp, dim, keepdim) if keepdim or dim.__class__ is int else None)
def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the sum of exp(x) over `dim`, computed without overflow.

    Args:
        dim: one or several dimensions; with keepdim=True, or of an empty input, () for all.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        TypeError: when `dim` is None.
        RuntimeError: when `dim` is () for an input with dimensions and elements, and keepdim is False.

    >>> import tdt
    >>> tdt.logsumexp(tdt.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    if dim is None:
        check_call()
    dims = wrap_dims(dim, input.ndim)
    if dims is None and not keepdim and input.ndim and input._a.size:
        ones = [1] * input.ndim
        raise RuntimeError(f"output with shape [] doesn't match the broadcast shape {ones}: name the dimensions")
    return finish(_logsumexp, out, input, dim=dims, keepdim=keepdim)


def refuse_empty(name: str, x: Tensor, dim: AllDims, whole: type[Exception] = RuntimeError) -> None:
    """Raise IndexError if a dimension of `dim` is empty, and `whole` if `dim` is None and the tensor is empty."""
    if x._a.size:
        return
    if dim is None:
        raise whole(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
        )
    for d in dim:
        if not x._a.shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


@op(name="hash_tensor", dtypes=REAL, packed=True)
def _hash_tensor(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
    fast = _kernels.folded("hash", x, dim, keepdim, "uint64")
    if fast is not None:
        return fast
    bits = x.astype(xp.int64 if x.dtype.kind in "biu" else xp.float64).view(xp.uint64)
    dims = tuple(range(x.ndim)) if dim is None else dim
    for d in dims:
        bits = bits.swapaxes(d, 0)
        while (n := len(bits)) > 1:  # CuPy's ufuncs have no reduce
            bits = xp.concatenate([bits[: n // 2] ^ bits[n - n // 2 :], bits[n // 2 : n - n // 2]])
        bits = bits.swapaxes(d, 0)
    return bits if keepdim else bits.squeeze(dims)


_short_hash = fold_path(_hash_tensor, "hash", lambda dtype: np.uint64)


@method()
@takes(lambda dim=(), *, keepdim=False: (_short_hash, dim, keepdim))
def hash_tensor(
    input: Tensor, dim: Dims = (), *, keepdim: bool = False, mode: int = 0, out: Tensor | None = None
) -> Tensor:
    """Hash over `dim`: the exclusive or of the bits of the elements, as uint64.

    Floating-point elements are taken as float64, others as int64.

    Args:
        dim: one or several dimensions; () for all.
        mode: hash function; only 0, exclusive or, exists.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when `mode` is not 0, `out` is not uint64, or the input is empty and `dim` is ().
        IndexError: when a dimension to reduce is empty.

    >>> import tdt
    >>> tdt.hash_tensor(tdt.tensor([5, 3]))
    tensor(6, dtype=tdt.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: unknown mode {mode}; expected 0, exclusive or")
    dims = wrap_dims(dim, input.ndim)
    refuse_empty("hash_tensor", input, dims)
    refuse_out(out, _dtype.uint64)
    return finish(_hash_tensor, out, input, dim=dims, keepdim=keepdim)
