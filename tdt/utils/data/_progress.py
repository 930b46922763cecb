"""The progress of an epoch: the contents of a DataLoader's `state_dict`, and how the index order is restored from it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tdt._random import Generator, default_generator
from tdt.utils.data import _states


class Sources:
    """All generators that may determine the index order: the process's three, and those of the loader or its samplers."""

    def __init__(self, *holders: Any) -> None:
        found = [getattr(holder, "generator", None) for holder in holders]
        own = [g for g in found if isinstance(g, Generator) and g is not default_generator]
        self.generators = list(dict.fromkeys(own))

    def capture(self) -> dict[str, Any]:
        """The current states of all generators."""
        return {"process": _states.capture(), "generators": [g.state_array() for g in self.generators]}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore all states; ValueError if the number of generators differs."""
        if len(saved["generators"]) != len(self.generators):
            raise ValueError(
                f"the state was saved by a loader with {len(saved['generators'])} own generators; this one has "
                f"{len(self.generators)}. Build the loader with the same generator= and samplers"
            )
        _states.restore(saved["process"])
        for generator, state in zip(self.generators, saved["generators"], strict=True):
            generator.set_state_array(state)


@dataclass
class Progress:
    """The state of an epoch. `position`: batches delivered; `drawn`: index batches drawn from the sampler."""

    base_seed: int
    position: int = 0
    drawn: int = 0
    exhausted: bool = False  # the sampler has raised StopIteration, before which some samplers draw a random number
    done: bool = False  # StopIteration was raised, not only the last batch delivered
    # Generator states before the sampler's `iter`, if that drew (iterable datasets: always), and before the first index.
    created: dict[str, Any] | None = None
    started: dict[str, Any] | None = None
    workers: list[_states.States | None] = field(default_factory=list)  # after the last delivered batch of each

    def to_dict(self) -> dict[str, Any]:
        """As numbers, strings, lists, dicts and uint8 arrays."""
        return asdict(self)

    @classmethod
    def of(cls, saved: dict[str, Any]) -> Progress:
        """Restore from `to_dict`. ValueError for an invalid value."""
        progress = cls(**{**saved, "workers": list(saved["workers"])})
        for name in ("base_seed", "position", "drawn", "exhausted", "done"):
            value, kind = getattr(progress, name), bool if name in ("exhausted", "done") else int
            if type(value) is not kind or (name != "base_seed" and value < 0):
                raise ValueError(f"load_state_dict: epoch.{name} is {value!r}, expected {kind.__name__}")
        return progress


class Indices:
    """Iterates over the sampler's index batches, and records in `progress` what is needed to restore the same order.

    `resume` draws the order again from the generator states at its start, skips the index batches before `position`, and
    restores the generators: it does not load samples.
    """

    progress: Progress

    def __init__(self, sampler: Iterable[Any], sources: Sources) -> None:
        self._sampler = sampler
        self._sources = sources
        self.created: dict[str, Any] | None = None
        self._iterator: Iterator[Any] = iter(())

    def begin(self) -> None:
        """Start a new order; the base seed is drawn after this call and before the first index."""
        lazy = inspect.isgeneratorfunction(
            getattr(type(self._sampler), "__iter__", None)
        )  # draws nothing before its first index
        before = None if lazy else self._sources.capture()
        self._iterator = iter(self._sampler)
        self.created = None if before is None or _equal(before, self._sources.capture()) else before

    def resume(self, progress: Progress) -> None:
        """Continue at the position of `progress`."""
        now = self._sources.capture()
        if progress.created is not None:
            self._sources.restore(progress.created)
        self._iterator = iter(self._sampler)
        self.progress = progress
        if progress.started is not None:
            self._sources.restore(progress.started)
            pending = list(itertools.islice(self._iterator, progress.position, progress.drawn))
            self._iterator = itertools.chain(self._recount(pending), () if progress.exhausted else self._iterator)
        self._sources.restore(now)

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def _recount(self, pending: list[Any]) -> Iterator[Any]:
        for index in pending:
            self.progress.drawn -= 1  # `__next__` counts it again
            yield index

    def __next__(self) -> Any:
        if self.progress.started is None:
            self.progress.started = self._sources.capture()
        try:
            index = next(self._iterator)
        except StopIteration:
            self.progress.exhausted = True
            raise
        self.progress.drawn += 1
        return index


def _equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return _states.same(a["process"], b["process"]) and all(map(np.array_equal, a["generators"], b["generators"]))
