"""Poisson, binomial and gamma numbers, and RReLU's slopes, by generated code: the loops of `tdt/_random`, from the same words.

How many words an element takes depends on them, so they are drawn one at a time from the generator's state.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels.mersenne_cpu import KINDS, SIZE, blocks_of_normals, draws, integers_of, renew, tempered

THIRD, SQUEEZE = float(np.float32(1) / np.float32(3)), float(np.float32(0.0331))  # PyTorch has them in float32
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


def _normal(code: Code, spare: Value, draw: Draw, x: Variable) -> None:
    """A standard normal number. spare: the second one of a pair and, unless it is used up, 1."""

    def second() -> None:
        x.set(code.load("double", spare, 0))
        code.store(code.value(0.0, "double"), spare, 1)

    def pair() -> None:
        turn, unit = draw(), draw()
        radius = code.call("sqrt", -2.0 * code.function("log1p", "double", 0.0 - unit))
        angle = 2 * math.pi * turn
        x.set(radius * code.function("cos", "double", angle))
        code.store(radius * code.function("sin", "double", angle), spare, 0)
        code.store(code.value(1.0, "double"), spare, 1)

    code.choose(code.load("double", spare, 1) != 0.0, second, pair)


def _by_rejection(code: Code, scale: Value, d: Value, spare: Value, draw: Draw, result: Variable) -> None:
    c = 1.0 / code.call("sqrt", 9.0 * d)
    x, y, done = code.variable("double"), code.variable("double"), code.variable("i8", 0)
    with code.forever() as leave:
        with code.forever() as positive:
            _normal(code, spare, draw, x)
            y.set(1.0 + c * x.get())
            positive((y.get() > 0.0) | (y.get() != y.get()))
        v, square = y.get() * y.get() * y.get(), x.get() * x.get()
        u = 1.0 - draw()
        result.set(scale * d * v)
        leave(u < 1.0 - SQUEEZE * square * square)
        bound = 0.5 * square + d * (1.0 - v + _log(code, v))
        done.set(code.cast(_log(code, u) < bound, "i8", signed=False))
        leave(done.get() != 0)


@native("ppppq")
def _gamma(code: Code, first: Value, last: Value, arguments: list[Value], single: bool) -> None:
    """state, the spare normal number (see `_normal`), shapes in float64, out, n."""
    state, spare, shapes, out, n = arguments
    draw = _uniforms(code, state)

    def rounded(x: Value) -> Value:
        return code.cast(code.cast(x, "float"), "double") if single else x

    with code.loop(0, n) as i:
        shape = code.load("double", shapes, i)
        result, scale = code.variable("double", 0.0), code.variable("double", 1.0)
        with code.when(shape != 0.0):
            with code.when(shape < 1.0):
                scale.set(code.function("pow", "double", 1.0 - draw(), rounded(1.0 / shape)))
            above = code.select(shape < 1.0, rounded(shape + 1.0), shape)
            _by_rejection(code, scale.get(), rounded(above - THIRD), spare, draw, result)
        code.store(result.get(), out, i)


@native("pppqdd")
def _normals(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """state, the spare normal number (see `_normal`), out, n, mean, std."""
    state, spare, out, n, mean, std = arguments
    draw, x = _uniforms(code, state), code.variable("double")
    with code.loop(0, n) as i:
        _normal(code, spare, draw, x)
        code.store(code.cast(code.call("fma", x.get(), std, mean), kind), out, i)


@native("ppppqqq")
def _choices(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """state, weights, edges, out, rows, categories, count. The code fails, before it draws, at weights that have no meaning."""
    state, weights, edges, out, rows, categories, count = arguments
    with code.loop(0, rows) as r:
        begin, total, valid = r * categories, code.variable(kind, 0.0), code.variable("i1", 1)
        with code.loop(0, categories) as c:
            weight = code.load(kind, weights, begin + c)
            total.add(weight)
            valid.set(valid.get() & (weight >= 0.0))
            code.store(total.get(), edges, begin + c)
        with code.when((total.get() > 0.0) & (total.get() < math.inf) & valid.get() == 0):
            code.fail()
        with code.loop(0, categories) as c:
            code.store(code.load(kind, edges, begin + c) / total.get(), edges, begin + c)
    draw = _uniforms(code, state)
    with code.loop(0, rows) as r, code.loop(0, count) as k:
        unit, low, high = draw(), code.variable("i64", 0), code.variable("i64", categories)
        with code.forever() as leave:  # the first edge that is not below the number
            leave(low.get() >= high.get())
            middle = (low.get() + high.get()) >> 1
            below = code.cast(code.load(kind, edges, r * categories + middle), "double") < unit
            high.set(code.select(below, high.get(), middle))
            low.set(code.select(below, middle + 1, low.get()))
        code.store(low.get(), out, r * count + k)


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


def gamma(state: np.ndarray, spare: np.ndarray, shapes: np.ndarray, single: bool) -> np.ndarray:
    """A gamma number of each shape, a contiguous array of float64, and of rate 1.

    Args:
        spare: the second one of a pair of normal numbers, or any number, and 1.0 if it is to be used; both change.
        single: compute what PyTorch computes in float32 for shapes of that type.
    """
    out = np.empty_like(shapes)
    _gamma(single)(0, 1, state, spare, shapes, out, shapes.size)
    return out


def filler(
    how: str, kind: np.dtype, n: int, numbers: tuple[float, ...], wide: bool
) -> tuple[Callable[..., None], bool] | None:
    """What fills contiguous arrays of a type with `n` numbers; None for types that no kernel draws.

    Args:
        how: "uniform" numbers, between two; "integers", as `mersenne_cpu.integers_of` says; "bernoulli", 1 with a probability,
            else 0; "exponential" numbers of a rate; "normal" ones, of a mean and deviation: 16 or more as
            `mersenne_cpu.blocks_of_normals` says, fewer, or "pairs", each computed in float64.
        wide: of integers, whether each takes two words.
    Returns: a function of the state and the array; or, with True, of the state, `spare` as in `gamma`, and the array.
    """
    letter = KINDS.get(kind.str[1:])
    if letter is None:
        return None
    if how == "integers":
        low, high = numbers
        return None if high - low >= 1 << 63 else (integers_of(wide, letter).with_last(1, n, high - low, low), False)
    if how == "bernoulli":
        return draws("below", letter).with_last(1, n, 0.0, 0.0, math.ceil(numbers[0] * 2.0**53)), False
    if kind.char not in "fd":
        return None
    if how == "exponential":
        return draws(how, letter).with_last(1, n, -1.0 / numbers[0], 0.0, 0), False
    if how == "uniform":
        return draws("unit32" if kind.char == "f" else "unit64").with_last(1, n, *map(float, numbers), 0), False
    if how == "pairs" or n < 16:
        return _normals(letter).with_last(1, n, *map(float, numbers)), True
    return blocks_of_normals(letter).with_last(1, n, *map(float, numbers)), False


def prepared_choices(
    kind: np.dtype, shape: tuple[int, ...], count: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray | None]:
    """A function of a generator's state and of weights of a shape, of float32 or float64, that draws `count` places in each row.

    A place is the first at which the sum of weights so far, of their total, is not below a uniform number of 53 bits. None, with
    nothing drawn, for weights that are not finite, negative, or all zero.
    """
    categories, of_result = shape[-1], (*shape[:-1], count)
    rows, code = math.prod(shape[:-1]), _choices("float" if kind.itemsize == 4 else "double")

    def choices(state: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        if not weights.flags.c_contiguous:
            weights = np.ascontiguousarray(weights)
        edges, out = np.empty(shape, kind), np.empty(of_result, np.int64)
        return out if code(0, 1, state, weights, edges, out, rows, categories, count) else None

    return choices


def binomial(state: np.ndarray, counts: np.ndarray, probabilities: np.ndarray, tails: Sequence[float]) -> np.ndarray:
    """The number of successes of each count of trials and probability, contiguous arrays of float32 or float64.

    Of float32, PyTorch computes a part in that type.
    """
    out = np.empty_like(counts)
    _binomial(counts.dtype == np.float32)(0, 1, state, counts, probabilities, np.array(tails), out, counts.size)
    return out
