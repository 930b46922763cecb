"""Shards that need something from each other during a step: `SyncBatchNorm` over all shards of a batch.

The shards of a rank run in threads, one at a time: each until it needs the others' values. Then the next one runs; after the
last, the ranks exchange the values, and all go on. So each shard is computed by itself, and its bits depend neither on the number
of ranks nor on what else its rank computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tdt import Tensor
from tdt._core.tensor import wrap
from tdt.distributed._communicator import Array, tree_reduce
from tdt.nn.modules._synchronized import Rows
from tdt.train.data.shards import Shards

if TYPE_CHECKING:
    from concurrent.futures import Future

Key = tuple[int, int]  # the number of the batch in its step, and of the call in this batch


class Request(NamedTuple):
    """What a shard waits for. kind: what is done with the values. value: its own."""

    key: Key
    kind: str
    value: Array


class _Abandoned(BaseException):
    """Ends the thread of a shard after another has failed."""


def joined(a: Array | None, b: Array | None) -> Array | None:
    """a + b; None is nothing."""
    return b if a is None else a if b is None else a + b


class Lockstep(Rows):
    """Runs the shards of this rank together; outside of `run`, a batch is alone.

    Args:
        shards: those of the run.
        enter, leave: called with a shard's number before it runs, and before another one does.
    """

    def __init__(self, shards: Shards, enter: Callable[[int], None], leave: Callable[[int], None]) -> None:
        self.shards, self.enter, self.leave = shards, enter, leave
        self._own = threading.local()  # of the thread of a shard: its number, and the key of its next request
        self._requests: dict[int, Request] = {}
        self._answer: Array | None = None
        self._turns: dict[int, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self._results: dict[int, Future[None]] = {}
        self._ended: set[int] = set()
        self._entered: int | None = None
        self._abandoned = False

    def __deepcopy__(self, memo: Any) -> Lockstep:
        return self

    def size(self) -> int:
        return self.shards.count if hasattr(self._own, "shard") else 1

    def rank(self) -> int:
        return int(self._own.shard)

    def gather(self, row: Tensor) -> Tensor:
        return wrap(self._request("gather", row).copy()).to(row.device)

    def total(self, rows: Tensor) -> Tensor:
        return wrap(self._request("total", rows).copy()).to(rows.device)

    def begin(self, batch: int) -> None:
        """Begin a batch, in the thread of a shard."""
        self._own.key = batch, 0

    def _request(self, kind: str, value: Tensor) -> Array:
        own = self._own
        self._requests[own.shard] = Request(own.key, kind, np.ascontiguousarray(value.detach().cpu()._a))
        own.key = own.key[0], own.key[1] + 1
        self._back.release()
        self._turns[own.shard].acquire()
        if self._abandoned:
            raise _Abandoned
        assert self._answer is not None
        return self._answer

    def run(self, work: Mapping[int, Callable[[], None]]) -> None:
        """Compute this rank's shards, by number; all ranks call this. Raises what one of the shards raises."""
        from concurrent.futures import ThreadPoolExecutor

        self._turns = {shard: threading.Semaphore(0) for shard in work}
        self._requests, self._ended, self._entered, self._abandoned = {}, set(), None, False
        with ThreadPoolExecutor(max(len(work), 1), "shard") as threads:
            self._results = {shard: threads.submit(self._compute, shard, work[shard]) for shard in work}
            try:
                for shard in work:
                    self._resume(shard)
                while (answered := self._exchange()) is not None:
                    self._answer, waiting = answered
                    for shard in sorted(
                        waiting, key=lambda shard: shard != self._entered
                    ):  # it needs not be entered again
                        del self._requests[shard]
                        self._resume(shard)
                if self._entered is not None:
                    self.leave(self._entered)
            finally:
                self._abandoned = True
                for turn in self._turns.values():
                    turn.release()

    def _compute(self, shard: int, work: Callable[[], None]) -> None:
        self._turns[shard].acquire()
        self._own.shard = shard
        try:
            if not self._abandoned:
                work()
        finally:
            self._ended.add(shard)
            self._back.release()

    def _resume(self, shard: int) -> None:
        """Let a shard run until it waits, or ends."""
        if self._entered != shard:
            if self._entered is not None:
                self.leave(self._entered)
            self.enter(shard)
            self._entered = shard
        self._turns[shard].release()
        self._back.acquire()
        if shard in self._ended:
            self._results[shard].result()  # raises what it has raised

    def _exchange(self) -> tuple[Array, list[int]] | None:
        """The answer to the earliest requests on any rank, and the shards of this rank that wait for it; None: all have ended.

        A shard whose targets do not count has no backward pass, and may wait for what comes later.
        """
        own, numbers = self._requests, self.shards.own
        key = min((request.key for request in own.values()), default=None)
        waiting = [shard for shard in numbers if shard in own and own[shard].key == key]
        kinds = {(own[shard].kind, own[shard].value.shape) for shard in waiting}
        values: Any = [own[shard].value if shard in waiting else None for shard in numbers]
        if len(kinds) == 1 and own[waiting[0]].kind == "total":
            values = tree_reduce(values, joined)  # type: ignore[arg-type]
        every = self.shards.ranks.exchange((key, kinds, values), "statistics of all shards")
        earliest = min((key for key, *_ in every if key is not None), default=None)
        if earliest is None:
            return None
        kinds = set().union(*(kinds for key, kinds, _ in every if key == earliest))
        if len(kinds) > 1:
            raise RuntimeError(
                "the shards of a batch have reached different SyncBatchNorm layers; with train.shards all must call the same "
                "ones in the same order: use BatchNorm for layers that a forward pass may leave out"
            )
        parts = [values if key == earliest else None for key, _, values in every]
        kind, shape = kinds.pop()
        if kind == "total":
            answer: Any = tree_reduce(parts, joined)  # type: ignore[arg-type]
        else:
            rows = [row for part in parts for row in part or [None] * len(numbers)]
            dtype = next(row.dtype for row in rows if row is not None)
            answer = np.stack([np.zeros(shape, dtype) if row is None else row for row in rows])
        return answer, waiting if key == earliest else []
