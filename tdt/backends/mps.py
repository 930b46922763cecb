"""Apple's GPUs. PyTorch's names for asking whether it is there."""

from __future__ import annotations


def is_available() -> bool:
    """Whether tdt computes with it: no."""
    return False


def is_built() -> bool:
    """Whether tdt was made to compute with it: no."""
    return False
