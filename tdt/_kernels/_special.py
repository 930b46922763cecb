"""Special functions of expressions of float32. `max ulp`: as in `_exponential`."""

from __future__ import annotations

from tdt._kernels._exponential import (
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    TO_INTEGER,
    _exp_double,
    _expm1_reduced,
    _log_double,
    _log_rest,
    _reduced,
    log,
    log1p,
)
from tdt._kernels.expression import (
    INFINITY,
    NAN,
    Expression,
    abs,
    copysign,
    exponent,
    fma,
    long_polynomial,
    mantissa,
    polynomial,
    power_of_2,
    rarely,
    scaled,
    sqrt,
    to_double,
    to_float,
    where,
)


def erf(x: Expression) -> Expression:
    """Error function. Max ulp 1.0."""
    size = where(abs(x) > 4, 4, abs(x))
    z = x * x
    u = fma(-3.88396438e-3, size, 2.42546219e-2)
    r = fma(fma(-1.72853470e-5, size, 3.83197126e-4), size * size, u)
    r = fma(fma(fma(fma(r, size, -1.06777877e-1), size, -6.34846687e-1), size, -1.28717512e-1), size, -size)
    n, rest = _reduced(r)
    power = power_of_2(n)
    far = copysign(fma(-power, _expm1_reduced(rest), 1 - power), x)
    near = fma(
        polynomial(z, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1), x, x
    )
    return where(abs(x) > 0.927734375, far, near)  # N. Juffa's minimax polynomials


def _erfc_double(x: Expression) -> Expression:
    """The complementary error function of float64 expressions, with a relative error of 2^-32, where float32 is not 0."""
    size = where(abs(x) > 10.2, 10.2, abs(x))
    first, second = size + 4, size + size + 1
    inverse = 1 / (first * second)
    q = (size - 4) * second * inverse
    p = long_polynomial(q, 7.757508308409271e-05, -0.00038212746763515934, -0.0008572349717483922, 0.005081606191579969,
                   -0.01613943443392719, 0.037169602022633405, -0.06634097703989146, 0.09373127456264817, -0.10103826255428834,
                   0.0680971774640735, 0.015379629090093267, -0.1396211189866947, 1.2329951187436934)  # fmt: skip
    value = _exp_double(-size * size) * p * (first * inverse)  # p: e^x² (2 x + 1) erfc x
    return where(x < 0, 2 - value, where(x != x, x, value))


def _reduced_square(x: Expression) -> tuple[Expression, Expression, Expression]:
    """n, r and what rounding takes from r, with -x² = n ln 2 + r, |r| ≤ ln 2 / 2."""
    square = x * x
    n = fma(square, -LOG2_E, TO_INTEGER) - TO_INTEGER
    high = fma(n, -LN2_HIGH, -square)  # exact
    rest = fma(n, -LN2_LOW, fma(-x, x, square))
    r = high + rest
    return n, r, high - r + rest


def erfc(x: Expression) -> Expression:
    """Complementary error function. Max ulp 1.6."""
    # exp(-a²) p / (2 a + 1): what rounding takes from a², p and the quotient is kept in a second number.
    size = where(abs(x) > 10.2, 10.2, abs(x))
    first, second = size + 3, fma(size, 2, 1)
    inverse = 1 / (first * second)
    u = size * (second * inverse)
    q = fma(u, 2, -1)
    slope = long_polynomial(q, -5.37261076e-04, -1.01817190e-03, 5.02481731e-03, 1.12063972e-04, -4.77082878e-02,
                            1.84298813e-01, -4.22840625e-01, 6.82133615e-01, -7.77258396e-01)  # fmt: skip
    slope = fma(q, slope, 5.06016135e-01)
    p = fma(u, slope, 1)
    p_rest = fma(u, -1.6897736e-08, fma(u, slope, 1 - p))
    inverse = first * inverse
    ratio = p * inverse
    second_rest = fma(size, 2, 1 - second)
    ratio_rest = (fma(-ratio, second, p) + fma(-ratio, second_rest, p_rest)) * inverse
    n, r, r_rest = _reduced_square(size)
    near = _expm1_reduced(r)
    value = ratio + fma(ratio, near, fma(ratio, r_rest, ratio_rest) * (1 + near))
    value = scaled(value, n)
    return where(x < 0, 2 - value, value)


def erfcx(x: Expression) -> Expression:
    """e^x² erfc(x). Max ulp 0.6."""
    wide = to_double(x)
    size = where(abs(wide) > 1e46, 1e46, abs(wide))
    first, second = size + 4, size + size + 1
    inverse = 1 / (first * second)
    p = long_polynomial(
        (size - 4) * second * inverse,
        -9.582450291226976e-06,
        -8.574156930327797e-06,
        0.00014772738217844165,
        -0.00022056626131616072,
        -0.0007551909316177096,
        0.005047424861750364,
        -0.016199013168227083,
        0.03716137032815002,
        -0.06633001659132695,
        0.09373410454696993,
        -0.10103911401794632,
        0.06809693779921729,
        0.015379654700688264,
        -0.13962111373738673,
        1.232995118601451,
    )
    value = p * (first * inverse)
    return to_float(where(wide < 0, 2 * _exp_double(size * size) - value, value))


def ndtr(x: Expression) -> Expression:
    """Distribution function of the standard normal distribution. Max ulp 0.6."""
    return to_float(_erfc_double(to_double(x) * -0.7071067811865476) * 0.5)


def log_ndtr(x: Expression) -> Expression:
    """Logarithm of `ndtr`. Max ulp 1.8."""
    wide, above = to_double(x), x > 0.5
    part = _erfc_double(where(above, wide, -wide) * 0.7071067811865476) * 0.5  # ndtr of x, or above of -x
    far = to_float(_log_double(to_double(erfcx(x * -0.707106781)) * 0.5) - wide * wide * 0.5)
    return where(above, log1p(-to_float(part)), rarely(x < -5, far, to_float(_log_double(part))))


def xlog1py(x: Expression, y: Expression) -> Expression:
    """x log(1 + y); 0 where x is 0 and y is not NaN. Max ulp 2.0."""
    return where(x == 0, where(y != y, y, 0), x * log1p(y))


def entr(x: Expression) -> Expression:
    """-x log(x); 0 at 0, -inf below."""
    return where(x > 0, -x * log(x), where(x < 0, -INFINITY, where(x != x, x, 0)))


def erfinv(x: Expression) -> Expression:
    """Inverse error function: NaN beyond 1. Max ulp 1.5."""
    # x p(w), w = -log(1 - x²): what rounding takes from w and p is kept in second numbers.
    size = abs(x)
    product = fma(-size, size, 1)
    m, e = mantissa(product) - 1, exponent(product)
    part = fma(_log_rest(m), m * m, m)
    w = -fma(e, 0.693147182, part)
    w_rest = fma(e, -0.693147182, -w) - part
    v = w - 3
    slope = long_polynomial(v, 6.25808350e-10, -7.30029370e-09, 3.63487906e-09, 4.36628511e-07, -3.08689255e-06,
                            -3.44317846e-06, 2.05462973e-04, -1.45259127e-03, -1.38042844e-03)  # fmt: skip
    slope = fma(v, slope, 2.45771691e-01)
    p = fma(w, slope, 0.88622695)  # erfinv(x) / x
    p_rest = fma(w, slope, 0.88622695 - p) + fma(w, 5.8874407e-09, fma(w_rest, 0.24, -2.6623200e-08))
    value = size * p
    near = value + fma(size, p_rest, fma(size, p, -value))
    value = rarely(v > 3.25, _erfinv_far(to_double(size)), near)
    value = where(size < 1, value, where(size == 1, INFINITY, NAN))
    return copysign(value, x)


def _erfinv_far(size: Expression) -> Expression:
    """The inverse error function of float64 expressions beyond 0.999, as float32."""
    t = sqrt(-_log_double((1 - size) * (1 + size))) - 3.25
    p = long_polynomial(t, -2.4189114282627427e-05, -0.0002491415104329708, 0.000970028681760731, -0.0017388814065243084,
                     0.0024889850025508033, -0.0037423322397333353, 0.005371104931746252, 1.0052585480581104,
                     3.0838856059837054)  # fmt: skip
    return to_float(size * p)
