"""`torch.distributed.tensor`: importable, so that programs can ask whether a tensor is a DTensor; no tensor is one."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.compat.distributed._reasons import MESH
from tdt.compat.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
           "init_device_mesh"]  # fmt: skip

DTensor = refused_class("DTensor", MESH)
Placement = refused_class("Placement", MESH)
Partial = refused_class("Partial", MESH, Placement)
Replicate = refused_class("Replicate", MESH, Placement)
Shard = refused_class("Shard", MESH, Placement)
distribute_module = refused("distribute_module", MESH)
distribute_tensor = refused("distribute_tensor", MESH)
