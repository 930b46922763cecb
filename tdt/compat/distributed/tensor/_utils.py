"""`torch.distributed.tensor._utils`: the shard of a tensor that a process holds; not supported."""

from __future__ import annotations

from tdt.compat._refusal import refused
from tdt.compat.distributed._reasons import MESH

compute_local_shape_and_global_offset = refused("compute_local_shape_and_global_offset", MESH)
