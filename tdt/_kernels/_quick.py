"""Calls of ufuncs without NumPy's iterator, which takes up to 1 µs to set up.

`quick(ufunc)` is a built-in function of Python's that looks at the arrays itself. It takes what small calls mostly are: arrays of
the ufunc's own types, with no dimensions but those that the signature names or one more, and one result; everything else it
hands to the ufunc.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import CLASS, NEW_ARRAY, array_function
from tdt._kernels._builtin_code import ALIGNED, DTYPE, FLAGS, NDIM, SHAPE, STRIDES, BuiltIn, linked_built_in
from tdt._kernels._code import Value, Variable
from tdt._kernels._gufunc import AS_KNOWN, loop_of, named_sizes

QUICK = "tdt_quick"
LOOP, DATA, UFUNC, ARRAY, NEW, INPUTS, NAMES, KIND, SIZE, OPERANDS = range(10)  # words of `self`
RECORD = 4  # words of an operand: how many dimensions are named, their numbers (two), the address of its dtype
MOST_NAMES, MOST_OPERANDS = 6, 8
LARGE = 1 << 15  # the product of all sizes from which on other threads of Python's run meanwhile


@functools.cache
def quick(ufunc: Callable) -> Callable:
    """The function that calls the ufunc, of `generalized`, with one result of up to two dimensions."""
    address, data, signature, types = loop_of(ufunc)
    cores = named_sizes(signature)
    names = list(dict.fromkeys(name for core in cores for name in core))
    kinds = [np.dtype(AS_KNOWN.get(letter, letter)) for letter in types]
    assert len(names) <= MOST_NAMES and len(cores) <= MOST_OPERANDS and max(map(len, cores)) <= 2
    words = [*ufunc_words(ufunc, address, data), len(cores) - 1, len(names), kinds[-1].num, kinds[-1].itemsize]
    for core, kind in zip(cores, kinds, strict=True):
        words += len(core), *[names.index(name) for name in core], *[0] * (2 - len(core)), id(kind)
    return linked_built_in("quick", QUICK, _GeneralizedCall, words)


def ufunc_words(ufunc: Callable, loop: int, data: int) -> list[int]:
    """The first words of `self`, up to NEW."""
    return [loop, data, id(ufunc), id(np.ndarray), array_function(NEW_ARRAY)]


class UfuncCall(BuiltIn):
    """A function that calls the loop of a ufunc where it can, and else the ufunc.

    Attributes:
        inputs: how many the ufunc has.
        fits: whether the function can call the loop, by what it has looked at.
        thread: Python's state, while other threads of Python's run.
    """

    inputs: Value
    fits: Variable
    thread: Variable

    def counts_fit(self) -> Value:
        """Whether there are as many arguments as inputs, and no keywords."""
        return (self.count == self.inputs) & (self.code.cast(self.keywords, "i64") == 0)

    def refuse(self, test: Value) -> None:
        """The arguments do not fit where a test holds."""
        self.fits.set(self.fits.get() & ~test)

    def leave_to_ufunc(self) -> None:
        """Return what the ufunc does, where the arguments do not fit."""
        code = self.code
        with code.when(~self.fits.get()):
            ufunc = code.cast(self.word(UFUNC), "ptr")
            self.leave(code.function("PyObject_Vectorcall", "ptr", ufunc, self.arguments, self.count, self.keywords))

    def new_array(self, ndim: Value, shape: Value, strides: Value | None = None, kind: Value | None = None) -> Value:
        """An array, contiguous unless it has strides. kind: NumPy's number of its type, None: of the result's."""
        code = self.code
        none, rank = code.cast(code.value(0, "i64"), "ptr").name, code.cast(ndim, "i32").name
        number = code.cast(self.word(KIND) if kind is None else kind, "i32").name
        new, array = code.cast(self.word(NEW), "ptr").name, code.cast(self.word(ARRAY), "ptr").name
        steps = none if strides is None else strides.name
        numbers = f"i32 {rank}, ptr {shape.name}, i32 {number}, ptr {steps}, ptr {none}, i32 0, i32 0, ptr {none}"
        return self.created(f"call ptr {new}(ptr {array}, {numbers})")

    def begin_threads(self, work: Value) -> None:
        """Let other threads of Python's run until `end_threads`, where there is much work."""
        code = self.code
        self.thread = code.variable("ptr", code.cast(code.value(0, "i64"), "ptr"))
        with code.when(work >= LARGE):
            self.thread.set(code.function("PyEval_SaveThread", "ptr"))

    def end_threads(self) -> None:
        """Go on as the only thread of Python's that runs."""
        with self.code.when(self.code.cast(self.thread.get(), "i64") != 0):
            self.call_void("PyEval_RestoreThread", self.thread.get())


class _GeneralizedCall(UfuncCall):
    """A call of a ufunc whose signature names dimensions.

    Attributes:
        names: how many there are.
        addresses, sizes, strides: the loop's arguments.
        shape: the result's.
        times: the size of the dimension that is not named.
        stacked: 1 if an operand has such a dimension, else 0.
        place: where the next stride of a named dimension goes.
    """

    def __init__(self) -> None:
        super().__init__()
        code = self.code
        self.inputs, self.names = self.word(INPUTS), self.word(NAMES)
        self.addresses, self.sizes, self.strides = (
            code.array("i64", n) for n in (MOST_OPERANDS, 1 + MOST_NAMES, 3 * MOST_OPERANDS)
        )
        self.shape = code.array("i64", 3)
        self.fits = code.variable("i1", self.counts_fit())
        self.times, self.stacked = code.variable("i64", 1), code.variable("i64", 0)
        self.place = code.variable("i64", self.inputs + 1)

    def write(self) -> None:
        code = self.code
        with code.loop(0, self.names) as n:
            code.store(code.value(0, "i64"), self.sizes, n + 1)
        with code.loop(0, code.select(self.fits.get(), self.inputs, 0)) as k:
            array, record = code.load("ptr", self.arguments, k), OPERANDS + k * RECORD
            self.check(array, record)
            with code.when(self.fits.get()):
                self.take_sizes(k, array, record)
        self.refuse_empty()
        self.leave_to_ufunc()
        out = self.new_result()
        self.call_loop()
        self.end(out)

    def lead_of(self, array: Value, rank: Value) -> Value:
        """How many dimensions an array has in front of `rank` named ones."""
        return self.code.cast(self.field("i32", array, NDIM), "i64") - rank

    def check(self, array: Value, record: Value) -> None:
        """Refuse an argument of another class or type, and one that has not as many dimensions as it may have."""
        self.refuse(self.field("i64", array, CLASS) != self.word(ARRAY))
        with self.code.when(self.fits.get()):
            lead = self.lead_of(array, self.word(record))
            self.refuse(
                (self.field("i64", array, DTYPE) != self.word(record + 3))
                | ((self.field("i32", array, FLAGS) & ALIGNED) == 0)
                | (lead < 0)
                | (lead > 1)
            )

    def take_sizes(self, k: Value, array: Value, record: Value) -> None:
        """Store the address and the strides of input `k`, and its sizes, which must be those of the inputs before it."""
        code = self.code
        rank = self.word(record)
        lead = self.lead_of(array, rank)
        lengths, steps = self.field("ptr", array, SHAPE), self.field("ptr", array, STRIDES)
        code.store(self.field("i64", array, ADDRESS), self.addresses, k)
        code.store(code.value(0, "i64"), self.strides, k)
        with code.when(lead == 1):
            self.stacked.set(1)
            first = code.load("i64", lengths)
            with code.when(first != 1):
                self.refuse((self.times.get() != 1) & (self.times.get() != first))
                self.times.set(first)
                code.store(code.load("i64", steps), self.strides, k)
        with code.loop(0, rank) as j:
            name, length = self.word(record + 1 + j), code.load("i64", lengths, lead + j)
            known = code.load("i64", self.sizes, name + 1)
            self.refuse(((known != 0) & (known != length)) | (length == 0))
            code.store(length, self.sizes, name + 1)
            code.store(code.load("i64", steps, lead + j), self.strides, self.place.get())
            self.place.add(1)

    def refuse_empty(self) -> None:
        """Refuse empty arrays, and names that no input has."""
        code = self.code
        self.refuse(self.times.get() == 0)
        missing = code.variable("i1", code.value(0, "i1"))
        with code.loop(0, self.names) as n:
            missing.set(missing.get() | (code.load("i64", self.sizes, n + 1) == 0))
        self.fits.set(self.fits.get() & ~missing.get())

    def new_result(self) -> Value:
        """The array of the result, whose sizes, strides and address are stored."""
        code = self.code
        record, size = OPERANDS + self.inputs * RECORD, self.word(SIZE)
        rank = self.word(record)
        code.store(self.times.get(), self.shape)
        inner = code.variable("i64", size)
        with code.loop(0, rank) as j:
            back = rank - 1 - j
            length = code.load("i64", self.sizes, self.word(record + 1 + back) + 1)
            code.store(length, self.shape, self.stacked.get() + back)
            code.store(inner.get(), self.strides, self.place.get() + back)
            inner.set(inner.get() * length)
        code.store(inner.get(), self.strides, self.inputs)
        code.store(self.times.get(), self.sizes)
        out = self.new_array(self.stacked.get() + rank, self.shape)
        code.store(self.field("i64", out, ADDRESS), self.addresses, self.inputs)
        return out

    def call_loop(self) -> None:
        """Call the loop for all rows."""
        code = self.code
        work = code.variable("i64", self.times.get())
        with code.loop(0, self.names) as n:
            work.set(work.get() * code.load("i64", self.sizes, n + 1))
        self.begin_threads(work.get())
        loop, extra = code.cast(self.word(LOOP), "ptr").name, code.cast(self.word(DATA), "ptr").name
        addresses, sizes, strides = self.addresses.name, self.sizes.name, self.strides.name
        code.lines.append(f"  call void {loop}(ptr {addresses}, ptr {sizes}, ptr {strides}, ptr {extra})")
        self.end_threads()
