"""Formulas of one element as expressions: what a function of NumPy's names computes, traced by calling it once.

    >>> from tdt._kernels import functions
    >>> x = functions.Expression("input", 0)
    >>> silu = x / (1 + functions.exp(-x))
    >>> str(silu)[:20]
    'divide(x0, add(1.0, '

Every function is made of a few operations that round as IEEE 754 says: + - * / sqrt, fused multiply-add, rounding to
integers, comparisons, selection, and the exponent's bits. So an element has one value, however many are computed at once.
`_emit` turns expressions into machine code. This module has what is exact or rounded once; `functions` has all that a
formula of float32 may call.
"""

from __future__ import annotations

import math
from typing import Any

from tdt._kernels._syntax import as_float32

INFINITY, NAN = math.inf, math.nan
LARGEST = (2 - 2.0**-23) * 2.0**127  # of float32


class Expression:
    """A value of each element: an operation on other expressions.

    Attributes:
        op: its name, as `_emit` knows it; "input", "constant" and "number" are the leaves. A "number" is treated as an input
            is: a formula's number that does not change.
        args: the operands; of a leaf, the number of the input or the constant.
        logical: whether the value is true or false.
        double: whether it is of float64 within a formula of float32.
    """

    __slots__ = ("op", "args", "logical", "double")

    def __init__(self, op: str, *args: Any, logical: bool = False):
        self.op, self.args, self.logical = op, args, logical
        self.double = not logical and op != "to_float" and (
            op == "to_double" or any(a.__class__ is Expression and a.double for a in args)
        )  # fmt: skip

    def __repr__(self) -> str:
        if self.op in ("constant", "number"):
            return str(float(self.args[0]))
        return f"x{self.args[0]}" if self.op == "input" else f"{self.op}({', '.join(map(repr, self.args))})"

    def __bool__(self) -> bool:
        raise TypeError("the value of an element is not known while its formula is traced: use where()")

    def __add__(self, other: Any) -> Expression:
        return Expression("add", _number(self), _number(other))

    def __radd__(self, other: Any) -> Expression:
        return Expression("add", _number(other), _number(self))

    def __sub__(self, other: Any) -> Expression:
        return Expression("subtract", _number(self), _number(other))

    def __rsub__(self, other: Any) -> Expression:
        return Expression("subtract", _number(other), _number(self))

    def __mul__(self, other: Any) -> Expression:
        return Expression("multiply", _number(self), _number(other))

    def __rmul__(self, other: Any) -> Expression:
        return Expression("multiply", _number(other), _number(self))

    def __truediv__(self, other: Any) -> Expression:
        return Expression("divide", _number(self), _number(other))

    def __rtruediv__(self, other: Any) -> Expression:
        return Expression("divide", _number(other), _number(self))

    def __neg__(self) -> Expression:
        return Expression("negative", self)

    def __abs__(self) -> Expression:
        return Expression("abs", self)

    def __lt__(self, other: Any) -> Expression:
        return Expression("less", self, as_expression(other), logical=True)

    def __le__(self, other: Any) -> Expression:
        return Expression("less_equal", self, as_expression(other), logical=True)

    def __gt__(self, other: Any) -> Expression:
        return Expression("greater", self, as_expression(other), logical=True)

    def __ge__(self, other: Any) -> Expression:
        return Expression("greater_equal", self, as_expression(other), logical=True)

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        return Expression("equal", self, as_expression(other), logical=True)

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        return Expression("not_equal", self, as_expression(other), logical=True)

    def __and__(self, other: Any) -> Expression:
        return Expression("and", self, as_expression(other), logical=self.logical)

    def __or__(self, other: Any) -> Expression:
        return Expression("or", self, as_expression(other), logical=self.logical)

    def __xor__(self, other: Any) -> Expression:
        return Expression("xor", self, as_expression(other), logical=self.logical)

    def __invert__(self) -> Expression:
        return Expression("not", self, logical=self.logical)

    __hash__ = None  # type: ignore[assignment]

    @property
    def dtype(self) -> type[_ElementType]:
        """So that `x.dtype.type(value)` in a forward is the value."""
        return _ElementType

    def conj(self) -> Expression:
        """The value itself: it is real."""
        return self

    conjugate = conj


class Variable:
    """A value of each element that a formula writes to: in `m += g` or `m[...] = g`, where arrays are written in place.

    Attributes:
        now: the expression of what it holds.
    """

    def __init__(self, now: Expression):
        self.now = now

    def __setitem__(self, index: Any, value: Any) -> None:
        assert index is Ellipsis, "a formula writes to all elements"
        self.now = as_expression(value)

    def __iadd__(self, other: Any) -> Variable:
        self.now = self.now + other
        return self

    def __isub__(self, other: Any) -> Variable:
        self.now = self.now - other
        return self

    def __imul__(self, other: Any) -> Variable:
        self.now = self.now * other
        return self


def _of_value(name: str) -> Any:
    """A method of the value that a variable has now."""

    def method(self: Variable, *others: Any) -> Any:
        return getattr(self.now, name)(*others)

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg", "abs", "lt", "le", "gt", "ge"):
    setattr(Variable, f"__{_name}__", _of_value(f"__{_name}__"))


def is_constant(expression: Expression) -> bool:
    """Whether a value is a constant, or one of several."""
    return expression.op == "constant" or (expression.op == "where" and all(map(is_constant, expression.args[1:])))


def operations(expression: Expression) -> int:
    """How many operations an expression has."""
    visited: set[int] = set()
    stack = [expression]
    while stack:
        each = stack.pop()
        if id(each) not in visited and isinstance(each, Expression):
            visited.add(id(each))
            stack += each.args
    return len(visited)


def as_expression(value: Any) -> Expression:
    """A number as a constant; an expression as it is; of a variable the value that it has now."""
    if value.__class__ is Variable:
        return value.now
    return value if isinstance(value, Expression) else Expression("constant", float(value))


def as_number(value: Any) -> Any:
    """A Python number as one of float32 that is treated as an input is; other values as they are."""
    if value.__class__ is float or value.__class__ is int:
        return Expression("number", as_float32(value))
    return value


def _number(value: Any) -> Expression:
    """A condition as 1 or 0, a number as a constant."""
    value = as_expression(value)
    return where(value, 1, 0) if value.logical else value


class _ElementType:
    kind = "f"
    type = staticmethod(as_expression)


def where(condition: Expression, x: Any, y: Any) -> Expression:
    """x where the condition is true, or not 0, else y."""
    x, y = as_expression(x), as_expression(y)
    condition = condition if condition.logical else condition != 0
    return Expression("where", condition, x, y, logical=x.logical and y.logical)


def ones(shape: tuple[()], dtype: Any) -> Expression:
    """The constant 1."""
    return as_expression(1)


def fma(x: Any, y: Any, z: Any) -> Expression:
    """x y + z, rounded once."""
    return Expression("fma", *map(as_expression, (x, y, z)))


def polynomial(x: Expression, *coefficients: float) -> Expression:
    """Horner's scheme, from the highest power's coefficient to the constant's."""
    value = as_expression(coefficients[0])
    for coefficient in coefficients[1:]:
        value = fma(value, x, coefficient)
    return value


def long_polynomial(x: Expression, *coefficients: float) -> Expression:
    """As `polynomial`, in two chains of half the length, which a processor computes at the same time."""
    square, last = x * x, coefficients[::-1]
    return fma(polynomial(square, *last[1::2][::-1]), x, polynomial(square, *last[::2][::-1]))


def _unary(op: str) -> Any:
    def function(x: Any) -> Expression:
        return Expression(op, _number(x))

    function.__name__ = op
    return function


abs = absolute = _unary("abs")
sqrt = _unary("sqrt")
floor = _unary("floor")
ceil = _unary("ceil")
trunc = _unary("trunc")
rint = _unary("rint")
negative = _unary("negative")
power_of_2 = _unary("power_of_2")  # 2^n of an integral n from -126 to 127
mantissa = _unary("mantissa")  # m and e with x = m 2^e, m from 2/3 to 4/3
exponent = _unary("exponent")
to_double = _unary("to_double")  # a float32 expression as float64, in which its functions are computed and rounded once
to_float = _unary("to_float")


def scaled(x: Expression, n: Expression) -> Expression:
    """x · 2^n, rounded once, of an x near 1 and an integral n for which 2^(n/2) is a normal number."""
    return Expression("scaled", _number(x), _number(n))


def is_odd(n: Expression) -> Expression:
    """Whether an integral n is odd, for |n| < 2^22."""
    return Expression("odd", n, logical=True)


def half_is_odd(n: Expression) -> Expression:
    """Whether floor(n / 2) is odd."""
    return Expression("odd_half", n, logical=True)


def rarely(condition: Expression, x: Expression, y: Expression) -> Expression:
    """As `where`; x is only computed for vectors in which the condition holds for an element."""
    return Expression("rare", condition, y, x)


def copysign(size: Any, sign: Expression) -> Expression:
    """The absolute value of one, the sign of the other."""
    return Expression("copysign", as_expression(size), sign)


def isnan(x: Expression) -> Expression:
    """Whether x is NaN."""
    return x != x


def isinf(x: Expression) -> Expression:
    """Whether x is infinite."""
    return abs(x) == INFINITY


def isfinite(x: Expression) -> Expression:
    """Whether x is neither infinite nor NaN."""
    return abs(x) < INFINITY


def minimum(x: Any, y: Any) -> Expression:
    """The smaller one; NaN if one is NaN."""
    return _extreme(x, y, Expression.__lt__)


def maximum(x: Any, y: Any) -> Expression:
    """The larger one; NaN if one is NaN."""
    return _extreme(x, y, Expression.__gt__)


def _extreme(x: Any, y: Any, before: Any) -> Expression:
    if not isinstance(x, Expression):
        x, y = y, x
    y = as_expression(y)
    value = where(before(y, x), y, x)  # NaN in x: not before, so x
    return value if y.op == "constant" else where(isnan(y), y, value)


def fmin(x: Expression, y: Expression) -> Expression:
    """The smaller one; where one is NaN, the other."""
    return where((y < x) | isnan(x), y, x)


def fmax(x: Expression, y: Expression) -> Expression:
    """The larger one; where one is NaN, the other."""
    return where((y > x) | isnan(x), y, x)


def sign(x: Expression) -> Expression:
    """-1, 0 or 1; 0 for NaN."""
    return where(x > 0, 1, where(x < 0, -1, 0))


def square(x: Expression) -> Expression:
    """x x."""
    return x * x


def multiply(x: Expression, y: Expression) -> Expression:
    """x y."""
    return x * y


def reciprocal(x: Expression) -> Expression:
    """1 / x."""
    return 1 / x


def hypot(x: Expression, y: Expression) -> Expression:
    """The square root of x² + y², without overflow; infinity where one operand is, even if the other is NaN. Max ulp 1.1."""
    x, y = abs(x), abs(y)
    larger = where(y > x, y, x)
    factor = where(larger > 1e15, 2.0**-64, where(larger < 1e-15, 2.0**100, 1))  # so that no square is 0 or infinite
    x, y = x * factor, y * factor
    size = sqrt(fma(x, x, y * y)) * where(larger > 1e15, 2.0**64, where(larger < 1e-15, 2.0**-100, 1))
    return where((x >= INFINITY) | (y >= INFINITY), INFINITY, size)


def nextafter(x: Expression, y: Expression) -> Expression:
    """The float32 number next to x in the direction of y: x and more than half of the distance, rounded."""
    size = abs(x)
    far = fma(size, where(y > x, 1.25 * 2.0**-24, -1.25 * 2.0**-24), x)
    near = x + where(y > x, 2.0**-149, -(2.0**-149))  # exact
    value = where(x == 0, near, copysign(where(size < 2.0**-125, near, far), x))
    value = where(size >= INFINITY, copysign(LARGEST, x), value)
    return where((x != x) | (y != y), x + y, where(x == y, y, value))


def asarray(value: Any, dtype: Any = None) -> Expression:
    """A number or an expression as an expression."""
    return as_expression(value)


def zeros_like(x: Any) -> Expression:
    """The constant 0."""
    return as_expression(0)


def true_divide(x: Expression, y: Expression) -> Expression:
    """x / y."""
    return x / y


def logical_and(x: Expression, y: Expression) -> Expression:
    """Whether both are not 0."""
    return (x != 0) & (y != 0)


def logical_or(x: Expression, y: Expression) -> Expression:
    """Whether one is not 0."""
    return (x != 0) | (y != 0)


def logical_xor(x: Expression, y: Expression) -> Expression:
    """Whether exactly one is not 0."""
    return ((x != 0) & (y == 0)) | ((x == 0) & (y != 0))


def logical_not(x: Expression) -> Expression:
    """Whether x is 0."""
    return x == 0


STEP = 2.0**26  # the largest quotient of a step of `fmod`


def fmod(x: Expression, y: Expression) -> Expression:
    """x - n y for the quotient n rounded towards 0, exactly: it has the sign of x. NaN for y = 0 and infinite x."""
    size, by = to_double(abs(x)), to_double(abs(y))
    infinite = by >= INFINITY
    by = where(infinite, 1, by)
    rest = size
    for k in range(10, 0, -1):  # quotients of float32 numbers are below 2^277
        rest = _rest(rest, by * STEP**k)
    value = to_float(_rest(rarely(size > by * STEP, rest, size), by))
    return where((abs(x) >= INFINITY) | (y == 0) | (y != y), NAN, where(infinite, x, copysign(value, x)))


def _rest(x: Expression, y: Expression) -> Expression:
    """x modulo y in float64, for positive numbers whose quotient is below 2^27: the product is exact."""
    rest = fma(-trunc(x / y), y, x)
    return where(rest < 0, rest + y, rest)  # the quotient was rounded up to an integer


def remainder(x: Expression, y: Expression) -> Expression:
    """x - n y for the quotient n rounded down: it has the sign of y."""
    return remainder_from(fmod(x, y), y)


def floor_divide(x: Expression, y: Expression) -> Expression:
    """The quotient, rounded down as Python rounds it: from the exact remainder."""
    return quotient_from(fmod(x, y), x, y)


def remainder_from(rest: Expression, y: Expression) -> Expression:
    """The remainder with the sign of y, of the one of the quotient rounded towards 0."""
    return where((rest != 0) & ((y < 0) ^ (rest < 0)), rest + y, rest)


def quotient_from(rest: Expression, x: Expression, y: Expression) -> Expression:
    """x / y rounded down, from the same remainder."""
    quotient = (x - rest) / y
    quotient = where((rest != 0) & ((y < 0) ^ (rest < 0)), quotient - 1, quotient)
    down = floor(quotient)
    down = where(quotient - down > 0.5, down + 1, down)
    return where(y == 0, x / y, where(quotient == 0, copysign(0, x / y), down))


class Exact:
    """The functions whose rounding is defined: what a formula of float64 may use, for which there are no coefficients."""


for _function in (
    where,
    rarely,
    ones,
    abs,
    sqrt,
    floor,
    ceil,
    trunc,
    rint,
    negative,
    copysign,
    minimum,
    maximum,
    fmin,
    fmax,
    isnan,
    isinf,
    isfinite,
    sign,
    square,
    reciprocal,
    asarray,
    zeros_like,
    true_divide,
    logical_and,
    logical_or,
    logical_xor,
    logical_not,
):
    setattr(Exact, _function.__name__, staticmethod(_function))
Exact.absolute = staticmethod(abs)  # type: ignore[attr-defined]
