"""Built-in functions of Python's around kernels: a call takes a tenth of one through ctypes, or less.

`CODE` has four functions with the C signature of a built-in function (`METH_FASTCALL`), which differ in how they take a
kernel's words. They are compiled once; what they call is in the bytes that Python hands to them as the function's `self`.
Other threads of Python's run while a kernel does, as with ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS

CALL, LAUNCH, RUN, PACK = FUNCTIONS = ("tdt_call", "tdt_launch", "tdt_run", "tdt_pack")
FAST_CALL = 0x80  # Python's METH_FASTCALL: the arguments are in an array
BYTES = bytes.__basicsize__ - 1  # where the bytes of a bytes object begin
CLASS = object.__basicsize__ - 8  # where an object's class is
KERNEL, ARRAY, BLOCKS, COUNT, REST, LAST = range(6)  # words of `self`


class _Method(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def builtin(
    name: str, function: int, kernel: int, letters: str = "", blocks: int = 0, last: bytes = b""
) -> Callable[..., Any]:
    """A built-in function; all but PACK return the kernel's result.

    - CALL: `(words, first, last)` computes the blocks [first, last).
    - LAUNCH: `(first, last, *arguments)` computes them, for one word of each argument.
    - RUN: `(*arguments)` computes all `blocks`, for these words and behind them those in `last`.
    - PACK: `(*arguments)` returns the bytes of these words.

    Args:
        function: the address of `name`'s machine code.
        kernel: the kernel's address.
        letters: of each argument, "d" for a float, "q" for an integer or an array, whose word is its address, 0 for None.
    """
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype, create.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    words = struct.pack("=5q", kernel, id(np.ndarray), blocks, len(letters), len(last) // 8) + last + letters.encode()
    return create(ctypes.addressof(_method(name, function)), words, None)


@functools.cache
def _method(name: str, function: int) -> _Method:
    method = _Method(name.encode(), function, FAST_CALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # Python keeps the address of this one for ever
    return method


def _word(name: str, place: int, kind: str = "i64") -> str:
    """A word of `self`."""
    return f"""
  %{name}.place = getelementptr i64, ptr %data, i64 {place}
  %{name} = load {kind}, ptr %{name}.place"""


SELF = f"""
  %data = getelementptr i8, ptr %self, i64 {BYTES}"""
LETTERS = f"""{_word("rest", REST)}
  %tail = getelementptr i64, ptr %data, i64 {LAST}
  %letters = getelementptr i64, ptr %tail, i64 %rest"""
KERNEL_CALL = f"""{_word("kernel", KERNEL, "ptr")}
  %thread = call ptr @PyEval_SaveThread()
  %result = call i64 %kernel(ptr %words, i64 %first, i64 %last)
  call void @PyEval_RestoreThread(ptr %thread)
  %integer = call ptr @PyLong_FromLongLong(i64 %result)
  ret ptr %integer
failed:
  ret ptr null"""
CODE = f"""
declare ptr @PyBytes_AsString(ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i32 @PyType_IsSubtype(ptr, ptr)
@PyLong_Type = external global i8
@PyExc_TypeError = external global ptr
@_Py_NoneStruct = external global i8
@message = internal constant [26 x i8] c"wrong number of arguments\\00"

define internal i1 @fill(ptr %data, ptr %letters, ptr %arguments, i64 %count, ptr %words) {{
  {_word("array.class", ARRAY, "ptr")}{_word("given", COUNT)}
  %right = icmp eq i64 %count, %given
  br i1 %right, label %next, label %wrong
wrong:
  %error.class = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %error.class, ptr @message)
  ret i1 false
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %store ]
  %done = icmp uge i64 %k, %count
  br i1 %done, label %check, label %one
one:
  %object.place = getelementptr ptr, ptr %arguments, i64 %k
  %object = load ptr, ptr %object.place
  %letter.place = getelementptr i8, ptr %letters, i64 %k
  %letter = load i8, ptr %letter.place
  %real = icmp eq i8 %letter, {ord("d")}
  br i1 %real, label %float, label %whole
float:
  %float.value = call double @PyFloat_AsDouble(ptr %object)
  %float.bits = bitcast double %float.value to i64
  br label %store
whole:
  %class.place = getelementptr i8, ptr %object, i64 {CLASS}
  %class = load ptr, ptr %class.place
  %is.array = icmp eq ptr %class, %array.class
  br i1 %is.array, label %array, label %other
other:
  %is.integer = icmp eq ptr %class, @PyLong_Type
  br i1 %is.integer, label %integer, label %rare
rare:
  %is.none = icmp eq ptr %object, @_Py_NoneStruct
  br i1 %is.none, label %store, label %derived
derived:
  %subclass = call i32 @PyType_IsSubtype(ptr %class, ptr %array.class)
  %is.subclass = icmp ne i32 %subclass, 0
  br i1 %is.subclass, label %array, label %integer
integer:
  %integer.value = call i64 @PyLong_AsLongLong(ptr %object)
  br label %store
array:
  %address.place = getelementptr i8, ptr %object, i64 {ADDRESS}
  %address = load i64, ptr %address.place
  br label %store
store:
  %value = phi i64 [ %float.bits, %float ], [ 0, %rare ], [ %integer.value, %integer ], [ %address, %array ]
  %place = getelementptr i64, ptr %words, i64 %k
  store i64 %value, ptr %place
  %k.next = add i64 %k, 1
  br label %next
check:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  ret i1 %fine
}}

define ptr @{CALL}(ptr %self, ptr %arguments, i64 %count) {{{SELF}
  %second = getelementptr ptr, ptr %arguments, i64 1
  %third = getelementptr ptr, ptr %arguments, i64 2
  %bytes = load ptr, ptr %arguments
  %begin = load ptr, ptr %second
  %end = load ptr, ptr %third
  %words = call ptr @PyBytes_AsString(ptr %bytes)
  %first = call i64 @PyLong_AsLongLong(ptr %begin)
  %last = call i64 @PyLong_AsLongLong(ptr %end)
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %run, label %failed
run:{KERNEL_CALL}
}}

define ptr @{LAUNCH}(ptr %self, ptr %arguments, i64 %count) {{{SELF}{LETTERS}
  %second = getelementptr ptr, ptr %arguments, i64 1
  %own = getelementptr ptr, ptr %arguments, i64 2
  %begin = load ptr, ptr %arguments
  %end = load ptr, ptr %second
  %first = call i64 @PyLong_AsLongLong(ptr %begin)
  %last = call i64 @PyLong_AsLongLong(ptr %end)
  %given = sub i64 %count, 2
  %words = alloca i64, i64 %given
  %filled = call i1 @fill(ptr %data, ptr %letters, ptr %own, i64 %given, ptr %words)
  br i1 %filled, label %run, label %failed
run:{KERNEL_CALL}
}}

define ptr @{RUN}(ptr %self, ptr %arguments, i64 %count) {{{SELF}{LETTERS}{_word("last", BLOCKS)}
  %first = add i64 0, 0
  %total = add i64 %count, %rest
  %words = alloca i64, i64 %total
  %filled = call i1 @fill(ptr %data, ptr %letters, ptr %arguments, i64 %count, ptr %words)
  br i1 %filled, label %next, label %failed
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %copy ]
  %done = icmp uge i64 %k, %rest
  br i1 %done, label %run, label %copy
copy:
  %source = getelementptr i64, ptr %tail, i64 %k
  %word = load i64, ptr %source
  %place = add i64 %count, %k
  %target = getelementptr i64, ptr %words, i64 %place
  store i64 %word, ptr %target
  %k.next = add i64 %k, 1
  br label %next
run:{KERNEL_CALL}
}}

define ptr @{PACK}(ptr %self, ptr %arguments, i64 %count) {{{SELF}{LETTERS}
  %words = alloca i64, i64 %count
  %filled = call i1 @fill(ptr %data, ptr %letters, ptr %arguments, i64 %count, ptr %words)
  br i1 %filled, label %pack, label %failed
pack:
  %size = mul i64 %count, 8
  %packed = call ptr @PyBytes_FromStringAndSize(ptr %words, i64 %size)
  ret ptr %packed
failed:
  ret ptr null
}}
"""
