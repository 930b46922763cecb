"""`torch.distributed.fsdp.sharded_grad_scaler`: a scaler for sharded modules; refused."""

from __future__ import annotations

from tdt.amp import GradScaler
from tdt.compat._refusal import refused_class
from tdt.compat.distributed._reasons import SHARDED

ShardedGradScaler = refused_class("ShardedGradScaler", SHARDED, GradScaler)
