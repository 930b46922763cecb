"""`torch.mps`, Apple's GPUs, as on a machine without one: tdt does not compute on them.

>>> import tdt
>>> tdt.mps.is_available(), tdt.mps.device_count()
(False, 0)
"""

from __future__ import annotations

from tdt.compat._other_devices import device_count, is_available, missing, nothing

__all__ = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state", "is_available",
    "manual_seed", "recommended_max_memory", "seed", "set_per_process_memory_fraction", "set_rng_state", "synchronize",
]  # fmt: skip

manual_seed = nothing
current_allocated_memory = missing("current_allocated_memory", "MPS", RuntimeError)
driver_allocated_memory = missing("driver_allocated_memory", "MPS", RuntimeError)
empty_cache = missing("empty_cache", "MPS", RuntimeError)
get_rng_state = missing("get_rng_state", "MPS", RuntimeError)
recommended_max_memory = missing("recommended_max_memory", "MPS", RuntimeError)
seed = missing("seed", "MPS", RuntimeError)
set_per_process_memory_fraction = missing("set_per_process_memory_fraction", "MPS", RuntimeError)
set_rng_state = missing("set_rng_state", "MPS", RuntimeError)
synchronize = missing("synchronize", "MPS", RuntimeError)
