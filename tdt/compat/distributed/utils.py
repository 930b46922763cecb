"""`torch.distributed.utils`: synchronization of module states before the first step."""

from __future__ import annotations

from typing import Any

from tdt.distributed import get_world_size


def _sync_module_states(
    module: Any, process_group: Any, broadcast_bucket_size: int, src: int, params_and_buffers_to_ignore: Any,
    broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Broadcast parameters and buffers from process `src`: with one process they do not change. ValueError without a group."""
    get_world_size(process_group)
