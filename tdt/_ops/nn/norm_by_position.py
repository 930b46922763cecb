"""Normalisations as `tdt` itself exports them: the order of arguments differs from `nn.functional`, and few have defaults.

`cudnn_enabled` and `cudnn_enable` have no effect: PyTorch selects a library by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._core.calls import front
from tdt._core.dtype import float32
from tdt._core.tensor import Tensor
from tdt._ops._common import with_out
from tdt._ops.nn import batch_norm as norm
from tdt._ops.nn import group_norm as groups
from tdt._ops.nn import layer_norm as rows

Normed = tuple[Tensor, Tensor, Tensor]


@front
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
               running_var: Tensor | None, training: bool, momentum: float, eps: float,
               cudnn_enabled: bool) -> Tensor:  # fmt: skip
    """Normalise each channel over the batch to mean 0 and variance 1, then scale it by `weight` and shift it by `bias`.

    `nn.functional.batch_norm` computes the same, and takes the running statistics before weight and bias.

    Args:
        running_mean, running_var: updated in place in training, else used as the statistics.
        momentum: weight of the batch's statistics in the running ones.
        eps: added to the variance.
        cudnn_enabled: has no effect.
    Shape: input (N, C, *); weight, bias, running_mean and running_var (C,); result as input.
    Raises:
        ValueError: when a channel has a single value in training, or `eps` is negative, or 0 in training.
    Source: Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate
        Shift", 2015.

    >>> import tdt
    >>> tdt.batch_norm(tdt.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    return norm.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@front
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
                  running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
                  cudnn_enabled: bool) -> Tensor:  # fmt: skip
    """Normalise each channel of each sample to mean 0 and variance 1, then scale it by `weight` and shift it by `bias`.

    `nn.functional.instance_norm` computes the same, and takes the running statistics before weight and bias.

    Args:
        running_mean, running_var: updated in place with `use_input_stats`, else used as the statistics.
        use_input_stats: whether mean and variance are those of the input.
        momentum: weight of the input's statistics in the running ones.
        eps: added to the variance.
        cudnn_enabled: has no effect.
    Shape: input (N, C, *); weight, bias, running_mean and running_var (C,); result as input.
    Raises:
        ValueError: when a channel has a single value and `use_input_stats` is True.
    Source: Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.

    >>> import tdt
    >>> tdt.instance_norm(tdt.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000]]])
    """
    return groups.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@front
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05, cudnn_enabled: bool = True) -> Tensor:  # fmt: skip
    """Normalise each group of channels of each sample as `nn.functional.group_norm`, also groups of a single value.

    Args:
        cudnn_enabled: has no effect.
    Shape: input (N, C, *), weight and bias (C,); result as input.
    Raises:
        RuntimeError: when `num_groups` does not divide C, or shapes or dtypes do not fit.
    Source: Wu and He, "Group Normalization", 2018.

    >>> import tdt
    >>> tdt.group_norm(tdt.tensor([[[1.0, 3.0]]]), 1)
    tensor([[[-1.0000,  1.0000]]])
    """
    return groups.per_group(input, num_groups, weight, bias, eps)[0]


@front
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Normalise the last dimensions to mean 0 and variance 1, as `nn.functional.layer_norm`.

    Args:
        normalized_shape: sizes of the last dimensions.
        cudnn_enable: has no effect.
    Shape: input (*, *normalized_shape), weight and bias (*normalized_shape); result as input.
    Raises:
        RuntimeError: when shapes or dtypes do not fit.
    Source: Ba et al., "Layer Normalization", 2016.

    >>> import tdt
    >>> tdt.layer_norm(tdt.tensor([1.0, 3.0]), (2,))
    tensor([-1.0000,  1.0000])
    """
    return rows.layer_norm(input, normalized_shape, weight, bias, eps)


def _with_statistics(found: tuple[Tensor, Any, Any], input: Tensor, *weights: Tensor | None) -> Normed:
    """What is normed, and its statistics in the dtype of PyTorch's: float32 beside weights of it."""
    kind = float32 if any(w is not None and w.dtype is float32 for w in weights) else input.dtype
    out, *statistics = found
    return out, *(input.new_empty(0) if v is None else v.to(kind) for v in statistics)  # type: ignore[return-value]


@front
@with_out
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
                      running_var: Tensor | None, training: bool, momentum: float, eps: float) -> Normed:  # fmt: skip
    """`batch_norm` with the statistics that it used.

    Shape: input (N, C, *); weight, bias, running_mean and running_var (C,).
    Returns: the result, as input; and in training each channel's mean and 1 / √(variance + eps), both (C,), else two
        empty tensors.

    >>> import tdt
    >>> tdt.native_batch_norm(tdt.tensor([[1.0], [5.0]]), None, None, None, None, True, 0.1, 0.0)[1:]
    (tensor([3.]), tensor([0.5000]))
    """
    found = norm.normed_and_statistics(input, running_mean, running_var, weight, bias, training, momentum, eps)
    out, mean, rstd = _with_statistics(found, input, weight, bias, running_mean, running_var)
    return out, mean.detach(), rstd.detach()


@front
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Normed:
    """`layer_norm` with the statistics that it used.

    Args:
        normalized_shape: sizes of the last dimensions.
    Shape: input (*, *normalized_shape), weight and bias (*normalized_shape).
    Returns: the result, as input; the mean and 1 / √(variance + eps) of each row, both (*, 1, …, 1).

    >>> import tdt
    >>> tdt.native_layer_norm(tdt.tensor([1.0, 5.0]), (2,), None, None, 0.0)
    (tensor([-1.,  1.]), tensor([3.]), tensor([0.5000]))
    """
    found = rows.normed_and_statistics(input, normalized_shape, weight, bias, eps)
    out, mean, rstd = _with_statistics(found, input, weight, bias)
    return out, mean.detach(), rstd.detach()


@front
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
                      group: int, eps: float) -> Normed:  # fmt: skip
    """`group_norm` with the statistics that it used.

    Args:
        N: samples.
        C: channels.
        HxW: values of a channel.
        group: number of groups.
    Shape: input (N, C, *), weight and bias (C,).
    Returns: the result, as input; the mean and 1 / √(variance + eps) of each group, both (N, group).
    Raises:
        RuntimeError: when `input` does not have N · C · HxW elements, or other sizes or dtypes do not fit.

    >>> import tdt
    >>> tdt.native_group_norm(tdt.tensor([[[1.0, 5.0]]]), None, None, 1, 1, 2, 1, 0.0)[1:]
    (tensor([[3.]]), tensor([[0.5000]]))
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"Expected input of N * C * HxW = {N * C * HxW} elements, but got {input.numel()}")
    return _with_statistics(groups.per_group(input, group, weight, bias, eps), input, weight, bias)


__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "native_batch_norm", "native_group_norm",
    "native_layer_norm",
]  # fmt: skip
