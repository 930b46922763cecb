"""The names of `torch.autograd.profiler`; what they name is in `tdt/profiler.py`."""

from tdt.profiler import profile, record_function

__all__ = ["profile", "record_function"]
