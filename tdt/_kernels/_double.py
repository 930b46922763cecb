"""The functions that a formula of float64 may call: the exact ones, with remainders, exp and log. NumPy computes formulas with
others.
"""

from __future__ import annotations

from tdt._kernels.expression import (
    INFINITY,
    NAN,
    Exact,
    Expression,
    abs,
    copysign,
    exponent,
    fma,
    long_polynomial,
    mantissa,
    quotient_from,
    rarely,
    remainder_from,
    rint,
    scaled,
    trunc,
    where,
)

LN2_HIGH, LN2_LOW = 0.6931471805598903, 5.497923018708371e-14  # products of the first with exponents are exact


class Double(Exact):
    """NumPy's names. `max ulp`: the largest error of a sample, against extended precision."""

    @staticmethod
    def exp(x: Expression) -> Expression:
        """e^x. Max ulp 1.1."""
        x = where(x > 710, 710, where(x < -746, -746, x))
        n = rint(x * 1.4426950408889634)
        r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
        p = long_polynomial(r, 2.511528088514304e-08, 2.763132460080828e-07, 2.7557224703585123e-06, 2.48014898005427e-05,
                            0.00019841269907601178, 0.001388888894717715, 0.00833333333331196, 0.04166666666651466,
                            0.1666666666666669, 0.5000000000000013)  # fmt: skip
        return scaled(fma(p * r, r, r) + 1, n)

    @staticmethod
    def log(x: Expression) -> Expression:
        """Natural logarithm: -inf at 0, NaN below. Max ulp 1.0. After FreeBSD's e_log.c."""
        tiny = x < 2.0**-1022
        normal = where(tiny, x * 2.0**54, x)
        e = exponent(normal)
        e = where(tiny, e - 54, e)
        f = mantissa(normal) - 1
        s = f / (2 + f)
        z = s * s
        p = long_polynomial(z, 0.06919415594910949, 0.06587111905923755, 0.07695537297176169, 0.09090833513491509,
                            0.11111112138547995, 0.14285714278000694, 0.20000000000027976, 0.333333333333333)  # fmt: skip
        half = f * f * 0.5
        rest = fma(e, LN2_LOW, s * (half + (z + z) * p))
        value = fma(e, LN2_HIGH, f - (half - rest))
        return where(x > 0, where(x >= INFINITY, x, value), where(x >= 0, -INFINITY, NAN))

    @staticmethod
    def fmod(x: Expression, y: Expression) -> Expression:
        """x - n y for the quotient n rounded towards 0, exactly: it has the sign of x. NaN for y = 0 and infinite x."""
        size, by = abs(x), abs(y)
        rest = fma(-trunc(size / by), by, size)  # the quotient may have been rounded up to an integer
        rest = where(size < by, size, where(rest < 0, rest + by, rest))
        return copysign(rarely(size > by * 2.0**52, Expression("fmod", size, by), rest), x)

    @staticmethod
    def remainder(x: Expression, y: Expression) -> Expression:
        """x - n y for the quotient n rounded down: it has the sign of y."""
        return remainder_from(Double.fmod(x, y), y)

    @staticmethod
    def floor_divide(x: Expression, y: Expression) -> Expression:
        """The quotient, rounded down as Python rounds it: from the exact remainder."""
        return quotient_from(Double.fmod(x, y), x, y)
