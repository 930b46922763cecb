"""How often a kind of call was made, before a short way is prepared for it."""

from __future__ import annotations

from typing import Any

# Preparing costs as much as some 20 calls save. Where each length of a text is another shape, most kinds are called a few times.
TIMES = 4
MOST = 1000  # kinds that are counted at a time


class CallCounts:
    """Counts calls, by kind."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}

    def often(self, kind: Any) -> bool:
        """Count a call; whether it is the fourth of its kind, for which a short way is prepared."""
        count = self.counts.get(kind, 0) + 1
        if count >= TIMES:
            self.counts.pop(kind, None)
            return True
        if len(self.counts) >= MOST:
            self.counts.clear()
        self.counts[kind] = count
        return False

    def frequent(self, kind: Any) -> bool:
        """Count a call; whether it is the fourth of its kind, or a later one."""
        count = self.counts.get(kind, 0)
        if count < TIMES - 1:
            if len(self.counts) >= MOST:
                self.counts.clear()
            self.counts[kind] = count + 1
            return False
        return True
