"""Settings of compute backends: `tdt.backends.kernels` and `winograd`, and PyTorch's flags for the libraries that it uses.

tdt uses NumPy, its own kernels, and CuPy and cuDNN on GPUs, so `is_available()` is False for MPS and oneDNN. Their flags store
the values that a script assigns, and have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from tdt import _kernels
from tdt.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "kernels", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "winograd"]


class _Setting:
    """A setting of the whole process; as a context manager it restores the previous one."""

    _get: Callable[[], bool]
    _set: Callable[[bool], None]

    def __init__(self, enabled: bool = True) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"{type(self).__name__}() expects True or False, got {type(enabled).__name__}")
        self._before = type(self)._get()
        type(self)._set(enabled)

    @classmethod
    def enabled(cls) -> bool:
        """Whether it is on now."""
        return cls._get()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        type(self)._set(self._before)


class kernels(_Setting):
    """Use fast kernels, or compute every op by its portable reference definition.

    Takes effect at once and for the whole process; as a context manager it restores the previous setting. The
    environment variable `TDT_KERNELS=reference` starts a process with kernels off.

    >>> import tdt
    >>> with tdt.backends.kernels(False):
    ...     tdt.backends.kernels.enabled()
    False
    """

    _get = staticmethod(_kernels.enabled)
    _set = staticmethod(_kernels.enable)


class winograd(_Setting):
    """Use Winograd's algorithm for large float32 convolutions with kernels of 3 × 3 and stride 1 on the CPU, or direct sums.

    Its results are rounded otherwise, and are as close to float64. Takes effect at once and for the whole process; as a
    context manager it restores the previous setting. The environment variable `TDT_WINOGRAD=0` starts a process with it off.

    Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.

    >>> import tdt
    >>> with tdt.backends.winograd(False):
    ...     tdt.backends.winograd.enabled()
    False
    """

    _get = staticmethod(_kernels.winograd_enabled)
    _set = staticmethod(_kernels.enable_winograd)
