"""The process that loads batches: it takes index lists from its parent and sends batches back, in order.

It ignores SIGINT, so that Ctrl-C reaches the parent alone, and ends with its parent, however that one ends: when the
pipe closes, or when it finds itself adopted by another process.
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
from tdt.utils.data._fetch import Recipe
from tdt.utils.data._transport import pack, send

CHECK_PARENT = 1.0  # seconds between looks at whose child this process is


@dataclass
class WorkerInfo:
    """What `get_worker_info()` tells a dataset: the worker's number, how many there are, its seed, its dataset copy."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class Sealed:
    """A recipe on its way to a worker. Where the worker is not forked it is pickled with the message that starts the
    process, as locks must be, but sent afterwards, through the worker's own pipe: a process that fails at its very start
    leaves a long message unread, and Python's own writing of it never returns. The worker opens it when it serves, so
    what it cannot load there is reported like any other error.
    """

    def __init__(self, recipe: Recipe):
        self._recipe: Recipe | None = recipe
        self.pickled: bytes | None = None  # in the parent: what is to be sent; in the worker: what has come

    def __getstate__(self) -> bool:
        self.pickled = bytes(ForkingPickler.dumps(self._recipe))
        return True

    def __setstate__(self, state: bool) -> None:
        self._recipe = self.pickled = None

    def receive(self, connection: Connection) -> None:
        """In a worker: wait for the recipe, unless it was forked with it."""
        if self._recipe is None:
            self.pickled = connection.recv_bytes()

    def open(self) -> Recipe:
        """The recipe."""
        if self._recipe is None:
            assert self.pickled is not None
            self._recipe = pickle.loads(self.pickled)
        return self._recipe


class Orders(NamedTuple):
    """What a worker is started with."""

    recipe: Sealed
    worker: int
    num_workers: int
    base_seed: int
    init_fn: Callable[[int], Any] | None
    states: _states.States | None  # of the generators, to go on from


class Failure(NamedTuple):
    """An exception on its way to the parent: its class (RuntimeError where that cannot travel) and its traceback."""

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
        except Exception:  # noqa: BLE001  (a class whose constructor wants something else)
            return RuntimeError(message)
        if message not in str(error):
            error.add_note(message)
        return error


class _Verbatim(str):
    """Text that KeyError shows with its line breaks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


LOAD, RESTART, STOP = "load", "restart", "stop"  # what a parent sends: (one of these, the index of a batch or None)
ENDED = "ended"  # in place of a batch: this worker's stream has no more
_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a loader's worker process: its `id`, `num_workers`, `seed` and `dataset`; in the main process None.

    >>> get_worker_info() is None
    True
    """
    return _info


def work(connection: Connection, others: list[Connection], orders: Orders) -> None:
    """A worker's life. `others`: the parent's ends of pipes that a fork copied here, and that must close with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent held it back around the start
    leave_safe_path()
    for other in others:
        other.close()
    single_threaded()
    try:
        orders.recipe.receive(connection)
    except (EOFError, OSError):  # the parent has gone
        return
    tasks: SimpleQueue = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), name="tdt-loader-tasks", daemon=True).start()
    _states.seed_worker(orders.base_seed, orders.worker)
    try:
        _serve(connection, tasks, orders)
    except (BrokenPipeError, ConnectionResetError):
        return  # the parent has gone, or wants no more


def _listen(connection: Connection, tasks: SimpleQueue) -> None:
    """Move tasks from the pipe to the queue, so that the parent's sends never wait; end the process with its parent."""
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


def _serve(connection: Connection, tasks: SimpleQueue, orders: Orders) -> None:
    where = f"in DataLoader worker process {orders.worker}"
    told = orders.states
    fetch, failure = _begin(lambda: _first(orders), where)
    prepared = failure is None
    while (task := tasks.get())[0] != STOP:
        kind, index = task
        if kind == RESTART:
            if prepared:
                fetch, failure = _begin(orders.recipe.open().fetcher, where)
            continue
        if failure is None and fetch is None:
            continue  # a stream that has ended answers no further tasks
        result: Any = failure
        try:
            if fetch is not None:
                result = fetch(index)
        except StopIteration as end:
            # A dataset with indices has no end: it raised this itself.
            result, fetch = (ENDED, None) if orders.recipe.open().streams else (_failure(end, where), fetch)
        except Exception as error:  # noqa: BLE001  (it is the parent that raises it, in place of a batch)
            result = _failure(error, where)
        states = _states.capture()
        changed = None if _states.same(states, told) else states
        told = states
        try:
            parcel = pack((result, changed))
        except Exception as error:  # noqa: BLE001  (a batch that cannot be pickled)
            parcel = pack((_failure(error, where), changed))
        send(connection, parcel)


def _begin(make: Callable[[], Callable], where: str) -> tuple[Callable | None, Failure | None]:
    """What `make` returns, or else what it raised."""
    try:
        return make(), None
    except Exception as error:  # noqa: BLE001  (as above)
        return None, _failure(error, where)


def _first(orders: Orders) -> Callable:
    """What makes the batches of the first epoch."""
    global _info
    recipe = orders.recipe.open()
    _info = WorkerInfo(orders.worker, orders.num_workers, orders.base_seed + orders.worker, recipe.dataset)
    if orders.init_fn is not None:
        orders.init_fn(orders.worker)
    if orders.states is not None:
        _states.restore(orders.states)
    return recipe.fetcher()


def _failure(error: Exception, where: str) -> Failure:
    text = "".join(traceback.format_exception(*sys.exc_info()))
    kind: type[BaseException] = type(error)
    try:
        pickle.dumps(kind)
    except (pickle.PicklingError, AttributeError, TypeError):
        kind = RuntimeError
    return Failure(kind, where, text)
