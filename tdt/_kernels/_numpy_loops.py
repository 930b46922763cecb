"""Calls of NumPy's ufuncs of integers, bools and comparisons without NumPy's iterator: their own loops, see `_quick`."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS, from_address
from tdt._kernels._builtin import CLASS
from tdt._kernels._builtin_code import ALIGNED, CONTIGUOUS, DTYPE, FLAGS, NDIM, SHAPE, WRITEABLE, linked_built_in
from tdt._kernels._code import Value
from tdt._kernels._quick import (
    ARRAY,
    DATA,
    INPUTS,
    LOOP,
    MOST_OPERANDS,
    OPERANDS,
    QUICK,
    SIZE,
    UfuncCall,
    ufunc_words,
)
from tdt._kernels._quick_elementwise import _in_order

# Where a ufunc has how many operands it has, its loops, what these get last, how many there are, its name, and their types.
COUNTS, FUNCTIONS, LAST, TYPES_COUNT, NAME, TYPES = 16, 32, 40, 48, 56, 64
RECORD = 2  # words of an operand: the address of its dtype, the bytes of an element
CHECKED = 3, 5  # numbers of which a loop is tried
_alive: list[Any] = []  # whose addresses are in the bytes of built-in functions


@functools.cache
def quick_loop(name: str, letter: str) -> Callable[..., Any] | None:
    """The function that calls NumPy's ufunc `name` of two operands of a type; None where its loop is not found.

    It takes contiguous arrays of one shape and arrays without dimensions; the ufunc takes all others, and gives results in
    PyTorch's order. An array for the result may follow: one of these two, or one that shares no memory with them.
    """
    ufunc = getattr(np, name)
    if not _is_known(ufunc):
        return None
    at = next((k for k, types in enumerate(ufunc.types) if types.startswith(f"{letter}{letter}->")), None)
    if at is None:
        return None
    kinds = [np.dtype(each) for each in ufunc.types[at].replace("->", "")]
    loop, data = (from_address(from_address(id(ufunc) + table).value + 8 * at).value for table in (FUNCTIONS, LAST))
    ordered = _in_order(ufunc, 2)
    words = [*ufunc_words(ordered, loop, data), 2, 0, kinds[-1].num, kinds[-1].itemsize]
    for kind in kinds:
        words += id(kind), kind.itemsize
    _alive.append((ordered, kinds))
    call = linked_built_in("numpy_loop", QUICK, _LoopCall, words)
    a, b = (np.array(each, kinds[0]) for each in ([*CHECKED], [*reversed(CHECKED)]))
    return call if np.array_equal(call(a, b), ufunc(a, b)) else None


def _is_known(ufunc: np.ufunc) -> bool:
    """Whether the parts of a ufunc are where they are looked for."""
    counts = [ctypes.c_int.from_address(id(ufunc) + COUNTS + 4 * k).value for k in range(3)]
    count = ctypes.c_int.from_address(id(ufunc) + TYPES_COUNT).value
    if counts != [ufunc.nin, ufunc.nout, ufunc.nargs] or ufunc.nin != 2 or count != ufunc.ntypes:
        return False
    if ctypes.string_at(from_address(id(ufunc) + NAME).value) != ufunc.__name__.encode():
        return False
    numbers = ctypes.string_at(from_address(id(ufunc) + TYPES).value, 3 * count)
    return all(
        [np.dtype(each).num for each in types.replace("->", "")] == [*numbers[3 * k : 3 * k + 3]]
        for k, types in enumerate(ufunc.types)
    )


class _LoopCall(UfuncCall):
    """A call of a loop for all elements.

    Attributes:
        has_out: whether there is an array for the result.
        addresses, sizes, strides: the loop's arguments.
        shaped: the first array that has dimensions.
    """

    has_out: Value

    def counts_fit(self) -> Value:
        """Whether there are as many arguments as inputs, or one more, and no keywords."""
        return (self.count - self.code.cast(self.has_out, "i64", signed=False) == self.inputs) & (
            self.code.cast(self.keywords, "i64") == 0
        )

    def write(self) -> None:
        code = self.code
        self.inputs = self.word(INPUTS)
        self.has_out = self.count == self.inputs + 1
        self.addresses, self.strides = (code.array("i64", MOST_OPERANDS) for _ in range(2))
        self.fits = code.variable("i1", self.counts_fit())
        self.shaped = code.variable("ptr", code.cast(code.value(0, "i64"), "ptr"))
        with code.loop(0, code.select(self.fits.get(), self.count, 0)) as k:
            self.check(k)
        total, ndim, shape = code.variable("i64", 1), code.variable("i64", 0), code.variable("ptr", self.addresses)
        with code.when(self.fits.get() & (code.cast(self.shaped.get(), "i64") != 0)):
            ndim.set(code.cast(self.field("i32", self.shaped.get(), NDIM), "i64"))
            shape.set(self.field("ptr", self.shaped.get(), SHAPE))
        with code.loop(0, ndim.get()) as d:
            total.set(total.get() * code.load("i64", shape.get(), d))
        self.refuse(total.get() == 0)
        self.leave_to_ufunc()
        result = code.variable("ptr")

        def take_last() -> None:
            result.set(code.load("ptr", self.arguments, self.inputs))
            self.call_void("Py_IncRef", result.get())

        code.choose(self.has_out, take_last, lambda: result.set(self.new_array(ndim.get(), shape.get())))
        out = result.get()
        code.store(self.field("i64", out, ADDRESS), self.addresses, self.inputs)
        code.store(self.word(SIZE), self.strides, self.inputs)
        sizes = code.array("i64", 1)
        code.store(total.get(), sizes)
        self.begin_threads(total.get())
        loop, last = (code.cast(self.word(place), "ptr").name for place in (LOOP, DATA))
        pointers = f"ptr {self.addresses.name}, ptr {sizes.name}, ptr {self.strides.name}, ptr {last}"
        code.lines.append(f"  call void {loop}({pointers})")
        self.end_threads()
        self.end(out)

    def check(self, k: Value) -> None:
        """Refuse an argument of another class or type, and one that is neither contiguous in the shape of others nor 0-d."""
        code = self.code
        array, record = code.load("ptr", self.arguments, k), OPERANDS + k * RECORD
        self.refuse(self.field("i64", array, CLASS) != self.word(ARRAY))
        with code.when(self.fits.get()):
            flags, rank = self.field("i32", array, FLAGS), self.field("i32", array, NDIM)
            self.refuse((self.field("i64", array, DTYPE) != self.word(record)) | ((flags & ALIGNED) == 0))
            self.refuse((rank != 0) & ((flags & CONTIGUOUS) == 0))
            needed = code.select(k == self.inputs, WRITEABLE, code.value(0, "i32"))  # of the result
            self.refuse((flags & needed) != needed)
            self.refuse((k == self.inputs) & (rank == 0) & (code.cast(self.shaped.get(), "i64") != 0))
            self.refuse((k == self.inputs) & (rank != 0) & (code.cast(self.shaped.get(), "i64") == 0))
            code.store(self.field("i64", array, ADDRESS), self.addresses, k)
            code.store(code.select(rank != 0, self.word(record + 1), 0), self.strides, k)
            with code.when(rank != 0):
                with code.when(code.cast(self.shaped.get(), "i64") == 0):
                    self.shaped.set(array)
                self.refuse(self.field("i32", self.shaped.get(), NDIM) != rank)
                shapes = [self.field("ptr", each, SHAPE) for each in (self.shaped.get(), array)]
                with code.loop(0, code.select(self.fits.get(), code.cast(rank, "i64"), 0)) as d:
                    one, other = (code.load("i64", shape, d) for shape in shapes)
                    self.refuse(one != other)
