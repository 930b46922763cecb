"""Calls of ufuncs without NumPy's iterator, which takes up to 1 µs to set up.

`quick(ufunc)` is a built-in function of Python's that looks at the arrays itself. It takes what small calls mostly are: arrays of
the ufunc's own types, with no dimensions but those that the signature names or one more, and one result; everything else it
hands to the ufunc. `quick_elementwise` does so for elementwise ufuncs and contiguous arrays.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import CLASS, FAST_CALL, KEYWORDS, NEW_ARRAY, array_function, created
from tdt._kernels._code import Code, Value, Variable, built_in
from tdt._kernels._gufunc import AS_KNOWN, loop_of, named_sizes
from tdt._kernels._native import linked

QUICK = "tdt_quick"
# Where arrays have these, beside the address of their elements, as NumPy's C API guarantees.
NDIM, SHAPE, STRIDES, DTYPE, FLAGS = ADDRESS + 8, ADDRESS + 16, ADDRESS + 24, ADDRESS + 40, ADDRESS + 48
CONTIGUOUS, ALIGNED = 1, 0x100  # NumPy's flags
LOOP, DATA, UFUNC, ARRAY, NEW, INPUTS, NAMES, KIND, SIZE, OPERANDS = range(10)  # words of `self`
RECORD = 4  # words of an operand: how many dimensions are named, their numbers (two), the address of its dtype
MOST_NAMES, MOST_OPERANDS, MOST_DIMS = 6, 8, 8
# Elements of a row that are worth a call of their own, also where an operand has one; and of a result whose operands are copied.
ROW, ROW_OF_ONE, COPIED = 1 << 7, 1 << 4, 1 << 15
LARGE = 1 << 15  # the product of all sizes from which on other threads of Python's run meanwhile


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
    return created(QUICK, function, struct.pack(f"={len(words)}q", *words), FAST_CALL | KEYWORDS)


def _write(code: Code, word: Callable[[Any], Value], arguments: Value, count: Value, keywords: Value) -> None:
    inputs, names = word(INPUTS), word(NAMES)
    addresses, sizes, strides = (code.array("i64", n) for n in (MOST_OPERANDS, 1 + MOST_NAMES, 3 * MOST_OPERANDS))
    shape = code.array("i64", 3)
    fits = code.variable("i1", (count == inputs) & (code.cast(keywords, "i64") == 0))
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
    _leave_to_ufunc(code, word, ~fits.get(), arguments, count, keywords)
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
    out = _new_array(code, word, stacked.get() + rank, shape)
    code.store(code.load("i64", code.at("i8", out, ADDRESS)), addresses, inputs)
    work = code.variable("i64", times.get())
    with code.loop(0, names) as n:
        work.set(work.get() * code.load("i64", sizes, n + 1))
    thread = _begin_threads(code, work.get())
    loop, extra = code.cast(word(LOOP), "ptr").name, code.cast(word(DATA), "ptr").name
    code.lines.append(f"  call void {loop}(ptr {addresses.name}, ptr {sizes.name}, ptr {strides.name}, ptr {extra})")
    _end_threads(code, thread)
    code.lines.append(f"  ret ptr {out.name}")


def _leave_to_ufunc(
    code: Code, word: Callable[[Any], Value], test: Value, arguments: Value, count: Value, keywords: Value
) -> None:
    """Return what the ufunc does, where a test holds."""
    with code.when(test):
        result = code.function("PyObject_Vectorcall", "ptr", code.cast(word(UFUNC), "ptr"), arguments, count, keywords)
        code.lines.append(f"  ret ptr {result.name}")
        code.place(code.label())


def _new_array(code: Code, word: Callable[[Any], Value], ndim: Value, shape: Value) -> Value:
    """The result. Where there is no memory, the function returns with Python's error."""
    none, rank, kind = (
        code.cast(code.value(0, "i64"), "ptr").name,
        code.cast(ndim, "i32").name,
        code.cast(word(KIND), "i32").name,
    )
    new, array = code.cast(word(NEW), "ptr").name, code.cast(word(ARRAY), "ptr").name
    numbers = f"i32 {rank}, ptr {shape.name}, i32 {kind}, ptr {none}, ptr {none}, i32 0, i32 0, ptr {none}"
    out = code.new("ptr", f"call ptr {new}(ptr {array}, {numbers})")
    with code.when(code.cast(out, "i64") == 0):
        code.lines.append(f"  ret ptr {out.name}")
        code.place(code.label())
    return out


def _begin_threads(code: Code, work: Value) -> Variable:
    """Let other threads of Python's run until `_end_threads`, where there is much work."""
    thread = code.variable("ptr", code.cast(code.value(0, "i64"), "ptr"))
    with code.when(work >= LARGE):
        thread.set(code.function("PyEval_SaveThread", "ptr"))
    return thread


def _end_threads(code: Code, thread: Variable) -> None:
    with code.when(code.cast(thread.get(), "i64") != 0):
        code.declared.add("declare void @PyEval_RestoreThread(ptr)")
        code.lines.append(f"  call void @PyEval_RestoreThread(ptr {thread.get().name})")


def quick_elementwise(ufunc: Callable, loop: int, kinds: Sequence[np.dtype]) -> Callable:
    """The function that calls an elementwise ufunc with one result, for contiguous arrays that broadcast.

    Args:
        loop: the address of the ufunc's loop.
        kinds: types of the operands, the result's at last.
    """
    if len(kinds) > MOST_OPERANDS:
        return ufunc
    words = [loop, 0, id(ufunc), id(np.ndarray), array_function(NEW_ARRAY), len(kinds) - 1, 0]
    words += kinds[-1].num, kinds[-1].itemsize
    for kind in kinds:
        words += id(kind), kind.itemsize
    [function] = linked(
        "quick_elementwise", [QUICK], lambda: built_in(QUICK, _write_elementwise), optimize=True, vectorize=False
    )
    return created(QUICK, function, struct.pack(f"={len(words)}q", *words), FAST_CALL | KEYWORDS)


def _write_elementwise(
    code: Code, word: Callable[[Any], Value], arguments: Value, count: Value, keywords: Value
) -> None:
    inputs = word(INPUTS)
    addresses, steps, places = (code.array("i64", n) for n in (MOST_OPERANDS, MOST_OPERANDS, MOST_DIMS))
    shape, lengths, index = (
        code.array("i64", MOST_DIMS) for _ in range(3)
    )  # of the result; of a loop; of the loops outside it
    strides, moves = (
        code.array("i64", MOST_OPERANDS * MOST_DIMS) for _ in range(2)
    )  # along its dimensions; along the loops
    fits = code.variable("i1", (count == inputs) & (code.cast(keywords, "i64") == 0))
    alike = code.variable("i1", code.value(1, "i1"))
    ndim, first = code.variable("i64", 0), code.variable("ptr", code.cast(code.value(0, "i64"), "ptr"))

    def array_at(k: Value) -> Value:
        return code.load("ptr", arguments, k)

    def field(kind: str, array: Value, where: int) -> Value:
        return code.load(kind, code.at("i8", array, where))

    def refuse(test: Value) -> None:
        fits.set(fits.get() & ~test)

    def rank_of(array: Value) -> Value:
        return code.cast(field("i32", array, NDIM), "i64")

    with code.loop(0, code.select(fits.get(), inputs, 0)) as k:
        array = array_at(k)
        refuse(field("i64", array, CLASS) != word(ARRAY))
        with code.when(fits.get()):
            rank = rank_of(array)
            plain = (field("i32", array, FLAGS) & (ALIGNED | CONTIGUOUS)) == (ALIGNED | CONTIGUOUS)
            refuse((field("i64", array, DTYPE) != word(OPERANDS + k * 2)) | ~plain | (rank > MOST_DIMS))
            code.store(field("i64", array, ADDRESS), addresses, k)
            own = field("ptr", array, SHAPE)

            def compare(own: Value = own, rank: Value = rank) -> None:
                alike.set(alike.get() & (rank == ndim.get()))
                with code.loop(0, code.select(alike.get(), rank, 0)) as j:
                    alike.set(alike.get() & (code.load("i64", own, j) == code.load("i64", first.get(), j)))

            def begin(own: Value = own) -> None:
                first.set(own)

            with code.when(rank != 0):
                code.choose(
                    code.cast(first.get(), "i64") == 0,
                    lambda begin=begin, rank=rank: (begin(), ndim.set(rank)),
                    compare,
                )
                ndim.set(code.maximum(ndim.get(), rank))
    n = code.select(fits.get(), ndim.get(), 0)
    with code.loop(0, n) as j:
        code.store(code.value(1, "i64"), shape, j)
    with code.loop(0, code.select(fits.get(), inputs, 0)) as k:
        array = array_at(k)
        own, rank = field("ptr", array, SHAPE), rank_of(array)
        with code.loop(0, rank) as j:
            length, place = code.load("i64", own, j), n - rank + j
            with code.when(length != 1):
                before = code.load("i64", shape, place)
                refuse((before != 1) & (before != length))
                code.store(length, shape, place)
    total = code.variable("i64", 1)
    with code.loop(0, n) as j:
        total.set(total.get() * code.load("i64", shape, j))
    refuse(total.get() == 0)
    _leave_to_ufunc(code, word, ~fits.get(), arguments, count, keywords)
    out = _new_array(code, word, n, shape)
    code.store(field("i64", out, ADDRESS), addresses, inputs)
    operands = inputs + 1
    thread = _begin_threads(code, total.get())

    def call(size: Value) -> None:
        code.store(size, lengths)
        code.lines.append(
            f"  call void {loop.name}(ptr {addresses.name}, ptr {lengths.name}, ptr {steps.name}, ptr {nothing.name})"
        )

    loop, nothing = code.cast(word(LOOP), "ptr"), code.cast(code.value(0, "i64"), "ptr")

    def at_once() -> None:
        with code.loop(0, inputs) as k:
            code.store(code.select(rank_of(array_at(k)) == 0, 0, word(OPERANDS + 1 + k * 2)), steps, k)
        code.store(word(SIZE), steps, inputs)
        call(total.get())

    def repeatedly() -> None:
        with code.loop(0, inputs) as k:
            array = array_at(k)
            own, own_strides, rank = field("ptr", array, SHAPE), field("ptr", array, STRIDES), rank_of(array)
            with code.loop(0, n) as j:
                code.store(code.value(0, "i64"), strides, k * MOST_DIMS + j)
            with code.loop(0, rank) as j:
                step = code.select(code.load("i64", own, j) == 1, 0, code.load("i64", own_strides, j))
                code.store(step, strides, k * MOST_DIMS + n - rank + j)
        inner = code.variable("i64", word(SIZE))
        with code.loop(0, n) as j:
            back = n - 1 - j
            code.store(inner.get(), strides, inputs * MOST_DIMS + back)
            inner.set(inner.get() * code.load("i64", shape, back))
        loops = code.variable("i64", 0)  # of which neighbours that all operands take in one stride are one
        with code.loop(0, n) as j:
            length = code.load("i64", shape, j)
            with code.when(length != 1):
                joins = code.variable("i1", loops.get() != 0)
                last = loops.get() - 1
                with code.loop(0, code.select(joins.get(), operands, 0)) as k:
                    before = code.load("i64", moves, k * MOST_DIMS + last)
                    joins.set(joins.get() & (before == length * code.load("i64", strides, k * MOST_DIMS + j)))
                code.choose(
                    joins.get(),
                    lambda length=length, last=last: code.store(code.load("i64", places, last) * length, places, last),
                    lambda length=length: (code.store(length, places, loops.get()), loops.add(1)),
                )
                with code.loop(0, operands) as k:
                    code.store(code.load("i64", strides, k * MOST_DIMS + j), moves, k * MOST_DIMS + loops.get() - 1)
        with code.when(loops.get() == 0):
            code.store(code.value(1, "i64"), places)
            loops.set(1)
            with code.loop(0, operands) as k:
                code.store(code.value(0, "i64"), moves, k * MOST_DIMS)
        last = loops.get() - 1
        with code.loop(0, operands) as k:
            code.store(code.load("i64", moves, k * MOST_DIMS + last), steps, k)
        with code.loop(0, last) as j:
            code.store(code.value(0, "i64"), index, j)
        length, near = code.load("i64", places, last), last - 1

        def move(d: Value, turns: Value | int) -> None:
            with code.loop(0, operands) as k:
                by = code.load("i64", moves, k * MOST_DIMS + d) * turns
                code.store(code.load("i64", addresses, k) + by, addresses, k)

        def of_several() -> None:
            turns = code.load("i64", places, near)
            with code.forever() as leave:
                with code.loop(0, turns):
                    call(length)
                    move(near, 1)
                move(near, 0 - turns)
                d = code.variable("i64", near - 1)
                with code.forever() as found:  # the innermost of the loops around this one that has not ended
                    found(d.get() < 0)
                    turn, most = code.load("i64", index, d.get()) + 1, code.load("i64", places, d.get())
                    ends = turn == most
                    code.store(code.select(ends, 0, turn), index, d.get())
                    move(d.get(), code.select(ends, 1 - most, 1))
                    found(~ends)
                    d.add(-1)
                leave(d.get() < 0)

        def free_copies() -> None:
            code.declared.add("declare void @free(ptr)")
            with code.loop(0, inputs) as k:
                code.lines.append(f"  call void @free(ptr {code.load('ptr', index, k).name})")

        def copied() -> None:
            """One call, of copies of the operands that are repeated: to call a loop takes as long as some hundred elements."""
            with code.loop(0, operands) as k:
                code.store(code.value(0, "i64"), index, k)  # copies, to be freed
            with code.loop(0, inputs) as k:
                array, size = array_at(k), word(OPERANDS + 1 + k * 2)
                own, elements = field("ptr", array, SHAPE), code.variable("i64", 1)
                rank = rank_of(array)
                with code.loop(0, rank) as j:
                    elements.set(elements.get() * code.load("i64", own, j))
                code.store(code.select(rank == 0, 0, size), steps, k)
                with code.when((rank != 0) & (elements.get() != total.get())):
                    copy = code.function("malloc", "ptr", total.get() * size)
                    with code.when(code.cast(copy, "i64") == 0):
                        free_copies()
                        _end_threads(code, thread)
                        code.declared.add("declare void @Py_DecRef(ptr)")
                        code.lines.append(f"  call void @Py_DecRef(ptr {out.name})")
                        code.lines.append(f"  ret ptr {code.function('PyErr_NoMemory', 'ptr').name}")
                        code.place(code.label())
                    source, step = code.load("ptr", addresses, k), code.load("i64", moves, k * MOST_DIMS + last)
                    rows, each = total.get() // length, length * size
                    with code.loop(0, rows) as r:
                        place, rest = code.variable("i64", 0), code.variable("i64", r)
                        with code.loop(0, near) as j:
                            d = near - j
                            turns = code.load("i64", places, d)
                            upper = rest.get() // turns
                            place.add((rest.get() - upper * turns) * code.load("i64", moves, k * MOST_DIMS + d))
                            rest.set(upper)
                        place.add(rest.get() * code.load("i64", moves, k * MOST_DIMS))
                        begin, target = code.at("i8", source, place.get()), code.at("i8", copy, r * each)

                        def fill(begin: Value = begin, target: Value = target) -> None:
                            for bytes_ in (1, 2, 4, 8):
                                with code.when(size == bytes_):
                                    value = code.load(f"i{8 * bytes_}", begin)
                                    with code.loop(0, length) as i:
                                        code.store(value, target, i)

                        code.choose(step == 0, fill, lambda begin=begin, target=target: code.copy(target, begin, each))
                    code.store(copy, addresses, k)
                    code.store(code.cast(copy, "i64"), index, k)
            code.store(word(SIZE), steps, inputs)
            call(total.get())
            free_copies()

        row = code.variable("i64", ROW)
        with code.loop(0, inputs) as k:
            one = (code.load("i64", moves, k * MOST_DIMS + last) == 0) & (rank_of(array_at(k)) != 0)
            row.set(code.select(one, ROW_OF_ONE, row.get()))
        several = (length < row.get()) & (total.get() <= COPIED)
        code.choose(near < 0, lambda: call(length), lambda: code.choose(several, copied, of_several))

    code.choose(alike.get(), at_once, repeatedly)
    _end_threads(code, thread)
    code.lines.append(f"  ret ptr {out.name}")
