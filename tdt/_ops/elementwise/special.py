"""Special functions: Bessel, incomplete and multivariate gamma, normal distribution, zeta."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from tdt import _kernels
from tdt._backend import to_device
from tdt._backend.device import CPU
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOATING
from tdt._core.methods import method
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._core.wrapping import wraps
from tdt._ops._common import Number, store_into
from tdt._ops.elementwise._front import (
    binary_op,
    in_dtype_of,
    special,
    special_functions,
    tensor_argument,
    unary_op,
)
from tdt.autograd._in_place_methods import by_copy, by_op
from tdt.autograd._node_names import node_name

__all__ = ["i0", "igamma", "igammac", "mvlgamma"]


@method(in_place=by_op, in_place_function=True)
@front
@unary_op(special("i0"), formula=True, vjp=lambda g, x: g * i1(x), dtypes=FLOATING)  # type: ignore[has-type]
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.i0(tdt.tensor([0., 1.]))
    tensor([1.0000, 1.2661])
    """


FLOAT_OR_DOUBLE = frozenset((_dtype.float32, _dtype.float64))
F = TypeVar("F", bound=Callable[..., Any])
SQRT_2PI = math.sqrt(2 * math.pi)
EPSILON = 2.0**-52


def _quotient(out: Tensor, x: Tensor) -> Tensor:
    """out / x for i1 and i1e, and near 0, where both may be too small for that, their derivative at 0."""
    near = x.abs() <= EPSILON
    return (out / x.masked_fill(near, 1)).masked_fill(near, 0.5)


@unary_op(
    special("i1"),
    formula=True,
    vjp=lambda g, x, out: g * (i0(x) - _quotient(out, x)),
    dtypes=FLOATING,
    node="SpecialI1Backward0",
)
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.i1(tdt.tensor([0., 1.]))
    tensor([0.0000, 0.5652])
    """


@unary_op(
    special("i0e"),
    formula=True,
    vjp=lambda g, x, out: g * (i1e(x) - x.sgn() * out),  # type: ignore[has-type]
    dtypes=FLOATING,
    node="SpecialI0EBackward0",
)
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0, scaled by exp(-|x|).

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.i0e(tdt.tensor([0., 1.]))
    tensor([1.0000, 0.4658])
    """


@unary_op(
    special("i1e"),
    formula=True,
    vjp=lambda g, x, out: g * (i0e(x) - out * x.sgn() - _quotient(out, x)),
    dtypes=FLOATING,
    node="SpecialI1EBackward0",
)
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1, scaled by exp(-|x|).

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.i1e(tdt.tensor([0., 1.]))
    tensor([0.0000, 0.2079])
    """


@unary_op(
    special("ndtr"),
    formula=True,
    vjp=lambda g, x: g * (-0.5 * x * x).exp() / SQRT_2PI,
    fast_vjp=lambda xp, g, x: g * xp.exp(-0.5 * x * x) / SQRT_2PI,
    dtypes=FLOATING,
)
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cumulative distribution function of the standard normal distribution at each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.ndtr(tdt.tensor([0., 1.]))
    tensor([0.5000, 0.8413])
    """


@unary_op(
    special("ndtri"),
    vjp=lambda g, out: g * (0.5 * out * out).exp() * SQRT_2PI,
    dtypes=FLOAT_OR_DOUBLE,
    node="SpecialNdtriBackward0",
)
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The quantile function of the standard normal distribution, the inverse of ndtr; nan outside [0, 1].

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.ndtri(tdt.tensor([0.5000]))
    tensor([0.])
    """


@unary_op(
    special("erfcx"),
    formula=True,
    vjp=lambda g, x, out: g * (2 * x * out - 2 / math.sqrt(math.pi)),
    dtypes=FLOAT_OR_DOUBLE,
    node="SpecialErfcxBackward0",
)
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complementary error function scaled by exp(x²), which does not underflow.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.erfcx(tdt.tensor([0., 1.]))
    tensor([1.0000, 0.4276])
    """


@unary_op(
    special("log_ndtr"),
    formula=True,
    vjp=lambda g, x: g / erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
    dtypes=FLOAT_OR_DOUBLE,
    node="SpecialLogNdtrBackward0",
)
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of ndtr, accurate also far below 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.log_ndtr(tdt.tensor([0., -1.]))
    tensor([-0.6931, -1.8410])
    """


@unary_op(
    special("entr"),
    formula=True,
    vjp=lambda g, x: g * -(1 + x.log()),
    fast_vjp=lambda xp, g, x: g * -(1 + xp.log(x)),
    dtypes=FLOATING,
    node="SpecialEntrBackward0",
)
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The entropy term -x · log(x) of each element; 0 at 0, -inf below.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.entr(tdt.tensor([0.5000, 0.]))
    tensor([0.3466, 0.0000])
    """


def _spherical_bessel_j0(xp: ModuleType, x: Any) -> Any:
    return xp.where(abs(x) == math.inf, x.dtype.type(0), xp.where(x == 0, x.dtype.type(1), xp.sin(x) / x))


def _airy(xp: ModuleType, x: Any) -> Any:
    if hasattr(xp, "airy_ai"):
        return xp.airy_ai(x)
    values = xp.asarray(special_functions(np).airy(to_device(x, CPU))[0])  # CuPy has no airy
    return xp.where((x > 104) & (x < xp.inf), 0, values)  # Ai underflows float64 there; SciPy returns nan for large x


def without_gradient(function: F) -> F:
    """Run a function without a derivative under no_grad, as PyTorch does; its `out=` may even require a gradient."""

    @wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Tensor:
        if not kwargs or kwargs.get("out") is None:  # the op has no rules, and records nothing
            return function(*args, **kwargs)
        with no_grad():
            return function(*args, **kwargs)

    return cast("F", outside)


@without_gradient
@unary_op(_airy, formula=True, dtypes=FLOAT_OR_DOUBLE)
def airy_ai(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Airy function Ai of each element. It has no derivative here.

    Shape: x (*); result the same.

    >>> import tdt
    >>> tdt.special.airy_ai(tdt.tensor([1.]))
    tensor([0.1353])
    """


@without_gradient
@unary_op(special("j0"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 0. It has no derivative here.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.bessel_j0(tdt.tensor([1.]))
    tensor([0.7652])
    """


@without_gradient
@unary_op(special("j1"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 1. It has no derivative here.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.bessel_j1(tdt.tensor([1.]))
    tensor([0.4401])
    """


@without_gradient
@unary_op(special("y0"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 0. It has no derivative here.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.bessel_y0(tdt.tensor([1.]))
    tensor([0.0883])
    """


@without_gradient
@unary_op(special("y1"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 1. It has no derivative here.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.bessel_y1(tdt.tensor([1.]))
    tensor([-0.7812])
    """


@without_gradient
@unary_op(special("i0"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0, without a derivative, which `i0` has.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.modified_bessel_i0(tdt.tensor([1.]))
    tensor([1.2661])
    """


@without_gradient
@unary_op(special("i1"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1, without a derivative, which `i1` has.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.modified_bessel_i1(tdt.tensor([1.]))
    tensor([0.5652])
    """


@without_gradient
@unary_op(special("k0"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 0. It has no derivative here.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.modified_bessel_k0(tdt.tensor([1.]))
    tensor([0.4210])
    """


@without_gradient
@unary_op(special("k1"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 1. It has no derivative here.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.special.modified_bessel_k1(tdt.tensor([1.]))
    tensor([0.6019])
    """


@without_gradient
@unary_op(special("k0e"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def scaled_modified_bessel_k0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """modified_bessel_k0 scaled by exp(x), which does not underflow. It has no derivative here.

    Shape: x (*); result the same.

    >>> import tdt
    >>> tdt.special.scaled_modified_bessel_k0(tdt.tensor([1.]))
    tensor([1.1445])
    """


@without_gradient
@unary_op(special("k1e"), formula=True, dtypes=FLOAT_OR_DOUBLE)
def scaled_modified_bessel_k1(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """modified_bessel_k1 scaled by exp(x), which does not underflow. It has no derivative here.

    Shape: x (*); result the same.

    >>> import tdt
    >>> tdt.special.scaled_modified_bessel_k1(tdt.tensor([1.]))
    tensor([1.6362])
    """


@without_gradient
@unary_op(_spherical_bessel_j0, formula=True, dtypes=FLOAT_OR_DOUBLE)
def spherical_bessel_j0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The spherical Bessel function of the first kind of order 0, sin(x) / x, within 1.6 ulp. It has no derivative here.

    Shape: x (*); result the same.

    >>> import tdt
    >>> tdt.special.spherical_bessel_j0(tdt.tensor([1.]))
    tensor([0.8415])
    """


def _same_dtype(xp: ModuleType, x: Any, y: Any) -> tuple[Any, Any]:
    """Both as arrays of the array's dtype: functions of a Python number would return float64."""
    dtype = (x if hasattr(x, "dtype") else y).dtype
    return xp.asarray(x, dtype), xp.asarray(y, dtype)


def _binary(name: str) -> Any:
    def forward(xp: ModuleType, x: Any, y: Any) -> Any:
        return getattr(special_functions(xp), name)(*_same_dtype(xp, x, y))

    return forward


def _zeta(xp: ModuleType, x: Any, y: Any) -> Any:
    x, y = _same_dtype(xp, x, y)
    fast = _kernels.zeta(x, y)
    if fast is not None:
        return fast
    return xp.where((y == math.inf) & (x > 1), x.dtype.type(math.nan), special_functions(xp).zeta(x, y))  # SciPy: 0


def _no_zeta_rule(g: Tensor) -> Tensor:
    raise NotImplementedError("the derivative for 'zeta' is not implemented.")


def _xlog1py(xp: ModuleType, x: Any, y: Any) -> Any:
    return special_functions(xp).xlog1py(*_same_dtype(xp, x, y))


@binary_op(
    _xlog1py,
    formula=True,
    vjp={
        "x": lambda g, x, y: (g * _log1p(y)).masked_fill((x == 0) & (y <= -1), 0),
        "y": lambda g, x, y: g * x / (y + 1),
    },
    fast_vjp={
        "x": lambda xp, g, x, y: xp.where((x == 0) & (y <= -1), g.dtype.type(0), g * xp.log1p(in_dtype_of(g, y))),
        "y": lambda g, x, y: g * x / (y + 1),
    },
    dtypes=FLOATING,
    to_float=True,
    numbers="any",
    node="SpecialXlog1PyBackward0",
)
def xlog1py(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The product input · log(1 + other), and 0 where `input` is 0 and `other` is not nan.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.special.xlog1py(tdt.tensor([2., 0.]), tdt.tensor([0., -1.]))
    tensor([0., 0.])
    """


@binary_op(
    _zeta,
    vjp={"x": _no_zeta_rule, "y": lambda g, x, y: g * -x * zeta(x + 1, y)},  # type: ignore[has-type]
    to_float=True,
    numbers="any",
    dtypes=FLOAT_OR_DOUBLE,
)
def zeta(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Hurwitz zeta function: the sum of (k + other)^(-input) over k = 0, 1, 2, …

    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        NotImplementedError: in the backward pass, when `input` requires a gradient.

    >>> import tdt
    >>> tdt.special.zeta(tdt.tensor([2.]), tdt.tensor([1.]))
    tensor([1.6449])
    """


def _log1p(y: Any) -> Any:
    return y.log1p() if isinstance(y, Tensor) else math.log1p(y) if y > -1 else -math.inf if y == -1 else math.nan


def _incomplete(name: str) -> Any:
    def forward(xp: ModuleType, x: Any, y: Any) -> Any:
        return getattr(special_functions(xp), name)(x, y).astype(x.dtype)

    return forward


def _no_igamma_rule(g: Tensor) -> Tensor:
    raise NotImplementedError("the derivative for 'igamma: input' is not implemented.")


def _density(x: Tensor, y: Tensor) -> Tensor:
    """The derivative of igamma with respect to y: the density of the gamma distribution."""
    return ((x - 1) * y.log() - y - x.lgamma()).exp()


@method(in_place=by_op)
@front
@binary_op(
    _incomplete("gammainc"),
    {"x": _no_igamma_rule, "y": lambda g, x, y: g * _density(x, y)},
    dtypes=FLOATING,
    numbers="none",
)
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized lower incomplete gamma function: ∫₀^other t^(input - 1) e^(-t) dt / Γ(input).

    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        NotImplementedError: in the backward pass, when `input` requires a gradient.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, section 6.5.

    >>> import tdt
    >>> tdt.igamma(tdt.tensor([1.]), tdt.tensor([2.]))
    tensor([0.8647])
    """


def _upper_gamma(xp: ModuleType, x: Any, y: Any) -> Any:
    """For float32, 1 minus the lower function in float64, which is 30 times as fast, unless the difference is small."""
    functions = special_functions(xp)
    if x.dtype != "float32":
        return functions.gammaincc(x, y)
    x, y = xp.broadcast_arrays(x.astype("float64"), y.astype("float64"))
    upper = xp.asarray(1 - functions.gammainc(x, y))
    small = upper < 1e-6
    if small.any():
        upper[small] = functions.gammaincc(x[small], y[small])
    return upper.astype("float32")


@method(in_place=by_op)
@front
@binary_op(
    _upper_gamma,
    {"x": _no_igamma_rule, "y": lambda g, x, y: -g * _density(x, y)},
    dtypes=FLOATING,
    numbers="none",
)
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized upper incomplete gamma function: ∫_other^∞ t^(input - 1) e^(-t) dt / Γ(input).

    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        NotImplementedError: in the backward pass, when `input` requires a gradient.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, section 6.5.

    >>> import tdt
    >>> tdt.igammac(tdt.tensor([1.]), tdt.tensor([2.]))
    tensor([0.1353])
    """


@method(in_place=by_copy)
@front
@node_name("MvlgammaBackward0")
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm of the multivariate gamma function of dimension `p`, valid where input > (p - 1) / 2.

    Args:
        p: dimension, at least 1.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `p` is less than 1.
        NotImplementedError: when `input` is bool.

    >>> import tdt
    >>> tdt.mvlgamma(tdt.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    tensor_argument("mvlgamma", input)
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype is _dtype.bool:
        raise NotImplementedError("\"mvlgamma\" not implemented for 'Bool'")
    steps = [i / 2 for i in range(1 - p, 1)]
    dtype = input.dtype if input.is_floating_point() else _dtype.get_default_dtype()
    shifted = input.unsqueeze(-1) + input.new_tensor(steps, dtype=dtype)  # (…, p)
    result = shifted.lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)
    return result if out is None else store_into(out, result)
