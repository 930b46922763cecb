"""ReLU and its gradient in float32 on the CPU, each element read and written once."""

from __future__ import annotations

import numpy as np

from tdt._backend.layout import memory_order
from tdt._kernels._jit import jit
from tdt._kernels._layout import like
from tdt._kernels._pool import parallel

BLOCK = 4096
GRAIN = 4  # blocks a thread should at least have: about 10 µs of work
ZERO = np.float32(0)


def relu(x: np.ndarray) -> np.ndarray:
    """x where it is positive or NaN, else 0, for a dense x; the result has the strides of x."""
    out = np.empty_like(x)
    parallel(_forward, -(-x.size // BLOCK), memory_order(x), memory_order(out), grain=GRAIN)
    return out


def relu_vjp(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The gradient `g` where `out` is not 0, else 0; the result has the strides of `out`, which is dense."""
    grad = np.empty_like(out)
    parallel(_backward, -(-out.size // BLOCK), *map(memory_order, (like(g, out), out, grad)), grain=GRAIN)
    return grad


@jit
def _forward(first, last, x, out):
    xs, ys = x[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK]
    for i in range(xs.size):
        ys[i] = ZERO if xs[i] <= ZERO else xs[i]


@jit
def _backward(first, last, g, out, grad):
    gs, ys, zs = g[first * BLOCK : last * BLOCK], out[first * BLOCK : last * BLOCK], grad[first * BLOCK : last * BLOCK]
    for i in range(ys.size):
        zs[i] = ZERO if ys[i] == ZERO else gs[i]
