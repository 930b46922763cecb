"""Trigonometric and hyperbolic functions, their inverses, sinc, conversions of angles."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from tdt._core.dtype import FLOATING
from tdt._core.methods import function_alias, method
from tdt._core.tensor import Tensor
from tdt._ops._common import one
from tdt._ops.elementwise._front import ufunc, unary_op
from tdt.autograd._in_place_methods import by_op
from tdt.autograd._op import op

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh",
    "cos", "cosh", "deg2rad", "rad2deg", "sin", "sinc", "sinh", "tan", "tanh",
]  # fmt: skip


def _tanh_grad(xp: ModuleType, g: Any, out: Any) -> Any:
    return (one(xp, out.dtype) - out * out).conjugate() * g


@op(dtypes=FLOATING, formula=True, node="TanhBackwardBackward0")
def _tanh_backward(xp: ModuleType, grad: Any, y: Any) -> Any:
    return (1 - y * y) * grad


_tanh_backward.vjp("grad")(lambda g, y: _tanh_backward(g, y))
_tanh_backward.vjp("y")(lambda g, grad, y: g * grad * y * -2)
_tanh_backward.fast_vjp("grad")(lambda xp, g, y: (1 - y * y) * g)
_tanh_backward.fast_vjp("y")(lambda xp, g, grad, y: g * grad * y * -2)


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("sin"),
    formula=True,
    vjp=lambda g, x: g * x.cos().conj(),
    fast_vjp=lambda xp, g, x: g * xp.cos(x).conjugate(),
    sparse_values="coalesced",
)
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sine of each element, an angle in radians.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.sin(tdt.tensor([0.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("cos"),
    formula=True,
    vjp=lambda g, x: g * -x.sin().conj(),
    fast_vjp=lambda xp, g, x: g * -xp.sin(x).conjugate(),
)
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cosine of each element, an angle in radians.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.cos(tdt.tensor([0.]))
    tensor([1.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("tan"),
    formula=True,
    vjp=lambda g, out: g * (1 + out * out).conj(),
    fast_vjp=lambda g, out: g * (1 + out * out).conjugate(),
    sparse_values="coalesced",
)
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tangent of each element, an angle in radians.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.tan(tdt.tensor([0.]))
    tensor([0.])
    """


@method(aliases=("arcsin",), in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("arcsin"),
    formula=True,
    vjp=lambda g, x: g * (1 - x * x).rsqrt().conj(),
    fast_vjp=lambda xp, g, x: g / xp.sqrt((1 - x) * (1 + x)).conjugate(),
    sparse_values="coalesced",
)
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse sine of each element, in radians in [-π/2, π/2]; nan outside [-1, 1].

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.asin(tdt.tensor([0.]))
    tensor([0.])
    """


@method(aliases=("arccos",), in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("arccos"),
    formula=True,
    vjp=lambda g, x: g * -(1 - x * x).rsqrt().conj(),
    fast_vjp=lambda xp, g, x: -g / xp.sqrt((1 - x) * (1 + x)).conjugate(),
)
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse cosine of each element, in radians in [0, π]; nan outside [-1, 1].

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.acos(tdt.tensor([1.]))
    tensor([0.])
    """


@method(aliases=("arctan",), in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("arctan"),
    formula=True,
    vjp=lambda g, x: g / (x * x + 1).conj(),
    fast_vjp=lambda g, x: g / (x * x + 1).conjugate(),
    sparse_values="coalesced",
)
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse tangent of each element, in radians in (-π/2, π/2).

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.atan(tdt.tensor([1.]))
    tensor([0.7854])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("sinh"),
    formula=True,
    vjp=lambda g, x: g * x.cosh().conj(),
    fast_vjp=lambda xp, g, x: g * xp.cosh(x).conjugate(),
    sparse_values="coalesced",
)
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic sine of each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.sinh(tdt.tensor([0.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("cosh"),
    formula=True,
    vjp=lambda g, x: g * x.sinh().conj(),
    fast_vjp=lambda xp, g, x: g * xp.sinh(x).conjugate(),
)
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic cosine of each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.cosh(tdt.tensor([0.]))
    tensor([1.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("tanh"),
    formula=True,
    vjp=lambda g, out: g * (1 - out * out).conj() if out.is_complex() else _tanh_backward(g, out),
    fast_vjp=_tanh_grad,
    sparse_values="coalesced",
)
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent of each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.tanh(tdt.tensor([0., 1.]))
    tensor([0.0000, 0.7616])
    """


@method(aliases=("arcsinh",), in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("arcsinh"),
    formula=True,
    vjp=lambda g, x: g * (x * x + 1).rsqrt().conj(),
    fast_vjp=lambda xp, g, x: g / xp.sqrt(x * x + 1).conjugate(),
    sparse_values="coalesced",
)
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic sine of each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.asinh(tdt.tensor([0.]))
    tensor([0.])
    """


@method(aliases=("arccosh",), in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("arccosh"),
    formula=True,
    vjp=lambda g, x: g * ((x - 1).rsqrt() * (x + 1).rsqrt()).conj(),
    fast_vjp=lambda xp, g, x: g / (xp.sqrt(x - 1) * xp.sqrt(x + 1)).conjugate(),
)
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic cosine of each element; nan below 1.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.acosh(tdt.tensor([1.]))
    tensor([0.])
    """


@method(aliases=("arctanh",), in_place=by_op, in_place_function=True)
@unary_op(
    ufunc("arctanh"),
    formula=True,
    vjp=lambda g, x: g / (1 - x * x).conj(),
    fast_vjp=lambda g, x: g / ((1 - x) * (1 + x)).conjugate(),
    sparse_values="coalesced",
)
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent of each element; nan outside [-1, 1].

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.atanh(tdt.tensor([0.]))
    tensor([0.])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    lambda xp, x: x * (math.pi / 180),
    vjp=lambda g: g * (math.pi / 180),
    fast_vjp=lambda g: g * (math.pi / 180),
    dtypes=FLOATING,
    sparse_values="coalesced",
)
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Angles in degrees converted to radians.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.deg2rad(tdt.tensor([180.]))
    tensor([3.1416])
    """


@method(in_place=by_op, in_place_function=True)
@unary_op(
    lambda xp, x: x * (180 / math.pi),
    vjp=lambda g: g * (180 / math.pi),
    fast_vjp=lambda g: g * (180 / math.pi),
    dtypes=FLOATING,
    sparse_values="coalesced",
)
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Angles in radians converted to degrees.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.rad2deg(tdt.tensor([0.]))
    tensor([0.])
    """


def _sinc_forward(xp: ModuleType, x: Any) -> Any:
    unit = one(xp, x.dtype)
    angle = x * x.dtype.type(math.pi)
    zero = x == 0
    return xp.where(zero, unit, xp.sin(angle) / xp.where(zero, unit, angle))


def _sinc_rule(g: Tensor, x: Tensor) -> Tensor:
    angle = math.pi * x
    square = angle * x  # 0 also where it underflows
    slope = (angle * angle.cos() - angle.sin()) / square
    return g * slope.masked_fill(square == 0, 0).conj()


def _sinc_grad(xp: ModuleType, g: Any, x: Any) -> Any:
    angle = x * x.dtype.type(math.pi)
    square = angle * x  # 0 also where it underflows
    zero = square == 0
    slope = (angle * xp.cos(angle) - xp.sin(angle)) / xp.where(zero, one(xp, x.dtype), square)
    return g * xp.where(zero, x.dtype.type(0), slope).conjugate()


@method(in_place=by_op, in_place_function=True)
@unary_op(_sinc_forward, formula=True, vjp=_sinc_rule, fast_vjp=_sinc_grad)
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The normalized sinc function of each element, sin(πx) / (πx), and 1 at 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.sinc(tdt.tensor([0.]))
    tensor([1.])
    """


arccos = function_alias("arccos", of=acos)
arccosh = function_alias("arccosh", of=acosh)
arcsin = function_alias("arcsin", of=asin)
arcsinh = function_alias("arcsinh", of=asinh)
arctan = function_alias("arctan", of=atan)
arctanh = function_alias("arctanh", of=atanh)
