"""Trigonometric functions and their inverses, of expressions of float32. `max ulp`: as in `_exponential`."""

from __future__ import annotations

from tdt._kernels._angles import SMALLEST
from tdt._kernels.expression import (
    INFINITY,
    NAN,
    Expression,
    abs,
    copysign,
    fma,
    half_is_odd,
    is_odd,
    polynomial,
    rarely,
    rint,
    sqrt,
    where,
)

TWO_OVER_PI, HALF_PI, HALF_PI_REST = 0.636619747, 1.57079637, (-4.37113883e-8, -1.71512489e-15)
PI, PI_REST = 3.14159274, -8.74227766e-8
TINY = 3e-4  # below, sin x, tan x, asin x and atan x are x


def _reduced(x: Expression) -> tuple[Expression, Expression, Expression]:
    """n, r and s with x = n π/2 + r + s, |r| ≤ π/4, |s| an ulp of r or less; for |x| < SMALLEST (W. J. Cody, W. Waite)."""
    n = rint(x * TWO_OVER_PI)
    first = fma(n, -HALF_PI, x)  # exact
    product = n * HALF_PI_REST[0]
    r = first - product
    lost = (first - r - product) - fma(n, HALF_PI_REST[0], -product)
    return n, r, fma(n, -HALF_PI_REST[1], lost)


def _reduced_large(x: Expression) -> tuple[Expression, Expression, Expression]:
    """The same for |x| ≥ SMALLEST, modulo 4 quarters."""
    size = where(abs(x) > SMALLEST, abs(x), SMALLEST)
    n, r, s = (Expression(f"angle_{part}", size) for part in ("quarter", "high", "low"))
    below = x < 0
    return where(below, -n, n), where(below, -r, r), where(below, -s, s)


def _sine(r: Expression, s: Expression) -> Expression:
    z = r * r
    return fma(z * r, polynomial(z, -0.000195180241, 0.00833218824, -0.166666552), s) + r


def _cosine(r: Expression, s: Expression) -> Expression:
    z = r * r
    half = fma(z, -0.5, 1)
    lost = fma(z, -0.5, 1 - half)  # by rounding
    rest = fma(z * z, polynomial(z, 2.44306684e-05, -0.00138873013, 0.0416666456), lost)
    return half + fma(-r, s, rest)


def _tangent(r: Expression, s: Expression) -> tuple[Expression, Expression]:
    """The tangent, and what it lost by rounding."""
    z = r * r
    p = polynomial(z, 0.00443698931, -3.713154e-05, 0.010939152, 0.0212406982, 0.0540683456, 0.133325845, 0.333333522)
    rest = fma(z * r, p, s)
    value = r + rest
    return value, rest - (value - r)


def _sin_of(n: Expression, r: Expression, s: Expression) -> Expression:
    value = where(is_odd(n), _cosine(r, s), _sine(r, s))
    return where(half_is_odd(n), -value, value)


def _cos_of(n: Expression, r: Expression, s: Expression) -> Expression:
    value = where(is_odd(n), _sine(r, s), _cosine(r, s))
    return where(half_is_odd(n + 1), -value, value)


def _tan_of(n: Expression, r: Expression, s: Expression) -> Expression:
    value, lost = _tangent(r, s)
    inverse = -1 / value
    inverse = fma(inverse, fma(inverse, lost, fma(inverse, value, 1)), inverse)
    return where(is_odd(n), inverse, value)


def sin_of_small(x: Expression) -> Expression:
    """`sin`, for |x| < SMALLEST."""
    return where(abs(x) < TINY, x, _sin_of(*_reduced(x)))


def cos_of_small(x: Expression) -> Expression:
    """`cos`, for |x| < SMALLEST."""
    return _cos_of(*_reduced(x))


def sin(x: Expression) -> Expression:
    """Sine. Max ulp 1.0."""
    value = rarely(abs(x) > SMALLEST, _sin_of(*_reduced_large(x)), _sin_of(*_reduced(x)))
    return where(abs(x) < TINY, x, where(abs(x) >= INFINITY, NAN, value))


def cos(x: Expression) -> Expression:
    """Cosine. Max ulp 1.0."""
    value = rarely(abs(x) > SMALLEST, _cos_of(*_reduced_large(x)), _cos_of(*_reduced(x)))
    return where(abs(x) >= INFINITY, NAN, value)


def tan(x: Expression) -> Expression:
    """Tangent. Max ulp 1.2."""
    value = rarely(abs(x) > SMALLEST, _tan_of(*_reduced_large(x)), _tan_of(*_reduced(x)))
    return where(abs(x) < TINY, x, where(abs(x) >= INFINITY, NAN, value))


def _arcsin_rest(z: Expression) -> Expression:
    """(arcsin(√z) / √z - 1) / z for z ≤ 1/4."""
    return polynomial(z, 0.0422117822, 0.0241520964, 0.0454760417, 0.0749525204, 0.166667536)


def _half_angle(size: Expression) -> tuple[Expression, Expression]:
    """arccos(size) / 2 for size from 1/2 to 1, as a sum: the square root of (1 - size) / 2 is its sine."""
    z = fma(size, -0.5, 0.5)
    root = sqrt(z)
    lost = where(root > 0, fma(-root, root, z) / (root + root), 0)
    return root, fma(root * z, _arcsin_rest(z), lost)


def arcsin(x: Expression) -> Expression:
    """Inverse sine: NaN beyond 1. Max ulp 1.2."""
    size = abs(x)
    z = x * x
    near = fma(size * z, _arcsin_rest(z), size)
    high, low = _half_angle(size)
    far = HALF_PI + fma(high, -2, fma(low, -2, HALF_PI_REST[0]))
    return copysign(where(size > 0.5, far, near), x)


def arccos(x: Expression) -> Expression:
    """Inverse cosine: NaN beyond 1. Max ulp 1.0."""
    size = abs(x)
    z = x * x
    near = HALF_PI - (x + fma(x * z, _arcsin_rest(z), -HALF_PI_REST[0]))
    high, low = _half_angle(size)
    high, low = high + high, low + low
    far = where(x < 0, PI - (high + (low - PI_REST)), high + low)
    return where(size > 0.5, far, near)


def _arctan_rest(z: Expression) -> Expression:
    """(arctan(√z) / √z - 1) / z for z ≤ 1."""
    return polynomial(z, -0.00182261865, 0.0110442899, -0.0314190388, 0.0581987798, -0.0841743946, 0.109569125, -0.142651245,
                      0.199986279, -0.333333015)  # fmt: skip


def arctan(x: Expression) -> Expression:
    """Inverse tangent. Max ulp 1.2."""
    size = abs(x)
    large = size > 1
    t = where(large, 1 / size, size)
    z = t * t
    rest = t * z * _arctan_rest(z)
    return copysign(where(large, HALF_PI - (t + (rest - HALF_PI_REST[0])), t + rest), x)


def arctan2(y: Expression, x: Expression) -> Expression:
    """The angle of the point (x, y), from -π to π. Max ulp 1.5."""
    a, b = abs(y), abs(x)
    steep = a > b
    high, low = where(steep, a, b), where(steep, b, a)
    t = where(high == low, where(high > 0, 1, 0), low / high)  # of two zeros 0, of two infinities 1
    z = t * t
    rest = t * z * _arctan_rest(z)
    below = copysign(1, x) < 0
    # From 0, π/2 or π, upwards or downwards.
    start = where(steep, HALF_PI, where(below, PI, 0))
    start_rest = where(steep, HALF_PI_REST[0], where(below, PI_REST, 0))
    minus = where(steep, ~below, below)
    t, rest = where(minus, -t, t), where(minus, -rest, rest)
    value = copysign(start + (t + (rest + start_rest)), y)
    return where((x != x) | (y != y), NAN, value)
