"""Built-in functions of Python's around kernels: a call takes a tenth of one through ctypes, or less.

`CODE` has functions with the C signature of a built-in function (`METH_FASTCALL`). They are compiled once; what they call is in
the bytes that Python hands to them as the function's `self`. Four of them differ in how they take a kernel's words; other threads
of Python's run while the kernel does, as with ctypes. The fifth calls a loop as NumPy's ufuncs have them, which must be short.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS, function_address

CALL, LAUNCH, RUN, PACK, APPLY = FUNCTIONS = ("tdt_call", "tdt_launch", "tdt_run", "tdt_pack", "tdt_apply")
NEW_ARRAY, NEW_FROM_DTYPE = 93, 94  # the places of `PyArray_New` and `PyArray_NewFromDescr` in NumPy's C API
FAST_CALL, KEYWORDS = (
    0x80,
    0x02,
)  # Python's METH_FASTCALL, arguments in an array; METH_KEYWORDS, with the names of the last ones
BYTES = bytes.__basicsize__ - 1  # where the bytes of a bytes object begin
CLASS = object.__basicsize__ - 8  # where an object's class is
KERNEL, ARRAY, BLOCKS, COUNT, REST, LAST = range(6)  # words of `self`
# Those of APPLY. PLACES: of the sizes, the strides, the steps and the shapes behind them.
LOOP, DATA, CLASS_OF_ARRAYS, NEW, INPUTS, OUTPUTS, TIMES, PLACES = range(8)


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
    """A built-in function that calls a kernel; all but PACK return its result.

    - CALL: `(words, first, last)` computes the blocks [first, last).
    - LAUNCH: `(first, last, *arguments)` computes them, for one word of each argument.
    - RUN: `(*arguments)` computes all `blocks`, for these words and behind them those in `last`.
    - PACK: `(*arguments)` returns the bytes of these words.

    Args:
        function: the address of `name`'s machine code.
        kernel: the kernel's address.
        letters: of each argument, "d" for a float, "q" for an integer or an array, whose word is its address, 0 for None.
    """
    words = struct.pack("=5q", kernel, id(np.ndarray), blocks, len(letters), len(last) // 8) + last + letters.encode()
    return created(name, function, words)


def applied(
    function: int, loop: int, data: int, sizes: Sequence[int], strides: Sequence[int], times: int, steps: Sequence[int],
    results: Sequence[tuple[np.dtype, Sequence[int]]],
) -> Callable[..., Any]:  # fmt: skip
    """`(*arrays)`: calls the loop of a ufunc and returns the new array that it writes to, or a tuple of several.

    Args:
        function: the address of APPLY's machine code.
        loop, data: the address of the loop, and its last argument.
        sizes, strides: its second and third argument.
        times: how often it is called; `steps`: how many bytes each operand lies further the next time.
        results: the types and the shapes of the new arrays.
    """
    count = len(steps)
    parts: list[Sequence[int]] = [sizes, strides, steps, *[(len(shape), dtype.num, *shape) for dtype, shape in results]]
    places = itertools.accumulate(map(len, parts[:-1]), initial=PLACES + len(parts))
    words = [loop, data, id(np.ndarray), array_function(NEW_ARRAY), count - len(results), len(results), times, *places]
    words += itertools.chain(*parts)
    return created(APPLY, function, struct.pack(f"={len(words)}q", *words))


@functools.cache
def array_function(place: int) -> int:
    """The address of a function of NumPy's C API for arrays."""
    return function_address(np._core._multiarray_umath._ARRAY_API, place)  # type: ignore[attr-defined]


def created(name: str, function: int, words: bytes, flags: int = FAST_CALL) -> Callable[..., Any]:
    """The built-in function whose machine code is at an address, and finds `words` in its `self`."""
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype, create.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return create(ctypes.addressof(_method(name, function, flags)), words, None)


@functools.cache
def _method(name: str, function: int, flags: int) -> _Method:
    method = _Method(name.encode(), function, flags, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # Python keeps the address of this one for ever
    return method


def _word(name: str, place: int, kind: str = "i64") -> str:
    """A word of `self`."""
    return f"""
  %{name}.place = getelementptr i64, ptr %data, i64 {place}
  %{name} = load {kind}, ptr %{name}.place"""


def _count_check(expected: str, following: str, failure: str) -> str:
    """Raise a TypeError and return `failure` unless as many arguments came as expected; the code goes on at a label."""
    return f"""  %right = icmp eq i64 %count, %{expected}
  br i1 %right, label %{following}, label %wrong
wrong:
  %error.class = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %error.class, ptr @message)
  ret {failure}
{following}:"""


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
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_DecRef(ptr)
@PyLong_Type = external global i8
@PyExc_TypeError = external global ptr
@_Py_NoneStruct = external global i8
@message = internal constant [26 x i8] c"wrong number of arguments\\00"

define internal i1 @fill(ptr %data, ptr %letters, ptr %arguments, i64 %count, ptr %words) {{
  {_word("array.class", ARRAY, "ptr")}{_word("given", COUNT)}
{_count_check("given", "next", "i1 false")}
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

define ptr @{APPLY}(ptr %self, ptr %arguments, i64 %count) {{{SELF}{_word("loop", LOOP, "ptr")}{_word("extra", DATA, "ptr")}
  {_word("class", CLASS_OF_ARRAYS, "ptr")}{_word("new", NEW, "ptr")}{_word("inputs", INPUTS)}{_word("outputs", OUTPUTS)}
  {_word("times", TIMES)}{_word("sizes.at", PLACES)}{_word("strides.at", PLACES + 1)}{_word("steps.at", PLACES + 2)}
  %sizes = getelementptr i64, ptr %data, i64 %sizes.at
  %strides = getelementptr i64, ptr %data, i64 %strides.at
  %steps = getelementptr i64, ptr %data, i64 %steps.at
  %total = add i64 %inputs, %outputs
  %addresses = alloca i64, i64 %total
{_count_check("inputs", "begin", "ptr null")}
  %several = icmp ugt i64 %outputs, 1
  br i1 %several, label %tuple, label %next
tuple:
  %made = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %made, null
  br i1 %no.tuple, label %failed, label %next
next:
  %results = phi ptr [ null, %begin ], [ %made, %tuple ], [ %results, %store ], [ %results, %keep ]
  %only = phi ptr [ null, %begin ], [ null, %tuple ], [ %array, %store ], [ null, %keep ]
  %k = phi i64 [ 0, %begin ], [ 0, %tuple ], [ %k.next, %store ], [ %k.next, %keep ]
  %k.next = add i64 %k, 1
  %done = icmp uge i64 %k, %total
  br i1 %done, label %run, label %one
one:
  %own = icmp ult i64 %k, %inputs
  br i1 %own, label %input, label %output
input:
  %input.place = getelementptr ptr, ptr %arguments, i64 %k
  %input.array = load ptr, ptr %input.place
  br label %store
output:
  %j = sub i64 %k, %inputs
  %shape.place = getelementptr i64, ptr %data, i64 %j
  %shape.word = getelementptr i64, ptr %shape.place, i64 {PLACES + 3}
  %shape.at = load i64, ptr %shape.word
  %ndim.place = getelementptr i64, ptr %data, i64 %shape.at
  %ndim.word = load i64, ptr %ndim.place
  %ndim = trunc i64 %ndim.word to i32
  %kind.place = getelementptr i64, ptr %ndim.place, i64 1
  %kind.word = load i64, ptr %kind.place
  %kind = trunc i64 %kind.word to i32
  %shape = getelementptr i64, ptr %ndim.place, i64 2
  %new.array = call ptr %new(ptr %class, i32 %ndim, ptr %shape, i32 %kind, ptr null, ptr null, i32 0, i32 0, ptr null)
  %no.array = icmp eq ptr %new.array, null
  br i1 %no.array, label %drop, label %store
drop:
  br i1 %several, label %drop.tuple, label %failed
drop.tuple:
  call void @Py_DecRef(ptr %results)
  br label %failed
failed:
  ret ptr null
store:
  %array = phi ptr [ %input.array, %input ], [ %new.array, %output ]
  %address.place = getelementptr i8, ptr %array, i64 {ADDRESS}
  %address = load i64, ptr %address.place
  %target = getelementptr i64, ptr %addresses, i64 %k
  store i64 %address, ptr %target
  %is.result = icmp uge i64 %k, %inputs
  %kept = and i1 %is.result, %several
  br i1 %kept, label %keep, label %next
keep:
  %place.in.tuple = sub i64 %k, %inputs
  %ignored = call i32 @PyTuple_SetItem(ptr %results, i64 %place.in.tuple, ptr %array)
  br label %next
run:
  %turn = phi i64 [ 0, %next ], [ %turn.next, %moved ]
  call void %loop(ptr %addresses, ptr %sizes, ptr %strides, ptr %extra)
  %turn.next = add i64 %turn, 1
  %again = icmp ult i64 %turn.next, %times
  br i1 %again, label %move, label %finished
move:
  %i = phi i64 [ 0, %run ], [ %i.next, %move.one ]
  %all.moved = icmp uge i64 %i, %total
  br i1 %all.moved, label %moved, label %move.one
move.one:
  %step.place = getelementptr i64, ptr %steps, i64 %i
  %step = load i64, ptr %step.place
  %moving.place = getelementptr i64, ptr %addresses, i64 %i
  %moving = load i64, ptr %moving.place
  %further = add i64 %moving, %step
  store i64 %further, ptr %moving.place
  %i.next = add i64 %i, 1
  br label %move
moved:
  br label %run
finished:
  %result = select i1 %several, ptr %results, ptr %only
  ret ptr %result
}}
"""
