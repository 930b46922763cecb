"""Arithmetic of two operands: add, sub, mul, div and its roundings, remainders, pow, maximum, minimum."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt._backend.waiting import gives_views, launch_waiting, refuse_program, takes_numbers
from tdt._core import dtype as _dtype
from tdt._core.dtype import FLOATING, FLOATING_AND_COMPLEX, INTS, NUMBERS, REAL, REAL_NUMBERS
from tdt._core.from_data import LARGEST, check_bits
from tdt._core.layout import result_type
from tdt._core.methods import function_alias, method
from tdt._core.old_arguments import accepts_old_order
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor
from tdt._kernels import complex_quotient, from_formula
from tdt._kernels import multiply as multiply_arrays
from tdt._ops._common import Number, conj
from tdt._ops._operators import arithmetic_operator
from tdt._ops.elementwise._factors import check_range, refuse_zero, scaled
from tdt._ops.elementwise._front import binary_op, check_operands, ufunc2
from tdt.autograd._dispatch import NO_ATTRIBUTES, apply, binary
from tdt.autograd._in_place_methods import by_op
from tdt.autograd._inplace import write
from tdt.autograd._node_names import by_number, label
from tdt.autograd._op import Op, finish, op
from tdt.autograd._remembered import calls_one_op

__all__ = [
    "add", "div", "divide", "floor_divide", "fmax", "fmin", "fmod", "gcd", "lcm", "maximum", "minimum",
    "mul", "multiply", "remainder", "rsub", "sub", "subtract", "true_divide",
]  # fmt: skip


def _plus(xp: ModuleType, x: Any, y: Any, *, alpha: Any) -> Any:
    return x + (y if alpha.__class__ is int and alpha == 1 else scaled(x, y, alpha))


def _minus(xp: ModuleType, x: Any, y: Any, *, alpha: Any) -> Any:
    return x - (y if alpha.__class__ is int and alpha == 1 else scaled(x, y, alpha, subtracts=True))


@op(ufunc="add", lower=_plus, rounds_numbers=True, sparse_gradients=True)
def _add(xp: ModuleType, x: Any, y: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    if alpha.__class__ is not int or alpha != 1:
        y = scaled(x, y, alpha)
    if out is not None:
        return xp.add(x, y, out=out)
    return x + y


_add.vjp("x")(lambda g: g)
_add.fast_vjp("x")(gives_views(lambda g: g))
_add.vjp("y")(lambda g, alpha: g if alpha == 1 else g * conj(alpha))


@_add.fast_vjp("y")
@gives_views
def _(g: Any, alpha: Any) -> Any:
    if alpha == 1:
        return g
    launch_waiting()
    refuse_program()
    return g * alpha.conjugate()


@op(dtypes=FLOATING, formula=True, node="AddBackward0", sparse_gradients=True)
def _add_scaled(xp: ModuleType, x: Any, y: Any, *, alpha: float) -> Any:
    return x + y * alpha


_add_scaled.vjp("x")(lambda g: g)
_add_scaled.fast_vjp("x")(gives_views(lambda g: g))
_add_scaled.vjp("y")(lambda g, alpha: g * alpha)
_add_scaled.fast_vjp("y")(lambda g, alpha: g * alpha)


@op(dtypes=FLOATING, formula=True, node="SubBackward0", sparse_gradients=True)
def _sub_scaled(xp: ModuleType, x: Any, y: Any, *, alpha: float) -> Any:
    return x - y * alpha


_sub_scaled.vjp("x")(lambda g: g)
_sub_scaled.fast_vjp("x")(gives_views(lambda g: g))
_sub_scaled.vjp("y")(lambda g, alpha: g * -alpha)
_sub_scaled.fast_vjp("y")(lambda g, alpha: g * -alpha)


HALF = 65504  # the largest number of float16
EXACT = 1 << 24  # integers up to this are numbers of float32


def _is_one_pass(x: Any, y: Any, alpha: Any) -> bool:
    """Whether x ± alpha · y is computed in one pass, to the same bits: of tensors of float32, or of float64."""
    if alpha.__class__ is not float or not isinstance(x, Tensor) or not isinstance(y, Tensor) or abs(alpha) > LARGEST:
        return False
    dtype = x._a.dtype
    return dtype.char in "fd" and y._a.dtype is dtype and SparseCOO not in (x._a.__class__, y._a.__class__)


def _refuse_bools(*types: Any) -> None:
    if all(kind in (bool, _dtype.bool.np) for kind in types):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
            "instead."
        )
    if bool in types or _dtype.bool.np in types:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


@op(dtypes=NUMBERS, check=_refuse_bools, ufunc="subtract", lower=_minus, rounds_numbers=True, sparse_gradients=True)
def _sub(xp: ModuleType, x: Any, y: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    if alpha.__class__ is not int or alpha != 1:
        y = scaled(x, y, alpha, subtracts=True)
    return x - y if out is None else xp.subtract(x, y, out=out)


_sub.vjp("x")(lambda g: g)
_sub.fast_vjp("x")(gives_views(lambda g: g))
_sub.vjp("y")(lambda g, alpha: -g if alpha == 1 else g * -conj(alpha))
_sub.fast_vjp("y")(lambda g, alpha: -g if alpha == 1 else g * -alpha.conjugate())


@op(ufunc="multiply", lower=lambda xp, x, y: x * y, wide_scalars=("x", "y"), sparse_gradients=True)
def _mul(xp: ModuleType, x: Any, y: Any, *, out: Any = None) -> Any:
    return x * y if out is None else xp.multiply(x, y, out=out)


_mul.vjp("x")(lambda g, y: g * conj(y))
_mul.fast_vjp("x")(takes_numbers(lambda g, y: multiply_arrays(g, y.conjugate())))
_mul.vjp("y")(lambda g, x: g * conj(x))
_mul.fast_vjp("y")(takes_numbers(lambda g, x: multiply_arrays(g, x.conjugate())))


def _div_name(node: Any) -> str:
    """PyTorch divides a number by a tensor as its reciprocal, times the number."""
    return "MulBackward0" if node.backward_plan.numbers & 1 else "DivBackward0"


@op(
    dtypes=FLOATING_AND_COMPLEX, to_float=True, ufunc="true_divide", lower=lambda xp, x, y: x / y, wide_scalars=("y",),
    node=_div_name,
)  # fmt: skip
def _div(xp: ModuleType, x: Any, y: Any, *, out: Any = None) -> Any:
    if xp is np and (found := complex_quotient(x, y, out)) is not None:
        return found
    return x / y if out is None else xp.true_divide(x, y, out=out)


_div.vjp("x")(lambda g, y: g / conj(y))
_div.fast_vjp("x")(takes_numbers(lambda g, y: g / y.conjugate()))
_div.vjp("y")(lambda g, x, y: -g * conj((x / y) / y))
_div.fast_vjp("y")(takes_numbers(lambda g, x, y: -g * ((x / y) / y).conjugate()))


def _of_integers(name: str, formula: Any) -> Any:
    """A formula of integers that are not divided by 0."""
    return from_formula(f"{name}_of_integers", formula, 2, ())[0]


def _truncated(xp: ModuleType, x: Any, y: Any) -> Any:
    quotient = xp.floor_divide(x, y)
    inexact = quotient * y != x  # floor and trunc differ where the signs differ and the remainder is not 0
    return quotient + (inexact & ((x < 0) ^ (y < 0)))


_floor_of_integers = _of_integers("floor_divide", lambda xp, x, y: xp.floor_divide(x, y))
_trunc_of_integers = _of_integers("trunc_divide", _truncated)
_remainder_of_integers = _of_integers("remainder", lambda xp, x, y: xp.remainder(x, y))
_fmod_of_integers = _of_integers("fmod", lambda xp, x, y: xp.fmod(x, y))


def _quotient_rounded_down(xp: ModuleType, x: Any, y: Any) -> Any:
    return _floor_of_integers(xp, x, y) if refuse_zero(x, y) else xp.floor_divide(x, y)


_div_floor, _floor_divide = (
    op(_quotient_rounded_down, name=name, dtypes=REAL_NUMBERS, node=node, sparse_values="coalesced", formula=True)
    for name, node in (("div_floor", "DivBackward2"), ("floor_divide", "NotImplemented"))
)


@op(dtypes=REAL_NUMBERS, node="DivBackward2", sparse_values="coalesced", formula=True)
def _div_trunc(xp: ModuleType, x: Any, y: Any) -> Any:
    return _trunc_of_integers(xp, x, y) if refuse_zero(x, y) else xp.trunc(xp.true_divide(x, y))


for _rounded in (_div_floor, _div_trunc):
    _rounded.vjp("x")(lambda g: g.new_zeros(g.shape))
    _rounded.vjp("y")(lambda g: g.new_zeros(g.shape))


def absent(g: Tensor) -> Tensor:
    raise RuntimeError("derivative for aten::floor_divide is not implemented; div(…, rounding_mode='floor') has one")


_floor_divide.vjp("x")(absent)
_floor_divide.vjp("y")(absent)
DIVISIONS = {None: _div, "floor": _div_floor, "trunc": _div_trunc}


@op(dtypes=REAL_NUMBERS, node=by_number("Remainder", 1), rounds_numbers=True, formula=True)
def _remainder(xp: ModuleType, x: Any, y: Any) -> Any:
    return _remainder_of_integers(xp, x, y) if refuse_zero(x, y) else xp.remainder(x, y)


@op(dtypes=REAL_NUMBERS, node=by_number("Fmod", 1), rounds_numbers=True, formula=True)
def _fmod(xp: ModuleType, x: Any, y: Any) -> Any:
    return _fmod_of_integers(xp, x, y) if refuse_zero(x, y) else xp.fmod(x, y)


for _rest in (_remainder, _fmod):
    _rest.vjp("x")(lambda g: g)
    _rest.fast_vjp("x")(gives_views(lambda g: g))
_remainder.vjp("y")(lambda g, x, y: -g * div(x, y, rounding_mode="floor"))  # type: ignore[has-type]
_remainder.fast_vjp("y")(lambda xp, g, x, y: -g * xp.floor_divide(x, y))
_fmod.vjp("y")(lambda g, x, y: -g * div(x, y, rounding_mode="trunc"))  # type: ignore[has-type]
_fmod.fast_vjp("y")(lambda xp, g, x, y: -g * xp.trunc(xp.true_divide(x, y)))


@method()
@binary_op(
    ufunc2("maximum"),
    {
        "x": lambda g, x, y: g * _share((x == y).to(g.dtype), x < y),
        "y": lambda g, x, y: g * _share((x == y).to(g.dtype), y < x),
    },
    fast_vjp={
        "x": lambda xp, g, x, y: g * _share(x == y, x < y, g.dtype.type),
        "y": lambda xp, g, x, y: g * _share(x == y, y < x, g.dtype.type),
    },
    formula=True,
    dtypes=REAL,
    numbers="none",
)
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger element of each pair; nan where either is nan.

    At ties each operand gets half of the gradient.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.maximum(tdt.tensor([1., 5.]), tdt.tensor([3., 4.]))
    tensor([3., 5.])
    """


@method()
@binary_op(
    ufunc2("minimum"),
    {
        "x": lambda g, x, y: g * _share((x == y).to(g.dtype), x > y),
        "y": lambda g, x, y: g * _share((x == y).to(g.dtype), y > x),
    },
    fast_vjp={
        "x": lambda xp, g, x, y: g * _share(x == y, x > y, g.dtype.type),
        "y": lambda xp, g, x, y: g * _share(x == y, y > x, g.dtype.type),
    },
    formula=True,
    dtypes=REAL,
    numbers="none",
)
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller element of each pair; nan where either is nan.

    At ties each operand gets half of the gradient.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.minimum(tdt.tensor([1., 5.]), tdt.tensor([3., 4.]))
    tensor([1., 4.])
    """


@method()
@binary_op(
    ufunc2("fmax"),
    {"x": lambda g, x, y: g * ((x >= y) | y.isnan()), "y": lambda g, x, y: g * ~((x >= y) | y.isnan())},
    fast_vjp={
        "x": lambda g, x, y: g * ((x >= y) | (y != y)),
        "y": lambda g, x, y: g * ~((x >= y) | (y != y)),
    },
    formula=True,
    dtypes=REAL,
    numbers="none",
)
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger element of each pair; where one is nan, the other.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.fmax(tdt.tensor([1., 5.]), tdt.tensor([3., 4.]))
    tensor([3., 5.])
    """


@method()
@binary_op(
    ufunc2("fmin"),
    {"x": lambda g, x, y: g * ((x <= y) | y.isnan()), "y": lambda g, x, y: g * ~((x <= y) | y.isnan())},
    fast_vjp={
        "x": lambda g, x, y: g * ((x <= y) | (y != y)),
        "y": lambda g, x, y: g * ~((x <= y) | (y != y)),
    },
    formula=True,
    dtypes=REAL,
    numbers="none",
)
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller element of each pair; where one is nan, the other.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.fmin(tdt.tensor([1., 5.]), tdt.tensor([3., 4.]))
    tensor([1., 4.])
    """


@method(in_place=by_op, in_place_function=True)
@binary_op(ufunc2("gcd"), dtypes=INTS, numbers="none")
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor of each pair of integers.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.gcd(tdt.tensor([12, 0]), tdt.tensor([18, 5]))
    tensor([6, 5])
    """


@method(in_place=by_op, in_place_function=True)
@binary_op(ufunc2("lcm"), dtypes=INTS, numbers="none")
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple of each pair of integers; 0 where either is 0.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.lcm(tdt.tensor([12, 0]), tdt.tensor([18, 5]))
    tensor([36,  0])
    """


def _share(ties: Any, loses: Any, number: Any = float) -> Any:
    """The part of the gradient that an operand of maximum or minimum gets: all of it where either is nan."""
    return (number(1) - number(0.5) * ties) * ~loses


def _with_factor(plain: Op, one_pass: Op, input: Any, other: Any, alpha: Number) -> tuple[Op, dict[str, Number]]:
    """The op of input ± alpha · other, of one pass where that applies, and its attributes."""
    if isinstance(alpha, np.generic):
        alpha = alpha.item()
    if alpha.__class__ is int:
        check_bits(alpha)
        if alpha == -(2**63) and plain is _sub:  # which PyTorch negates within 64 bits
            alpha = 2**63
    if isinstance(alpha, (int, float)) and abs(alpha) > HALF and (dtype := result_type(input, other)).is_floating_point:
        check_range(alpha, dtype.np)  # half precision is computed in float32, which holds more
    # An integer that all floating-point types but half precision hold is as good as its float.
    number = float(alpha) if alpha.__class__ is int and -EXACT <= alpha <= EXACT else alpha
    return (one_pass, {"alpha": number}) if _is_one_pass(input, other, number) else (plain, {"alpha": alpha})


@calls_one_op
def _sum_of_multiple(input: Any, other: Any, alpha: Number) -> Tensor:
    record, factor = _with_factor(_add, _add_scaled, input, other, alpha)
    return apply(record, (input, other), factor)


@calls_one_op
def _rest_of_multiple(input: Any, other: Any, alpha: Number) -> Tensor:
    record, factor = _with_factor(_sub, _sub_scaled, input, other, alpha)
    return apply(record, (input, other), factor)


@method()
@accepts_old_order(2, "alpha")
def add(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """The sum input + alpha · other.

    Args:
        alpha: factor of `other`; an integer where both operands are integers.
    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.add(tdt.tensor([1, 2]), 10)
    tensor([11, 12])
    """
    if alpha.__class__ is int and alpha == 1:
        return binary(_add, input, other) if out is None else _add.into(out, input, other)
    if out is None:
        return _sum_of_multiple(input, other, alpha)
    record, factor = _with_factor(_add, _add_scaled, input, other, alpha)
    return record.into(out, input, other, **factor)


@method(aliases=("subtract",))
@accepts_old_order(2, "alpha")
def sub(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """The difference input - alpha · other.

    Args:
        alpha: factor of `other`; an integer where both operands are integers.
    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when an operand is a bool tensor or number.

    >>> import tdt
    >>> tdt.sub(tdt.tensor([1, 2]), 1)
    tensor([0, 1])
    """
    if alpha.__class__ is int and alpha == 1:
        return binary(_sub, input, other) if out is None else _sub.into(out, input, other)
    if out is None:
        return _rest_of_multiple(input, other, alpha)
    record, factor = _with_factor(_sub, _sub_scaled, input, other, alpha)
    return record.into(out, input, other, **factor)


def rsub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """The difference other - alpha · input: `sub` with its operands exchanged.

    Args:
        alpha: factor of `input`; an integer where both operands are integers.
    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when an operand is a bool tensor or number.

    >>> import tdt
    >>> tdt.rsub(tdt.tensor([1, 2]), 10)
    tensor([9, 8])
    """
    if input.__class__ is not Tensor or other.__class__ is not Tensor:
        check_operands("rsub", input, other)
    if other.__class__ is Tensor and alpha.__class__ is int and alpha == 1:
        out = binary(_sub, other, input)
    else:
        record, factor = _with_factor(_sub, _sub_scaled, other, input, alpha)
        out = apply(record, (other, input), factor)
    return out if out._edge is None else label(out, f"RsubBackward{0 if isinstance(other, Tensor) else 1}")


@method(aliases=("multiply",), in_place=by_op)
def mul(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The product input · other, element by element.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.mul(tdt.tensor([1, 2]), 3)
    tensor([3, 6])
    """
    return binary(_mul, input, other) if out is None else _mul.into(out, input, other)


def division(rounding_mode: str | None) -> Any:
    """The op of division with a rounding mode; RuntimeError for an unknown mode."""
    if rounding_mode not in DIVISIONS:
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return DIVISIONS[rounding_mode]


@method(aliases=("divide", "true_divide"))
def div(
    input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    """The quotient input / other, element by element.

    Args:
        rounding_mode: None gives floating-point results; "trunc" rounds them towards 0, "floor" down, and integers
            then give integers.
    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when an integer is divided by 0 with rounding, or `rounding_mode` is unknown.

    >>> import tdt
    >>> tdt.div(tdt.tensor([7, -7]), 2), tdt.div(tdt.tensor([7, -7]), 2, rounding_mode="floor")
    (tensor([ 3.5000, -3.5000]), tensor([ 3, -4]))
    """
    if rounding_mode is None and out is None:
        return binary(_div, input, other)
    return finish(division(rounding_mode), out, input, other)


@method()
def floor_divide(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The quotient input / other rounded down, element by element. It has no gradient; `div(rounding_mode="floor")` has.

    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when an integer is divided by 0, and in the backward pass.

    >>> import tdt
    >>> tdt.floor_divide(tdt.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return finish(_floor_divide, out, input, other)


@method(in_place=by_op)
def remainder(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The remainder of input / other, with the sign of `other`, as Python's `%`.

    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when an integer is divided by 0.

    >>> import tdt
    >>> tdt.remainder(tdt.tensor([7, -7]), 3)
    tensor([1, 2])
    """
    return finish(_remainder, out, input, other)


@method(in_place=by_op)
def fmod(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The remainder of input / other, with the sign of `input`, as C's `fmod`.

    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when an integer is divided by 0.

    >>> import tdt
    >>> tdt.fmod(tdt.tensor([7, -7]), 3)
    tensor([ 1, -1])
    """
    if not isinstance(input, Tensor):
        check_operands("fmod", input, other)
    return finish(_fmod, out, input, other)


true_divide = function_alias("true_divide", of=div)
divide = function_alias("divide", of=div)
multiply = function_alias("multiply", of=mul)
subtract = function_alias("subtract", of=sub)


@method(aliases=("subtract_",))
@accepts_old_order(2, "alpha")
def sub_(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """In-place version of `sub`."""
    if alpha.__class__ is int and alpha == 1:
        return write(_sub, input, (other,), NO_ATTRIBUTES)
    record, factor = _with_factor(_sub, _sub_scaled, input, other, alpha)
    return write(record, input, (other,), factor)


@method()
@accepts_old_order(2, "alpha")
def add_(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """In-place version of `add`."""
    if alpha.__class__ is int and alpha == 1:
        return write(_add, input, (other,), NO_ATTRIBUTES)
    record, factor = _with_factor(_add, _add_scaled, input, other, alpha)
    return write(record, input, (other,), factor)


@method(aliases=("divide_", "true_divide_"))
def div_(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """In-place version of `div`."""
    return division(rounding_mode).inplace(input, other)


@method()
def floor_divide_(input: Tensor, other: Tensor | Number) -> Tensor:
    """In-place version of `floor_divide`."""
    return _floor_divide.inplace(input, other)


arithmetic_operator("add", _add)
arithmetic_operator("sub", _sub, reflected_node="RsubBackward1")
arithmetic_operator("mul", _mul)
arithmetic_operator("truediv", _div)
arithmetic_operator("floordiv", _floor_divide)
arithmetic_operator("mod", _remainder)
Tensor.__div__ = Tensor.__truediv__  # type: ignore[assignment, method-assign]
Tensor.__rdiv__, Tensor.__idiv__ = Tensor.__rtruediv__, Tensor.__itruediv__  # type: ignore[method-assign]
