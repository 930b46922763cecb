"""The processor, under PyTorch's name for asking about it."""

from __future__ import annotations

import platform

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The vector instructions that tdt's kernels use: "AVX512" or "AVX2"; "NO AVX" on other x86 processors, else "DEFAULT".

    >>> import tdt
    >>> tdt.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "NO AVX", "DEFAULT")
    True
    """
    from tdt._kernels._native import vector_width

    other = "NO AVX" if platform.machine().lower() in ("x86_64", "amd64", "i386", "i686") else "DEFAULT"
    return {16: "AVX512", 8: "AVX2"}.get(vector_width(), other)
