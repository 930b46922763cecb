"""Memory of a GPU: the error where it runs out, which says what was asked for and what holds the memory."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class OutOfMemoryError(RuntimeError):
    """The device has no memory left for an allocation.

    >>> import tdt
    >>> issubclass(tdt.OutOfMemoryError, RuntimeError)
    True
    """


def explain_failures(cupy: ModuleType) -> None:
    """Let allocations that fail raise `OutOfMemoryError`; CuPy's own error comes after it has emptied its pool in vain."""
    allocate = cupy.cuda.get_allocator()

    def malloc(size: int) -> Any:
        try:
            return allocate(size)
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemoryError(_explanation(cupy, size)) from error

    cupy.cuda.set_allocator(malloc)


def _explanation(cupy: ModuleType, size: int) -> str:
    free, total = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    used, reserved = pool.used_bytes(), pool.total_bytes()
    return (
        f"CUDA out of memory. Tried to allocate {_size(size)}. GPU {cupy.cuda.runtime.getDevice()} has {_size(total)}, of "
        f"which {_size(free)} are free. This process has {_size(used)} in use by tensors, and {_size(max(reserved - used, 0))} "
        "reserved by CuPy's pool but unused; the rest is CUDA's own or other processes' (nvidia-smi shows them). Use a smaller "
        "batch, mixed precision (autocast) or utils.checkpoint, keep no loss with its graph (loss.item(), loss.detach()), and "
        "evaluate under no_grad(). tdt.cuda.memory_summary() shows the peak"
    )


def _size(count: int) -> str:
    """Bytes in the largest unit of which there is at least one."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count} bytes"
