"""Work whose failure in one process is the failure of all, so that none waits for another in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

import tdt
from tdt import nn
from tdt._activity import ACTIVITY
from tdt._core.tensor import wrap
from tdt.train._ranks import Ranks
from tdt.train._types import Arrays, Json

T = TypeVar("T")
CHUNK = 1 << 28  # bytes of an array that are sent at once
SHOWN = 8  # errors that a message names


class OtherRankError(Exception):
    """Another process has failed; the message says which and why. kind: the name of its exception's class."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def together(ranks: Ranks, work: Callable[[], T]) -> T:
    """The result of `work`, which every process calls; an exception in any of them is raised in all.

    If all fail with one message, each raises its own exception, else an OtherRankError that names the ranks. The exception has
    the attribute `shared`, which tells the command line to print it once.

    >>> from tdt.train._agreement import together
    >>> from tdt.train._ranks import Ranks
    >>> together(Ranks.alone(), lambda: 3)
    3
    """
    if ranks.size == 1:
        return work()
    result, own = _attempt(work)
    failures = ranks.exchange(None if own is None else (type(own).__name__, _text(own)), "errors")
    failed = {rank: failure for rank, failure in enumerate(failures) if failure is not None}
    if not failed:
        return result  # type: ignore[return-value]  # T: `own` is None
    if own is not None and len(failed) == ranks.size and len(set(failures)) == 1:
        raise shared(own)
    lines = [f"{ranks.name(rank)}: {text}" for rank, (_, text) in list(failed.items())[:SHOWN]]
    more = [f"and {len(failed) - SHOWN} more ranks"] if len(failed) > SHOWN else []
    raise shared(OtherRankError("\n".join(lines + more), next(iter(failed.values()))[0])) from own


def by_first(ranks: Ranks, work: Callable[[], T]) -> T:
    """The result of `work`, which rank 0 alone calls; it is pickled for the others. An exception is raised in all.

    >>> from tdt.train._agreement import by_first
    >>> from tdt.train._ranks import Ranks
    >>> by_first(Ranks.alone(), lambda: "read")
    'read'
    """
    if ranks.size == 1:
        return work()
    result, own = _attempt(work) if ranks.first else (None, None)
    failure = None if own is None else (type(own).__name__, _text(own))
    failure, result = ranks.from_first((failure, result), "rank 0")
    if own is not None:
        raise shared(own)
    if failure is not None:
        raise shared(OtherRankError(failure[1], failure[0]))
    return result  # type: ignore[return-value]  # T: `own` is None


def arrays_of_first(ranks: Ranks, arrays: Arrays | None) -> Arrays:
    """The arrays of rank 0, in new memory on the others, which pass None."""
    if ranks.size == 1:
        assert arrays is not None
        return arrays
    described = None if arrays is None else [(name, array.dtype, array.shape) for name, array in arrays.items()]
    described = ranks.from_first(described, "checkpoint")
    assert described is not None
    received: Arrays = {}
    for name, dtype, shape in described:
        array = np.empty(shape, dtype) if arrays is None else np.ascontiguousarray(arrays[name])
        received[name] = array.reshape(shape)
        data = array.reshape(-1).view(np.uint8)
        for begin in range(0, data.size, CHUNK):
            ranks.wait(ranks.communicator.broadcast(data[begin : begin + CHUNK], 0), "checkpoint")
    return received


def loaded_by_first(ranks: Ranks, load: Callable[[], tuple[Arrays, Json]]) -> tuple[Arrays, Json]:
    """The arrays and the metadata of a checkpoint, which rank 0 loads."""
    own: list[Arrays] = []

    def meta() -> Json:
        arrays, rest = load()
        own.append(arrays)
        return rest

    rest = by_first(ranks, meta)
    return arrays_of_first(ranks, own[0] if own else None), rest


@contextmanager
def watched(ranks: Ranks, timeout: float, doing: str) -> Iterator[None]:
    """Context manager for what all processes do together, with progress; after an exception the run is to be aborted.

    timeout: seconds without progress after which it is. doing: what they do, in words.
    """
    ranks.set_stall_timeout(timeout)
    ACTIVITY.report(doing)
    yield
    ranks.exchange(None, "end of the run")
    ACTIVITY.report("")


def send_model(ranks: Ranks, model: nn.Module) -> None:
    """Give the model the weights and buffers that it has on rank 0."""
    if ranks.size == 1:
        return
    own = model.state_dict()
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in own.items()} if ranks.first else None
    received = arrays_of_first(ranks, arrays)
    if not ranks.first:
        with tdt.no_grad():
            for name, tensor in own.items():
                tensor.copy_(wrap(received[name]))


def _attempt(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 (it is raised once all know of it)
        return None, error


def _text(error: Exception) -> str:
    """The message; with the class, if it is not one of tdt's."""
    return str(error) if type(error).__module__.startswith("tdt.") else f"{type(error).__name__}: {error}"


E = TypeVar("E", bound=Exception)


def shared(error: E) -> E:
    """Mark an error that all processes raise: the command line prints it once."""
    error.shared = True  # type: ignore[attr-defined]
    return error
