"""Poisson and binomial numbers, and RReLU's slopes, by generated code: the portable loops of `tdt/_random`, from the same words.

How many words an element takes depends on them, so they are drawn one at a time from the generator's state.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels.mersenne_cpu import SIZE, renew, tempered

Draw = Callable[[], Value]
Rounded = Callable[[Value], Value]  # a result of PyTorch's in float32, where counts and probabilities are


def _uniforms(code: Code, state: Value) -> Draw:
    """A function that writes code for the next uniform number of 53 bits."""
    renewed = code.define("renewed", ["ptr"], renew)

    def word() -> Value:
        place = code.variable("i32", code.load("i32", state, SIZE))
        with code.when(place.get() == SIZE):
            renewed(state)
            place.set(0)
        code.store(place.get() + 1, state, SIZE)
        return code.cast(tempered(code.load("i32", state, code.cast(place.get(), "i64"))), "i64", signed=False)

    def draw() -> Value:
        high = word()
        return code.cast(((high << 32) | word()) & (2**53 - 1), "double") * 2.0**-53

    return draw


def _log(code: Code, x: Value) -> Value:
    return code.function("log", "double", x)


def _few_poisson(code: Code, mean: Value, draw: Draw, result: Variable) -> None:
    bound, product = code.function("exp", "double", 0.0 - mean), code.variable("double")
    product.set(draw())
    result.set(0.0)
    with code.forever() as leave:
        leave(product.get() <= bound)
        product.set(product.get() * draw())
        result.add(1.0)


def _many_poisson(code: Code, mean: Value, draw: Draw, result: Variable) -> None:
    root, log_mean = code.call("sqrt", mean), _log(code, mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha, v_r = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)
    done = code.variable("i8", 0)
    with code.forever() as leave:
        u = draw() - 0.5
        v = draw()
        us = 0.5 - code.call("fabs", u)
        k = code.select(us != 0.0, code.call("floor", (2.0 * a / us + b) * u + mean + 0.43), -1.0)
        result.set(k)
        leave((us >= 0.07) & (v <= v_r))
        with code.when((k >= 0.0) & ((us >= 0.013) | (v <= us))):
            log_v = _log(code, v) + _log(code, inverse_alpha) - _log(code, a / (us * us) + b)
            bound = k * log_mean - mean - code.function("lgamma", "double", k + 1.0)
            done.set(code.cast(log_v <= bound, "i8", signed=False))
        leave(done.get() != 0)


@native("pppq")
def _poisson(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """state, means, out, n."""
    state, means, out, n = arguments
    draw = _uniforms(code, state)
    with code.loop(0, n) as i:
        mean = code.load("double", means, i)
        result = code.variable("double")
        result.set(mean)
        with code.when((mean > 0.0) & (mean < math.inf)):
            few = functools.partial(_few_poisson, code, mean, draw, result)
            code.choose(mean < 10.0, few, functools.partial(_many_poisson, code, mean, draw, result))
        code.store(result.get(), out, i)


def _few_binomial(code: Code, count: Value, prob: Value, rounded: Rounded, draw: Draw, result: Variable) -> None:
    trials, log_failure = code.variable("double", 0.0), rounded(code.function("log1p", "double", 0.0 - prob))
    result.set(0.0)
    with code.forever() as leave:
        u = draw()
        steps = code.call("ceil", _log(code, u) / log_failure)
        trials.add(code.select(u != 0.0, steps, math.inf))
        leave(trials.get() > count)
        result.add(1.0)


def _many_binomial(
    code: Code, count: Value, prob: Value, rounded: Rounded, draw: Draw, tails: Value, result: Variable
) -> None:
    mean, other = rounded(count * prob), rounded(1.0 - prob)
    deviation = rounded(code.call("sqrt", rounded(mean * other)))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c, v_r, r = mean + 0.5, 0.92 - 4.2 / b, rounded(prob / other)
    more = rounded(count + 1.0)
    alpha, m = (2.83 + 5.1 / b) * deviation, code.call("floor", rounded(more * prob))
    done = code.variable("i8", 0)

    def tail(k: Value) -> Value:
        """The error of Stirling's formula for log k!."""
        value = code.variable("double")
        square = (k + 1.0) * (k + 1.0)
        value.set((1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1.0))
        with code.when(k <= 9.0):
            value.set(code.load("double", tails, code.cast(k, "i64")))
        return value.get()

    with code.forever() as leave:
        u = draw() - 0.5
        v = draw()
        us = 0.5 - code.call("fabs", u)
        k = rounded(code.select(us != 0.0, code.call("floor", (2.0 * a / us + b) * u + c), -1.0))
        result.set(k)
        leave((us >= 0.07) & (v <= v_r))
        with code.when((k >= 0.0) & (k <= count) & (v != 0.0)):
            rest, next_k = rounded(rounded(count - k) + 1.0), rounded(k + 1.0)
            bound = (
                (m + 0.5) * _log(code, (m + 1.0) / (r * (count - m + 1.0)))
                + more * _log(code, (count - m + 1.0) / rest)
                + (k + 0.5) * _log(code, r * rest / next_k)
                + tail(m) + tail(count - m) - tail(k) - tail(rounded(count - k))
            )  # fmt: skip
            done.set(code.cast(_log(code, v * alpha / (a / (us * us) + b)) <= bound, "i8", signed=False))
        leave(done.get() != 0)


@native("pppppq")
def _binomial(code: Code, first: Value, last: Value, arguments: list[Value], single: bool) -> None:
    """state, counts, probabilities, the errors of Stirling's formula up to 9, out, n."""
    state, counts, probabilities, tails, out, n = arguments
    draw, kind = _uniforms(code, state), "float" if single else "double"

    def rounded(x: Value) -> Value:
        return code.cast(code.cast(x, "float"), "double") if single else x

    with code.loop(0, n) as i:
        count, prob = (code.cast(code.load(kind, a, i), "double") for a in (counts, probabilities))
        result = code.variable("double")
        result.set(code.select(prob >= 1.0, count, count * prob))  # which is NaN if one is
        none = (count <= 0.0) | (prob <= 0.0)
        with code.when(none):
            result.set(0.0)
        with code.when((count > 0.0) & (prob > 0.0) & (prob < 1.0)):
            rare = code.select(prob > 0.5, rounded(1.0 - prob), prob)
            many = functools.partial(_many_binomial, code, count, rare, rounded, draw, tails, result)
            few = functools.partial(_few_binomial, code, count, rare, rounded, draw, result)
            code.choose(rounded(count * rare) >= 10.0, many, few)
            with code.when(prob > 0.5):
                result.set(count - result.get())
        code.store(code.cast(result.get(), kind), out, i)


@native("pppqdd")
def _slopes(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """state, x, out, n, bounds."""
    state, x, out, n, low, high = arguments
    draw, span = _uniforms(code, state), high - low
    with code.loop(0, n) as i:
        result = code.variable("double", 1.0)
        with code.when(code.load(kind, x, i) <= 0.0):
            result.set(draw() * span + low)
        code.store(code.cast(result.get(), kind), out, i)


def slopes(state: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 where the contiguous x, of float32 or float64, is above 0, or NaN, else a number uniform on [low, high)."""
    out = np.empty_like(x)
    _slopes("float" if x.dtype == np.float32 else "double").run(1, (state, x, out), x.size, low, high)
    return out


def poisson(state: np.ndarray, means: np.ndarray) -> np.ndarray:
    """A Poisson number of each mean, a contiguous array of float64. state: as in `mersenne_cpu.draw`; it moves on."""
    out = np.empty_like(means)
    _poisson()(0, 1, state, means, out, means.size)
    return out


def binomial(state: np.ndarray, counts: np.ndarray, probabilities: np.ndarray, tails: Sequence[float]) -> np.ndarray:
    """The number of successes of each count of trials and probability, contiguous arrays of float32 or float64.

    Of float32, PyTorch computes a part in that type.
    """
    out = np.empty_like(counts)
    _binomial(counts.dtype == np.float32)(0, 1, state, counts, probabilities, np.array(tails), out, counts.size)
    return out
