"""Special functions of expressions of float32. `max ulp`: as in `_exponential`."""

from __future__ import annotations

from tdt._kernels._exponential import _exp_double, _expm1_reduced, _log_double, _reduced, log, log1p
from tdt._kernels.expression import (
    INFINITY,
    Expression,
    abs,
    copysign,
    fma,
    long_polynomial,
    polynomial,
    power_of_2,
    rarely,
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


def erfc(x: Expression) -> Expression:
    """Complementary error function. Max ulp 0.6."""
    return to_float(_erfc_double(to_double(x)))


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


def xlog1py(x: Expression, y: Expression) -> Expression:
    """x log(1 + y); 0 where x is 0 and y is not NaN. Max ulp 2.0."""
    return where(x == 0, where(y != y, y, 0), x * log1p(y))


def entr(x: Expression) -> Expression:
    """-x log(x); 0 at 0, -inf below."""
    return where(x > 0, -x * log(x), where(x < 0, -INFINITY, where(x != x, x, 0)))


def erfinv(x: Expression) -> Expression:
    """Inverse error function: NaN beyond 1. Max ulp 0.8."""
    size = to_double(abs(x))
    w = -_log_double((1 - size) * (1 + size))
    v = w - 3
    near = long_polynomial(v, 1.8097226503497574e-11, 6.480928541310672e-10, -5.910858929358907e-09, -1.8843638339777956e-08,
                      4.522369827126591e-07, -1.7718203338338297e-06, -1.2723203060477685e-05, 0.00019511471131023034,
                      -0.0008361711109864333, -0.00573817909548333, 0.24163039867056887, 1.6235420122831394)  # fmt: skip
    t = sqrt(w) - 3.25
    far = long_polynomial(t, -2.4189114282627427e-05, -0.0002491415104329708, 0.000970028681760731, -0.0017388814065243084,
                     0.0024889850025508033, -0.0037423322397333353, 0.005371104931746252, 1.0052585480581104,
                     3.0838856059837054)  # fmt: skip
    value = to_float(size * rarely(w > 6.25, far, near))
    return where(abs(x) == 1, copysign(INFINITY, x), copysign(value, x))
