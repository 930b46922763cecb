"""Collectives on arrays, over MPI; results have the same bits on every process, for any number of them.

Nothing is reduced by MPI itself, whose order of additions differs between its implementations and with the message's size.
Each element is reduced by one process (or by all), up a fixed binary tree over the processes: neighbours are added in pairs,
then neighbouring pairs, and so on.
"""

from __future__ import annotations

import itertools
import os
import pickle
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tdt._backend import current, on, to_device
from tdt._backend.device import CPU, device
from tdt._kernels._formulas import LOWER

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")
Array = npt.NDArray[Any]
# A collective: yields what must be complete before it goes on.
Steps = Generator["MPI.Request | _Turn | _WithStatus", None, None]

Combine = Callable[[Array, Array], Array]  # how two arrays are reduced, a ufunc

SMALL = 1 << 14  # bytes up to which every process reduces all of an array, in one exchange instead of two
SMALL_OF_TWO = 1 << 20  # the same for two processes, to which one exchange sends no more bytes than two
SPIN = 200e-6  # seconds for which a waiting process asks without a pause
RATE = 2e8  # bytes a second that it is given to move meanwhile: MPI moves data only while it is asked
PAUSE = 50e-6  # seconds between two questions after that
AT_ONCE = (
    1024  # bytes of a pickled object, and of its length, up to which it is gathered in one exchange instead of two
)


def tree_reduce(parts: Sequence[Array] | Array, combine: Combine = np.add, out: Array | None = None) -> Array:
    """Combine arrays up a binary tree: neighbours in pairs, then neighbouring pairs, and so on.

    Half precision is combined in float32. The result is written to `out` too, where that is given.

    >>> import numpy as np
    >>> from tdt.distributed._communicator import tree_reduce
    >>> tree_reduce([np.array("a", object), np.array("b", object), np.array("c", object)], lambda a, b: "(" + a + b + ")")
    '((ab)c)'
    """
    lower = not isinstance(parts, Sequence) and parts.dtype in LOWER
    level = list(parts.astype(np.float32) if lower else parts)  # type: ignore[union-attr]
    while len(level) > 1:
        if len(level) == 2 and out is not None and hasattr(combine, "nin") and out.dtype == level[0].dtype:  # a ufunc
            return combine(level[0], level[1], out=out)  # type: ignore[call-arg]
        pairs = [combine(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    if out is not None:
        out[...] = level[0]
    return level[0]


def even_parts(length: int, count: int) -> list[int]:
    """The bounds of `count` parts of a length, as even as possible: count + 1 numbers from 0 to `length`.

    >>> from tdt.distributed._communicator import even_parts
    >>> even_parts(10, 4)
    [0, 2, 5, 7, 10]
    """
    return [length * i // count for i in range(count + 1)]


class Progress:
    """A collective that has begun; `poll` and `wait` take it further, in the thread that began it."""

    waiting: Progress | None = None  # the collective that this process waits for, which the watchdog names
    latest: str = ""  # the name of the last collective that has begun
    count: int = 0  # how many have begun

    def __init__(self, steps: Steps, name: str, timeout: float | None, communicator: Communicator) -> None:
        self.name, self.timeout, Progress.latest = name, timeout, name
        Progress.count += 1
        self._steps = steps
        self._request: Any = None
        self._communicator, self.size = communicator, communicator.size
        self._bytes = 0  # of its messages so far
        self.done = False
        communicator.begun.append(self)
        self._advance()

    def _advance(self) -> None:
        before = self._communicator.bytes
        try:
            self._request = next(self._steps)
            self._bytes += self._communicator.bytes - before
            while self._request.Test():
                self._request = next(self._steps)
        except StopIteration:
            self.done = True
            self._communicator.begun.remove(self)

    def poll(self) -> bool:
        """Take all collectives of the communicator as far as they go without waiting. Returns whether this one is done."""
        if not self.done:
            for progress in tuple(self._communicator.begun):
                if progress._request is not None and progress._request.Test():
                    progress._advance()
        return self.done

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end. Raises TimeoutError after `timeout` seconds (default: that of the collective)."""
        timeout = self.timeout if timeout is None else timeout
        if self.poll():
            return
        began, Progress.waiting = time.monotonic(), self
        try:
            while not self.poll():
                waited = time.monotonic() - began
                if waited > SPIN:
                    os.sched_yield()  # the processes may share a core
                    if waited > SPIN + self._bytes / RATE:
                        time.sleep(PAUSE)
                if timeout is not None and waited > timeout:
                    raise TimeoutError(f"{self.name}: the other processes did not take part within {timeout:g} s")
        finally:
            Progress.waiting = None


class _Turn:
    """What `Progress` waits for before the second part of a collective: that the earlier ones have begun theirs.

    MPI requires that all processes begin the collectives of a communicator in one order.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator, self._number = communicator, communicator.tickets
        communicator.tickets += 1

    def Test(self) -> bool:
        return self._communicator.served == self._number


class Communicator:
    """The processes of a group: the collectives that all of them call in one order.

    Arrays are contiguous, one-dimensional and on `device`: the host here, a GPU in `GpuCommunicator`, which adds by the same
    algorithms and differs in what moves the bytes. Each method that returns Steps is a generator for `begin`.

    Args:
        mpi: the module `mpi4py.MPI`, and its communicator; None: a group of this process alone, without MPI.
        device: where arrays are.
    """

    def __init__(self, mpi: Any = None, comm: MPI.Comm | None = None, device: device = CPU) -> None:
        self.mpi, self.device, self.xp = mpi, device, on(device)
        self.comm = None if comm is None else comm.Dup()  # of our own: a program may use the other itself
        self._seconds = None if comm is None else comm.Dup()  # the second parts of collectives
        self.rank: int = 0 if comm is None else comm.Get_rank()
        self.size: int = 1 if comm is None else comm.Get_size()
        self.tickets = self.served = 0  # collectives with a second part: begun, and whose second part has begun
        self.alone = comm is None  # whether arrays stay as they are, with nothing to send
        self.begun: list[Progress] = []  # collectives that are not done, in order
        self.bytes = 0  # of all messages so far

    def begin(self, steps: Steps, name: str, timeout: float | None = None) -> Progress:
        """Begin a collective; all processes begin the same ones, in one order. name: for messages."""
        return Progress(steps, name, timeout, self)

    def exchanged(self, value: T, name: str) -> list[T]:
        """The objects of all processes, which are pickled, by rank."""
        values: list[T] = []
        self.begin(self.exchange(value, values), name).wait()
        return values

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """A new array where those of collectives are."""
        with current(self.device):
            return self.xp.empty(shape, dtype)

    def local(self, array: Any) -> Array:
        """`array`, or a copy of it where arrays of collectives are."""
        return to_device(array, self.device)

    def _tree_reduce(self, rows: Array, combine: Combine, out: Array) -> None:
        tree_reduce(rows, getattr(self.xp, combine.__name__) if isinstance(combine, np.ufunc) else combine, out)

    def _message(self, array: Array, bounds: Sequence[int] | None = None) -> Any:
        """An array as bytes for MPI; bounds: of the part for each process, in elements."""
        data = array.view(np.uint8) if array.size else np.empty(0, np.uint8)
        self.bytes += data.nbytes
        if bounds is None:
            return [data, self.mpi.BYTE]
        edges = [bound * array.itemsize for bound in bounds]
        return [data, ([b - a for a, b in itertools.pairwise(edges)], edges[:-1]), self.mpi.BYTE]

    def barrier(self) -> Steps:
        """Wait until all processes have come here."""
        if self.comm is not None:
            yield self.comm.Ibarrier()

    def broadcast(self, array: Array, root: int) -> Steps:
        """Copy the array of process `root` into that of each other."""
        if self.comm is not None and array.size:
            yield self.comm.Ibcast(self._message(array), root)

    def all_gather(self, array: Array, into: Array, bounds: Sequence[int] | None = None) -> Steps:
        """Gather each process's array in `into`, by rank. bounds: of each one's part there, by default all of one length."""
        bounds = [array.size * i for i in range(self.size + 1)] if bounds is None else bounds
        own = into[bounds[self.rank] : bounds[self.rank + 1]]
        if own.size and not np.shares_memory(own, array):
            own[...] = array
        if self.comm is not None and into.size:
            yield self.comm.Iallgatherv(self.mpi.IN_PLACE, self._message(into, bounds))

    def exchange(self, value: Any, into: list[Any]) -> Steps:
        """Gather each process's object, which is pickled, in the list, by rank."""
        if self.comm is None:
            into[:] = [value]
            return
        data, turn = np.frombuffer(pickle.dumps(value), np.uint8), _Turn(self)
        own, rows = np.zeros(AT_ONCE + 8, np.uint8), np.empty((self.size, AT_ONCE + 8), np.uint8)
        own[:8] = np.array([data.size]).view(np.uint8)
        own[8 : 8 + data.size] = data[:AT_ONCE]
        yield from self.all_gather(own, rows.reshape(-1))
        sizes = rows[:, :8].copy().view(np.int64).ravel().tolist()
        bounds = [0, *itertools.accumulate(max(size - AT_ONCE, 0) for size in sizes)]
        rest = np.empty(bounds[-1], np.uint8)
        rest[bounds[self.rank] : bounds[self.rank + 1]] = data[AT_ONCE:]
        yield from self._gather_second(rest, bounds, turn)
        ends = [rest[a:b].tobytes() for a, b in itertools.pairwise(bounds)]
        begins = [row[8 : 8 + size].tobytes() for row, size in zip(rows, sizes, strict=True)]
        into[:] = [pickle.loads(one + more) for one, more in zip(begins, ends, strict=True)]

    def all_to_all(self, parts: Array, bounds: Sequence[int], into: Array, into_bounds: Sequence[int]) -> Steps:
        """Send the part for each process, and receive one from each; the bounds say where they lie."""
        if self.comm is None:
            into[...] = parts
        else:
            yield self.comm.Ialltoallv(self._message(parts, bounds), self._message(into, into_bounds))

    def reduce_scatter(self, array: Array, bounds: Sequence[int], out: Array, combine: Combine = np.add) -> Steps:
        """Reduce arrays elementwise, each process the part between its bounds, into `out`."""
        if self.alone:
            out[...] = array
            return
        length = bounds[self.rank + 1] - bounds[self.rank]
        rows = self.empty((self.size, length), array.dtype)
        yield from self.all_to_all(array, bounds, rows.reshape(-1), [length * i for i in range(self.size + 1)])
        self._tree_reduce(rows, combine, out)

    def all_reduce(self, array: Array, combine: Combine = np.add) -> Steps:
        """Reduce arrays elementwise, in place."""
        if self.alone or not array.size:
            return
        if array.nbytes <= (SMALL_OF_TWO if self.size == 2 else SMALL):
            rows = self.empty((self.size, array.size), array.dtype)
            yield from self.all_gather(array, rows.reshape(-1))
            self._tree_reduce(rows, combine, array)
            return
        bounds = even_parts(array.size, self.size)
        part, turn = array[bounds[self.rank] : bounds[self.rank + 1]], _Turn(self)
        yield from self.reduce_scatter(array, bounds, part, combine)
        yield from self._gather_second(array, bounds, turn)

    def _gather_second(self, array: Array, bounds: Sequence[int], turn: _Turn) -> Steps:
        """`all_gather` in place, as the second part of a collective; turn: taken when it began."""
        yield turn
        assert self._seconds is not None
        request = self._seconds.Iallgatherv(self.mpi.IN_PLACE, self._message(array, bounds)) if array.size else None
        self.served += 1
        if request is not None:
            yield request

    def gather(self, array: Array, into: Array | None, root: int) -> Steps:
        """Gather arrays of one length on process `root`, by rank."""
        if self.comm is None:
            assert into is not None
            into[...] = array
        else:
            yield self.comm.Igather(self._message(array), None if into is None else self._message(into), root)

    def scatter(self, parts: Array | None, into: Array, root: int) -> Steps:
        """Distribute parts of one length from process `root`, by rank."""
        if self.comm is None:
            into[...] = parts
        else:
            yield self.comm.Iscatter(None if parts is None else self._message(parts), self._message(into), root)

    def send(self, array: Array, to: int, tag: int) -> Steps:
        """Send an array to another process, which receives it."""
        assert self.comm is not None
        yield self.comm.Isend(self._message(array), to, tag)

    def receive(self, array: Array, source: int | None, tag: int, senders: list[int]) -> Steps:
        """Receive an array; source: None for any process. The sender's rank is appended to `senders`."""
        assert self.comm is not None
        status = self.mpi.Status()
        request = self.comm.Irecv(self._message(array), self.mpi.ANY_SOURCE if source is None else source, tag)
        yield _WithStatus(request, status)
        senders.append(status.Get_source())


class _WithStatus:
    """A request whose status is kept."""

    def __init__(self, request: MPI.Request, status: MPI.Status) -> None:
        self._request, self._status = request, status

    def Test(self) -> bool:
        return bool(self._request.Test(self._status))
