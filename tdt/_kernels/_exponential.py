"""Exponential functions, logarithms and hyperbolic functions of expressions of float32.

`max ulp` in a docstring is the largest error over all float32 numbers, in units in the last place of the result, measured
against float64 by `tests/_kernels/test_expression.py`.
"""

from __future__ import annotations

from tdt._kernels.expression import (
    INFINITY,
    NAN,
    Expression,
    abs,
    copysign,
    exponent,
    floor,
    fma,
    long_polynomial,
    mantissa,
    polynomial,
    power_of_2,
    rint,
    scaled,
    sqrt,
    to_double,
    to_float,
    where,
)

TO_INTEGER = 12582912.0  # 1.5 · 2^23: a sum with it is rounded to an integer
LOG2_E, LN2_HIGH, LN2_LOW = 1.44269504, 0.693145752, 1.42860677e-6
EXP_LOW, EXP_HIGH = -104.0, 89.0  # beyond: 0, infinity


def _reduced(x: Expression) -> tuple[Expression, Expression]:
    """n and r with x = n ln 2 + r, |r| ≤ ln 2 / 2 (W. J. Cody and W. Waite, 1980), for |x| up to 2^20."""
    n = fma(x, LOG2_E, TO_INTEGER) - TO_INTEGER
    return n, fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))


def _expm1_reduced(r: Expression) -> Expression:
    """exp(r) - 1 for |r| ≤ ln 2 / 2."""
    return fma(_expm1_rest(r) * r, r, r)


def _expm1_rest(r: Expression) -> Expression:
    """(exp(r) - 1 - r) / r² for |r| ≤ ln 2 / 2."""
    return polynomial(r, 1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1)


def exp(x: Expression) -> Expression:
    """e^x. Max ulp 1.0, subnormal results too."""
    n, r = _reduced(_between(EXP_LOW, x, EXP_HIGH))
    return scaled(_expm1_reduced(r) + 1, n)


def _between(low: float, x: Expression, high: float) -> Expression:
    """x limited to a range; NaN stays NaN."""
    x = where(x < low, low, x)
    return where(x > high, high, x)


def exp_of_negative(x: Expression) -> Expression:
    """exp(x) for x ≤ 0; of -inf, of which masked softmax has many, without arithmetic on subnormal numbers, which is slow."""
    vanishes = x < EXP_LOW
    n, r = _reduced(where(vanishes, 0, x))
    return where(vanishes, 0, scaled(_expm1_reduced(r) + 1, n))


def expm1(x: Expression) -> Expression:
    """e^x - 1. Max ulp 1.4."""
    n, r = _reduced(_between(-18, x, EXP_HIGH))
    near = _expm1_reduced(r)
    power = power_of_2(where(n > 126, 126, n))
    return where(abs(x) < 1e-20, x, where(n > 126, scaled(near + 1, n), fma(power, near, power - 1)))


def exp2(x: Expression) -> Expression:
    """2^x. Max ulp 1.0."""
    x = _between(-151, x, 129)
    n = rint(x)
    return scaled(_expm1_reduced((x - n) * 0.693147182) + 1, n)


def tanh(x: Expression) -> Expression:
    """Hyperbolic tangent. Max ulp 1.5."""
    size = abs(x)
    n, r = _reduced(where(size > 9.5, 19, size + size))
    power = power_of_2(n)
    e = fma(power, _expm1_reduced(r), power - 1)
    z = x * x
    near = polynomial(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    return copysign(where(size < 0.625, fma(size * z, near, size), e / (e + 2)), x)  # S. L. Moshier, Cephes, tanhf


def log(x: Expression) -> Expression:
    """Natural logarithm: -inf at 0, NaN below. Max ulp 0.9."""
    tiny = x < 1.17549435e-38
    normal = where(tiny, x * 8388608.0, x)  # 2^23: subnormal numbers become normal ones
    e = exponent(normal)
    e = where(tiny, e - 23, e)
    value = _log_near_1(mantissa(normal) - 1, e)
    return where(x > 0, where(x >= INFINITY, x, value), where(x >= 0, -INFINITY, NAN))


def log_from_1(x: Expression) -> Expression:
    """log(x) for finite x ≥ 1; NaN for NaN."""
    return where(x >= 1, _log_near_1(mantissa(x) - 1, exponent(x)), x)


def _log_near_1(m: Expression, e: Expression) -> Expression:
    """log(1 + m) + e ln 2 for m from -1/3 to 1/3."""
    return fma(e, 0.693147182, fma(_log_rest(m), m * m, m))


def _log_rest(m: Expression) -> Expression:
    """(log(1 + m) - m) / m²."""
    z = m * m
    r = polynomial(z, -0.130310059, -0.121483512, -0.166846126, -0.249996200)
    t = polynomial(z, 0.140869141, 0.139814854, 0.200120345)
    return fma(fma(fma(t, m, r), m, 0.333331972), m, -0.5)


def log1p(x: Expression) -> Expression:
    """log(1 + x), exact for small x. Max ulp 1.5."""
    u = 1 + x
    # x - (u - 1) is what 1 + x lost by rounding, relative to u it adds to the logarithm (W. Kahan).
    e = exponent(u)
    m = mantissa(u)
    power = power_of_2(where(e > 64, -64, -e))  # beyond, nothing that was lost matters
    lost = where(u > x, x - (u - 1), 1 - (u - x)) * power
    value = _log_near_1(m - 1, e) + lost / m
    value = where(abs(x) < 1e-7, x, value)
    return where(x > -1, where(x >= INFINITY, x, value), where(x >= -1, -INFINITY, NAN))


def log2(x: Expression) -> Expression:
    """Logarithm to base 2. Max ulp 1.1."""
    return _log_of_base(x, (1.0, 0.0), (1.44269502, 1.92596303e-8))


def log10(x: Expression) -> Expression:
    """Logarithm to base 10. Max ulp 1.3."""
    return _log_of_base(x, (0.301029205, 7.90341517e-7), (0.434294492, -1.01030477e-8))


def _log_of_base(x: Expression, log_2: tuple[float, float], log_e: tuple[float, float]) -> Expression:
    """Logarithm to a base, from those of 2 and e as sums; products of the first part of 2's with exponents are exact."""
    tiny = x < 1.17549435e-38
    normal = where(tiny, x * 8388608.0, x)
    e = exponent(normal)
    e = where(tiny, e - 23, e)
    m = mantissa(normal) - 1
    product, whole = m * log_e[0], e * log_2[0]
    rest = fma(m * m * _log_rest(m), log_e[0], fma(m, log_e[1], fma(m, log_e[0], -product)))
    first = whole + product
    value = first + (fma(e, log_2[1], rest) + (whole - first + product))
    return where(x > 0, where(x >= INFINITY, x, value), where(x >= 0, -INFINITY, NAN))


def _quarter_of_exp(size: Expression) -> tuple[Expression, tuple[Expression, Expression]]:
    """e^size / 4 and e^-size / 4, as a power of 2 and the rest, where e^size overflows too; infinity from 89.5 on."""
    n, r = _reduced(where(size > 89.5, 89.5, size))
    power, near = power_of_2(n - 2), _expm1_reduced(r)
    inverse = 0.0625 / fma(power, near, power)
    return power, (fma(power, near, inverse), fma(power, near, -inverse))


def cosh(x: Expression) -> Expression:
    """Hyperbolic cosine. Max ulp 1.2."""
    power, (rest, _) = _quarter_of_exp(abs(x))
    return (power + rest) * 2


def sinh(x: Expression) -> Expression:
    """Hyperbolic sine. Max ulp 1.2."""
    size = abs(x)
    power, (_, rest) = _quarter_of_exp(size)
    z = x * x
    near = fma(size * z, polynomial(z, 2.78392554e-06, 0.000198426351, 0.00833331142, 0.166666672), size)
    return copysign(where(size < 1, near, (power + rest) * 2), x)


def _log_double(x: Expression) -> Expression:
    """The natural logarithm of float64 expressions, with a relative error of 2^-42; NaN below 0. For 2^-1022 ≤ x."""
    m = mantissa(x)
    s = (m - 1) / (m + 1)
    z = s * s
    p = long_polynomial(
        z, 0.10063505474924636, 0.11067357657961245, 0.142865982786157, 0.19999992236955774, 0.3333333335543459
    )
    s = s + s
    value = fma(exponent(x), 0.6931471805599453, fma(s * z, p, s))
    return where(x > 0, where(x >= INFINITY, x, value), where(x >= 0, -INFINITY, NAN))


def _exp_double(x: Expression) -> Expression:
    """e^x of float64 expressions, with a relative error of 2^-39, 0 or infinity as float32."""
    x = where(x > 200, 200, where(x < -200, -200, x))
    n = rint(x * 1.4426950408889634)
    r = fma(n, -0.6931471805599453, x)
    p = long_polynomial(r, 2.488759738576971e-05, 0.0001990923311994299, 0.0013888796452712262, 0.008333281287055619,
                   0.04166666705401351, 0.16666666786573228, 0.4999999999951984)  # fmt: skip
    return (fma(p * r, r, r) + 1) * power_of_2(n)


def arcsinh(x: Expression) -> Expression:
    """Inverse hyperbolic sine. Max ulp 0.6."""
    size = to_double(abs(x))
    value = to_float(_log_double(size + sqrt(fma(size, size, 1))))
    return where(abs(x) < 1e-4, x, copysign(value, x))


def arccosh(x: Expression) -> Expression:
    """Inverse hyperbolic cosine: NaN below 1. Max ulp 0.6."""
    wide = to_double(x)
    return to_float(_log_double(where(x >= 1, wide + sqrt((wide - 1) * (wide + 1)), NAN)))


def arctanh(x: Expression) -> Expression:
    """Inverse hyperbolic tangent: NaN beyond 1. Max ulp 0.6."""
    size = to_double(abs(x))
    value = to_float(_log_double((1 + size) / (1 - size)) * 0.5)
    return where(abs(x) < 1e-4, x, copysign(value, x))


def power(x: Expression, y: Expression) -> Expression:
    """x^y. Max ulp 0.6."""
    size = to_double(abs(x))
    exponent_of_e = where(size == 1, 0, to_double(y) * _log_double(size))
    value = to_float(_exp_double(exponent_of_e))
    half = y * 0.5
    value = where((copysign(1, x) < 0) & (floor(half) != half) & (floor(y) == y), -value, value)
    value = where((x < 0) & (x > -INFINITY) & (floor(y) != y), NAN, value)
    value = where((x != x) | (y != y), NAN, value)
    return where((y == 0) | (x == 1), 1, value)


def logaddexp(x: Expression, y: Expression) -> Expression:
    """log(e^x + e^y)."""
    larger = where((y > x) | (y != y), y, x)
    return where(x == y, x + 0.693147182, larger + log1p(exp(-abs(x - y))))


def logaddexp2(x: Expression, y: Expression) -> Expression:
    """log2(2^x + 2^y)."""
    larger = where((y > x) | (y != y), y, x)
    return where(x == y, x + 1, larger + log1p(exp2(-abs(x - y))) * 1.44269504)
