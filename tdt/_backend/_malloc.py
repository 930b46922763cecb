"""What the C library does with memory that arrays free."""

from __future__ import annotations

import ctypes
import sys

_TRIM, _TOP_PAD, _MMAP = -1, -2, -3  # glibc's M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
_KEPT, _LARGE = 1 << 28, 1 << 25


def keep_freed_memory() -> bool:
    """Let glibc keep up to 256 MB of freed memory for the next arrays; returns whether it agreed.

    By default it hands blocks above 128 kB back to the system at once, and the next array of that size takes a page
    fault every 4 kB: more than half of a small model's training step. Arrays above 32 MB are still handed back.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return False
    return bool(mallopt(_TRIM, _KEPT) and mallopt(_MMAP, _LARGE) and mallopt(_TOP_PAD, 1 << 22))
