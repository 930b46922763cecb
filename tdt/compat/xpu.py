"""`torch.xpu`, Intel's GPUs, as on a machine without one: tdt does not compute on them.

>>> import tdt
>>> tdt.xpu.is_available(), tdt.xpu.device_count(), tdt.xpu.memory_allocated()
(False, 0, 0)
"""

from __future__ import annotations

from tdt.compat._other_devices import device_count, is_available, missing, no_bytes, no_states, nothing
from tdt.compat._refusal import refused_class

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "device", "device_count", "empty_cache", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "initial_seed", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "synchronize",
]  # fmt: skip

is_initialized = is_bf16_supported = is_current_stream_capturing = is_available
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = no_bytes
get_rng_state_all = no_states
empty_cache = manual_seed = manual_seed_all = seed = seed_all = reset_peak_memory_stats = set_rng_state_all = nothing
_REASON = "tdt does not compute on Intel's GPUs"
Event = refused_class("xpu.Event", _REASON)
Stream = refused_class("xpu.Stream", _REASON)
device = refused_class("xpu.device", _REASON)
current_device = missing("current_device", "XPU", AssertionError)
current_stream = missing("current_stream", "XPU", AssertionError)
get_device_capability = missing("get_device_capability", "XPU", AssertionError)
get_device_name = missing("get_device_name", "XPU", AssertionError)
get_device_properties = missing("get_device_properties", "XPU", AssertionError)
get_rng_state = missing("get_rng_state", "XPU", AssertionError)
initial_seed = missing("initial_seed", "XPU", AssertionError)
mem_get_info = missing("mem_get_info", "XPU", AssertionError)
set_device = missing("set_device", "XPU", AssertionError)
set_rng_state = missing("set_rng_state", "XPU", AssertionError)
synchronize = missing("synchronize", "XPU", AssertionError)
