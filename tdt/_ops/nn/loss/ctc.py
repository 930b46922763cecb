"""Connectionist temporal classification: the likelihood of label sequences over all alignments with longer input sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt import _backend
from tdt._core.dtype import SCALAR_NAMES, float32, float64
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import chosen, float_operands, kernel
from tdt._ops.nn.loss._front import check_tensors, reduced, reduction_of
from tdt._ops.nn.pad import pad
from tdt._ops.shape.join import stack
from tdt.autograd._autocast import autocast
from tdt.autograd._backward import grad
from tdt.autograd._node_names import label
from tdt.autograd._op import op

Lengths = Tensor | Sequence[int]
# The logarithm of a path that does not exist. An infinite one would make the gradient of a sum of two such paths NaN.
NEVER = -1e30


@autocast("float32")
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> Tensor:  # fmt: skip
    """Negative log-probability of each target sequence, summed over all its alignments with the frames.

    The gradient is that of the logits under a log_softmax, as in PyTorch.

    Args:
        log_probs: log-probabilities of C classes, `blank` among them, at each frame.
        targets: padded label sequences, or all of them concatenated.
        input_lengths, target_lengths: numbers of frames and labels of each sample.
        blank: class that separates labels.
        reduction: "none", "sum" or "mean" (of the losses, each divided by its target's length).
        zero_infinity: whether a target that is too long for its frames has the loss 0 instead of inf.
    Shape: log_probs (T, N, C), targets (N, S) or (sum of target_lengths,), lengths (N,); or log_probs (T, C),
        targets (S,), lengths (1,) or (); result (), or (N,) with reduction="none".
    Raises:
        RuntimeError: when shapes or lengths do not fit, or `blank` is out of range.
        NotImplementedError: when `log_probs` is not float32 or float64.
        ValueError: when `reduction` is unknown.
    Source: Graves et al., "Connectionist Temporal Classification", 2006.

    >>> import tdt
    >>> from tdt.nn import functional
    >>> frames = tdt.zeros(3, 1, 2).log_softmax(2)
    >>> functional.ctc_loss(frames, tdt.tensor([[1]]), [3], [1])  # 6 of the 8 paths: 1 once, or several times in a row
    tensor(0.2877)
    """
    return alignments(log_probs, targets, input_lengths, target_lengths, blank, reduction_of(None, None, reduction),
                      zero_infinity)  # fmt: skip


def alignments(
    log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths, blank: int, reduction: str,
    zero_infinity: bool,
) -> Tensor:  # fmt: skip
    """`ctc_loss` for a checked `reduction`."""
    check_tensors("ctc_loss", log_probs=log_probs, targets=targets)
    if log_probs.dtype not in (float32, float64):
        raise NotImplementedError(f"\"ctc_loss\" not implemented for '{SCALAR_NAMES[log_probs.dtype]}'")
    one = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if one else log_probs
    if x.ndim != 3 or not x.numel():
        what = "Expected 3-dimensional tensor (T, N, C)" if x.numel() else "log_probs tensor must not be empty"
        raise RuntimeError(f"{what}, but got shape {list(log_probs.shape)} for argument #1 'log_probs'")
    xp, (frames, n, classes) = _backend.namespace(x._a), x.shape
    home = _backend.device_of(x._a)
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: {blank} is none of {classes} classes")
    frame_counts = _lengths(xp, home, "input_lengths", input_lengths, n, frames)
    label_counts = _lengths(xp, home, "target_lengths", target_lengths, n, None)
    labels = _padded(xp, _backend.to_device(targets._a, home), label_counts, blank, classes)
    nll = _ctc_loss(x, wrap(labels), wrap(frame_counts), wrap(label_counts), blank=blank)
    divisor: Any = xp.maximum(label_counts, 1) if reduction == "mean" else 1
    never = nll._a > -NEVER / 2
    if zero_infinity:
        nll = nll.masked_fill(wrap(never), 0)
    else:
        divisor = xp.where(never, 0, divisor)  # infinity
    if not isinstance(divisor, int):
        nll = nll / wrap(divisor.astype(nll._a.dtype))
    loss = reduced(nll.squeeze(0) if one else nll, reduction)
    return label(loss, "CtcLossBackward0") if reduction == "none" and not one and not zero_infinity else loss


def _walk(xp: Any, x: Any, labels: Any, blank: int) -> tuple[Any, Any, Any]:
    """What all paths go through: classes (N, P), where a leap may land and where a path may start, 0 or NEVER.

    A path walks through the labels with a blank before, between and behind them: at each frame it stays, goes one on, or
    leaps over a blank between different labels.
    """
    n, places = len(labels), 2 * labels.shape[1] + 1
    walk = xp.full((n, places), blank)
    walk[:, 1::2] = labels
    leap = xp.full((n, places), NEVER, x.dtype)
    leap[:, 3::2] = xp.where(labels[:, 1:] != labels[:, :-1], 0, NEVER)
    start = xp.full(places, NEVER, x.dtype)
    start[:2] = 0
    return walk, leap, start


def _sum(xp: Any, a: Any, b: Any, c: Any) -> Any:
    """log(exp(a) + exp(b) + exp(c))."""
    top = xp.maximum(xp.maximum(a, b), c)
    return top + xp.log(xp.exp(a - top) + xp.exp(b - top) + xp.exp(c - top))


def _float_frames(arrays: Sequence[Any], attributes: dict) -> bool:
    return float_operands(arrays[:1])


_GRADIENT = (kernel("ctc_cpu:ctc_loss_vjp", _float_frames),)


@op(dtypes=frozenset((float32, float64)), promote=(), broadcasts=False, aux=("steps", "sums"),
    shape=lambda x, labels, *rest, **how: labels[:1], autocast="float32",
    kernels=(kernel("ctc_cpu:ctc_loss", _float_frames),))  # fmt: skip
def _ctc_loss(xp, x, labels, frames, lengths, *, blank):
    walk, leap, start = _walk(xp, x, labels, blank)
    steps = xp.maximum(xp.take_along_axis(x, walk[None], 2), x.dtype.type(NEVER))  # (T, N, P)
    sums = xp.full(
        (*steps.shape[:2], steps.shape[2] + 2), NEVER, x.dtype
    )  # two places before the first, where no path is
    sums[0, :, 2:] = steps[0] + start
    for t in range(1, len(x)):
        last = sums[t - 1]
        sums[t, :, 2:] = _sum(xp, last[:, 2:], last[:, 1:-1], last[:, :-2] + leap) + steps[t]
    last_sums = sums[xp.maximum(frames - 1, 0), xp.arange(len(labels))]  # (N, 2 + P)
    nll = -xp.logaddexp(*xp.take_along_axis(last_sums, _last_two(xp, lengths), 1).T)
    without_frames = xp.where(lengths == 0, x.dtype.type(0), x.dtype.type(-NEVER))
    return xp.where(frames == 0, without_frames, nll), steps, sums


def _last_two(xp: Any, lengths: Any) -> Any:
    """Where paths may end, behind the two empty places: on the last label, and on the blank behind it."""
    return xp.stack([2 * lengths + 1, 2 * lengths + 2], axis=1)


@_ctc_loss.vjp("x")
def _(g, x, labels, frames, lengths, blank):
    nll = _recorded(x, labels._a, frames._a, lengths._a, blank)
    (slope,) = grad(nll, x, g, create_graph=True)
    return (slope + g.unsqueeze(1) * x.exp()).masked_fill(~wrap(_counted(x._a, frames._a)), 0)


def _counted(x: Any, frames: Any) -> Any:
    xp = _backend.namespace(x)
    return xp.arange(len(x))[:, None, None] < frames[:, None]


@_ctc_loss.fast_vjp("x")
def _(xp, g, x, labels, frames, lengths, out, steps, sums, blank):
    if fast := chosen(_GRADIENT, xp, x):
        return fast(g, x, labels, frames, lengths, out, steps, sums, blank=blank)
    walk, leap, _ = _walk(xp, x, labels, blank)
    n, places = walk.shape
    leap = xp.append(leap, xp.full((n, 2), NEVER, x.dtype), axis=1)[:, 2:]  # from each place
    from_end = 2 * lengths[:, None] - xp.arange(places)  # paths end on the last label, or on the blank behind it
    end = xp.where((from_end == 0) | (from_end == 1), x.dtype.type(0), x.dtype.type(NEVER))
    # later[s]: the sum over the paths from place s on, behind frame t; two places behind the last, where no path is.
    later, posterior = xp.full((n, places + 2), NEVER, x.dtype), xp.empty_like(steps)
    for t in range(len(x) - 1, -1, -1):
        step = later[:, :places]
        ahead = _sum(xp, step, later[:, 1:-1], later[:, 2:] + leap)
        ahead = xp.where((frames - 1 == t)[:, None], end, ahead)
        posterior[t] = sums[t, :, 2:] + ahead
        later[:, :places] = ahead + steps[t]
    # The logarithm of a posterior is at most 0, except for rounding errors, and for targets that have no path.
    posterior = xp.exp(xp.minimum(posterior + out[:, None], x.dtype.type(0)))
    classes = (walk[:, :, None] == xp.arange(x.shape[2])).astype(x.dtype)  # (N, P, C)
    by_class = xp.matmul(posterior.transpose(1, 0, 2), classes).transpose(1, 0, 2)
    # As in PyTorch, the gradient is that by the logits: it includes the probabilities.
    return xp.where(_counted(x, frames), (xp.exp(x) - by_class) * g[:, None], x.dtype.type(0))


def _recorded(x: Tensor, labels: Any, frames: Any, lengths: Any, blank: int) -> Tensor:
    """The forward as ops on tensors, for second gradients."""
    xp = _backend.namespace(labels)
    walk, *masks = _walk(xp, x._a, labels, blank)
    leap, start = map(wrap, masks)
    steps = x.gather(2, wrap(walk).unsqueeze(0).expand(len(x), *walk.shape)).clamp(min=NEVER).unbind(0)
    sums = [pad(steps[0] + start, (2, 0), value=NEVER)]
    for step in steps[1:]:
        last = sums[-1]
        here = last[:, 2:].logaddexp(last[:, 1:-1]).logaddexp(last[:, :-2] + leap) + step
        sums.append(pad(here, (2, 0), value=NEVER))
    last_sums = stack(sums)[wrap(xp.maximum(frames - 1, 0)), wrap(xp.arange(len(labels)))]
    return -last_sums.gather(1, wrap(_last_two(xp, lengths))).logsumexp(1)


def _lengths(xp: Any, home: Any, name: str, lengths: Lengths, n: int, most: int | None) -> Any:
    """Lengths as an array (N,); errors for other numbers of them, and for values that cannot be."""
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex():
            raise RuntimeError(f"{name} must be integral, not {SCALAR_NAMES[lengths.dtype]}")
        found = _backend.to_device(lengths._a, home).astype("int64").reshape(-1)
    elif isinstance(lengths, list | tuple):
        found = xp.asarray(lengths, dtype="int64").reshape(-1)
    else:
        raise TypeError(f"ctc_loss(): argument '{name}' must be Tensor or tuple of ints, not {type(lengths).__name__}")
    if len(found) != n:
        raise RuntimeError(f"{name} must be of size batch_size, {n}, not {len(found)}")
    if (least := int(found.min())) < 0:
        raise RuntimeError(f"Expected {name} to have value at least 0, but got value {least}")
    if most is not None and (largest := int(found.max())) > most:
        raise RuntimeError(f"Expected {name} to have value at most {most}, but got value {largest}")
    return found


def _padded(xp: Any, targets: Any, lengths: Any, blank: int, classes: int) -> Any:
    """Targets of either form as (N, S), S the longest, padded with blanks. RuntimeError if they have neither form."""
    longest, n = int(lengths.max()), len(lengths)
    if targets.ndim == 1:
        total = int(lengths.sum())
        if len(targets) != total:
            raise RuntimeError(f"Expected tensor to have size {total} at dimension 0, but got size {len(targets)} for argument "
                               "#2 'targets': one behind the other they are as many as target_lengths say")  # fmt: skip
        first = (lengths.cumsum() - lengths)[:, None] + xp.arange(longest)
        values = xp.append(targets, blank)[xp.minimum(first, total)]
    elif targets.ndim != 2:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 'targets'"
        )
    elif len(targets) != n:
        raise RuntimeError(f"Expected tensor to have size {n} at dimension 0, but got size {len(targets)} for argument #2 "
                           "'targets'")  # fmt: skip
    elif targets.shape[1] < longest:
        raise RuntimeError(f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.shape[1]} "
                           "for argument #2 'targets'")  # fmt: skip
    else:
        values = targets[:, :longest]
    labels = xp.where(xp.arange(longest) < lengths[:, None], values, blank).astype("int64")
    if labels.size and ((least := int(labels.min())) < 0 or int(labels.max()) >= classes):
        raise RuntimeError(f"targets must be classes from 0 to {classes - 1}; got {least} to {int(labels.max())}")
    return labels
