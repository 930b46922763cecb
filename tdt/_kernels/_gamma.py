"""The logarithm of the gamma function and its derivatives, of expressions of float32. `max ulp`: as in `_exponential`.

Computed in float64 and rounded once: by Stirling's series where the argument is large, below by the recurrence, all of whose
steps are one quotient of polynomials, and left of ½ by reflection.
"""

from __future__ import annotations

from tdt._kernels._double import Double
from tdt._kernels.expression import (
    INFINITY,
    NAN,
    Expression,
    abs,
    as_expression,
    copysign,
    long_polynomial,
    rint,
    to_double,
    to_float,
    where,
)

STEPS = 8  # of the recurrence: Stirling's series is used from 8 on
PI = 3.141592653589793
# log Γ(y) / ((y - 1) (y - 2)) of (y - 1.75) / 0.75, with a relative error of 3e-11.
NEAR = (4.3128332331658393e-07, -1.0205575545149376e-06, 9.162297286348161e-07, -2.4786371307997855e-06,
        8.72939834646748e-06, -2.194246583238719e-05, 5.437270994892581e-05, -0.00014127988659061772,
        0.00037300669425208795, -0.0010029578534219191, 0.0027768925042263486, -0.008038382595021465,
        0.025042751836746, -0.08961119012823592, 0.4501393121069835)  # fmt: skip
# sin(πr) / r and cos(πr) / (1 - 4r²) of 8r² - 1 for |r| ≤ ½, with relative errors of 1e-15 and 1e-14.
SINE = (-1.0053681732916027e-11, 1.7070555333118569e-09, -2.144717314100149e-07, 1.8956829141543726e-05,
        -0.001092432005474602, 0.0364531055971011, -0.5697036803076361, 2.5343242626615994)  # fmt: skip
COSINE = (9.527331132701866e-11, -1.394273305887698e-08, 1.4749240070818928e-06, -0.00010577433690186449,
          0.004665926027017546, -0.10719513002163315, 0.8880316806524265)  # fmt: skip
# Bernoulli numbers, over what Stirling's series of each function divides them by, from the highest power of 1/y².
LOG_SERIES = (0.0064102564102564, -0.0019175269175269, 0.00084175084175084, -0.00059523809523809, 0.00079365079365079,
              -0.0027777777777778, 0.0833333333333333)  # fmt: skip
PSI_SERIES = (-0.0210927960927961, 0.00757575757575758, -0.00416666666666667, 0.00396825396825397, -0.00833333333333333,
              0.0833333333333333)  # fmt: skip
TRIGAMMA_SERIES = (-0.2531135531135531, 0.0757575757575758, -0.0333333333333333, 0.0238095238095238, -0.0333333333333333,
                   0.1666666666666667)  # fmt: skip


def _reflected(x: Expression) -> tuple[Expression, Expression, Expression, Expression]:
    """x as float64; y = x, or 1 - x left of ½; the rest r of x beyond the nearest integer; sin(πr)."""
    wide = to_double(x)
    rest = wide - rint(wide)
    return wide, where(wide < 0.5, 1 - wide, wide), rest, rest * long_polynomial(8 * rest * rest - 1, *SINE)


def _shifted(y: Expression, second: bool) -> tuple[Expression, Expression, Expression]:
    """y + STEPS where y is less than that, and P'/P and P''/P of P = y (y + 1) …, 0 elsewhere."""
    small = y < STEPS
    start = where(small, y, 1)
    product, first, last = start * (start + 1), start + (start + 1), as_expression(2)
    for k in range(2, STEPS):
        factor = start + k
        last = last * factor + 2 * first if second else last
        first = first * factor + product
        product = product * factor
    inverse = 1 / product
    return where(small, y + STEPS, y), where(small, first * inverse, 0), where(small, last * inverse, 0)


def digamma(x: Expression) -> Expression:
    """Derivative of log Γ(x): infinite at 0, NaN at negative integers. Max ulp 0.6, except near its negative zeros."""
    wide, y, rest, sine = _reflected(x)
    far, slope, _ = _shifted(y, second=False)
    inverse = 1 / far
    square = inverse * inverse
    value = Double.log(far) - 0.5 * inverse - square * long_polynomial(square, *PSI_SERIES) - slope
    cosine = long_polynomial(8 * rest * rest - 1, *COSINE) * (1 - 4 * rest * rest)
    value = where(wide < 0.5, value - PI * cosine / sine, value)
    value = where((wide < 0) & (rest == 0), NAN, value)
    value = where(wide >= INFINITY, wide, value)
    return where(x == 0, copysign(INFINITY, -x), to_float(value))


def trigamma(x: Expression) -> Expression:
    """Second derivative of log Γ(x). Max ulp 0.6."""
    wide, y, _, sine = _reflected(x)
    far, slope, curve = _shifted(y, second=True)
    inverse = 1 / far
    square = inverse * inverse
    value = inverse + 0.5 * square + square * inverse * long_polynomial(square, *TRIGAMMA_SERIES)
    value = value + (slope * slope - curve)
    return to_float(where(wide < 0.5, PI * PI / (sine * sine) - value, value))


def lgamma(x: Expression) -> Expression:
    """log |Γ(x)|: infinite at 0 and negative integers. Max ulp 0.7, except near its negative zeros."""
    wide, y, _, sine = _reflected(x)
    left = y < 1
    middle = where(left, y + 1, where(y > 2.5, 2.5, y))
    near = (middle - 1) * (middle - 2) * long_polynomial((middle - 1.75) * (1 / 0.75), *NEAR)
    small = y < STEPS
    start = where(small, y, 1)
    product = start
    for k in range(1, STEPS):
        product = product * (start + k)
    far = where(small, y + STEPS, y)
    inverse = 1 / far
    series = inverse * long_polynomial(inverse * inverse, *LOG_SERIES)
    log = Double.log(far)
    value = (far - 0.5) * log - far + 0.9189385332046728 + series
    value = where(y <= 2.5, near + 0, value)  # -0 becomes 0
    # What Γ(y) is divided by, of which one logarithm is computed, also where it is reflected.
    factor = where(y <= 2.5, where(left, y, 1), where(small, product, 1))
    turned = wide < 0.5
    log = Double.log(where(turned, factor / (abs(sine) * (1 / PI)), factor))
    value = where(turned, log - value, value - log)
    return to_float(where(abs(wide) >= INFINITY, INFINITY, value))
