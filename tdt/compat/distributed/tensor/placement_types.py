"""`torch.distributed.tensor.placement_types`: how a tensor would lie on a mesh; refused."""

from __future__ import annotations

from tdt.compat._refusal import refused_class
from tdt.compat.distributed._reasons import MESH
from tdt.compat.distributed.tensor import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

_StridedShard = refused_class("_StridedShard", MESH, Shard)
