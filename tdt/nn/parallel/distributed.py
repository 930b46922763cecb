"""One module in several processes: each computes a part of the batch, and gradients are averaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tdt import distributed
from tdt._core.aliases import Device
from tdt._core.mode import is_grad_enabled
from tdt.distributed._collectives import broadcast_tensors
from tdt.distributed._group import group_of
from tdt.nn.modules.module import Module
from tdt.nn.parallel._reducer import Reducer
from tdt.nn.parallel.scatter_gather import Devices

__all__ = ["DistributedDataParallel"]

BUCKET = 25.0  # MiB


class DistributedDataParallel(Module):
    """Wrapper whose gradients are the mean over the processes of a group, each of which has a part of the batch.

    At the start, and with `broadcast_buffers` before each forward pass, all processes take the values of rank 0. Gradients
    are summed in buckets while the backward pass goes on.

    Args:
        device_ids, output_device: as in PyTorch; they must agree with the parameters' device.
        dim: stored only.
        broadcast_buffers: whether buffers are those of rank 0 in each forward pass.
        init_sync: whether parameters and buffers become those of rank 0 now.
        process_group: default: all processes.
        bucket_cap_mb: MiB of gradients that are summed at once; default 25.
        find_unused_parameters: allow a loss that does not depend on all parameters.
        static_graph: as find_unused_parameters.
        check_reduction, gradient_as_bucket_view: without effect.
    Raises:
        RuntimeError: when no parameter requires gradients, or the processes' modules differ.
        ValueError: when `distributed.init_process_group` was not called.
    Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020.

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
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that "
                               "requires a gradient.")  # fmt: skip
        self.module, self.dim, self.device_ids, self.output_device = module, dim, device_ids, output_device
        self.process_group = group_of(process_group)
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        if self.process_group.size() > 1:
            _check_alike(module, self.process_group)
            if init_sync:
                broadcast_tensors([*module.parameters(), *module.buffers()], self.process_group)
        limit = (BUCKET if bucket_cap_mb is None else bucket_cap_mb) * 2**20
        self.reducer = Reducer(parameters, self.process_group, limit, find_unused_parameters or static_graph)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.require_forward_param_sync and self.broadcast_buffers and self.process_group.size() > 1:
            broadcast_tensors(list(self.module.buffers()), self.process_group)
        output = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = is_grad_enabled() and self.require_backward_grad_sync
        if self.require_forward_param_sync:
            self.reducer.prepare_for_backward(output)
        return output

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What PyTorch logs of a training, in part."""
        group = self.process_group
        return {"world_size": group.size(), "rank": group.rank(), "can_set_static_graph": False}

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forward and backward passes in this block only add up gradients here; the next one after it sends them."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """For processes with different numbers of batches: with one there is nothing to wait for.

        Raises:
            NotImplementedError: for more than one process.
        """
        if self.process_group.size() > 1:
            raise NotImplementedError(
                "DistributedDataParallel.join: not supported for several processes; give all of them equally many batches, "
                "as utils.data.DistributedSampler does"
            )
        yield


def _check_alike(module: Module, group: distributed.ProcessGroup) -> None:
    """Raise RuntimeError if the parameters of the processes' modules differ in name, shape or dtype."""
    own = [(name, tuple(p.shape), str(p.dtype), p.requires_grad) for name, p in module.named_parameters()]
    all_of_them: list[Any] = [None] * group.size()
    distributed.all_gather_object(all_of_them, own, group)
    for rank, theirs in enumerate(all_of_them):
        if theirs != all_of_them[0]:
            pairs = zip(theirs, all_of_them[0], strict=False)
            first = next((f"{a} beside {b}" for a, b in pairs if a != b), f"{len(theirs)} beside {len(all_of_them[0])}")
            raise RuntimeError(
                f"DistributedDataParallel: the parameters of rank {rank} differ from those of rank 0: {first}; create the "
                "same module in every process"
            )
