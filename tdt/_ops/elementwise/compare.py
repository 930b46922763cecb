"""Comparisons, logical and bitwise functions: their results are bool or integer, so none has a gradient."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from tdt._backend.layout import empty_in_order
from tdt._core import dtype as _dtype
from tdt._core.dtype import ALL, FLOAT8_WITH_INF, FLOAT8S, INTEGRAL, INTS, REAL, check_category
from tdt._core.methods import function_alias, method
from tdt._core.mode import values_read
from tdt._core.tensor import Tensor, wrap
from tdt._kernels._threads import MANY
from tdt._ops._common import Number
from tdt._ops._operators import arithmetic_operator, comparison_operator
from tdt._ops.elementwise._factors import wrapped
from tdt._ops.elementwise._front import binary_op, check_operands, ufunc, ufunc2, unary_op
from tdt.autograd._in_place_methods import by_op
from tdt.autograd._op import op
from tdt.autograd._op_table import OPS
from tdt.autograd._plan import integers

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "eq", "equal", "ge", "greater", "greater_equal", "gt", "isclose", "isfinite", "isinf", "isnan", "isneginf",
    "isposinf", "isreal", "le", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "lt",
    "ne", "not_equal", "signbit",
]  # fmt: skip


def _comparison(name: str) -> Any:
    """A comparison's forward. A Python integer wraps around to the tensor's integer type, as in PyTorch."""

    def forward(xp: ModuleType, x: Any, y: Any, *, out: Any = None) -> Any:
        if y.__class__ is int and x.dtype.kind in "iu":
            y = integers(x.dtype)[y] if xp is np else wrapped(y, x)
        return getattr(xp, name)(x, y) if out is None else getattr(xp, name)(x, y, out=out)

    forward.ufunc = name  # type: ignore[attr-defined]  # what it is of two arrays
    return forward


@method(in_place=by_op)
@binary_op(_comparison("equal"), lower=lambda xp, x, y: x == y, rounds_numbers=True, dtypes=ALL, float8=FLOAT8S)
def eq(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Whether input == other, element by element; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.eq(tdt.tensor([1, 2]), tdt.tensor([1, 3]))
    tensor([ True, False])
    """


@method(aliases=("not_equal",), in_place=by_op)
@binary_op(_comparison("not_equal"), lower=lambda xp, x, y: x != y, rounds_numbers=True, dtypes=ALL, float8=FLOAT8S)
def ne(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Whether input != other, element by element; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.ne(tdt.tensor([1, 2]), tdt.tensor([1, 3]))
    tensor([False,  True])
    """


@method(aliases=("less",), in_place=by_op)
@binary_op(_comparison("less"), lower=lambda xp, x, y: x < y, rounds_numbers=True, dtypes=REAL)
def lt(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Whether input < other, element by element; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.lt(tdt.tensor([1, 2]), tdt.tensor([1, 3]))
    tensor([False,  True])
    """


@method(aliases=("less_equal",), in_place=by_op)
@binary_op(_comparison("less_equal"), lower=lambda xp, x, y: x <= y, rounds_numbers=True, dtypes=REAL)
def le(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Whether input <= other, element by element; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.le(tdt.tensor([1, 2]), tdt.tensor([1, 1]))
    tensor([ True, False])
    """


@method(aliases=("greater",), in_place=by_op)
@binary_op(_comparison("greater"), lower=lambda xp, x, y: x > y, rounds_numbers=True, dtypes=REAL)
def gt(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Whether input > other, element by element; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.gt(tdt.tensor([1, 2]), tdt.tensor([1, 1]))
    tensor([False,  True])
    """


@method(aliases=("greater_equal",), in_place=by_op)
@binary_op(_comparison("greater_equal"), lower=lambda xp, x, y: x >= y, rounds_numbers=True, dtypes=REAL)
def ge(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Whether input >= other, element by element; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.ge(tdt.tensor([1, 2]), tdt.tensor([1, 3]))
    tensor([ True, False])
    """


not_equal = function_alias("not_equal", of=ne)
less = function_alias("less", of=lt)
less_equal = function_alias("less_equal", of=le)
greater = function_alias("greater", of=gt)
greater_equal = function_alias("greater_equal", of=ge)


@method(in_place=by_op)
@binary_op(ufunc2("logical_and"), numbers="none", formula=True)
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both elements of each pair are nonzero; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.logical_and(tdt.tensor([True, False]), tdt.tensor([True, True]))
    tensor([ True, False])
    """


@method(in_place=by_op)
@binary_op(ufunc2("logical_or"), numbers="none", formula=True)
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether at least one element of each pair is nonzero; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.logical_or(tdt.tensor([True, False]), tdt.tensor([True, True]))
    tensor([True, True])
    """


@method(in_place=by_op)
@binary_op(ufunc2("logical_xor"), numbers="none", formula=True)
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one element of each pair is nonzero; a bool tensor.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.logical_xor(tdt.tensor([True, False]), tdt.tensor([True, True]))
    tensor([False,  True])
    """


@method(in_place=by_op)
@unary_op(ufunc("logical_not"), dtypes=ALL, to_float=False, formula=True)
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is zero; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.logical_not(tdt.tensor([True, False]))
    tensor([False,  True])
    """


@method(in_place=by_op)
@binary_op(ufunc2("bitwise_and"), dtypes=INTEGRAL, numbers="any")
def bitwise_and(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The bitwise AND of two integers; the logical AND of two bools.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.bitwise_and(tdt.tensor([6]), tdt.tensor([3]))
    tensor([2])
    """


@method(in_place=by_op)
@binary_op(ufunc2("bitwise_or"), dtypes=INTEGRAL, numbers="any")
def bitwise_or(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The bitwise OR of two integers; the logical OR of two bools.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.bitwise_or(tdt.tensor([6]), tdt.tensor([3]))
    tensor([7])
    """


@method(in_place=by_op)
@binary_op(ufunc2("bitwise_xor"), dtypes=INTEGRAL, numbers="any")
def bitwise_xor(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The bitwise exclusive OR of two integers; the logical one of two bools.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.bitwise_xor(tdt.tensor([6]), tdt.tensor([3]))
    tensor([5])
    """


@method(in_place=by_op)
@unary_op(ufunc("bitwise_not"), dtypes=INTEGRAL, to_float=False, same_out=True)
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The bitwise NOT of each integer; the logical NOT of each bool.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.bitwise_not(tdt.tensor([6]))
    tensor([-7])
    """


def _shift(name: str) -> Any:
    def forward(xp: ModuleType, x: Any, y: Any) -> Any:
        # Shifts by a negative count or by the width and more are undefined in C; PyTorch shifts all bits out.
        dtype = x.dtype if hasattr(x, "dtype") else y.dtype
        width = 8 * dtype.itemsize
        if y.__class__ is int:
            y = int(wrapped(y, x))
        if not hasattr(y, "dtype") and 0 <= y < width:
            return getattr(xp, name)(x, dtype.type(y))
        zero, inside = dtype.type(0), (y >= 0) & (y < width) if hasattr(y, "dtype") else False
        shifted = getattr(xp, name)(x, xp.where(inside, y, zero) if hasattr(y, "dtype") else zero)
        if name == "left_shift":
            return xp.where(inside, shifted, zero)
        return xp.where(inside, shifted, xp.where(shifted < 0, ~zero, zero))

    return forward


@method(in_place=by_op)
@binary_op(_shift("left_shift"), formula=True, dtypes=INTS, numbers="any")
def bitwise_left_shift(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Integers shifted left by `other` bits: input · 2^other, without the bits that leave the type.

    The result is 0 where `other` is negative or at least the width of the type.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.bitwise_left_shift(tdt.tensor([3]), tdt.tensor([2]))
    tensor([12])
    """


@method(in_place=by_op)
@binary_op(_shift("right_shift"), formula=True, dtypes=INTS, numbers="any")
def bitwise_right_shift(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Integers shifted right by `other` bits: input / 2^other, rounded down.

    The result is 0, or -1 for a negative input, where `other` is negative or at least the width of the type.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.bitwise_right_shift(tdt.tensor([13]), tdt.tensor([2]))
    tensor([3])
    """


def _everywhere(xp: ModuleType, x: Any, value: bool) -> Any:
    """The same for each element of x, in its order in memory."""
    out = empty_in_order(xp, x, bool)
    out.fill(value)  # a third of the time of `full`
    return out


def _on_floats(name: str, otherwise: bool) -> Any:
    """A predicate of floating-point numbers; for integers its result is `otherwise`."""

    def forward(xp: ModuleType, x: Any) -> Any:
        return _everywhere(xp, x, otherwise) if x.dtype.kind in "biu" else getattr(xp, name)(x)

    return forward


@method()
@unary_op(_on_floats("isnan", False), dtypes=ALL, to_float=False, float8=FLOAT8S, sparse_values="coalesced")
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is nan; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.isnan(tdt.tensor([1., float('nan')]))
    tensor([False,  True])
    """


@method()
@unary_op(_on_floats("isinf", False), dtypes=ALL, to_float=False, sparse_values="coalesced")
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is infinite; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.isinf(tdt.tensor([1., float('inf')]))
    tensor([False,  True])
    """


@method()
@unary_op(_on_floats("isfinite", True), dtypes=ALL, to_float=False, float8=FLOAT8_WITH_INF)
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is neither infinite nor nan; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.isfinite(tdt.tensor([1., float('inf')]))
    tensor([ True, False])
    """


def _equal_to(number: float) -> Any:
    """Whether floating-point numbers equal an infinity; False for integers."""

    def forward(xp: ModuleType, x: Any) -> Any:
        return _everywhere(xp, x, False) if x.dtype.kind in "biu" else x == number

    return forward


@method()
@unary_op(_equal_to(math.inf), dtypes=REAL, to_float=False, bool_out=True, sparse_values="coalesced")
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is +inf; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.isposinf(tdt.tensor([1., float('inf')]))
    tensor([False,  True])
    """


@method()
@unary_op(_equal_to(-math.inf), dtypes=REAL, to_float=False, bool_out=True, sparse_values="coalesced")
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is -inf; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.isneginf(tdt.tensor([1., float('-inf')]))
    tensor([False,  True])
    """


def _is_real(xp: ModuleType, x: Any) -> Any:
    return x.imag == 0 if x.dtype.kind == "c" else _everywhere(xp, x, True)


@method()
@unary_op(_is_real, dtypes=ALL, to_float=False)
def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element has imaginary part 0; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.isreal(tdt.tensor([1., 2.]))
    tensor([True, True])
    """


@method()
@unary_op(
    lambda xp, x: xp.signbit(x) if x.dtype.kind == "f" else x < 0,
    dtypes=REAL,
    to_float=False,
    bool_out=True,
    sparse_values="coalesced",
)
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign bit of each element is set, that of -0.0 included; a bool tensor.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.signbit(tdt.tensor([1., -0.]))
    tensor([False,  True])
    """


@op
def _isclose(xp: ModuleType, x: Any, y: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    if x.dtype.kind in "biu" and rtol == 0 and atol == 0:
        return x == y
    close = x == y
    if equal_nan and x.dtype.kind in "fc":
        close = close | (xp.isnan(x) & xp.isnan(y))
    allowed = float(atol) + xp.abs(float(rtol) * y)  # an integer would take the type of integers
    distance = xp.abs(x.astype(xp.float64) - y if x.dtype.kind in "biu" else x - y)
    return close | (xp.isfinite(distance) & (distance <= allowed))


@method()
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| ≤ atol + rtol · |other|, element by element; a bool tensor.

    Args:
        rtol, atol: relative and absolute tolerance, both at least 0.
        equal_nan: whether two nan count as close.
    Shape: input (*), other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when the dtypes differ or a tolerance is negative.

    >>> import tdt
    >>> tdt.isclose(tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    check_operands("isclose", input, other, numbers="none")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{_dtype.SCALAR_NAMES[input.dtype]} did not match {_dtype.SCALAR_NAMES[other.dtype]}")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol}")
    return _isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


@method()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether `isclose` is True for every pair of elements.

    Args:
        rtol, atol: relative and absolute tolerance, both at least 0.
        equal_nan: whether two nan count as close.
    Shape: input (*), other broadcastable with it.
    Raises:
        RuntimeError: when the dtypes differ or a tolerance is negative.

    >>> import tdt
    >>> tdt.allclose(tdt.tensor([1.0]), tdt.tensor([1.0 + 1e-7]))
    True
    """
    values_read("allclose")
    return bool(isclose(input, other, rtol, atol, equal_nan)._a.all())


@method()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and equal elements.

    Shape: input, other: any; tensors of different shapes are unequal.

    >>> import tdt
    >>> tdt.equal(tdt.tensor([1, 2]), tdt.tensor([1, 2]))
    True
    """
    check_category("equal", ALL, input.dtype)
    values_read("equal")
    a, b = input._a, other._a
    if a.shape != b.shape:
        return False
    if a.__class__ is b.__class__ is np.ndarray and a.dtype == b.dtype and a.size < MANY:
        return not np.count_nonzero(a != b)
    return bool(eq(wrap(a), wrap(b))._a.all())


@method("__contains__")
def _contains(self: Tensor, element: Any) -> bool:
    if not isinstance(element, (Tensor, bool, int, float, complex)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
    values_read("`in`")
    return bool((self == element)._a.any())


@method("__invert__")
def _invert(self: Tensor) -> Tensor:
    if self.dtype.category > _dtype.INT:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    comparison_operator(_name, OPS[_name])
arithmetic_operator("and", OPS["bitwise_and"])
arithmetic_operator("or", OPS["bitwise_or"])
arithmetic_operator("xor", OPS["bitwise_xor"])
arithmetic_operator("lshift", OPS["bitwise_left_shift"])
arithmetic_operator("rshift", OPS["bitwise_right_shift"])
