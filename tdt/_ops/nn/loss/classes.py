"""Losses of classes: cross-entropy fused with its softmax, negative log-likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import FLOATING, SCALAR_NAMES, int64, uint8
from tdt._core.tensor import Tensor, alias, wrap
from tdt._kernels import chosen, float_rows, kernel
from tdt._ops._common import unrecorded
from tdt._ops.nn.loss._front import check_tensors, reduction_of
from tdt._ops.nn.softmax import log_softmax, softmax
from tdt.autograd._node_names import ranks
from tdt.autograd._op import op


def _reduced_shape(x: tuple, target: tuple, *rest: Any, reduction: str, **attributes: Any) -> tuple:
    return target if reduction == "none" else ()


def _rows(a: Any) -> Any:
    """(N, C, *d) or (C,) as (N·d, C): a view where there is nothing behind the classes."""
    if a.ndim < 3:
        return a.reshape(-1, a.shape[-1])
    return a.transpose(0, *range(2, a.ndim), 1).reshape(-1, a.shape[1])


def _shares(xp: Any, target: Any, weight: Any, classes: int, dtype: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """(class of every row, its weight or None where all are 1, whether it is ignored or None where none is).

    IndexError for an unknown class.
    """
    t = target.reshape(-1)
    if t.dtype != np.int64:
        t = t.astype(np.int64)
    bad = t.view(np.uint64) >= classes if t.size else t != t
    ignored = None
    if bad.any():
        ignored = t == ignore_index
        if (bad & ~ignored).any():
            raise IndexError(
                f"Target {int(t[bad & ~ignored][0])} is out of bounds; there are {classes} classes, 0 to {classes - 1}."
            )
        t = xp.where(ignored, 0, t)
    elif 0 <= ignore_index < classes:
        ignored = t == ignore_index
    share = None if weight is None else weight[t]
    if ignored is not None:
        share = (~ignored).astype(dtype) if share is None else _backend.where(xp, ignored, dtype.type(0), share)
    return t, share, ignored


def _weighed(xp: Any, values: Any, share: Any, ignored: Any) -> Any:
    """`values`, one per row or one for all, times the shares; 0 in ignored rows, even where the value is not finite."""
    if share is None:
        return values
    product = values * share
    return product if ignored is None else _backend.where(xp, ignored, product.dtype.type(0), product)


def _reduce(xp: Any, losses: Any, share: Any, reduction: str, target: Any) -> Any:
    """`losses` (one per row, already weighted), reduced by `reduction`."""
    if reduction == "none":
        return losses.reshape(target.shape)
    total = losses.sum()
    if reduction == "sum":
        return total
    return total / losses.dtype.type(losses.size) if share is None else total / share.sum()


def _scale(xp: Any, g: Any, share: Any, ignored: Any, reduction: str, rows: int) -> Any:
    """The gradient that reaches each row: an array of `rows` or 0-d."""
    if reduction == "none":
        g = g.reshape(-1)
    elif reduction == "mean":
        g = g / g.dtype.type(rows) if share is None else g / share.sum()
    return _weighed(xp, g, share, ignored)


def _onehot(xp: Any, t: Any, share: Any, shape: tuple) -> Any:
    """An array of `shape` (N, C, *d) with each row's share at its class and 0 elsewhere."""
    flat = xp.zeros((t.size, shape[1] if len(shape) > 1 else shape[0]), share.dtype)
    flat[xp.arange(t.size), t] = share
    return _unrows(flat, shape)


def _unrows(flat: Any, shape: tuple) -> Any:
    if len(shape) < 3:
        return flat.reshape(shape)
    return flat.reshape(shape[0], *shape[2:], shape[1]).transpose(0, len(shape) - 1, *range(1, len(shape) - 1))


def _constants(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """For the rules: how much each row counts (N, *d), in a mean divided by the sum; and that at its class, 0 elsewhere."""
    a = x._a
    xp = _backend.namespace(a)
    classes = a.shape[1] if a.ndim > 1 else a.shape[0]
    t, share, ignored = _shares(xp, target._a, None if weight is None else weight._a, classes, a.dtype, ignore_index)
    each = xp.ones(t.shape, a.dtype) if share is None else share
    if reduction == "mean":
        each = _weighed(xp, 1 / each.sum(), each, ignored)
    return wrap(each.reshape(target.shape)), wrap(_onehot(xp, t, each, a.shape))


def _spread(g: Tensor, x: Tensor) -> Tensor:
    """A gradient of shape (N, *d), or 0-d, reshaped to broadcast against (N, C, *d)."""
    return g.unsqueeze(1 if x.ndim > 1 else 0) if g.ndim else g


def _nll_node_name(node: Any) -> str:
    return "NllLossBackward0" if ranks(node)[0] <= 2 else "NllLoss2DBackward0"


@op(
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    aux=("t", "share", "ignored"),
    shape=_reduced_shape,
    node=_nll_node_name,
    autocast="float32",
)
def _nll_loss(xp, x, target, weight=None, *, reduction, ignore_index):
    rows = _rows(x)
    t, share, ignored = _shares(xp, target, weight, rows.shape[1], x.dtype, ignore_index)
    losses = _weighed(xp, -rows[xp.arange(t.size), t], share, ignored)
    return _reduce(xp, losses, share, reduction, target), t, share, ignored


@_nll_loss.vjp("x")
def _(g, x, target, weight, reduction, ignore_index):
    return _spread(-g, x) * _constants(x, target, weight, reduction, ignore_index)[1]


@_nll_loss.fast_vjp("x")
def _(xp, g, x, t, share, ignored, reduction):
    scale = -_scale(xp, g, share, ignored, reduction, t.size)
    return _onehot(xp, t, scale, x.shape)


_MEAN = kernel("softmax_cpu:mean_cross_entropy", float_rows)
_MEAN_GRAD = kernel("softmax_cpu:mean_cross_entropy_vjp", float_rows)
_ROWS = (kernel("softmax_cpu:cross_entropy", float_rows),)
_ROWS_GRAD = (kernel("softmax_cpu:cross_entropy_vjp", float_rows),)


@op(
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    aux=("t", "share", "ignored", "exps", "sums"),
    shape=_reduced_shape,
    node=_nll_node_name,
    autocast="float32",
)
def _cross_entropy(xp, x, target, weight=None, *, reduction, ignore_index):
    if weight is None and xp is np and _is_plain(x, target, reduction, ignore_index):
        found = _MEAN.function(x, target, mean=reduction == "mean")
        if found is not None:
            loss, exps, sums = found
            return np.asarray(loss), target, None, None, exps, sums
    rows = _rows(x)
    t, share, ignored = _shares(xp, target, weight, rows.shape[1], x.dtype, ignore_index)
    if (fast := chosen(_ROWS, xp, rows)) is not None:
        losses, exps, sums = fast(rows, t)
    else:
        shifted = rows - rows.max(axis=1, keepdims=True) if rows.size else rows
        picked = shifted[xp.arange(t.size), t]
        exps = xp.exp(shifted, out=shifted)
        sums = exps.sum(axis=1)
        losses = xp.log(sums) - picked
    losses = _weighed(xp, losses, share, ignored)
    return _reduce(xp, losses, share, reduction, target), t, share, ignored, exps, sums


def _is_plain(x: Any, target: Any, reduction: str, ignore_index: int) -> bool:
    """Whether a kernel can compute the reduced loss in one call, unless a class is out of range, as an ignored one may be."""
    if x.ndim != 2 or reduction == "none" or 0 <= ignore_index < x.shape[1] or target.dtype != np.int64:
        return False
    return _MEAN.when((x,), {})


def cross_entropy_rule(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int
) -> Tensor:
    """The gradient of the logits."""
    share, onehot = _constants(x, target, weight, reduction, ignore_index)
    return _spread(g * share, x) * softmax(x, 1 if x.ndim > 1 else 0) - _spread(g, x) * onehot


def cross_entropy_slope(xp: Any, g: Any, x_shape: tuple, t: Any, share: Any, ignored: Any, exps: Any, sums: Any,
                        reduction: str) -> Any:  # fmt: skip
    """The same on arrays, from the values that the forward saved."""
    if share is None and xp is np and reduction != "none" and len(x_shape) == 2 and _MEAN_GRAD.when((exps,), {}):
        return _MEAN_GRAD.function(exps, sums, t, g, mean=reduction == "mean")
    scale = _scale(xp, g, share, ignored, reduction, t.size)
    if (fast := chosen(_ROWS_GRAD, xp, exps)) is not None:
        return _unrows(fast(exps, sums, t, scale), x_shape)
    grad = exps * (scale / sums)[:, None]
    grad[xp.arange(t.size), t] -= scale
    return _unrows(grad, x_shape)


_cross_entropy.vjp("x")(cross_entropy_rule)
_cross_entropy.fast_vjp("x")(cross_entropy_slope)


def _check_classes(input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """Refuse class indices that do not fit the input, in PyTorch's words; returns them, 0-d for one sample (C,)."""
    x, t = input._a.shape, target._a.shape
    if len(x) == 2 and x[:1] == t and weight is None and target.dtype is int64:  # most calls
        return target
    if len(x) == 1:
        if len(t) == 1 and t != (1,):
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {t[0]}")
        if len(t) > 1:
            raise RuntimeError(
                "0D or 1D target tensor expected, multi-target not supported: one sample (C,) takes one class"
            )
        target = target.reshape(())
    elif not x:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    elif x[:1] != t[:1]:
        raise ValueError(f"Expected input batch_size ({x[0]}) to match target batch_size ({t[0] if t else 0}).")
    elif len(x) == 2 and len(t) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    elif t[1:] != x[2:]:
        raise RuntimeError(f"Expected target size {[x[0], *x[2:]]}, got {list(t)}")
    if target.dtype is not int64 and (target.dtype is not uint8 or len(x) > 2):
        expected = "Long or Byte" if len(x) < 3 else "Long"
        raise RuntimeError(f"expected target dtype to be {expected}, but got {SCALAR_NAMES[target.dtype]}")
    _check_weight(input, weight)
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {SCALAR_NAMES[input.dtype]} but found {SCALAR_NAMES[weight.dtype]} (the weight)"
        )
    return target


def _check_weight(input: Tensor, weight: Tensor | None) -> None:
    classes = input.shape[min(input.ndim - 1, 1)]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"weight tensor should be defined either for all {classes} classes or no classes but got weight "
                           f"tensor of shape: {list(weight.shape)}")  # fmt: skip


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log-probability of the right class.

    Args:
        input: log-probabilities of C classes.
        target: classes, int64 (uint8 too without d).
        weight: factor of each class; the mean is divided by the sum of the factors.
        size_average, reduce: deprecated forms of `reduction`.
        ignore_index: class that is left out.
        reduction: "none", "mean" or "sum".
    Shape: input (N, C, *d) or (C,), target (N, *d) or (), weight (C,); result (), or as target with reduction="none".
    Raises:
        ValueError: when the batch sizes differ, or `reduction` is unknown.
        RuntimeError: when other sizes or dtypes do not fit.
        IndexError: when a class is out of range.

    >>> import tdt
    >>> tdt.nn.functional.nll_loss(tdt.tensor([[-1.0, -2.0]]), tdt.tensor([1]))
    tensor(2.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("nll_loss", input=input, target=target)
    target = _check_classes(input, target, weight)
    return _nll_loss(input, target, weight, reduction=reduction, ignore_index=ignore_index)


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """Cross-entropy of softmax(input) with `target`.

    Args:
        input: logits of C classes.
        target: classes, int64; or probabilities.
        weight: factor of each class; with classes as target the mean is divided by the sum of the factors, else by N.
        size_average, reduce: deprecated forms of `reduction`.
        ignore_index: class that is left out; not for probabilities.
        reduction: "none", "mean" or "sum".
        label_smoothing: share of the uniform distribution that is mixed into the target, in [0, 1].
    Shape: input (N, C, *d) or (C,), target (N, *d) or (), or as input for probabilities, weight (C,); result (), or
        (N, *d) with reduction="none".
    Raises:
        RuntimeError: when sizes or dtypes do not fit, `label_smoothing` is not in [0, 1], or `ignore_index` is given with
            probabilities.
        ValueError: when the batch sizes differ, or `reduction` is unknown.
        IndexError: when a class is out of range.
    Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2016 (label smoothing).

    >>> import tdt
    >>> tdt.nn.functional.cross_entropy(tdt.zeros(1, 2), tdt.tensor([0]))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("cross_entropy", input=input, target=target)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input._a.shape == target._a.shape:
        if not target.is_floating_point():
            raise RuntimeError(
                f"Expected floating point type for target with class probabilities, got {SCALAR_NAMES[target.dtype]}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        _check_weight(input, weight)
        return _probability_loss(input, target, weight, reduction, label_smoothing)
    target = _check_classes(input, target, weight)
    if not label_smoothing:
        if weight is None and unrecorded(input, target) and _is_plain(input._a, target._a, reduction, ignore_index):
            found = _MEAN.function(input._a, target._a, mean=reduction == "mean")
            if found is not None:
                return alias(np.asarray(found[0]), None)
        return _cross_entropy(input, target, weight, reduction=reduction, ignore_index=ignore_index)
    return _smoothed(input, target, weight, reduction, ignore_index, label_smoothing)


def _probability_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    dim = 1 if input.ndim > 1 else 0
    if smoothing:
        target = target * (1 - smoothing) + smoothing / input.shape[dim]
    terms = log_softmax(input, dim) * target
    if weight is not None:
        terms = terms * _over_classes(weight, input)
    if reduction == "none":
        return -terms.sum(dim)
    total = -terms.sum()
    return total if reduction == "sum" else total / (input.numel() // input.shape[dim])


def _over_classes(weight: Tensor, input: Tensor) -> Tensor:
    return weight.reshape(-1, *(1,) * (input.ndim - 2)) if input.ndim > 1 else weight


def _smoothed(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, smoothing: float
) -> Tensor:
    """(1 - s) times the loss for the classes plus s / C times the loss for all classes."""
    dim = 1 if input.ndim > 1 else 0
    logs = log_softmax(input, dim)
    right = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    every = -(logs if weight is None else logs * _over_classes(weight, input)).sum(dim)
    ignored = target == ignore_index
    every = every.masked_fill(ignored.reshape(every.shape), 0)
    if reduction == "sum":
        every = every.sum()
    elif reduction == "mean":
        if weight is None:
            every = every.sum() / (target.numel() - ignored.sum())
        else:
            every = (
                every.sum()
                / weight[target.masked_fill(ignored, 0).long().reshape(-1)].masked_fill(ignored.reshape(-1), 0).sum()
            )
    return (1 - smoothing) * right + smoothing / input.shape[dim] * every
