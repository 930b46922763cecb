"""Hurwitz's zeta function of float32 by generated code, computed in float64 and rounded once.

The first terms are summed in vectors, the rest by the Euler-Maclaurin formula (Abramowitz, Stegun, "Handbook of Mathematical
Functions", 1964, 23.1.30), which is accurate from where the arguments exceed 9.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tdt._kernels._code import Code, Value
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._inline import functions_of, inline

LANES = 4
TERMS = 12  # that are summed one by one where q is positive
BERNOULLI = tuple(map(Fraction, ("1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510")))
FACTORS = tuple(float(b / math.factorial(2 * j)) for j, b in enumerate(BERNOULLI, 1))
NEGLIGIBLE = 1e-30  # of the sum: the rest is not computed


def _power(code: Code, a: Value, x: Value) -> Value:
    """|a|^-x."""
    double = functions_of("double")
    return inline(code, lambda a, x: double.exp(-x * double.log(a)), code.call("fabs", a), x)


def _sum(code: Code, x: Value, q: Value) -> Value:
    """The sum for x > 1; where q is negative, x is an integer."""
    below = code.select(q < 0.0, code.call("floor", q), 0.0)
    count = TERMS - code.cast(below, "i64") // LANES * LANES + LANES
    lanes, width = code.variable(f"<{LANES} x double>", 0.0), code.splat(x, LANES)
    odd = code.call("floor", x * 0.5) * 2.0 != x
    with code.loop(0, count, LANES) as k:
        a = code.splat(q, LANES) + code.cast(code.splat(k, LANES) + code.counting(LANES), "double")
        term = _power(code, a, width)
        negative = (a < 0.0) & code.splat(odd, LANES)
        lanes.set(lanes.get() + code.select(negative, 0.0 - term, term))
    total, (low, high) = code.variable("double"), code.halves(lanes.get())
    low = low + high
    total.set(code.extract(low, 0) + code.extract(low, 1))
    end = q + code.cast(count, "double")
    term = _power(code, end, x)
    with code.when(term > code.call("fabs", total.get()) * NEGLIGIBLE):
        rest = term * end / (x - 1.0) + 0.5 * term
        factor, inverse = term * x / end, 1.0 / (end * end)
        for j, number in enumerate(FACTORS):
            rest = rest + factor * number
            factor = factor * (x + (2.0 * j + 1.0)) * (x + (2.0 * j + 2.0)) * inverse
        total.set(total.get() + rest)
    return total.get()


@generalized("(),()->()", vectorize=False)
def _zeta(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    x, q = (code.cast(code.load("float", o.address), "double") for o in operands[:2])
    result = code.variable("double", code.select(x == 1.0, code.value(math.inf, "double"), math.nan))
    with code.when((x > 1.0) | (x != x)):
        down = code.call("floor", q)
        with code.when((q <= 0.0) & (down == q)):
            result.set(math.inf)
        with code.when((q > 0.0) | ((q < 0.0) & (down != q) & (code.call("floor", x) == x))):
            result.set(_sum(code, x, q))
        with code.when((x == math.inf) & (q > 0.0)):  # as PyTorch's
            result.set(code.select(q < 1.0, math.inf, code.select(q == 1.0, q, math.nan)))
        with code.when(q == math.inf):
            result.set(math.nan)
    code.store(code.cast(result.get(), "float"), operands[2].address)


def zeta(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The sum of (k + q)^-x over k = 0, 1, 2, …, of float32."""
    return _zeta("fff")(x, q)
