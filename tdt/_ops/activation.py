"""Activations: relu and its kin, gelu, softmax. (`tanh`, `sigmoid`, `exp` are in `elementwise`.)"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._dtype import FLOATING, FLOATING_AND_COMPLEX, REAL_NUMBERS, as_dtype, dtype
from tdt._ops._common import wrap_dim
from tdt._ops.elementwise._front import special_functions, tensor_argument
from tdt._tensor import Tensor
from tdt.autograd._op import OPS, Op, finish, op

_INT = {4: np.int32, 8: np.int64}


@op(dtypes=REAL_NUMBERS, elementwise=True)
def _relu(xp, x, *, out=None):
    if x.size >= _kernels.LARGE_RELU and out is None and (fast := _kernels.chosen("relu", xp, x)):
        return fast(x)
    return xp.maximum(x, x.dtype.type(0), out=out)


@_relu.vjp("x")
def _(g, out):
    return g.masked_fill(out == 0, 0)  # NaN passes, as the result is NaN there too


@_relu.fast_vjp("x")
def _(xp, g, out):
    if g.size >= _kernels.LARGE_RELU and (fast := _kernels.chosen("relu.vjp.x", xp, g, out)):
        return fast(g, out)
    # Integer product of the bits with 0 or 1: exact for infinite gradients too, and as fast as a product gets.
    kind = _INT.get(g.dtype.itemsize)
    if kind is None or g.dtype.kind != "f" or g.shape != out.shape or not g.size:
        return xp.where(out == 0, g.dtype.type(0), g)
    return xp.multiply(g.view(kind), out != 0).view(g.dtype)


@op(dtypes=FLOATING)
def _leaky_relu(xp, x, *, slope, out=None):
    if x.size >= _kernels.LARGE_ACTIVATION and out is None and (fast := _kernels.chosen("leaky_relu", xp, x)):
        return fast(x, slope=slope)
    return xp.where(x > 0, x, x * x.dtype.type(slope))


@_leaky_relu.vjp("x")
def _(g, x, slope):
    return (g * slope).where(~(x > 0), g)


@_leaky_relu.fast_vjp("x")
def _(xp, g, x, slope):
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("leaky_relu.vjp.x", xp, g, x)):
        return fast(g, x, slope=slope)
    return xp.where(x > 0, g, g * slope)


@op(dtypes=FLOATING)
def _elu(xp, x, *, alpha):
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("elu", xp, x)):
        return fast(x, alpha=alpha)
    return xp.where(x > 0, x, x.dtype.type(alpha) * xp.expm1(xp.minimum(x, x.dtype.type(0))))


@_elu.vjp("x")
def _(g, x, alpha):
    return (g * alpha * x.clamp(max=0).exp()).where(~(x > 0), g)


@_elu.fast_vjp("x")
def _(xp, g, x, alpha):
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("elu.vjp.x", xp, g, x)):
        return fast(g, x, alpha=alpha)
    return xp.where(x > 0, g, g * alpha * xp.exp(xp.minimum(x, 0)))


@op(dtypes=FLOATING_AND_COMPLEX)
def _silu(xp, x):
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("silu", xp, x)):
        return fast(x)
    return x / (1 + xp.exp(-x))


@_silu.vjp("x")
def _(g, x):
    s = x.sigmoid()
    return g * (s * (1 + x * (1 - s))).conj()


@_silu.fast_vjp("x")
def _(xp, g, x):
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("silu.vjp.x", xp, g, x)):
        return fast(g, x)
    s = 1 / (1 + xp.exp(-x))
    return g * (s * (1 + x * (1 - s))).conj()


@op(dtypes=FLOATING)
def _softplus(xp, x, *, beta, threshold):
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("softplus", xp, x)):
        return fast(x, beta=beta, threshold=threshold)
    scaled = x * x.dtype.type(beta)
    return xp.where(
        scaled > threshold, x, xp.log1p(xp.exp(xp.minimum(scaled, x.dtype.type(threshold)))) / x.dtype.type(beta)
    )


@_softplus.vjp("x")
def _(g, x, beta, threshold):
    return (g * (x * beta).sigmoid()).where(~(x * beta > threshold), g)


@_softplus.fast_vjp("x")
def _(xp, g, x, beta, threshold):
    if x.size >= _kernels.LARGE_ACTIVATION and (fast := _kernels.chosen("softplus.vjp.x", xp, g, x)):
        return fast(g, x, beta=beta, threshold=threshold)
    scaled = x * beta
    return xp.where(scaled > threshold, g, g / (1 + xp.exp(-scaled)))


_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_ROOT_2_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


@op(dtypes=FLOATING)
def _gelu(xp, x, *, approximate):
    if x.size >= _kernels.LARGE_GELU and (fast := _kernels.chosen("gelu", xp, x)):
        return fast(x, approximate=approximate)
    kind = x.dtype.type
    if approximate == "tanh":
        return kind(0.5) * x * (1 + xp.tanh(kind(_ROOT_2_PI) * (x + kind(_CUBIC) * x * x * x)))
    return kind(0.5) * x * (1 + special_functions(xp).erf(x * kind(_ROOT_HALF)))


@_gelu.vjp("x")
def _(g, x, approximate):
    if approximate == "tanh":
        t = ((x + x * x * x * _CUBIC) * _ROOT_2_PI).tanh()
        return g * ((t + 1) * 0.5 + x * (1 - t * t) * (0.5 * _ROOT_2_PI) * (1 + 3 * _CUBIC * x * x))
    return g * ((1 + (x * _ROOT_HALF).erf()) * 0.5 + x * (x * x * -0.5).exp() * _DENSITY)


@_gelu.fast_vjp("x")
def _(xp, g, x, approximate):
    if x.size >= _kernels.LARGE_GELU and (fast := _kernels.chosen("gelu.vjp.x", xp, g, x)):
        return fast(g, x, approximate=approximate)
    if approximate == "tanh":
        t = xp.tanh((x + x * x * x * _CUBIC) * _ROOT_2_PI)
        return g * ((t + 1) * 0.5 + x * (1 - t * t) * (0.5 * _ROOT_2_PI) * (1 + 3 * _CUBIC * x * x))
    return g * ((1 + special_functions(xp).erf(x * _ROOT_HALF)) * 0.5 + x * xp.exp(x * x * -0.5) * _DENSITY)


def _shifted(xp: Any, x: Any, dim: int) -> Any:
    """`x` minus its maximum along `dim`: exp overflows float32 above 88."""
    if not x.size:
        return x.copy()
    return xp.subtract(x, x.max(axis=dim, keepdims=True), order="C")  # contiguous whatever x is, as in PyTorch


@op(dtypes=FLOATING)
def _softmax(xp, x, *, dim):
    if x.size >= _kernels.LARGE_SOFTMAX and (fast := _kernels.chosen("softmax", xp, x, dim=dim)):
        return fast(x, dim=dim)
    if not x.ndim:
        return xp.exp(x - x)
    e = xp.exp(_shifted(xp, x, dim))
    return xp.divide(e, e.sum(axis=dim, keepdims=True), out=e)


@_softmax.vjp("x")
def _(g, out, dim):
    return out * (g - (g * out).sum(dim, keepdim=True))


@_softmax.fast_vjp("x")
def _(xp, g, out, dim):
    if out.size >= _kernels.LARGE_SOFTMAX and (fast := _kernels.chosen("softmax.vjp.x", xp, g, out, dim=dim)):
        return fast(g, out, dim=dim)
    return out * (g - (g * out).sum(axis=dim, keepdims=True))


@op(dtypes=FLOATING)
def _log_softmax(xp, x, *, dim):
    if x.size >= _kernels.LARGE_SOFTMAX and (fast := _kernels.chosen("log_softmax", xp, x, dim=dim)):
        return fast(x, dim=dim)
    if not x.ndim:
        return x - x
    s = _shifted(xp, x, dim)
    return xp.subtract(s, xp.log(xp.exp(s).sum(axis=dim, keepdims=True)), out=s)


@_log_softmax.vjp("x")
def _(g, out, dim):
    return g - out.exp() * g.sum(dim, keepdim=True)


@_log_softmax.fast_vjp("x")
def _(xp, g, out, dim):
    if out.size >= _kernels.LARGE_SOFTMAX and (fast := _kernels.chosen("log_softmax.vjp.x", xp, g, out, dim=dim)):
        return fast(g, out, dim=dim)
    return g - xp.exp(out) * g.sum(axis=dim, keepdims=True)


# These ask for their kernels themselves: ops whose kernels dispatch must ask for lose its short way for small calls.
for _name in ("relu", "leaky_relu", "elu", "silu", "softplus", "gelu", "sigmoid", "tanh", "softmax", "log_softmax"):
    OPS[_name].kernels = ()


def _run(record: Op, input: Tensor, inplace: bool, **statics: Any) -> Tensor:
    tensor_argument(record.name, input)
    return record.inplace(input, **statics) if inplace else record(input, **statics)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0); NaN stays NaN. `inplace` writes into the input.

    >>> import tdt
    >>> relu(tdt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if input.__class__ is Tensor and not inplace:
        return _relu(input)
    return _run(_relu, input, inplace)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place.

    >>> import tdt
    >>> x = tdt.tensor([-1.0, 2.0])
    >>> relu_(x)
    tensor([0., 2.])
    >>> x
    tensor([0., 2.])
    """
    return _run(_relu, input, True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above 0, `negative_slope` x below (Maas et al., 2013).

    >>> import tdt
    >>> leaky_relu(tdt.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return _run(_leaky_relu, input, inplace, slope=negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, alpha (exp(x) - 1) below (Clevert et al., 2015).

    >>> import tdt
    >>> elu(tdt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _run(_elu, input, inplace, alpha=alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x), also called swish (Elfwing et al., 2017).

    >>> import tdt
    >>> silu(tdt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """
    return _run(_silu, input, inplace)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds `threshold`.

    >>> import tdt
    >>> softplus(tdt.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """
    return finish(_softplus, out, tensor_argument("softplus", input), beta=beta, threshold=threshold)


def gelu(input: Tensor, *, approximate: str = "none", out: Tensor | None = None) -> Tensor:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016); 'tanh' takes their approximation.

    >>> import tdt
    >>> gelu(tdt.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return finish(_gelu, out, tensor_argument("gelu", input), approximate=approximate)


def _converted(name: str, input: Tensor, dtype: dtype | None) -> Tensor:
    tensor_argument(name, input)
    return input if dtype is None or input.dtype is as_dtype(dtype) else input.to(as_dtype(dtype))


def softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """exp(x) scaled to sum to 1 along `dim`; `dtype` converts the input first. A slice of all -inf gives NaN.

    >>> import tdt
    >>> tdt.softmax(tdt.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    input = _converted("softmax", input, dtype)
    return finish(_softmax, out, input, dim=wrap_dim(dim, input.ndim))


def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`, without its loss of precision.

    >>> import tdt
    >>> tdt.log_softmax(tdt.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    input = _converted("log_softmax", input, dtype)
    return finish(_log_softmax, out, input, dim=wrap_dim(dim, input.ndim))


def functional_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """`softmax` as `nn.functional` has it: without `dim` it warns and takes 0 for 0, 1 and 3 dimensions, else 1.

    >>> import tdt
    >>> tdt.nn.functional.softmax(tdt.zeros(1, 2), dim=1)
    tensor([[0.5000, 0.5000]])
    """
    return softmax(input, _implicit(input) if dim is None else dim, dtype)


def functional_log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """`log_softmax` as `nn.functional` has it: without `dim` as `functional_softmax`.

    >>> import tdt
    >>> tdt.nn.functional.log_softmax(tdt.zeros(1, 2), dim=1)
    tensor([[-0.6931, -0.6931]])
    """
    return log_softmax(input, _implicit(input) if dim is None else dim, dtype)


def _implicit(input: Tensor) -> int:
    import warnings

    warnings.warn("Implicit dimension choice for softmax has been deprecated. Change the call to include dim=X as an argument.",
                  stacklevel=3)  # fmt: skip
    return 0 if input.ndim in (0, 1, 3) else 1


__all__ = ["relu", "relu_", "softmax", "log_softmax"]
