"""Jobs that machine code gives to the pool's threads, without Python in between.

`run_job` is what Python calls for a kernel. `shared_loop` stands in front of the inner loop of a generalised ufunc: it hands
parts of many rows to the pool, whoever calls the ufunc.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence

import numpy as np

from tdt._kernels._addresses import address_of
from tdt._kernels._builtin import BYTES
from tdt._kernels._builtin_code import BuiltIn, linked_built_in
from tdt._kernels._code import Code, Value
from tdt._kernels._compilable import ENTRY as PART
from tdt._kernels._native import linked

SHARES = 4  # pieces of each thread's range, so that a thread that starts late or is preempted costs little
FAILED = 32  # words of a pool's state: whether a kernel has failed; then the job
ENTRY, WORDS, BLOCKS, PIECE, OTHERS = range(48, 53)
LOCK, LEAD, LEAD_WORDS = range(53, 56)  # addresses of the lock, of the code of the caller's part and of its words

# What machine code needs to use the pool: the elements from which it does; the address of the state; how many threads. It reads
# the address once for a job, as another thread of Python's may replace the pool meanwhile.
LIMIT, STATE, COUNT = range(3)
SHARED = np.array([sys.maxsize, 0, 1])
LEAST_SHARED = 1 << 16  # elements that two threads compute sooner than one
LEAST = LEAST_SHARED // 4  # that each thread should have

RUN, LOOP = "tdt_run_job", "tdt_shared_loop"
BUSY, DONE = range(2)  # results of `run_job`; another one: the kernel has failed
MOST_OPERANDS, MOST_SIZES = 16, 16
# Words of what `shared_loop` gets last: the loop and what that gets last, the address of the code of a part, that of `SHARED`,
# the numbers of operands and of sizes, the work for an element, and of each operand the bits of the sizes that it has.
OWN, DATA, OF_PART, POOL, OPERANDS, SIZES, WEIGHT, CORES = range(8)
_alive: list[np.ndarray] = []  # whose addresses ufuncs have


def taken(code: Code, pool: Value) -> Value:
    """The address of the pool's state if it was free, and now works for this code; else 0. pool: the address of `SHARED`."""
    state = code.load("i64", pool, STATE)
    lock = code.load("ptr", code.cast(state, "ptr"), LOCK)
    return code.select(code.function("PyThread_acquire_lock", "i32", lock, code.value(0, "i32")) != 0, state, 0)


def run(code: Code, state: Value, entry: Value, words: Value, blocks: Value, parts: Value) -> Value:
    """Compute the blocks of a kernel by `parts` threads of the pool, whose state was `taken` and is free afterwards; FAILED."""
    parts, state = code.maximum(parts, 1), code.cast(state, "ptr")
    piece = code.maximum(blocks // (parts * SHARES), 1)
    job = entry, code.cast(words, "i64"), blocks, piece, parts - 1
    for place, word in enumerate(job, ENTRY):
        code.store(word, state, place)
    lead, its_words, lock = (code.load("ptr", state, place) for place in (LEAD, LEAD_WORDS, LOCK))
    code.new("i64", f"call i64 {lead.name}(ptr {its_words.name}, i64 0, i64 {blocks.name})")
    failed = code.load("i64", state, FAILED)
    code.store(code.value(0, "i64"), state, FAILED)
    code.declared.add("declare void @PyThread_release_lock(ptr)")
    code.lines.append(f"  call void @PyThread_release_lock(ptr {lock.name})")
    return failed


class _RunJob(BuiltIn):
    """`(words, entry, blocks, parts)`: computes all blocks of a kernel on the pool; BUSY, DONE or another number."""

    def write(self) -> None:
        code, pool, found = self.code, self.code.cast(self.word(0), "ptr"), self.code.variable("i64", BUSY)
        words, *numbers = (code.load("ptr", self.arguments, k) for k in range(4))
        entry, blocks, parts = (code.function("PyLong_AsLongLong", "i64", number) for number in numbers)
        state = taken(code, pool)
        with code.when(state != 0):
            thread = code.function("PyEval_SaveThread", "ptr")
            found.set(run(code, state, entry, code.at("i8", words, BYTES), blocks, parts) + DONE)
            self.call_void("PyEval_RestoreThread", thread)
        self.end(code.function("PyLong_FromLongLong", "ptr", found.get()))


@functools.cache
def run_job() -> Callable[[bytes, int, int, int], int]:
    """The function `(words, entry, blocks, parts)` that computes all blocks of a kernel on the pool's threads.

    Its result is BUSY where these work for another call, and nothing is computed; else DONE, or a larger number where the kernel
    has failed.
    """
    return linked_built_in("run_job", RUN, _RunJob, [address_of(SHARED)])


def shared_loop(loop: int, data: int, cores: Sequence[Sequence[str]], weight: int) -> tuple[int, int]:
    """The addresses of the loop for a generalised ufunc whose own loop is at an address, and of what it gets last.

    It gives parts of the rows to the pool where these have many elements, and the pool is free.

    Args:
        data: what the ufunc's loop gets last.
        cores: the names of each operand's dimensions.
        weight: how much longer an element takes than one of a sum.
    """
    names = list(dict.fromkeys(name for core in cores for name in core))
    assert len(cores) <= MOST_OPERANDS and len(names) < MOST_SIZES
    address, part = linked("shared_loop", [LOOP, PART], _module, optimize=True, vectorize=False)
    bits = [sum(1 << names.index(name) for name in dict.fromkeys(core)) for core in cores]
    record = np.array([loop, data, part, address_of(SHARED), len(cores), len(names) + 1, weight, *bits], np.int64)
    _alive.append(record)
    return address, address_of(record)


def _module() -> str:
    """The IR of the loop, and of a part of its rows as the pool computes it."""
    part, loop = Code(), Code()
    _write_part(part)
    parameters = [Value(loop, f"%{name}", "ptr") for name in ("operands", "sizes", "strides", "record")]
    _write_loop(loop, *parameters)
    head = f"define void @{LOOP}({', '.join(f'ptr {p.name}' for p in parameters)}) {{"
    part.functions.append("\n".join([head, "entry:", *loop.variables, *loop.lines, "  ret void", "}"]))
    part.declared |= loop.declared
    return part.module("")


def _write_part(code: Code) -> None:
    """Rows [first, last). Words: the arguments of the loop and the record."""
    operands, sizes, strides, record = code.arguments("pppp")
    first, last = (Value(code, name, "i64") for name in ("%first", "%last"))
    moved, own = code.array("i64", MOST_OPERANDS), code.array("i64", MOST_SIZES)
    with code.loop(0, code.load("i64", record, OPERANDS)) as k:
        code.store(code.load("i64", operands, k) + first * code.load("i64", strides, k), moved, k)
    with code.loop(1, code.load("i64", record, SIZES)) as j:
        code.store(code.load("i64", sizes, j), own, j)
    code.store(last - first, own)
    _call(code, record, moved, own, strides)


def _call(code: Code, record: Value, *arguments: Value) -> None:
    """Call the ufunc's own loop."""
    own, data = (code.load("ptr", record, place) for place in (OWN, DATA))
    code.lines.append(f"  call void {own.name}({', '.join(f'ptr {each.name}' for each in (*arguments, data))})")


def _write_loop(code: Code, operands: Value, sizes: Value, strides: Value, record: Value) -> None:
    """All rows, by several threads if they have many elements."""
    pool, rows = code.load("ptr", record, POOL), code.load("i64", sizes)
    limit, weight, count = (code.load("i64", *place) for place in ((pool, LIMIT), (record, WEIGHT), (record, SIZES)))
    bound = code.variable("i64", weight)
    with code.loop(0, count) as j:
        bound.set(bound.get() * code.load("i64", sizes, j))
    with code.when((bound.get() >= limit) & (rows > 1)):
        work = _largest(code, sizes, record, count) * rows * weight
        with code.when(work >= limit):
            state = taken(code, pool)
            with code.when(state != 0):
                job = code.array("ptr", 4)
                for place, each in enumerate((operands, sizes, strides, record)):
                    code.store(each, job, place)
                parts = code.minimum(code.minimum(code.load("i64", pool, COUNT), rows), work // LEAST)
                run(code, state, code.load("i64", record, OF_PART), job, rows, parts)
                code.lines.append("  ret void")
                code.place(code.label())
    _call(code, record, operands, sizes, strides)


def _largest(code: Code, sizes: Value, record: Value, count: Value) -> Value:
    """The elements that a row of the largest operand has."""
    most = code.variable("i64", 1)
    with code.loop(0, code.load("i64", record, OPERANDS)) as k:
        bits, own = code.load("i64", record, k + CORES), code.variable("i64", 1)
        with code.loop(1, count) as j:
            size = code.select(((bits >> (j - 1)) & 1) != 0, code.load("i64", sizes, j), 1)
            own.set(own.get() * size)
        most.set(code.maximum(most.get(), own.get()))
    return most.get()
