"""`torch.storage`: the memory of tensors."""

from __future__ import annotations

import io
from typing import Any

from tdt._core.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes) -> Any:
    """The storage from the bytes in a tensor that PyTorch pickled. Objects other than storages are not loaded."""
    from tdt.serialization import load  # imported lazily: pickles of PyTorch tensors are rare

    return load(io.BytesIO(b), weights_only=True)
