"""Margin losses: 0 where a score or distance is right by at least the margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import FLOATING, SCALAR_NAMES, int64
from tdt._core.ranges import arange
from tdt._core.tensor import Tensor
from tdt._kernels import chosen, float_logits, kernel, prepares
from tdt._ops.linalg.distance import pairwise_distance
from tdt._ops.nn.loss._front import check_tensors, reduced, reduction_of
from tdt._ops.nn.loss.classes import UNKNOWN_CLASS
from tdt.autograd._arrays import as_tensor, on_arrays
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape


@autocast("float32")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin - target · (input1 - input2)): `target` 1 ranks `input1` higher, -1 ranks `input2` higher.

    Args:
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input1, input2 and target broadcastable, with one number of dimensions; result (), or the broadcast shape with
        reduction="none".
    Raises:
        RuntimeError: when the numbers of dimensions differ.
        ValueError: when `reduction` is unknown.

    >>> import tdt
    >>> tdt.nn.functional.margin_ranking_loss(tdt.tensor([1.0]), tdt.tensor([3.0]), tdt.ones(1))
    tensor(2.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("margin_ranking_loss", input1=input1, input2=input2, target=target)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
                           f"{input1.shape}, input2: {input2.shape}, target: {target.shape} ")  # fmt: skip
    return ranking(input1, input2, target, margin, reduction)


def ranking(input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    """`margin_ranking_loss` for any numbers of dimensions."""
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@autocast("float32")
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`input` where `target` is 1, max(0, margin - input) where it is -1.

    Args:
        target: 1 or -1; the sum of both terms where it is neither.
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input (*), target the same; result (), or (*) with reduction="none".
    Raises:
        ValueError: when `reduction` is unknown.

    >>> import tdt
    >>> tdt.nn.functional.hinge_embedding_loss(tdt.tensor([0.25, 0.25]), tdt.tensor([1.0, -1.0]), reduction="none")
    tensor([0.2500, 0.7500])
    """
    return hinge(input, target, margin, reduction_of(size_average, reduce, reduction))


def hinge(input: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    """`hinge_embedding_loss` without the deprecated arguments."""
    check_tensors("hinge_embedding_loss", input=input, target=target)
    # For integers the margin is one too, as in PyTorch.
    if on_arrays(input, target) and input._a.dtype.kind == "f" and input._a.shape == target._a.shape:
        x, y = input._a, target._a
        zero = x.dtype.type(0)
        losses = np.where(y != -1, x, zero)
        losses += np.where(y != 1, np.maximum(x.dtype.type(margin) - x, zero), zero)
        return reduced(as_tensor(losses), reduction)
    limit = margin if input.is_floating_point() else input.new_full((), margin)
    far = (limit - input).clamp(min=0).where(target != 1, 0)
    return reduced(input.where(target + 1 != 0, 0) + far, reduction)


@autocast("float32")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos of the angle between the inputs where `target` is 1, max(0, cos - margin) where it is -1.

    Args:
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input1 and input2 (N, D), target (N,), or (D,) and (); result (), or as target with reduction="none".
    Raises:
        RuntimeError: when the numbers of dimensions do not fit.
        ValueError: when `reduction` is unknown.
    Source: Bromley et al., "Signature Verification using a Siamese Time Delay Neural Network", 1993.

    >>> import tdt
    >>> tdt.nn.functional.cosine_embedding_loss(tdt.tensor([[1.0, 0.0]]), tdt.tensor([[0.0, 1.0]]), tdt.ones(1))
    tensor(1.)
    """
    return cosine(input1, input2, target, margin, reduction_of(size_average, reduce, reduction))


def cosine(input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    """`cosine_embedding_loss` without the deprecated arguments."""
    check_tensors("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with "
                           f"sizes {list(input1.shape)} and {list(input2.shape)}.")  # fmt: skip
    squares = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cos = (input1 * input2).sum(-1) / squares.sqrt()
    # Compare target + 1 with 0: -1 is 255 in a uint8 target.
    losses = (1 - cos).where(target == 1, 0) + (cos - margin).clamp(min=0).where(target + 1 == 0, 0)
    return reduced(losses, reduction)


@autocast("float32")
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + ‖anchor - positive‖ₚ - ‖anchor - negative‖ₚ).

    Args:
        eps: added to each difference.
        swap: use the smaller of the distances of `negative` from `anchor` and from `positive`.
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: anchor, positive and negative (*, D); result (), or (*) with reduction="none".
    Raises:
        ValueError: when `margin` is not positive, or `reduction` is unknown.
        RuntimeError: when the numbers of dimensions differ.
    Source: Balntas et al., "Learning Local Feature Descriptors with Triplets and Shallow Convolutional Networks", 2016.

    >>> import tdt
    >>> tdt.nn.functional.triplet_margin_loss(tdt.zeros(1, 2), tdt.zeros(1, 2), tdt.ones(1, 2), margin=2.0)
    tensor(0.5858)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return triplet(anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(anchor, positive) - d(anchor, negative)) for a distance function d.

    Args:
        distance_function: from two tensors (*, D) to their distances (*); None is `pairwise_distance`.
        swap: use the smaller of the distances of `negative` from `anchor` and from `positive`.
        reduction: "none", "mean" or "sum".
    Shape: anchor, positive and negative (*, D); result (), or (*) with reduction="none".
    Raises:
        ValueError: when `margin` is not positive, or `reduction` is unknown.
        RuntimeError: when the numbers of dimensions differ.
    Source: Balntas et al., "Learning Local Feature Descriptors with Triplets and Shallow Convolutional Networks", 2016.

    >>> import tdt
    >>> from tdt.nn import functional
    >>> by_component = lambda a, b: (a - b).abs().amax(-1)
    >>> anchor, other = tdt.zeros(1, 2), tdt.ones(1, 2)
    >>> functional.triplet_margin_with_distance_loss(anchor, anchor, other, distance_function=by_component)
    tensor(0.)
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return triplet(anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)


def triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, distance: Callable[[Tensor, Tensor], Tensor], margin: float,
    swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    """The triplet loss under the distance function `distance`."""
    check_tensors("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    dims = anchor.ndim, positive.ndim, negative.ndim
    if len(set(dims)) > 1:
        raise RuntimeError(f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
                           f"but got: anchor {dims[0]}D, positive {dims[1]}D, and negative {dims[2]}D inputs")  # fmt: skip
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)


@op(
    name="multi_margin_loss",
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    constant=("weight",),
    shape=lambda x, target, *weight, p, margin, reduction: target if reduction == "none" else (),
    node="MultiMarginLossBackward0",
)
def _multi_margin(xp, x, target, weight=None, *, p, margin, reduction):
    if fast := chosen(_MARGIN_LOSSES, xp, x, weight):
        losses = fast(x.shape[-1], p=p, margin=margin, reduction=reduction)
        try:
            return losses(np.ascontiguousarray(x), target, weight)
        except IndexError:
            _check_classes(x.shape[-1], target)
            raise
    x, t = x.reshape(-1, x.shape[-1] if x.ndim else 1), target.reshape(-1)
    _check_classes(x.shape[1], t)
    at = xp.arange(t.size), t
    excess = (margin - x[at])[:, None] + x
    excess[at] = 0
    excess = _backend.where(xp, excess > 0, excess, x.dtype.type(0))
    losses = (excess if p == 1 else excess * excess).sum(axis=1) / x.dtype.type(x.shape[1])
    losses = losses if weight is None else losses * weight[t]
    if reduction == "none":
        return losses.reshape(target.shape)
    return losses.mean() if reduction == "mean" else losses.sum()


_MARGIN_LOSSES = (kernel("margin_loss_cpu:prepared_losses", float_logits),)
_MARGIN_GRAD = kernel("margin_loss_cpu:margin_loss_vjp", float_logits)


@prepares(_multi_margin.forward)
def _(x, target, weight=None, *, p, margin, reduction, recorded):
    fast = chosen(_MARGIN_LOSSES, np, x, weight)
    if fast is None:
        return None
    losses = fast(x.shape[-1], p=p, margin=margin, reduction=reduction)
    return lambda x, target, weight=None: losses(x, target, weight)


@_multi_margin.vjp("x")
def _(g, x, target, weight, p, margin, reduction):
    classes = x.shape[-1] if x.ndim else 1
    rows, t = x.reshape(-1, classes), target.reshape(-1, 1)
    excess = margin - rows.gather(1, t) + rows
    over = (excess > 0) & (arange(classes, device=t.device) != t)
    each = g.reshape(-1, 1) / (classes * len(rows) if reduction == "mean" else classes)
    each = each if weight is None else each * weight[t]
    slopes = (each if p == 1 else each * 2 * excess).where(over, 0)
    return slopes.scatter_add(1, t, -slopes.sum(1, True)).reshape(x.shape)


@_multi_margin.fast_vjp("x")
def _(xp, g, x, target, weight, p, margin, reduction):
    if xp is np and _MARGIN_GRAD.when((x, weight), {}):
        return _MARGIN_GRAD.function(g, x, target, weight, p=p, margin=margin, mean=reduction == "mean")
    classes = x.shape[-1] if x.ndim else 1
    rows, t = x.reshape(-1, classes), target.reshape(-1)
    if xp is np and (bad := (t < 0) | (t >= classes)).any():  # it was right when the loss was computed
        raise IndexError(UNKNOWN_CLASS.format(value=int(t[bad][0]), limit=classes, last=classes - 1))
    at = xp.arange(t.size), t
    excess = (margin - rows[at])[:, None] + rows
    excess[at] = 0
    each = g.reshape(-1, 1) / x.dtype.type(max(rows.size, 1) if reduction == "mean" else classes)
    each = each if weight is None else each * weight[t][:, None]
    slopes = _backend.where(xp, excess > 0, each if p == 1 else each * 2 * excess, x.dtype.type(0))
    slopes[at] = -slopes.sum(axis=1)
    return slopes.reshape(x.shape)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Sum over the wrong classes i of max(0, margin - input[target] + input[i])^p, divided by the number of classes.

    Args:
        target: the right classes, int64.
        p: 1 or 2.
        weight: factor of each right class.
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input (N, C) or (C,), target (N,) or (), weight (C,); result (), or as target with reduction="none".
    Raises:
        ValueError: when `p` is not 1 or 2, `weight` is not 1-D, or `reduction` is unknown.
        RuntimeError: when shapes or dtypes do not fit, or a class is out of range.
        NotImplementedError: when `input` is not float32 or float64.

    >>> import tdt
    >>> tdt.nn.functional.multi_margin_loss(tdt.tensor([[0.25, 0.5]]), tdt.tensor([0]))
    tensor(0.6250)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return _multi_margin_of(input, target, p, margin, weight, reduction)


@calls_by_shape
@autocast("float32")
def _multi_margin_of(
    input: Tensor, target: Tensor, p: int, margin: float, weight: Tensor | None, reduction: str
) -> Tensor:
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    _check_margin_target("multi_margin_loss", input, target)
    classes = input.shape[-1] if input.ndim else 1
    n = input.numel() // classes
    if target.ndim > 1 or target.numel() != n:
        raise RuntimeError(f"multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples "
                           f"(batch size). Expected target size [{n}], but got {list(target.shape)}. Input has shape "
                           f"{list(input.shape)}.")  # fmt: skip
    if weight is not None:
        if len(weight) != classes:
            raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
        if weight.dtype is not input.dtype:
            raise RuntimeError(
                f"expected scalar type {SCALAR_NAMES[input.dtype]} but found {SCALAR_NAMES[weight.dtype]}"
            )
    return _multi_margin(input, target, weight, p=int(p), margin=float(margin), reduction=reduction)


def _check_classes(count: int, target: Any) -> None:
    if bool(((target < 0) | (target >= count)).any()):
        raise RuntimeError(f"target out of range: there are {count} classes, 0 to {count - 1}")


@node_name("MultilabelMarginLossBackward0")
@autocast("float32")
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:  # fmt: skip
    """Sum over right classes j and wrong classes i of max(0, 1 - input[j] + input[i]), divided by the number of classes.

    Args:
        target: each row lists the right classes, up to the first -1; int64.
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "mean" or "sum".
    Shape: input (N, C) or (C,), target the same; result (), or (N,) with reduction="none".
    Raises:
        RuntimeError: when shapes or dtypes do not fit, or a class is out of range.
        NotImplementedError: when `input` is not float32 or float64.
        ValueError: when `reduction` is unknown.

    >>> import tdt
    >>> tdt.nn.functional.multilabel_margin_loss(tdt.tensor([[0.25, 0.5, 0.0]]), tdt.tensor([[1, -1, 0]]))
    tensor(0.4167)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _check_margin_target("multilabel_margin_loss", input, target)
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    x, t = (a.reshape(-1, a.shape[-1] if a.ndim else 1) for a in (input, target))  # (N, C)
    classes = x.shape[1]
    if bool(((t < -1) | (t >= classes)).any()):
        raise RuntimeError(f"argument #2 'target' is out of range: there are {classes} classes, 0 to {classes - 1}")
    listed = (t < 0).cumsum(1) == 0
    listed = listed[:, : int(listed.sum(1).max()) if len(listed) else 0]  # (N, K)
    t = t[:, : listed.shape[1]].clamp(min=0)
    right = listed.new_zeros(x.shape).long().scatter_add(1, t, listed.long()) > 0
    costs = (1 - x.gather(1, t).unsqueeze(2) + x.unsqueeze(1)).clamp(min=0)  # (N, K, C)
    costs = costs * (listed.unsqueeze(2) & ~right.unsqueeze(1))
    losses = costs.sum((1, 2)) / classes
    return reduced(losses if input.ndim > 1 else losses.squeeze(0), reduction)


def _check_margin_target(name: str, input: Tensor, target: Tensor) -> None:
    """Refuse an input without classes, and targets or inputs of a dtype that the two losses of many classes lack."""
    check_tensors(name, input=input, target=target)
    if input.ndim > 2 or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    if target.dtype is not int64:
        raise RuntimeError(f"{name}: expected scalar type Long but found {SCALAR_NAMES[target.dtype]} (the target)")
    if input.dtype.itemsize < 4 or not input.is_floating_point():
        raise NotImplementedError(f"\"{name}\" not implemented for '{SCALAR_NAMES[input.dtype]}'")
