"""`torch.distributed.fsdp.api`: the settings of `FullyShardedDataParallel`."""

from __future__ import annotations

from tdt.compat.distributed.fsdp.fully_sharded_data_parallel import *  # noqa: F403
