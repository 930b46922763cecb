"""Copies of a module on several devices."""

from __future__ import annotations

from typing import Any

from tdt._backend.device import as_device, device
from tdt.nn.modules.module import Module
from tdt.nn.parallel.scatter_gather import Devices

__all__ = ["replicate"]


def replicate(network: Module, devices: Devices, detach: bool = False) -> list[Any]:
    """A copy of the module on each device; the copies' gradients flow to the module's parameters, unless `detach`.

    Their parameters are plain tensors: they are not in `parameters()`.

    >>> import tdt
    >>> from tdt import nn
    >>> [len(list(copied.parameters())) for copied in tdt.nn.parallel.replicate(nn.Linear(1, 1), ["cpu", "cpu"])]
    [0, 0]
    """
    return [_replica(network, as_device(where), detach) for where in devices]


def _replica(network: Module, where: device, detach: bool) -> Module:
    tensors = {id(t): t.detach().to(where) if detach else t.to(where) for t in network.parameters()}
    tensors |= {id(t): t.detach().to(where) for t in network.buffers()}
    copies: dict[int, Any] = {id(module): module.__new__(type(module)) for module in network.modules()}
    for module in network.modules():
        own = copies[id(module)].__dict__
        own.update(module.__dict__)
        own["_modules"] = {name: child and copies[id(child)] for name, child in module._modules.items()}
        own["_buffers"] = {name: t if t is None else tensors[id(t)] for name, t in module._buffers.items()}
        own["_parameters"] = {name: None for name, t in module._parameters.items() if t is None}
        own.update({name: tensors[id(t)] for name, t in module._parameters.items() if t is not None})
    return copies[id(network)]
