"""The channels-last memory format for image models, if it gives the same numbers as a plain PyTorch script.

Convolution, pooling and batch normalisation of images are faster in channels-last. But dropout and similar layers draw
random numbers in memory order, and views keep that order. So channels-last tensors reach only layers that neither draw nor
create views; every other layer gets contiguous inputs, as in a script without channels-last.
"""

from __future__ import annotations

from typing import Any

import tdt
from tdt import Tensor, nn
from tdt._backend.layout import is_channels_last
from tdt.train.data.nested import mapped
from tdt.train.model import layers

CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)
# Layers whose values do not depend on the memory format, and whose outputs have that of their inputs.
EITHER_FORMAT = (
    *CONVOLUTIONS, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.AvgPool2d, nn.MaxPool2d,
    nn.BatchNorm2d, nn.GroupNorm, nn.InstanceNorm2d, nn.SyncBatchNorm,
    nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity, nn.LeakyReLU, nn.Mish, nn.PReLU,
    nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Tanh,
    nn.ConstantPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.ZeroPad2d,
    nn.PixelShuffle, nn.PixelUnshuffle, nn.Upsample,
)  # fmt: skip
# Containers, which only pass tensors to their layers, add or concatenate.
CONTAINERS = (nn.Sequential, layers.Add, layers.Concat, layers.Graph, layers.Parallel, layers.Residual)


def use_channels_last(model: nn.Module) -> bool:
    """Convert the weights of Conv2d to channels-last, and make inputs contiguous for layers that need it.

    Does nothing for a model without such convolutions, with layers of the user's own, whose code may depend on strides,
    or with layers that change their input in place, which would change a copy.

    Returns:
        Whether the model takes channels-last images.

    >>> import tdt
    >>> from tdt.train.model.memory_format import use_channels_last
    >>> use_channels_last(tdt.nn.Sequential(tdt.nn.Conv2d(3, 8, 3), tdt.nn.Dropout())), use_channels_last(tdt.nn.Conv3d(3, 8, 3))
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
    """The layers that a forward pass calls, without containers."""
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
