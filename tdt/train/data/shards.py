"""`train.shards`: the parts of a global batch, and random numbers that depend on neither processes nor loader workers.

A batch is cut into shards of equal size, up to one sample; a rank loads and computes a block of them. What is random in a
shard is drawn after the process's generators have been seeded with a hash of what it belongs to: seed, step and shard, or
for the samples seed, epoch and index.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tdt
from tdt.distributed._communicator import even_parts
from tdt.train._ranks import Ranks
from tdt.utils.data import Dataset, default_collate

SCHEME = 1  # how random numbers of shards are drawn; recorded in checkpoints


@dataclass(frozen=True)
class Shards:
    """The shards of a run: how many, the ranks that compute them, and the run's seed.

    >>> from tdt.train._ranks import Ranks
    >>> from tdt.train.data.shards import Shards
    >>> shards = Shards(4, Ranks.alone(), seed=0)
    >>> shards.own, shards.cut(list(range(6)))
    (range(0, 4), [[0], [1, 2], [3], [4, 5]])
    """

    count: int
    ranks: Ranks
    seed: int
    accumulate: int = 1  # batches of a step

    @property
    def own(self) -> range:
        """The numbers of the shards of this rank."""
        each = self.count // self.ranks.size
        return range(each * self.ranks.rank, each * (self.ranks.rank + 1))

    def cut(self, batch: list[int]) -> list[list[int]]:
        """The samples of each shard."""
        bounds = even_parts(len(batch), self.count)
        return [batch[bounds[i] : bounds[i + 1]] for i in range(self.count)]

    def seed_for(self, kind: str, *numbers: int) -> None:
        """Seed the default generator, and those of Python and NumPy, with a hash of the run's seed and of these numbers."""
        seed_all(keyed(self.seed, kind, *numbers))


def possible_ranks(shards: int) -> list[int]:
    """The numbers of ranks on which a run with so many shards gives the same bits: one, and shards by powers of two.

    >>> from tdt.train.data.shards import possible_ranks
    >>> possible_ranks(12)
    [1, 3, 6, 12]
    """
    return [n for n in range(1, shards + 1) if n == 1 or (shards % n == 0 and (shards // n).bit_count() == 1)]


def keyed(seed: int, kind: str, *numbers: int) -> int:
    """A seed below 2⁶⁴ from the run's seed and what is drawn.

    >>> from tdt.train.data.shards import keyed
    >>> keyed(0, "step", 1, 2) == keyed(0, "step", 1, 2), keyed(0, "step", 1, 2) == keyed(0, "step", 2, 1)
    (True, False)
    """
    text = ",".join(map(str, (SCHEME, kind, seed, *numbers)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def seed_all(seed: int) -> None:
    """Seed the default generator, and those of Python and NumPy, which datasets and transforms may use."""
    tdt.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)


def snapshot_all() -> Callable[[], None]:
    """Note the state of these generators. Returns a function that restores it."""
    state, own, arrays = tdt.default_generator.get_state(), random.getstate(), np.random.get_state()
    of_gpus = tdt.cuda.get_rng_state_all()

    def restore() -> None:
        tdt.default_generator.set_state(state)
        tdt.cuda.set_rng_state_all(of_gpus)
        random.setstate(own)
        np.random.set_state(arrays)

    return restore


class ShardedDataset(Dataset):
    """Batches of a training split as a list of the rank's shards, None for one without samples.

    Args:
        dataset: the split.
        drawn: whether its samples are random; then the generators are seeded for each, or for each shard where the dataset
            makes a batch of several samples at once.
    """

    def __init__(self, dataset: Any, seed: int, drawn: bool) -> None:
        self.dataset, self.seed, self.drawn = dataset, seed, drawn

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[index]

    def __getbatch__(self, batch: tuple[int, list[list[int]]]) -> list[Any]:
        """The shards of a batch: batch is the epoch, and the samples of each shard."""
        epoch, shards = batch
        return [self._shard(epoch, indices) if indices else None for indices in shards]

    def _shard(self, epoch: int, indices: list[int]) -> Any:
        if hasattr(self.dataset, "__getbatch__"):
            self._seed(epoch, *indices)
            if (batch := self.dataset.__getbatch__(indices)) is not None:
                return batch
        return default_collate([self._sample(epoch, index) for index in indices])

    def _sample(self, epoch: int, index: int) -> Any:
        self._seed(epoch, index)
        return self.dataset[index]

    def _seed(self, epoch: int, *indices: int) -> None:
        if self.drawn:
            seed_all(keyed(self.seed, "samples", epoch, *indices))


class ShardedBatches:
    """A batch sampler over one of global batches: the epoch, and for each shard of this rank the samples of each batch.

    epoch: set by the trainer before an epoch begins.
    """

    def __init__(self, batches: Any, shards: Shards) -> None:
        self.batches, self.shards, self.epoch = batches, shards, 0
        self.sampler, self.recent = batches.sampler, batches.recent

    def __iter__(self) -> Iterator[tuple[int, list[list[int]]]]:
        for batch in self.batches:
            parts = self.shards.cut([int(i) for i in batch])
            yield self.epoch, [parts[i] for i in self.shards.own]

    def __len__(self) -> int:
        return len(self.batches)
