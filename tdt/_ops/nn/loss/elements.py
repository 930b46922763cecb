"""Losses of pairs of elements, as one op each with their reduction: a formula, and one for the gradient of each operand."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._backend.waiting import repeatable
from tdt._core.broadcasting import check_broadcast
from tdt._core.dtype import FLOATING
from tdt._core.tensor import Tensor
from tdt._kernels import (
    PIECE,
    chosen,
    folded,
    from_formula,
    gpu_alike,
    gpu_kernel,
    prepared_fold,
    prepares,
    total,
    total_of,
)
from tdt._kernels._threads import THREADS
from tdt._ops.elementwise.math import _sigmoid
from tdt.autograd._call_counts import CallCounts
from tdt.autograd._op import Op, op
from tdt.autograd._op_table import OPS
from tdt.autograd._remembered import calls_by_shape

PAIR_LOSSES: dict[str, Callable[..., Any]] = {}  # the formula of each


def reduced_pair_shape(x: tuple, y: tuple, *, reduction: str, **how: Any) -> tuple:
    """The shape of the loss."""
    return check_broadcast(x, y) if reduction == "none" else ()


_FOLDED = (gpu_kernel("fold_gpu:fold_of", gpu_alike),)
_COUNTS = CallCounts()


def reduced_loss(
    xp: Any, formula: Callable[..., Any], compute: Any, x: Any, y: Any, reduction: str, **attributes: Any
) -> Any:
    """The loss by a formula of each pair, which `compute` computes; of arrays that lie alike in one pass over memory.

    On a CPU that is prepared for each shape, and so for those alone that are often met.
    """
    if reduction == "none":
        return xp.asarray(compute(xp, x, y, **attributes))
    if xp is np:
        if _COUNTS.frequent((compute, x.shape)) and (sum_ := total_of(compute, x, y, **attributes)) is not None:
            return _divided(sum_, x, reduction)
    elif fast := chosen(_FOLDED, xp, x, y):
        if attributes:
            formula = _with(formula, tuple(attributes.items()))
        if (out := fast(reduction, formula, x, y)) is not None:
            return out
    losses = xp.asarray(compute(xp, x, y, **attributes))
    if xp is not np and (out := folded(reduction, losses, None, False, None, losses.size)) is not None:
        return out
    return _divided(total(losses), losses, reduction)


@functools.lru_cache(256)
def _with(formula: Callable[..., Any], attributes: tuple) -> Callable[..., Any]:
    """A formula of x and y alone, for whose attributes a kernel is generated."""
    return functools.partial(formula, **dict(attributes))


def _divided(sum_: Any, losses: Any, reduction: str) -> Any:
    """The sum of the losses, or their mean, which of nothing is NaN."""
    if reduction == "sum":
        return sum_
    return sum_ / losses.dtype.type(losses.size) if losses.size else sum_ * np.nan


def share_of(shape: tuple[int, ...], reduction: str) -> float:
    """What the loss's gradient is divided by for each of the losses, of this shape."""
    return float(max(math.prod(shape), 1)) if reduction == "mean" else 1.0


def each_gradient(g: Any, shape: tuple[int, ...], reduction: str) -> Any:
    """The gradient that reaches each of the losses, of this shape."""
    return g / max(math.prod(shape), 1) if reduction == "mean" else g


def _loss(
    name: str, formula: Callable[..., Any], node: str | Callable[[Any], str], **rules: tuple[Callable, Callable]
) -> Op:
    """The op of a loss.

    Args:
        formula: (xp, x, y) of each pair.
        node: PyTorch's name of the graph's node.
        rules: of the operands x, y that have a gradient: (g, x, y) on tensors, and (xp, g, x, y) as a formula of each pair.
    """
    PAIR_LOSSES[name] = formula
    compute: Any = from_formula(name, formula, 2, ())[0]

    @repeatable
    def forward(xp: Any, x: Any, y: Any, *, reduction: str) -> Any:
        return reduced_loss(xp, formula, compute, x, y, reduction)

    loss = op(forward, name=name, dtypes=FLOATING, shape=reduced_pair_shape, autocast="float32", node=node)
    for operand, (rule, slope) in rules.items():
        _add_rule(loss, operand, rule, slope)

    @prepares(loss.forward, large=True)
    def _(x: Any, y: Any, *, reduction: str, recorded: bool) -> Callable[..., Any] | None:
        return prepared_loss(compute, x, y, reduction)

    return loss


def _add_rule(loss: Op, operand: str, rule: Callable[..., Any], slope: Callable[..., Any]) -> None:
    compute: Any = from_formula(f"{loss.name}_{operand}_gradient", slope, 3, ())[0]
    compute_shared = from_formula(
        f"{loss.name}_{operand}_gradient_of_mean",
        lambda xp, g, x, y, count: slope(xp, g / count, x, y),
        3,
        ("count",),
    )[0]

    @loss.vjp(operand)
    def _(g: Tensor, x: Tensor, y: Tensor, reduction: str) -> Tensor:
        shape = check_broadcast(x._a.shape, y._a.shape)
        g = each_gradient(g, shape, reduction)
        return rule(g if x._a.shape == y._a.shape else g.expand(shape), x, y)

    @loss.fast_vjp(operand)
    @repeatable
    def _(xp: Any, g: Any, x: Any, y: Any, reduction: str) -> Any:
        shape = check_broadcast(x.shape, y.shape)
        if xp is not np:
            each = g if x.shape == y.shape else xp.broadcast_to(g, shape)
            return xp.asarray(compute_shared(xp, each, x, y, count=share_of(shape, reduction)))
        g = np.asarray(each_gradient(g, shape, reduction))
        return compute(np, g if x.shape == y.shape else np.broadcast_to(g, shape), x, y)

    @loss.prepares_vjp(operand)
    def _(xp: Any, g: Any, x: Any, y: Any, reduction: str) -> Callable[..., Any] | None:
        return prepared_slope(compute, g, x, y, reduction)


def prepared_loss(compute: Any, x: Any, y: Any, reduction: str, **attributes: Any) -> Callable[..., Any] | None:
    """A function of arrays such as x and y that gives the loss by the formula `compute`; None where there is no short way."""
    found = compute.ufunc_for((x, y), attributes)
    shape = check_broadcast(x.shape, y.shape)
    count = math.prod(shape)
    if found is None or x.dtype.char not in "fd" or not 0 < count < PIECE:
        return None
    each = _with_numbers(found)
    if reduction == "none":
        return each
    fold = prepared_fold("sum", x.dtype, shape, None, False, None)
    if fold is None:
        return None
    if reduction == "sum":
        return lambda x, y: fold(each(x, y))
    divisor = x.dtype.type(count)
    return lambda x, y: fold(each(x, y)) / divisor


def prepared_slope(
    compute: Any, g: Any, x: Any, y: Any, reduction: str, **attributes: Any
) -> Callable[..., Any] | None:
    """A function of arrays such as g, x and y that gives the gradient by the formula `compute` of each pair, or None."""
    found = compute.ufunc_for((g, x, y), attributes)
    if found is None or x.shape != y.shape or g.dtype.char not in "fd" or x.size >= THREADS.rows:
        return None
    each, count = _with_numbers(found), g.dtype.type(max(x.size, 1))
    return (lambda g, x, y: each(g / count, x, y)) if reduction == "mean" else each


def _with_numbers(found: tuple) -> Callable[..., Any]:
    """The ufunc that `ufunc_for` has found, which gets its numbers behind the arrays."""
    ufunc, _, numbers = found
    return (lambda *arrays: ufunc(*arrays, *numbers)) if numbers else ufunc


def _squared_difference(xp: Any, x: Any, y: Any) -> Any:
    d = x - y
    return d * d


_loss(
    "mse_loss", _squared_difference, "MseLossBackward0",
    x=(lambda g, x, y: (x - y) * (2 * g), lambda xp, g, x, y: (x - y) * (2 * g)),
    y=(lambda g, x, y: (y - x) * (2 * g), lambda xp, g, x, y: (y - x) * (2 * g)),
)  # fmt: skip


def _soft_margin_rule(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    power = (-y * x).exp()
    return g * (-y * power / (1 + power))


def _soft_margin_slope(xp: Any, g: Any, x: Any, y: Any) -> Any:
    power = xp.exp(-y * x)
    return g * (-y * power / (1 + power))


_loss(
    "soft_margin_loss", lambda xp, x, y: xp.log1p(xp.exp(-y * x)), "SoftMarginLossBackward0",
    x=(_soft_margin_rule, _soft_margin_slope),
    y=(lambda g, x, y: _soft_margin_rule(g, y, x), lambda xp, g, x, y: _soft_margin_slope(xp, g, y, x)),
)  # fmt: skip


def logits_loss(xp: Any, x: Any, y: Any) -> Any:
    """Binary cross-entropy of sigmoid(x) and y, as a formula."""
    # Not max(x, 0) - x y: the two cancel where x is large and y near 1, and are NaN together where x is infinite.
    return x * ((x > 0) - y) + xp.log1p(xp.exp(-xp.abs(x)))


_loss(
    "logits_loss",
    # Of -inf NaN where y <= 1, as PyTorch's (1 - y) x - log_sigmoid(x).
    lambda xp, x, y: logits_loss(xp, x, y) + 0 * xp.where(y > 1, x.dtype.type(0), xp.minimum(x, 0)),
    "BinaryCrossEntropyWithLogitsBackward0",
    x=(lambda g, x, y: g * (x.sigmoid() - y), lambda xp, g, x, y: g * (_sigmoid(xp, x) - y)),
    y=(lambda g, x, y: -g * x, lambda xp, g, x, y: -g * x),
)  # fmt: skip


def _last_of(name: str) -> Callable[[Any], str]:
    """PyTorch's name of a loss that it composes: of the reduction, or of the last op before it."""
    names = {"mean": "MeanBackward0", "sum": "SumBackward0", "none": name}
    return lambda node: names[node.attributes["reduction"]]


_loss(
    "poisson_loss", lambda xp, x, y: xp.exp(x) - y * x, _last_of("SubBackward0"),
    x=(lambda g, x, y: g * (x.exp() - y), lambda xp, g, x, y: g * (xp.exp(x) - y)),
    y=(lambda g, x, y: -g * x, lambda xp, g, x, y: -g * x),
)  # fmt: skip
_loss(
    "absolute_loss", lambda xp, x, y: xp.abs(x - y), _last_of("AbsBackward0"),
    x=(lambda g, x, y: g * (x - y).sign(), lambda xp, g, x, y: g * xp.sign(x - y)),
    y=(lambda g, x, y: g * (y - x).sign(), lambda xp, g, x, y: g * xp.sign(y - x)),
)  # fmt: skip
_loss(
    "divergence", lambda xp, x, y: xp.where(y == 0, xp.abs(y), y * xp.log(y)) - y * x, _last_of("SubBackward0"),
    x=(lambda g, x, y: -g * y, lambda xp, g, x, y: -g * y),
    y=(lambda g, x, y: g * (y.log() + 1 - x), lambda xp, g, x, y: g * (xp.log(y) + 1 - x)),
)  # fmt: skip
_loss(
    "divergence_of_logs", lambda xp, x, y: xp.exp(y) * (y - x), _last_of("MulBackward0"),
    x=(lambda g, x, y: -g * y.exp(), lambda xp, g, x, y: -g * xp.exp(y)),
    y=(lambda g, x, y: g * y.exp() * (y - x + 1), lambda xp, g, x, y: g * xp.exp(y) * (y - x + 1)),
)  # fmt: skip


@calls_by_shape
def _pair_loss(name: str, x: Tensor, y: Tensor, reduction: str) -> Tensor:
    """The loss of this name, of real floating-point numbers x, in x's dtype."""
    loss = OPS[name](x, y, reduction=reduction)
    return loss if loss.dtype is x.dtype else loss.to(x.dtype)
