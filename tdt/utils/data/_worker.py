"""The dataloader worker process: receives index lists from its parent and sends batches back, in order.

It ignores SIGINT, so that only the parent handles Ctrl-C. It exits when its parent does, however the parent ends: when
the pipe closes, or when its parent process id has changed.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from typing import Any, NamedTuple

from tdt._kernels._pool import single_threaded
from tdt._safe_path import leave_safe_path
from tdt.utils.data import _states
from tdt.utils.data._fetch import FetcherFactory
from tdt.utils.data._transport import pack, send

CHECK_PARENT = 1.0  # seconds between two checks whether the parent is still alive


@dataclass
class WorkerInfo:
    """What `get_worker_info()` returns to a dataset: the worker's number, how many there are, its seed, its dataset copy."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class SentFactory:
    """A `FetcherFactory` that is sent to a worker process.

    A forked worker inherits it. For other start methods it is pickled while the process starts (only then can locks be
    pickled), but sent afterwards over the worker's pipe: if a process fails while starting, it does not read its
    arguments, and a large write to it would block forever. The worker unpickles it in `open`, so that errors while
    unpickling are reported like any other.
    """

    def __init__(self, factory: FetcherFactory) -> None:
        self._factory: FetcherFactory | None = factory
        self.pickled: bytes | None = None  # the bytes to send (in the parent) or received (in the worker)

    def __getstate__(self) -> bool:
        self.pickled = bytes(ForkingPickler.dumps(self._factory))
        return True

    def __setstate__(self, state: bool) -> None:
        self._factory = self.pickled = None

    def receive(self, connection: Connection) -> None:
        """In a worker: receive the factory, unless the worker was forked."""
        if self._factory is None:
            self.pickled = connection.recv_bytes()

    def open(self) -> FetcherFactory:
        """The factory, unpickled on first use."""
        if self._factory is None:
            assert self.pickled is not None
            self._factory = pickle.loads(self.pickled)
        return self._factory


class WorkerConfig(NamedTuple):
    """The arguments of a worker process."""

    factory: SentFactory
    worker: int
    num_workers: int
    base_seed: int
    init_fn: Callable[[int], Any] | None
    states: _states.States | None  # of the random generators, to restore


class Failure(NamedTuple):
    """An exception sent to the parent: its class (RuntimeError if the class cannot be pickled) and its traceback."""

    kind: type[BaseException]
    where: str
    text: str

    def error(self) -> BaseException:
        """The exception to raise in the parent."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if issubclass(self.kind, KeyError):
            return KeyError(_Verbatim(message))
        try:
            error = self.kind(message)
        except Exception:  # noqa: BLE001  (the constructor has other parameters)
            return RuntimeError(message)
        if message not in str(error):
            error.add_note(message)
        return error


class _Verbatim(str):
    """A message whose line breaks KeyError prints as they are; it prints the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


LOAD, RESTART, STOP = "load", "restart", "stop"  # tasks from the parent: (one of these, the indices of a batch or None)
ENDED = "ended"  # sent instead of a batch: this worker's iterable dataset is exhausted
_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a loader's worker process: its `id`, `num_workers`, `seed` and `dataset`; in the main process None.

    >>> import tdt
    >>> tdt.utils.data.get_worker_info() is None
    True
    """
    return _info


def work(connection: Connection, others: list[Connection], config: WorkerConfig) -> None:
    """The main function of a worker. `others`: the parent's ends of pipes, which a forked worker inherits and must close."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A scheduler sends SIGTERM to all processes. Where the parent handles it itself, it still needs its workers, and ends them.
    is_handled = callable(signal.getsignal(signal.SIGTERM))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if is_handled else signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent blocks it while workers start
    leave_safe_path()
    for other in others:
        other.close()
    single_threaded()
    try:
        config.factory.receive(connection)
    except (EOFError, OSError):  # the parent has exited
        return
    tasks: SimpleQueue = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), name="tdt-loader-tasks", daemon=True).start()
    _states.seed_worker(config.base_seed, config.worker)
    try:
        _serve(connection, tasks, config)
    except (BrokenPipeError, ConnectionResetError):
        return  # the parent has exited or closed the pipe


def _listen(connection: Connection, tasks: SimpleQueue) -> None:
    """Move tasks from the pipe to the queue, so that the parent's sends never block; exit when the parent exits."""
    parent = os.getppid()
    while True:
        try:
            if connection.poll(CHECK_PARENT):
                task = connection.recv()
                tasks.put(task)
                if task[0] == STOP:
                    return
            elif os.getppid() != parent:
                os._exit(1)
        except (EOFError, OSError):
            os._exit(1)


def _serve(connection: Connection, tasks: SimpleQueue, config: WorkerConfig) -> None:
    where = f"in DataLoader worker process {config.worker}"
    last_states = config.states
    fetch, failure = _try_build(lambda: _first_fetcher(config), where)
    prepared = failure is None
    while (task := tasks.get())[0] != STOP:
        kind, index = task
        if kind == RESTART:
            if prepared:
                fetch, failure = _try_build(config.factory.open().fetcher, where)
            continue
        if failure is None and fetch is None:
            continue  # the iterable dataset is exhausted: no reply to further tasks
        result: Any = failure
        try:
            if fetch is not None:
                result = fetch(index)
        except StopIteration as end:
            # A map-style dataset has no end: its own code raised StopIteration.
            result, fetch = (ENDED, None) if config.factory.open().is_iterable else (_failure(end, where), fetch)
        except Exception as error:  # noqa: BLE001  (the parent raises it, in place of the batch)
            result = _failure(error, where)
        states = _states.capture()
        changed = None if _states.same(states, last_states) else states
        last_states = states
        try:
            message = pack((result, changed))
        except Exception as error:  # noqa: BLE001  (a batch that cannot be pickled)
            message = pack((_failure(error, where), changed))
        send(connection, message)


def _try_build(make: Callable[[], Callable], where: str) -> tuple[Callable | None, Failure | None]:
    """The fetcher that `make` returns, or the exception that it raised."""
    try:
        return make(), None
    except Exception as error:  # noqa: BLE001  (as above)
        return None, _failure(error, where)


def _first_fetcher(config: WorkerConfig) -> Callable:
    """The fetcher of the first epoch, after worker_init_fn and with the saved generator states."""
    global _info
    factory = config.factory.open()
    _info = WorkerInfo(config.worker, config.num_workers, config.base_seed + config.worker, factory.dataset)
    if config.init_fn is not None:
        config.init_fn(config.worker)
    if config.states is not None:
        _states.restore(config.states)
    return factory.fetcher()


def _failure(error: Exception, where: str) -> Failure:
    text = "".join(traceback.format_exception(*sys.exc_info()))
    kind: type[BaseException] = type(error)
    try:
        pickle.dumps(kind)
    except (pickle.PicklingError, AttributeError, TypeError):
        kind = RuntimeError
    return Failure(kind, where, text)
