"""Losses from likelihoods of other distributions: Poisson's, Gauss's, and the divergence of two distributions."""

from __future__ import annotations

import math
import warnings

from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._ops.nn.loss._front import check_tensors, reduced, reduction_of
from tdt.amp._autocast import autocast


@autocast("float32")
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-likelihood of counts `target` under Poisson distributions of rate exp(input), or `input` itself.

    input, target: same shape. eps: added to a rate before its logarithm. full: add Stirling's approximation of
    log(target!) where target > 1. Returns the mean, the sum, or that shape with reduction="none".

    >>> import tdt
    >>> poisson_nll_loss(tdt.zeros(2), tdt.tensor([0.0, 1.0]))
    tensor(1.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("poisson_nll_loss", input=input, target=target)
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Minus the log-likelihood of `target` under normal distributions of mean `input` and variance `var`.

    input, target: (N, *). var: that shape, or with a last dimension of 1, or without it; a float for all. It is held at
    eps at least, and the gradient is of the variance so held. full: add the constant log(2π) / 2. Returns the mean, the
    sum, or that shape with reduction="none". ValueError for a negative variance or one of another shape.

    >>> import tdt
    >>> gaussian_nll_loss(tdt.zeros(2), tdt.ones(2), tdt.ones(2))
    tensor(0.5000)
    """
    check_tensors("gaussian_nll_loss", input=input)
    if isinstance(var, float):
        var = input.new_full(input.shape, var)
    if bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        # Either one variance for a row, or one where the input has several, in a single dimension.
        differing = [m for n, m in zip(input.shape, var.shape, strict=False) if n != m]
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or sum(differing) != 1:
            raise ValueError(f"var is of incorrect size: {list(var.shape)} for an input {list(input.shape)}")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid; use one of none, mean, sum")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    losses = 0.5 * (var.log() + (input - target) ** 2 / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@autocast("float32")
def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
           reduction: str = "mean", log_target: bool = False) -> Tensor:  # fmt: skip
    """Divergence of the distribution `target` from the one whose log-probabilities are `input`, element by element.

    input, target: same shape; log_target: the target is log-probabilities too. reduction: sum, none, batchmean (the sum
    over the size of the first dimension: the divergence itself) or mean (over all elements, with a warning).

    >>> import tdt
    >>> kl_div(tdt.tensor([[0.5, 0.5]]).log(), tdt.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    if size_average is None and reduce is None and reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.",
            stacklevel=2,
        )
    by_batch = size_average is None and reduce is None and reduction == "batchmean"
    reduction = "sum" if by_batch else reduction_of(size_average, reduce, reduction)
    total = divergence(input, target, reduction, log_target)
    return total / input.shape[0] if by_batch and input.ndim else total


def divergence(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    """`kl_div` for the three reductions that all losses have."""
    check_tensors("kl_div", input=input, target=target)
    if not (input.is_floating_point() and target.is_floating_point()):
        kind = "Complex" if input.is_complex() or target.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    losses = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    return reduced(losses, reduction)
