"""opt_einsum: tdt's einsum orders its products by itself. PyTorch's names for asking whether it is there."""

from __future__ import annotations

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Whether tdt computes with it: no."""
    return False
