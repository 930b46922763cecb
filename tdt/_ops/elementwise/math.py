"""Functions of one number: powers, exponentials, trigonometry, special functions."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from tdt import _kernels
from tdt._core.dtype import FLOATING
from tdt._core.tensor import Tensor
from tdt._ops._common import one
from tdt._ops.elementwise._front import make_op, special, special_functions, tensor_argument, ufunc, unary
from tdt.autograd._op import finish, op

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh",
    "cos", "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "lgamma", "log", "log10",
    "log1p", "log2", "logit", "polygamma", "rad2deg", "reciprocal", "rsqrt", "sigmoid", "sin", "sinc", "sinh", "sqrt",
    "square", "tan", "tanh",
]  # fmt: skip

LN2, LN10 = math.log(2), math.log(10)
TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


def _sigmoid(xp: ModuleType, x: Any) -> Any:
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("sigmoid", xp, x)):
        return fast(x)
    unit = one(xp, x.dtype)
    return unit / (xp.exp(-x) + unit)


def _sigmoid_grad(xp: ModuleType, g: Any, out: Any) -> Any:
    if out.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("sigmoid.vjp.x", xp, g, out)):
        return fast(g, out)
    return ((one(xp, out.dtype) - out) * out).conjugate() * g


def _tanh_grad(xp: ModuleType, g: Any, out: Any) -> Any:
    if out.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("tanh.vjp.x", xp, g, out)):
        return fast(g, out)
    return (one(xp, out.dtype) - out * out).conjugate() * g


def _rsqrt(xp: ModuleType, x: Any) -> Any:
    return 1 / xp.sqrt(x)


def _reciprocal(xp: ModuleType, x: Any) -> Any:
    return 1 / x


def _square(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
    return xp.multiply(x, x, dtype=xp.int64) if x.dtype == bool else xp.multiply(x, x, out=out)


exp = unary(
    "exp",
    ufunc("exp"),
    lambda g, out: g * out.conj(),
    "e to the power of each element.",
    ("0., 1.", "1.0000, 2.7183"),
    fast=lambda g, out: g * out.conjugate(),
)
exp2 = unary(
    "exp2", ufunc("exp2"), lambda g, out: g * out.conj() * LN2, "2 to the power of each element.", ("0., 3.", "1., 8.")
)
expm1 = unary(
    "expm1", ufunc("expm1"), lambda g, out: g * (out.conj() + 1), "exp(x) - 1, accurate near 0.", ("0.", "0.")
)
log = unary("log", ufunc("log"), lambda g, x: g / x.conj(), "Natural logarithm; nan below 0, -inf at 0.", ("1.", "0."),
            fast=lambda g, x: g / x.conjugate())  # fmt: skip
log2 = unary("log2", ufunc("log2"), lambda g, x: g / (x.conj() * LN2), "Logarithm to base 2.", ("8.", "3."))
log10 = unary("log10", ufunc("log10"), lambda g, x: g / (x.conj() * LN10), "Logarithm to base 10.", ("1.", "0."))
log1p = unary("log1p", ufunc("log1p"), lambda g, x: g / (x + 1).conj(), "log(1 + x), accurate near 0.", ("0.", "0."))
sqrt = unary(
    "sqrt",
    ufunc("sqrt"),
    lambda g, out: g / (2 * out.conj()),
    "Square root; nan below 0.",
    ("4., 9.", "2., 3."),
    fast=lambda g, out: g / (2 * out.conjugate()),
)
rsqrt = unary("rsqrt", _rsqrt, lambda g, out: -0.5 * g * out.pow(3).conj(), "1 / sqrt(x).", ("4.", "0.5000"))
reciprocal = unary("reciprocal", _reciprocal, lambda g, out: -g * (out * out).conj(), "1 / x.", ("4.", "0.2500"))
square = unary(
    "square",
    _square,
    lambda g, x: g * (2 * x.conj()),
    "Each element times itself.",
    ("3., -4.", " 9., 16."),
    to_float=False,
    dtypes=frozenset(range(4)),
)

sin = unary("sin", ufunc("sin"), lambda g, x: g * x.cos().conj(), "Sine, in radians.", ("0.", "0."))
cos = unary("cos", ufunc("cos"), lambda g, x: g * -x.sin().conj(), "Cosine, in radians.", ("0.", "1."))
tan = unary("tan", ufunc("tan"), lambda g, out: g * (1 + out * out).conj(), "Tangent, in radians.", ("0.", "0."))
asin = unary(
    "asin",
    ufunc("arcsin"),
    lambda g, x: g * (1 - x * x).rsqrt().conj(),
    "Inverse sine; nan outside [-1, 1].",
    ("0.", "0."),
)
acos = unary(
    "acos",
    ufunc("arccos"),
    lambda g, x: g * -(1 - x * x).rsqrt().conj(),
    "Inverse cosine; nan outside [-1, 1].",
    ("1.", "0."),
)
atan = unary(
    "atan", ufunc("arctan"), lambda g, x: g / (x * x + 1).conj(), "Inverse tangent, in (-π/2, π/2).", ("1.", "0.7854")
)
sinh = unary("sinh", ufunc("sinh"), lambda g, x: g * x.cosh().conj(), "Hyperbolic sine.", ("0.", "0."))
cosh = unary("cosh", ufunc("cosh"), lambda g, x: g * x.sinh().conj(), "Hyperbolic cosine.", ("0.", "1."))
tanh = unary(
    "tanh",
    ufunc("tanh"),
    lambda g, out: g * (1 - out * out).conj(),
    "Hyperbolic tangent.",
    ("0., 1.", "0.0000, 0.7616"),
    fast=_tanh_grad,
)
asinh = unary(
    "asinh", ufunc("arcsinh"), lambda g, x: g * (x * x + 1).rsqrt().conj(), "Inverse hyperbolic sine.", ("0.", "0.")
)
acosh = unary("acosh", ufunc("arccosh"), lambda g, x: g * ((x - 1).rsqrt() * (x + 1).rsqrt()).conj(),
              "Inverse hyperbolic cosine; nan below 1.", ("1.", "0."))  # fmt: skip
atanh = unary(
    "atanh", ufunc("arctanh"), lambda g, x: g / (1 - x * x).conj(), "Inverse hyperbolic tangent.", ("0.", "0.")
)
sigmoid = unary(
    "sigmoid",
    _sigmoid,
    lambda g, out: g * (out * (1 - out)).conj(),
    "Logistic function 1 / (1 + exp(-x)).",
    ("0.", "0.5000"),
    fast=_sigmoid_grad,
)

erf = unary(
    "erf",
    special("erf"),
    lambda g, x: g * TWO_OVER_SQRT_PI * (-x * x).exp(),
    "Error function.",
    ("0.", "0."),
    dtypes=FLOATING,
)
erfc = unary(
    "erfc",
    special("erfc"),
    lambda g, x: g * -TWO_OVER_SQRT_PI * (-x * x).exp(),
    "1 - erf(x), accurate for large x.",
    ("0.", "1."),
    dtypes=FLOATING,
)
erfinv = unary(
    "erfinv",
    special("erfinv"),
    lambda g, out: g / TWO_OVER_SQRT_PI * (out * out).exp(),
    "Inverse error function.",
    ("0.", "0."),
    dtypes=FLOATING,
)


def _lgamma(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
    return special("gammaln")(xp, xp.where(x == -xp.inf, -x, x), out=out)  # SciPy says -inf of -inf


lgamma = unary(
    "lgamma", _lgamma, lambda g, x: g * digamma(x), "Logarithm of |Γ(x)|.", ("3.", "0.6931"), dtypes=FLOATING
)

deg2rad = unary(
    "deg2rad",
    ufunc("deg2rad"),
    lambda g: g * (math.pi / 180),
    "Degrees to radians.",
    ("180.", "3.1416"),
    dtypes=FLOATING,
)
rad2deg = unary(
    "rad2deg", ufunc("rad2deg"), lambda g: g * (180 / math.pi), "Radians to degrees.", ("0.", "0."), dtypes=FLOATING
)

arccos, arccosh, arcsin, arcsinh, arctan, arctanh = acos, acosh, asin, asinh, atan, atanh


def _digamma_forward(xp: ModuleType, x: Any) -> Any:
    """SciPy's psi is nan at 0, where PyTorch's has the limit from the sign of the zero: ∓inf."""
    return xp.where(x == 0, -xp.copysign(xp.full_like(x, xp.inf), x), special_functions(xp).psi(x))


digamma = unary(
    "digamma",
    _digamma_forward,
    lambda g, x: g * polygamma(1, x),
    "Derivative of lgamma.",
    ("1.", "-0.5772"),
    dtypes=FLOATING,
)


def _sinc_forward(xp: ModuleType, x: Any) -> Any:
    return xp.sinc(x).astype(x.dtype)


def _sinc_rule(g: Tensor, x: Tensor) -> Tensor:
    angle = math.pi * x
    slope = (angle * angle.cos() - angle.sin()) / (angle * x)
    return g * slope.masked_fill(x == 0, 0).conj()


sinc = unary("sinc", _sinc_forward, _sinc_rule, "sin(πx) / (πx), and 1 at 0.", ("0.", "1."))


def _polygamma_forward(xp: ModuleType, x: Any, *, n: int) -> Any:
    functions = special_functions(xp)
    return (functions.psi(x) if n == 0 else functions.polygamma(xp.asarray(n), x)).astype(x.dtype)


_polygamma = make_op("polygamma", _polygamma_forward, dtypes=FLOATING, to_float=True)
_polygamma.vjp("x")(lambda g, x, n: g * polygamma(n + 1, x))


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma; RuntimeError for a negative n.

    >>> import tdt
    >>> tdt.polygamma(1, tdt.tensor([1.0]))
    tensor([1.6449])
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return finish(_polygamma, out, tensor_argument("polygamma", input, position=2), n=n)


@op(dtypes=FLOATING, to_float=True)
def _logit(xp: ModuleType, x: Any, *, eps: float | None = None) -> Any:
    x = x if eps is None else xp.clip(x, eps, 1 - eps)
    return xp.log(x / (1 - x))


@_logit.vjp("x")
def _(g: Tensor, x: Tensor, eps: float | None) -> Tensor:
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    slope = g / (x * (1 - x))
    outside = (x < low) | (x > high)
    return slope.masked_fill(outside, math.nan if eps is None else 0.0)


def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; `eps` clamps x to [eps, 1 - eps] first.

    >>> import tdt
    >>> tdt.logit(tdt.tensor([0.5]))
    tensor([0.])
    """
    return finish(_logit, out, tensor_argument("logit", input), eps=eps)
