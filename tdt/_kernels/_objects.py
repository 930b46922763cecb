"""Machine code that reads and creates tensors, nodes of the graph and what belongs to them, by the places of their attributes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tdt._kernels._builtin import CLASS
from tdt._kernels._builtin_code import BuiltIn
from tdt._kernels._code import Value
from tdt._kernels._references import place_of

# Attributes whose places in objects are words of `self`, by the name of the class.
SLOTS = {
    "tensor": ("_a", "_st", "_edge", "_view", "_grad"),
    "view": ("base", "version"),
    "plan": ("backward_plans", "by_rank", "direct", "function"),
    "backward_plan": ("keep_operands", "keep_outputs", "has_rule", "dtypes", "multiple_outputs", "broadcasts", "needs_shapes",
                      "needs_dtypes"),
    "node": ("backward_plan", "edges", "saved", "shapes", "dtypes", "attributes", "aux", "number", "hooks", "outs", "call"),
}  # fmt: skip
OBJECTS = {"array": np.ndarray, "none": None, "true": True, "false": False, "zero": 0, "tuple": tuple, "numpy": np,
           "float": float, "int": int}  # fmt: skip
STRINGS = {name: sys.intern(name) for name in ("version", "inference", "shape", "dtype")}
PASSED = ("tensor", "storage", "node", "leaf", "numbers", "otherwise")
WORDS = [*OBJECTS, *STRINGS, *PASSED, *(f"{owner}.{name}" for owner, names in SLOTS.items() for name in names)]
PLACES = {name: place for place, name in enumerate(WORDS)}
EQUAL = 2  # Python's `Py_EQ`
_alive: list[Any] = []  # whose addresses are in the bytes of built-in functions


def words_of(classes: dict[str, type], passed: dict[str, Any]) -> list[int] | None:
    """The words of `self`; None where it is not known where objects of the classes have their attributes.

    Args:
        classes: those in `SLOTS`, and of storages.
        passed: further objects of `PASSED`, as far as the function needs them.
    """
    places = [place_of(classes[owner], name) for owner, names in SLOTS.items() for name in names]
    if None in places:
        return None
    found = {**classes, **passed}
    _alive.append(found)
    return [*map(id, (*OBJECTS.values(), *STRINGS.values(), *map(found.get, PASSED))), *places]


class ObjectCode(BuiltIn):
    """A function whose words are those of `words_of`. What it creates, and `owned`, is a reference that something has to take."""

    def object(self, name: str) -> Value:
        """The word that `WORDS` names."""
        return self.word(PLACES[name])

    def pointer(self, name: str) -> Value:
        """The object that `WORDS` names."""
        return self.code.cast(self.object(name), "ptr")

    def none(self) -> Value:
        """None."""
        return self.pointer("none")

    def address(self, value: Value) -> Value:
        """An object's address."""
        return self.code.cast(value, "i64")

    def class_of(self, value: Value) -> Value:
        """The address of an object's class."""
        return self.field("i64", value, CLASS)

    def is_tensor(self, value: Value) -> Value:
        """Whether an object is a tensor, of a subclass too."""
        code, found = self.code, self.code.variable("i1", self.class_of(value) == self.object("tensor"))
        with code.when(~found.get()):
            kind = code.cast(self.class_of(value), "ptr")
            found.set(code.function("PyType_IsSubtype", "i32", kind, self.pointer("tensor")) != 0)
        return found.get()

    def slot(self, owner: Value, name: str) -> Value:
        """An attribute of an object of ours."""
        return self.field("ptr", owner, self.object(name))

    def holds(self, owner: Value, name: str) -> Value:
        """Whether such an attribute is True."""
        return self.address(self.slot(owner, name)) == self.object("true")

    def is_outdated(self, x: Value, view: Value) -> Value:
        """Whether the memory of a tensor, a view, was written to since the View was up to date."""
        version = self.attribute(self.slot(x, "tensor._st"), "version")
        known, how = self.slot(view, "view.version"), self.code.value(EQUAL, "i32")
        same = self.code.function("PyObject_RichCompareBool", "i32", version, known, how)
        self.call_void("Py_DecRef", version)
        return same != 1

    def fill(self, owner: Value, name: str, value: Value) -> None:
        """Set such an attribute of a new object."""
        self.code.store(value, self.code.at("i8", owner, self.object(name)))

    def item(self, values: Value, k: Value) -> Value:
        """An item of a tuple."""
        return self.code.function("PyTuple_GetItem", "ptr", values, k)

    def attribute(self, owner: Value, name: str) -> Value:
        """An attribute of an object, owned."""
        return self.created_by("PyObject_GetAttr", owner, self.pointer(name))

    def owned(self, value: Value) -> Value:
        """An object with one more reference."""
        self.call_void("Py_IncRef", value)
        return value

    def untracked(self, container: Value) -> Value:
        """A container that leads to arrays and numbers alone, so to no cycle: the garbage collector need not look at it."""
        self.call_void("PyObject_GC_UnTrack", container)
        return container

    def new(self, kind: str) -> Value:
        """An object of a class, without attributes."""
        return self.created_by("PyType_GenericAlloc", self.pointer(kind), self.code.value(0, "i64"))

    def created_by(self, name: str, *args: Value) -> Value:
        """What a function of Python's creates. Without memory for it, the function returns with Python's error."""
        found = self.code.function(name, "ptr", *args)
        with self.code.when(self.address(found) == 0):
            self.leave(found)
        return found

    def tuple_of(self, *values: Value) -> Value:
        """A tuple that takes the objects."""
        code = self.code
        found = self.created_by("PyTuple_New", code.value(len(values), "i64"))
        for k, value in enumerate(values):
            code.function("PyTuple_SetItem", "i32", found, code.value(k, "i64"), value)
        return found
