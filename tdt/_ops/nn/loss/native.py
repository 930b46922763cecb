"""The losses that `torch` itself exports: their reduction is a number, 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt._ops.nn.loss import binary, ctc, likelihood
from tdt._ops.nn.loss import margin as margins
from tdt._ops.nn.loss._front import REDUCTIONS

__all__ = [
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss", "hinge_embedding_loss", "kl_div",
    "margin_ranking_loss", "poisson_nll_loss", "triplet_margin_loss",
]  # fmt: skip


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     pos_weight: Tensor | None = None, reduction: int = 1) -> Tensor:  # fmt: skip
    """See `nn.functional.binary_cross_entropy_with_logits`.

    >>> import tdt
    >>> tdt.binary_cross_entropy_with_logits(tdt.zeros(2), tdt.ones(2), reduction=2)
    tensor(1.3863)
    """
    return binary.with_logits(input, target, weight, pos_weight, REDUCTIONS[reduction])


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """See `nn.functional.cosine_embedding_loss`.

    >>> import tdt
    >>> tdt.cosine_embedding_loss(tdt.ones(1, 2), tdt.ones(1, 2), tdt.tensor([-1]), 0.25)
    tensor(0.7500)
    """
    return margins.cosine(input1, input2, target, margin, REDUCTIONS[reduction])


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: ctc.Lengths, target_lengths: ctc.Lengths, blank: int = 0,
             reduction: int = 1, zero_infinity: bool = False) -> Tensor:  # fmt: skip
    """See `nn.functional.ctc_loss`.

    >>> import tdt
    >>> tdt.ctc_loss(tdt.zeros(3, 1, 2).log_softmax(2), tdt.tensor([[1]]), [3], [1])
    tensor(0.2877)
    """
    return ctc.alignments(
        log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity
    )


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """See `nn.functional.hinge_embedding_loss`.

    >>> import tdt
    >>> tdt.hinge_embedding_loss(tdt.tensor([0.25]), tdt.tensor([-1]))
    tensor(0.7500)
    """
    return margins.hinge(input, target, margin, REDUCTIONS[reduction])


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """See `nn.functional.kl_div`.

    >>> import tdt
    >>> tdt.kl_div(tdt.tensor([0.5, 0.5]).log(), tdt.tensor([1.0, 0.0]), 2)
    tensor(0.6931)
    """
    return likelihood.divergence(input, target, REDUCTIONS[reduction], log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """See `nn.functional.margin_ranking_loss`.

    >>> import tdt
    >>> tdt.margin_ranking_loss(tdt.tensor([1.0]), tdt.tensor([3.0]), tdt.ones(1))
    tensor(2.)
    """
    return margins.ranking(input1, input2, target, margin, REDUCTIONS[reduction])


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """See `nn.functional.poisson_nll_loss`.

    >>> import tdt
    >>> tdt.poisson_nll_loss(tdt.zeros(2), tdt.ones(2), True, False, 1e-8, 2)
    tensor(2.)
    """
    return likelihood.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=REDUCTIONS[reduction])


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
                        eps: float = 1e-6, swap: bool = False, reduction: int = 1) -> Tensor:  # fmt: skip
    """See `nn.functional.triplet_margin_loss`.

    >>> import tdt
    >>> tdt.triplet_margin_loss(tdt.zeros(1, 2), tdt.zeros(1, 2), tdt.ones(1, 2), margin=2.0)
    tensor(0.5858)
    """
    return margins.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=REDUCTIONS[reduction]
    )
