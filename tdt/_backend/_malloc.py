"""Settings of the C library's allocator."""

from __future__ import annotations

import ctypes
import sys

_TRIM, _TOP_PAD, _MMAP = -1, -2, -3  # glibc's M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
_TRIM_BYTES, _LARGE, _PAD = 1 << 28, 1 << 25, 1 << 22
_HUGE, _ADVISE_HUGE = 1 << 21, 14  # bytes of a huge page on x86-64 and most others; Linux's MADV_HUGEPAGE


def keep_freed_memory() -> bool:
    """Let glibc keep up to 256 MB of freed memory for the next arrays; returns whether it agreed.

    By default it hands blocks above 128 kB back to the system at once, and the next array of that size takes a page
    fault every 4 kB: more than half of a small model's training step. Arrays above 32 MB are still handed back.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # not glibc
        return False
    agreed = library.mallopt(_TRIM, _TRIM_BYTES) and library.mallopt(_MMAP, _LARGE) and library.mallopt(_TOP_PAD, _PAD)
    if agreed:
        _ask_for_huge_pages(library)
    return bool(agreed)


def _ask_for_huge_pages(library: ctypes.CDLL) -> None:
    """Extend the heap, and let Linux back the new part by pages of 2 MB; pages that are not written to take no memory.

    A huge page takes one entry of the processor's table of addresses, its 4 kB pages would take 512: training ResNet-20
    and a small GPT takes 4 % less time. NumPy asks for them too, but only for arrays of 4 MB and more.
    """
    library.sbrk.restype = library.malloc.restype = ctypes.c_void_p
    library.sbrk.argtypes = [ctypes.c_ssize_t]
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    start = -(-library.sbrk(0) // _HUGE) * _HUGE
    library.mallopt(_TOP_PAD, _TRIM_BYTES - 2 * _LARGE)  # bytes that one call gets from the system beyond the request
    library.free(library.malloc(_LARGE // 2))
    library.mallopt(_TOP_PAD, _PAD)
    end = library.sbrk(0)
    if end > start:
        library.madvise(start, end - start, _ADVISE_HUGE)
