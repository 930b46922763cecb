"""OpenMP: tdt's kernels have a pool of threads of their own. PyTorch's names for asking whether it is there."""

from __future__ import annotations


def is_available() -> bool:
    """Whether tdt computes with it: no."""
    return False
