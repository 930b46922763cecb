"""Collection of garbage around the start of a command.

Python looks for reference cycles after every 700 new objects. A start creates 100,000: modules, classes and functions, none of
which is garbage, and the search takes a sixth of its time.
"""

from __future__ import annotations

import gc

_MANY = 200_000  # new objects
_usual: list[tuple[int, int, int]] = []


def begin() -> None:
    """Look for garbage rarely, until `finish`."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_MANY)


def finish() -> None:
    """Look for it as usual, but no longer among the objects that exist by now. Does nothing without `begin`."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
