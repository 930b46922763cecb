"""`torch.autograd.profiler`: names that are defined in `tdt/profiler.py`."""

from tdt.profiler import Averages as EventList
from tdt.profiler import emit_nvtx, profile, record_function

__all__ = ["EventList", "emit_nvtx", "profile", "record_function"]
