"""Channels-last memory for image models, where it does not change the numbers of a plain PyTorch script.

Convolution, pooling and batch normalisation of images are faster where the channels of a pixel lie side by side in memory.
But dropout and its like draw their random numbers in the order of memory, and views keep that order. So channels-last
tensors reach only layers that neither draw nor make views; every other layer is given contiguous inputs, as it has in a
script that never asks for channels-last.
"""

from __future__ import annotations

from typing import Any

import tdt
from tdt import Tensor, nn
from tdt._backend.layout import is_channels_last
from tdt.train.data.nested import mapped
from tdt.train.model import layers

CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)
# Layers whose values are the same for either memory format, and whose outputs lie in memory as their inputs do.
EITHER_FORMAT = (
    *CONVOLUTIONS, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.AvgPool2d, nn.MaxPool2d,
    nn.BatchNorm2d, nn.GroupNorm, nn.InstanceNorm2d, nn.SyncBatchNorm,
    nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity, nn.LeakyReLU, nn.Mish, nn.PReLU,
    nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Tanh,
    nn.ConstantPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.ZeroPad2d,
    nn.PixelShuffle, nn.PixelUnshuffle, nn.Upsample,
)  # fmt: skip
# Modules that hand tensors to the layers in them, and beyond that only add or concatenate.
CONTAINERS = (nn.Sequential, layers.Add, layers.Concat, layers.Graph, layers.Parallel, layers.Residual)


def use_channels_last(model: nn.Module) -> bool:
    """Give the convolutions of images channels-last weights, and all layers that need it contiguous inputs.

    Returns whether it did. Not in a model without such a convolution, nor in one with layers of the user's own, whose code
    may depend on strides, nor with layers that change their input in place: these would change a copy.

    >>> use_channels_last(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Dropout())), use_channels_last(nn.Conv3d(3, 8, 3))
    (True, False)
    """
    leaves = list(_leaves(model))
    others = [layer for layer in leaves if not isinstance(layer, EITHER_FORMAT)]
    if not any(isinstance(layer, CONVOLUTIONS) for layer in leaves):
        return False
    if any(not type(m).__module__.startswith("tdt.") for m in model.modules()):
        return False
    if any(getattr(layer, "inplace", False) for layer in others):
        return False
    for layer in others:
        layer.register_forward_pre_hook(_contiguous_inputs, with_kwargs=True)
    for layer in leaves:
        if isinstance(layer, CONVOLUTIONS):
            layer.to(memory_format=tdt.channels_last)
    return True


def _leaves(module: nn.Module) -> Any:
    """The layers that a forward pass calls, those of containers in the place of these."""
    own_forward = type(module).__module__.startswith("tdt.vision.models") and next(module.children(), None) is not None
    if not own_forward and not isinstance(module, CONTAINERS):
        yield module
        return
    for child in module.children():
        yield from _leaves(child)


def _contiguous_inputs(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return mapped(_contiguous, args), mapped(_contiguous, kwargs)


def _contiguous(value: Any) -> Any:
    return value.contiguous() if isinstance(value, Tensor) and is_channels_last(value._a) else value
