"""Elementwise functions of one operand: powers, exponentials, logarithms, special functions."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._core.calls import front
from tdt._core.dtype import FLOATING
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import one
from tdt._ops.elementwise._front import make_op, special, special_functions, tensor_argument, ufunc, unary_op
from tdt.autograd._in_place_methods import by_copy, by_op
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_one_op

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "logit",
    "polygamma", "reciprocal", "rsqrt", "sigmoid", "sqrt", "square",
]  # fmt: skip

LN2, LN10 = math.log(2), math.log(10)
TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


def _sigmoid(xp: ModuleType, x: Any) -> Any:
    unit = one(xp, x.dtype)
    return unit / (xp.exp(-x) + unit)


def _sigmoid_grad(xp: ModuleType, g: Any, out: Any) -> Any:
    return ((one(xp, out.dtype) - out) * out).conjugate() * g


@op(dtypes=FLOATING, formula=True, node="SigmoidBackwardBackward0")
def _sigmoid_backward(xp: ModuleType, grad: Any, y: Any) -> Any:
    return (1 - y) * y * grad


_sigmoid_backward.vjp("grad")(lambda g, y: _sigmoid_backward(g, y))
_sigmoid_backward.vjp("y")(lambda g, grad, y: g * grad * (1 - 2 * y))
_sigmoid_backward.fast_vjp("grad")(lambda xp, g, y: (1 - y) * y * g)
_sigmoid_backward.fast_vjp("y")(lambda xp, g, grad, y: g * grad * (1 - 2 * y))


def _rsqrt(xp: ModuleType, x: Any) -> Any:
    return 1 / xp.sqrt(x)


def _reciprocal(xp: ModuleType, x: Any) -> Any:
    found = _kernels.complex_quotient(1, x) if xp is np else None
    return 1 / x if found is None else found


def _square(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
    if x.dtype == bool:
        return xp.multiply(x, x, dtype=xp.int64)
    return xp.multiply(x, x) if out is None else xp.multiply(x, x, out=out)


_complex_exp = _kernels.lazy("complex_cpu:exp")


def _exp(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
    if xp is np and x.dtype == np.complex64 and _kernels.enabled() and (found := _complex_exp(x)) is not None:
        if out is None:
            return found
        out[...] = found
        return out
    return xp.exp(x) if out is None else xp.exp(x, out=out)


@method(in_place=by_op, in_place_function=True)
@unary_op(_exp, formula=True, vjp=lambda g, out: g * out.conj(), fast_vjp=lambda g, out: g * out.conjugate())
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The exponential function of each element, e^x.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.exp(tdt.tensor([0., 1.]))
    tensor([1.0000, 2.7183])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("exp2"),
    formula=True,
    vjp=lambda g, out: g * out.conj() * LN2,
    fast_vjp=lambda g, out: g * (out.conjugate() * LN2),
)
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of each element, 2^x.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.exp2(tdt.tensor([0., 3.]))
    tensor([1., 8.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("expm1"),
    formula=True,
    vjp=lambda g, out: g * (out.conj() + 1),
    fast_vjp=lambda g, out: g * (out.conjugate() + 1),
    sparse_values="coalesced",
)
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) - 1 of each element, accurate near 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.expm1(tdt.tensor([0.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(ufunc("log"), formula=True, vjp=lambda g, x: g / x.conj(), fast_vjp=lambda g, x: g / x.conjugate())
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm of each element; nan below 0, -inf at 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.log(tdt.tensor([1.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("log2"),
    formula=True,
    vjp=lambda g, x: g / (x.conj() * LN2),
    fast_vjp=lambda g, x: g / (x.conjugate() * LN2),
)
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of each element to base 2; nan below 0, -inf at 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.log2(tdt.tensor([8.]))
    tensor([3.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("log10"),
    formula=True,
    vjp=lambda g, x: g / (x.conj() * LN10),
    fast_vjp=lambda g, x: g / (x.conjugate() * LN10),
)
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of each element to base 10; nan below 0, -inf at 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.log10(tdt.tensor([1.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("log1p"),
    formula=True,
    vjp=lambda g, x: g / (x + 1).conj(),
    fast_vjp=lambda g, x: g / (x + 1).conjugate(),
    sparse_values="coalesced",
)
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 + x) of each element, accurate near 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.log1p(tdt.tensor([0.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("sqrt"),
    formula=True,
    vjp=lambda g, out: g / (2 * out.conj()),
    fast_vjp=lambda g, out: g / (2 * out.conjugate()),
    sparse_values="coalesced",
)
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square root of each element; nan below 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.sqrt(tdt.tensor([4., 9.]))
    tensor([2., 3.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    _rsqrt,
    formula=True,
    vjp=lambda g, out: -0.5 * g * out.pow(3).conj(),
    fast_vjp=lambda g, out: -0.5 * g * (out * out * out).conjugate(),
)
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The reciprocal of the square root of each element, 1 / sqrt(x).

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.rsqrt(tdt.tensor([4.]))
    tensor([0.5000])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    _reciprocal,
    formula=True,
    vjp=lambda g, out: -g * (out * out).conj(),
    fast_vjp=lambda g, out: -g * (out * out).conjugate(),
)
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The reciprocal of each element, 1 / x.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.reciprocal(tdt.tensor([4.]))
    tensor([0.2500])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    _square,
    formula=True,
    vjp=lambda g, x: g * (2 * x.conj()),
    fast_vjp=lambda g, x: g * (2 * x.conjugate()),
    to_float=False,
    dtypes=frozenset(range(4)),
    node="PowBackward0",
    sparse_values="coalesced",
)
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square of each element, x · x.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.square(tdt.tensor([3., -4.]))
    tensor([ 9., 16.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    _sigmoid,
    formula=True,
    vjp=lambda g, out: g * (out * (1 - out)).conj() if out.is_complex() else _sigmoid_backward(g, out),
    fast_vjp=_sigmoid_grad,
)
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logistic function of each element, 1 / (1 + exp(-x)).

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.sigmoid(tdt.tensor([0.]))
    tensor([0.5000])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    special("erf"),
    formula=True,
    vjp=lambda g, x: g * TWO_OVER_SQRT_PI * (-x * x).exp(),
    fast_vjp=lambda xp, g, x: g * (TWO_OVER_SQRT_PI * xp.exp(-(x * x))),
    dtypes=FLOATING,
    sparse_values="coalesced",
)
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function of each element, 2 / √π · ∫₀^x exp(-t²) dt.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.erf(tdt.tensor([0.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    special("erfc"),
    formula=True,
    vjp=lambda g, x: g * -TWO_OVER_SQRT_PI * (-x * x).exp(),
    fast_vjp=lambda xp, g, x: g * (-TWO_OVER_SQRT_PI * xp.exp(-(x * x))),
    dtypes=FLOATING,
)
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complementary error function of each element, 1 - erf(x), accurate for large x.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.erfc(tdt.tensor([0.]))
    tensor([1.])
    """


@method(in_place=by_op)
@unary_op(
    special("erfinv"),
    formula=True,
    vjp=lambda g, out: g / TWO_OVER_SQRT_PI * (out * out).exp(),
    fast_vjp=lambda xp, g, out: g / TWO_OVER_SQRT_PI * xp.exp(out * out),
    dtypes=FLOATING,
    sparse_values="coalesced",
)
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse error function of each element; nan outside [-1, 1].

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.erfinv(tdt.tensor([0.]))
    tensor([0.])
    """


def _lgamma(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
    return special("gammaln")(xp, xp.where(x == -math.inf, -x, x), out=out)  # SciPy returns -inf for -inf, PyTorch inf


@method(in_place=by_op)
@unary_op(
    _lgamma,
    formula=True,
    vjp=lambda g, x: g * digamma(x),  # type: ignore[has-type]
    fast_vjp=lambda xp, g, x: g * _digamma_forward(xp, x),
    dtypes=FLOATING,
)
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm of |Γ(x)| of each element, where Γ is the gamma function.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.lgamma(tdt.tensor([3.]))
    tensor([0.6931])
    """


def _digamma_forward(xp: ModuleType, x: Any) -> Any:
    """SciPy's psi is nan at 0; PyTorch's is -inf at 0.0 and inf at -0.0."""
    if hasattr(xp, "digamma"):
        return xp.digamma(x)
    return xp.where(x == 0, -xp.copysign(xp.full_like(x, xp.inf), x), special_functions(xp).psi(x))


def _trigamma_forward(xp: ModuleType, x: Any) -> Any:
    return (
        xp.trigamma(x) if hasattr(xp, "trigamma") else special_functions(xp).polygamma(xp.asarray(1), x).astype(x.dtype)
    )


_trigamma = _kernels.from_formula("trigamma", _trigamma_forward, 1, ())[0]


@method(in_place=by_op)
@unary_op(
    _digamma_forward,
    formula=True,
    vjp=lambda g, x: g * polygamma(1, x),
    fast_vjp=lambda xp, g, x: g * _trigamma_forward(xp, x),
    dtypes=FLOATING,
)
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of lgamma, ψ(x) = Γ'(x) / Γ(x), of each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.digamma(tdt.tensor([1.]))
    tensor([-0.5772])
    """


def _polygamma_forward(xp: ModuleType, x: Any, *, n: int) -> Any:
    if n == 1 and xp is np:
        return _trigamma(xp, x)
    functions = special_functions(xp)
    return (functions.psi(x) if n == 0 else functions.polygamma(xp.asarray(n), x)).astype(x.dtype)


_polygamma = make_op("polygamma", _polygamma_forward, dtypes=FLOATING, to_float=True)
_polygamma.vjp("x")(lambda g, x, n: g * polygamma(n + 1, x))


@front
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma at each element.

    Args:
        n: order of the derivative, at least 0.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `n` is negative.

    >>> import tdt
    >>> tdt.polygamma(1, tdt.tensor([1.0]))
    tensor([1.6449])
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return finish(_polygamma, out, tensor_argument("polygamma", input, position=2), n=n)


@op(dtypes=FLOATING, to_float=True, formula=True)
def _logit(xp: ModuleType, x: Any, *, eps: float | None = None) -> Any:
    x = x if eps is None else xp.minimum(xp.maximum(x, x.dtype.type(eps)), x.dtype.type(1) - x.dtype.type(eps))
    return xp.log(x / (1 - x))


@_logit.vjp("x")
def _(g: Tensor, x: Tensor, eps: float | None) -> Tensor:
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    slope = g / (x * (1 - x))
    outside = (x < low) | (x > high)
    return slope.masked_fill(outside, math.nan if eps is None else 0.0)


@_logit.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any, eps: float | None) -> Any:
    low, high, beyond = (0.0, 1.0, math.nan) if eps is None else (eps, 1 - x.dtype.type(eps), 0.0)
    return xp.where((x < low) | (x > high), x.dtype.type(beyond), g / (x * (1 - x)))


@method(in_place=by_copy, in_place_function=True)
@calls_one_op
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of sigmoid, log(x / (1 - x)), of each element.

    Args:
        eps: clamps each element to [eps, 1 - eps] first; None leaves them, with nan outside [0, 1].
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.logit(tdt.tensor([0.5]))
    tensor([0.])
    """
    return finish(_logit, out, tensor_argument("logit", input), eps=eps)


@method("polygamma", in_place=by_copy)
def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma at each element: `tdt.polygamma(n, self)`.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return polygamma(n, self)
