"""`torch.distributed.optim`: optimizers with sharded state, which tdt does not support."""

from __future__ import annotations

from tdt.compat._refusal import refused_class
from tdt.optim import Optimizer

__all__ = ["DistributedOptimizer", "ZeroRedundancyOptimizer"]

REASON = "tdt does not shard the state of optimizers; use the optimizer itself"
ZeroRedundancyOptimizer = refused_class("distributed.optim.ZeroRedundancyOptimizer", REASON, Optimizer)
DistributedOptimizer = refused_class("distributed.optim.DistributedOptimizer", REASON)
