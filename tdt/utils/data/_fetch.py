"""How a batch is made from a dataset, alike in the main process and in a worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from tdt.utils.data.collate import default_collate
from tdt.utils.data.dataset import IterableDataset


class Recipe(NamedTuple):
    """What of a DataLoader decides the content of a batch. `batched`: an index is a list of them."""

    dataset: Any
    batched: bool
    collate_fn: Callable
    drop_last: bool

    @property
    def streams(self) -> bool:
        """Whether the dataset is a stream, whose end no index tells."""
        return isinstance(self.dataset, IterableDataset)

    def fetcher(self) -> Callable[[Any], Any]:
        """A function from what the sampler gave to a batch; a stream's raises StopIteration at its end."""
        return self._from_stream() if self.streams else self._by_index()

    def _by_index(self) -> Callable[[Any], Any]:
        dataset, collate_fn = self.dataset, self.collate_fn
        if not self.batched:
            return lambda index: collate_fn(dataset[index])
        at_once = getattr(dataset, "__getbatch__", None) if collate_fn is default_collate else None
        many = getattr(dataset, "__getitems__", None)

        def fetch(indices: Any) -> Any:
            batch = at_once(indices) if at_once else None
            if batch is not None:
                return batch
            return collate_fn(many(indices) if many else [dataset[index] for index in indices])

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
