"""Intel's MKL: NumPy brings its own BLAS. PyTorch's names for asking whether it is there."""

from __future__ import annotations


def is_available() -> bool:
    """Whether tdt computes with it: no."""
    return False
