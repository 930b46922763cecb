"""Losses of classes: cross-entropy fused with its softmax, negative log-likelihood."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import repeatable
from tdt._core.dtype import FLOATING, SCALAR_NAMES, int64, uint8
from tdt._core.mode import state
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import chosen, float_logits, gpu_floats, gpu_kernel, kernel, lazy, prepares, total
from tdt._kernels._threads import THREADS
from tdt._ops.nn.loss._front import check_tensors, reduction_of
from tdt._ops.nn.softmax import _log_softmax, log_softmax, softmax
from tdt.autograd._autocast import autocast
from tdt.autograd._node_names import label, ranks
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape


def _reduced_shape(x: tuple, target: tuple, *rest: Any, reduction: str, **attributes: Any) -> tuple:
    return target if reduction == "none" else ()


def _rows(a: Any) -> Any:
    """(N, C, *d) or (C,) as (N·d, C): a view where there is nothing behind the classes."""
    if a.ndim < 3:
        return a.reshape(a.shape[0] if a.ndim > 1 else 1, a.shape[-1])
    return a.transpose(0, *range(2, a.ndim), 1).reshape(math.prod((a.shape[0], *a.shape[2:])), a.shape[1])


UNKNOWN_CLASS = "Target {value} is out of bounds; there are {limit} classes, 0 to {last}."


def _shares(xp: Any, target: Any, weight: Any, classes: int, dtype: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """(class of every row, its weight or None where all are 1, whether it is ignored or None where none is).

    IndexError for an unknown class; of a GPU at the next read from it.
    """
    t = target.reshape(-1)
    if t.dtype != np.int64:
        t = t.astype(np.int64)
    ignored = None
    if xp is not np:
        ignored = t == ignore_index
        if not 0 <= ignore_index < classes:
            t = xp.where(ignored, 0, t)
        if t.size:
            _backend.expect_below(t.view(np.uint64), classes, UNKNOWN_CLASS)
    elif t.size and (bad := t.view(np.uint64) >= classes).any():
        ignored = t == ignore_index
        if (bad & ~ignored).any():
            value = int(t[bad & ~ignored][0])
            raise IndexError(UNKNOWN_CLASS.format(value=value, limit=classes, last=classes - 1))
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


def _norm(xp: Any, losses: Any, share: Any) -> Any:
    """What a mean of the losses is divided by."""
    return xp.asarray(losses.size, losses.dtype) if share is None else share.sum()


def _reduce(xp: Any, losses: Any, norm: Any, reduction: str, target: Any) -> Any:
    """`losses` (one per row, already weighted), reduced by `reduction`; norm: what a mean is divided by."""
    if reduction == "none":
        return losses.reshape(target.shape)
    return losses.sum() if reduction == "sum" else losses.sum() / norm


def _slope(g: Any, norm: Any) -> Any:
    """The gradient in the losses of the rows, before they are weighted: (rows,), or 0-d for all."""
    return g.reshape(-1) if g.ndim else g if norm is None else g / norm


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
) -> tuple[Tensor, Tensor, Tensor]:
    """For the rules: how much each row counts (N, *d), in a mean divided by the sum; that at its class, 0 elsewhere; and how
    much it would count without weights."""
    a = x._a
    xp = _backend.namespace(a)
    classes = a.shape[1] if a.ndim > 1 else a.shape[0]
    t, share, ignored = _shares(xp, target._a, None if weight is None else weight._a, classes, a.dtype, ignore_index)
    ones = xp.ones(t.shape, a.dtype)
    each, every = ones if share is None else share, ones if ignored is None else (~ignored).astype(a.dtype)
    if reduction == "mean":
        norm = each.sum()
        each, every = _weighed(xp, 1 / norm, each, ignored), _weighed(xp, 1 / norm, every, ignored)
    return wrap(each.reshape(target.shape)), wrap(_onehot(xp, t, each, a.shape)), wrap(every.reshape(target.shape))


def _spread(g: Tensor, x: Tensor) -> Tensor:
    """A gradient of shape (N, *d), or 0-d, reshaped to broadcast against (N, C, *d)."""
    return g.unsqueeze(1 if x.ndim > 1 else 0) if g.ndim else g


def _nll_node_name(node: Any) -> str:
    return "NllLossBackward0" if ranks(node)[0] <= 2 else "NllLoss2DBackward0"


_NLL = (kernel("class_loss_cpu:prepared_nll_loss", float_logits),)
_NLL_GRAD = kernel("class_loss_cpu:nll_loss_vjp", float_logits)
_ON_GPU = (gpu_kernel("class_loss_gpu:cross_entropy", gpu_floats),)
_GRAD_ON_GPU = lazy("class_loss_gpu:cross_entropy_vjp")


@op(
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    constant=("weight",),
    aux=("t", "share", "ignored", "norm"),
    shape=_reduced_shape,
    node=_nll_node_name,
    autocast="float32",
    linked=True,
)
@repeatable
def _nll_loss(xp, x, target, weight=None, *, reduction, ignore_index):
    if xp is not np and (fast := chosen(_ON_GPU, xp, x, weight)):
        t, how = _flat(xp, target), {"reduction": reduction, "ignore_index": ignore_index, "smoothing": 0.0}
        loss, (known, norm) = fast(x, t, weight, **how, message=UNKNOWN_CLASS, logits=False)
        return loss.reshape(target.shape) if reduction == "none" else loss, t, known, None, norm
    if fast := chosen(_NLL, xp, x, weight):
        compute = fast(x.shape, target.shape, reduction=reduction, ignore_index=ignore_index)
        with contextlib.suppress(IndexError):  # of a class out of range, which is raised below with its number
            return compute(x, _flat(xp, target), weight)
    rows = _rows(x)
    t, share, ignored = _shares(xp, target, weight, rows.shape[1], x.dtype, ignore_index)
    losses = _weighed(xp, -rows[xp.arange(t.size), t], share, ignored)
    norm = _norm(xp, losses, share) if reduction == "mean" else None
    return _reduce(xp, losses, norm, reduction, target), t, share, ignored, norm


@prepares(_nll_loss.forward)
def _(x, target, weight=None, *, reduction, ignore_index, recorded):
    fast = chosen(_NLL, np, x, weight)
    if target.dtype != np.int64 or fast is None:
        return None
    compute = fast(x.shape, target.shape, reduction=reduction, ignore_index=ignore_index)
    return compute if recorded else lambda *operands: compute(*operands)[0]


@_nll_loss.vjp("x")
def _(g, x, target, weight, reduction, ignore_index):
    return _spread(-g, x) * _constants(x, target, weight, reduction, ignore_index)[1]


@_nll_loss.fast_vjp("x")
@repeatable
def _(xp, g, x, weight, t, share, ignored, norm, reduction, ignore_index):
    if share.__class__ is tuple:  # of the kernel on a GPU
        return _GRAD_ON_GPU(g, x, t, weight, share, norm, ignore_index=ignore_index, smoothing=0.0)
    if xp is np and _NLL_GRAD.when((x, weight), {}):
        return _NLL_GRAD.function(g, norm, t, weight, x.shape, ignore_index=ignore_index)
    g = _slope(g, norm)
    return _onehot(xp, t, -xp.broadcast_to(_weighed(xp, g, share, ignored), t.shape), x.shape)


@_nll_loss.prepares_vjp("x")
def _(xp, g, x, weight, t, share, ignored, norm, reduction, ignore_index):
    if not _NLL_GRAD.when((x, weight), {}) or not hasattr(_NLL_GRAD.function, "prepare"):
        return None
    compute = _NLL_GRAD.function.prepare(x.shape, ignore_index=ignore_index)
    return lambda g, x, target, weight, t, share, ignored, norm: compute(g, norm, t, weight)


_MEAN = kernel("class_loss_cpu:mean_cross_entropy", float_logits)
_MEAN_GRAD = kernel("class_loss_cpu:mean_cross_entropy_vjp", float_logits)
_LOSSES = (kernel("class_loss_cpu:cross_entropy", float_logits),)
_LOSSES_GRAD = kernel("class_loss_cpu:cross_entropy_vjp", float_logits)


def _cross_entropy_node_name(node: Any) -> str:
    return "AddBackward0" if node.attributes["smoothing"] else _nll_node_name(node)


@op(
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    constant=("weight",),
    aux=("t", "share", "ignored", "sums", "norm"),
    shape=_reduced_shape,
    node=_cross_entropy_node_name,
    autocast="float32",
)
@repeatable
def _cross_entropy(xp, x, target, weight=None, *, reduction, ignore_index, smoothing=0.0):
    if xp is np and _is_plain(x, target, weight, reduction, smoothing):
        if found := _MEAN.function(x, target, mean=reduction == "mean", ignore_index=ignore_index):
            return np.asarray(found[0]), target, None, None, *found[1:]
    if fast := chosen(_ON_GPU, xp, x, weight):
        t = _flat(xp, target)
        how = {"reduction": reduction, "ignore_index": ignore_index, "smoothing": smoothing}
        loss, (sums, norm) = fast(x, t, weight, **how, message=UNKNOWN_CLASS)
        return loss.reshape(target.shape) if reduction == "none" else loss, t, None, None, sums, norm
    if fast := chosen(_LOSSES, xp, x, weight):
        t = _flat(xp, target)
        if found := fast(x, t, weight, ignore_index=ignore_index, smoothing=smoothing):
            losses, shares, sums = found
            loss, norm = _reduced(losses, shares, reduction, target)
            return _defined(loss, norm, smoothing), t, shares, None, sums, norm
    rows = _rows(x)
    t, share, ignored = _shares(xp, target, weight, rows.shape[1], x.dtype, ignore_index)
    shifted = _shifted(rows)
    picked, every = shifted[xp.arange(t.size), t], None
    if smoothing:
        every = shifted.sum(axis=1) if weight is None else shifted @ weight
    logs = xp.log(xp.exp(shifted, out=shifted).sum(axis=1))
    losses = _weighed(xp, logs - picked, share, ignored)
    if every is not None:
        every = logs * x.dtype.type(_whole(weight, rows.shape[1])) - every
        every = every if ignored is None else _backend.where(xp, ignored, x.dtype.type(0), every)
        losses = losses * x.dtype.type(1 - smoothing) + every * x.dtype.type(smoothing / rows.shape[1])
    norm = _norm(xp, losses, share) if reduction == "mean" else None
    loss = _reduce(xp, losses, norm, reduction, target)
    return _defined(loss, norm, smoothing), t, share, ignored, None, norm


def _shifted(rows: Any) -> Any:
    """Logits (N, C) less the maximum of each row."""
    return rows - rows.max(axis=1, keepdims=True) if rows.size else rows.copy()


@prepares(_cross_entropy.forward)
def _(x, target, weight=None, *, reduction, ignore_index, smoothing, recorded):
    if not _is_plain(x, target, weight, reduction, smoothing):
        return None
    mean = _PREPARED_MEAN(mean=reduction == "mean", ignore_index=ignore_index)
    if not recorded:
        return lambda x, target, *weight: mean(x, target)[0]

    def loss_and_aux(x, target, *weight):
        loss, sums, norm = mean(x, target)
        return np.asarray(loss), target, None, None, sums, norm

    return loss_and_aux


_PREPARED_MEAN = lazy("class_loss_cpu:prepared_mean")


def _defined(loss: Any, norm: Any, smoothing: float) -> Any:
    """The loss; NaN for a mean of samples that all have weight 0, of which only the part for all classes is not."""
    return loss * norm.dtype.type(math.nan) if smoothing and norm is not None and norm == 0 else loss


def _is_plain(x: Any, target: Any, weight: Any, reduction: str, smoothing: float) -> bool:
    """Whether a kernel can compute the reduced loss in one short call, unless a class is out of range."""
    if weight is not None or smoothing or x.ndim != 2 or reduction == "none":
        return False
    return target.dtype == np.int64 and x.size < THREADS.rows and _MEAN.when((x,), {})


def _flat(xp: Any, target: Any) -> Any:
    """The classes, side by side, as int64."""
    return xp.ascontiguousarray(target, np.int64).reshape(-1)


def _reduced(losses: Any, shares: Any, reduction: str, target: Any) -> tuple[Any, Any]:
    """The losses of a kernel, reduced, and in a mean the sum of the shares."""
    if reduction == "none":
        return losses.reshape(target.shape), None
    from tdt._kernels import class_loss_cpu

    return class_loss_cpu.mean(losses, shares) if reduction == "mean" else (class_loss_cpu.total(losses), None)


def _whole(weight: Any, classes: int) -> float:
    """The sum of the weights of all classes."""
    return float(classes if weight is None else weight.sum())


def cross_entropy_rule(
    g: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    smoothing: float = 0.0,
) -> Tensor:
    """The gradient of the logits."""
    share, onehot, every = _constants(x, target, weight, reduction, ignore_index)
    probabilities = softmax(x, 1 if x.ndim > 1 else 0)
    if not smoothing:
        return _spread(g * share, x) * probabilities - _spread(g, x) * onehot
    classes = x.shape[1] if x.ndim > 1 else x.shape[0]
    own, of_all = g * (1 - smoothing), _spread(g * every * (smoothing / classes), x)
    if weight is None:
        every_class = of_all * (probabilities * classes - 1)
    else:
        every_class = of_all * (probabilities * weight.sum() - _over_classes(weight, x))
    return _spread(own * share, x) * probabilities - _spread(own, x) * onehot + every_class


def cross_entropy_slope(xp: Any, g: Any, x: Any, weight: Any, t: Any, share: Any, ignored: Any, sums: Any, norm: Any,
                        reduction: str, ignore_index: int, smoothing: float = 0.0) -> Any:  # fmt: skip
    """The same on arrays. It computes the exponentials again: to keep them would take as much memory as the logits.

    sums: of a kernel, the samples' maxima and sums; of one on a GPU a tuple of arrays that it has kept.
    """
    if sums.__class__ is tuple and xp is not np:
        return _GRAD_ON_GPU(g, x, t, weight, sums, norm, ignore_index=ignore_index, smoothing=smoothing)
    if sums is not None and share is None:
        return _MEAN_GRAD.function(x, t, sums, g, norm, ignore_index=ignore_index)
    g = _slope(g, norm)
    if sums is not None:
        grad = _LOSSES_GRAD.function(g, x, t, weight, sums, ignore_index=ignore_index, smoothing=smoothing)
        return grad.reshape(x.shape) if grad.ndim == 3 else _unrows(grad, x.shape)
    exps = _shifted(_rows(x))
    exps = xp.exp(exps, out=exps)
    sums, own, classes = exps.sum(axis=1), _weighed(xp, g, share, ignored), exps.shape[1]
    if not smoothing:
        grad = exps * (own / sums)[:, None]
        grad[xp.arange(t.size), t] -= own
        return _unrows(grad, x.shape)
    kind = exps.dtype.type
    own = xp.broadcast_to(own * kind(1 - smoothing), t.shape)
    every = xp.broadcast_to(g * kind(smoothing / classes), t.shape)
    every = every if ignored is None else _backend.where(xp, ignored, kind(0), every)
    grad = exps * ((own + every * kind(_whole(weight, classes))) / sums)[:, None]
    grad -= every[:, None] if weight is None else every[:, None] * weight
    grad[xp.arange(t.size), t] -= own
    return _unrows(grad, x.shape)


_cross_entropy.vjp("x")(cross_entropy_rule)
_cross_entropy.fast_vjp("x")(repeatable(cross_entropy_slope))


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
    return _nll_loss_of(input, target, weight, reduction, ignore_index)


@calls_by_shape
def _nll_loss_of(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int) -> Tensor:
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
    compute = _cross_entropy_of if state.handler is None else _cast_cross_entropy
    return compute(input, target, weight, reduction, ignore_index, label_smoothing)


@calls_by_shape
def _cross_entropy_of(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, label_smoothing: float
) -> Tensor:
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
    how: dict[str, Any] = {"reduction": reduction, "ignore_index": ignore_index, "smoothing": float(label_smoothing)}
    return _cross_entropy(input, target, weight, **how)


# Cast as one op, so that the call that follows is a remembered one.
_cast_cross_entropy = autocast("float32")(_cross_entropy_of)


def _probability_node_name(node: Any) -> str:
    return "DivBackward1" if node.attributes["reduction"] == "mean" else "NegBackward0"


@op(
    name="probability_loss", dtypes=FLOATING, aux=("logs",), node=_probability_node_name, autocast="float32",
    shape=lambda x, t, *, dim, reduction: (*x[:dim], *x[dim + 1 :]) if reduction == "none" else (),
)  # fmt: skip
def _divergence(xp, x, t, *, dim, reduction):
    """The cross-entropy of probabilities `t` and the softmax of `x`."""
    logs = _log_softmax.forward(xp, x, dim=dim)
    terms = logs * t
    if reduction == "none":
        return -total(terms, dim), logs
    loss = -total(terms)
    return loss if reduction == "sum" else loss / _samples(x, dim), logs


def _samples(x: Any, dim: int) -> int | float:
    return (math.prod((*x.shape[:dim], *x.shape[dim + 1 :])) if x.shape[dim] else 0) or math.nan


def _each_term(g: Any, x: Any, dim: int, reduction: str) -> Any:
    """The gradient that reaches the terms, broadcastable to them."""
    if reduction == "none":
        return -g.reshape(*x.shape[:dim], 1, *x.shape[dim + 1 :])
    return -g if reduction == "sum" else -(g / _samples(x, dim))


@_divergence.vjp("x", "t")
def _(g, needs, x, t, dim, reduction):
    each = _each_term(g, x, dim, reduction)
    terms = each * t
    return (
        terms - softmax(x, dim) * terms.sum(dim, keepdim=True) if needs[0] else None,
        each * log_softmax(x, dim) if needs[1] else None,
    )


@_divergence.fast_vjp("x", "t")
def _(xp, g, needs, x, t, logs, dim, reduction):
    each = _each_term(g, x, dim, reduction)
    slope: Any = _log_softmax.rules["x"].fast
    return slope(xp, each * t, logs, dim) if needs[0] else None, each * logs if needs[1] else None


def _probability_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    dim = 1 if input.ndim > 1 else 0
    if smoothing:
        target = target * (1 - smoothing) + smoothing / max(input.shape[dim], 1)
    if weight is None:
        return _divergence(input, target, dim=dim, reduction=reduction)
    terms = log_softmax(input, dim) * target * _over_classes(weight, input)
    if reduction == "none":
        return -terms.sum(dim)
    total = -terms.sum()
    return total if reduction == "sum" else label(total / _samples(input, dim), "DivBackward1")


def _over_classes(weight: Tensor, input: Tensor) -> Tensor:
    return weight.reshape(-1, *(1,) * (input.ndim - 2)) if input.ndim > 1 else weight
