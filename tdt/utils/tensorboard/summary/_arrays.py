"""Conversion of logged values to NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_array(value: Any, lists: bool = False) -> np.ndarray:
    """A tensor, an array or a number as a NumPy array; bfloat16, which NumPy lacks, as float16. Never a copy to write in.

    lists: take lists too. Raises NotImplementedError for anything else.

    >>> as_array(2.5)
    array([2.5])
    """
    if isinstance(value, np.ndarray):
        return value
    if lists and isinstance(value, (list, tuple)):
        return np.asarray(value)
    if np.isscalar(value):
        return np.array([value])
    if not hasattr(value, "detach"):
        kind = type(value).__name__
        raise NotImplementedError(
            f"expected a tensor, a NumPy array or a number, got {kind}; np.asarray makes an array"
        )
    value = value.detach().cpu()
    return value.half().numpy() if str(value.dtype).endswith("bfloat16") else value.numpy()
