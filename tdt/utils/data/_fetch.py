"""Loads the samples of a batch from a dataset and collates them, in the main process or in a worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from tdt.utils.data.collate import default_collate
from tdt.utils.data.dataset import IterableDataset


class FetcherFactory(NamedTuple):
    """The settings of a DataLoader that determine the content of a batch. `batched`: an index is a list of indices."""

    dataset: Any
    batched: bool
    collate_fn: Callable
    drop_last: bool

    @property
    def is_iterable(self) -> bool:
        """Whether it is an iterable-style dataset."""
        return isinstance(self.dataset, IterableDataset)

    def fetcher(self) -> Callable[[Any], Any]:
        """A function from the sampler's index to a batch; for an iterable dataset it raises StopIteration at the end."""
        return self._from_stream() if self.is_iterable else self._by_index()

    def _by_index(self) -> Callable[[Any], Any]:
        dataset, collate_fn = self.dataset, self.collate_fn
        if not self.batched:
            return lambda index: collate_fn(dataset[index])
        getbatch = getattr(dataset, "__getbatch__", None) if collate_fn is default_collate else None
        getitems = getattr(dataset, "__getitems__", None)

        def fetch(indices: Any) -> Any:
            batch = getbatch(indices) if getbatch else None
            if batch is not None:
                return batch
            return collate_fn(getitems(indices) if getitems else [dataset[index] for index in indices])

        return fetch

    def _from_stream(self) -> Callable[[Any], Any]:
        stream = iter(self.dataset)
        if not self.batched:
            return lambda index: self.collate_fn(next(stream))

        def fetch(indices: Any) -> Any:
            samples = list(itertools.islice(stream, len(indices)))
            if not samples or (self.drop_last and len(samples) < len(indices)):
                raise StopIteration
            return self.collate_fn(samples)

        return fetch
