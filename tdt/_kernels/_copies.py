"""Copies of the same arrays at each call, without Python between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tdt._kernels._builtin import array_function
from tdt._kernels._builtin_code import BuiltIn, linked_built_in
from tdt._kernels._code import Value

COPY = "tdt_copy"
NEW_COPY = 85  # the place of `PyArray_NewCopy` in NumPy's C API
NEW, COUNT, ARRAYS = range(3)  # words of `self`


def copier(arrays: Sequence[np.ndarray]) -> Callable[[], tuple[np.ndarray, ...]]:
    """A built-in function that returns C-contiguous copies of arrays, which its caller keeps while it is used."""
    return linked_built_in("copies", COPY, _Copy, [array_function(NEW_COPY), len(arrays), *map(id, arrays)])


class _Copy(BuiltIn):
    """The function that copies arrays."""

    def write(self) -> None:
        code = self.code
        new, c_order = code.cast(self.word(NEW), "ptr"), code.value(0, "i32")
        self.results = code.function("PyTuple_New", "ptr", self.word(COUNT))
        self.check(self.results)
        with code.loop(0, self.word(COUNT)) as k:
            array = code.cast(self.word(k + ARRAYS), "ptr")
            copied = code.new("ptr", f"call ptr {new.name}(ptr {array.name}, i32 {c_order.name})")
            self.check(copied)
            code.function("PyTuple_SetItem", "i32", self.results, k, copied)
        self.end(self.results)

    def check(self, created: Value) -> None:
        """Where there is no memory, return with Python's error."""
        code = self.code
        with code.when(code.cast(created, "i64") == 0):
            self.call_void("Py_DecRef", self.results)  # which takes null, too
            self.leave(code.cast(code.value(0, "i64"), "ptr"))
