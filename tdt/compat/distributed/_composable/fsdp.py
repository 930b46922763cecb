"""`torch.distributed._composable.fsdp`: the old name of parts of `torch.distributed.fsdp`."""

from __future__ import annotations

from tdt.compat.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

__all__ = ["CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard",
           "register_fsdp_forward_method"]  # fmt: skip
