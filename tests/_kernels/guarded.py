"""Arrays that end where memory ends: who reads past them crashes."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest


def at_the_end(a: np.ndarray) -> np.ndarray:
    """A copy of `a` in C order, behind which no page may be read."""
    page = mmap.PAGESIZE
    whole = -(-a.nbytes // page) * page
    memory = mmap.mmap(-1, whole + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + whole), ctypes.c_size_t(page), 0):
        pytest.skip("no guard page here")
    copy = np.frombuffer(memory, np.uint8, a.nbytes, whole - a.nbytes).view(a.dtype).reshape(a.shape)
    copy[...] = a
    return copy
