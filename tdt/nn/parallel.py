"""One module on several GPUs of one process: the batch is split, and each GPU computes its part with its own copy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from tdt import _backend, distributed
from tdt._device import as_device, device
from tdt._ops.join import cat, stack
from tdt._tensor import Tensor
from tdt.autograd._mode import is_grad_enabled
from tdt.nn.modules.module import Module

Devices = Sequence[int | str | device]


def scatter(inputs: Any, target_gpus: Devices, dim: int = 0) -> Any:
    """`inputs` for each device: tensors are split along `dim`, in lists, tuples and dicts too; all else goes to each.

    >>> import tdt
    >>> scatter({"x": tdt.arange(3), "scale": 2}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'scale': 2}, {'x': tensor([2]), 'scale': 2}]
    """
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return tuple([part.to(as_device(where)) for part, where in zip(parts, target_gpus, strict=False)])
    if isinstance(inputs, (tuple, list, dict)) and inputs:
        values = inputs.values() if isinstance(inputs, dict) else inputs
        rows = zip(*[scatter(value, target_gpus, dim) for value in values], strict=False)
        if isinstance(inputs, dict):
            return [type(inputs)(zip(inputs, row, strict=True)) for row in rows]
        return [_rebuilt(inputs, row) for row in rows]
    return [inputs for _ in target_gpus]


def _rebuilt(like: Any, values: Any) -> Any:
    """A tuple, named tuple or list of the type of `like`."""
    return type(like)._make(values) if hasattr(like, "_fields") else type(like)(values)


def gather(outputs: Any, target_device: int | str | device, dim: int = 0) -> Any:
    """The devices' results as one on `target_device`: tensors are joined along `dim`, scalars become a vector.

    ValueError for dicts of different sizes.

    >>> import tdt
    >>> gather([(tdt.zeros(1), None), (tdt.ones(2), None)], "cpu")
    (tensor([0., 1., 1.]), None)
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [part.to(as_device(target_device)) for part in outputs]
        return stack(moved) if first.ndim == 0 else cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(part) != len(first) for part in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([part[key] for part in outputs], target_device, dim)) for key in first)
    return _rebuilt(first, [gather(row, target_device, dim) for row in zip(*outputs, strict=True)])


def replicate(network: Module, devices: Devices, detach: bool = False) -> list[Any]:
    """A copy of the module on each device; the copies' gradients flow to the module's parameters, unless `detach`.

    Their parameters are plain tensors: they are not in `parameters()`.

    >>> from tdt import nn
    >>> [len(list(copied.parameters())) for copied in replicate(nn.Linear(1, 1), ["cpu", "cpu"])]
    [0, 0]
    """
    return [_replica(network, as_device(where), detach) for where in devices]


def _replica(network: Module, where: device, detach: bool) -> Module:
    tensors = {id(t): t.detach().to(where) if detach else t.to(where) for t in network.parameters()}
    tensors |= {id(t): t.detach().to(where) for t in network.buffers()}
    made: dict[int, Any] = {id(module): module.__new__(type(module)) for module in network.modules()}
    for module in network.modules():
        own = made[id(module)].__dict__
        own.update(module.__dict__)
        own["_modules"] = {name: child and made[id(child)] for name, child in module._modules.items()}
        own["_buffers"] = {name: t if t is None else tensors[id(t)] for name, t in module._buffers.items()}
        own["_parameters"] = {name: None for name, t in module._parameters.items() if t is None}
        own.update({name: tensors[id(t)] for name, t in module._parameters.items() if t is not None})
    return made[id(network)]


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Sequence[dict] | None = None, devices: Any = None
) -> list[Any]:
    """The result of each module for its own inputs (a tuple, a list, or one argument), on its own device.

    The calls are made one after the other; GPUs compute at the same time, for a call does not wait for them.

    >>> from tdt import nn, ones
    >>> parallel_apply([nn.ReLU(), nn.Tanh()], [ones(1), (0 * ones(1),)])
    [tensor([1.]), tensor([0.])]
    """
    kwargs_tup = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    devices = [None] * len(modules) if devices is None else devices
    for given, what in ((inputs, "inputs"), (kwargs_tup, "kwargs_tup"), (devices, "devices")):
        if len(given) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {what} {len(given)}"
            )
    results = []
    for module, args, kwargs, where in zip(modules, inputs, kwargs_tup, devices, strict=True):
        with _backend.current(as_device(where)):
            results.append(module(*(args if isinstance(args, (list, tuple)) else (args,)), **kwargs))
    return results


class DataParallel(Module):
    """A module whose batch, along `dim`, is split among the GPUs `device_ids` (all by default).

    The module must lie on the first; the results come together on `output_device` (the first by default). With one GPU
    the module is moved there; without any it is called as it is.

    >>> import tdt
    >>> model = DataParallel(tdt.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(tdt.ones(3, 2)).shape
    (['module.weight', 'module.bias'], tdt.Size([3, 1]))
    """

    def __init__(self, module: Module, device_ids: Devices | None = None, output_device: Any = None, dim: int = 0):
        super().__init__()
        self.module, self.dim = module, dim
        count = _backend.cuda_device_count()
        listed = range(count) if device_ids is None else device_ids
        self.device_ids = [as_device(where) for where in listed] if count else []
        if self.device_ids:
            self.output_device = self.device_ids[0] if output_device is None else as_device(output_device)
        if len(self.device_ids) == 1:
            module.to(self.device_ids[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        return _split(self, inputs, kwargs)

    def replicate(self, module: Module, device_ids: Devices) -> list[Any]:
        """Copies of the module on the devices."""
        return replicate(module, device_ids, not is_grad_enabled())

    def scatter(self, inputs: tuple, kwargs: dict[str, Any] | None, device_ids: Devices) -> tuple[tuple, tuple]:
        """Positional and keyword arguments for each device; as many as the batch gives work to."""
        rows = scatter(inputs, device_ids, self.dim) if inputs else []
        named = scatter(kwargs, device_ids, self.dim) if kwargs else []
        count = max(len(rows), len(named), 1)
        return (*rows, *[()] * (count - len(rows))), (*named, *[{}] * (count - len(named)))

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """The results of the copies."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The results as one."""
        return gather(outputs, output_device, self.dim)


def _split(model: DataParallel, inputs: tuple, kwargs: dict[str, Any]) -> Any:
    """The forward of a model that has devices."""
    first = model.device_ids[0]
    for t in chain(model.module.parameters(), model.module.buffers()):
        if t.device != first:
            raise RuntimeError(f"module must have its parameters and buffers on device {first} (device_ids[0]) but found one "
                               f"of them on device: {t.device}")  # fmt: skip
    args, named = model.scatter(inputs, kwargs, model.device_ids)
    if len(model.device_ids) == 1:
        return model.module(*args[0], **named[0])
    replicas = model.replicate(model.module, model.device_ids[: len(args)])
    return model.gather(model.parallel_apply(replicas, args, named), model.output_device)


def data_parallel(module: Module, inputs: Any, device_ids: Devices | None = None, output_device: Any = None, dim: int = 0,
                  module_kwargs: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """One call of `module` as `DataParallel` makes it; `inputs` is a tuple or one argument.

    >>> import tdt
    >>> data_parallel(tdt.nn.ReLU(), -tdt.ones(2))
    tensor([0., 0.])
    """
    args = () if inputs is None else inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))


__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


class DistributedDataParallel(Module):
    """A module whose gradients are the mean over the processes of `tdt.distributed`: in one process, its own.

    Of the arguments after `dim` none changes what one process computes. RuntimeError for a module without a parameter
    that requires gradients, ValueError before `distributed.init_process_group`.

    >>> import tdt
    >>> tdt.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = DistributedDataParallel(tdt.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(tdt.ones(3, 2)).shape
    (['module.weight', 'module.bias'], tdt.Size([3, 1]))
    >>> tdt.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, device_ids: Devices | None = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        distributed.get_world_size(process_group)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that "
                               "requires a gradient.")  # fmt: skip
        self.module, self.dim, self.device_ids = module, dim, device_ids
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in this block only add up gradients, as every one does in one process."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """For processes whose batches end at different times; with one there is nothing to wait for."""
        yield
