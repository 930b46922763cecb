"""Memory formats: contiguous, channels-last, or that of the input."""

from __future__ import annotations

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "legacy_contiguous_format",
    "memory_format",
    "preserve_format",
]


class memory_format:
    """In which order a tensor's dimensions lie in memory.

    >>> import tdt
    >>> tdt.channels_last
    tdt.channels_last
    """

    def __init__(self, name: str, order: tuple[int, ...] = ()):
        self.name, self.order = name, order

    def __repr__(self) -> str:
        return f"tdt.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format = legacy_contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last", (0, 2, 3, 1))
channels_last_3d = memory_format("channels_last_3d", (0, 2, 3, 4, 1))
