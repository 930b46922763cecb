"""Switches of the code that computes: `tdt.backends.kernels`, and PyTorch's for the libraries that it computes with.

tdt stands on NumPy, its own kernels and CuPy, so `is_available()` is False for MPS, cuDNN and oneDNN. Their flags keep what
a script writes into them, and change nothing.
"""

from __future__ import annotations

from types import TracebackType

from tdt import _kernels
from tdt.backends import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "kernels", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


class kernels:
    """Use fast kernels, or compute everything by its portable definition.

    Acts at once and for the whole process; as a context manager it puts back what was in force before. The
    environment variable `TDT_KERNELS=reference` starts a process with kernels off.

    >>> with kernels(False):
    ...     kernels.enabled()
    False
    """

    def __init__(self, enabled: bool = True) -> None:
        self._before = _kernels.enabled()
        _kernels.enable(enabled)

    @staticmethod
    def enabled() -> bool:
        """Whether kernels are in use now."""
        return _kernels.enabled()

    def __enter__(self) -> kernels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _kernels.enable(self._before)
