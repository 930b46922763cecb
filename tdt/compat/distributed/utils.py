"""`torch.distributed.utils`: synchronization of module states before the first step."""

from __future__ import annotations

from typing import Any

from tdt.distributed._collectives import broadcast_tensors
from tdt.distributed._group import group_of


def _sync_module_states(
    module: Any, process_group: Any, broadcast_bucket_size: int, src: int, params_and_buffers_to_ignore: Any,
    broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Copy parameters and buffers of the process `src` into those of all others. ValueError without a group.

    Raises:
        NotImplementedError: for several processes and another `src` than 0.
    """
    group = group_of(process_group)
    if group.size() == 1:
        return
    if src:
        raise NotImplementedError(f"_sync_module_states: states are sent by the group's rank 0, not {src}")
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    broadcast_tensors([t for name, t in named if name not in params_and_buffers_to_ignore], group)
