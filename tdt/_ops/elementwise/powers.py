"""Powers: pow, float_power."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tdt._backend.waiting import takes_numbers
from tdt._core import dtype as _dtype
from tdt._core.from_data import fill_number
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels import from_formula
from tdt._kernels.expression import as_number
from tdt._ops._common import Number
from tdt._ops._operators import arithmetic_operator
from tdt.autograd._arrays import as_tensor, compute, on_arrays
from tdt.autograd._dispatch import binary
from tdt.autograd._in_place_methods import by_op
from tdt.autograd._op import finish, op

__all__ = ["float_power", "pow"]


def _refuse_pow_of_bools(x: Any, y: Any) -> None:
    if y is not bool and x in (bool, _dtype.bool.np) and y == _dtype.bool.np:
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")


def _pow_name(node: Any) -> str:
    numbers = node.backward_plan.numbers
    return f"PowBackward{2 if numbers & 1 else 0 if numbers >> 1 & 1 else 1}"


@op(check=_refuse_pow_of_bools, rounds_numbers=True, node=_pow_name)
def _pow(xp: ModuleType, x: Any, y: Any, *, out: Any = None) -> Any:
    if x.__class__ is not y.__class__ and y.__class__ in POWERS:
        short = POWERS[y.__class__].get(y)
        if short is not None:
            return short(xp, x, out)
    dtype: Any = getattr(x, "dtype", getattr(y, "dtype", None))
    kind = dtype.kind
    if kind == "f" and y.__class__ in (int, float) and (short := PRODUCTS.get(y)) is not None:
        return short(xp, x, out=out)
    if kind in "iu":
        if isinstance(y, int):
            if fill_number(y, _dtype.of(x.dtype), "exponent")[0] < 0:
                raise RuntimeError("Integers to negative integer powers are not allowed.")
        elif (y < 0).any():
            return _pow_below_zero(xp, x, y)
    return POWER(xp, x, y, out=out)


PRODUCTS: dict[float, Callable[..., Any]]  # powers by products, of floating-point numbers
PRODUCTS = {3: lambda xp, x: x * x * x, -1: lambda xp, x: 1 / x, -2: lambda xp, x: 1 / (x * x),
            0.5: lambda xp, x: xp.sqrt(x), -0.5: lambda xp, x: 1 / xp.sqrt(x)}  # fmt: skip
SLOPES: dict[float, Callable[..., Any]]  # the gradient of such a power, times g
SLOPES = {2: lambda xp, g, x: g * (2 * x), 3: lambda xp, g, x: g * (3 * (x * x)), 0.5: lambda xp, g, x: g * (0.5 / xp.sqrt(x)),
          -1: lambda xp, g, x: g * -(1 / (x * x)), -2: lambda xp, g, x: g * (-2 * (1 / (x * x * x))),
          -0.5: lambda xp, g, x: g * (-0.5 * (1 / (x * xp.sqrt(x))))}  # fmt: skip
PRODUCTS = {n: from_formula(f"power_{n:g}", formula, 1, ())[0] for n, formula in PRODUCTS.items()}
SLOPES = {n: from_formula(f"power_{n:g}_gradient", formula, 2, ())[0] for n, formula in SLOPES.items()}
POWER = from_formula(
    "power", lambda xp, x, y, *, out=None: xp.power(x, y, **({} if out is None else {"out": out})), 2, ()
)[0]


def _slope_of_base(xp: ModuleType, g: Any, x: Any, y: Any) -> Any:
    return xp.where(y == 0, g.dtype.type(0), g * (y * xp.power(x, y - 1)).conjugate())


def _slope_of_exponent(xp: ModuleType, g: Any, x: Any, y: Any, out: Any) -> Any:
    x = x if hasattr(x, "dtype") else out.dtype.type(x)
    exponent = y.real if y.dtype.kind == "c" else y
    return xp.where((x == 0) & (exponent >= 0), g.dtype.type(0), g * (out * xp.log(x)).conjugate())


SLOPE_OF_BASE = from_formula("power_base_gradient", _slope_of_base, 3, ())[0]
SLOPE_OF_EXPONENT = from_formula("power_exponent_gradient", _slope_of_exponent, 4, ())[0]

POWERS: dict[type, dict[Any, Callable[..., Any]]]
POWERS = {int: {1: lambda xp, x, out: xp.multiply(x, 1, out=out), 2: lambda xp, x, out: xp.multiply(x, x, out=out),
                3: lambda xp, x, out: PRODUCTS[3](xp, x, out=out)},
          float: {1.0: lambda xp, x, out: xp.multiply(x, 1, out=out), 2.0: lambda xp, x, out: xp.multiply(x, x, out=out)},
          bool: {True: lambda xp, x, out: xp.add(x, False, out=out), False: lambda xp, x, out: _ones(xp, x, out)}}  # fmt: skip


def _ones(xp: ModuleType, x: Any, out: Any) -> Any:
    out = xp.empty_like(x) if out is None else out
    out[...] = 1
    return out


def _pow_below_zero(xp: ModuleType, x: Any, y: Any) -> Any:
    """Integers to exponents of either sign: 1 and -1 have integer reciprocals, those of all others round to 0."""
    if x.__class__ is not y.__class__:
        x = xp.full_like(y, x)
    sign = xp.where(y % 2 == 0, 1, -1)
    inverse = xp.where(x == 1, 1, xp.where(x == -1, sign, 0))
    return xp.where(y < 0, inverse, xp.power(x, xp.where(y < 0, 0, y))).astype(x.dtype)


@_pow.vjp("x")
def _(g: Tensor, x: Any, y: Any) -> Tensor:
    if isinstance(y, Tensor):
        return (g * (y * x.pow(y - 1)).conj()).masked_fill(y == 0, 0)
    return g.new_zeros(g.shape) if y == 0 else g if y == 1 else g * (y * x.pow(y - 1)).conj()


@_pow.fast_vjp("x")
def _(xp: ModuleType, g: Any, x: Any, y: Any) -> Any:
    if hasattr(y, "dtype") or (xp is np and y.__class__ not in (int, float)):
        return SLOPE_OF_BASE(xp, g, x, y)
    if y == 0 or y == 1:
        return xp.zeros_like(g) if y == 0 else g
    short = SLOPES.get(y) if x.dtype.kind == "f" else None
    if short is None and xp is np and x.dtype.kind == "f" and y - 1 not in PRODUCTS:
        return SLOPE_OF_BASE(xp, g, x, y)
    return g * (y * _pow.forward(xp, x, y - 1)).conjugate() if short is None else short(xp, g, x)


@_pow.vjp("y")
def _(g: Tensor, x: Any, y: Tensor, out: Tensor) -> Tensor:
    exponent = y.real if y.is_complex() else y
    base_log = x.log() if isinstance(x, Tensor) else _log_of(x, out)
    return (g * (out * base_log).conj()).masked_fill((x == 0) & (exponent >= 0), 0)


def _traced(xp: Any, x: Any, y: Any) -> Any:
    """The forward as a formula of expressions."""
    if y.__class__ in (int, float) and y in (1, 2):
        return x * (1 if y == 1 else x)
    if y.__class__ in (int, float) and (short := PRODUCTS.get(y)) is not None:
        return short(xp, x)
    return xp.power(*[as_number(value) for value in (x, y)])


def _traced_slope(xp: Any, g: Any, x: Any, y: Any) -> Any:
    """The gradient of the base as a formula of expressions."""
    if y.__class__ in (int, float):
        if y in (0, 1):
            return g if y == 1 else xp.zeros_like(g)
        if (short := SLOPES.get(y)) is not None:
            return short(xp, g, x)
        if y - 1 in PRODUCTS:
            return g * (y * PRODUCTS[y - 1](xp, x))
    return _slope_of_base(xp, g, x, as_number(y))


_pow.traced.update(
    forward=takes_numbers(_traced, {1, 2, *PRODUCTS}),
    x=takes_numbers(_traced_slope, {0, 1, *SLOPES, *(n + 1 for n in PRODUCTS)}),
)

_pow.fast_vjp("y")(lambda xp, g, x, y, out: SLOPE_OF_EXPONENT(xp, g, x, y, out))


def _log_of(number: Any, like: Tensor) -> Tensor:
    return like.new_full((), number, dtype=like.dtype).log()


@method(in_place=by_op)
def pow(input: Tensor | Number, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Each element of `input` to the power of `exponent`.

    Shape: input (*), exponent broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when integers are raised to a negative Python integer.

    >>> import tdt
    >>> tdt.pow(tdt.tensor([2.0, 3.0]), 2)
    tensor([4., 9.])
    """
    return binary(_pow, input, exponent) if out is None else _pow.into(out, input, exponent)


@method()
def float_power(input: Tensor | Number, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Each element of `input` to the power of `exponent`, computed in float64, or complex128 for complex numbers.

    Shape: input (*), exponent broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.float_power(tdt.tensor([2]), -1)
    tensor([0.5000], dtype=tdt.float64)
    """
    if out is None and input.__class__ is exponent.__class__ is Tensor and on_arrays(input, exponent):
        x, y = input._a, exponent._a
        if x.shape == y.shape and x.dtype == np.float32:
            return as_tensor(compute(_pow, x.astype(np.float64), y.astype(np.float64)))
    return finish(_pow, out, *widened(input, exponent))


def widened(base: Any, exponent: Any) -> tuple[Any, Any]:
    """Both as float64, or as complex128 where either is complex."""
    mixed = any(x.is_complex() if isinstance(x, Tensor) else isinstance(x, complex) for x in (base, exponent))
    dtype, number = (_dtype.complex128, complex) if mixed else (_dtype.float64, float)
    promoted = [x.to(dtype) if isinstance(x, Tensor) else number(x) for x in (base, exponent)]
    return promoted[0], promoted[1]


@method()
def float_power_(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """In-place version of `float_power`.

    Raises:
        RuntimeError: when `input` is not float64, or complex128 where the result is.
    """
    base, exponent = widened(input, exponent)
    if base.dtype is not input.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {_dtype.SCALAR_NAMES[input.dtype]} but the operation's result "
            f"requires dtype {_dtype.SCALAR_NAMES[base.dtype]}"
        )
    return _pow.inplace(input, exponent)


arithmetic_operator("pow", _pow)
