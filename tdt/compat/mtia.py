"""`torch.mtia`, Meta's accelerators, as on a machine without one: tdt does not compute on them.

>>> import tdt
>>> tdt.mtia.is_available(), tdt.mtia.device_count(), tdt.mtia.memory_allocated()
(False, 0, 0)
"""

from __future__ import annotations

from tdt.compat._other_devices import device_count, is_available, missing, no_bytes

__all__ = [
    "current_device", "current_stream", "device_count", "empty_cache", "is_available", "is_initialized",
    "max_memory_allocated", "memory_allocated", "set_device", "synchronize",
]  # fmt: skip

is_initialized = is_available
memory_allocated = max_memory_allocated = no_bytes
current_device = missing("current_device", "MTIA", RuntimeError)
current_stream = missing("current_stream", "MTIA", RuntimeError)
empty_cache = missing("empty_cache", "MTIA", RuntimeError)
set_device = missing("set_device", "MTIA", RuntimeError)
synchronize = missing("synchronize", "MTIA", RuntimeError)
