"""Settings of compute backends: `tdt.backends.kernels`, and PyTorch's flags for the libraries that it uses.

tdt uses NumPy, its own kernels and CuPy, so `is_available()` is False for MPS, cuDNN and oneDNN. Their flags store the values
that a script assigns, and have no effect.
"""

from __future__ import annotations

from types import TracebackType

from tdt import _kernels
from tdt.backends import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "kernels", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


class kernels:
    """Use fast kernels, or compute every op by its portable reference definition.

    Takes effect at once and for the whole process; as a context manager it restores the previous setting. The
    environment variable `TDT_KERNELS=reference` starts a process with kernels off.

    >>> import tdt
    >>> with tdt.backends.kernels(False):
    ...     tdt.backends.kernels.enabled()
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
