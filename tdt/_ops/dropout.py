"""Dropout: the mask is an output of the op, so that second derivatives see the mask that was drawn."""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._dtype import FLOATING, check_category
from tdt._ops.elementwise._front import tensor_argument
from tdt._random import assign_in_memory_order, bernoulli, generator_for
from tdt._tensor import Tensor, wrap
from tdt.autograd._op import op


def _noise(xp: Any, x: Any, p: float, generator: Any) -> Any:
    """0 with probability `p`, else 1 / (1 - p), drawn in the order of `x`'s memory."""
    keep = bernoulli(generator_for(generator, _backend.device_of(x)), x.shape, 1 - p)
    real = x.real.dtype.type
    scale = real(1) / real(1 - p)
    if x.flags.c_contiguous:
        return xp.multiply(keep, scale, dtype=x.dtype)
    noise = xp.empty_like(x)
    assign_in_memory_order(noise, xp.multiply(keep, scale, dtype=x.dtype))
    return noise


@op(name="dropout", dtypes=FLOATING, outputs=("out", "noise"), nondiff=("noise",), random=True,
    shape=lambda x, **how: (x, x))  # fmt: skip
def _dropout(xp, x, *, p, generator):
    noise = _noise(xp, x, p, generator)
    return x * noise, noise


@_dropout.vjp("x")
def _(g_out, noise):
    return g_out * noise


@_dropout.fast_vjp("x")
def _(g_out, noise):
    return g_out * noise


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability `p` and scale the rest by 1 / (1 - p) (Srivastava et al., 2014).

    The input itself when not training. ValueError for `p` outside [0, 1].

    >>> import tdt
    >>> dropout(tdt.ones(2), 0.5, training=False)
    tensor([1., 1.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    tensor_argument("dropout", input)
    if p == 0 or not training or not input.numel():
        return input
    if p == 1:
        return input.mul_(False) if inplace else input * False
    check_category("dropout", FLOATING, input.dtype)
    if not inplace:
        return _dropout(input, p=float(p), generator=None)[0]
    return input.mul_(wrap(_noise(_backend.namespace(input._a), input._a, p, None)))


__all__ = ["dropout"]
