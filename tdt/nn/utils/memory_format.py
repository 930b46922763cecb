"""The memory format of convolution weights, for the whole tree below a module."""

from __future__ import annotations

from typing import Any

from tdt._core.memory_format import memory_format
from tdt.nn import modules
from tdt.nn._types import M


def convert_conv2d_weight_memory_format(module: M, memory_format: memory_format) -> M:
    """Lay out the weight of every Conv2d and ConvTranspose2d in `memory_format`, channels_last for instance.

    Returns the module. The layers' results are then in that format too.

    >>> import tdt
    >>> conv = tdt.nn.Conv2d(8, 4, 3)
    >>> tdt.nn.utils.convert_conv2d_weight_memory_format(conv, tdt.channels_last).weight.stride()
    (72, 1, 24, 8)
    """
    return _convert(module, memory_format, (modules.Conv2d, modules.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: memory_format) -> M:
    """As `convert_conv2d_weight_memory_format`, for Conv3d and ConvTranspose3d.

    >>> import tdt
    >>> conv = tdt.nn.Conv3d(8, 4, 1)
    >>> tdt.nn.utils.convert_conv3d_weight_memory_format(conv, tdt.channels_last_3d).weight.stride()
    (8, 1, 8, 8, 8)
    """
    return _convert(module, memory_format, (modules.Conv3d, modules.ConvTranspose3d))


def _convert(module: Any, memory_format: Any, kinds: Any) -> Any:
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]
