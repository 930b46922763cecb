"""`torch.distributed.checkpoint`: importable; checkpoints of several processes are refused."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class

_REASON = "tdt does not shard states; tdt.save and tdt.load keep the whole in one file"

FileSystemReader = refused_class("FileSystemReader", _REASON)
FileSystemWriter = refused_class("FileSystemWriter", _REASON)
load = refused("load", _REASON)
load_state_dict = refused("load_state_dict", _REASON)
save = refused("save", _REASON)
save_state_dict = refused("save_state_dict", _REASON)
