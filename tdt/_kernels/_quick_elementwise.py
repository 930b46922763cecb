"""Calls of elementwise ufuncs without NumPy's iterator, for contiguous arrays: see `_quick`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import CLASS
from tdt._kernels._builtin_code import ALIGNED, CONTIGUOUS, DTYPE, FLAGS, NDIM, SHAPE, STRIDES, linked_built_in
from tdt._kernels._code import Value, Variable
from tdt._kernels._quick import (
    ARRAY,
    INPUTS,
    LOOP,
    MOST_OPERANDS,
    OPERANDS,
    QUICK,
    SIZE,
    UfuncCall,
    ufunc_words,
)

RECORD = 2  # words of an operand: the address of its dtype, the bytes of an element
MOST_DIMS = 8
# Elements of a row that are worth a call of their own, also where an operand has one; and of a result whose operands are copied.
ROW, ROW_OF_ONE, COPIED = 1 << 7, 1 << 4, 1 << 15


def quick_elementwise(ufunc: Callable, loop: int, kinds: Sequence[np.dtype]) -> Callable:
    """The function that calls an elementwise ufunc with one result, for contiguous arrays that broadcast.

    Args:
        loop: the address of the ufunc's loop.
        kinds: types of the operands, the result's at last.
    """
    if len(kinds) > MOST_OPERANDS:
        return ufunc
    words = [*ufunc_words(ufunc, loop, 0), len(kinds) - 1, 0, kinds[-1].num, kinds[-1].itemsize]
    for kind in kinds:
        words += id(kind), kind.itemsize
    return linked_built_in("quick_elementwise", QUICK, _ElementwiseCall, words)


class _ElementwiseCall(UfuncCall):
    """A call of an elementwise ufunc: one of its loop for all elements, or nested loops around calls for one dimension.

    Attributes:
        alike: whether all inputs that have dimensions have the same.
        first: the sizes of the first of them.
        ndim, shape, total: dimensions, sizes and elements of the result.
        strides: of all operands along the result's dimensions.
        counts, moves: how often each of the nested loops is run, and the operands' strides along it; `index`: its turn.
        addresses, lengths, steps: the arguments of the ufunc's loop.
    """

    operands: Value  # how many there are, with the result
    loop: Value
    nothing: Value
    # Of the nested loops: the number of the innermost one, which a call of the ufunc's loop is, its length, the next number.
    last: Value
    length: Value
    near: Value

    def __init__(self) -> None:
        super().__init__()
        code = self.code
        self.inputs = self.word(INPUTS)
        self.addresses, self.steps, self.counts = (
            code.array("i64", n) for n in (MOST_OPERANDS, MOST_OPERANDS, MOST_DIMS)
        )
        self.shape, self.lengths, self.index = (code.array("i64", MOST_DIMS) for _ in range(3))
        self.strides, self.moves = (code.array("i64", MOST_OPERANDS * MOST_DIMS) for _ in range(2))
        self.fits = code.variable("i1", self.counts_fit())
        self.alike = code.variable("i1", code.value(1, "i1"))
        self.ndim, self.first = code.variable("i64", 0), code.variable("ptr", code.cast(code.value(0, "i64"), "ptr"))

    def write(self) -> None:
        code = self.code
        with code.loop(0, code.select(self.fits.get(), self.inputs, 0)) as k:
            self.check(k)
        n = code.select(self.fits.get(), self.ndim.get(), 0)
        self.broadcast(n)
        self.total = code.variable("i64", 1)
        with code.loop(0, n) as j:
            self.total.set(self.total.get() * code.load("i64", self.shape, j))
        self.refuse(self.total.get() == 0)
        self.leave_to_ufunc()
        out = self.new_array(n, self.shape)
        code.store(self.field("i64", out, ADDRESS), self.addresses, self.inputs)
        self.operands = self.inputs + 1
        self.begin_threads(self.total.get())
        self.loop, self.nothing = code.cast(self.word(LOOP), "ptr"), code.cast(code.value(0, "i64"), "ptr")
        code.choose(self.alike.get(), self.call_once, lambda: self.call_repeatedly(n, out))
        self.end_threads()
        self.end(out)

    def array_at(self, k: Value) -> Value:
        """An argument."""
        return self.code.load("ptr", self.arguments, k)

    def rank_of(self, array: Value) -> Value:
        """The number of an array's dimensions."""
        return self.code.cast(self.field("i32", array, NDIM), "i64")

    def size_of(self, k: Value) -> Value:
        """The bytes of an operand's element."""
        return self.word(OPERANDS + 1 + k * RECORD)

    def check(self, k: Value) -> None:
        """Refuse an argument of another class, type or layout; compare its dimensions with those of the arguments before."""
        code, array = self.code, self.array_at(k)
        self.refuse(self.field("i64", array, CLASS) != self.word(ARRAY))
        with code.when(self.fits.get()):
            rank = self.rank_of(array)
            plain = (self.field("i32", array, FLAGS) & (ALIGNED | CONTIGUOUS)) == (ALIGNED | CONTIGUOUS)
            other = self.field("i64", array, DTYPE) != self.word(OPERANDS + k * RECORD)
            self.refuse(other | ~plain | (rank > MOST_DIMS))
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
        with code.loop(0, code.select(self.fits.get(), self.inputs, 0)) as k:
            array = self.array_at(k)
            own, rank = self.field("ptr", array, SHAPE), self.rank_of(array)
            with code.loop(0, rank) as j:
                length, place = code.load("i64", own, j), n - rank + j
                with code.when(length != 1):
                    before = code.load("i64", self.shape, place)
                    self.refuse((before != 1) & (before != length))
                    code.store(length, self.shape, place)

    def call(self, length: Value) -> None:
        """Call the ufunc's loop for so many elements."""
        self.code.store(length, self.lengths)
        numbers = f"ptr {self.addresses.name}, ptr {self.lengths.name}, ptr {self.steps.name}, ptr {self.nothing.name}"
        self.code.lines.append(f"  call void {self.loop.name}({numbers})")

    def call_once(self) -> None:
        """All elements in one call."""
        code = self.code
        with code.loop(0, self.inputs) as k:
            code.store(code.select(self.rank_of(self.array_at(k)) == 0, 0, self.size_of(k)), self.steps, k)
        code.store(self.word(SIZE), self.steps, self.inputs)
        self.call(self.total.get())

    def call_repeatedly(self, n: Value, out: Value) -> None:
        """A call for each run along the last of the nested loops, or one call of copies."""
        code = self.code
        self.store_strides(n)
        self.last = self.nested_loops(n) - 1
        with code.loop(0, self.operands) as k:
            code.store(self.move_of(k, self.last), self.steps, k)
        with code.loop(0, self.last) as j:
            code.store(code.value(0, "i64"), self.index, j)
        self.length, self.near = code.load("i64", self.counts, self.last), self.last - 1
        row = code.variable("i64", ROW)
        with code.loop(0, self.inputs) as k:
            one = (self.move_of(k, self.last) == 0) & (self.rank_of(self.array_at(k)) != 0)
            row.set(code.select(one, ROW_OF_ONE, row.get()))
        copied = (self.length < row.get()) & (self.total.get() <= COPIED)
        code.choose(
            self.near < 0,
            lambda: self.call(self.length),
            lambda: code.choose(copied, lambda: self.call_of_copies(out), self.call_rows),
        )

    def move_of(self, k: Value, d: Any) -> Value:
        """The stride of an operand along a nested loop."""
        return self.code.load("i64", self.moves, k * MOST_DIMS + d)

    def store_strides(self, n: Value) -> None:
        """Store the strides of all operands along the result's `n` dimensions, 0 where an operand is repeated."""
        code = self.code
        with code.loop(0, self.inputs) as k:
            array = self.array_at(k)
            own, own_strides = self.field("ptr", array, SHAPE), self.field("ptr", array, STRIDES)
            rank = self.rank_of(array)
            with code.loop(0, n) as j:
                code.store(code.value(0, "i64"), self.strides, k * MOST_DIMS + j)
            with code.loop(0, rank) as j:
                step = code.select(code.load("i64", own, j) == 1, 0, code.load("i64", own_strides, j))
                code.store(step, self.strides, k * MOST_DIMS + n - rank + j)
        inner = code.variable("i64", self.word(SIZE))
        with code.loop(0, n) as j:
            back = n - 1 - j
            code.store(inner.get(), self.strides, self.inputs * MOST_DIMS + back)
            inner.set(inner.get() * code.load("i64", self.shape, back))

    def nested_loops(self, n: Value) -> Value:
        """Store the nested loops and return how many they are: neighbours that all operands take in one stride are one."""
        code, loops = self.code, self.code.variable("i64", 0)
        with code.loop(0, n) as j:
            length = code.load("i64", self.shape, j)
            with code.when(length != 1):
                self.add_loop(loops, j, length)
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

    def call_rows(self) -> None:
        """A call for each run along the last of the nested loops."""
        code, near = self.code, self.near
        turns = code.load("i64", self.counts, near)
        with code.forever() as leave:
            with code.loop(0, turns):
                self.call(self.length)
                self.move(near, 1)
            self.move(near, 0 - turns)
            d = code.variable("i64", near - 1)
            with code.forever() as found:  # the innermost of the loops around this one that has not ended
                found(d.get() < 0)
                turn, most = code.load("i64", self.index, d.get()) + 1, code.load("i64", self.counts, d.get())
                ends = turn == most
                code.store(code.select(ends, 0, turn), self.index, d.get())
                self.move(d.get(), code.select(ends, 1 - most, 1))
                found(~ends)
                d.add(-1)
            leave(d.get() < 0)

    def call_of_copies(self, out: Value) -> None:
        """One call, of copies of the operands that are repeated: to call a loop takes as long as some hundred elements."""
        code = self.code
        with code.loop(0, self.operands) as k:
            code.store(code.value(0, "i64"), self.index, k)  # copies, to be freed
        with code.loop(0, self.inputs) as k:
            array, size = self.array_at(k), self.size_of(k)
            own, elements = self.field("ptr", array, SHAPE), code.variable("i64", 1)
            rank = self.rank_of(array)
            with code.loop(0, rank) as j:
                elements.set(elements.get() * code.load("i64", own, j))
            code.store(code.select(rank == 0, 0, size), self.steps, k)
            with code.when((rank != 0) & (elements.get() != self.total.get())):
                copy = self.memory(self.total.get() * size, out)
                self.copy_repeated(k, size, copy)
                code.store(copy, self.addresses, k)
                code.store(code.cast(copy, "i64"), self.index, k)
        code.store(self.word(SIZE), self.steps, self.inputs)
        self.call(self.total.get())
        self.free_copies()

    def memory(self, size: Value, out: Value) -> Value:
        """The address of new memory. Where there is none, the function returns with Python's error."""
        code = self.code
        copy = code.function("malloc", "ptr", size)
        with code.when(code.cast(copy, "i64") == 0):
            self.free_copies()
            self.end_threads()
            self.call_void("Py_DecRef", out)
            self.leave(code.function("PyErr_NoMemory", "ptr"))
        return copy

    def free_copies(self) -> None:
        with self.code.loop(0, self.inputs) as k:
            self.call_void("free", self.code.load("ptr", self.index, k))

    def copy_repeated(self, k: Value, size: Value, copy: Value) -> None:
        """Write the elements of an operand, of `size` bytes, as often as it is repeated."""
        code = self.code
        source, step = code.load("ptr", self.addresses, k), self.move_of(k, self.last)
        rows, each = self.total.get() // self.length, self.length * size
        with code.loop(0, rows) as r:
            place = self.place_of_row(k, r)
            begin, target = code.at("i8", source, place), code.at("i8", copy, r * each)

            def fill() -> None:
                for bytes_ in (1, 2, 4, 8):
                    with code.when(size == bytes_):
                        value = code.load(f"i{8 * bytes_}", begin)
                        with code.loop(0, self.length) as i:
                            code.store(value, target, i)

            code.choose(step == 0, fill, lambda: code.copy(target, begin, each))

    def place_of_row(self, k: Value, row: Value) -> Value:
        """By how many bytes the elements of a row lie behind an operand's first."""
        code = self.code
        place, rest = code.variable("i64", 0), code.variable("i64", row)
        with code.loop(0, self.near) as j:
            d = self.near - j
            turns = code.load("i64", self.counts, d)
            upper = rest.get() // turns
            place.add((rest.get() - upper * turns) * self.move_of(k, d))
            rest.set(upper)
        place.add(rest.get() * code.load("i64", self.moves, k * MOST_DIMS))
        return place.get()
