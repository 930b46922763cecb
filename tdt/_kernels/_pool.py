"""Threads for kernels: one pool, whose threads share the blocks of a kernel's work without Python.

A kernel works on blocks `[first, last)` of fixed size, so its result never depends on how many threads share them, nor on
which thread computes which block. The caller publishes a job and works on it itself; threads that are awake take blocks
from it. A job never waits for a thread to wake up: if none does, the caller computes all blocks.

Each thread has its own range of a job's blocks, the caller the first one, and takes blocks of other ranges when its own is
finished. So a thread processes the same samples from layer to layer, and finds them in its own cache: between two cores
without a common cache, a ReLU of data that the other core wrote takes four times as long.

Waking a sleeping thread takes tens of microseconds, as long as some kernels run. So an idle thread spins (`SPINS`) before
it sleeps, as OpenMP's threads do. A sleeping thread is blocked on a read from a pipe, to which the caller writes a byte for
each thread to wake. All of this is machine code: a thread that had to acquire the GIL would be milliseconds late. OpenMP
is not used, as a forked child of a process that used it is killed. There is no second pool: from the first job on, NumPy's
BLAS runs on the calling thread alone (`product_cpu` computes large products on this pool), as its idle threads would spin
on the same cores.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._jit import Kernel
from tdt._kernels._jobs import (
    BLOCKS,
    COUNT,
    DONE,
    ENTRY,
    FAILED,
    LEAD,
    LEAD_WORDS,
    LEAST_SHARED,
    LIMIT,
    LOCK,
    OTHERS,
    PIECE,
    SHARED,
    STATE,
    WORDS,
    run_job,
)
from tdt._kernels._launches import WATCH, note
from tdt._kernels._native import Entry, target_triple
from tdt._kernels._registry import forget
from tdt._kernels._threads import THREADS

SPINS = 20_000  # checks for work before a thread sleeps: half a millisecond, about the gap between two kernels

# A pool's state, in words; FAILED and the job are `_jobs`'. Words that change while other threads read them have their own
# cache lines.
OPEN, LEFT, INSIDE, ASLEEP, CLOSED = 0, 8, 16, 24, 40
READ, WRITE, GIVE_WAY, PIPE_OUT, PIPE_IN, BYTES = range(56, 62)  # addresses of C functions, the pipe, its bytes
MOST = 62  # threads that the pool has, beside the caller
NEXT, LINE = 64, 8  # the next block of each range, a cache line for each


class State:
    """The words of a pool's state, in code that is written."""

    def __init__(self, code: Code, state: Value):
        self.code, self.state = code, state

    def get(self, word: int) -> Value:
        """A word that does not change during a job."""
        return self.code.load("i64", self.state, word)

    def read(self, word: Any) -> Value:
        """A word that other threads write."""
        place = self.code.at("i64", self.state, word)
        return self.code.new("i64", f"load atomic i64, ptr {place.name} seq_cst, align 8")

    def write(self, value: Any, word: Any) -> None:
        """Set a word that other threads read; they see it only with all that was written before."""
        place = self.code.at("i64", self.state, word)
        self.code.lines.append(
            f"  store atomic i64 {self.code.value(value, 'i64').name}, ptr {place.name} seq_cst, align 8"
        )

    def add(self, value: Any, word: Any) -> Value:
        """Add to a word atomically; its value before."""
        place, value = self.code.at("i64", self.state, word), self.code.value(value, "i64")
        return self.code.new("i64", f"atomicrmw add ptr {place.name}, i64 {value.name} seq_cst")

    def call(self, function: int, *words: Value | int) -> Value:
        """Call the C function whose address a word is; its result."""
        text = ", ".join(f"i64 {self.code.value(word, 'i64').name}" for word in words)
        return self.code.new("i64", f"call i64 {self.code.cast(self.get(function), 'ptr').name}({text})")

    def pause(self) -> None:
        """Pause for a moment, tens of nanoseconds, without giving up the core."""
        if target_triple().startswith("x86_64"):  # other CPUs spin without an instruction
            self.code.declared.add("declare void @llvm.x86.sse2.pause()")
            self.code.lines.append("  call void @llvm.x86.sse2.pause()")

    def wait(self, looks: Value) -> None:
        """Pause; from time to time yield the core to other threads."""
        self.code.choose(looks % 64 == 0, lambda: self.call(GIVE_WAY, 0, 0, 0), self.pause)

    def take_part(self, number: Value | int) -> None:
        """Work on the open job's pieces, those of range `number` first, until none is left."""
        code = self.code
        blocks, piece, ranges = self.get(BLOCKS), self.get(PIECE), self.get(OTHERS) + 1
        with code.loop(0, ranges) as turn:
            own = (turn + number) % ranges
            end = blocks * (own + 1) // ranges
            with code.forever() as leave:
                first = self.add(piece, NEXT + LINE * own)
                leave(first >= end)
                failed = self.call(ENTRY, self.get(WORDS), first, code.minimum(first + piece, end)) != 0
                with code.when(failed):
                    self.write(1, FAILED)
        self.write(0, LEFT)


@native("p", vectorize=False)
def _serve(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """The loop of thread number `first` until the pool is closed: join jobs, and sleep after `last` checks without one."""
    state = State(code, arguments[0])
    looks = code.variable("i64", 0)

    def join() -> None:
        # The caller changes a job only when no thread is inside it, and threads leave a closed job.
        state.add(1, INSIDE)
        with code.when(state.read(OPEN) != 0):
            state.take_part(first)
            looks.set(0)
        state.add(-1, INSIDE)

    def sleep() -> None:
        state.add(1, ASLEEP)  # the thread that wakes it subtracts 1 again, so it is woken once
        with code.forever() as leave:
            leave(state.call(READ, state.get(PIPE_OUT), state.get(BYTES), 1) == 1)
            state.call(GIVE_WAY, 0, 0, 0)  # a signal interrupted the read
        looks.set(0)

    with code.forever() as leave:
        leave(state.read(CLOSED) != 0)
        looks.add(1)
        is_open = (state.read(OPEN) != 0) & (state.read(LEFT) != 0)
        code.choose(is_open, join, lambda: code.choose(looks.get() < last, lambda: state.wait(looks.get()), sleep))


@native("p", vectorize=False)
def _lead(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """The caller's part: open the job in `state`, work on it, and close it when all threads have left."""
    state = State(code, arguments[0])
    # What was planned for an earlier pool may want more threads.
    blocks, threads = state.get(BLOCKS), code.minimum(state.get(OTHERS), state.get(MOST))
    code.store(threads, arguments[0], OTHERS)
    with code.loop(0, threads + 1) as own:
        state.write(blocks * own // (threads + 1), NEXT + LINE * own)
    state.write(1, LEFT)
    state.write(1, OPEN)
    asleep = code.minimum(threads, state.read(ASLEEP))  # of them, as many as are wanted are woken
    with code.when(asleep > 0):
        state.add(0 - asleep, ASLEEP)
        state.call(WRITE, state.get(PIPE_IN), state.get(BYTES), asleep)
    state.take_part(0)
    state.write(0, OPEN)
    looks = code.variable("i64", 0)
    with code.forever() as leave:
        leave(state.read(INSIDE) == 0)
        looks.add(1)
        state.wait(looks.get())


class _Lock:
    """A lock that machine code takes too: one of Python's C API. It is never freed."""

    def __init__(self) -> None:
        python = ctypes.pythonapi
        python.PyThread_allocate_lock.restype = ctypes.c_void_p
        self.address = python.PyThread_allocate_lock()
        self._acquire, self._release = python.PyThread_acquire_lock, python.PyThread_release_lock
        self._acquire.argtypes = ctypes.c_void_p, ctypes.c_int
        self._release.argtypes, self._release.restype = (ctypes.c_void_p,), None

    def acquire(self) -> bool:
        """Take it if it is free; whether it was."""
        return bool(self._acquire(self.address, 0))

    def release(self) -> None:
        self._release(self.address)


class _Pool:
    """Threads, and the state that they share with whoever holds `busy`: jobs are given to them by `_jobs.run`."""

    def __init__(self, threads: int):
        keep_blas_on_one_thread(np)
        self.busy = _Lock()
        self.threads = threads
        self.pipe = os.pipe()
        self.bytes = np.zeros(threads, np.uint8)
        self.state = np.zeros(NEXT + LINE * (threads + 1), np.int64)
        library = ctypes.CDLL(None)
        functions = library.read, library.write, library.sched_yield
        self.state[READ : BYTES + 1] = (
            *(ctypes.cast(f, ctypes.c_void_p).value for f in functions),
            *self.pipe,
            self.bytes.ctypes.data,
        )
        self.state[MOST] = threads
        self.lead, self.words = _lead().prepare((self.state,))
        words = ctypes.cast(self.words, ctypes.c_void_p).value
        self.state[[LOCK, LEAD, LEAD_WORDS]] = self.busy.address, self.lead.address, words
        self.serve, self.run_job = _serve(), run_job()  # compiled before the threads start
        for number in range(threads):
            # Daemons, so that they end with the process.
            threading.Thread(target=self._serve, args=(number + 1,), name=f"tdt-kernel-{number}", daemon=True).start()

    def _serve(self, number: int) -> None:
        self.serve(number, SPINS, self.state)

    def share(self) -> None:
        """Let machine code use the pool, or its calls stay on their thread if there is to be one."""
        SHARED[LIMIT] = sys.maxsize
        SHARED[STATE], SHARED[COUNT] = self.state.ctypes.data, min(THREADS.count, self.threads + 1)
        if SHARED[COUNT] > 1:
            SHARED[LIMIT] = LEAST_SHARED

    def close(self) -> None:
        """Let the threads end. The pipe stays open: a thread that is about to read from it must not find another file."""
        self.state[CLOSED] = 1
        os.write(self.pipe[1], bytes(self.threads))


_pool: _Pool | None = None
_closed: list[_Pool] = []  # which calls of other threads of Python's may still work with
_lock = threading.RLock()


def _after_fork() -> None:
    """Reset the state of a forked child: it has none of its parent's threads, and its locks may be locked."""
    global _pool, _lock
    _pool, _lock = None, threading.RLock()
    SHARED[LIMIT] = sys.maxsize
    forget()  # calls whose machine code expects threads: `start` is called again for them


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def parallel(kernel: Kernel, blocks: int, *args: Any, grain: int = 1) -> None:
    """Call `kernel(first, last, *args)` on parts that together cover `range(blocks)`, on several threads.

    A thread is wanted for every `grain` blocks. Work too small for two stays on the calling thread, as it does while
    another thread's job has the pool.
    """
    if WATCH.own() is not None:
        entry, words = kernel.prepare(args)
        note(entry, words, blocks, grain, kernel, args)
        entry.call(words, 0, blocks)
        return
    if stays_on_caller(blocks, grain) or not shared(*kernel.prepare(args), blocks, grain, kernel.name):
        kernel(0, blocks, *args)


def shared(entry: Entry, words: bytes, blocks: int, grain: int, name: str = "") -> bool:
    """Whether the pool has computed a kernel's blocks, as `parallel` says: several threads are wanted, and it was free."""
    parts = min(THREADS.count, blocks // max(grain, 1))
    if parts < 2:
        return False
    done = _running_pool().run_job(words, entry.address, blocks, parts)
    if done > DONE:
        raise RuntimeError(f"kernel {name} raised an error, which a kernel must not do")
    return done == DONE


def start() -> None:
    """Create the threads that machine code may use, if several are wanted: it does not do so itself."""
    if THREADS.count > 1:
        _running_pool()


def stays_on_caller(blocks: int, grain: int) -> bool:
    """Whether `parallel` computes so many blocks on the calling thread, as long as the number of threads stays."""
    return min(THREADS.count, blocks // max(grain, 1)) <= 1


def _running_pool() -> _Pool:
    global _pool
    pool = _pool
    if pool is None or pool.threads < THREADS.count - 1:
        with _lock:
            if _pool is None or _pool.threads < THREADS.count - 1:
                pool = _Pool(THREADS.count - 1)
                pool.share()  # before other threads of Python's find it
                if _pool is not None:
                    _pool.close()
                    _closed.append(_pool)
                _pool = pool
            pool = _pool
    return pool


def get_num_threads() -> int:
    """How many threads a kernel or a matrix product may use.

    >>> import tdt
    >>> tdt.get_num_threads() >= 1
    True
    """
    return THREADS.count


def most_threads() -> int:
    """How many threads may work on a job: the pool keeps its threads if their number is lowered, and those awake join in."""
    return max(THREADS.count, _pool.threads + 1 if _pool is not None else 1)


def set_num_threads(threads: int) -> None:
    """Set the number of threads of kernels and large matrix products, whose results do not depend on it.

    Raises:
        RuntimeError: `threads` is not a positive integer.

    >>> import tdt
    >>> tdt.set_num_threads(tdt.get_num_threads())
    """
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {threads!r}")
    with _lock:
        THREADS.set(threads)
        if _pool is not None:
            _pool.share()
    forget()  # calls that were found for arrays of one thread
    keep_blas_on_one_thread(np)


def single_threaded() -> None:
    """Use one thread from now on. Called in DataLoader workers, as the other workers use the other cores."""
    set_num_threads(1)


SET_THREADS = tuple(f"{prefix}openblas_set_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", ""))


def keep_blas_on_one_thread(package: ModuleType) -> None:
    """Let the BLAS of NumPy or SciPy leave the other cores to the pool."""
    for address in blas_functions(SET_THREADS, package):
        ctypes.CFUNCTYPE(None, ctypes.c_int)(address)(1)


def blas_functions(names: Sequence[str], package: ModuleType = np) -> list[int]:
    """Of each BLAS that the wheel of NumPy or SciPy carries, the address of the first of these functions that it has.

    Empty where the package was built with another one.
    """
    from pathlib import Path

    home = Path(str(package.__file__)).parent
    found = []
    for folder in (home.parent / f"{package.__name__}.libs", home / ".dylibs"):
        for path in folder.glob("*openblas*"):
            library = ctypes.CDLL(str(path))  # already loaded by the package: the same copy
            known = [getattr(library, name) for name in names if hasattr(library, name)]
            found += [ctypes.cast(function, ctypes.c_void_p).value for function in known[:1]]
    return found
