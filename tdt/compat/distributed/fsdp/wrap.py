"""`torch.distributed.fsdp.wrap`: policies for which modules are sharded separately; not supported."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.compat.distributed._reasons import SHARDED

ModuleWrapPolicy = refused_class("ModuleWrapPolicy", SHARDED)
CustomPolicy = refused_class("CustomPolicy", SHARDED)
always_wrap_policy = refused("always_wrap_policy", SHARDED)
enable_wrap = refused("enable_wrap", SHARDED)
lambda_auto_wrap_policy = refused("lambda_auto_wrap_policy", SHARDED)
size_based_auto_wrap_policy = refused("size_based_auto_wrap_policy", SHARDED)
transformer_auto_wrap_policy = refused("transformer_auto_wrap_policy", SHARDED)
wrap = refused("wrap", SHARDED)
