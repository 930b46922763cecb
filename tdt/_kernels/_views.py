"""Views of small calls: arrays expanded without NumPy's `broadcast_to`, and the tensors around views, filled in one call.

To fill the slots of a tensor and of its View takes Python as long as NumPy takes for the view.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import CLASS, NEW_FROM_DTYPE, array_function
from tdt._kernels._builtin_code import DTYPE, FLAGS, NDIM, SHAPE, STRIDES, BuiltIn, linked_built_in
from tdt._kernels._code import Value
from tdt._kernels._references import place_of

EXPAND, WRAP, WRAP_ANY = "tdt_expand", "tdt_wrap_view", "tdt_wrap_any_view"
BASE = STRIDES + 8  # where an array has the address of its base
SET_BASE = 282  # the place of `PyArray_SetBaseObject` in NumPy's C API
WRITABLE = 0x400  # NumPy's flag
MOST_DIMS = 32
VERSION, EMPTY = sys.intern("version"), ""
# Words of `self`, of both functions; of `view_wrapper`: objects, where tensors have their attributes, where Views have them.
ARRAY, NONE, TUPLE, NEW, SET = range(5)
TENSOR, VIEW, NAME, ROOT = range(2, 6)
A, STORAGE, EDGE, RELATION, GRAD = range(6, 11)
BASE_TENSOR, SOURCE, STEP, AT, META, BASE_ARRAY = range(11, 17)
TENSOR_SLOTS = ("_a", "_st", "_edge", "_view", "_grad")
VIEW_SLOTS = ("base", "source", "step", "version", "creation_meta", "base_array")


@functools.cache
def expand() -> Callable[[Any, Any], np.ndarray | None]:
    """`(array, shape)`: the view of an array with dimensions of size 1 repeated; None unless the shape is a tuple that fits."""
    words = [*map(id, (np.ndarray, None, tuple)), array_function(NEW_FROM_DTYPE), array_function(SET_BASE)]
    return linked_built_in("expand", EXPAND, _Expand, words)


@functools.cache
def view_wrapper(kind: type, view: type, of: type = np.ndarray) -> Callable[[Any, Any, tuple, str | None], Any] | None:
    """`(x, array, step, creation_meta)`: the tensor around an array that is a view of x's; see `tdt._core.tensor.View`.

    It returns None for an array of another memory, and for empty ones. None, too, where it is not known where tensors of this
    class and their Views have their attributes.

    Args:
        creation_meta: of the call; None for that of `x`.
        of: the class of arrays. Those of another one than NumPy's must be views, and not empty: it returns None for no others.
    """
    places = [*[place_of(kind, name) for name in TENSOR_SLOTS], *[place_of(view, name) for name in VIEW_SLOTS]]
    if None in places:
        return None
    words = [*map(id, (of, None, kind, view, VERSION, EMPTY)), *places]
    if of is not np.ndarray:
        return linked_built_in("wrapped-view-of-any", WRAP_ANY, _WrapperOfAny, words)
    return linked_built_in("wrapped-view", WRAP, _Wrapper, words)


class _OfArray(BuiltIn):
    """A function that returns None for what it does not take."""

    def object_at(self, place: int) -> Value:
        """An object whose address is a word of `self`; with place < 0, the address 0."""
        return self.code.cast(self.word(place) if place >= 0 else self.code.value(0, "i64"), "ptr")

    def number(self, value: Value) -> Value:
        """An object's address."""
        return self.code.cast(value, "i64")

    def refuse(self, test: Value) -> None:
        """Return None where a test holds."""
        with self.code.when(test):
            none = self.object_at(NONE)
            self.call_void("Py_IncRef", none)
            self.leave(none)

    def fail(self, test: Value, *owned: Value) -> None:
        """Raise Python's error where a test holds, and give up references."""
        with self.code.when(test):
            for each in owned:
                self.call_void("Py_DecRef", each)
            self.leave(self.object_at(-1))


class _Expand(_OfArray):
    """The function that expands an array."""

    def write(self) -> None:
        code = self.code
        array, target = (code.load("ptr", self.arguments, k) for k in range(2))
        self.refuse(self.field("i64", array, CLASS) != self.word(ARRAY))
        self.refuse(self.field("i64", target, CLASS) != self.word(TUPLE))
        count = code.function("PyTuple_Size", "i64", target)
        extra = count - code.cast(self.field("i32", array, NDIM), "i64")
        self.refuse((extra < 0) | (count > MOST_DIMS))
        sizes, steps = (code.array("i64", MOST_DIMS) for _ in range(2))
        shape, strides = (self.field("ptr", array, place) for place in (SHAPE, STRIDES))
        with code.loop(0, count) as d:
            size = code.function("PyLong_AsLongLong", "i64", code.function("PyTuple_GetItem", "ptr", target, d))
            with code.when(size < 0):
                self.fail(self.number(code.function("PyErr_Occurred", "ptr")) != 0)
            self.refuse(size < 0)
            step = code.variable("i64", 0)
            with code.when(d >= extra):
                old = code.load("i64", shape, d - extra)
                self.refuse((old != 1) & (old != size))
                step.set(code.select(old == size, code.load("i64", strides, d - extra), 0))
            code.store(size, sizes, d)
            code.store(step.get(), steps, d)
        self.end(self.new_view(array, count, sizes, steps))

    def new_view(self, array: Value, count: Value, sizes: Value, steps: Value) -> Value:
        """The array of these sizes and strides on the memory of another one."""
        code = self.code
        dtype, data = self.field("ptr", array, DTYPE), self.field("ptr", array, ADDRESS)
        flags = self.field("i32", array, FLAGS) & WRITABLE
        self.call_void("Py_IncRef", dtype)  # the new array's reference
        count, nothing = code.cast(count, "i32"), self.object_at(-1)
        values = (self.object_at(ARRAY), dtype, count, sizes, steps, data, flags, nothing)
        arguments = ", ".join(f"{p.kind} {p.name}" for p in values)
        out = code.new("ptr", f"call ptr {self.object_at(NEW).name}({arguments})")
        self.fail(self.number(out) == 0)
        self.call_void("Py_IncRef", array)  # the base's, also where this fails
        text = f"call i32 {self.object_at(SET).name}(ptr {out.name}, ptr {array.name})"
        self.fail(code.new("i32", text) != 0, out)
        return out


class _Wrapper(_OfArray):
    """The function that wraps a view.

    Attributes:
        x, array, step, meta: its arguments; `a`: the array of `x`.
    """

    a: Value

    def __init__(self) -> None:
        super().__init__()
        self.x, self.array, self.step, self.meta = (self.code.load("ptr", self.arguments, k) for k in range(4))

    def write(self) -> None:
        code, x = self.code, self.x
        self.check_tensor()
        self.check_memory()
        storage, source = self.field("ptr", x, self.word(STORAGE)), self.field("ptr", x, self.word(RELATION))
        version = code.function("PyObject_GetAttr", "ptr", storage, self.object_at(NAME))
        self.fail(self.number(version) == 0)
        view = code.function("PyType_GenericAlloc", "ptr", self.object_at(VIEW), code.value(0, "i64"))
        self.fail(self.number(view) == 0, version)
        out = code.function("PyType_GenericAlloc", "ptr", self.object_at(TENSOR), code.value(0, "i64"))
        self.fail(self.number(out) == 0, version, view)
        base, base_array, inherited = (code.variable("ptr", v) for v in (x, self.a, self.object_at(ROOT)))
        with code.when(self.number(source) != self.word(NONE)):
            for variable, place in ((base, BASE_TENSOR), (base_array, BASE_ARRAY), (inherited, META)):
                variable.set(self.field("ptr", source, self.word(place)))
        with code.when(self.number(self.meta) != self.word(NONE)):
            inherited.set(self.meta)
        none = self.object_at(NONE)
        filled = (
            (view, BASE_TENSOR, base.get()), (view, BASE_ARRAY, base_array.get()), (view, META, inherited.get()),
            (view, SOURCE, source), (view, STEP, self.step), (view, AT, version), (out, RELATION, view),
            (out, A, self.array), (out, STORAGE, storage), (out, EDGE, none), (out, GRAD, none),
        )  # fmt: skip
        for owner, place, value in filled:
            if value is not version and value is not view:  # of which this function has references
                self.call_void("Py_IncRef", value)
            code.store(value, code.at("i8", owner, self.word(place)))
        self.end(out)

    def check_tensor(self) -> None:
        """Refuse what is no tensor."""
        own = self.field("ptr", self.x, CLASS)
        with self.code.when(self.number(own) != self.word(TENSOR)):
            self.refuse(self.code.function("PyType_IsSubtype", "i32", own, self.object_at(TENSOR)) == 0)
        self.a = self.field("ptr", self.x, self.word(A))
        self.refuse(self.number(self.a) == 0)

    def check_memory(self) -> None:
        """Refuse an array of another memory than the tensor's, and empty ones."""
        code, a, array = self.code, self.a, self.array
        for each in (a, array):
            self.refuse(self.field("i64", each, CLASS) != self.word(ARRAY))
        memory = self.field("i64", array, BASE)
        owns = (memory == self.number(a)) | (self.number(array) == self.number(a))
        refused = code.variable("i1", ~(owns | ((memory != 0) & (memory == self.field("i64", a, BASE)))))
        shape = self.field("ptr", a, SHAPE)
        with code.loop(0, code.cast(self.field("i32", a, NDIM), "i64")) as d:
            refused.set(refused.get() | (code.load("i64", shape, d) == 0))
        self.refuse(refused.get())


class _WrapperOfAny(_Wrapper):
    """The function that wraps a view, of whose memory it knows nothing."""

    def check_memory(self) -> None:
        for each in (self.a, self.array):
            self.refuse(self.field("i64", each, CLASS) != self.word(ARRAY))
