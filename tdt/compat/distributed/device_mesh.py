"""`torch.distributed.device_mesh`: importable; a mesh of several processes' devices is refused."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.compat.distributed._reasons import MESH

__all__ = ["DeviceMesh", "init_device_mesh"]

DeviceMesh = refused_class("DeviceMesh", MESH)
init_device_mesh = refused("init_device_mesh", MESH)
