"""Calls of generalised ufuncs without NumPy's iterator, which takes up to 1 µs to set up.

`quick(ufunc)` is a built-in function of Python's that looks at the arrays itself. It takes what small calls mostly are: arrays of
the ufunc's own types, with no dimensions but those that the signature names or one more, and one result; everything else it
hands to the ufunc.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import CLASS, NEW_ARRAY, array_function, created
from tdt._kernels._code import Code, Value, built_in
from tdt._kernels._gufunc import AS_KNOWN, loop_of, named_sizes
from tdt._kernels._native import linked

QUICK = "tdt_quick"
# Where arrays have these, beside the address of their elements, as NumPy's C API guarantees.
NDIM, SHAPE, STRIDES, DTYPE, FLAGS = ADDRESS + 8, ADDRESS + 16, ADDRESS + 24, ADDRESS + 40, ADDRESS + 48
ALIGNED = 0x100
LOOP, DATA, UFUNC, ARRAY, NEW, INPUTS, NAMES, KIND, SIZE, OPERANDS = range(10)  # words of `self`
RECORD = 4  # words of an operand: how many dimensions are named, their numbers (two), the address of its dtype
MOST_NAMES, MOST_OPERANDS = 6, 8
LARGE = 1 << 18  # the product of all sizes from which on other threads of Python's run meanwhile


@functools.cache
def quick(ufunc: Callable) -> Callable:
    """The function that calls the ufunc, of `generalized`, with one result of up to two dimensions."""
    address, data, signature, types = loop_of(ufunc)
    cores = named_sizes(signature)
    names = list(dict.fromkeys(name for core in cores for name in core))
    kinds = [np.dtype(AS_KNOWN.get(letter, letter)) for letter in types]
    assert len(names) <= MOST_NAMES and len(cores) <= MOST_OPERANDS and max(map(len, cores)) <= 2
    words = [address, data, id(ufunc), id(np.ndarray), array_function(NEW_ARRAY), len(cores) - 1, len(names)]
    words += kinds[-1].num, kinds[-1].itemsize
    for core, kind in zip(cores, kinds, strict=True):
        words += len(core), *[names.index(name) for name in core], *[0] * (2 - len(core)), id(kind)
    [function] = linked("quick", [QUICK], lambda: built_in(QUICK, _write), optimize=True, vectorize=False)
    return created(QUICK, function, struct.pack(f"={len(words)}q", *words))


def _write(code: Code, word: Callable[[Any], Value], arguments: Value, count: Value) -> None:
    inputs, names = word(INPUTS), word(NAMES)
    addresses, sizes, strides = (code.array("i64", n) for n in (MOST_OPERANDS, 1 + MOST_NAMES, 3 * MOST_OPERANDS))
    shape = code.array("i64", 3)
    fits = code.variable("i1", count == inputs)
    times, stacked, place = code.variable("i64", 1), code.variable("i64", 0), code.variable("i64", inputs + 1)
    with code.loop(0, names) as n:
        code.store(code.value(0, "i64"), sizes, n + 1)
    with code.loop(0, code.select(fits.get(), inputs, 0)) as k:
        array, record = code.load("ptr", arguments, k), OPERANDS + k * RECORD

        def field(kind: str, where: int, array: Value = array) -> Value:
            return code.load(kind, code.at("i8", array, where))

        def refuse(test: Value) -> None:
            fits.set(fits.get() & ~test)

        refuse(field("i64", CLASS) != word(ARRAY))
        with code.when(fits.get()):
            rank = word(record)
            lead = code.cast(field("i32", NDIM), "i64") - rank
            refuse(
                (field("i64", DTYPE) != word(record + 3))
                | ((field("i32", FLAGS) & ALIGNED) == 0)
                | (lead < 0)
                | (lead > 1)
            )
        with code.when(fits.get()):
            rank = word(record)
            lead = code.cast(field("i32", NDIM), "i64") - rank
            lengths, steps = field("ptr", SHAPE), field("ptr", STRIDES)
            code.store(field("i64", ADDRESS), addresses, k)
            code.store(code.value(0, "i64"), strides, k)
            with code.when(lead == 1):
                stacked.set(1)
                first = code.load("i64", lengths)
                with code.when(first != 1):
                    refuse((times.get() != 1) & (times.get() != first))
                    times.set(first)
                    code.store(code.load("i64", steps), strides, k)
            with code.loop(0, rank) as j:
                name, length = word(record + 1 + j), code.load("i64", lengths, lead + j)
                known = code.load("i64", sizes, name + 1)
                refuse(((known != 0) & (known != length)) | (length == 0))
                code.store(length, sizes, name + 1)
                code.store(code.load("i64", steps, lead + j), strides, place.get())
                place.add(1)
    refuse_empty = times.get() == 0
    fits.set(fits.get() & ~refuse_empty)
    missing = code.variable("i1", code.value(0, "i1"))
    with code.loop(0, names) as n:
        missing.set(missing.get() | (code.load("i64", sizes, n + 1) == 0))
    fits.set(fits.get() & ~missing.get())
    with code.when(~fits.get()):
        none = code.cast(code.value(0, "i64"), "ptr")
        ufunc = code.cast(word(UFUNC), "ptr")
        result = code.function("PyObject_Vectorcall", "ptr", ufunc, arguments, count, none)
        code.lines.append(f"  ret ptr {result.name}")
        code.place(code.label())
    record, size = OPERANDS + inputs * RECORD, word(SIZE)
    rank = word(record)
    code.store(times.get(), shape)
    inner = code.variable("i64", size)
    with code.loop(0, rank) as j:
        back = rank - 1 - j
        length = code.load("i64", sizes, word(record + 1 + back) + 1)
        code.store(length, shape, stacked.get() + back)
        code.store(inner.get(), strides, place.get() + back)
        inner.set(inner.get() * length)
    code.store(inner.get(), strides, inputs)
    code.store(times.get(), sizes)
    zero, nothing = code.value(0, "i32"), code.cast(code.value(0, "i64"), "ptr")
    new = code.cast(word(NEW), "ptr").name
    ndim, kind = code.cast(stacked.get() + rank, "i32"), code.cast(word(KIND), "i32")
    out = code.new(
        "ptr",
        f"call ptr {new}(ptr {code.cast(word(ARRAY), 'ptr').name}, i32 {ndim.name}, ptr {shape.name}, i32 {kind.name}, "
        f"ptr {nothing.name}, ptr {nothing.name}, i32 {zero.name}, i32 {zero.name}, ptr {nothing.name})",
    )
    with code.when(code.cast(out, "i64") == 0):
        code.lines.append(f"  ret ptr {out.name}")
        code.place(code.label())
    code.store(code.load("i64", code.at("i8", out, ADDRESS)), addresses, inputs)
    work = code.variable("i64", times.get())
    with code.loop(0, names) as n:
        work.set(work.get() * code.load("i64", sizes, n + 1))
    long = work.get() >= LARGE
    thread = code.variable("ptr", nothing)
    with code.when(long):
        thread.set(code.function("PyEval_SaveThread", "ptr"))
    loop, extra = code.cast(word(LOOP), "ptr").name, code.cast(word(DATA), "ptr").name
    code.lines.append(f"  call void {loop}(ptr {addresses.name}, ptr {sizes.name}, ptr {strides.name}, ptr {extra})")
    with code.when(long):
        code.declared.add("declare void @PyEval_RestoreThread(ptr)")
        code.lines.append(f"  call void @PyEval_RestoreThread(ptr {thread.get().name})")
    code.lines.append(f"  ret ptr {out.name}")
