"""Where the arrays of a recording lie in memory, and until when: arrays that were freed are known without being held."""

from __future__ import annotations

import itertools
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

NEVER = float("inf")


class Owner:
    """The array that has the memory of others.

    Attributes:
        freed: when it was.
    """

    __slots__ = ("freed", "reference")

    def __init__(self) -> None:
        self.freed, self.reference = NEVER, None


class Place(NamedTuple):
    """The memory of an array from the moment `created` on."""

    low: int
    high: int
    nbytes: int
    owner: Owner
    created: int

    def shares(self, other: Place) -> bool:
        """Whether two arrays may have had memory in common, as `np.may_share_memory` says of arrays that are there."""
        overlap = self.low < other.high and other.low < self.high
        return overlap and self.created < other.owner.freed and other.created < self.owner.freed


class Places:
    """Names of arrays that are there, and the places of all that were named."""

    def __init__(self) -> None:
        self.by_name: dict[str, Place] = {}
        self._names: dict[int, tuple[str, Any]] = {}  # (name, reference) by an array's id
        self._owners: dict[int, Owner] = {}
        self._clock = itertools.count()

    def name(self, array: np.ndarray, name: str) -> None:
        """Let an array have a name, for as long as it is there."""
        names = self._names

        def forget(reference: Any, key: int = id(array)) -> None:
            if names[key][1] is reference:
                del names[key]

        names[id(array)] = name, weakref.ref(array, forget)
        self.by_name[name] = self.of(array)

    def name_of(self, value: Any) -> str | None:
        """The name of an array; None if it has none."""
        return self._names.get(id(value), (None,))[0]

    def of(self, array: np.ndarray) -> Place:
        """The place of an array."""
        owner: Any = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if id(owner) not in self._owners:
            self._note(owner)
        low, high = byte_bounds(array) if array.size else (0, 0)
        return Place(low, high, array.nbytes, self._owners[id(owner)], next(self._clock))

    def _note(self, array: np.ndarray) -> None:
        owners, clock, owner = self._owners, self._clock, Owner()

        def free(_: Any, key: int = id(array)) -> None:
            owner.freed = next(clock)
            del owners[key]

        owner.reference = weakref.ref(array, free)  # type: ignore[assignment]
        owners[id(array)] = owner
