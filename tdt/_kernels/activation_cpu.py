"""Activations and their gradients in float32 on the CPU, each element read and written once.

A kernel is one of two loops, over (x, out) or (g, kept, out), around a function of one element; `kept` is what the rule
of the op keeps, the result or x. `p` and `q` are the op's settings.
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
ZERO, ONE = np.float32(0), np.float32(1)


@jit
def sigmoid_slope(g, y, p, q):
    return g * ((ONE - y) * y)


@jit
def tanh_slope(g, y, p, q):
    return g * (ONE - y * y)


@jit
def sigmoid_value(x, p, q):
    return sigmoid32(x)


@jit
def silu_value(x, p, q):
    return x / (ONE + exp32(-x))


@jit
def silu_slope(g, x, p, q):
    s = sigmoid32(x)
    return g * (s * (ONE + x * (ONE - s)))


@jit
def leaky_relu_value(x, p, q):
    return x if x > ZERO else x * p


@jit
def leaky_relu_slope(g, x, p, q):
    return g if x > ZERO else g * p


@jit
def elu_value(x, p, q):
    return x if x > ZERO else p * expm1_32(x)


@jit
def elu_slope(g, x, p, q):
    return g if x > ZERO else g * p * exp32(x)


@jit
def softplus_value(x, p, q):
    v = x * p
    size = -v if v < ZERO else v
    soft = (v if v > ZERO else ZERO) + log1p32(exp32(-size))
    return x if v > q else soft / p


@jit
def softplus_slope(g, x, p, q):
    return g if x * p > q else g * sigmoid32(x * p)


def _forward(first, last, x, out, p, q):
    a, b = np.float32(p), np.float32(q)
    xs, ys = x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        ys[i] = value(xs[i], a, b)  # noqa: F821 - see `_made`


def _backward(first, last, g, x, out, p, q):
    a, b = np.float32(p), np.float32(q)
    gs, xs, ys = g[first * BLOCK : last * BLOCK], x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        ys[i] = value(gs[i], xs[i], a, b)  # noqa: F821


def _made(loop: FunctionType, value: Kernel, settings: tuple[str, ...]) -> Callable[..., np.ndarray]:
    """`loop` around `value`, as a function of arrays that lie alike and without gaps in memory, and of the op's settings."""
    function = FunctionType(loop.__code__, {**globals(), "value": value}, loop.__name__)
    function.__qualname__ = value.name  # also the name under which the compiled kernel is kept
    kernel = jit(function)

    def call(*arrays: np.ndarray, **statics: float) -> np.ndarray:
        out = np.empty_like(arrays[0])
        numbers = [float(statics[name]) for name in settings] + [0.0] * (2 - len(settings))
        parallel(kernel, -(-out.size // BLOCK), *map(memory_order, (*arrays, out)), *numbers, grain=GRAIN)
        return out

    return call


def _pair(value: Kernel, slope: Kernel, *settings: str) -> tuple[Callable[..., np.ndarray], ...]:
    """An activation and its gradient."""
    return _made(_forward, value, settings), _made(_backward, slope, settings)


sigmoid, sigmoid_vjp = _pair(sigmoid_value, sigmoid_slope)
tanh_vjp = _made(_backward, tanh_slope, ())  # NumPy's tanh is faster
silu, silu_vjp = _pair(silu_value, silu_slope)
leaky_relu, leaky_relu_vjp = _pair(leaky_relu_value, leaky_relu_slope, "slope")
elu, elu_vjp = _pair(elu_value, elu_slope, "alpha")
softplus, softplus_vjp = _pair(softplus_value, softplus_slope, "beta", "threshold")
