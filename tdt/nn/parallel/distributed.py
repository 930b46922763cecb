"""DistributedDataParallel in a group of one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tdt import distributed
from tdt._core.aliases import Device
from tdt.nn.modules.module import Module
from tdt.nn.parallel.scatter_gather import Devices

__all__ = ["DistributedDataParallel"]


class Reducer:
    """What averages the gradients of several processes, which some libraries call before a backward pass: nothing to do."""

    def prepare_for_backward(self, outputs: Sequence[Any]) -> None:
        """Nothing: every gradient is the mean over one process."""

    def _rebuild_buckets(self) -> bool:
        """False: gradients are not gathered in buckets."""
        return False


class DistributedDataParallel(Module):
    """Wrapper whose gradients are the mean over the processes of `tdt.distributed`; one process keeps its own.

    Args:
        device_ids, output_device: as in PyTorch; they must agree with the parameters' device.
        dim, broadcast_buffers, init_sync, process_group, bucket_cap_mb: accepted without effect on one process, as are
            all
            that follow.
    Raises:
        RuntimeError: when no parameter requires gradients.
        ValueError: when `distributed.init_process_group` was not called.

    >>> import tdt
    >>> tdt.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = tdt.nn.parallel.DistributedDataParallel(tdt.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(tdt.ones(3, 2)).shape
    (['module.weight', 'module.bias'], tdt.Size([3, 1]))
    >>> tdt.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, device_ids: Devices | None = None, output_device: Device = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: distributed.ProcessGroup | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        distributed.get_world_size(process_group)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that "
                               "requires a gradient.")  # fmt: skip
        self.module, self.dim, self.device_ids, self.output_device = module, dim, device_ids, output_device
        self.process_group = distributed.group.WORLD if process_group is None else process_group
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.reducer = Reducer()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What PyTorch logs of a training, as far as one process has it."""
        return {"world_size": 1, "rank": 0, "can_set_static_graph": False}

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
