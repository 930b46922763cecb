"""Copies of the same arrays at each call, without Python between them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._builtin import array_function, created
from tdt._kernels._code import Code, Value, built_in
from tdt._kernels._native import linked

COPY = "tdt_copy"
NEW_COPY = 85  # the place of `PyArray_NewCopy` in NumPy's C API
NEW, COUNT, ARRAYS = range(3)  # words of `self`


def copier(arrays: Sequence[np.ndarray]) -> Callable[[], tuple[np.ndarray, ...]]:
    """A built-in function that returns C-contiguous copies of arrays, which its caller keeps while it is used."""
    [function] = linked("copies", [COPY], lambda: built_in(COPY, _write), optimize=True, vectorize=False)
    words = array_function(NEW_COPY), len(arrays), *map(id, arrays)
    return created(COPY, function, struct.pack(f"={len(words)}q", *words))


def _write(code: Code, word: Callable[[Any], Value], arguments: Value, count: Value, names: Value) -> None:
    new, c_order = code.cast(word(NEW), "ptr"), code.value(0, "i32")
    results = code.function("PyTuple_New", "ptr", word(COUNT))

    def check(created: Value) -> None:
        """Where there is no memory, return with Python's error."""
        with code.when(code.cast(created, "i64") == 0):
            code.declared.add("declare void @Py_DecRef(ptr)")  # which takes null, too
            code.lines.append(f"  call void @Py_DecRef(ptr {results.name})")
            code.lines.append("  ret ptr null")
            code.place(code.label())

    check(results)
    with code.loop(0, word(COUNT)) as k:
        array = code.cast(word(k + ARRAYS), "ptr")
        copied = code.new("ptr", f"call ptr {new.name}(ptr {array.name}, i32 {c_order.name})")
        check(copied)
        code.function("PyTuple_SetItem", "i32", results, k, copied)
    code.lines.append(f"  ret ptr {results.name}")
