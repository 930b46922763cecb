"""Binary losses: binary cross-entropy of probabilities and of logits, and the logistic loss for targets 1 and -1."""

from __future__ import annotations

from functools import partial
from typing import Any

from tdt._core.broadcasting import check_broadcast
from tdt._core.dtype import FLOATING, SCALAR_NAMES
from tdt._core.mode import check_values
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.elementwise.activation import logsigmoid
from tdt._ops.elementwise.math import _logit, _sigmoid
from tdt._ops.nn.loss._front import check_constant, check_tensors, reduced, reduction_of
from tdt._ops.nn.loss.elements import _pair_loss, logits_loss
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op
from tdt.autograd._op_table import OPS


@op(dtypes=FLOATING, autocast="float32", formula=True)
def _binary_cross_entropy_with_logits(xp, x, y):
    return logits_loss(xp, x, y)


@_binary_cross_entropy_with_logits.vjp("x")
def _(g, x, y):
    return g * (x.sigmoid() - y)


@_binary_cross_entropy_with_logits.fast_vjp("x")
def _(xp, g, x, y):
    return g * (_sigmoid(xp, x) - y)


@_binary_cross_entropy_with_logits.vjp("y")
def _(g, x):
    return -g * x


@_binary_cross_entropy_with_logits.fast_vjp("y")
def _(xp, g, x):
    return -g * x


@op(dtypes=FLOATING, autocast="float32", formula=True)
def _binary_cross_entropy(xp, x, y):
    # Each logarithm is held at -100, so that a certain error costs much but not infinitely much.
    low = x.dtype.type(-100)
    return (y - 1) * xp.maximum(xp.log1p(-x), low) - y * xp.maximum(xp.log(x), low)


@_binary_cross_entropy.vjp("x")
def _(g, x, y):
    return g * (x - y) / ((1 - x) * x).clamp(min=1e-12)


@_binary_cross_entropy.vjp("y")
def _(g, x):
    return -g * x.logit()  # not held at 100, as in PyTorch


@_binary_cross_entropy.fast_vjp("x")
def _(xp, g, x, y):
    return g * (x - y) / xp.maximum((1 - x) * x, x.dtype.type(1e-12))


@_binary_cross_entropy.fast_vjp("y")
def _(xp, g, x):
    return -g * _logit.forward(xp, x, eps=None)


@node_name("BinaryCrossEntropyBackward0")
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log-likelihood of `target` under the probabilities `input`; logarithms are clamped at -100.

    Args:
        target: of the input's dtype, in [0, 1].
        weight: factors of the losses.
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input (*), target the same, weight broadcastable to it; result (), or (*) with reduction="none".
    Raises:
        ValueError: when the shapes of `input` and `target` differ, or `reduction` is unknown.
        RuntimeError: when a value is not in [0, 1], the dtypes differ, or `weight` does not broadcast.

    >>> import tdt
    >>> tdt.nn.functional.binary_cross_entropy(tdt.tensor([0.5]), tdt.ones(1))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("binary_cross_entropy", input=input, target=target)
    if target.shape != input.shape:
        raise ValueError(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
                         "deprecated. Please ensure they have the same size.")  # fmt: skip
    _check_fits("binary_cross_entropy", input, weight)
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {SCALAR_NAMES[target.dtype]} but expected {SCALAR_NAMES[input.dtype]}")
    check_constant("binary_cross_entropy", weight=weight)
    losses = _binary_cross_entropy(input, target)
    for name, t in (("input", input), ("target", target)):
        check_values(partial(_check_probabilities, name), t._a)
    return reduced(losses if weight is None else (losses * weight).to(losses.dtype), reduction)


def _check_probabilities(name: str, a: Any) -> None:
    if a.size and not (a.min() >= 0 and a.max() <= 1):
        raise RuntimeError(f"all elements of {name} should be between 0 and 1; did you mean "
                           "binary_cross_entropy_with_logits, which takes any?")  # fmt: skip


@node_name("BinaryCrossEntropyWithLogitsBackward0")
@autocast("float32")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Binary cross-entropy of sigmoid(input), computed without overflow: max(x, 0) - x·y + log(1 + exp(-|x|)).

    Args:
        target: in [0, 1].
        weight: factors of the losses.
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
        pos_weight: factors of the losses of the positive class.
    Shape: input (*), target the same, weight and pos_weight broadcastable to it; result (), or (*) with
        reduction="none".
    Raises:
        ValueError: when the shapes of `input` and `target` differ, or `reduction` is unknown.
        RuntimeError: when `target` is not floating-point, or weights do not broadcast.

    >>> import tdt
    >>> tdt.nn.functional.binary_cross_entropy_with_logits(tdt.zeros(1), tdt.ones(1))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("binary_cross_entropy_with_logits", input=input, target=target)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return with_logits(input, target, weight, pos_weight, reduction)


def with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
) -> Tensor:
    """`binary_cross_entropy_with_logits` for shapes that broadcast."""
    if not target.is_floating_point():
        got = SCALAR_NAMES[target.dtype]
        raise RuntimeError(f"result type {SCALAR_NAMES[input.dtype]} can't be cast to the desired output type {got}; "
                           "give the target as floats: target.float()")  # fmt: skip
    _check_fits("binary_cross_entropy_with_logits", target, weight)
    check_constant("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if weight is None is pos_weight and input.is_floating_point():
        loss = _pair_loss("logits_loss", input, target, reduction)
        return loss if loss.dtype is target.dtype else loss.to(target.dtype)
    if pos_weight is None and input.is_floating_point():
        losses = OPS["logits_loss"](input, target, reduction="none")
    elif pos_weight is None:
        losses = _binary_cross_entropy_with_logits(input, target)
    else:
        _check_fits("binary_cross_entropy_with_logits", target, pos_weight, "pos_weight")
        losses = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid(input)
    if weight is not None:
        losses = losses * weight
    return reduced(losses if losses.dtype is target.dtype else losses.to(target.dtype), reduction)


def _check_fits(function: str, input: Tensor, weight: Tensor | None, name: str = "weight") -> None:
    """RuntimeError unless `weight` broadcasts to the input's shape."""
    if weight is not None:
        tensor_argument(function, weight, name, 3)
        if (broadcast := check_broadcast(tuple(input.shape), tuple(weight.shape))) != tuple(input.shape):
            raise RuntimeError(f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(broadcast)}: "
                               f"{function}'s {name} {list(weight.shape)} is larger than its input")  # fmt: skip


@node_name("SoftMarginLossBackward0")
@autocast("float32")
def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """log(1 + exp(-target · input)) for targets 1 and -1; infinite where the exponential overflows.

    Args:
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input (*), target the same; result (), or (*) with reduction="none".
    Raises:
        RuntimeError: when `input` is an integer or bool tensor.
        ValueError: when `reduction` is unknown.

    >>> import tdt
    >>> tdt.nn.functional.soft_margin_loss(tdt.tensor([0.0, 3.0]), tdt.tensor([1.0, -1.0]), reduction="none")
    tensor([0.6931, 3.0486])
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("soft_margin_loss", input=input, target=target)
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {SCALAR_NAMES[input.dtype]}")
    check_constant("soft_margin_loss", target=target)
    if input.is_floating_point() and input.element_size() > 2 and not target.is_complex():
        return _pair_loss("soft_margin_loss", input, target, reduction)
    # In half precision each step is rounded: from 11 on the exponential overflows in float16.
    losses = (-target * input).exp().log1p()
    return reduced(losses if losses.dtype is input.dtype else losses.to(input.dtype), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Binary cross-entropy of sigmoid(input), averaged over the classes.

    Args:
        weight: factor of each class.
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input (*, C), target the same, weight (C,); result (), or (*) with reduction="none".
    Raises:
        ValueError: when `reduction` is unknown.

    >>> import tdt
    >>> tdt.nn.functional.multilabel_soft_margin_loss(tdt.zeros(1, 2), tdt.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("multilabel_soft_margin_loss", input=input)
    losses = _binary_cross_entropy_with_logits(input, target)
    losses = losses if weight is None else losses * weight
    return reduced(losses.sum(input.ndim - 1) / input.shape[-1], reduction)  # the target may have more dimensions
