"""PyTorch's `torch.storage`: the memory that tensors look into."""

from __future__ import annotations

import io
from typing import Any

from tdt._core.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes) -> Any:
    """The storage whose bytes `pickle` finds in a tensor that PyTorch pickled. Nothing else is loaded."""
    from tdt.serialization import load  # on use: pickles of PyTorch's are rare

    return load(io.BytesIO(b), weights_only=True)
