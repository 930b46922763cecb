"""Poisson, binomial and gamma numbers, drawn one after the other as PyTorch's CPU build draws them: by rejection, so that
how many uniforms an element takes depends on them.

Transformed rejection: W. Hörmann, The transformed rejection method for generating Poisson random variables (1993), and The
generation of binomial random variates (1993). Small means: multiplication of uniforms (Knuth) and sums of geometric numbers
(Devroye).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import chosen, kernel, many_draws
from tdt._kernels.counts_cpu import SQUEEZE, THIRD
from tdt._random._generator import Generator
from tdt._random._mersenne import MersenneTwister
from tdt._random.draws import narrow, uniform, unit64

_POISSON, _BINOMIAL = (kernel("counts_cpu:poisson", many_draws),), (kernel("counts_cpu:binomial", many_draws),)
_GAMMA, _SLOPES = (kernel("counts_cpu:gamma", many_draws),), (kernel("counts_cpu:slopes", many_draws),)


class Uniforms:
    """Iterates over 53-bit uniforms; `close` sets the generator's state as if only the used ones had been drawn."""

    def __init__(self, gen: Generator, expected: int):
        self.gen, self.start, self.block = gen, gen.state_array(), max(expected, 16)
        self.buffer: list[float] = []
        self.used = 0
        self.cached_normal = gen.engine.cached

    def __call__(self) -> float:
        if not self.buffer:
            self.buffer = uniform(self.gen, (self.block,), np.float64).tolist()[::-1]
        self.used += 1
        return self.buffer.pop()

    def normal(self) -> float:
        """A standard normal number, drawn in pairs as in `continuous.normal`."""
        if self.cached_normal is not None:
            value, self.cached_normal = self.cached_normal, None
            return value
        turn, unit = self(), self()
        radius, angle = math.sqrt(-2 * math.log1p(-unit)), 2 * math.pi * turn
        self.cached_normal = radius * math.sin(angle)
        return radius * math.cos(angle)

    def close(self) -> None:
        self.gen.set_state_array(self.start)
        uniform(self.gen, (self.used,), np.float64)
        self.gen.engine.cached = self.cached_normal


def poisson(gen: Generator, rate: Any) -> Any:
    """A Poisson number of each mean in `rate`, in its dtype. RuntimeError for a negative one."""
    if not bool((rate >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    if fast := _fast(_POISSON, gen, rate.size):
        with gen.lock:
            return narrow(fast(gen.engine.words, rate.astype(np.float64, "C")), rate.dtype)
    with gen.lock:
        draw = Uniforms(gen, 3 * rate.size)
        values = [_poisson(float(mean), draw) for mean in rate.reshape(-1).tolist()]
        draw.close()
    return _array(gen, values, rate)


def slopes(gen: Generator, x: Any, low: float, high: float) -> Any:
    """1 where x > 0, or is NaN, else a number uniform on [low, high), drawn in the order of the dimensions."""
    if x.dtype.char in "fd" and (fast := _fast(_SLOPES, gen, x.size)):
        with gen.lock:
            return fast(gen.engine.words, np.ascontiguousarray(x), low, high)
    xp, drawn = gen.engine.xp, x <= 0
    found = xp.ones_like(x, order="C")
    with gen.lock:
        numbers = unit64(gen, int(xp.count_nonzero(drawn))) * (high - low) + low
        xp.place(found, drawn, numbers.astype(x.dtype))
    return found


def gamma(gen: Generator, concentration: Any) -> Any:
    """A gamma number of each shape in `concentration`, of rate 1, in float64 (Marsaglia and Tsang, 2000)."""
    single = concentration.dtype == np.float32
    if fast := _fast(_GAMMA, gen, concentration.size):
        with gen.lock:
            cached = gen.engine.cached
            spare = np.array([cached or 0.0, cached is not None], np.float64)
            values = fast(gen.engine.words, spare, concentration.astype(np.float64, "C"), single)
            gen.engine.cached = float(spare[0]) if spare[1] else None
            return values
    with gen.lock:
        draw, rounded = Uniforms(gen, 4 * concentration.size), _to_float32 if single else float
        values = [_gamma(float(shape), draw, rounded) for shape in concentration.reshape(-1).tolist()]
        draw.close()
    return gen.engine.xp.array(values, np.float64).reshape(concentration.shape)


def binomial(gen: Generator, count: Any, prob: Any) -> Any:
    """The number of successes in `count` trials of probability `prob`, elementwise, in their dtype."""
    if fast := _fast(_BINOMIAL, gen, count.size):
        with gen.lock:
            return fast(gen.engine.words, np.ascontiguousarray(count), np.ascontiguousarray(prob), STIRLING)
    with gen.lock:
        draw = Uniforms(gen, 3 * count.size)
        rounded = _to_float32 if count.dtype == np.float32 else float
        pairs = zip(count.reshape(-1).tolist(), prob.reshape(-1).tolist(), strict=True)
        values = [_binomial(float(n), float(p), draw, rounded) for n, p in pairs]
        draw.close()
    return _array(gen, values, count)


def _fast(kernels: Any, gen: Generator, n: int) -> Any:
    """The kernel that draws as the loops here do, for many numbers of a generator of the CPU, or None."""
    return chosen(kernels, np, n=n) if isinstance(gen.engine, MersenneTwister) else None


def _to_float32(x: float) -> float:
    return float(np.float32(x))


def _array(gen: Generator, values: list[float], like: Any) -> Any:
    return narrow(gen.engine.xp.array(values, np.float64), like.dtype).reshape(like.shape)


def _poisson(mean: float, draw: Uniforms) -> float:
    if mean == 0 or mean == math.inf:
        return mean
    if mean < 10:
        bound, product, n = math.exp(-mean), draw(), 0
        while product > bound:
            product, n = product * draw(), n + 1
        return n
    root, log_mean = math.sqrt(mean), math.log(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha, v_r = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = draw() - 0.5, draw()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + mean + 0.43) if us else -1
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        log_v = (math.log(v) if v else -math.inf) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if log_v <= -mean + k * log_mean - math.lgamma(k + 1):
            return k


def _gamma(shape: float, draw: Uniforms, rounded: Callable[[float], float]) -> float:
    """rounded: as of `_binomial`."""
    if shape == 0:
        return 0.0
    boost = 1.0
    if shape < 1:  # the method needs a shape of at least 1
        boost = (1 - draw()) ** rounded(1 / shape)
        shape = rounded(shape + 1)
    d = rounded(shape - THIRD)
    c = 1 / math.sqrt(9 * d)
    while True:
        x = draw.normal()
        while 1 + c * x <= 0:
            x = draw.normal()
        y, square = 1 + c * x, x * x
        v, u = y * y * y, 1 - draw()
        if u < 1 - SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return boost * d * v


def _binomial(count: float, prob: float, draw: Uniforms, rounded: Callable[[float], float]) -> float:
    """rounded: a result as PyTorch computes it in the dtype of `count` and `prob`."""
    if count <= 0 or prob <= 0:
        return 0
    if prob >= 1:
        return count
    if prob > 0.5:
        return count - _fewer(count, rounded(1 - prob), draw, rounded)
    return _fewer(count, prob, draw, rounded) if prob <= 0.5 else math.nan


def _fewer(count: float, prob: float, draw: Uniforms, rounded: Callable[[float], float]) -> float:
    """A binomial number for a probability of at most one half; NaN for a count of NaN."""
    if count != count:
        return count
    if rounded(count * prob) >= 10:
        return _rejected(count, prob, draw, rounded)
    trials, n, log_failure = 0.0, 0, rounded(math.log1p(-prob))
    while True:
        u = draw()
        trials += math.ceil(math.log(u) / log_failure) if u else math.inf
        if trials > count:
            return n
        n += 1


def _rejected(count: float, prob: float, draw: Uniforms, rounded: Callable[[float], float]) -> float:
    mean, other = rounded(count * prob), rounded(1 - prob)
    deviation = rounded(math.sqrt(rounded(mean * other)))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c, v_r, r, more = mean + 0.5, 0.92 - 4.2 / b, rounded(prob / other), rounded(count + 1)
    alpha, m = (2.83 + 5.1 / b) * deviation, math.floor(rounded(more * prob))
    while True:
        u, v = draw() - 0.5, draw()
        us = 0.5 - abs(u)
        k = rounded(math.floor((2 * a / us + b) * u + c)) if us else -1
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or k > count or not v:
            continue
        rest, next_k = rounded(rounded(count - k) + 1), rounded(k + 1)
        bound = (
            (m + 0.5) * math.log((m + 1) / (r * (count - m + 1)))
            + more * math.log((count - m + 1) / rest)
            + (k + 0.5) * math.log(r * rest / next_k)
            + _stirling(m) + _stirling(count - m) - _stirling(k) - _stirling(rounded(count - k))
        )  # fmt: skip
        if math.log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


def _stirling(k: float) -> float:
    """The error of Stirling's formula for log k!, for k up to 9 by a table, which drops a fraction as PyTorch's does."""
    if k <= 9:
        return STIRLING[int(k)]
    square = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


STIRLING = tuple(
    math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)) for k in range(10)
)
