"""Shared memory between processes: an anonymous file, which is freed when the last process closes it."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

import numpy as np


class SharedMemory(mmap.mmap):
    """A mapped anonymous file; its descriptor is sent to other processes."""

    descriptor: int

    def __new__(cls, descriptor: int, size: int) -> SharedMemory:
        memory = super().__new__(cls, descriptor, size)
        memory.descriptor = descriptor
        return memory

    def address(self) -> int:
        """The address of the first byte in this process."""
        return int(np.frombuffer(self, np.uint8, 1).ctypes.data)

    def __del__(self) -> None:
        os.close(self.descriptor)


def new(size: int) -> SharedMemory:
    """New shared memory of the given number of bytes, zero-filled."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tdt")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return SharedMemory(descriptor, size)


def _open(sent: Any, size: int) -> SharedMemory:
    """Map the memory whose descriptor another process has sent."""
    return SharedMemory(sent.detach(), size)


def _reduce(memory: SharedMemory) -> tuple:
    return _open, (reduction.DupFd(memory.descriptor), len(memory))


reduction.register(SharedMemory, _reduce)
