"""NumPy's arrays at multiples of 64 bytes in memory, where the C library puts them at multiples of 16.

A vector of AVX-512 fills a line of the cache. If an array begins within a line, each of its vectors lies in two lines, and
NumPy's sums and products of arrays in the cache take twice as long.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._kernels._addresses import c_function

FUNCTIONS = ("tdt_allocate", "tdt_clear", "tdt_change", "tdt_free")
SET_HANDLER = 304  # the place of `PyDataMem_SetHandler` in the table of functions that NumPy's C API fixes
LARGE, HUGE_PAGES = 1 << 22, 14  # bytes from which NumPy asks for huge pages, by Linux's MADV_HUGEPAGE

_CORE: Any = np._core  # type: ignore[attr-defined]


class _Allocator(ctypes.Structure):
    """NumPy's `PyDataMemAllocator`."""

    _fields_ = [("context", ctypes.c_void_p), *[(name, ctypes.c_void_p) for name in FUNCTIONS]]


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


def default_allocator() -> bool:
    """Whether this thread's arrays lie where NumPy's own allocator puts them, under Linux, and can be aligned."""
    return sys.platform.startswith("linux") and _CORE.multiarray.get_handler_name() == "default_allocator"


def align_arrays(addresses: Sequence[int]) -> None:
    """Let NumPy place the arrays that this thread makes from now on at multiples of 64 bytes.

    Args:
        addresses: of the machine code of `FUNCTIONS`.
    """
    c_function(_CORE._multiarray_umath._ARRAY_API, SET_HANDLER, ctypes.py_object)(_handler(*addresses))


@functools.cache
def _handler(*addresses: int) -> Any:
    """NumPy's object for an allocator."""
    handler, name = saved = _Handler(b"tdt_aligned", 1, _Allocator(None, *addresses)), b"mem_handler"
    # Neither is ever freed: the interpreter frees the last arrays after it has cleared its modules.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(saved))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return capsule(ctypes.addressof(handler), name, None)


# The C library's functions, and those of a block: where its array begins, from there the block, and huge pages for large ones.
BLOCKS = f"""
declare ptr @malloc(i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare ptr @memmove(ptr, ptr, i64)
declare i32 @madvise(ptr, i64, i32)

define internal ptr @placed(ptr %block) {{
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %some
some:
  %from = ptrtoint ptr %block to i64
  %behind = add i64 %from, 64
  %aligned = and i64 %behind, -64
  %array = inttoptr i64 %aligned to ptr
  %head = getelementptr i64, ptr %array, i64 -1
  store i64 %from, ptr %head
  br label %end
end:
  %result = phi ptr [ null, %0 ], [ %array, %some ]
  ret ptr %result
}}

define internal ptr @block_of(ptr %array) {{
  %head = getelementptr i64, ptr %array, i64 -1
  %block = load ptr, ptr %head
  ret ptr %block
}}

define internal void @advise(ptr %block, i64 %size) {{
  %small = icmp ult i64 %size, {LARGE}
  %none = icmp eq ptr %block, null
  %skip = or i1 %small, %none
  br i1 %skip, label %end, label %ask
ask:
  %from = ptrtoint ptr %block to i64
  %behind = add i64 %from, 4095
  %page = and i64 %behind, -4096
  %start = inttoptr i64 %page to ptr
  %lost = sub i64 %page, %from
  %bytes = sub i64 %size, %lost
  %ignored = call i32 @madvise(ptr %start, i64 %bytes, i32 {HUGE_PAGES})
  br label %end
end:
  ret void
}}
"""
# What NumPy calls: an allocator's malloc, calloc, realloc and free.
ALLOCATOR = """
define ptr @tdt_allocate(ptr %context, i64 %size) {
  %bytes = add i64 %size, 64
  %block = call ptr @malloc(i64 %bytes)
  call void @advise(ptr %block, i64 %size)
  %array = call ptr @placed(ptr %block)
  ret ptr %array
}

define ptr @tdt_clear(ptr %context, i64 %count, i64 %each) {
  %size = mul i64 %count, %each
  %bytes = add i64 %size, 64
  %block = call ptr @calloc(i64 1, i64 %bytes)
  call void @advise(ptr %block, i64 %size)
  %array = call ptr @placed(ptr %block)
  ret ptr %array
}

define ptr @tdt_change(ptr %context, ptr %before, i64 %size) {
  %bytes = add i64 %size, 64
  %fresh = icmp eq ptr %before, null
  br i1 %fresh, label %new, label %old
new:
  %first = call ptr @malloc(i64 %bytes)
  %placed = call ptr @placed(ptr %first)
  ret ptr %placed
old:
  %from = call ptr @block_of(ptr %before)
  %from.number = ptrtoint ptr %from to i64
  %before.number = ptrtoint ptr %before to i64
  %distance = sub i64 %before.number, %from.number
  %block = call ptr @realloc(ptr %from, i64 %bytes)
  %none = icmp eq ptr %block, null
  br i1 %none, label %failed, label %move
move:
  %values = getelementptr i8, ptr %block, i64 %distance
  %number = ptrtoint ptr %block to i64
  %behind = add i64 %number, 64
  %aligned = and i64 %behind, -64
  %place = inttoptr i64 %aligned to ptr
  %ignored = call ptr @memmove(ptr %place, ptr %values, i64 %size)
  %array = call ptr @placed(ptr %block)
  ret ptr %array
failed:
  ret ptr null
}

define void @tdt_free(ptr %context, ptr %array, i64 %size) {
  %none = icmp eq ptr %array, null
  br i1 %none, label %end, label %some
some:
  %block = call ptr @block_of(ptr %array)
  call void @free(ptr %block)
  br label %end
end:
  ret void
}
"""


def code(triple: str) -> str:
    """The IR of `FUNCTIONS`. A block is 64 bytes larger than its array, in front of which the block's address is stored."""
    return f'target triple = "{triple}"\n{BLOCKS}{ALLOCATOR}'
