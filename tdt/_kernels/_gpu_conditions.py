"""When kernels for CuPy's arrays apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._kernels._registry import SWITCHES

FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def gpu_floats(arrays: Sequence[Any], attributes: dict) -> bool:
    """Arrays of float32 or of float64, contiguous and not empty; some may be absent."""
    kind = arrays[0].dtype
    return kind in FLOATS and all(
        a is None or (a.dtype == kind and a.flags.c_contiguous and a.size > 0) for a in arrays
    )


def on_one_gpu(tensors: Sequence[Any]) -> list[Any] | None:
    """The arrays of tensors if they are `gpu_floats` on the current GPU and have one dtype; else None."""
    arrays = [t._a for t in tensors]
    if not SWITCHES.kernels or not arrays or arrays[0].__class__ is np.ndarray:
        return None
    if not all(hasattr(a, "__cuda_array_interface__") and a.device == arrays[0].device for a in arrays):
        return None
    from tdt import _backend

    if _backend.several_gpus() and _backend.elsewhere(arrays[:1]) is not None:
        return None
    return arrays if gpu_floats(arrays, {}) else None
