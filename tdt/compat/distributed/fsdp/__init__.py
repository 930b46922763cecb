"""`torch.distributed.fsdp`: importable, so that programs can ask whether a module is sharded; no module is."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.compat.distributed._reasons import SHARDED
from tdt.compat.distributed.fsdp.fully_sharded_data_parallel import *  # noqa: F403
from tdt.compat.distributed.fsdp.fully_sharded_data_parallel import __all__ as _classes

__all__ = [*_classes, "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard",  # noqa: PLE0604
           "register_fsdp_forward_method"]  # fmt: skip

CPUOffloadPolicy = refused_class("CPUOffloadPolicy", SHARDED)
FSDPModule = refused_class("FSDPModule", SHARDED)
MixedPrecisionPolicy = refused_class("MixedPrecisionPolicy", SHARDED)
OffloadPolicy = refused_class("OffloadPolicy", SHARDED)
fully_shard = refused("fully_shard", SHARDED)
register_fsdp_forward_method = refused("register_fsdp_forward_method", SHARDED)
