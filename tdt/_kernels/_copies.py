"""Copies of the same arrays at each call, without Python between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import NEW_FROM_DTYPE, array_function
from tdt._kernels._builtin_code import DTYPE, NDIM, SHAPE, BuiltIn, linked_built_in
from tdt._kernels._code import Value

COPY = "tdt_copy"
CLASS_OF_ARRAYS, NEW, COUNT, ARRAYS = range(4)  # words of `self`; of each array, its address and how many bytes it has


def copier(arrays: Sequence[np.ndarray]) -> Callable[[], tuple[np.ndarray, ...]]:
    """A built-in function that returns copies of C-contiguous arrays, which its caller keeps while it is used."""
    words = [id(np.ndarray), array_function(NEW_FROM_DTYPE), len(arrays)]
    for a in arrays:
        words += id(a), a.nbytes
    return linked_built_in("copies", COPY, _Copy, words)


class _Copy(BuiltIn):
    """The function that copies arrays."""

    def write(self) -> None:
        code = self.code
        self.results = code.function("PyTuple_New", "ptr", self.word(COUNT))
        self.check(self.results)
        with code.loop(0, self.word(COUNT)) as k:
            array = code.cast(self.word(2 * k + ARRAYS), "ptr")
            copied = self.new_like(array)
            self.check(copied)
            target, source = (self.field("ptr", a, ADDRESS) for a in (copied, array))
            code.copy(target, source, self.word(2 * k + ARRAYS + 1))
            code.function("PyTuple_SetItem", "i32", self.results, k, copied)
        self.end(self.results)

    def new_like(self, array: Value) -> Value:
        """A new array of the shape and dtype of another one, in C order."""
        code = self.code
        dtype, null = self.field("ptr", array, DTYPE), code.cast(code.value(0, "i64"), "ptr")
        self.call_void("Py_IncRef", dtype)  # the new array's reference
        kinds = code.cast(self.word(CLASS_OF_ARRAYS), "ptr"), dtype, self.field("i32", array, NDIM)
        arguments = *kinds, self.field("ptr", array, SHAPE), null, null, code.value(0, "i32"), null
        new = code.cast(self.word(NEW), "ptr").name
        return code.new("ptr", f"call ptr {new}({', '.join(f'{a.kind} {a.name}' for a in arguments)})")

    def check(self, created: Value) -> None:
        """Where there is no memory, return with Python's error."""
        code = self.code
        with code.when(code.cast(created, "i64") == 0):
            self.call_void("Py_DecRef", self.results)  # which takes null, too
            self.leave(code.cast(code.value(0, "i64"), "ptr"))
