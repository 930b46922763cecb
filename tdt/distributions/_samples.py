"""Gamma and Dirichlet numbers, with gradients by their shapes: how a sample moves if its place in the distribution stays.

dx/da = -(dF/da) / (dF/dx) of the distribution function F (M. Figurnov, S. Mohamed and A. Mnih, Implicit
reparameterization gradients, 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt import Tensor, _backend, _random
from tdt._core.tensor import wrap
from tdt._ops.elementwise._front import special_functions
from tdt._random import generator_for
from tdt.autograd.function import Function, once_differentiable

STEP = 3e-3  # of a shape, or of its deviation where that is smaller: five points then differ in the 10th digit


def gamma_gradient(shape: Any, sample: Any) -> Any:
    """How a gamma number of rate 1 moves with its shape; arrays of float64."""
    xp = _backend.namespace(shape)
    special = special_functions(xp)
    density = xp.exp(special.xlogy(shape - 1, sample) - sample - special.gammaln(shape))
    return -_slope(xp, lambda a: special.gammainc(a, sample), lambda a: special.gammaincc(a, sample), shape) / density


def beta_gradient(shape: Any, rest: Any, sample: Any) -> Any:
    """How a beta number of the shapes `shape` and `rest` moves with the first; arrays of float64."""
    xp = _backend.namespace(shape)
    special = special_functions(xp)
    log_density = special.xlogy(shape - 1, sample) + special.xlog1py(rest - 1, -sample) - special.betaln(shape, rest)
    below, above = (lambda a: special.betainc(a, rest, sample)), (lambda a: special.betainc(rest, a, 1 - sample))
    return -_slope(xp, below, above, shape) / xp.exp(log_density)


def _slope(xp: Any, below: Callable[[Any], Any], above: Callable[[Any], Any], a: Any) -> Any:
    """d below / da, by five points of the log of the smaller one of `below` and `above` = 1 - below."""
    h = STEP * xp.minimum(a, xp.sqrt(a))
    lower = below(a) < 0.5
    tails = [xp.log(xp.where(lower, below(a + n * h), above(a + n * h))) for n in (-2, -1, 1, 2)]
    logarithmic = (tails[0] - tails[3] + 8 * (tails[2] - tails[1])) / (12 * h)
    return xp.where(lower, below(a), -above(a)) * logarithmic


def _drawn(concentration: Tensor) -> Any:
    return _random.gamma(generator_for(None, concentration.device), concentration._a)


class StandardGamma(Function):
    """Gamma numbers of rate 1."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        kind = concentration.dtype.np
        xp = _backend.namespace(concentration._a)
        out = wrap(xp.maximum(_drawn(concentration).astype(kind), xp.finfo(kind).tiny))
        ctx.save_for_backward(concentration, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        concentration, out = ctx.saved_tensors
        return g * wrap(gamma_gradient(concentration.double()._a, out.double()._a)).to(g.dtype)


class DirichletShares(Function):
    """Gamma numbers of rate 1 as shares of their sum along the last dimension."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        kind = concentration.dtype.np
        xp = _backend.namespace(concentration._a)
        drawn = xp.maximum(_drawn(concentration.double()), xp.finfo(xp.float64).tiny)
        shares = (drawn / drawn.sum(-1, keepdims=True)).astype(kind)
        out = wrap(xp.clip(shares, xp.finfo(kind).tiny, xp.nextafter(kind.type(1), kind.type(0))))
        ctx.save_for_backward(concentration, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        concentration, out = ctx.saved_tensors
        shape, share = concentration.double(), out.double()
        rest = shape.sum(-1, keepdim=True) - shape
        # A share alone is a beta number; the others make room in proportion.
        moved = wrap(beta_gradient(shape._a, rest._a, share._a)) / (1 - share)
        return (moved * (g - (out * g).sum(-1, keepdim=True))).to(g.dtype)
