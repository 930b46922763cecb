"""Piecewise linear activations: relu and variants, hardtanh, hardswish, hardshrink."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import FLOAT, FLOATING, REAL_NUMBERS, SCALAR_NAMES, finfo, int64
from tdt._core.from_data import held
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels import rounded
from tdt._ops.elementwise._activations import factor, run
from tdt._ops.elementwise._front import tensor_argument
from tdt._random import Generator, generator_for
from tdt._random.counts import slopes
from tdt.autograd._autocast import autocast
from tdt.autograd._dispatch import unary
from tdt.autograd._node_names import node_name
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape, calls_one_op

__all__ = ["hardshrink", "prelu", "relu", "relu_", "rrelu", "rrelu_", "threshold", "threshold_"]

_SIXTH = float(np.float32(1) / np.float32(6))  # PyTorch's slope of hardsigmoid, in float64 too


@op(dtypes=REAL_NUMBERS, elementwise=True, sparse_values="coalesced", linked="out", formula=True)
def _relu(xp, x, *, out=None):
    zero = x.dtype.type(0)
    return xp.maximum(x, zero) if out is None else xp.maximum(x, zero, out=out)


@_relu.vjp("x")
def _(g, out):
    return g.masked_fill(out == 0, 0)  # the gradient passes where the result is nan


@_relu.fast_vjp("x")
def _(xp, g, out):
    return xp.where(out != 0, g, g.dtype.type(0))


@op(dtypes=FLOATING, linked=True, formula=True)
def _leaky_relu(xp, x, *, slope):
    return xp.where(x > 0, x, x * x.dtype.type(slope))


@_leaky_relu.vjp("x")
def _(g, x, slope):
    return (g * slope).where(~(x > 0), g)


@_leaky_relu.fast_vjp("x")
def _(xp, g, x, slope):
    return xp.where(x > 0, g, g * slope)


@op(dtypes=FLOATING, node="PreluKernelBackward0", autocast="lower", linked=True, formula=True)
def _prelu(xp, x, w):
    return xp.where(x > 0, x, x * w)


@_prelu.vjp("x")
def _(g, x, w):
    return (g * w).where(~(x > 0), g)


@_prelu.vjp("w")
def _(g, x):
    return (g * x).masked_fill(x > 0, 0)


@_prelu.fast_vjp("x")
def _(xp, g, x, w):
    return xp.where(x > 0, g, g * w)


@_prelu.fast_vjp("w")
def _(xp, g, x):
    return xp.where(~(x > 0), g * x, g.dtype.type(0))


@op(dtypes=REAL_NUMBERS, linked=True, formula=True)
def _hardtanh(xp, x, *, low, high):
    kind = x.dtype.type
    return xp.minimum(xp.maximum(x, kind(low)), kind(high))


@_hardtanh.vjp("x")
def _(g, x, low, high):
    return g.masked_fill((x <= low) | (x >= high), 0)


@_hardtanh.fast_vjp("x")
def _(xp, g, x, low, high):
    return xp.where(~((x <= low) | (x >= high)), g, g.dtype.type(0))


@op(dtypes=FLOATING, linked=True, formula=True)
def _hardsigmoid(xp, x):
    return xp.minimum(xp.maximum(x + 3, 0), 6) / 6


@_hardsigmoid.vjp("x")
def _(g, x):
    return (g * _SIXTH).masked_fill(~(x.abs() < 3), 0)


@_hardsigmoid.fast_vjp("x")
def _(xp, g, x):
    return xp.where(xp.abs(x) < 3, g * _SIXTH, g.dtype.type(0))


@op(dtypes=FLOATING, formula=True)
def _hardswish(xp, x):
    return x * (xp.minimum(xp.maximum(x + 3, 0), 6) / 6)


@_hardswish.vjp("x")
def _(g, x):
    return (g * (x / 3 + 0.5)).where(x < 3, g).masked_fill(x <= -3, 0)


@_hardswish.fast_vjp("x")
def _(xp, g, x):
    return xp.where(x < 3, xp.where(x > -3, g * (x / 3 + 0.5), g.dtype.type(0)), g)


@op(dtypes=FLOATING, linked=True, formula=True)
def _hardshrink(xp, x, *, width):
    return xp.where(~(xp.abs(x) <= x.dtype.type(width)), x, x.dtype.type(0))


@op(dtypes=FLOATING, linked=True, formula=True)
def _softshrink(xp, x, *, shift, width):
    """width: `shift` as elements hold it, which the gradient compares with."""
    kind = x.dtype.type
    return x - xp.minimum(xp.maximum(x, kind(-shift)), kind(shift))


for _shrink in (_hardshrink, _softshrink):
    _shrink.vjp("x")(lambda g, x, width: g.masked_fill(x.abs() <= width, 0))
    _shrink.fast_vjp("x")(lambda xp, g, x, width: xp.where(~(xp.abs(x) <= width), g, g.dtype.type(0)))


@op(dtypes=REAL_NUMBERS, repeats=True, linked=True, formula=True)
def _threshold(xp, x, *, threshold, value):
    return xp.where(~(x <= threshold), x, x.dtype.type(value))


@_threshold.vjp("x")
def _(g, x, threshold):
    return g.masked_fill(x <= threshold, 0)


@_threshold.fast_vjp("x")
def _(xp, g, x, threshold):
    return xp.where(~(x <= threshold), g, g.dtype.type(0))


@op(dtypes=FLOATING, random=True, shape=lambda x, **how: x)
def _rrelu_noise(xp, x, *, lower, upper, generator):
    """1 where x > 0, else a number uniform on [lower, upper), drawn in the order of the dimensions."""
    gen = generator_for(generator, _backend.device_of(x))
    return slopes(gen, x, *(float(x.dtype.type(end)) for end in (lower, upper)))  # PyTorch rounds them first


@method()
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Rectified linear unit: max(x, 0); nan stays nan.

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Nair, Hinton, "Rectified Linear Units Improve Restricted Boltzmann Machines", 2010.

    >>> import tdt
    >>> tdt.relu(tdt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if input.__class__ is Tensor and not inplace:
        return unary(_relu, input)
    return run(_relu, input, inplace)


@calls_one_op
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Leaky rectified linear unit: x where x > 0, else negative_slope · x.

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Maas, Hannun, Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic Models", 2013.

    >>> import tdt
    >>> tdt.nn.functional.leaky_relu(tdt.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return run(_leaky_relu, input, inplace, slope=factor("leaky_relu", input, negative_slope))


@method()
@autocast("lower")
@calls_by_shape
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Parametric rectified linear unit: x where x > 0, else weight · x, with learned weights.

    Args:
        weight: one weight for all elements, or one for each channel (dimension 1 of `input`).
    Shape: input (N, C, *) or any other with one weight; weight (), (1) or (C); result that of input.
    Raises:
        RuntimeError: when `weight` has another dtype than `input`, more than one dimension, or neither 1 nor C elements.
    Source: He, Zhang, Ren, Sun, "Delving Deep into Rectifiers: Surpassing Human-Level Performance on ImageNet
        Classification", 2015.

    >>> import tdt
    >>> tdt.prelu(tdt.tensor([[-1.0, -2.0]]), tdt.tensor([0.5, 0.1]))
    tensor([[-0.5000, -0.2000]])
    """
    tensor_argument("prelu", input)
    tensor_argument("prelu", weight, "weight", 2)
    if weight.dtype is not input.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {SCALAR_NAMES[input.dtype]} and {SCALAR_NAMES[weight.dtype]}"
        )
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    count = weight.numel()
    if count != 1:
        if not input.ndim:
            raise RuntimeError(f"Not allow zero-dim input tensor with {count} weights; give one weight")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != count:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and "
                f"channel size = {channels}."
            )
    shape = (count, *(1,) * (input.ndim - 2))[: input.ndim]
    return _prelu(input, weight if weight._a.shape in (shape, shape[:1]) and count == 1 else weight.reshape(shape))


@node_name("RreluWithNoiseBackward0")
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Randomized leaky rectified linear unit: x where x > 0, else x times a random slope.

    Args:
        lower, upper: slopes are drawn uniformly from [lower, upper), one for each element.
        training: if False, the slope is the mean of `lower` and `upper`.
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `lower` is greater than `upper`.
    Source: Xu, Wang, Chen, Li, "Empirical Evaluation of Rectified Activations in Convolutional Network", 2015.

    >>> import tdt
    >>> tdt.rrelu(tdt.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5000,  2.0000])
    """
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, but got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    noise = _rrelu_noise(tensor_argument("rrelu", input).detach(), lower=lower, upper=upper, generator=generator)
    # `noise` is the first operand, as the result has the memory format of the first operand: here contiguous.
    return input.mul_(noise) if inplace else noise * input


@calls_one_op
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Each element clamped to [min_val, max_val]; nan stays nan.

    The gradient is 0 outside the interval and at both of its ends.

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Raises:
        ValueError: when `min_val` is greater than `max_val`.
        RuntimeError: when `input` has an unsigned dtype and `min_val` is negative.

    >>> import tdt
    >>> tdt.nn.functional.hardtanh(tdt.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, but got {min_val} and {max_val}")
    dtype = tensor_argument("hardtanh", input).dtype
    if dtype.category < FLOAT:
        min_val, max_val = held(min_val, int64), held(max_val, int64)
    if min_val < 0 and input._a.dtype.kind == "u":
        raise RuntimeError(f"cannot do hardtanh on an unsigned type with negative limits: {dtype}, {min_val}")
    return run(_hardtanh, input, inplace, low=held(min_val, dtype), high=held(max_val, dtype))


@calls_one_op
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Rectified linear unit with an upper limit: min(max(x, 0), 6).

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Krizhevsky, "Convolutional Deep Belief Networks on CIFAR-10", 2010.

    >>> import tdt
    >>> tdt.nn.functional.relu6(tdt.tensor([-2.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """
    return run(_hardtanh, input, inplace, low=0, high=6)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Piecewise linear approximation of the sigmoid: (x + 3) / 6 clamped to [0, 1].

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> import tdt
    >>> tdt.nn.functional.hardsigmoid(tdt.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return run(_hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Piecewise approximation of silu: x · hardsigmoid(x).

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.
    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> import tdt
    >>> tdt.nn.functional.hardswish(tdt.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """
    return run(_hardswish, input, inplace)


@method()
@calls_one_op
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Hard thresholding: 0 where |x| ≤ lambd, else x.

    Shape: input (*); result the same.
    Source: Donoho, Johnstone, "Ideal Spatial Adaptation by Wavelet Shrinkage", 1994.

    >>> import tdt
    >>> tdt.hardshrink(tdt.tensor([-2.0, 0.5, 2.0]))
    tensor([-2.,  0.,  2.])
    """
    is_float = tensor_argument("hardshrink", input).is_floating_point()
    width = rounded(held(lambd, input.dtype), input._a.dtype) if is_float else lambd
    return finish(_hardshrink, out, input, width=width)


@calls_one_op
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Soft thresholding: x moved towards 0 by `lambd`, and 0 where |x| ≤ lambd.

    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `lambd` is negative or nan.
    Source: Donoho, "De-Noising by Soft-Thresholding", 1995.

    >>> import tdt
    >>> tdt.nn.functional.softshrink(tdt.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.5000,  0.0000,  1.5000])
    """
    tensor_argument("softshrink", input)
    most = finfo(input.dtype).max if input.is_floating_point() else math.inf
    if not 0 <= lambd <= most:
        limit = f"{most:g}"
        raise RuntimeError(f"lambda must be in range [0, {limit}] for input dtype {SCALAR_NAMES[input.dtype]}, but found "
                           f"{lambd:g}")  # fmt: skip
    return finish(_softshrink, out, input, shift=lambd, width=rounded(lambd, input._a.dtype))


@calls_one_op
def threshold(
    input: Tensor, threshold: float, value: float, inplace: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Each element that is greater than `threshold`; `value` in place of the others.

    Args:
        inplace: write the result into `input`.
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.threshold(tdt.tensor([-1.0, 2.0]), 0.5, 9.0)
    tensor([9., 2.])
    """
    attributes = _held(input, threshold, value)
    return (
        run(_threshold, input, inplace, **attributes) if out is None else finish(_threshold, out, input, **attributes)
    )


def _held(input: Tensor, threshold: float, value: float) -> dict[str, Any]:
    """The attributes of `_threshold`, as elements of `input` have them."""
    dtype = tensor_argument("threshold", input).dtype
    return {"threshold": held(threshold, dtype, wide=True), "value": held(value, dtype)}


@method()
def relu_(input: Tensor) -> Tensor:
    """In-place version of `relu`.

    >>> import tdt
    >>> tdt.relu_(tdt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return run(_relu, input, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place version of `leaky_relu`.

    >>> import tdt
    >>> tdt.nn.functional.leaky_relu_(tdt.tensor([-1.0]))
    tensor([-0.0100])
    """
    return leaky_relu(input, negative_slope, inplace=True)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """In-place version of `rrelu`.

    >>> import tdt
    >>> tdt.rrelu_(tdt.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5000,  2.0000])
    """
    return rrelu(input, lower, upper, training, inplace=True, generator=generator)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place version of `hardtanh`.

    >>> import tdt
    >>> tdt.nn.functional.hardtanh_(tdt.tensor([-2.0, 2.0]))
    tensor([-1.,  1.])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place version of `threshold`.

    >>> import tdt
    >>> tdt.threshold_(tdt.tensor([-1.0, 2.0]), 0.5, 9.0)
    tensor([9., 2.])
    """
    return run(_threshold, input, True, **_held(input, threshold, value))
