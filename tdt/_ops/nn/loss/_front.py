"""Helpers of the losses: reductions, and errors for arguments that do not fit."""

from __future__ import annotations

import warnings

from tdt._core.errors import constant
from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import tensor_argument

REDUCTIONS = ("none", "mean", "sum")


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, or the one that the deprecated arguments name, with a warning; ValueError for an unknown one."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    elif reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3)
        return "mean"
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction; use one of {', '.join(REDUCTIONS)}")
    return reduction


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Their mean, their sum, or the losses themselves."""
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def check_tensors(function: str, **tensors: Tensor) -> None:
    """TypeError for the first of `tensors`, the leading arguments of `function`, that is not a tensor."""
    for position, (name, value) in enumerate(tensors.items(), 1):
        tensor_argument(function, value, name, position)


def check_constant(function: str, **tensors: Tensor | None) -> None:
    """RuntimeError for one of `tensors` that requires grad, of a function that has no gradient for it in PyTorch."""
    for name, t in tensors.items():
        if t is not None and state.grad and t.requires_grad:
            raise constant(function, name)


def check_pair(name: str, input: Tensor, target: Tensor) -> None:
    """TypeError for an argument that is not a tensor; a warning where the shapes differ."""
    check_tensors(name, input=input, target=target)
    if input.shape != target.shape:
        warnings.warn(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
                      "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                      stacklevel=3)  # fmt: skip
