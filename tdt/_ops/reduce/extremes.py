"""The largest and smallest elements over dimensions, and where they are."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.waiting import repeatable
from tdt._core import dtype as _dtype
from tdt._core.dtype import REAL, REAL_NUMBERS
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import Dims, keep, store_into, wrap_dim, wrap_dims
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt._ops.reduce._along import choice_of_columns, side_by_side, without
from tdt._ops.reduce.reductions import AllDims, fold_path, refuse_empty
from tdt.autograd._fast_path import Both, FastPath, takes
from tdt.autograd._node_names import label
from tdt.autograd._op import Op, finish, op

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin"]


def among_ties(xp: ModuleType, g: Any, x: Any, best: Any, dim: AllDims) -> Any:
    """The gradient (array) of an extreme, divided equally among the elements that equal it, or that are nan as it is.

    g, best: broadcastable to x.
    """
    if xp is not np:
        return _shared_on_gpu(xp, g, _ties_or_nan(xp, x, best), dim)
    ties = x == best
    missing = xp.isnan(best)
    if missing.any():
        ties |= xp.isnan(x) & missing
    return shared(xp, g, ties, dim)


def shared(xp: ModuleType, g: Any, ties: Any, dim: AllDims) -> Any:
    """The gradient (array) g divided equally among the elements of `ties`."""
    number = _kernels.folded("count", ties, dim, True, g.dtype)
    number = ties.sum(dim, g.dtype, None, True) if number is None else number
    return xp.asarray(g * ties / number)


def _shared_on_gpu(xp: ModuleType, g: Any, ties: Any, dim: AllDims) -> Any:
    """`shared`, of `ties` that are 1 or 0 in the type of g."""
    return xp.asarray(_share(xp, g, ties, _kernels.total(ties, dim, None, True)))


_ties = _kernels.from_formula("ties", lambda xp, x, best: xp.where(x == best, x.dtype.type(1), x.dtype.type(0)), 2, ())[
    0
]
_ties_or_nan = _kernels.from_formula(
    "ties_or_nan",
    lambda xp, x, best: xp.where((x == best) | ((x != x) & (best != best)), x.dtype.type(1), x.dtype.type(0)),
    2,
    (),
)[0]
_share = _kernels.from_formula("share_of_ties", lambda xp, g, ties, number: g * ties / number, 3, ())[0]


def _extreme_op(name: str) -> Op:
    """The op of `amax` or `amin`."""
    reduction = name[1:]

    @op(name=name, dtypes=REAL, packed=True, fold=reduction)
    @repeatable
    def extreme(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
        fast = _kernels.folded(reduction, x, dim, keepdim)
        return getattr(x, reduction)(dim, None, keepdim) if fast is None else fast

    @extreme.vjp("x")
    def _(g: Tensor, x: Tensor, out: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
        best = keep(out, dim, x.shape, keepdim)
        ties = (
            x == best
        )  # as in PyTorch none where that is nan, so that the gradient is nan: but of `max` of all elements
        ties = ties | (x.isnan() & best.isnan()) if dim is None else ties
        return keep(g, dim, x.shape, keepdim) * ties / ties.sum(dim, keepdim=True)

    @extreme.fast_vjp("x")
    @repeatable
    def _(xp: ModuleType, g: Any, x: Any, out: Any, dim: AllDims, keepdim: bool) -> Any:
        g, best = keep(g, dim, x.shape, keepdim), keep(out, dim, x.shape, keepdim)
        if dim is None:
            return among_ties(xp, g, x, best, dim)
        return shared(xp, g, x == best, dim) if xp is np else _shared_on_gpu(xp, g, _ties(xp, x, best), dim)

    return extreme


_amax, _amin = _extreme_op("amax"), _extreme_op("amin")
_short_amax, _short_amin = fold_path(_amax, "max"), fold_path(_amin, "min")
_short_aminmax = Both(_short_amin, _short_amax)


@method()
@takes(lambda dim=(), keepdim=False: (_short_amax, dim, keepdim))
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Largest element over `dim`; the gradient is divided equally among ties.

    Args:
        dim: one or several dimensions; () for all.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        IndexError: when a dimension to reduce is empty.
        RuntimeError: when the input is empty and `dim` is (), or `out` has another dtype.

    >>> import tdt
    >>> tdt.amax(tdt.tensor([[1, 5], [3, 2]]), 1)
    tensor([5, 3])
    """
    dims = wrap_dims(dim, tensor_argument("amax", input).ndim)
    refuse_empty("amax", input, dims)
    refuse_out(out, input)
    return finish(_amax, out, input, dim=dims, keepdim=keepdim)


@method()
@takes(lambda dim=(), keepdim=False: (_short_amin, dim, keepdim))
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Smallest element over `dim`; the gradient is divided equally among ties.

    Args:
        dim: one or several dimensions; () for all.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        IndexError: when a dimension to reduce is empty.
        RuntimeError: when the input is empty and `dim` is (), or `out` has another dtype.

    >>> import tdt
    >>> tdt.amin(tdt.tensor([[1, 5], [3, 2]]), 1)
    tensor([1, 2])
    """
    dims = wrap_dims(dim, tensor_argument("amin", input).ndim)
    refuse_empty("amin", input, dims)
    refuse_out(out, input)
    return finish(_amin, out, input, dim=dims, keepdim=keepdim)


def _aminmax_result(results: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The named tuple (min, max), whose nodes show the function's name."""
    if results[0]._edge is not None:
        results = label(results[0], "AminmaxBackward0"), label(results[1], "AminmaxBackward0")
    return return_type("aminmax", ("min", "max"))._make(results)


@method()
@takes(
    lambda *, dim=None, keepdim=False: (
        None if dim.__class__ is tuple else (_short_aminmax, () if dim is None else dim, keepdim)
    ),
    _aminmax_result,
)
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Smallest and largest element along `dim`, or of the whole tensor.

    Shape: input (*); both results input's shape without `dim` (of size 1 with keepdim=True), () without `dim`.
    Returns: named tuple (min, max).
    Raises:
        IndexError: when the dimension to reduce is empty.
        RuntimeError: when the input is empty and `dim` is None.

    >>> import tdt
    >>> tdt.aminmax(tdt.tensor([1, 5, 3])).max
    tensor(5)
    """
    if not input._a.size:
        refuse_empty("aminmax", input, wrap_dims(dim, input.ndim))
    over = () if dim is None else wrap_dim(dim, input.ndim)
    results: tuple[Any, Any] = amin(input, over, keepdim), amax(input, over, keepdim)
    if out is not None:
        results = store_into(out[0], results[0], exact=True), store_into(out[1], results[1], exact=True)
    return _aminmax_result(results)


@op(name="argmax", dtypes=REAL_NUMBERS, kernels=(_kernels.gpu_kernel("fold_gpu:argmax", _kernels.gpu_places),))
def _argmax(xp: ModuleType, x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    return _places(xp, x, "max", dim, keepdim)


@op(name="argmin", dtypes=REAL_NUMBERS, kernels=(_kernels.gpu_kernel("fold_gpu:argmin", _kernels.gpu_places),))
def _argmin(xp: ModuleType, x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    return _places(xp, x, "min", dim, keepdim)


def _places(xp: ModuleType, x: Any, how: str, dim: int | None, keepdim: bool) -> Any:
    """The indices of the extremes."""
    if xp is np and dim is not None and dim < x.ndim - 1 and x.flags.c_contiguous:
        columns = _kernels.column_scan(how, x.dtype)
        if columns is not None:
            return columns(side_by_side(x, dim))[1].reshape(without(x.shape, dim, keepdim))
    return getattr(x, f"arg{how}")(dim, keepdims=keepdim)


def _place_path(op: Op) -> FastPath:
    """The short way of `argmax` or `argmin`."""
    find, how = getattr(np.ndarray, op.name), op.name.removeprefix("arg")

    def prepare(dtype: Any, shape: tuple[int, ...], dim: int | None, keepdim: bool) -> Any:
        attributes = {"dim": None if dim is None else wrap_dim(dim, len(shape)), "keepdim": keepdim}
        if dim is None and shape:
            return None if keepdim else (lambda a: np.asarray(find(a)), attributes)
        d = attributes["dim"]
        columns = _kernels.column_scan(how, dtype) if d is not None and d < len(shape) - 1 else None
        if d is None or columns is None:
            return lambda a: np.asarray(find(a, d, keepdims=keepdim)), attributes
        run = choice_of_columns(columns, np.empty(shape, dtype), d, keepdim)
        return lambda a: run(a)[1], attributes

    return FastPath(op, prepare)


_short_argmax, _short_argmin = _place_path(_argmax), _place_path(_argmin)


def _place(op: Op, input: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Tensor:
    """`argmax` or `argmin`."""
    ndim = tensor_argument(op.name, input).ndim
    dim = None if dim is None else wrap_dim(dim, ndim)
    refuse_empty(op.name, input, None if dim is None or not ndim else (dim,), IndexError)
    refuse_out(out, _dtype.int64)
    return finish(op, out, input, dim=dim if ndim else None, keepdim=keepdim)


@method()
@takes(lambda dim=None, keepdim=False: (_short_argmax, dim, keepdim))
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the largest element, of equal ones the first.

    Args:
        dim: dimension to search along; None for the index into the flattened tensor.
    Shape: input (*); result int64, input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        IndexError: when there are no elements to choose from.
        RuntimeError: when `out` is not int64.

    >>> import tdt
    >>> tdt.argmax(tdt.tensor([1, 5, 3]))
    tensor(1)
    """
    return _place(_argmax, input, dim, keepdim, out)


@method()
@takes(lambda dim=None, keepdim=False: (_short_argmin, dim, keepdim))
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the smallest element, of equal ones the first.

    Args:
        dim: dimension to search along; None for the index into the flattened tensor.
    Shape: input (*); result int64, input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        IndexError: when there are no elements to choose from.
        RuntimeError: when `out` is not int64.

    >>> import tdt
    >>> tdt.argmin(tdt.tensor([1, 5, 3]))
    tensor(0)
    """
    return _place(_argmin, input, dim, keepdim, out)
