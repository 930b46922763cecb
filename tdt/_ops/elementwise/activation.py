"""Smooth activations: elu, celu, selu, silu, mish, softplus, gelu, glu. `tanh` and `sigmoid` are in math.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._backend.waiting import repeatable
from tdt._core.dtype import FLOATING, FLOATING_AND_COMPLEX
from tdt._core.tensor import Tensor
from tdt._kernels import from_formula, prepares
from tdt._kernels.programs_gpu import MEMORY
from tdt._ops._common import wrap_dim
from tdt._ops.elementwise._activations import factor, run
from tdt._ops.elementwise._front import special_functions, tensor_argument
from tdt._ops.shape.join import cat
from tdt.autograd._dispatch import unary
from tdt.autograd._node_names import node_name
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape, calls_one_op

__all__ = ["celu", "celu_", "selu", "selu_"]  # the functions of tdt; the others are in tdt.nn.functional only

# Klambauer et al., 2017: with these, mean 0 and variance 1 are a fixed point of a layer.
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@op(dtypes=FLOATING, formula=True)
def _elu(xp, x, *, alpha, scale, input_scale):
    kind = x.dtype.type
    below = kind(alpha * scale) * xp.expm1(xp.minimum(x, kind(0)) * kind(input_scale))
    choose = getattr(xp, "rarely", xp.where)  # vectors of positive numbers need no exponential
    return choose(x < 0, below, x * kind(scale))


@_elu.vjp("x")
def _(g, x, alpha, scale, input_scale):
    below = -(-x).relu()  # unlike `clamp`, without slope at 0, where PyTorch's second derivative is 0
    return (g * ((below * input_scale).exp() * (alpha * scale * input_scale))).where(x <= 0, g * scale)


@_elu.fast_vjp("x")
def _(xp, g, x, alpha, scale, input_scale):
    below = g * (xp.exp(xp.minimum(x, 0) * input_scale) * (alpha * scale * input_scale))
    return xp.where(x <= 0, below, g * scale)


@op(dtypes=FLOATING_AND_COMPLEX, formula=True)
def _silu(xp, x):
    return x / (1 + xp.exp(-x))


@_silu.vjp("x")
def _(g, x):
    s = x.sigmoid()
    return g * (s * (1 + x * (1 - s))).conj()


@_silu.fast_vjp("x")
def _(xp, g, x):
    s = 1 / (1 + xp.exp(-x))
    return g * (s * (1 + x * (1 - s))).conj()


# tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2) takes one exponential. From x = 20 on it is 1, in float64 too.
_FLAT = 20


@op(dtypes=FLOATING, formula=True)
def _mish(xp, x):
    e = xp.exp(xp.minimum(x, x.dtype.type(_FLAT)))
    n = e * (e + 2)
    return x * (n / (n + 2))


@_mish.vjp("x")
def _(g, x):
    x = x.clamp(max=_FLAT)
    t = _softplus(x, beta=1.0, threshold=_FLAT).tanh()
    return g * (t + x * (1 - t * t) * x.sigmoid())


@_mish.fast_vjp("x")
def _(xp, g, x):
    x = xp.minimum(x, x.dtype.type(_FLAT))
    t = xp.tanh(xp.log1p(xp.exp(x)))  # not n / (n + 2): exp may be infinite in float16
    return g * (t + x * (1 - t * t) / (1 + xp.exp(-x)))


@op(dtypes=FLOATING, formula=True)
def _softplus(xp, x, *, beta, threshold):
    scaled = x * x.dtype.type(beta)
    return xp.where(
        scaled > threshold, x, xp.log1p(xp.exp(xp.minimum(scaled, x.dtype.type(threshold)))) / x.dtype.type(beta)
    )


@_softplus.vjp("x")
def _(g, x, beta, threshold):
    return (g * (x * beta).sigmoid()).where(~(x * beta > threshold), g)


@_softplus.fast_vjp("x")
def _(xp, g, x, beta, threshold):
    scaled = x * beta
    return xp.where(scaled > threshold, g, g / (1 + xp.exp(-scaled)))


@op(dtypes=FLOATING, formula=True)
def _log_sigmoid(xp, x):
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


@_log_sigmoid.vjp("x")
def _(g, x):
    return g * (-x).sigmoid()


@_log_sigmoid.fast_vjp("x")
def _(xp, g, x):
    return g / (1 + xp.exp(x))


_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_ROOT_8_PI = math.sqrt(8 / math.pi)
_CUBIC = 0.044715


@op(dtypes=FLOATING, formula=True)
def _gelu(xp, x, *, approximate):
    kind = x.dtype.type
    if approximate == "tanh":  # (1 + tanh(u)) / 2 = sigmoid(2 u), which does not cancel where u is far below 0
        return x / (1 + xp.exp(-kind(_ROOT_8_PI) * (x + kind(_CUBIC) * x * x * x)))
    return kind(0.5) * x * (1 + special_functions(xp).erf(x * kind(_ROOT_HALF)))


@_gelu.vjp("x")
def _(g, x, approximate):
    if approximate == "tanh":
        s = ((x + x * x * x * _CUBIC) * _ROOT_8_PI).sigmoid()
        return g * (s + x * s * (1 - s) * (1 + 3 * _CUBIC * x * x) * _ROOT_8_PI)
    return g * ((1 + (x * _ROOT_HALF).erf()) * 0.5 + x * (x * x * -0.5).exp() * _DENSITY)


@_gelu.fast_vjp("x")
def _(xp, g, x, approximate):
    if approximate == "tanh":
        u = (x + x * x * x * _CUBIC) * _ROOT_8_PI
        e = xp.exp(-xp.abs(u))
        p = 1 / (1 + e)
        slope = e * p * p  # of the sigmoid
        return g * (xp.where(u >= 0, p, e * p) + x * slope * (1 + 3 * _CUBIC * x * x) * _ROOT_8_PI)
    return g * ((1 + special_functions(xp).erf(x * _ROOT_HALF)) * 0.5 + x * xp.exp(x * x * -0.5) * _DENSITY)


def _halves(x: Any, dim: int) -> tuple[Any, Any]:
    """Views of the first and the second half of an array along `dim`."""
    before, half = (slice(None),) * dim, x.shape[dim] // 2
    return x[*before, :half], x[*before, half:]


_gated: Any = from_formula("glu", lambda xp, value, gate: value / (xp.exp(-gate) + 1), 2, ())[0]
_gate_gradient = from_formula(
    "glu_gate_gradient", lambda xp, by_value, value, gate: by_value * value * (1 - 1 / (xp.exp(-gate) + 1)), 3, ()
)[0]


@op(dtypes=FLOATING)
@repeatable
def _glu(xp, x, *, dim):
    return _gated(xp, *_halves(x, dim))


@prepares(_glu.forward)
def _(x, *, dim, recorded):
    before, half = (slice(None),) * dim, x.shape[dim] // 2
    first, second = (*before, slice(None, half)), (*before, slice(half, None))
    ufunc, *_ = _gated.ufunc_for((x[first], x[second]), {}) or (None,)
    return ufunc and (lambda x: ufunc(x[first], x[second], order="C"))


@_glu.vjp("x")
def _(g, x, dim):
    value, gate = x.chunk(2, dim)
    s = gate.sigmoid()
    return cat((g * s, g * value * (s * (1 - s))), dim)


@_glu.fast_vjp("x")
@repeatable
def _(xp, g, x, dim):
    (value, gate), grad = _halves(x, dim), xp.empty_like(x) if xp is np else MEMORY.empty_like(x)
    by_value, by_gate = _halves(grad, dim)
    _gated(xp, g, gate, out=by_value)
    _gate_gradient(xp, by_value, value, gate, out=by_gate)
    return grad


@calls_one_op
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Exponential linear unit: x where x > 0, else alpha · (exp(x) - 1).

    Args:
        alpha: the negative of the limit for x → -∞.
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Clevert, Unterthiner, Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units
        (ELUs)", 2015.

    >>> import tdt
    >>> tdt.nn.functional.elu(tdt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return run(_elu, input, inplace, alpha=factor("elu", input, alpha), scale=1.0, input_scale=1.0)


@calls_one_op
@node_name("CeluBackward0")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Continuously differentiable exponential linear unit: x where x > 0, else alpha · (exp(x / alpha) - 1).

    Args:
        alpha: the negative of the limit for x → -∞; the slope at 0 is 1 for every alpha.
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `alpha` is 0.
    Source: Barron, "Continuously Differentiable Exponential Linear Units", 2017.

    >>> import tdt
    >>> tdt.celu(tdt.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.4323,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    alpha = factor("celu", input, alpha)
    return run(_elu, input, inplace, alpha=alpha, scale=1.0, input_scale=1 / alpha)


@calls_one_op
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled exponential linear unit: 1.0507 · elu(x, alpha=1.6733).

    The constants keep mean 0 and variance 1 from layer to layer.

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Klambauer, Unterthiner, Mayr, Hochreiter, "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.selu(tdt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return run(_elu, input, inplace, alpha=SELU_ALPHA, scale=SELU_SCALE, input_scale=1.0)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Sigmoid linear unit, also called swish: x · sigmoid(x).

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Elfwing, Uchibe, Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation in
        Reinforcement Learning", 2017.

    >>> import tdt
    >>> tdt.nn.functional.silu(tdt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """
    return run(_silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """The activation x · tanh(softplus(x)).

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Misra, "Mish: A Self Regularized Non-Monotonic Neural Activation Function", 2019.

    >>> import tdt
    >>> tdt.nn.functional.mish(tdt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """
    return run(_mish, input, inplace)


@calls_one_op
def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    """A smooth approximation of relu: log(1 + exp(beta · x)) / beta.

    Args:
        beta: sharpness; the function approaches relu as it grows.
        threshold: where beta · x exceeds it, the result is x itself.
    Shape: input (*); result the same.
    Source: Dugas, Bengio, Bélisle, Nadeau, Garcia, "Incorporating Second-Order Functional Knowledge for Better Option
        Pricing", 2000.

    >>> import tdt
    >>> tdt.nn.functional.softplus(tdt.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """
    attributes = {"beta": factor("softplus", input, beta), "threshold": factor("softplus", input, threshold)}
    return finish(_softplus, out, input, **attributes)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the sigmoid, log(1 / (1 + exp(-x))), without overflow.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.nn.functional.logsigmoid(tdt.tensor([-1000.0, 0.0]))
    tensor([-1.0000e+03, -6.9315e-01])
    """
    return finish(_log_sigmoid, out, tensor_argument("log_sigmoid", input))


@calls_one_op
def gelu(input: Tensor, *, approximate: str = "none", out: Tensor | None = None) -> Tensor:
    """Gaussian error linear unit: x · Φ(x), where Φ is the distribution function of the standard normal distribution.

    Args:
        approximate: "none" computes Φ with erf, "tanh" approximates it with tanh.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `approximate` is neither "none" nor "tanh".
    Source: Hendrycks, Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.

    >>> import tdt
    >>> tdt.nn.functional.gelu(tdt.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return finish(_gelu, out, tensor_argument("gelu", input), approximate=approximate)


@calls_by_shape
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Gated linear unit: the first half of `input` along `dim`, times the sigmoid of the second half.

    Args:
        dim: dimension that is split in two halves.
    Shape: input (*, 2n, *) with 2n at `dim`; result (*, n, *).
    Raises:
        RuntimeError: when `input` is 0-d or its size along `dim` is odd.
    Source: Dauphin, Fan, Auli, Grangier, "Language Modeling with Gated Convolutional Networks", 2017.

    >>> import tdt
    >>> tdt.nn.functional.glu(tdt.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    shape = tensor_argument("glu", input)._a.shape
    if not shape:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dim(dim, len(shape))
    if shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {shape[dim]}")
    return unary(_glu, input, {"dim": dim})


def softsign(input: Tensor) -> Tensor:
    """The activation x / (1 + |x|), with values between -1 and 1.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.nn.functional.softsign(tdt.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """The activation x - tanh(x).

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.nn.functional.tanhshrink(tdt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return input - input.tanh()


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of `elu`.

    >>> import tdt
    >>> tdt.nn.functional.elu_(tdt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return elu(input, alpha, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of `celu`.

    >>> import tdt
    >>> tdt.celu_(tdt.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.4323,  2.0000])
    """
    return celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """In-place version of `selu`.

    >>> import tdt
    >>> tdt.selu_(tdt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return selu(input, inplace=True)
