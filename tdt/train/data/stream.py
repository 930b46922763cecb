"""`IterableDataset`s of a config: streams, whose samples are read by their positions."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from tdt.train.config import ConfigErrors, DataConfig, Loader
from tdt.train.data.shards import keyed, seed_all
from tdt.utils.data import Dataset, IterableDataset, Sampler, _states, _worker

AHEAD = 16  # samples that are read at once, since exchanging the states of the generators takes time
FORWARDED = ("classes", "has_masks", "notes", "source_files")  # what a stream may have of other datasets


class Stream(Dataset):
    """The samples of an IterableDataset by number: sample i of epoch e is e · len + i.

    Numbers that follow each other are read as they come. An earlier one, or another epoch, begins the stream anew, and the
    samples between are skipped. Each worker and each rank reads the whole stream and keeps its own samples, so that neither
    changes the order: `get_worker_info()` is None in it. What it draws from the generators of tdt, NumPy and Python depends on
    the seed and the epoch alone.

    Args:
        length: samples of an epoch, with which a stream may not end early; what is beyond is not read.

    >>> import tdt
    >>> from tdt.train.data.stream import Stream
    >>> class Count(tdt.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter("abc")
    >>> stream = Stream(Count(), 3, seed=0)
    >>> stream[0], stream[2], stream[4]
    ('a', 'c', 'b')
    """

    def __init__(self, stream: Any, length: int, seed: int) -> None:
        self.stream, self.length, self.seed = stream, length, seed
        self._process = 0  # that reads; others begin anew, since files of the iterator would be shared

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> Any:
        epoch, place = divmod(int(number), self.length)
        if self._process != os.getpid() or epoch != self._epoch or place < self._place:
            self._begin(epoch)
        while self._place < place:
            self._advance()
        return self._sample

    def __getstate__(self) -> Any:
        return {"stream": self.stream, "length": self.length, "seed": self.seed, "_process": 0}

    def __getattr__(self, name: str) -> Any:
        if name not in FORWARDED:
            raise AttributeError(name)
        return getattr(self.stream, name)

    def _begin(self, epoch: int) -> None:
        self._process, self._epoch, self._place, self._sample = os.getpid(), epoch, -1, None
        self._ahead: deque[Any] = deque()
        self._error: Exception | None = None
        with self._own_generators(None):
            seed_all(keyed(self.seed, "stream", epoch))
            self._iterator: Iterator[Any] = iter(self.stream)

    def _advance(self) -> None:
        if not self._ahead and self._error is None:
            with self._own_generators(self._states):
                try:
                    self._ahead.extend(islice(self._iterator, min(AHEAD, self.length - self._place - 1)))
                except Exception as error:  # noqa: BLE001 (raised in its place, after the samples before it)
                    self._error = error
        if not self._ahead:
            raise self._error or ValueError(
                f"the stream ended after {self._place + 1} samples, but an epoch has {self.length}: its __len__, or samples "
                "of the loader, must not be more than it gives"
            )
        self._sample, self._place = self._ahead.popleft(), self._place + 1

    @contextmanager
    def _own_generators(self, states: Any) -> Iterator[None]:
        """The stream's own states of the process's generators, and no worker."""
        outside, worker = _states.capture(), _worker._info
        _worker._info = None
        try:
            if states is not None:
                _states.restore(states)
            yield
            self._states = _states.capture()
        finally:
            _states.restore(outside)
            _worker._info = worker


class StreamOrder(Sampler[int]):
    """The numbers of an epoch's samples. epoch: set by the trainer before an epoch begins."""

    def __init__(self, length: int) -> None:
        self.length, self.epoch = length, 0

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.epoch * self.length, (self.epoch + 1) * self.length))

    def __len__(self) -> int:
        return self.length


def is_stream(dataset: Any) -> bool:
    """Whether the samples of a split come from a stream."""
    return isinstance(dataset, Stream) or (hasattr(dataset, "dataset") and is_stream(dataset.dataset))


def opened_stream(dataset: IterableDataset[Any], samples: int | None, seed: int, key: str) -> Stream:
    """A stream as a dataset. samples: of an epoch, where it has no length; key: the setting that says so.

    Raises:
        ValueError: neither is known.
    """
    try:
        length: int | None = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        length = samples
    if length is None:
        raise ValueError(
            f"is an IterableDataset without a length, but epochs are counted in samples: set {key}, or define __len__"
        )
    return Stream(dataset, length, seed)


def check_streams(
    data: DataConfig, datasets: Mapping[str, Any], uses: Mapping[str, object], errors: ConfigErrors
) -> None:
    """Report settings that need samples in any order, and lengths that are not used.

    uses: settings elsewhere in the config that read all targets of the training split, with their values.
    """
    train = data.loader
    if "train" in datasets and is_stream(datasets["train"]):
        if train.shuffle and "shuffle" in train.model_fields_set:
            message = "DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True"
            errors.add("data.loader.shuffle", f"{message}; let its __iter__ shuffle")
        uses = {"data.loader.sampler": train.sampler, **uses}
        for key, value in uses.items():
            if value is not None:
                errors.add(key, "needs the targets of all samples, but data.train is an IterableDataset")
    for name, loader, key in (("train", data.loader, "loader"), ("valid test", data.eval_loader, "eval_loader")):
        own = [datasets[split] for split in name.split() if split in datasets]
        if loader.samples is not None and own and not any(map(_lacks_length, own)):
            message = "is not used: only an IterableDataset without a length needs it"
            errors.add(f"data.{key}.samples", message, kind="unused")


def _lacks_length(dataset: Any) -> bool:
    if not isinstance(dataset, Stream):
        return hasattr(dataset, "dataset") and _lacks_length(dataset.dataset)
    return not hasattr(dataset.stream, "__len__")


def in_order(loader: Loader) -> Loader:
    """The loader settings of a stream, which is never shuffled."""
    return loader.model_copy(update={"shuffle": False})
