"""Elementwise functions of two operands: atan2, hypot, copysign, logarithms of sums, xlogy, heaviside, ldexp."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOATING, FLOATING_AND_COMPLEX, INTS, REAL, check_category
from tdt._core.methods import function_alias, method
from tdt._core.tensor import Tensor
from tdt._ops._common import Number
from tdt._ops.elementwise._front import binary_op, check_operands, in_dtype_of
from tdt._ops.elementwise.arithmetic import mul
from tdt._ops.elementwise.powers import pow
from tdt.autograd._in_place_methods import by_copy, by_op
from tdt.autograd._node_names import by_number, node_name
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape

__all__ = [
    "arctan2", "atan2", "copysign", "heaviside", "hypot", "ldexp", "logaddexp", "logaddexp2", "xlogy",
]  # fmt: skip


@method(aliases=("arctan2",), in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.arctan2(x, y),
    formula=True,
    vjp={"x": lambda g, x, y: g * y / _norm2(x, y), "y": lambda g, x, y: g * -x / _norm2(x, y)},
    fast_vjp={"x": lambda xp, g, x, y: g * y / _norm2(x, y, xp), "y": lambda xp, g, x, y: g * -x / _norm2(x, y, xp)},
    dtypes=REAL,
    numbers="none",
    to_float=True,
)
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (x, y) = (other, input), in radians in (-π, π].

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.atan2(tdt.tensor([1.]), tdt.tensor([1.]))
    tensor([0.7854])
    """


arctan2 = function_alias("arctan2", of=atan2)


@method(in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.hypot(x, y),
    formula=True,
    vjp={"x": lambda g, x, out: g * (x / out), "y": lambda g, y, out: g * (y / out)},
    fast_vjp={"x": lambda g, x, out: g * (x / out), "y": lambda g, y, out: g * (y / out)},
    dtypes=FLOATING,
    numbers="none",
)
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hypotenuse sqrt(input² + other²), without overflow.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.hypot(tdt.tensor([3.]), tdt.tensor([4.]))
    tensor([5.])
    """


@method(in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.copysign(x, y),
    formula=True,
    vjp={"x": lambda g, x, out: (g * (out / x)).masked_fill(x == 0, 0), "y": lambda g: g.new_zeros(g.shape)},
    fast_vjp={
        "x": lambda xp, g, x, out: xp.where(x == 0, g.dtype.type(0), g * (out / x)),
        "y": lambda xp, g: xp.zeros_like(g),
    },
    dtypes=REAL,
    to_float=True,
    node=by_number("Copysign", 1, number=1),
)
def copysign(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The absolute value of `input` with the sign of `other`.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.copysign(tdt.tensor([1., 2.]), tdt.tensor([-1., 1.]))
    tensor([-1.,  2.])
    """


@method()
@front
@binary_op(
    lambda xp, x, y: _logaddexp(xp, x, y),
    formula=True,
    vjp={
        "x": lambda g, x, out: g * _or_zero(x - out).exp().conj(),
        "y": lambda g, y, out: g * _or_zero(y - out).exp().conj(),
    },
    fast_vjp={
        "x": lambda xp, g, x, out: g * xp.exp(_or_0(xp, x - out)).conjugate(),
        "y": lambda xp, g, y, out: g * xp.exp(_or_0(xp, y - out)).conjugate(),
    },
    dtypes=FLOATING_AND_COMPLEX,
    numbers="none",
    recomputed=True,
)
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)), without overflow.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.logaddexp(tdt.tensor([0.]), tdt.tensor([0.]))
    tensor([0.6931])
    """


@method()
@front
@binary_op(
    lambda xp, x, y: xp.logaddexp2(x, y),
    formula=True,
    vjp={"x": lambda g, x, out: g * _or_zero(x - out).exp2(), "y": lambda g, y, out: g * _or_zero(y - out).exp2()},
    fast_vjp={
        "x": lambda xp, g, x, out: g * xp.exp2(_or_0(xp, x - out)),
        "y": lambda xp, g, y, out: g * xp.exp2(_or_0(xp, y - out)),
    },
    dtypes=FLOATING,
    numbers="none",
    recomputed=True,
)
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log2(2^input + 2^other), without overflow.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.logaddexp2(tdt.tensor([0.]), tdt.tensor([0.]))
    tensor([1.])
    """


@method(in_place=by_op, in_place_function=True)
@front
@binary_op(
    lambda xp, x, y: _xlogy(xp, x, y),
    formula=True,
    rounds_numbers=True,
    vjp={"x": lambda g, x, y: (g * _log(y)).masked_fill((x == 0) & (y <= 0), 0), "y": lambda g, x, y: g * x / y},
    fast_vjp={
        "x": lambda xp, g, x, y: xp.where((x == 0) & (y <= 0), g.dtype.type(0), g * xp.log(in_dtype_of(g, y))),
        "y": lambda g, x, y: g * x / y,
    },
    dtypes=REAL,
    to_float=True,
    numbers="any",
)
def xlogy(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The product input · log(other), and 0 where `input` is 0 and `other` is not nan.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.xlogy(tdt.tensor([2., 0.]), tdt.tensor([1., 0.]))
    tensor([0., 0.])
    """


@method(in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.where(x == 0, y, xp.where(x > 0, x.dtype.type(1), x.dtype.type(0))),
    formula=True,
    dtypes=REAL,
    numbers="none",
    check=lambda x, y: _check_same_dtype("heaviside", x, y),
    same_out=True,
)
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Heaviside step function: 0 where input < 0, 1 where input > 0, `values` where it is 0.

    Shape: input (*), values broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when the dtypes differ.

    >>> import tdt
    >>> tdt.heaviside(tdt.tensor([-1., 0.]), tdt.tensor([5., 5.]))
    tensor([0., 5.])
    """


def _xlogy(xp: ModuleType, x: Any, y: Any) -> Any:
    dtype = (x if hasattr(x, "dtype") else y).dtype
    # As arrays of the result's dtype: the logarithm of a Python number would be float64.
    x, y = xp.asarray(x, dtype), xp.asarray(y, dtype)
    return xp.where(x == 0, xp.where(xp.isnan(y), y, xp.zeros_like(y)), x * xp.log(y))


def _check_same_dtype(name: str, x: Any, y: Any) -> None:
    if x != y:
        raise RuntimeError(f"{name} is not yet implemented for tensors with different dtypes.")


def _logaddexp(xp: ModuleType, x: Any, y: Any) -> Any:
    if x.dtype.kind != "c":
        return xp.logaddexp(x, y)
    swap = y.real > x.real
    larger, smaller = xp.where(swap, y, x), xp.where(swap, x, y)
    same = xp.isinf(larger.real) & (larger == smaller)
    return xp.where(same, larger, larger + xp.log1p(xp.exp(xp.where(same, 0, smaller - larger))))


def _norm2(x: Any, y: Any, xp: ModuleType | None = None) -> Any:
    """x² + y² of tensors, or of arrays of `xp`; inf in the place of 0, where the gradients of atan2 are 0."""
    norm2 = x * x + y * y
    return norm2.masked_fill(norm2 == 0, math.inf) if xp is None else xp.where(norm2 == 0, math.inf, norm2)


def _or_zero(difference: Tensor) -> Tensor:
    """The difference x - out, with 0 for nan: both are infinite there."""
    return difference.masked_fill(difference.isnan(), 0)


def _or_0(xp: ModuleType, difference: Any) -> Any:
    """`_or_zero` on arrays."""
    return xp.where(difference != difference, difference.dtype.type(0), difference)


def _log(y: Any) -> Any:
    return y.log() if isinstance(y, Tensor) else math.log(y) if y > 0 else -math.inf if y == 0 else math.nan


@op(promote=(), dtypes=FLOATING, elementwise=True)
def _scale(xp: ModuleType, x: Any, exponent: Any) -> Any:
    """x · 2^exponent for integer exponents: exact, also where 2^exponent itself overflows the type."""
    return xp.ldexp(x, xp.clip(exponent, -(2**30), 2**30).astype(xp.int32))


_scale.vjp("x")(lambda g, exponent: _scale(g, exponent))


@method(in_place=by_copy, in_place_function=True)
@calls_by_shape
@node_name("LdexpBackward0")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product input · 2^other, where `other` may be a tensor of integers or of floating-point numbers.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.ldexp(tdt.tensor([1.0]), tdt.tensor([3]))
    tensor([8.])
    """
    check_operands("ldexp", input, other, numbers="none")
    if input.is_floating_point() and other.dtype.category <= _dtype.INT:
        check_category("ldexp", INTS, other.dtype)
        return finish(_scale, out, input, other)
    return mul(input, pow(2.0, other), out=out)
