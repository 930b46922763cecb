"""Small results written into tensors in machine code: in Python, to look at the operands takes longer than to compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._kernels._addresses import ADDRESS
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
from tdt._kernels._code import Value
from tdt._kernels._conditions import LARGE_ARITHMETIC
from tdt._kernels._objects import ObjectCode, words_of

WRITE = "tdt_write"
BASE = STRIDES + 8  # where an array has the address of its base
MOST_OPERANDS, MOST_KEYS, MOST_ARGUMENTS = 4, 24, 16
LARGEST_ELEMENT = 16  # bytes
FUNCTIONS, TARGET, INPUTS, ATTRIBUTES, RECORD, BY_VALUE = range(6)

Write = Callable[[dict, Any, tuple, dict, Any, bool], bool]


def writer(classes: dict[str, type]) -> Write | None:
    """`(functions, target, operands, attributes, record, by_value)`: whether the operands' result is now in `target`.

    Nothing is done, and the function returns False, unless `target` has fewer than LARGE_ARITHMETIC elements, all arrays are
    NumPy's, of one dtype, without gaps, and of its shape or, after `target` itself, broadcast to it, no memory is shared, and
    nothing is recorded. None in its place where it is not known where objects have their attributes.

    Args:
        classes: see `words_of`.
        functions: a `Plan`, whose function takes the operands and the array of `target`, or a tuple of one that takes the
            arrays of tensors and of its numbers: by the dtypes of tensors and the classes of numbers among the operands, each
            followed by the number with `by_value`, and then by name, class and value of all attributes.
        record: as of `compute_into`.
    """
    words = words_of(classes, {})
    return None if words is None else linked_built_in("write", WRITE, _Write, words)


class _Write(ObjectCode):
    """The function that writes.

    Attributes:
        argument: the arguments.
        out: the array of the target; `count`: its elements.
        recorded: whether an operand with a place in the graph is left to Python; `smaller`: whether one is broadcast.
        keys, places: what the key of `functions` consists of, and how much that is.
        values: the operands' arrays and numbers; `n`: how many there are.
    """

    def write(self) -> None:
        code = self.code
        self.argument = [code.load("ptr", self.arguments, k) for k in range(BY_VALUE + 1)]
        target, operands = self.argument[TARGET], self.argument[INPUTS]
        self.refuse(~self.is_tensor(target))
        self.refuse(self.class_of(operands) != self.object("tuple"))
        self.recorded = self.address(self.argument[RECORD]) == self.object("true")
        self.keys, self.values = code.array("i64", MOST_KEYS), code.array("i64", MOST_ARGUMENTS)
        self.places, self.smaller = code.variable("i64", 0), code.variable("i1", code.value(0, "i1"))
        self.check_target(target)
        self.n = code.function("PyTuple_Size", "i64", operands)
        self.refuse((self.n == 0) | (self.n > MOST_OPERANDS))
        with code.loop(0, self.n) as k:
            self.take(k, self.item(operands, k))
        first = self.address(self.item(operands, code.value(0, "i64")))
        self.refuse(self.smaller.get() & (first != self.address(target)))
        self.take_attributes()
        self.call(self.found())
        self.count_write(target)
        self.end(self.owned(self.pointer("true")))

    def check_target(self, target: Value) -> None:
        """Refuse a target that may not be written to here."""
        self.out = self.array_of(target)
        flags = CONTIGUOUS | ALIGNED | WRITEABLE
        self.refuse((self.field("i32", self.out, FLAGS) & flags) != flags)
        self.count = self.elements_of(self.out)
        self.refuse(self.count >= LARGE_ARITHMETIC)
        self.storage = self.slot(target, "tensor._st")
        inference = self.attribute(self.storage, "inference")
        self.call_void("Py_DecRef", inference)  # True, False or DETACHED, which others hold
        usual = self.address(self.argument[RECORD]) != self.object("zero")  # no inference mode
        self.refuse((self.address(inference) != self.object("false")) & usual)
        self.check_graph(target)

    def array_of(self, x: Value) -> Value:
        """A tensor's array; other arrays than NumPy's are refused."""
        array = self.slot(x, "tensor._a")
        self.refuse(self.address(array) == 0)
        self.refuse(self.class_of(array) != self.object("array"))
        return array

    def check_graph(self, x: Value) -> None:
        """Refuse a tensor that may have a place in the graph."""
        with self.code.when(self.recorded):
            self.refuse(self.address(self.slot(x, "tensor._edge")) != self.object("none"))
            view = self.slot(x, "tensor._view")
            with self.code.when(self.address(view) != self.object("none")):
                edge = self.slot(self.slot(view, "view.base"), "tensor._edge")
                self.refuse(self.address(edge) != self.object("none"))

    def rank_of(self, array: Value) -> Value:
        """The number of an array's dimensions."""
        return self.code.cast(self.field("i32", array, NDIM), "i64")

    def elements_of(self, array: Value) -> Value:
        """The number of an array's elements."""
        code, lengths, count = self.code, self.field("ptr", array, SHAPE), self.code.variable("i64", 1)
        with code.loop(0, self.rank_of(array)) as j:
            count.set(count.get() * code.load("i64", lengths, j))
        return count.get()

    def take(self, k: Value, x: Value) -> None:
        """Note an operand's array, or number, and its part of the key."""
        code, value = self.code, self.code.variable("ptr", x)

        def of_tensor() -> None:
            array = self.array_of(x)
            with code.when(self.address(x) != self.address(self.argument[TARGET])):
                self.check_operand(x, array)
            value.set(array)
            self.add_key(self.field("i64", array, DTYPE))

        def of_number() -> None:
            self.add_number(x, self.address(self.argument[BY_VALUE]) == self.object("true"))

        code.choose(self.is_tensor(x), of_tensor, of_number)
        code.store(self.address(value.get()), self.values, k)

    def check_operand(self, x: Value, array: Value) -> None:
        """Refuse other dtypes than the target's, gaps, shared memory, shapes that are not broadcast, and places in the graph."""
        code, out = self.code, self.out
        self.refuse(self.field("i64", array, DTYPE) != self.field("i64", out, DTYPE))
        self.refuse((self.field("i32", array, FLAGS) & (CONTIGUOUS | ALIGNED)) != (CONTIGUOUS | ALIGNED))
        self.refuse(self.address(self.slot(x, "tensor._st")) == self.address(self.storage))
        rank = self.rank_of(array)
        extra = self.rank_of(out) - rank
        self.refuse(extra < 0)
        own, whole = self.field("ptr", array, SHAPE), self.field("ptr", out, SHAPE)
        with code.loop(0, rank) as d:
            size, full = code.load("i64", own, d), code.load("i64", whole, d + extra)
            self.refuse((size != full) & (size != 1))
            self.smaller.set(self.smaller.get() | (size != full))
        self.smaller.set(self.smaller.get() | (extra > 0))
        are_parts = (self.field("i64", array, BASE) | self.field("i64", out, BASE)) != 0
        with code.when(are_parts):
            start, first = self.field("i64", array, ADDRESS), self.field("i64", out, ADDRESS)
            stop = start + self.elements_of(array) * LARGEST_ELEMENT
            self.refuse((start < first + self.count * LARGEST_ELEMENT) & (first < stop))
        self.check_graph(x)

    def add_number(self, x: Value, by_value: Value) -> None:
        """Add a number's class to the key, and the number; None is one. Refused: zeros, which are equal, integers of more than 64
        bits, and other objects."""
        kind = self.class_of(x)
        is_float, is_int = kind == self.object("float"), kind == self.object("int")
        self.refuse(~(is_float | is_int) & (self.address(x) != self.object("none")))
        with self.code.when(is_int):
            self.refuse_large(x)
        self.add_key(kind)
        with self.code.when(by_value):
            self.refuse_zero(x, is_float)
            self.add_key(self.address(x))

    def refuse_zero(self, x: Value, is_float: Value) -> None:
        """Refuse 0.0 and -0.0."""
        with self.code.when(is_float):
            self.refuse(self.code.function("PyFloat_AsDouble", "double", x) == 0.0)

    def refuse_large(self, x: Value) -> None:
        """Refuse an integer of more than 64 bits."""
        above = self.code.array("i32", 1)
        self.code.function("PyLong_AsLongLongAndOverflow", "i64", x, above)
        self.refuse(self.code.load("i32", above) != 0)

    def add_key(self, word: Value) -> None:
        """Add the address of an object to the key."""
        self.refuse(self.places.get() >= MOST_KEYS)
        self.code.store(word, self.keys, self.places.get())
        self.places.add(1)

    def take_attributes(self) -> None:
        """Add all attributes to the key."""
        code, attributes = self.code, self.argument[ATTRIBUTES]
        place, name, value = (code.array("i64", 1) for _ in range(3))
        code.store(code.value(0, "i64"), place)
        with code.loop(0, code.function("PyDict_Size", "i64", attributes)):
            code.function("PyDict_Next", "i32", attributes, place, name, value)
            found = code.load("ptr", value)
            self.refuse_zero(found, self.class_of(found) == self.object("float"))
            for word in (code.load("i64", name), self.class_of(found), self.address(found)):
                self.add_key(word)

    def found(self) -> Value:
        """What the functions have for the key."""
        code = self.code
        key = self.created_by("PyTuple_New", self.places.get())
        with code.loop(0, self.places.get()) as k:
            each = code.cast(code.load("i64", self.keys, k), "ptr")
            code.function("PyTuple_SetItem", "i32", key, k, self.owned(each))
        found = code.function("PyDict_GetItem", "ptr", self.argument[FUNCTIONS], key)
        self.call_void("Py_DecRef", key)
        self.refuse(self.address(found) == 0)
        return found

    def call(self, found: Value) -> None:
        """Call the function of a plan, or that of a tuple; Python's error is its own."""
        code = self.code
        function, count = code.variable("ptr", found), code.variable("i64", self.n)

        def of_tuple() -> None:
            function.set(self.item(found, code.value(0, "i64")))
            count.set(0)
            with code.loop(0, self.n) as k:
                value = code.load("i64", self.values, k)
                with code.when(self.class_of(code.cast(value, "ptr")) == self.object("array")):
                    code.store(value, self.values, count.get())
                    count.add(1)
            with code.loop(1, code.function("PyTuple_Size", "i64", found)) as k:
                code.store(self.address(self.item(found, k)), self.values, count.get())
                count.add(1)

        is_tuple = self.class_of(found) == self.object("tuple")
        code.choose(is_tuple, of_tuple, lambda: function.set(self.slot(found, "plan.function")))
        code.store(self.address(self.out), self.values, count.get())
        none = code.cast(code.value(0, "i64"), "ptr")
        owned = self.owned(found), self.owned(function.get())  # other threads may drop them meanwhile
        result = code.function("PyObject_Vectorcall", "ptr", function.get(), self.values, count.get() + 1, none)
        for each in owned:
            self.call_void("Py_DecRef", each)
        with code.when(self.address(result) == 0):
            self.leave(result)
        self.call_void("Py_DecRef", result)

    def count_write(self, target: Value) -> None:
        """Count the write to the target's memory."""
        code, storage = self.code, self.slot(target, "tensor._st")
        version = self.attribute(storage, "version")
        number = code.function("PyLong_AsLongLong", "i64", version) + 1
        self.call_void("Py_DecRef", version)
        following = self.created_by("PyLong_FromLongLong", number)
        code.function("PyObject_SetAttr", "i32", storage, self.pointer("version"), following)
        self.call_void("Py_DecRef", following)

    def refuse(self, test: Value) -> None:
        """Return False where a test holds."""
        with self.code.when(test):
            self.leave(self.owned(self.pointer("false")))
