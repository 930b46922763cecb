"""`DataLoader`: batches of a dataset, in this process or by workers, with an order that a seed fixes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Any, Generic

from tdt._random import Generator
from tdt.utils.data import _states
from tdt.utils.data._epochs import Epoch, ParallelEpoch, SerialEpoch
from tdt.utils.data._epochs import Epoch as _BaseDataLoaderIter  # noqa: F401  (PyTorch's names)
from tdt.utils.data._epochs import ParallelEpoch as _MultiProcessingDataLoaderIter  # noqa: F401
from tdt.utils.data._epochs import SerialEpoch as _SingleProcessDataLoaderIter  # noqa: F401
from tdt.utils.data._progress import Progress, Sources
from tdt.utils.data._types import CollateFunction, Samples, SizedSamples, T_co
from tdt.utils.data.collate import default_collate, default_convert
from tdt.utils.data.dataset import IterableDataset
from tdt.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

FORMAT = 1  # version of the state_dict
FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Endless(Sampler[Any]):
    """The sampler of an IterableDataset: yields None forever."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Batches of `dataset`: iterate over it once per epoch.

    batch_size: samples per batch; None gives single samples. shuffle: a new random order every epoch. sampler, or
    batch_sampler, gives the order instead. num_workers: processes that load ahead, prefetch_factor batches each (2);
    0 loads in this process. collate_fn: from a list of samples to a batch. drop_last: leave out a last, shorter batch.
    timeout: seconds to wait for a worker, 0 for ever. worker_init_fn(worker number) runs in each worker at its start.
    generator: draws the order and the workers' seeds, by default the global one. persistent_workers: keep the processes
    from epoch to epoch. in_order=False delivers what is ready first. pin_memory has no effect and says so.

    The order of batches, the seeds of workers and the state in which an epoch leaves the generator are PyTorch's.
    `state_dict()` during an epoch and `load_state_dict()` give, in a new process, exactly the batches that were to come.
    ValueError for arguments that contradict each other.

    >>> import tdt
    >>> from tdt.utils.data import TensorDataset
    >>> data = TensorDataset(tdt.arange(5))
    >>> [batch for [batch] in tdt.utils.data.DataLoader(data, batch_size=2)]
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    _ready = False

    def __init__(
        self,
        dataset: Samples[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: CollateFunction | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_order(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if pin_memory:
            warnings.warn("'pin_memory' argument is set as true but pinned memory is not used", stacklevel=2)
        self.dataset: SizedSamples[T_co] = dataset  # type: ignore[assignment]  # len raises TypeError for a stream
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.in_order = in_order
        self.persistent_workers = persistent_workers
        if sampler is None:
            if isinstance(dataset, IterableDataset):
                sampler = _Endless()
            else:
                sized: Any = dataset  # a sampler checks that it has a length
                sampler = RandomSampler(sized, generator=generator) if shuffle else SequentialSampler(sized)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self._sources = Sources(self, sampler, batch_sampler, getattr(batch_sampler, "sampler", None))
        self._progress: Progress | None = None
        self._resume: Progress | None = None
        self._persistent_epoch: ParallelEpoch | None = None
        self._reported_length: int | None = None  # of an IterableDataset, once len() was called
        self._ready = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        object.__setattr__(self, name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How workers are started; None for the platform's usual way. May be set, also by the name of the method."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: str | BaseContext | None) -> None:
        self._context = None if context is None else _context(context, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:  # Any: collate_fn decides the type of batches
        saved, self._resume = self._resume, None
        if self.num_workers == 0:
            return self._track(SerialEpoch(self, saved))
        epoch, self._persistent_epoch = self._persistent_epoch, None  # so that an error below leaves no started epoch
        if epoch is None or epoch.ended or saved is not None:
            epoch = ParallelEpoch(self, saved)
        else:
            epoch.restart(self)
        self._persistent_epoch = epoch if self.persistent_workers else None
        return self._track(epoch)

    def _track(self, epoch: Epoch) -> Epoch:
        self._progress = epoch.progress
        return epoch

    def __len__(self) -> int:
        """How many batches an epoch has; TypeError for a dataset or sampler without a length."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        samples = self._reported_length = len(self.dataset)
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Position in the latest epoch, from which `load_state_dict` continues.

        It holds how many batches were delivered, the states from which the order is drawn again, those of each worker
        after its
        last delivered batch, and those of this process's generators; numbers, strings, lists, dicts and uint8 tensors
        only. An
        IterableDataset is read again from its start.

        Raises:
            RuntimeError: when the epoch has in_order=False: its batches have no fixed order.
        """
        progress = self._progress
        if progress is not None and progress.done and not self.persistent_workers:
            progress = None
        if progress is not None and self.num_workers and not self.in_order:
            raise RuntimeError(
                "state_dict: batches have no fixed order with in_order=False; use in_order=True to resume"
            )
        return {
            "format": FORMAT,
            "num_workers": self.num_workers,
            "now": _states.as_tensors(self._sources.capture()),
            "epoch": None if progress is None else _states.as_tensors(progress.to_dict()),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned: the next `iter` gives the rest of that epoch.

        The states of the process's generators and those given to the loader are restored.

        Raises:
            ValueError: when the format is unknown, or the epoch began with another number of workers.
        """
        if state_dict["format"] != FORMAT:
            raise ValueError(
                f"load_state_dict: format {state_dict['format']} is unknown; this version reads format {FORMAT}"
            )
        epoch = state_dict["epoch"]
        if epoch is not None and state_dict["num_workers"] != self.num_workers:
            raise ValueError(
                f"load_state_dict: the epoch was started with num_workers={state_dict['num_workers']}, this loader has "
                f"{self.num_workers}; only the same number gives the same batches"
            )
        self._sources.restore(_states.as_arrays(state_dict["now"]))
        self._progress = self._resume = None if epoch is None else Progress.of(_states.as_arrays(epoch))
        self._persistent_epoch = None

    def check_worker_number_rationality(self) -> None:
        """Warn when there are more workers than processors."""
        able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.num_workers > able:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total, more than the {able} "
                "processors this process may use; they will take turns. Lower num_workers",
                stacklevel=3,
            )


def _check_workers(count: int, timeout: float, ahead: int | None, persistent: bool) -> None:
    if count < 0:
        raise ValueError(
            f"num_workers option should be non-negative; use num_workers=0 to disable multiprocessing. Got {count}"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if count == 0 and ahead is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if ahead is not None and ahead < 0:
        raise ValueError(f"prefetch_factor option should be non-negative, got {ahead}")
    if persistent and count == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _context(context: Any, count: int) -> BaseContext:
    """The context of a start method's name, or a context as it is. ValueError or TypeError for anything else."""
    if count == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got num_workers=0"
        )
    if isinstance(context, str):
        if context not in get_all_start_methods():
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {get_all_start_methods()}, but "
                f"got multiprocessing_context={context!r}"
            )
        return get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context


def _check_order(
    dataset: Any, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if isinstance(dataset, IterableDataset):
        arguments = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, value in arguments.items():
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
