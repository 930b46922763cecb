"""Calls of elementwise ufuncs without NumPy's iterator, with results in PyTorch's order of dimensions: see `_quick`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import in_order
from tdt._kernels import _jobs
from tdt._kernels._addresses import ADDRESS, address_of
from tdt._kernels._broadcast import HEAD, OUTER
from tdt._kernels._builtin import CLASS
from tdt._kernels._builtin_code import (
    ALIGNED,
    CONTIGUOUS,
    DTYPE,
    FLAGS,
    NDIM,
    SHAPE,
    STRIDES,
    WRITEABLE,
    linked_built_in,
)
from tdt._kernels._code import Value, Variable
from tdt._kernels._emit_loops import BLOCK
from tdt._kernels._jobs import SHARED
from tdt._kernels._quick import (
    ARRAY,
    DATA,
    INPUTS,
    LOOP,
    MOST_OPERANDS,
    NAMES,
    OPERANDS,
    QUICK,
    SIZE,
    UfuncCall,
    ufunc_words,
)

# Words of `self` that have another meaning here: the addresses of `ENTRY`, of `_jobs.SHARED` and of `ROWS`; the operands' begin
# behind them.
ENTRY, POOL, ROWS, RECORDS = DATA, NAMES, OPERANDS, OPERANDS + 1
GRAIN = 4 * BLOCK  # elements that a thread should at least have
RECORD = 2  # words of an operand: the address of its dtype, the bytes of an element
FEW_ROWS, PARTS = 16, 8  # rows that are cut where they are fewer, and into how many parts
MOST_DIMS = 8


def quick_elementwise(
    ufunc: Callable, loops: int, kinds: Sequence[np.dtype], entry: int, rows: int, otherwise: Callable | None = None
) -> Callable:
    """The function that calls an elementwise ufunc with one result, for arrays that broadcast.

    A new result's dimensions are in the order that `tdt._backend.layout.in_order` gives.

    An array may follow the operands, for the result: one of them, or one that shares no memory with any.

    Args:
        loops: the address of its `_emit_loops.LOOPS`.
        kinds: types of the operands, the result's at last.
        entry, rows: the addresses of its `ENTRY` and `ROWS`, for the pool.
        otherwise: computes what the function does not take; None: the ufunc.
    """
    if len(kinds) > MOST_OPERANDS:
        return otherwise or ufunc
    ordered = _in_order(otherwise or ufunc, len(kinds) - 1)
    _alive.append(ordered)
    words = [*ufunc_words(ordered, loops, entry), len(kinds) - 1, address_of(SHARED), kinds[-1].num, kinds[-1].itemsize]
    words.append(rows)
    for kind in kinds:
        words += id(kind), kind.itemsize
    return linked_built_in("quick_elementwise", QUICK, _ElementwiseCall, words)


_alive: list[Callable] = []  # whose addresses are in the bytes of built-in functions


def _in_order(ufunc: Callable, inputs: int) -> Callable:
    """The ufunc for what its built-in function does not take."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = ufunc(*args, **kwargs)
        return result if kwargs or len(args) > inputs else in_order(np, result, [*args])

    return call


class _ElementwiseCall(UfuncCall):
    """A call of an elementwise ufunc: one of its `LOOPS` for all elements, or nested loops around calls for two dimensions.

    Attributes:
        has_out: whether there is an array for the result.
        alike: whether all arrays that have dimensions have the same; `plain`: whether all are contiguous.
        first: the sizes of the first of them.
        ndim, shape, total: dimensions, sizes and elements of the result.
        strides: of all operands along the result's dimensions; `order`: these dimensions, the outermost in memory first.
        counts, moves: how often each of the nested loops is run, and the operands' strides along it; `index`: its turn.
        addresses, steps, row_steps: arguments of `LOOPS`.
        pool: the address of `_jobs.SHARED`; `state`: what was `taken` of it; `job`: words of `ENTRY` or `ROWS`.
    """

    operands: Value  # how many there are, with the result
    loops: Value
    pool: Value

    def __init__(self) -> None:
        super().__init__()
        code = self.code
        self.inputs = self.word(INPUTS)
        self.addresses, self.steps, self.row_steps = (code.array("i64", MOST_OPERANDS) for _ in range(3))
        self.state = code.variable("i64", 0)
        self.job = code.array("i64", HEAD + (2 + OUTER) * MOST_OPERANDS)
        self.shape, self.counts, self.index, self.order = (code.array("i64", MOST_DIMS) for _ in range(4))
        self.strides, self.moves = (code.array("i64", MOST_OPERANDS * MOST_DIMS) for _ in range(2))
        self.has_out = self.count == self.inputs + 1
        self.fits = code.variable("i1", self.counts_fit())
        self.alike, self.plain = (code.variable("i1", code.value(1, "i1")) for _ in range(2))
        self.ndim, self.first = code.variable("i64", 0), code.variable("ptr", code.cast(code.value(0, "i64"), "ptr"))

    def counts_fit(self) -> Value:
        """Whether there are as many arguments as inputs, or one more, and no keywords."""
        return super().counts_fit() | (self.has_out & (self.code.cast(self.keywords, "i64") == 0))

    def write(self) -> None:
        code = self.code
        with code.loop(0, code.select(self.fits.get(), self.count, 0)) as k:
            self.check(k)
        n = code.select(self.fits.get(), self.ndim.get(), 0)
        self.broadcast(n)
        self.total = code.variable("i64", 1)
        with code.loop(0, n) as j:
            self.total.set(self.total.get() * code.load("i64", self.shape, j))
        self.refuse(self.total.get() == 0)
        with code.when(self.fits.get() & self.has_out):
            self.check_out(n)
        self.leave_to_ufunc()
        out = self.result(n)
        self.operands = self.inputs + 1
        self.loops, dense = code.cast(self.word(LOOP), "ptr"), self.alike.get() & self.plain.get()
        self.pool = code.cast(self.word(POOL), "ptr")
        self.begin_threads(self.total.get())
        code.choose(dense, self.call_once, lambda: self.call_repeatedly(n))
        self.end_threads()
        self.end(out)

    def check_out(self, n: Value) -> None:
        """Refuse gaps, and an array for the result that has not its shape, is read-only, or shares a part of its memory."""
        code, out = self.code, self.array_at(self.inputs)
        size, total = self.word(SIZE), self.total.get()
        read_only = (self.field("i32", out, FLAGS) & WRITEABLE) == 0
        self.refuse(~self.plain.get() | read_only | (self.rank_of(out) != n) | (self.elements_of(out) != total))
        first = code.load("i64", self.addresses, self.inputs)
        with code.loop(0, self.inputs) as k:
            start, count = code.load("i64", self.addresses, k), self.elements_of(self.array_at(k))
            apart = (start >= first + total * size) | (first >= start + count * self.size_of(k))
            same = (start == first) & (count == total) & (self.size_of(k) == size)
            self.refuse(~(apart | same))

    def elements_of(self, array: Value) -> Value:
        """The number of an array's elements."""
        code, lengths, count = self.code, self.field("ptr", array, SHAPE), self.code.variable("i64", 1)
        with code.loop(0, self.rank_of(array)) as j:
            count.set(count.get() * code.load("i64", lengths, j))
        return count.get()

    def result(self, n: Value) -> Value:
        """The array for the result, or a new one, whose address is stored."""
        code, out = self.code, self.code.variable("ptr")
        with code.loop(0, n) as j:
            code.store(j, self.order, j)

        def take() -> None:
            out.set(self.array_at(self.inputs))
            self.call_void("Py_IncRef", out.get())

        def create() -> None:
            out.set(self.new_result(n))
            code.store(self.field("i64", out.get(), ADDRESS), self.addresses, self.inputs)

        code.choose(self.has_out, take, create)
        return out.get()

    def array_at(self, k: Value) -> Value:
        """An argument."""
        return self.code.load("ptr", self.arguments, k)

    def rank_of(self, array: Value) -> Value:
        """The number of an array's dimensions."""
        return self.code.cast(self.field("i32", array, NDIM), "i64")

    def size_of(self, k: Value) -> Value:
        """The bytes of an operand's element."""
        return self.word(RECORDS + 1 + k * RECORD)

    def check(self, k: Value) -> None:
        """Refuse an argument of another class or type; compare its dimensions with those of the arguments before."""
        code, array = self.code, self.array_at(k)
        self.refuse(self.field("i64", array, CLASS) != self.word(ARRAY))
        with code.when(self.fits.get()):
            rank = self.rank_of(array)
            flags = self.field("i32", array, FLAGS)
            other = self.field("i64", array, DTYPE) != self.word(RECORDS + k * RECORD)
            self.refuse(other | ((flags & ALIGNED) == 0) | (rank > MOST_DIMS))
            self.plain.set(self.plain.get() & ((flags & CONTIGUOUS) != 0))
            code.store(self.field("i64", array, ADDRESS), self.addresses, k)
            own = self.field("ptr", array, SHAPE)

            def begin() -> None:
                self.first.set(own)
                self.ndim.set(rank)

            def compare() -> None:
                alike, first = self.alike, self.first
                alike.set(alike.get() & (rank == self.ndim.get()))
                with code.loop(0, code.select(alike.get(), rank, 0)) as j:
                    alike.set(alike.get() & (code.load("i64", own, j) == code.load("i64", first.get(), j)))

            with code.when(rank != 0):
                code.choose(code.cast(self.first.get(), "i64") == 0, begin, compare)
                self.ndim.set(code.maximum(self.ndim.get(), rank))

    def broadcast(self, n: Value) -> None:
        """Store the result's `n` sizes; refuse arguments that do not broadcast."""
        code = self.code
        with code.loop(0, n) as j:
            code.store(code.value(1, "i64"), self.shape, j)
        with code.loop(0, code.select(self.fits.get(), self.count, 0)) as k:
            array = self.array_at(k)
            own, rank = self.field("ptr", array, SHAPE), self.rank_of(array)
            with code.loop(0, rank) as j:
                length, place = code.load("i64", own, j), n - rank + j
                with code.when(length != 1):
                    before = code.load("i64", self.shape, place)
                    self.refuse((before != 1) & (before != length))
                    code.store(length, self.shape, place)

    def new_result(self, n: Value) -> Value:
        """The result, of `n` dimensions."""
        code, out = self.code, self.code.variable("ptr")

        def ordered() -> None:
            self.store_strides(n)
            self.sort(n)
            self.store_result_strides(n)
            out.set(self.new_array(n, self.shape, code.at("i64", self.strides, self.inputs * MOST_DIMS)))

        code.choose(self.plain.get(), lambda: out.set(self.new_array(n, self.shape)), ordered)
        return out.get()

    def sort(self, n: Value) -> None:
        """Order the result's dimensions by the strides of the inputs: by insertion, from the innermost one on."""
        code = self.code
        with code.loop(1, n) as turn:
            at, going = code.variable("i64", n - 1 - turn), code.variable("i1", code.value(1, "i1"))
            with code.loop(n - turn, n) as before:
                with code.when(going.get()):
                    outer, inner = (code.load("i64", self.order, place) for place in (at.get(), before))
                    answer = self.compare(outer, inner)
                    going.set(answer >= 0)
                    with code.when(answer > 0):
                        code.store(inner, self.order, at.get())
                        code.store(outer, self.order, before)
                        at.set(before)

    def compare(self, outer: Value, inner: Value) -> Value:
        """1 if dimension `inner` must be outside of `outer`, -1 if not, 0 if no input determines it."""
        code, answer = self.code, self.code.variable("i64", 0)
        shorter = code.load("i64", self.shape, outer) < code.load("i64", self.shape, inner)
        with code.loop(0, self.inputs) as k:
            a, b = (code.load("i64", self.strides, k * MOST_DIMS + d) for d in (outer, inner))
            with code.when((answer.get() == 0) & (a != 0) & (b != 0)):
                equal = code.select(shorter, code.value(1, "i64"), 0)
                answer.set(code.select(a == b, equal, code.select(a < b, code.value(1, "i64"), -1)))
        return answer.get()

    def call(self, length: Value, rows: Value | int = 1) -> None:
        """Call the ufunc's `LOOPS` for so many elements of each row."""
        code = self.code
        numbers = [self.addresses, length, self.steps, code.value(rows, "i64"), self.row_steps]
        code.lines.append(f"  call void {self.loops.name}({', '.join(f'{each.kind} {each.name}' for each in numbers)})")

    def call_once(self) -> None:
        """All elements in one call, or by the pool's threads."""
        code = self.code
        with code.loop(0, self.inputs) as k:
            code.store(code.select(self.rank_of(self.array_at(k)) == 0, 0, self.size_of(k)), self.steps, k)
        code.store(self.word(SIZE), self.steps, self.inputs)
        self.call_one_row(self.total.get())

    def call_one_row(self, length: Value) -> None:
        """One call for so many elements, or a job of the pool's for blocks of them."""

        def by_pool() -> None:
            code = self.code
            code.store(length, self.job)
            with code.loop(0, self.operands) as k:
                code.store(code.load("i64", self.addresses, k), self.job, 1 + k * 2)
                code.store(code.load("i64", self.steps, k), self.job, 2 + k * 2)
            self.run_job(ENTRY, (length + (BLOCK - 1)) // BLOCK)

        self.share(by_pool, lambda: self.call(length))

    def share(self, by_pool: Callable[[], None], alone: Callable[[], None], fits: Value | None = None) -> None:
        """`by_pool` if there are many elements, the pool is free and `fits` holds; else `alone`."""
        code = self.code
        many = self.total.get() >= code.load("i64", self.pool, _jobs.LIMIT)
        with code.when(many if fits is None else many & fits):
            self.state.set(_jobs.taken(code, self.pool))
        code.choose(self.state.get() != 0, by_pool, alone)

    def run_job(self, place: int, blocks: Value) -> None:
        """Let the pool compute all blocks of `ENTRY` or `ROWS`, whose address is at a place, with the words of `job`."""
        code = self.code
        parts = code.minimum(code.load("i64", self.pool, _jobs.COUNT), self.total.get() // GRAIN)
        _jobs.run(code, self.state.get(), self.word(place), self.job, blocks, code.minimum(parts, blocks))

    def call_repeatedly(self, n: Value) -> None:
        """A call for each run along the last two of the nested loops, or a job of the pool's for rows of the last one."""
        code = self.code
        with code.when(self.plain.get()):
            self.store_strides(n)
            self.store_result_strides(n)
        last = self.nested_loops(n) - 1
        with code.loop(0, self.operands) as k:
            code.store(self.move_of(k, last), self.steps, k)
        length, near = code.load("i64", self.counts, last), last - 1

        def rows() -> None:
            self.share(lambda: self.rows_by_pool(last), lambda: self.call_rows(length, near), last <= OUTER)

        code.choose(near < 0, lambda: self.call_one_row(length), rows)

    def rows_by_pool(self, last: Value) -> None:
        """A job of the pool's for rows along the nested loop `last`, in parts where they are few and long.

        A row's dimensions are the loops around that one, and 1 where these are fewer.
        """
        code = self.code
        length, rows = code.load("i64", self.counts, last), code.variable("i64", 1)
        with code.loop(0, last) as j:
            rows.set(rows.get() * code.load("i64", self.counts, j))
        cuts = (rows.get() < FEW_ROWS) & (last < OUTER) & (length % PARTS == 0)
        parts, shift = code.select(cuts, code.value(PARTS, "i64"), 1), code.cast(cuts, "i64", signed=False)
        code.store(length // parts, self.job)
        with code.loop(0, OUTER) as d:
            j = last - OUTER + d + shift
            place, is_cut, exists = code.maximum(j, 0), j == last, j >= 0
            size = code.select(exists, code.select(is_cut, parts, code.load("i64", self.counts, place)), 1)
            with code.when(d > 0):
                code.store(size, self.job, d)
            with code.loop(0, self.operands) as k:
                step = self.move_of(k, place)
                step = code.select(exists, code.select(is_cut, step * (length // parts), step), 0)
                code.store(step, self.job, HEAD + k * (2 + OUTER) + 2 + d)
        with code.loop(0, self.operands) as k:
            code.store(code.load("i64", self.addresses, k), self.job, HEAD + k * (2 + OUTER))
            code.store(self.move_of(k, last), self.job, HEAD + k * (2 + OUTER) + 1)
        self.run_job(ROWS, rows.get() * parts)

    def move_of(self, k: Value, d: Any) -> Value:
        """The stride of an operand along a nested loop."""
        return self.code.load("i64", self.moves, k * MOST_DIMS + d)

    def store_strides(self, n: Value) -> None:
        """Store the strides of all inputs along the result's `n` dimensions, 0 where an input is repeated."""
        code = self.code
        with code.loop(0, self.inputs) as k:
            array = self.array_at(k)
            own, own_strides = self.field("ptr", array, SHAPE), self.field("ptr", array, STRIDES)
            rank = self.rank_of(array)
            with code.loop(0, n) as j:
                code.store(code.value(0, "i64"), self.strides, k * MOST_DIMS + j)
            with code.loop(0, rank) as j:
                place = n - rank + j
                whole = code.load("i64", own, j) == code.load("i64", self.shape, place)
                step = code.select(whole, code.load("i64", own_strides, j), 0)
                code.store(step, self.strides, k * MOST_DIMS + place)

    def store_result_strides(self, n: Value) -> None:
        """Store those of the result."""
        code, inner = self.code, self.code.variable("i64", self.word(SIZE))
        with code.loop(0, n) as j:
            d = code.load("i64", self.order, n - 1 - j)
            code.store(inner.get(), self.strides, self.inputs * MOST_DIMS + d)
            inner.set(inner.get() * code.load("i64", self.shape, d))

    def nested_loops(self, n: Value) -> Value:
        """Store the nested loops and return how many they are: neighbours that all operands take in one stride are one."""
        code, loops = self.code, self.code.variable("i64", 0)
        with code.loop(0, n) as j:
            d = code.load("i64", self.order, j)
            length = code.load("i64", self.shape, d)
            with code.when(length != 1):
                self.add_loop(loops, d, length)
        with code.when(loops.get() == 0):
            code.store(code.value(1, "i64"), self.counts)
            loops.set(1)
            with code.loop(0, self.operands) as k:
                code.store(code.value(0, "i64"), self.moves, k * MOST_DIMS)
        return loops.get()

    def add_loop(self, loops: Variable, j: Value, length: Value) -> None:
        """Add dimension `j` to the nested loops, as a part of the last one if all operands take both in one stride."""
        code = self.code
        joins = code.variable("i1", loops.get() != 0)
        last = loops.get() - 1
        with code.loop(0, code.select(joins.get(), self.operands, 0)) as k:
            before = self.move_of(k, last)
            joins.set(joins.get() & (before == length * code.load("i64", self.strides, k * MOST_DIMS + j)))

        def begin() -> None:
            code.store(length, self.counts, loops.get())
            loops.add(1)

        code.choose(
            joins.get(), lambda: code.store(code.load("i64", self.counts, last) * length, self.counts, last), begin
        )
        with code.loop(0, self.operands) as k:
            code.store(code.load("i64", self.strides, k * MOST_DIMS + j), self.moves, k * MOST_DIMS + loops.get() - 1)

    def move(self, d: Value, turns: Value | int) -> None:
        """Move all operands along a nested loop."""
        code = self.code
        with code.loop(0, self.operands) as k:
            by = self.move_of(k, d) * turns
            code.store(code.load("i64", self.addresses, k) + by, self.addresses, k)

    def call_rows(self, length: Value, near: Value) -> None:
        """A call for each run along the nested loop `near` and the one within it."""
        code = self.code
        with code.loop(0, self.operands) as k:
            code.store(self.move_of(k, near), self.row_steps, k)
        with code.loop(0, near) as j:
            code.store(code.value(0, "i64"), self.index, j)
        rows = code.load("i64", self.counts, near)
        with code.forever() as leave:
            self.call(length, rows)
            d = code.variable("i64", near - 1)
            with code.forever() as found:  # the innermost of the loops around these that has not ended
                found(d.get() < 0)
                turn, most = code.load("i64", self.index, d.get()) + 1, code.load("i64", self.counts, d.get())
                ends = turn == most
                code.store(code.select(ends, 0, turn), self.index, d.get())
                self.move(d.get(), code.select(ends, 1 - most, 1))
                found(~ends)
                d.add(-1)
            leave(d.get() < 0)
