"""Statistics of CuPy's memory pool, with PyTorch's terms: *allocated* is in use, *reserved* is held by the pool.

Peaks are counted from the first call of one of these functions, which installs a hook for allocations.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from typing import Any

from tdt._backend import gpu
from tdt._backend._gpu_memory import free_closed, graph_bytes
from tdt._core.mode import waits_for_gpu
from tdt.cuda._devices import DeviceLike, get_device_name, index_of, is_available


class _Peaks:
    """Peak numbers of bytes by GPU: allocated and reserved."""

    def __init__(self) -> None:
        self.used: dict[int, int] = defaultdict(int)
        self.reserved: dict[int, int] = defaultdict(int)

    def look(self, index: int) -> tuple[int, int]:
        """(allocated, reserved) bytes of the current GPU; updates the peaks."""
        pool = gpu().get_default_memory_pool()
        of_graphs = graph_bytes()
        used, reserved = pool.used_bytes() + of_graphs[0], pool.total_bytes() + of_graphs[1]
        self.used[index], self.reserved[index] = max(self.used[index], used), max(self.reserved[index], reserved)
        return used, reserved


@functools.cache
def _peaks() -> _Peaks:
    """The peaks, and the hook that updates them."""
    peaks = _Peaks()

    class Watch(gpu().cuda.MemoryHook):  # type: ignore[misc]  # CuPy's, known at run time
        name = "tdt.cuda.memory"

        def malloc_postprocess(self, **allocation: Any) -> None:
            peaks.look(allocation["device_id"])

    Watch().__enter__()
    return peaks


def _bytes(device: DeviceLike) -> tuple[int, int, int, int]:
    """Allocated bytes, their peak, reserved bytes, their peak; zeros without a GPU."""
    waits_for_gpu("a statistic of memory")
    if not is_available():
        return 0, 0, 0, 0
    index, peaks = index_of(device), _peaks()
    with gpu().cuda.Device(index):
        used, reserved = peaks.look(index)
    return used, peaks.used[index], reserved, peaks.reserved[index]


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of a GPU's memory that are allocated (in use); 0 without a GPU."""
    return _bytes(device)[0]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Peak of the allocated bytes since the last reset; 0 without a GPU."""
    return _bytes(device)[1]


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes of a GPU's memory that the pool has reserved, in use or not; 0 without a GPU."""
    return _bytes(device)[2]


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Peak of the reserved bytes since the last reset; 0 without a GPU."""
    return _bytes(device)[3]


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, int]:
    """The four sizes under PyTorch's keys; empty without a GPU."""
    keys = ("allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.current",
            "reserved_bytes.all.peak")  # fmt: skip
    return OrderedDict(zip(keys, _bytes(device), strict=True)) if is_available() else OrderedDict()


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The four sizes as a table, in MiB."""
    index = index_of(device)
    used, most_used, reserved, most_reserved = (size / 2**20 for size in _bytes(index))
    return (
        f"{get_device_name(index)} (cuda:{index}), MiB\n"
        f"              {'now':>12}{'peak':>12}\n"
        f"  in use      {used:12.1f}{most_used:12.1f}\n"
        f"  in the pool {reserved:12.1f}{most_reserved:12.1f}"
    )


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Reset the peaks to the current values."""
    index = index_of(device)
    _peaks().used[index] = _peaks().reserved[index] = 0


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Deprecated alias of `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Release unused memory of the pool to the GPU; does nothing without a GPU."""
    waits_for_gpu("empty_cache()")
    if is_available():
        gpu().get_default_memory_pool().free_all_blocks()
        free_closed()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of a GPU's memory, including all processes."""
    waits_for_gpu("mem_get_info()")
    with gpu().cuda.Device(index_of(device)):
        return gpu().cuda.runtime.memGetInfo()
