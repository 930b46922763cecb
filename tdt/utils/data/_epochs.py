"""Iterators over the batches of one epoch: in this process (`SerialEpoch`) or with workers (`ParallelEpoch`)."""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from multiprocessing import get_context
from typing import Any

import numpy as np

from tdt._backend.device import CPU
from tdt._random import full_range, generator_for
from tdt.utils.data._fetch import FetcherFactory
from tdt.utils.data._progress import Indices, Progress, Sources
from tdt.utils.data._worker import ENDED, Failure, SentFactory, WorkerConfig
from tdt.utils.data._workers import Workers, default_start_method


def draw_seed(loader: Any) -> int:
    """A base seed, drawn from the loader's generator or the default one as PyTorch draws it: one int64."""
    return int(full_range(generator_for(loader.generator, CPU), (), np.int64))


class Epoch:
    """An iterator over batches, and its progress."""

    def __init__(self, loader: Any, saved: Progress | None) -> None:
        self._factory = FetcherFactory(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)
        self._is_iterable = self._factory.is_iterable
        self._reported_length = loader._reported_length
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
        if self._reported_length is not None and self.progress.position == self._reported_length + 1:
            warnings.warn(
                f"Length of IterableDataset {self._factory.dataset} was reported to be {self._reported_length}, but more "
                "than that many batches were fetched. With several workers, each iterates over the whole dataset unless its "
                "__iter__ uses get_worker_info() to select a part",
                stacklevel=2,
            )
        return batch

    def _next(self) -> Any:
        raise NotImplementedError

    def _end(self) -> None:
        self.progress.done = True


class SerialEpoch(Epoch):
    """Loads each batch in this process, when it is requested."""

    def __init__(self, loader: Any, saved: Progress | None) -> None:
        if loader.timeout:
            raise AssertionError(f"timeout={loader.timeout} needs workers, but num_workers is 0")
        super().__init__(loader, saved)
        if saved is None:
            if self._is_iterable:
                self.progress.created = loader._sources.capture()
            self._fetch = self._factory.fetcher()
        elif self._is_iterable:
            self._replay(loader._sources, saved)
        else:
            self._fetch = self._factory.fetcher()
            self._indices.resume(saved)

    def _replay(self, sources: Sources, saved: Progress) -> None:
        """Resume an iterable dataset: iterate again from its start, with the generator states of that time."""
        now = sources.capture()
        skipped, saved.position, saved.drawn = saved.position, 0, 0
        if saved.created is not None:
            sources.restore(saved.created)
        self._fetch = self._factory.fetcher()
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
            self.progress.position += 1  # the next batch follows the failed one, as with workers
            raise
        self.progress.position += 1
        return batch


class ParallelEpoch(Epoch):
    """Workers prefetch batches: batch `i` is loaded by worker `i % num_workers`, and delivered in sampler order.

    With in_order=False, batches are delivered as soon as they are ready.
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
        configs = [
            WorkerConfig(SentFactory(self._factory), i, self._count, seed, loader.worker_init_fn, states[i])
            for i in range(self._count)
        ]
        self._workers = Workers(loader.multiprocessing_context or get_context(default_start_method()), configs)
        self._close = weakref.finalize(self, self._workers.close)
        self._reset_tasks()
        if saved is None:
            self._prefetch()
        elif saved.done:
            self._start_next(loader)
        elif self._is_iterable:
            self._replay(saved)
        else:
            self._next_worker = saved.position % self._count
            self._indices.resume(saved)
            self._prefetch()

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except (KeyboardInterrupt, SystemExit):  # the requests to the workers may be incomplete
            self._workers.close("this epoch of the DataLoader was interrupted: start a new iteration")
            raise

    @property
    def ended(self) -> bool:
        """Whether the workers have been stopped."""
        return bool(self._workers.ended)

    def restart(self, loader: Any) -> None:
        """Start the next epoch with the same worker processes, whose generators continue."""
        while self._tasks:  # outstanding batches, if the last epoch was left early
            self._receive([self._tasks[0]])
        if self._is_iterable:
            self._workers.restart()
        self.progress.workers = self._worker_states
        self._start_next(loader)

    def _start_next(self, loader: Any) -> None:
        """Start the next epoch of persistent workers: PyTorch does not draw a base seed for it."""
        self._indices = Indices(loader._index_sampler, loader._sources)
        self._indices.begin()
        last, created = self.progress, self._indices.created
        self.progress = self._indices.progress = Progress(last.base_seed, created=created, workers=last.workers)
        self._reset_tasks()
        self._prefetch()

    def _replay(self, saved: Progress) -> None:
        """Resume iterable datasets of the workers: iterate again from their start."""
        skipped, saved.position, saved.drawn = saved.position, 0, 0
        self._indices.begin()
        self._indices.progress = saved
        self._prefetch()
        for _ in range(skipped):
            self._next()

    def _reset_tasks(self) -> None:
        self._worker_states = list(self.progress.workers)  # generator states of each worker after its last reply
        self._active = [True] * self._count
        self._tasks: deque[int] = deque()  # the worker of each outstanding batch, in order
        self._next_worker = 0

    def _prefetch(self) -> None:
        for _ in range(self._ahead):
            self._send_index()

    def _send_index(self) -> None:
        """Send the next indices to the next worker in turn (with in_order=False: to the least busy)."""
        if not any(self._active):
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        turns = [(self._next_worker + i) % self._count for i in range(self._count)]
        able = [worker for worker in turns if self._active[worker]]
        worker = able[0] if self._in_order else min(able, key=self._tasks.count)
        self._next_worker = (worker + 1) % self._count
        self._workers.load(worker, index)
        self._tasks.append(worker)

    def _receive(self, among: list[int]) -> tuple[int, Any]:
        """The next reply of one of these workers: its number and the batch, ENDED or a Failure."""
        worker, (result, states) = self._workers.receive(among, self._timeout)
        if states is not None:
            self._worker_states[worker] = states
        self._tasks.remove(worker)
        if isinstance(result, str) and result == ENDED:  # it does not reply to its outstanding tasks
            self._active[worker] = False
            self._tasks = deque(other for other in self._tasks if other != worker)
        return worker, result

    def _next(self) -> Any:
        while self._tasks:
            worker, result = self._receive([self._tasks[0]] if self._in_order else sorted(set(self._tasks)))
            if not self._active[worker]:
                self._send_index()
                continue
            self._send_index()  # raises if a worker has died: then this batch is not delivered and not counted
            self.progress.position += 1
            if not self._is_iterable:
                self.progress.workers[worker] = self._worker_states[worker]
            if isinstance(result, Failure):
                raise result.error()
            return result
        raise StopIteration

    def _end(self) -> None:
        super()._end()
        self.progress.workers = list(self._worker_states)
        if not self._persistent:
            self._close()
