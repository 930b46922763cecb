"""`torch.distributed.checkpoint.hf_storage`: safetensors files of several processes; refused."""

from __future__ import annotations

from tdt.compat._refusal import refused_class
from tdt.compat.distributed.checkpoint import _REASON

HuggingFaceStorageReader = refused_class("HuggingFaceStorageReader", _REASON)
HuggingFaceStorageWriter = refused_class("HuggingFaceStorageWriter", _REASON)
