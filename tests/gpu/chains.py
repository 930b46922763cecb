"""Functions with chains of elementwise ops, whose launches in a CUDA graph are counted on the stand-in and the null driver."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import tdt
from tdt.nn import functional as F

Step = Callable[[], list[tdt.Tensor]]


def new_gelu(x: tdt.Tensor) -> tdt.Tensor:
    return 0.5 * x * (1.0 + tdt.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * tdt.pow(x, 3.0))))


def rms_norm(x: tdt.Tensor, weight: tdt.Tensor) -> tdt.Tensor:
    return x * tdt.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def swiglu(x: tdt.Tensor, gate: tdt.Tensor) -> tdt.Tensor:
    return F.silu(gate) * x


def rotary(x: tdt.Tensor, cos: tdt.Tensor, sin: tdt.Tensor) -> tdt.Tensor:
    a, b = x.chunk(2, -1)
    return tdt.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _step(function: Callable[..., tdt.Tensor], *shapes: tuple[int, ...]) -> Callable[..., Step]:
    def make(backward: bool, times: int = 1) -> Step:
        """The function, or its gradients. times: as many rows."""
        numbers = np.random.default_rng(5)
        sizes = [(shape[0] * times, *shape[1:]) if len(shape) == 3 else shape for shape in shapes]
        with tdt.device("cuda"):
            args = [tdt.tensor(numbers.normal(size=size)).float().requires_grad_(backward) for size in sizes]
            g = tdt.tensor(numbers.normal(size=sizes[0])).float()

        def step() -> list[tdt.Tensor]:
            out = function(*args)
            return [*tdt.autograd.grad(out, args, g)] if backward else [out]

        return step

    return make


CHAINS = {
    "NewGELU": _step(new_gelu, (8, 16, 64)),
    "RMSNorm": _step(rms_norm, (8, 16, 64), (64,)),
    "SwiGLU": _step(swiglu, (8, 16, 64), (8, 16, 64)),
    "rotary": _step(rotary, (8, 16, 64), (16, 32), (16, 32)),
}
# In a graph, of the function alone and with its gradients.
LAUNCHES = {"NewGELU": (1, 1), "RMSNorm": (3, 8), "SwiGLU": (1, 1), "rotary": (2, 14)}
