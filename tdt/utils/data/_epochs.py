"""One pass over a DataLoader's batches: in this process (`SerialEpoch`) or by workers (`ParallelEpoch`)."""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from multiprocessing import get_context
from typing import Any

import numpy as np

from tdt._backend.device import CPU
from tdt._random import full_range, generator_for
from tdt.utils.data._fetch import Recipe
from tdt.utils.data._progress import Indices, Progress, Sources
from tdt.utils.data._worker import ENDED, Failure, Orders, Sealed
from tdt.utils.data._workers import Workers, default_start_method


def draw_seed(loader: Any) -> int:
    """A base seed from the loader's generator, or the default one: one int64 draw, as PyTorch makes."""
    return int(full_range(generator_for(loader.generator, CPU), (), np.int64))


class Epoch:
    """An iterator over batches, and its progress."""

    def __init__(self, loader: Any, saved: Progress | None) -> None:
        self._recipe = Recipe(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)
        self._streams = self._recipe.streams
        self._told_length = loader._told_length
        self._indices = Indices(loader._index_sampler, loader._sources)
        if saved is None:
            self._indices.begin()
            self.progress = self._indices.progress = Progress(draw_seed(loader), created=self._indices.created)
        else:
            self.progress = saved

    def __iter__(self) -> Epoch:
        return self

    def __len__(self) -> int:
        return len(self._indices)

    def __next__(self) -> Any:
        try:
            batch = self._next()
        except StopIteration:
            self._end()
            raise
        if self._told_length is not None and self.progress.position == self._told_length + 1:
            warnings.warn(
                f"Length of IterableDataset {self._recipe.dataset} was reported to be {self._told_length}, but more than that "
                "many batches were fetched. With workers, each gives the whole stream unless the dataset's __iter__ asks "
                "get_worker_info() which part to give",
                stacklevel=2,
            )
        return batch

    def _next(self) -> Any:
        raise NotImplementedError

    def _end(self) -> None:
        self.progress.done = True


class SerialEpoch(Epoch):
    """Batches made by this process when asked for."""

    def __init__(self, loader: Any, saved: Progress | None) -> None:
        if loader.timeout:
            raise AssertionError(f"timeout={loader.timeout} is for workers, but num_workers is 0")
        super().__init__(loader, saved)
        if saved is None:
            if self._streams:
                self.progress.created = loader._sources.capture()
            self._fetch = self._recipe.fetcher()
        elif self._streams:
            self._read_again(loader._sources, saved)
        else:
            self._fetch = self._recipe.fetcher()
            self._indices.go_on(saved)

    def _read_again(self, sources: Sources, saved: Progress) -> None:
        """A stream has no index to skip to: read it from its start, with the generators as they stood then."""
        now = sources.capture()
        skipped, saved.position, saved.drawn = saved.position, 0, 0
        if saved.created is not None:
            sources.restore(saved.created)
        self._fetch = self._recipe.fetcher()
        self._indices.begin()
        self._indices.progress = saved
        if saved.started is not None:
            sources.restore(saved.started)
        for _ in range(skipped):
            self._next()
        sources.restore(now)

    def _next(self) -> Any:
        index = next(self._indices)
        try:
            batch = self._fetch(index)
        except Exception:
            self.progress.position += 1  # whoever goes on goes on behind it, as with workers
            raise
        self.progress.position += 1
        return batch


class ParallelEpoch(Epoch):
    """Batches made ahead by workers: batch `i` by the `i`-th worker in turn, delivered in the order asked for.

    With in_order=False, whichever is ready first.
    """

    def __init__(self, loader: Any, saved: Progress | None) -> None:
        if loader.prefetch_factor < 1:
            raise AssertionError(f"prefetch_factor must be greater than 0, but got {loader.prefetch_factor}")
        super().__init__(loader, saved)
        self._count = loader.num_workers
        self._ahead = loader.prefetch_factor * self._count
        self._in_order, self._timeout = loader.in_order, loader.timeout
        self._persistent = loader.persistent_workers
        if saved is None:
            self.progress.workers = [None] * self._count
        seed, states = self.progress.base_seed, self.progress.workers
        orders = [
            Orders(Sealed(self._recipe), i, self._count, seed, loader.worker_init_fn, states[i])
            for i in range(self._count)
        ]
        self._workers = Workers(loader.multiprocessing_context or get_context(default_start_method()), orders)
        self._close = weakref.finalize(self, self._workers.close)
        self._line_up()
        if saved is None:
            self._ask_ahead()
        elif saved.done:
            self._renew(loader)
        elif self._streams:
            self._read_again(saved)
        else:
            self._turn = saved.position % self._count
            self._indices.go_on(saved)
            self._ask_ahead()

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except (KeyboardInterrupt, SystemExit):  # it is not known any more what the workers were asked
            self._workers.close("this epoch of the DataLoader was interrupted: iterate over the loader anew")
            raise

    @property
    def ended(self) -> bool:
        """Whether there are no workers any more."""
        return bool(self._workers.ended)

    def restart(self, loader: Any) -> None:
        """Begin the next epoch with the same processes, which keep their generators."""
        while self._tasks:  # what an epoch that was left early had under way
            self._hear([self._tasks[0]])
        if self._streams:
            self._workers.restart()
        self.progress.workers = self._now
        self._renew(loader)

    def _renew(self, loader: Any) -> None:
        """A new epoch for workers that have done one: PyTorch draws no base seed for it."""
        self._indices = Indices(loader._index_sampler, loader._sources)
        self._indices.begin()
        last, created = self.progress, self._indices.created
        self.progress = self._indices.progress = Progress(last.base_seed, created=created, workers=last.workers)
        self._line_up()
        self._ask_ahead()

    def _read_again(self, saved: Progress) -> None:
        """The workers' streams have no index to skip to: read them from their start."""
        skipped, saved.position, saved.drawn = saved.position, 0, 0
        self._indices.begin()
        self._indices.progress = saved
        self._ask_ahead()
        for _ in range(skipped):
            self._next()

    def _line_up(self) -> None:
        self._now = list(self.progress.workers)  # each worker's generator states after what it last sent
        self._active = [True] * self._count
        self._tasks: deque[int] = deque()  # the worker of each batch under way, in order
        self._turn = 0

    def _ask_ahead(self) -> None:
        for _ in range(self._ahead):
            self._ask()

    def _ask(self) -> None:
        """Give the next indices to the next worker in turn (out of order: to the least busy)."""
        if not any(self._active):
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        turns = [(self._turn + i) % self._count for i in range(self._count)]
        able = [worker for worker in turns if self._active[worker]]
        worker = able[0] if self._in_order else min(able, key=self._tasks.count)
        self._turn = (worker + 1) % self._count
        self._workers.load(worker, index)
        self._tasks.append(worker)

    def _hear(self, among: list[int]) -> tuple[int, Any]:
        """The next answer of one of these workers: its number and the batch, ENDED or a Failure."""
        worker, (result, states) = self._workers.receive(among, self._timeout)
        if states is not None:
            self._now[worker] = states
        self._tasks.remove(worker)
        if isinstance(result, str) and result == ENDED:  # it will not answer what else it was asked
            self._active[worker] = False
            self._tasks = deque(other for other in self._tasks if other != worker)
        return worker, result

    def _next(self) -> Any:
        while self._tasks:
            worker, result = self._hear([self._tasks[0]] if self._in_order else sorted(set(self._tasks)))
            if not self._active[worker]:
                self._ask()
                continue
            self._ask()  # fails where a worker has died: then this batch is not delivered, and not counted
            self.progress.position += 1
            if not self._streams:
                self.progress.workers[worker] = self._now[worker]
            if isinstance(result, Failure):
                raise result.error()
            return result
        raise StopIteration

    def _end(self) -> None:
        super()._end()
        self.progress.workers = list(self._now)
        if not self._persistent:
            self._close()
