"""PyTorch's flags for computing on GPUs. `matmul.allow_tf32` switches TF32 in matrix products; the others have no effect.

>>> import tdt
>>> tdt.backends.cuda.matmul.allow_tf32 = True
>>> tdt.get_float32_matmul_precision()
'high'
>>> tdt.set_float32_matmul_precision("highest")
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from tdt._backend import cuda_device_count
from tdt.compat import _switches

__all__ = ["enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "cudnn_sdp_enabled",
           "flash_sdp_enabled", "is_built", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled", "sdp_kernel"]  # fmt: skip


class _Matmul:
    """Flags of matrix products on a GPU."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may use TF32: the same setting as `tdt.set_float32_matmul_precision`."""
        return _switches.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allow: bool) -> None:
        _switches.set_float32_matmul_precision("high" if allow else "highest")


matmul = _Matmul()
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether tdt can compute on GPUs here: CuPy is installed and sees one."""
    return cuda_device_count() > 0


def flash_sdp_enabled() -> bool:
    """The flag that `enable_flash_sdp` stored; it has no effect, as attention has one implementation."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Keep the flag."""
    _attention["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """The flag that `enable_mem_efficient_sdp` stored."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Keep the flag."""
    _attention["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """The flag that `enable_math_sdp` stored."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Keep the flag."""
    _attention["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """The flag that `enable_cudnn_sdp` stored."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Keep the flag."""
    _attention["cudnn"] = enabled


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict]:
    """Context in which the flags have these values; deprecated in favour of `nn.attention.sdpa_kernel`."""
    warnings.warn("backends.cuda.sdp_kernel is deprecated; use nn.attention.sdpa_kernel", FutureWarning, 3)
    before = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _attention.update(before)
