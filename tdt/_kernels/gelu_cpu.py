"""GELU and its gradient in float32 on the CPU, both forms, each element read and written once."""

from __future__ import annotations

import math

import numpy as np

from tdt._kernels._jit import jit
from tdt._kernels._polynomial import exp32
from tdt._kernels._pool import parallel

BLOCK = 4096
GRAIN = 4  # blocks a thread should at least have: about 10 µs of work, the price of waking it

# Plain floats become double precision in a kernel, which would halve the speed.
ZERO, HALF, ONE, THREE = np.float32(0), np.float32(0.5), np.float32(1), np.float32(3)
ROOT_HALF, DENSITY = np.float32(math.sqrt(0.5)), np.float32(1 / math.sqrt(2 * math.pi))
ROOT_2_PI, CUBIC = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)

# erfc(z) = t exp(-z² + P(t)), t = 1 / (1 + z/2), relative error 1.2e-7 for all z ≥ 0: W. H. Press et al., Numerical
# Recipes, section 6.2 (a Chebyshev fit).
E0, E1, E2, E3, E4 = map(np.float32, (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806))
E5, E6, E7, E8, E9 = map(np.float32, (0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277))


def gelu(x: np.ndarray, *, approximate: str) -> np.ndarray:
    """`x` times the normal distribution function, or with approximate="tanh" Hendrycks and Gimpel's formula."""
    out = np.empty_like(x)
    blocks = -(-x.size // BLOCK)
    parallel(_forward_tanh if approximate == "tanh" else _forward, blocks, x.reshape(-1), out.reshape(-1), grain=GRAIN)
    return out


def gelu_vjp(g: np.ndarray, x: np.ndarray, *, approximate: str) -> np.ndarray:
    """The gradient of a loss in `x`, from `g`, that in GELU's result."""
    out = np.empty_like(x)
    blocks = -(-x.size // BLOCK)
    kernel = _backward_tanh if approximate == "tanh" else _backward
    parallel(kernel, blocks, g.reshape(-1), x.reshape(-1), out.reshape(-1), grain=GRAIN)
    return out


@jit
def _distribution(x):
    """The normal distribution function."""
    z = ROOT_HALF * (-x if x < ZERO else x)
    t = ONE / (ONE + HALF * z)
    p = E5 + t * (E6 + t * (E7 + t * (E8 + t * E9)))
    p = E0 + t * (E1 + t * (E2 + t * (E3 + t * (E4 + t * p))))
    tail = HALF * t * exp32(p - z * z)
    positive = x > ZERO
    return (ONE if positive else ZERO) + (-tail if positive else tail)


@jit
def _sigmoid(x):
    """(1 + tanh u) / 2 for the argument u of the tanh form."""
    u = ROOT_2_PI * (x + CUBIC * x * x * x)
    return ONE / (ONE + exp32(-u - u))


@jit
def _forward(first, last, x, out):
    xs, ys = x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        ys[i] = xs[i] * _distribution(xs[i])


@jit
def _forward_tanh(first, last, x, out):
    xs, ys = x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        ys[i] = xs[i] * _sigmoid(xs[i])


@jit
def _backward(first, last, g, x, out):
    gs, xs, ys = g[first * BLOCK : last * BLOCK], x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        v = xs[i]
        ys[i] = gs[i] * (_distribution(v) + v * DENSITY * exp32(-HALF * v * v))


@jit
def _backward_tanh(first, last, g, x, out):
    gs, xs, ys = g[first * BLOCK : last * BLOCK], x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        v = xs[i]
        s = _sigmoid(v)
        slope = ROOT_2_PI * (ONE + THREE * CUBIC * v * v)
        ys[i] = gs[i] * (s + v * s * (ONE - s) * (slope + slope))
