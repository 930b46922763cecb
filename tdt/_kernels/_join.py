"""Small tensors joined in one call: it finds their arrays itself, checks them, makes the result and copies them.

For each array NumPy's `concatenate` takes 0.3 µs, and Python code that looks at its tensor some 0.1 µs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS, from_address
from tdt._kernels._builtin import CLASS, NEW_FROM_DTYPE, array_function
from tdt._kernels._builtin_code import CONTIGUOUS, DTYPE, FLAGS, NDIM, SHAPE, STRIDES, BuiltIn, linked_built_in
from tdt._kernels._code import Value, Variable
from tdt._kernels._references import place_of

JOIN = "tdt_join"
ITEM_SIZE = 40  # where a dtype has the bytes of an element
MOST_DIMS, MOST_STRIDED = 64, 8  # dimensions, and those of arrays that are not contiguous
MOST_PAIRED = 128  # bytes up to which a row is copied by one or two vectors
LARGE = 1 << 20  # bytes of a result from which on threads of the pool copy, and other threads of Python's may run
ARRAYS, ARRAY, LIST, TUPLE, NONE, TRUE, NEW, PLACES = range(8)  # words of `self`

Join = Callable[[Any, int, bool], "np.ndarray | None"]


@functools.cache
def join() -> Join:
    """`(arrays, dim, new)`: arrays in a list or tuple, joined along `dim`, which is a new dimension if `new`.

    It returns None unless these are small arrays of one type that fit together, and none may be an image that is channels-last.
    """
    return _function(np.ndarray, ())


@functools.cache
def join_of(kind: type, view: type) -> Callable[[Any, int, bool, bool], np.ndarray | None] | None:
    """`(tensors, dim, new, recorded)`: `join` of the arrays of tensors; None, too, if `recorded` and one may require a gradient.

    None where it is not known where tensors of this class and their views have their attributes.
    """
    places = [*[place_of(kind, name) for name in ("_a", "_edge", "_view")], place_of(view, "base")]
    return None if None in places else _function(kind, places)


def _function(kind: type, places: Sequence[Any]) -> Any:
    if from_address(id(np.dtype("d")) + ITEM_SIZE).value != 8:  # another release of NumPy
        return lambda *args: None
    words = [*map(id, (kind, np.ndarray, list, tuple, None, True)), array_function(NEW_FROM_DTYPE), *places]
    name = "join-arrays" if not places else "join-tensors"
    return linked_built_in(name, JOIN, functools.partial(_Join, of_arrays=not places), words)


class _Join(BuiltIn):
    """The function that joins arrays, or those of tensors.

    Attributes:
        sequence, parts: the list or tuple, and its length; `item`: the last one taken from it.
        new, recorded: the arguments of these names; `more`: 1 if `new`, else 0; `axis`: the dimension, `d` counted from 0.
        ndim, dtype, shape: of the first array.
        total: the result's size in the dimension; `result`: all its sizes.
        steps, index: the result's strides along the dimensions of arrays that are not contiguous, and the place of a row.
        outer: how many pieces each array is copied in, of `each` bytes for a size of 1; `pitch`: bytes from piece to piece.
    """

    parts: Value
    d: Value
    ndim: Value
    dtype: Value
    shape: Value
    outer: Variable
    each: Value
    pitch: Value

    def __init__(self, of_arrays: bool) -> None:
        super().__init__()
        code, self.of_arrays = self.code, of_arrays
        self.sequence, dim = (code.load("ptr", self.arguments, k) for k in range(2))
        self.new, *self.recorded = (
            code.load("i64", self.arguments, k) == self.word(TRUE) for k in range(2, 3 if of_arrays else 4)
        )
        self.axis = code.variable("i64", code.function("PyLong_AsLongLong", "i64", dim))
        self.steps, self.index = (code.array("i64", MOST_STRIDED) for _ in range(2))

    def write(self) -> None:
        code = self.code
        self.refuse_no_integer()
        self.find_parts()
        first = self.checked(self.array_at(code.value(0, "i64")))
        self.ndim = code.cast(self.field("i32", first, NDIM), "i64")
        self.dtype, self.shape = self.field("ptr", first, DTYPE), self.field("ptr", first, SHAPE)
        self.more = code.cast(self.new, "i64", signed=False)
        self.check_dim()
        self.total = code.variable("i64", 0)
        with code.loop(0, self.parts) as i:
            self.check_alike(self.checked(self.array_at(i)))
        self.find_sizes()
        out = self.new_array()
        self.copy_all(out)
        self.end(out)

    def refuse(self, test: Value) -> None:
        """Return None where a test holds."""
        with self.code.when(test):
            none = self.code.cast(self.word(NONE), "ptr")
            self.call_void("Py_IncRef", none)
            self.leave(none)

    def missing(self, found: Value) -> Value:
        """Whether a slot of an object is not set."""
        return self.code.cast(found, "i64") == 0

    def refuse_no_integer(self) -> None:
        """Refuse a dimension that is no integer."""
        code = self.code
        failed = code.cast(code.function("PyErr_Occurred", "ptr"), "i64") != 0
        with code.when(failed):
            self.call_void("PyErr_Clear")
        self.refuse(failed)

    def find_parts(self) -> None:
        """Refuse what is neither list nor tuple, or empty."""
        code, sequence = self.code, self.sequence
        kind = self.field("i64", sequence, CLASS)
        self.is_list = kind == self.word(LIST)
        self.refuse(~self.is_list & (kind != self.word(TUPLE)))
        length, self.item = code.variable("i64"), code.variable("ptr")
        code.choose(self.is_list, lambda: length.set(code.function("PyList_Size", "i64", sequence)),
                    lambda: length.set(code.function("PyTuple_Size", "i64", sequence)))  # fmt: skip
        self.refuse(length.get() == 0)
        self.parts = length.get()

    def array_at(self, i: Value) -> Value:
        """An array, or the tensor that has it."""
        code, sequence, item = self.code, self.sequence, self.item
        code.choose(self.is_list, lambda: item.set(code.function("PyList_GetItem", "ptr", sequence, i)),
                    lambda: item.set(code.function("PyTuple_GetItem", "ptr", sequence, i)))  # fmt: skip
        return item.get()

    def array_of(self, owner: Value) -> Value:
        """The array that a tensor has."""
        return owner if self.of_arrays else self.field("ptr", owner, self.word(PLACES))

    def check_tensor(self, tensor: Value) -> None:
        """Refuse what is no tensor, and one that may require a gradient where one is recorded."""
        code = self.code
        own, (edge, view, base) = self.field("i64", tensor, CLASS), (self.word(PLACES + k) for k in range(1, 4))
        with code.when(own != self.word(ARRAYS)):
            kinds = code.cast(own, "ptr"), code.cast(self.word(ARRAYS), "ptr")
            self.refuse(code.function("PyType_IsSubtype", "i32", *kinds) == 0)
        with code.when(self.recorded[0]):
            self.refuse(self.field("i64", tensor, edge) != self.word(NONE))
            relation = self.field("ptr", tensor, view)
            self.refuse(self.missing(relation))
            with code.when(code.cast(relation, "i64") != self.word(NONE)):
                self.refuse(self.field("i64", self.field("ptr", relation, base), edge) != self.word(NONE))

    def checked(self, owner: Value) -> Value:
        """The array, which is one of NumPy's, of few dimensions unless it is contiguous, and no image that is channels-last."""
        if not self.of_arrays:
            self.check_tensor(owner)
        array = self.array_of(owner)
        self.refuse(self.missing(array))
        self.refuse(self.field("i64", array, CLASS) != self.word(ARRAY))
        with self.code.when(~self.is_contiguous(array)):
            rank, strides = self.field("i32", array, NDIM), self.field("ptr", array, STRIDES)
            self.refuse(rank > MOST_STRIDED)
            with self.code.when((rank == 4) | (rank == 5)):
                last = self.code.load("i64", strides, self.code.cast(rank, "i64") - 1)
                self.refuse(self.code.load("i64", strides, 1) <= last)
        return array

    def is_contiguous(self, array: Value) -> Value:
        """Whether an array is contiguous."""
        return (self.field("i32", array, FLAGS) & CONTIGUOUS) != 0

    def check_dim(self) -> None:
        """Refuse a dimension out of range, and too many."""
        code, axis, ndim, more = self.code, self.axis, self.ndim, self.more
        with code.when(axis.get() < 0):
            axis.add(ndim + more)
        self.d = axis.get()
        self.refuse((self.d < 0) | (self.d >= ndim + more) | (ndim >= MOST_DIMS))

    def check_alike(self, array: Value) -> None:
        """Refuse an array that does not fit to the first one; add its size to `total`."""
        code, ndim, d = self.code, self.ndim, self.d
        self.refuse(
            (self.field("i32", array, NDIM) != code.cast(ndim, "i32"))
            | (self.field("i64", array, DTYPE) != code.cast(self.dtype, "i64"))
        )
        own = self.field("ptr", array, SHAPE)
        with code.loop(0, ndim) as j:
            differs = code.load("i64", own, j) != code.load("i64", self.shape, j)
            self.refuse(differs & ((j != d) | self.new))
        code.choose(self.new, lambda: self.total.add(1), lambda: self.total.add(code.load("i64", own, d)))

    def find_sizes(self) -> None:
        """Store the result's sizes; refuse a large one."""
        code, d, more = self.code, self.d, self.more
        self.result = code.array("i64", MOST_DIMS)
        self.outer, inner = code.variable("i64", 1), code.variable("i64", self.field("i64", self.dtype, ITEM_SIZE))
        with code.loop(0, d) as j:
            n = code.load("i64", self.shape, j)
            self.outer.set(self.outer.get() * n)
            code.store(n, self.result, j)
        code.store(self.total.get(), self.result, d)
        with code.loop(d + 1, self.ndim + more) as j:
            n = code.load("i64", self.shape, j - more)
            inner.set(inner.get() * n)
            code.store(n, self.result, j)
        self.each, self.pitch = inner.get(), self.total.get() * inner.get()
        self.refuse(self.outer.get() * self.pitch > LARGE)

    def new_array(self) -> Value:
        """The result."""
        code, dtype = self.code, self.dtype
        self.call_void("Py_IncRef", dtype)  # the new array's reference
        none, new = code.cast(code.value(0, "i64"), "ptr").name, code.cast(self.word(NEW), "ptr").name
        rank = code.cast(self.ndim + self.more, "i32").name
        kinds = f"ptr {code.cast(self.word(ARRAY), 'ptr').name}, ptr {dtype.name}"
        sizes = f"i32 {rank}, ptr {self.result.name}, ptr {none}, ptr {none}, i32 0, ptr {none}"
        return self.created(f"call ptr {new}({kinds}, {sizes})")

    def copy_all(self, out: Value) -> None:
        """Copy all arrays to the result."""
        code = self.code
        target = code.variable("ptr", self.field("ptr", out, ADDRESS))
        with code.loop(0, self.parts) as i:
            array = self.array_of(self.array_at(i))
            source, size = self.field("ptr", array, ADDRESS), code.variable("i64", self.each)
            with code.when(~self.new):
                size.set(self.each * code.load("i64", self.field("ptr", array, SHAPE), self.d))
            begin, bytes_ = target.get(), size.get()
            code.choose(
                self.is_contiguous(array),
                functools.partial(self.by_width, bytes_, functools.partial(self.copy_pieces, begin, source, bytes_)),
                functools.partial(self.copy_strided, begin, array),
            )
            target.set(code.at("i8", begin, bytes_))

    def copy_pieces(self, begin: Value, source: Value, bytes_: Value, copy: Callable[[Value, Value], None]) -> None:
        """Copy the pieces of an array, each of so many bytes."""
        code = self.code
        with code.loop(0, self.outer.get()) as o:
            copy(code.at("i8", begin, o * self.pitch), code.at("i8", source, o * bytes_))

    def copy_strided(self, begin: Value, array: Value) -> None:
        """Copy an array that is not contiguous, and so has dimensions and elements: rows, in loops over all outer dimensions."""
        code, item = self.code, self.field("i64", self.dtype, ITEM_SIZE)
        shape, strides = self.field("ptr", array, SHAPE), self.field("ptr", array, STRIDES)
        self.store_steps(item)
        last = self.ndim - 1
        length, step, out_step = (code.load("i64", each, last) for each in (shape, strides, self.steps))
        outer = code.maximum(last - 1, 0)  # the dimension of the inner loop, if there are two
        rows = code.select(last > 0, code.load("i64", shape, outer), 1)
        row_step, out_row_step = (code.load("i64", each, outer) for each in (strides, self.steps))
        with code.loop(0, outer) as j:
            code.store(code.value(0, "i64"), self.index, j)
        source, to = code.variable("ptr", self.field("ptr", array, ADDRESS)), code.variable("ptr", begin)

        def each_row(copy: Callable[[Value, Value], None]) -> None:
            with code.loop(0, rows) as r:
                copy(code.at("i8", to.get(), r * out_row_step), code.at("i8", source.get(), r * row_step))

        def each_element(copy: Callable[[Value, Value], None]) -> None:
            def row(to: Value, source: Value) -> None:
                with code.loop(0, length) as i:
                    copy(code.at("i8", to, i * out_step), code.at("i8", source, i * step))

            each_row(row)

        with code.forever() as leave:
            whole = (step == item) & (out_step == item)
            code.choose(
                whole, lambda: self.by_width(length * item, each_row), lambda: self.by_width(item, each_element)
            )
            d = code.variable("i64", outer - 1)
            with code.forever() as found:  # the innermost dimension around these rows that has not ended
                found(d.get() < 0)
                turn, most = code.load("i64", self.index, d.get()) + 1, code.load("i64", shape, d.get())
                ends = turn == most
                code.store(code.select(ends, 0, turn), self.index, d.get())
                for place, steps in ((source, strides), (to, self.steps)):
                    by = code.load("i64", steps, d.get()) * code.select(ends, 1 - most, 1)
                    place.set(code.at("i8", place.get(), by))
                found(~ends)
                d.add(-1)
            leave(d.get() < 0)

    def by_width(self, size: Value, write: Callable[[Callable[[Value, Value], None]], None]) -> None:
        """Write what takes a copy of `size` bytes: by a vector, or by two that overlap, where they are few; else by `memcpy`."""
        code = self.code

        def vectors(width: int, *places: Value) -> Callable[[Value, Value], None]:
            kind = f"i{8 * width}" if width <= 8 else f"<{width} x i8>"

            def copy(to: Value, source: Value) -> None:
                froms = [code.at("i8", source, place).name for place in places]
                values = [code.new(kind, f"load {kind}, ptr {each}, align 1") for each in froms]
                for place, value in zip(places, values, strict=True):
                    code.lines.append(f"  store {kind} {value.name}, ptr {code.at('i8', to, place).name}, align 1")

            return copy

        def choose(width: int) -> None:
            if width > MOST_PAIRED // 2:
                write(lambda to, source: code.copy(to, source, size))
                return
            first = code.value(0, "i64")

            def longer() -> None:
                fits = (size > width) & (size < 2 * width)
                code.choose(fits, lambda: write(vectors(width, first, size - width)), lambda: choose(2 * width))

            code.choose(size == width, lambda: write(vectors(width, first)), longer)

        choose(4)

    def store_steps(self, item: Value) -> None:
        """Store the strides of the result along the dimensions of the arrays."""
        code, inner = self.code, self.code.variable("i64", item)
        whole = self.ndim + self.more
        with code.loop(0, whole) as j:
            back = whole - 1 - j
            own = code.select(self.new & (back > self.d), back - 1, back)
            with code.when(~(self.new & (back == self.d))):
                code.store(inner.get(), self.steps, own)
            inner.set(inner.get() * code.load("i64", self.result, back))
