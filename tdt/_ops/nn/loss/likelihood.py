"""Likelihood losses: Poisson and Gaussian negative log-likelihood, and the Kullback-Leibler divergence."""

from __future__ import annotations

import math
import warnings

from tdt._core.mode import no_grad, state
from tdt._core.tensor import Tensor
from tdt._ops.nn.loss._front import check_tensors, reduced, reduction_of
from tdt._ops.nn.loss.elements import _pair_loss
from tdt.autograd._autocast import autocast


@autocast("float32")
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Negative log-likelihood of counts `target` under Poisson distributions.

    Args:
        log_input: the rate is exp(input); else `input` itself.
        full: add Stirling's approximation of log(target!) where target > 1.
        size_average, reduce: deprecated forms of `reduction`.
        eps: added to the rate before its logarithm, without `log_input`.
        reduction: "none", "mean" or "sum".
    Shape: input (*), target the same; result (), or (*) with reduction="none".
    Raises:
        ValueError: when `reduction` is unknown.

    >>> import tdt
    >>> tdt.nn.functional.poisson_nll_loss(tdt.zeros(2), tdt.tensor([0.0, 1.0]))
    tensor(1.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_tensors("poisson_nll_loss", input=input, target=target)
    if log_input and not full and input.is_floating_point() and input.dtype is target.dtype:
        return _pair_loss("poisson_loss", input, target, reduction)
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log-likelihood of `target` under normal distributions of mean `input` and variance `var`.

    Args:
        var: variances, or one for all as a float; clamped at `eps` from below, which the gradient does not see.
        full: add the constant log(2π) / 2.
        reduction: "none", "mean" or "sum".
    Shape: input (*), target the same, var the same, or with 1 as one size, or without the last dimension; result (), or (*)
        with reduction="none".
    Raises:
        ValueError: when a variance is negative, `var` does not fit, or `reduction` is unknown.
    Source: Nix and Weigend, "Estimating the Mean and Variance of the Target Probability Distribution", 1994.

    >>> import tdt
    >>> tdt.nn.functional.gaussian_nll_loss(tdt.zeros(2), tdt.ones(2), tdt.ones(2))
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
    """Pointwise Kullback-Leibler divergence of the distribution `target` from log-probabilities `input`.

    Args:
        size_average, reduce: deprecated forms of `reduction`.
        reduction: "none", "sum", "batchmean" (sum over the first size: the divergence itself) or "mean" (over all
            elements, with a warning).
        log_target: whether `target` is log-probabilities too.
    Shape: input (*), target the same; result (), or (*) with reduction="none".
    Raises:
        RuntimeError: when a dtype is not floating-point.
        ValueError: when `reduction` is unknown.
    Source: Kullback and Leibler, "On Information and Sufficiency", 1951.

    >>> import tdt
    >>> tdt.nn.functional.kl_div(tdt.tensor([[0.5, 0.5]]).log(), tdt.tensor([[1.0, 0.0]]), reduction="batchmean")
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
    """`kl_div` for the reductions "none", "mean" and "sum"."""
    check_tensors("kl_div", input=input, target=target)
    if not (input.is_floating_point() and target.is_floating_point()):
        kind = "Complex" if input.is_complex() or target.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    # Where a target is 0, PyTorch's gradient of it is NaN, as that of the ops it composes the loss of.
    if input.dtype is target.dtype and not (state.grad and target.requires_grad):
        return _pair_loss("divergence_of_logs" if log_target else "divergence", input, target, reduction)
    losses = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    return reduced(losses, reduction)
