"""The normalisations as `tdt` itself has them: other orders of arguments than in `nn.functional`, none by default.

`cudnn_enabled` and `cudnn_enable` change nothing: they say which library may be used, in PyTorch, not what comes out.
"""

from __future__ import annotations

from typing import Any

from tdt._ops import norm
from tdt._ops.group_norm import per_group
from tdt._ops.layer_norm import layer_norm as functional_layer_norm
from tdt._tensor import Tensor


def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
               running_var: Tensor | None, training: bool, momentum: float, eps: float,
               cudnn_enabled: bool) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm`, with the layer's arguments in another order.

    >>> import tdt
    >>> tdt.batch_norm(tdt.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    return norm.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
                  running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
                  cudnn_enabled: bool) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm`, with the layer's arguments in another order.

    >>> import tdt
    >>> tdt.instance_norm(tdt.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000]]])
    """
    return norm.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05, cudnn_enabled: bool = True) -> Tensor:  # fmt: skip
    """`nn.functional.group_norm`, which takes groups of a single number too.

    >>> import tdt
    >>> tdt.group_norm(tdt.tensor([[[1.0, 3.0]]]), 1)
    tensor([[[-1.0000,  1.0000]]])
    """
    return per_group(input, num_groups, weight, bias, eps)


def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05, cudnn_enable: bool = True) -> Tensor:  # fmt: skip
    """`nn.functional.layer_norm`.

    >>> import tdt
    >>> tdt.layer_norm(tdt.tensor([1.0, 3.0]), (2,))
    tensor([-1.0000,  1.0000])
    """
    return functional_layer_norm(input, normalized_shape, weight, bias, eps)


__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm"]
