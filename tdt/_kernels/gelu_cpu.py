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

# erfc(z) = 2 t Q(t) exp(-z²), t = 1 / (1 + z/2), relative error 5e-8 for all z up to 14, where exp(-z²) is 0 in float32:
# Q is a fit of SciPy's erfcx by weighted least squares.
Q0, Q1, Q2, Q3, Q4 = map(np.float32, (1.41042178e-01, 1.41205842e-01, 1.21419007e-01, 1.01870777e-01, -1.45618488e-02))
Q5, Q6, Q7, Q8 = map(np.float32, (1.40849275e-01, -2.45188416e-01, 1.43054958e-01, -2.96917933e-02))


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
def _distribution(x, gauss):
    """The normal distribution function; gauss: exp(-x² / 2)."""
    z = ROOT_HALF * (-x if x < ZERO else x)
    t = ONE / (ONE + HALF * z)
    q = Q4 + t * (Q5 + t * (Q6 + t * (Q7 + t * Q8)))
    tail = gauss * t * (Q0 + t * (Q1 + t * (Q2 + t * (Q3 + t * q))))
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
        ys[i] = xs[i] * _distribution(xs[i], exp32(-HALF * xs[i] * xs[i]))


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
        gauss = exp32(-HALF * v * v)
        ys[i] = gs[i] * (_distribution(v, gauss) + v * DENSITY * gauss)


@jit
def _backward_tanh(first, last, g, x, out):
    gs, xs, ys = g[first * BLOCK : last * BLOCK], x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        v = xs[i]
        s = _sigmoid(v)
        slope = ROOT_2_PI * (ONE + THREE * CUBIC * v * v)
        ys[i] = gs[i] * (s + v * s * (ONE - s) * (slope + slope))
