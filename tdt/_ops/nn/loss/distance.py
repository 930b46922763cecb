"""Losses of the difference of two tensors: squared, absolute, Huber and smooth L1."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._backend.waiting import repeatable
from tdt._core.broadcasting import check_broadcast
from tdt._core.dtype import FLOATING
from tdt._core.tensor import Tensor
from tdt._kernels import from_formula, prepares
from tdt._ops.nn.loss._front import check_pair, reduced, reduction_of
from tdt._ops.nn.loss.elements import (
    _pair_loss,
    each_gradient,
    prepared_loss,
    prepared_slope,
    reduced_loss,
    reduced_pair_shape,
    share_of,
)
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op
from tdt.autograd._op_table import OPS
from tdt.autograd._remembered import calls_by_shape


@calls_by_shape
def _mse_of(input: Tensor, target: Tensor, reduction: str) -> Tensor:
    return OPS["mse_loss"](input, target, reduction=reduction)


def _slope(xp: Any, d: Any, delta: Any) -> Any:
    return xp.minimum(xp.maximum(d, -delta), delta)


def _loss(xp: Any, x: Any, y: Any, *, delta: float) -> Any:
    d = x - y
    slope = _slope(xp, d, delta)
    return slope * (d - slope * x.dtype.type(0.5))


def _slope_times(xp: Any, g: Any, x: Any, y: Any, *, delta: float) -> Any:
    return _slope(xp, x - y, delta) * g


_huber = from_formula("huber_loss", _loss, 2, ("delta",))[0]
_huber_gradient = from_formula("huber_loss_gradient", _slope_times, 3, ("delta",))[0]


_huber_gradient_of_mean: Any = from_formula(
    "huber_loss_gradient_of_mean",
    lambda xp, g, x, y, *, delta, count: _slope_times(xp, g / count, x, y, delta=delta),
    3,
    ("delta", "count"),
)[0]


@op(dtypes=FLOATING, shape=reduced_pair_shape, autocast="float32")
@repeatable
def _huber_loss(xp, x, y, *, delta, reduction):
    return reduced_loss(xp, _loss, _huber, x, y, reduction, delta=delta)


@prepares(_huber_loss.forward, large=True)
def _(x, y, *, delta, reduction, recorded):
    return prepared_loss(_huber, x, y, reduction, delta=delta)


def _huber_rule(g: Tensor, x: Tensor, y: Tensor, delta: float, reduction: str) -> Tensor:
    d = x - y
    # The slope is d.clamp(-delta, delta), but for second gradients, where delta itself counts as straight.
    return d.where(d.abs() < delta, d.sign() * delta) * each_gradient(g, d.shape, reduction)


@_huber_loss.vjp("x")
def _(g, x, y, delta, reduction):
    return _huber_rule(g, x, y, delta, reduction)


def _huber_slope(xp: Any, g: Any, x: Any, y: Any, delta: float, reduction: str) -> Any:
    shape = check_broadcast(x.shape, y.shape)
    if xp is not np:
        each = g if x.shape == y.shape else xp.broadcast_to(g, shape)
        return xp.asarray(_huber_gradient_of_mean(xp, each, x, y, delta=delta, count=share_of(shape, reduction)))
    return _huber_gradient(xp, np.asarray(each_gradient(g, shape, reduction)), x, y, delta=delta)


_huber_loss.fast_vjp("x")(repeatable(_huber_slope))


@_huber_loss.prepares_vjp("x")
def _(xp, g, x, y, delta, reduction):
    return prepared_slope(_huber_gradient, g, x, y, reduction, delta=delta)


@_huber_loss.vjp("y")
def _(g, x, y, delta, reduction):
    return _huber_rule(g, y, x, delta, reduction)


_huber_loss.fast_vjp("y")(repeatable(lambda xp, g, x, y, delta, reduction: _huber_slope(xp, g, y, x, delta, reduction)))


@calls_by_shape
def _huber_of(input: Tensor, target: Tensor, delta: float, reduction: str) -> Tensor:
    return _huber_loss(input, target, delta=delta, reduction=reduction)


def _check_weight(input: Tensor, weight: Tensor) -> None:
    if weight.shape != input.shape:
        raise ValueError(f"Weights and input must have the same size; got {list(weight.shape)} and {list(input.shape)}")


def _weighted(losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    losses = losses * weight
    return losses.sum() / weight.sum() if reduction == "mean" else reduced(losses, reduction)


def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Squared difference of `input` and `target`.

    Args:
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
        weight: factors of the losses; the mean is divided by their sum.
    Shape: input (*), target broadcastable with it (other shapes warn), weight as input; result (), or the broadcast shape
        with reduction="none".
    Raises:
        ValueError: when `reduction` is unknown, or `weight` has another shape than `input`.

    >>> import tdt
    >>> tdt.nn.functional.mse_loss(tdt.tensor([1.0, 3.0]), tdt.zeros(2))
    tensor(5.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_pair("mse_loss", input, target)
    if weight is None:
        return _mse_of(input, target, reduction)
    _check_weight(input, weight)
    return _weighted(_mse_of(input, target, "none"), weight, reduction)


@autocast("float32")
def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Absolute difference of `input` and `target`.

    Args:
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
        weight: factors of the losses; the mean is divided by their sum.
    Shape: input (*), target broadcastable with it (other shapes warn), weight as input; result (), or the broadcast shape
        with reduction="none".
    Raises:
        ValueError: when `reduction` is unknown, or `weight` has another shape than `input`.

    >>> import tdt
    >>> tdt.nn.functional.l1_loss(tdt.tensor([1.0, 3.0]), tdt.zeros(2))
    tensor(2.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_pair("l1_loss", input, target)
    if weight is not None:
        _check_weight(input, weight)
        return _weighted((input - target).abs(), weight, reduction)
    return _absolute(input, target, reduction)


def _absolute(input: Tensor, target: Tensor, reduction: str) -> Tensor:
    """`l1_loss` without weights; of two dtypes in the promoted one."""
    if input.is_floating_point() and input.dtype is target.dtype:
        return _pair_loss("absolute_loss", input, target, reduction)
    return reduced((input - target).abs(), reduction)


@autocast("float32")
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:  # fmt: skip
    """Half the squared difference over `beta` below an absolute difference of `beta`; beyond, that difference - beta / 2.

    Args:
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
        beta: absolute difference at which the loss becomes linear; 0 gives the absolute difference itself.
    Shape: input (*), target broadcastable with it (other shapes warn); result (), or the broadcast shape with
        reduction="none".
    Raises:
        RuntimeError: when `beta` is negative.
        ValueError: when `reduction` is unknown.
    Source: Girshick, "Fast R-CNN", 2015.

    >>> import tdt
    >>> tdt.nn.functional.smooth_l1_loss(tdt.tensor([0.5, 3.0]), tdt.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_pair("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta. Got {beta}")
    if not beta:
        return _absolute(input, target, reduction)
    return _smooth_l1(input, target, beta, reduction)


@node_name("SmoothL1LossBackward0")
def _smooth_l1(input: Tensor, target: Tensor, beta: float, reduction: str) -> Tensor:
    """`smooth_l1_loss` for a positive `beta`."""
    loss = _huber_of(input, target, float(beta), reduction)
    return loss if beta == 1 else loss / beta


@autocast("float32")
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Half the squared difference below an absolute difference of `delta`, linear beyond it.

    Args:
        reduction: "none", "mean" or "sum".
        delta: absolute difference at which the loss becomes linear.
        weight: factors of the losses.
    Shape: input (*), target broadcastable with it (other shapes warn), weight as input; result (), or the broadcast shape
        with reduction="none".
    Raises:
        RuntimeError: when `delta` is not positive.
        ValueError: when `reduction` is unknown, or `weight` has another shape than `input`.
    Source: Huber, "Robust Estimation of a Location Parameter", 1964.

    >>> import tdt
    >>> tdt.nn.functional.huber_loss(tdt.tensor([0.0, 3.0]), tdt.zeros(2))
    tensor(1.2500)
    """
    reduction = reduction_of(None, None, reduction)
    check_pair("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta. Got {delta}")
    loss = _huber_of(input, target, float(delta), reduction if weight is None else "none")
    if loss.dtype is not input.dtype:
        loss = loss.to(input.dtype)
    if weight is None:
        return loss
    _check_weight(input, weight)
    return reduced(loss * weight, reduction)
