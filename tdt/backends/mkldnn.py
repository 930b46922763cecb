"""oneDNN: tdt has its own kernels (`tdt.backends.kernels`). PyTorch's names for asking whether it is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = False
deterministic = False
allow_tf32: bool | None = None


def is_available() -> bool:
    """Whether tdt computes with it: no."""
    return False


@contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool | None = True) -> Iterator[None]:
    """A block in which the flags have these values, which have no effect."""
    names = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    before = {name: globals()[name] for name in names}
    globals().update(names)
    try:
        yield
    finally:
        globals().update(before)
