"""`DistributedSampler`: each process of several takes its own share of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sized

from tdt import distributed
from tdt._random import Generator, permutation
from tdt.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Indices for one of several processes: every `num_replicas`-th from `rank` on, in order or shuffled.

    All processes get equally many: the first indices are repeated at the end, or with `drop_last` the last ones are
    left out.

    Args:
        num_replicas, rank: None for those of `tdt.distributed`.
        shuffle: draw an order for each epoch from `seed` plus the number that `set_epoch` received.
    Raises:
        ValueError: when `rank` is outside [0, num_replicas).

    >>> import tdt
    >>> sampler = tdt.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    >>> list(sampler), len(sampler)
    ([1, 3, 0], 3)
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True, seed: int = 0,
        drop_last: bool = False,
    ) -> None:  # fmt: skip
        num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else -(-n // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        indices = range(len(self.dataset))
        if self.shuffle:
            indices = permutation(Generator().manual_seed(self.seed + self.epoch), len(indices)).tolist()
        return itertools.islice(itertools.cycle(indices), self.rank, self.total_size, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins, before the loader is iterated: each has an order of its own, the same in all processes."""
        self.epoch = epoch
