"""What a CUDA graph needs anew at each replay: numbers of the host, which kernels read from memory instead of parameters.

A captured launch keeps its parameters. A learning rate, a count of steps or the place in a stream of random numbers changes
from replay to replay: while a stream is captured, kernels get the address of such numbers, and before each replay one launch,
outside of the graph, writes all of them. Its parameters are copied when it is launched, so that no replay waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend._gpu_memory import GraphPool
from tdt._backend.waiting import CURRENT
from tdt._kernels import _cuda
from tdt._kernels.chains_gpu import Chains

MOST = 256  # numbers of a launch: a kernel's parameters have 4 KB

SOURCE = f"""
struct numbers {{ long long at[{MOST}]; }};
// Rows of `count` numbers follow each other: the one is taken of what *skipped is beyond `known`.
extern "C" __global__ void set_numbers(numbers all, long long* out, long long count, const double* skipped, long long known) {{
    const long long from = skipped ? ((long long)*skipped - known) * count : 0;
    for (long long k = threadIdx.x; k < count; k += blockDim.x) out[k] = all.at[from + k];
}}
"""
TICKETS = 1024  # counters of blocks that a launch may use
_tickets: dict[tuple[int, int], Any] = {}  # (GPU, stream) → counters

NUMBERS = np.dtype([("at", np.int64, MOST)])


class OutdatedCaptureError(RuntimeError):
    """A graph cannot be replayed, since what its kernels were made for has changed: its work must be captured again."""


class Draws:
    """The random numbers that a graph draws from one generator.

    Attributes:
        place: seed and first block of four words, on the GPU.
        blocks: how many blocks the graph draws.
    """

    def __init__(self, capture: Capture, engine: Any):
        self.engine, self.blocks = engine, 0
        self.place = capture.numbers(2, np.int64, self._next)
        capture.after.append(self._advance)

    def _next(self) -> tuple[int, int]:
        return signed(self.engine.initial_seed), signed(self.engine.offset)

    def _advance(self) -> None:
        self.engine.offset += self.blocks

    def take(self, blocks: int) -> tuple[int, int, Any]:
        """(0, block within the graph's draws, where they begin) of so many blocks."""
        first = self.blocks
        self.blocks += blocks
        return 0, first, self.place


def signed(word: int) -> int:
    """64 bits as the integer with a sign that has them."""
    return word - (1 << 64) if word >> 63 else word


class Capture:
    """A capture of the current stream of the current GPU.

    Attributes:
        before: called before each replay, in order, ahead of what computes numbers; they change nothing that others see.
        after: called once all numbers are computed: they count the step.
        saved: what launches of the graph refer to, which must live as long as the graph.
        checks: of indices, whose results are looked at where something is read after a replay.
        chains: of elementwise kernels that wait; None where none may.
        pool: the memory of the graph.
    """

    def __init__(self, pool: GraphPool, chains: Chains | None = None) -> None:
        self.chains, self.pool = chains, pool
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.saved: list[Any] = []
        self.checks: dict = {}
        self._entries: list[tuple[Any, type, Callable[[], Sequence[float]], Any]] = []
        self._draws: dict[int, Draws] = {}
        self._workspaces: dict[int, Any] = {}  # by stream, as branches of a graph may run side by side
        self._tickets: dict[int, Any] = {}

    def workspace(self, size: int) -> Any:
        """Memory for products of matrices, which belongs to the graph: it may be replayed in any stream."""
        stream = _backend.gpu().cuda.get_current_stream().ptr
        if stream not in self._workspaces:
            self._workspaces[stream] = _backend.gpu().empty(size, "B")
        return self._workspaces[stream]

    def tickets(self) -> Any:
        """The counters of `tickets`, which belong to the graph."""
        stream = _backend.gpu().cuda.get_current_stream().ptr
        if stream not in self._tickets:
            self._tickets[stream] = _backend.gpu().zeros(TICKETS, np.uint32)
        return self._tickets[stream]

    def lasting(self, shape: Any, dtype: Any) -> Any:
        """A new array that keeps its contents from one replay to the next."""
        with self.pool.allocator(lasting=True):
            return _backend.gpu().empty(shape, dtype)

    def numbers(self, count: int, kind: type, compute: Callable[[], Sequence[float]], skips: Any = None) -> Any:
        """An array of float64 or int64 that holds what `compute` gives, before each replay.

        skips: a `ScaleOnGpu`; `compute` then gives rows of `count` numbers, if none, one, … of its unread steps were skipped.
        """
        most = MOST if skips is None else MOST // (1 + skips.most_unread)
        if count > most:
            raise RuntimeError(f"a kernel in a CUDA graph takes at most {most} numbers of the host, got {count}")
        array = self.lasting(count, kind)
        self._entries.append((array, kind, compute, skips))
        return array

    def draws(self, engine: Any) -> Draws:
        """What the graph draws from a generator's engine."""
        if id(engine) not in self._draws:
            self._draws[id(engine)] = Draws(self, engine)
        return self._draws[id(engine)]

    def renew(self) -> None:
        """Write all numbers, in the current stream. OutdatedCaptureError, with nothing changed, where the graph does not fit."""
        for call in self.before:
            call()
        values = [np.array(compute(), kind) for _, kind, compute, _ in self._entries]
        for call in self.after:
            call()
        kernel = _cuda.compiled(SOURCE, "set_numbers")
        for (array, _, _, skips), numbers in zip(self._entries, values, strict=True):
            words = np.zeros(1, NUMBERS)
            words["at"][0, : numbers.size] = numbers.view(np.int64)
            row = (None, 0) if skips is None else (skips.skipped, skips.known)
            kernel((1,), (_cuda.THREADS,), (_cuda.opaque(words), array.view(np.int64), array.size, *row))


def current() -> Capture | None:
    """The capture that this thread is in; None outside of one."""
    return CURRENT.capture


def tickets() -> Any:
    """Counters that are 0 between launches, for `is_last_of` in kernels of the current stream."""
    if CURRENT.capture is not None:
        return CURRENT.capture.tickets()
    cuda = _backend.gpu().cuda
    key = cuda.Device().id, cuda.get_current_stream().ptr
    if key not in _tickets:
        _tickets[key] = _backend.gpu().zeros(TICKETS, np.uint32)
    if CURRENT.notes is not None:
        CURRENT.notes.depends(_tickets[key], tickets)
    return _tickets[key]


def begin(pool: GraphPool, chains: Chains | None = None) -> None:
    """Let kernels that are launched from now on belong to a graph. pool, chains: as of `Capture`."""
    capture = CURRENT.capture = Capture(pool, chains)
    capture.checks = _backend.swap_pending({})


def end() -> Capture | None:
    """End what `begin` began; the capture."""
    capture, CURRENT.capture = CURRENT.capture, None
    if capture is not None:
        capture.checks = _backend.swap_pending(capture.checks)
    return capture
