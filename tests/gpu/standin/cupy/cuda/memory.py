"""Memory of the stand-in's GPUs: who owns an address, how much is in use, and what of the host's is pinned."""

from __future__ import annotations

import contextlib
import os
import weakref

import numpy as np


class OutOfMemoryError(MemoryError):
    pass


# Address → the NumPy array that owns the memory, its GPU, and the addresses of the first byte in use and behind the last.
_allocated: dict[int, tuple[weakref.ref, int, int, int]] = {}
_pinned: dict[int, weakref.ref] = {}


def own(values: np.ndarray, array, size: int | None = None) -> np.ndarray:
    """The values, whose memory is the current GPU's from now on; a copy of those that cannot be written.

    Args:
        array: of CuPy, whose memory it is; when that is gone, and its views, the pool may use it for others.
        size: what counts as used; by default all bytes.
    """
    from cupy.cuda import Device, get_current_stream

    values = values if values.flags.writeable else values.copy()
    owner = _owner(values)
    address, device = owner.ctypes.data, Device().id
    low, size = (address, owner.nbytes) if size is None else (values.ctypes.data, size)
    if address in _allocated and _allocated[address][0]() is owner:
        return values
    _allocator(size)

    def freed(reference, address=address, device=device, nbytes=size):
        pool.used[device] -= nbytes
        if address in _allocated and _allocated[address][0] is reference:
            del _allocated[address]

    _allocated[address] = weakref.ref(owner, freed), device, low, low + size
    get_current_stream().allocate(weakref.ref(array), _allocated[address][0], MemoryPool.last)
    pool.used[device] = pool.used.get(device, 0) + size
    pool.held[device] = max(pool.held.get(device, 0), pool.used[device])
    for hook in MemoryHook.active:
        hook.malloc_postprocess(device_id=device, size=size, mem_size=size, mem_ptr=address, pmem_id=0)
    return values


def aligned(shape, dtype, order: str) -> np.ndarray:
    """An array that is not filled, at a multiple of 512 bytes, as CuPy's pool has them.

    The current stream may use its memory after the array's end: in CuPy's pool only later work of that stream gets it again.
    """
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    from cupy.cuda import get_current_stream

    allocation = np.empty(size + 512, np.uint8)
    memory = np.frombuffer(
        memoryview(allocation), np.uint8
    )  # whose end is the array's, and perhaps not the allocation's
    get_current_stream().hold(allocation)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % 512, order=order)


def _owner(values: np.ndarray) -> np.ndarray:
    base = values
    while base is not None:
        if isinstance(base, np.ndarray):
            values = base
        base = getattr(base, "base", None)
    return values


def find(pointer: int, nbytes: int) -> np.ndarray | None:
    """The bytes of GPU memory at an address; None if they are not (all) memory of a GPU."""
    for start, (reference, _, low, high) in list(_allocated.items()):
        memory = reference()
        if memory is not None and low <= pointer and pointer + nbytes <= high:
            return _bytes(memory)[pointer - start : pointer - start + nbytes]
    return None


def _bytes(owner: np.ndarray) -> np.ndarray:
    return owner.transpose(sorted(range(owner.ndim), key=lambda d: -owner.strides[d])).reshape(-1).view(np.uint8)


def overwrite(reference: weakref.ref) -> None:
    """Fill memory with what no kernel expects, NaN and -1, if it is not freed."""
    if (owner := reference()) is not None:
        _bytes(owner)[:] = 0xFF


def pin(values: np.ndarray) -> np.ndarray:
    """Pinned memory of the host."""
    _pinned[values.ctypes.data] = weakref.ref(values)
    return values


def is_pinned(values) -> bool:
    if not isinstance(values, np.ndarray):
        return False
    owner = _owner(values)
    reference = _pinned.get(owner.ctypes.data)
    return reference is not None and reference() is owner


class MemoryPointer:
    def __init__(self, values, array):
        from cupy.cuda import Device

        self._array = array  # which owns the memory
        owner = _owner(values)
        self.device = Device(_allocated[owner.ctypes.data][1])
        self.ptr, self.owner = values.ctypes.data, _bytes(owner)
        self.offset = self.ptr - owner.ctypes.data

    @property
    def mem(self):
        return self.owner

    def __add__(self, count):
        moved = object.__new__(MemoryPointer)
        moved._array = self._array
        moved.ptr, moved.owner, moved.offset = self.ptr + count, self.owner, self.offset + count
        moved.device = self.device
        return moved


class MemoryHook:
    """What is called after each allocation."""

    active: list[MemoryHook] = []
    name = "MemoryHook"

    def __enter__(self):
        MemoryHook.active.append(self)
        return self

    def __exit__(self, *error):
        MemoryHook.active.remove(self)


class MemoryPool:
    """Bytes in use and held, by GPU."""

    last = None  # the pool that has allocated last

    def __init__(self):
        self.used: dict[int, int] = {}
        self.held: dict[int, int] = {}

    def malloc(self, size):
        """Only the check: NumPy has the memory."""
        MemoryPool.last = self
        used, limit = self.used_bytes(), capacity()
        if used + size > limit:
            raise OutOfMemoryError(
                f"Out of memory allocating {size:,} bytes (allocated so far: {used:,} bytes, limit set to: {limit:,} bytes)."
            )

    def used_bytes(self):
        return self.used.get(_current(), 0)

    def total_bytes(self):
        return self.held.get(_current(), 0)

    def free_all_blocks(self, stream=None):
        self.held[_current()] = self.used_bytes()


def _current() -> int:
    from cupy.cuda import Device

    return Device().id


def capacity() -> int:
    """Bytes of a GPU."""
    return int(os.environ.get("CUPY_STANDIN_MEMORY", 1 << 40))


def set_allocator(allocator=None):
    global _allocator
    _allocator = pool.malloc if allocator is None else allocator


def get_allocator():
    return _allocator


@contextlib.contextmanager
def using_allocator(allocator=None):
    before = get_allocator()
    set_allocator(allocator)
    try:
        yield
    finally:
        set_allocator(before)


pool = MemoryPool()
_allocator = pool.malloc
