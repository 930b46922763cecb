"""PyTorch's flags for computing on GPUs. `matmul.allow_tf32` switches TF32 in matrix products; the others have no effect.

>>> import tdt
>>> tdt.backends.cuda.matmul.allow_tf32 = True
>>> tdt.get_float32_matmul_precision()
'high'
>>> tdt.set_float32_matmul_precision("highest")
"""

from __future__ import annotations

from tdt._backend import cuda_device_count
from tdt.compat import _switches

__all__ = ["enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "cudnn_sdp_enabled",
           "flash_sdp_enabled", "is_built", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled"]  # fmt: skip


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
