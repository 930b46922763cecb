"""Activations and their gradients in float32 on the CPU, each element read and written once.

A kernel is one of two loops, over (x, out) or (g, kept, out), around a function of one element; `kept` is what the rule
of the op keeps, the result or x. `p`, `q` and `r` are the op's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import numpy as np

from tdt._backend.layout import memory_order
from tdt._kernels._jit import Kernel, jit
from tdt._kernels._polynomial import exp32, expm1_32, log1p32, sigmoid32
from tdt._kernels._pool import parallel

BLOCK = 4096
GRAIN = 4  # blocks a thread should at least have: about 10 µs of work
ZERO, HALF, ONE, TWO, THREE, SIX = map(np.float32, (0, 0.5, 1, 2, 3, 6))
SIXTH = ONE / SIX
FLAT = np.float32(20)  # from here on mish is x


@jit
def sigmoid_slope(g, y, p, q, r):
    return g * ((ONE - y) * y)


@jit
def tanh_slope(g, y, p, q, r):
    return g * (ONE - y * y)


@jit
def sigmoid_value(x, p, q, r):
    return sigmoid32(x)


@jit
def silu_value(x, p, q, r):
    return x / (ONE + exp32(-x))


@jit
def silu_slope(g, x, p, q, r):
    s = sigmoid32(x)
    return g * (s * (ONE + x * (ONE - s)))


@jit
def leaky_relu_value(x, p, q, r):
    return x if x > ZERO else x * p


@jit
def leaky_relu_slope(g, x, p, q, r):
    return g if x > ZERO else g * p


@jit
def elu_value(x, p, q, r):
    return p * q * expm1_32(x * r) if x <= ZERO else x * q


@jit
def elu_slope(g, x, p, q, r):
    return g * (p * q * r * exp32(x * r)) if x <= ZERO else g * q


@jit
def mish_value(x, p, q, r):
    e = exp32(x)
    n = e * (e + TWO)
    return x if x > FLAT else x * (n / (n + TWO))


@jit
def mish_slope(g, x, p, q, r):
    y = FLAT if x > FLAT else x
    e = exp32(y)
    n = e * (e + TWO)
    t = n / (n + TWO)
    return g * (t + y * (ONE - t * t) * (e / (ONE + e)))


@jit
def hardtanh_value(x, p, q, r):
    v = p if x < p else x
    return q if v > q else v


@jit
def hardtanh_slope(g, x, p, q, r):
    v = ZERO if x <= p else g
    return ZERO if x >= q else v


@jit
def hardsigmoid_value(x, p, q, r):
    v = x + THREE
    v = ZERO if v < ZERO else v
    return (SIX if v > SIX else v) / SIX


@jit
def hardsigmoid_slope(g, x, p, q, r):
    v = g * SIXTH if x > -THREE else ZERO
    return v if x < THREE else ZERO


@jit
def hardswish_value(x, p, q, r):
    v = x + THREE
    v = ZERO if v < ZERO else v
    return x * (SIX if v > SIX else v) / SIX


@jit
def hardswish_slope(g, x, p, q, r):
    v = ZERO if x <= -THREE else g * (x / THREE + HALF)
    return v if x < THREE else g


@jit
def softplus_value(x, p, q, r):
    v = x * p
    size = -v if v < ZERO else v
    soft = (v if v > ZERO else ZERO) + log1p32(exp32(-size))
    return x if v > q else soft / p


@jit
def softplus_slope(g, x, p, q, r):
    return g if x * p > q else g * sigmoid32(x * p)


@jit
def log_sigmoid_value(x, p, q, r):
    size = -x if x < ZERO else x
    return (ZERO if x > ZERO else x) - log1p32(exp32(-size))


@jit
def log_sigmoid_slope(g, x, p, q, r):
    return g * sigmoid32(-x)


@jit
def logits_loss(x, y, p, q, r):
    size = -x if x < ZERO else x
    return x * ((ONE if x > ZERO else ZERO) - y) + log1p32(exp32(-size))


@jit
def logits_slope(x, y, p, q, r):
    return sigmoid32(x) - y


def _forward(first, last, x, out, p, q, r):
    a, b, c = np.float32(p), np.float32(q), np.float32(r)
    xs, ys = x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        ys[i] = value(xs[i], a, b, c)  # noqa: F821 - see `_elementwise`


def _backward(first, last, g, x, out, p, q, r):
    a, b, c = np.float32(p), np.float32(q), np.float32(r)
    gs, xs, ys = g[first * BLOCK : last * BLOCK], x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        ys[i] = value(gs[i], xs[i], a, b, c)  # noqa: F821


def _elementwise(loop: FunctionType, value: Kernel, settings: tuple[str, ...]) -> Callable[..., np.ndarray]:
    """`loop` around `value`, as a function of dense arrays with equal strides and of the op's settings."""
    function = FunctionType(loop.__code__, {**globals(), "value": value}, loop.__name__)
    function.__qualname__ = value.name  # also the name of the compiled kernel in the cache
    kernel = jit(function)

    def call(*arrays: np.ndarray, **attributes: float) -> np.ndarray:
        out = np.empty_like(arrays[0])
        numbers = [float(attributes[name]) for name in settings] + [0.0] * (3 - len(settings))
        parallel(kernel, -(-out.size // BLOCK), *map(memory_order, (*arrays, out)), *numbers, grain=GRAIN)
        return out

    return call


def _pair(value: Kernel, slope: Kernel, *settings: str) -> tuple[Callable[..., np.ndarray], ...]:
    """An activation and its gradient."""
    return _elementwise(_forward, value, settings), _elementwise(_backward, slope, settings)


sigmoid, sigmoid_vjp = _pair(sigmoid_value, sigmoid_slope)
tanh_vjp = _elementwise(_backward, tanh_slope, ())  # NumPy's tanh is faster
silu, silu_vjp = _pair(silu_value, silu_slope)
leaky_relu, leaky_relu_vjp = _pair(leaky_relu_value, leaky_relu_slope, "slope")
elu, elu_vjp = _pair(elu_value, elu_slope, "alpha", "scale", "input_scale")
mish, mish_vjp = _pair(mish_value, mish_slope)
# Binary cross-entropy with logits: its losses and their slopes, of logits and targets.
logits_losses, logits_slopes = _elementwise(_backward, logits_loss, ()), _elementwise(_backward, logits_slope, ())
softplus, softplus_vjp = _pair(softplus_value, softplus_slope, "beta", "threshold")
log_sigmoid, log_sigmoid_vjp = _pair(log_sigmoid_value, log_sigmoid_slope)
hardtanh, hardtanh_vjp = _pair(hardtanh_value, hardtanh_slope, "low", "high")
hardsigmoid, hardsigmoid_vjp = _pair(hardsigmoid_value, hardsigmoid_slope)
hardswish, hardswish_vjp = _pair(hardswish_value, hardswish_slope)
