"""Formulas of one element as expressions: what a function of NumPy's names computes, traced by calling it once.

    >>> from tdt._kernels import expression
    >>> x = expression.Expression("input", 0)
    >>> silu = x / (1 + expression.exp(-x))
    >>> str(silu)[:20]
    'divide(x0, add(1.0, '

This module stands in for NumPy while a forward such as `def silu(xp, x): return x / (1 + xp.exp(-x))` is traced, so it has
NumPy's names. Every function is made of a few operations that round as IEEE 754 says: + - * / sqrt, fused multiply-add,
rounding to integers, comparisons, selection, and the exponent's bits. So an element has one value, however many are
computed at once. `_emit` turns expressions into machine code.

Coefficients are for float32; `max ulp` in a docstring is the largest error over all float32 numbers, in units in the
last place of the result, measured against float64 by `tests/_kernels/test_expression.py`.
"""

from __future__ import annotations

import math
from typing import Any

INFINITY, NAN = math.inf, math.nan


class Expression:
    """A value of each element: an operation on other expressions.

    Attributes:
        op: its name, as `_emit` knows it; "input" and "constant" are the leaves.
        args: the operands; of a leaf, the number of the input or the constant.
        logical: whether the value is true or false.
    """

    __slots__ = ("op", "args", "logical")

    def __init__(self, op: str, *args: Any, logical: bool = False):
        self.op, self.args, self.logical = op, args, logical

    def __repr__(self) -> str:
        if self.op == "constant":
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

    def __and__(self, other: Expression) -> Expression:
        return Expression("and", self, other, logical=True)

    def __or__(self, other: Expression) -> Expression:
        return Expression("or", self, other, logical=True)

    def __invert__(self) -> Expression:
        return Expression("not", self, logical=True)

    __hash__ = None  # type: ignore[assignment]

    @property
    def dtype(self) -> type[_ElementType]:
        """So that `x.dtype.type(value)` in a forward is the value."""
        return _ElementType

    def conj(self) -> Expression:
        """The value itself: it is real."""
        return self

    conjugate = conj


def as_expression(value: Any) -> Expression:
    """A number as a constant; an expression as it is."""
    return value if isinstance(value, Expression) else Expression("constant", float(value))


def _number(value: Any) -> Expression:
    """A condition as 1 or 0, a number as a constant."""
    value = as_expression(value)
    return where(value, 1, 0) if value.logical else value


class _ElementType:
    kind = "f"
    type = staticmethod(as_expression)


def where(condition: Expression, x: Any, y: Any) -> Expression:
    """x where the condition is true, else y."""
    return Expression("where", condition, as_expression(x), as_expression(y))


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


def _unary(op: str) -> Any:
    def function(x: Any) -> Expression:
        return Expression(op, _number(x))

    function.__name__ = op
    return function


abs = _unary("abs")
sqrt = _unary("sqrt")
floor = _unary("floor")
ceil = _unary("ceil")
trunc = _unary("trunc")
rint = _unary("rint")
negative = _unary("negative")
_power_of_2 = _unary("power_of_2")  # 2^n of an integral n from -126 to 127
_mantissa = _unary("mantissa")  # m and e with x = m 2^e, m from 2/3 to 4/3
_exponent = _unary("exponent")


def copysign(size: Any, sign: Expression) -> Expression:
    """The absolute value of one, the sign of the other."""
    return Expression("copysign", as_expression(size), sign)


def isnan(x: Expression) -> Expression:
    """Whether x is NaN."""
    return x != x


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


class Exact:
    """The functions whose rounding is defined: what a formula of float64 may use, for which there are no coefficients."""


for _function in (
    where,
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
    sign,
    square,
    reciprocal,
):
    setattr(Exact, _function.__name__, staticmethod(_function))

LOG2_E, LN2_HIGH, LN2_LOW = 1.44269504, 0.693145752, 1.42860677e-6
EXP_LOW, EXP_HIGH = -104.0, 89.0  # beyond: 0, infinity


def _reduced(x: Expression) -> tuple[Expression, Expression]:
    """n and r with x = n ln 2 + r, |r| ≤ ln 2 / 2 (W. J. Cody and W. Waite, 1980)."""
    n = rint(x * LOG2_E)
    return n, fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))


def _expm1_reduced(r: Expression) -> Expression:
    """exp(r) - 1 for |r| ≤ ln 2 / 2."""
    return fma(polynomial(r, 1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1) * r, r, r)


def exp(x: Expression) -> Expression:
    """e^x. Max ulp 1.0, subnormal results too."""
    n, r = _reduced(where(x > EXP_HIGH, EXP_HIGH, where(x < EXP_LOW, EXP_LOW, x)))
    half = floor(n * 0.5)  # two powers of 2, so that a subnormal result is rounded once
    return (_expm1_reduced(r) + 1) * _power_of_2(half) * _power_of_2(n - half)


def expm1(x: Expression) -> Expression:
    """e^x - 1. Max ulp 1.4."""
    n, r = _reduced(where(x > EXP_HIGH, EXP_HIGH, where(x < -18, -18, x)))
    near, half = _expm1_reduced(r), floor(n * 0.5)
    power = _power_of_2(where(n > 126, 126, n))
    large = (near + 1) * _power_of_2(half) * _power_of_2(n - half)
    return where(abs(x) < 1e-20, x, where(n > 126, large, fma(power, near, power - 1)))


def exp2(x: Expression) -> Expression:
    """2^x. Max ulp 1.0."""
    x = where(x > 129, 129, where(x < -151, -151, x))
    n = rint(x)
    half = floor(n * 0.5)
    return (_expm1_reduced((x - n) * 0.693147182) + 1) * _power_of_2(half) * _power_of_2(n - half)


def tanh(x: Expression) -> Expression:
    """Hyperbolic tangent. Max ulp 1.5."""
    size = abs(x)
    n, r = _reduced(where(size > 9.5, 19, size + size))
    power = _power_of_2(n)
    e = fma(power, _expm1_reduced(r), power - 1)
    z = x * x
    near = polynomial(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    return copysign(where(size < 0.625, fma(size * z, near, size), e / (e + 2)), x)  # S. L. Moshier, Cephes, tanhf


def log(x: Expression) -> Expression:
    """Natural logarithm: -inf at 0, NaN below. Max ulp 0.9."""
    tiny = x < 1.17549435e-38
    scaled = where(tiny, x * 8388608.0, x)  # 2^23: subnormal numbers become normal ones
    e = _exponent(scaled)
    e = where(tiny, e - 23, e)
    value = _log_near_1(_mantissa(scaled) - 1, e)
    return where(x > 0, where(x >= INFINITY, x, value), where(x >= 0, -INFINITY, NAN))


def _log_near_1(m: Expression, e: Expression) -> Expression:
    """log(1 + m) + e ln 2 for m from -1/3 to 1/3."""
    z = m * m
    r = polynomial(z, -0.130310059, -0.121483512, -0.166846126, -0.249996200)
    t = polynomial(z, 0.140869141, 0.139814854, 0.200120345)
    r = fma(fma(fma(t, m, r), m, 0.333331972), m, -0.5)
    return fma(e, 0.693147182, fma(r, z, m))


def log1p(x: Expression) -> Expression:
    """log(1 + x), exact for small x. Max ulp 1.5."""
    u = 1 + x
    # x - (u - 1) is what 1 + x lost by rounding, relative to u it adds to the logarithm (W. Kahan).
    e = _exponent(u)
    m = _mantissa(u)
    power = _power_of_2(where(e > 64, -64, -e))  # beyond, nothing that was lost matters
    lost = where(u > x, x - (u - 1), 1 - (u - x)) * power
    value = _log_near_1(m - 1, e) + lost / m
    value = where(abs(x) < 1e-7, x, value)
    return where(x > -1, where(x >= INFINITY, x, value), where(x >= -1, -INFINITY, NAN))


def erf(x: Expression) -> Expression:
    """Error function. Max ulp 1.0."""
    size = where(abs(x) > 4, 4, abs(x))
    z = x * x
    u = fma(-3.88396438e-3, size, 2.42546219e-2)
    r = fma(fma(-1.72853470e-5, size, 3.83197126e-4), size * size, u)
    r = fma(fma(fma(fma(r, size, -1.06777877e-1), size, -6.34846687e-1), size, -1.28717512e-1), size, -size)
    n, rest = _reduced(r)
    power = _power_of_2(n)
    far = copysign(fma(-power, _expm1_reduced(rest), 1 - power), x)
    near = fma(
        polynomial(z, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1), x, x
    )
    return where(abs(x) > 0.927734375, far, near)  # N. Juffa's minimax polynomials
