"""One module on several GPUs of one process: the batch is split, and each GPU computes its part with its own copy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tdt import _backend
from tdt._backend.device import as_device, device
from tdt._core.aliases import Device
from tdt._core.mode import is_grad_enabled
from tdt.nn.modules.module import Module
from tdt.nn.parallel.parallel_apply import parallel_apply
from tdt.nn.parallel.replicate import replicate
from tdt.nn.parallel.scatter_gather import Devices, gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module whose batch, along `dim`, is split among the GPUs `device_ids` (all by default).

    The module must lie on the first; the results come together on `output_device` (the first by default). With one GPU
    the module is moved there; without any it is called as it is.

    >>> import tdt
    >>> model = tdt.nn.DataParallel(tdt.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(tdt.ones(3, 2)).shape
    (['module.weight', 'module.bias'], tdt.Size([3, 1]))
    """

    def __init__(self, module: Module, device_ids: Devices | None = None, output_device: Device = None, dim: int = 0):
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
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """The results of the copies."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: int | str | device) -> Any:
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


def data_parallel(module: Module, inputs: Any, device_ids: Devices | None = None, output_device: Device = None, dim: int = 0,
                  module_kwargs: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """One call of `module` as `DataParallel` makes it; `inputs` is a tuple or one argument.

    >>> import tdt
    >>> tdt.nn.parallel.data_parallel(tdt.nn.ReLU(), -tdt.ones(2))
    tensor([0., 0.])
    """
    args = () if inputs is None else inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))
