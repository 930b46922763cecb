"""PyTorch's `torch.cuda`, implemented with CuPy: devices, streams, memory, random numbers.

Without one, each name answers as PyTorch's CPU build does: `is_available()` is False, counts and sizes are 0, seeding
does nothing, and what needs a GPU is an AssertionError.
"""

from __future__ import annotations

from typing import Any

from tdt._backend._gpu_memory import OutOfMemoryError
from tdt._random import cuda_generator
from tdt.compat._old_types import CUDA_TYPES
from tdt.cuda import amp, graphs, memory, nvtx, random, streams
from tdt.cuda._devices import (
    DeviceProperties,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from tdt.cuda.graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables
from tdt.cuda.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from tdt.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from tdt.cuda.streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "CUDAGraph", "DeviceProperties", "Event", "OutOfMemoryError", "Stream", "StreamContext", "amp", "current_device",
    "current_stream",    "default_stream", "device", "device_count", "device_of", "empty_cache", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "graph", "graph_pool_handle", "graphs", "init", "initial_seed", "is_available", "is_current_stream_capturing",
    "make_graphed_callables", "is_bf16_supported", "is_initialized", "is_tf32_supported",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory",
    "memory_allocated", "memory_reserved", "memory_stats", "memory_summary", "nvtx", "random", "reset_max_memory_allocated",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "set_stream",
    "stream", "streams", "synchronize",
]  # fmt: skip
globals().update(CUDA_TYPES)  # FloatTensor and its kin
__all__ += list(CUDA_TYPES)


def __getattr__(name: str) -> Any:
    if name == "default_generators":  # one for each GPU, made when they are asked for
        return tuple(cuda_generator(index) for index in range(device_count()))
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'tdt.cuda' has no attribute '{name}'")
