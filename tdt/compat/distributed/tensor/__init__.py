"""`torch.distributed.tensor`: importable, so that programs can ask whether a tensor is a DTensor; no tensor is one."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.compat.distributed._reasons import MESH
from tdt.compat.distributed.device_mesh import DeviceMesh, init_device_mesh
from tdt.compat.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
           "init_device_mesh"]  # fmt: skip

DTensor = refused_class("DTensor", MESH)
distribute_module = refused("distribute_module", MESH)
distribute_tensor = refused("distribute_tensor", MESH)
