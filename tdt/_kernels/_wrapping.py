"""Tensors around arrays, created in machine code: in Python each takes as long as the copy of a small array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tdt._kernels._builtin_code import BuiltIn, linked_built_in
from tdt._kernels._code import Value
from tdt._kernels._references import place_of

WRAP = "tdt_wrap"
# Words of `self`: both classes, None; where a tensor has its array, its storage and its gradient, how many other slots there
# are; of how many tensors gradients are set; where the other slots are, and which tensors these are.
KIND, STORAGE, NONE, ARRAY_AT, STORAGE_AT, GRAD_AT, COUNT, GRADIENTS, PLACES = range(9)


def wrapper(
    kind: type, storage: type, slots: Sequence[str], gradients: Sequence[int]
) -> Callable[[tuple, tuple], list] | None:
    """A built-in function: `(arrays, tensors)` returns an object of `kind` around each array but the last ones.

    Those become gradients of tensors instead, whose places are `gradients`. None where slots have no known place.

    Args:
        storage: the class of which each object gets a new one.
        slots: of the array, the storage and the gradient, and the others. All but the first two are None.
    """
    places = [place_of(kind, name) for name in slots]
    if None in places:
        return None
    words: list[Any] = [
        id(kind),
        id(storage),
        id(None),
        *places[:3],
        len(places) - 2,
        len(gradients),
        *places[2:],
        *gradients,
    ]
    return linked_built_in("wrapping", WRAP, _Wrap, words)


class _Wrap(BuiltIn):
    """The function that creates the objects."""

    def write(self) -> None:
        code = self.code
        arrays, roots = code.load("ptr", self.arguments), code.load("ptr", self.arguments, 1)
        count = code.function("PyTuple_Size", "i64", arrays) - self.word(GRADIENTS)
        self.results = code.function("PyList_New", "ptr", count)
        self.check(self.results)
        with code.loop(0, count) as k:
            code.function("PyList_SetItem", "i32", self.results, k, self.wrapped(arrays, k))
        with code.loop(0, self.word(GRADIENTS)) as k:
            wrapped = self.wrapped(arrays, count + k)
            root = code.function("PyTuple_GetItem", "ptr", roots, self.word(self.word(COUNT) + k + PLACES))
            self.check(root)
            slot = code.at("i8", root, self.word(GRAD_AT))
            before = code.load("ptr", slot)
            code.store(wrapped, slot)
            self.call_void("Py_DecRef", before)
        self.end(self.results)

    def wrapped(self, arrays: Value, k: Value) -> Value:
        """An object around an array of a tuple."""
        code, none = self.code, self.code.cast(self.word(NONE), "ptr")
        wrapped, own = self.new(KIND), self.new(STORAGE)
        array = code.function("PyTuple_GetItem", "ptr", arrays, k)
        self.call_void("Py_IncRef", array)
        code.store(array, code.at("i8", wrapped, self.word(ARRAY_AT)))
        code.store(own, code.at("i8", wrapped, self.word(STORAGE_AT)))
        with code.loop(0, self.word(COUNT)) as other:
            self.call_void("Py_IncRef", none)
            code.store(none, code.at("i8", wrapped, self.word(other + PLACES)))
        return wrapped

    def new(self, kind: int) -> Value:
        """An object without values, of a class."""
        code = self.code
        created = code.function("PyType_GenericAlloc", "ptr", code.cast(self.word(kind), "ptr"), code.value(0, "i64"))
        self.check(created)
        return created

    def check(self, found: Value) -> None:
        """Where there is no memory, or an argument is of another class, return with Python's error."""
        code = self.code
        with code.when(code.cast(found, "i64") == 0):
            self.call_void("Py_DecRef", self.results)  # which takes null, too
            self.leave(code.cast(code.value(0, "i64"), "ptr"))
