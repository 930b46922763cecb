"""Losses that `tdt` itself exports: their reduction is a number, 1 for the mean, 2 for the sum, else none, as by default."""

from __future__ import annotations

from tdt._core.calls import check_call, integer
from tdt._core.tensor import Tensor
from tdt._ops.nn.loss import binary, ctc, likelihood
from tdt._ops.nn.loss import margin as margins

__all__ = [
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss", "hinge_embedding_loss", "kl_div",
    "margin_ranking_loss", "poisson_nll_loss", "triplet_margin_loss",
]  # fmt: skip


def _name_of(reduction: int) -> str:
    """The name of a reduction; TypeError for what is no integer."""
    try:
        return {1: "mean", 2: "sum"}.get(integer(reduction), "none")
    except TypeError:
        check_call()
        raise


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     pos_weight: Tensor | None = None, reduction: int = 0) -> Tensor:  # fmt: skip
    """Binary cross-entropy of sigmoid(input), as `nn.functional.binary_cross_entropy_with_logits`.

    Args:
        reduction: 0 none, 1 mean, 2 sum.
    Shape: input (*), target the same, weight and pos_weight broadcastable to it; result (), or (*) with reduction=0.
    Raises:
        RuntimeError: when `target` is not floating-point, or shapes do not broadcast.

    >>> import tdt
    >>> tdt.binary_cross_entropy_with_logits(tdt.zeros(2), tdt.ones(2), reduction=2)
    tensor(1.3863)
    """
    return binary.with_logits(input, target, weight, pos_weight, _name_of(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """1 - cos of the angle between the inputs where `target` is 1, max(0, cos - margin) where it is -1.

    Args:
        reduction: 0 none, 1 mean, 2 sum.
    Shape: input1 and input2 (N, D), target (N,), or (D,) and (); result (), or as target with reduction=0.
    Raises:
        RuntimeError: when the numbers of dimensions do not fit.

    >>> import tdt
    >>> tdt.cosine_embedding_loss(tdt.ones(1, 2), tdt.ones(1, 2), tdt.tensor([-1]), 0.25)
    tensor([0.7500])
    """
    return margins.cosine(input1, input2, target, margin, _name_of(reduction))


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: ctc.Lengths, target_lengths: ctc.Lengths, blank: int = 0,
             reduction: int = 0, zero_infinity: bool = False) -> Tensor:  # fmt: skip
    """Connectionist temporal classification loss, as `nn.functional.ctc_loss`.

    Args:
        reduction: 0 none, 1 mean of the losses divided by their target's length, 2 sum.
    Shape: log_probs (T, N, C), targets (N, S) or (sum of target_lengths,), lengths (N,); or log_probs (T, C),
        targets (S,); result (), or (N,) with reduction=0.
    Raises:
        RuntimeError: when shapes or lengths do not fit.
        NotImplementedError: when `log_probs` is not float32 or float64.
    Source: Graves et al., "Connectionist Temporal Classification", 2006.

    >>> import tdt
    >>> tdt.ctc_loss(tdt.zeros(3, 1, 2).log_softmax(2), tdt.tensor([[1]]), [3], [1])
    tensor([0.2877])
    """
    return ctc.alignments(log_probs, targets, input_lengths, target_lengths, blank, _name_of(reduction), zero_infinity)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`input` where `target` is 1, max(0, margin - input) where it is -1.

    Args:
        reduction: 0 none, 1 mean, 2 sum.
    Shape: input (*), target the same; result (), or (*) with reduction=0.

    >>> import tdt
    >>> tdt.hinge_embedding_loss(tdt.tensor([0.25]), tdt.tensor([-1]))
    tensor([0.7500])
    """
    return margins.hinge(input, target, margin, _name_of(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """Pointwise Kullback-Leibler divergence of the distribution `target` from log-probabilities `input`.

    Args:
        reduction: 0 none, 1 mean over all elements, 2 sum.
        log_target: whether `target` is log-probabilities too.
    Shape: input (*), target the same; result (), or (*) with reduction=0.
    Raises:
        RuntimeError: when a dtype is not floating-point.
    Source: Kullback and Leibler, "On Information and Sufficiency", 1951.

    >>> import tdt
    >>> tdt.kl_div(tdt.tensor([0.5, 0.5]).log(), tdt.tensor([1.0, 0.0]), 2)
    tensor(0.6931)
    """
    return likelihood.divergence(input, target, _name_of(reduction), log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """max(0, margin - target · (input1 - input2)): `target` 1 ranks `input1` higher, -1 ranks `input2` higher.

    Args:
        reduction: 0 none, 1 mean, 2 sum.
    Shape: input1, input2 and target broadcastable; result (), or the broadcast shape with reduction=0.

    >>> import tdt
    >>> tdt.margin_ranking_loss(tdt.tensor([1.0]), tdt.tensor([3.0]), tdt.ones(1))
    tensor([2.])
    """
    return margins.ranking(input1, input2, target, margin, _name_of(reduction))


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """Negative log-likelihood of counts `target` under Poisson distributions.

    Args:
        log_input: the rate is exp(input); else `input` itself.
        full: add Stirling's approximation of log(target!) where target > 1.
        eps: added to the rate before its logarithm, without `log_input`.
        reduction: 0 none, 1 mean, 2 sum.
    Shape: input (*), target the same; result (), or (*) with reduction=0.

    >>> import tdt
    >>> tdt.poisson_nll_loss(tdt.zeros(2), tdt.ones(2), True, False, 1e-8, 2)
    tensor(2.)
    """
    return likelihood.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_name_of(reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
                        eps: float = 1e-6, swap: bool = False, reduction: int = 0) -> Tensor:  # fmt: skip
    """max(0, margin + ‖anchor - positive‖ₚ - ‖anchor - negative‖ₚ).

    Args:
        eps: added to each difference.
        swap: use the smaller of the distances of `negative` from `anchor` and from `positive`.
        reduction: 0 none, 1 mean, 2 sum.
    Shape: anchor, positive and negative (*, D); result (), or (*) with reduction=0.
    Raises:
        ValueError: when `margin` is not positive.
        RuntimeError: when the numbers of dimensions differ.
    Source: Balntas et al., "Learning Local Feature Descriptors with Triplets and Shallow Convolutional Networks", 2016.

    >>> import tdt
    >>> tdt.triplet_margin_loss(tdt.zeros(1, 2), tdt.zeros(1, 2), tdt.ones(1, 2), margin=2.0)
    tensor([0.5858])
    """
    return margins.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_name_of(reduction))
