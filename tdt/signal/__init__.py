"""Signal processing under PyTorch's names: `tdt.signal.windows`."""

from tdt.signal import windows

__all__ = ["windows"]
