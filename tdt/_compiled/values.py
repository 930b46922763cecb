"""Values of arrays that are compared with those of others later: copies of small arrays, hashes of large ones."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tdt._backend import to_device
from tdt._backend.device import CPU

ndarray = np.ndarray
COPIED = 1 << 16  # bytes of the largest array that is copied


class OtherBits(str):
    """A difference in bits alone, in words."""

    __slots__ = ()


class Values:
    """The bits of an array."""

    def __init__(self, a: Any):
        self.shape, self.dtype, self.strides = a.shape, a.dtype, a.strides
        a = a if isinstance(a, (ndarray, np.generic)) else to_device(a, CPU)
        self.copy = a.copy(order="K") if a.nbytes <= COPIED else None
        self._hash = None if self.copy is not None else _hash(a)

    def are(self, other: Values) -> bool:
        """Whether others are the same bits, wherever they lie."""
        if other.dtype != self.dtype or other.shape != self.shape:
            return False
        if self.copy is None or other.copy is None:
            return self._hash == other._hash
        return self.copy.tobytes() == other.copy.tobytes()

    def shown_beside(self, own: Values) -> str:
        """How these, the program's, differ from the function's own, in words."""
        if own.shape != self.shape or own.dtype != self.dtype:
            return f" ({own.dtype} {list(own.shape)}, not {self.dtype} {list(self.shape)})"
        if self.are(own):
            return " (its strides)"
        if self.copy is None or own.copy is None:
            return f" ({self.dtype} {list(self.shape)})"
        bits = [np.ascontiguousarray(a).reshape(-1, 1).view(np.uint8) for a in (own.copy, self.copy)]
        unlike = np.flatnonzero((bits[0] != bits[1]).any(1))
        at = np.unravel_index(unlike[0], own.shape)
        return f" ({unlike.size} of {own.copy.size} elements; at {list(map(int, at))}: {own.copy[at]}, not {self.copy[at]})"


def _hash(a: ndarray) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in (a,) if a.flags.c_contiguous or not a.ndim else a:
        found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return found.digest()
