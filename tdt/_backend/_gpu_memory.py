"""Memory of a GPU: the error where it runs out, which says what was asked for and what holds the memory."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any


class OutOfMemoryError(RuntimeError):
    """The device has no memory left for an allocation.

    >>> import tdt
    >>> issubclass(tdt.OutOfMemoryError, RuntimeError)
    True
    """


_open: list[Any] = []  # CuPy's pools of graphs
_closed: list[Any] = []  # those whose graphs are gone, as long as an array has memory of theirs


class GraphPool:
    """The memory of CUDA graphs, apart from the pool of all other arrays, which might use it between two replays.

    Memory that a capture has freed serves kernels that come later in the graph, and earlier ones write there again at the next
    replay. So what must keep its contents from one replay to the next has a pool of its own.
    """

    def __init__(self, cupy: ModuleType):
        self._cupy, self._pools = cupy, [cupy.cuda.MemoryPool() for _ in range(2)]
        _open.extend(self._pools)
        weakref.finalize(self, _close, self._pools).atexit = False

    def allocator(self, lasting: bool = False) -> Any:
        """Context manager in which this thread allocates here. lasting: what keeps its contents between replays."""
        return self._cupy.cuda.using_allocator(_explaining(self._cupy, self._pools[lasting].malloc))


def _close(pools: list[Any]) -> None:
    _open[:] = [each for each in _open if not any(each is pool for pool in pools)]
    _closed.extend(pools)
    free_closed()


def free_closed() -> None:
    """Free the memory of pools whose graphs are gone, as far as no array has it: CuPy does not when it deletes a pool."""
    for pool in _closed:
        pool.free_all_blocks()
    _closed[:] = [pool for pool in _closed if pool.total_bytes()]


def graph_bytes() -> tuple[int, int]:
    """Bytes in use and reserved by CUDA graphs on the current GPU."""
    free_closed()
    pools = (*_open, *_closed)
    return sum(pool.used_bytes() for pool in pools), sum(pool.total_bytes() for pool in pools)


_used: list[tuple[Any, Any]] = []  # events of other streams, each with memory that is not free before


def free_after(owner: Any, array: Any, stream: Any) -> None:
    """Let the memory of an array be free only when the work is done that CuPy's `stream` has when `owner` is gone."""
    weakref.finalize(owner, _hold, array.data.mem, array.device, stream).atexit = False


def _hold(memory: Any, device: Any, stream: Any) -> None:
    with device:
        _used.append((stream.record(), memory))


def _free_used() -> None:
    for each in tuple(_used):
        if each[0].done:
            _used.remove(each)


def explain_failures(cupy: ModuleType) -> None:
    """Let allocations that fail raise `OutOfMemoryError`; CuPy's own error comes after it has emptied its pool in vain."""
    cupy.cuda.set_allocator(_explaining(cupy, cupy.cuda.get_allocator()))


def _explaining(cupy: ModuleType, allocate: Any) -> Any:
    def malloc(size: int) -> Any:
        if _used:
            _free_used()
        try:
            return allocate(size)
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemoryError(_explanation(cupy, size)) from error

    return malloc


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
