"""Variance and standard deviation, alone or together with the mean: var, std, var_mean, std_mean."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import repeatable
from tdt._core.calls import front
from tdt._core.dtype import FLOAT, FLOATING_AND_COMPLEX
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import Dims, count, keep, wrap_dims
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.reduce.reductions import AllDims, _mean, float_fold, fold_path
from tdt.autograd._fast_path import takes
from tdt.autograd._node_names import label
from tdt.autograd._op import Op, finish, op

__all__ = ["std", "std_mean", "var", "var_mean"]


def _divisor(n: int, correction: float) -> float:
    """What the sum of n squares is divided by; NaN for none."""
    return max(n - correction, 0.0) if n else math.nan


SMALL = 1 << 14  # elements for which double precision throughout takes the least time


@op(dtypes=FLOATING_AND_COMPLEX, packed=True)
@repeatable
def _var(xp: ModuleType, x: Any, *, dim: AllDims = None, correction: float = 1, keepdim: bool = False) -> Any:
    n = count(x.shape, dim)
    divisor = _divisor(n, correction)
    fast = _kernels.variance("var", x, dim, keepdim, n, divisor)
    if fast is not None:
        return fast
    single = xp is np and x.dtype == np.float32  # which is computed in double precision, as in PyTorch
    values = x.astype(np.float64) if single and x.size <= SMALL else x
    deviation = values - _backend.total(values, dim, None, True) / (n or math.nan)
    if not single or x.size <= SMALL:
        square = (deviation * deviation.conj()).real if x.dtype.kind == "c" else deviation * deviation
        result = _backend.total(square, dim, None, keepdim) / divisor
        return result.astype(x.dtype) if single else result
    # The mean was rounded, so that the deviations have a sum of their own.
    left = _backend.total(deviation, dim, None, keepdim).astype(np.float64)
    square = xp.multiply(deviation, deviation, out=deviation)
    return xp.divide(_backend.total(square, dim, np.float64, keepdim) - left * left / n, divisor).astype(x.dtype)


@_var.vjp("x")
def _(g: Tensor, x: Tensor, dim: AllDims, correction: float, keepdim: bool) -> Tensor:
    n = count(x.shape, dim)
    free = float(n - correction)
    centred = x - x.mean(dim, keepdim=True)
    scale = 2.0 / free if free > 0 else math.inf if n else math.nan
    return keep(g, dim, x.shape, keepdim) * scale * centred


_slope = _kernels.from_formula("var_gradient", lambda xp, g, x, mean, scale: g * scale * (x - mean), 3, ("scale",))[0]


@_var.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, x: Any, dim: AllDims, correction: float, keepdim: bool) -> Any:
    n = count(x.shape, dim)
    free = float(n - correction)
    mean = _mean.forward(xp, x, dim=dim, keepdim=True)
    scale = 2.0 / free if free > 0 else math.inf if n else math.nan
    g = keep(g, dim, x.shape, keepdim)
    return xp.asarray(g * scale * (x - mean) if xp is np else _slope(xp, g, x, mean, scale=scale))


@op(dtypes=FLOATING_AND_COMPLEX, packed=True)
@repeatable
def _std(xp: ModuleType, x: Any, *, dim: AllDims = None, correction: float = 1, keepdim: bool = False) -> Any:
    n = count(x.shape, dim)
    fast = _kernels.variance("std", x, dim, keepdim, n, _divisor(n, correction))
    return fast if fast is not None else xp.sqrt(_var.forward(xp, x, dim=dim, correction=correction, keepdim=keepdim))


@_std.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, dim: AllDims, correction: float, keepdim: bool) -> Tensor:
    of_var = (g / (out * 2)).masked_fill(out == 0, 0)
    return _var.rules["x"].function(of_var, x, dim, correction, keepdim)


_of_var = _kernels.from_formula("std_gradient", lambda xp, g, out: xp.where(out == 0, out, g / (out * 2)), 2, ())[0]


@_std.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, x: Any, out: Any, dim: AllDims, correction: float, keepdim: bool) -> Any:
    of_var = xp.asarray(xp.where(out == 0, out, g / (out * 2)) if xp is np else _of_var(xp, g, out))
    return _var.rules["x"].fast(xp, of_var, x, dim, correction, keepdim)  # type: ignore[misc]


def _variance_options(
    name: str, x: Tensor, dim: Dims | bool, unbiased: bool | None, correction: float | None, keepdim: bool
) -> dict[str, Any]:
    """The attributes of var and std from their two signatures: (dim, unbiased, keepdim) and (dim, *, correction, keepdim)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if tensor_argument(name, x).dtype.category < FLOAT:
        raise RuntimeError(f"{name} only support floating point and complex dtypes")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return {"dim": wrap_dims(dim, x.ndim), "correction": correction, "keepdim": keepdim}


_short_var, _short_std = (
    fold_path(record, float_fold(name), 1, turned=False) for record, name in ((_var, "var"), (_std, "std"))
)


@op(dtypes=FLOATING_AND_COMPLEX, packed=True)
@repeatable
def _mean_beside(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
    """The mean, rounded once; NaN where an element before the last one is infinite, as PyTorch's running mean is then."""
    wide = x.astype(np.float64) if x.dtype == np.float32 else x
    mean = _mean.forward(xp, wide, dim=dim, keepdim=keepdim)
    if x.dtype.kind == "f" and x.size and (xp is not np or np.isinf(mean).any()):
        infinite = _infinite(xp, x)
        last = tuple([slice(-1 if dim is None or d in dim else None, None) for d in range(x.ndim)])
        count = _kernels.total(infinite, dim, None, True)
        return _mean_of_infinities(
            xp, xp.asarray(mean.astype(x.dtype)), *(a.reshape(mean.shape) for a in (count, infinite[last]))
        )
    return mean.astype(x.dtype)


_infinite = _kernels.from_formula(
    "infinite", lambda xp, x: xp.where(xp.isinf(x), x.dtype.type(1), x.dtype.type(0)), 1, ()
)[0]
_mean_of_infinities = _kernels.from_formula(
    "mean_of_infinities", lambda xp, mean, count, last: xp.where(count > last, mean - mean, mean), 3, ()
)[0]


_mean_beside.vjp("x")(_mean.rules["x"].function)
_mean_beside.fast_vjp("x")(_mean.rules["x"].fast)  # type: ignore[arg-type]


def _with_mean(name: str, record: Op, input: Tensor, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """(variance or standard deviation, mean), whose nodes show `name`."""
    mean = _mean_beside(input, dim=options["dim"], keepdim=options["keepdim"])
    return label(record(input, **options), name), label(mean, name)


@method()
@takes(lambda dim=None, *, keepdim=False: None if dim.__class__ is bool else (_short_var, dim, keepdim))
def var(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Variance over `dim`: sum of squared distances from the mean, divided by n - correction.

    Args:
        dim: one or several dimensions; None or () for all. A bool here is taken as `unbiased`.
        unbiased: older form of `correction`: True for 1, False for 0.
        correction: difference between the number n of elements and the divisor; 1 if not given.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when the input is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.var(tdt.tensor([1.0, 3.0])), tdt.var(tdt.tensor([1.0, 3.0]), correction=0)
    (tensor(2.), tensor(1.))
    """
    return finish(_var, out, input, **_variance_options("var", input, dim, unbiased, correction, keepdim))


@method()
@takes(lambda dim=None, *, keepdim=False: None if dim.__class__ is bool else (_short_std, dim, keepdim))
def std(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Standard deviation over `dim`: the square root of the variance.

    Args:
        dim: one or several dimensions; None or () for all. A bool here is taken as `unbiased`.
        unbiased: older form of `correction`: True for 1, False for 0.
        correction: difference between the number n of elements and the divisor; 1 if not given.
    Shape: input (*); result input's shape without `dim` (of size 1 with keepdim=True).
    Raises:
        RuntimeError: when the input is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.std(tdt.tensor([1.0, 3.0])), tdt.std(tdt.tensor([1.0, 3.0]), correction=0)
    (tensor(1.4142), tensor(1.))
    """
    return finish(_std, out, input, **_variance_options("std", input, dim, unbiased, correction, keepdim))


@front
def var_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`.

    Args:
        dim, unbiased, correction: as for `var`.
    Shape: input (*); both results input's shape without `dim` (of size 1 with keepdim=True).
    Returns: tuple (variance, mean).
    Raises:
        RuntimeError: when the input is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.var_mean(tdt.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(2.))
    """
    options = _variance_options("var_mean", input, dim, unbiased, correction, keepdim)
    return _with_mean("VarMeanBackward0", _var, input, options)


@front
def std_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`.

    Args:
        dim, unbiased, correction: as for `std`.
    Shape: input (*); both results input's shape without `dim` (of size 1 with keepdim=True).
    Returns: tuple (standard deviation, mean).
    Raises:
        RuntimeError: when the input is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.std_mean(tdt.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(2.))
    """
    options = _variance_options("std_mean", input, dim, unbiased, correction, keepdim)
    return _with_mean("StdMeanBackward0", _std, input, options)
