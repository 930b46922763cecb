"""Functions of rows in machine code, such as softmax: one code for NumPy's loops over small arrays and for the pool.

    @row_function("(n),()->(n)", "fff")
    def _scaled(code, row):
        x, factor, out = row.pointers
        by = code.splat(code.load("float", factor), LANES)
        for_each(code, row.n, lambda i, mask: store(code, load(code, x, i, mask) * by, out, i, mask))

Sums are taken in `LANES` (or, of what is cheap to compute, `MANY`) parts of blocks of `BLOCK` elements, which are joined in
halves, and blocks in double precision: so a sum follows from its row alone, and not from the width of the processor's vectors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value
from tdt._kernels._compilable import ENTRY
from tdt._kernels._emit_loops import LOOP
from tdt._kernels._gufunc import ufunc_at
from tdt._kernels._launches import WATCH, watched_contiguous
from tdt._kernels._native import NativeKernel, linked
from tdt._kernels._pool import parallel, start
from tdt._kernels._syntax import constant, vector, vector_length
from tdt._kernels._threads import THREADS

LANES, MANY = 16, 64  # elements of a vector
BLOCK = 1024  # elements of a row that are summed in single precision
UNITS = 1 << 12  # elements that a block of the pool's work has at least
GRAIN = 4  # blocks that a thread should at least have
WEIGHT = 2  # of the work for an element, compared with a sum's
DTYPES = {"f": np.dtype(np.float32), "d": np.dtype(np.float64), "l": np.dtype(np.int64), "E": np.dtype(np.uint16)}


def fma(code: Code, a: Value, b: Value, c: Value) -> Value:
    """a b + c, rounded once."""
    return code.call("fma", a, b, c)


def mask_of(code: Code, left: Value, count: int = LANES) -> Value:
    """Which elements of a vector are among the first `left`."""
    places = Value(code, f"<{', '.join(f'i32 {k}' for k in range(count))}>", vector("i32", count))
    return places < code.splat(code.cast(left, "i32"), count)


def load(code: Code, address: Value, i: Any, mask: Value | None, count: int = LANES, other: float = 0.0) -> Value:
    """`count` floats from element i on; where there is a mask, `other` in the place of those that it leaves out."""
    if mask is None:
        return code.load("float", address, i, count)
    kind, place = vector("float", count), code.at("float", address, i)
    name = f"@llvm.masked.load.v{count}f32.p0"
    code.declared.add(f"declare {kind} {name}(ptr, i32, {mask.kind}, {kind})")
    rest = constant(other, kind)
    return code.new(kind, f"call {kind} {name}(ptr {place.name}, i32 4, {mask.kind} {mask.name}, {kind} {rest})")


def store(code: Code, value: Value, address: Value, i: Any, mask: Value | None) -> None:
    """Write a vector of floats to element i and those behind it, without those that a mask leaves out."""
    if mask is None:
        code.store(value, address, i)
        return
    place, name = code.at("float", address, i), f"@llvm.masked.store.v{vector_length(value.kind)}f32.p0"
    code.declared.add(f"declare void {name}({value.kind}, ptr, i32, {mask.kind})")
    code.lines.append(
        f"  call void {name}({value.kind} {value.name}, ptr {place.name}, i32 4, {mask.kind} {mask.name})"
    )


def allocated(code: Code, *counts: Value) -> list[Value]:
    """Memory for so many floats each, until `release` of the first address; the code fails where there is none."""
    total = counts[0]
    for count in counts[1:]:
        total = total + count
    found = [code.function("malloc", "ptr", total * 4)]
    with code.when(code.cast(found[0], "i64") == 0):
        code.fail()
    for count in counts[:-1]:
        found.append(code.at("float", found[-1], count))
    return found


def release(code: Code, memory: Value) -> None:
    """Free what `allocated` gave."""
    code.lines.append(f"  call void @free(ptr {memory.name})")
    code.declared.add("declare void @free(ptr)")


def for_each(code: Code, n: Value, body: Callable[[Value, Value | None], None], count: int = LANES) -> None:
    """`body(i, mask)` for vectors of `count` elements of a row from i on; mask: None, or those that the row still has."""
    whole = n & -count
    with code.loop(0, whole, count) as i:
        body(i, None)
    with code.when(whole != n):
        body(whole, mask_of(code, n - whole, count))


def added(code: Code, a: Value, b: Value) -> Value:
    """The sum."""
    return a + b


def larger(code: Code, a: Value, b: Value) -> Value:
    """The larger one; b where one is NaN."""
    return code.select(a > b, a, b)


Terms = Callable[[Value, int, "Value | None"], tuple[Value, ...]]


def folded(code: Code, start: Any, stop: Value, count: int, terms: Terms, zero: float = 0.0, combine: Any = added,
           widths: Sequence[int] = (MANY, LANES)) -> list[Value]:  # fmt: skip
    """The `count` terms of each of the elements [start, stop), joined by `combine`.

    Args:
        terms: (i, lanes, mask) → the vectors of terms of the elements from i on. The last vector of a row has a mask, beyond
            which terms must be `zero`.
        zero: what joins with another term to that term.
        widths: elements that are joined at a time, while there are as many: (MANY, LANES) or (LANES,).
    """
    at = code.variable("i64", start)
    *wide, narrow = widths
    results = [code.variable(vector("float", narrow), zero) for _ in range(count)]

    def over(width: int, parts: list) -> None:
        first = at.get()
        end = first + ((stop - first) & -width)
        with code.loop(first, end, width) as i:
            add(i, width, None, parts)
        at.set(end)

    def add(i: Value, width: int, mask: Value | None, parts: list) -> None:
        for part, term in zip(parts, terms(i, width, mask), strict=True):
            part.set(combine(code, part.get(), term))

    for width in wide:
        with code.when(stop - at.get() >= width):
            parts = [code.variable(vector("float", width), zero) for _ in range(count)]
            over(width, parts)
            for result, part in zip(results, parts, strict=True):
                result.set(_narrowed(code, part.get(), narrow, combine))
    over(narrow, results)
    with code.when(at.get() != stop):
        add(at.get(), narrow, mask_of(code, stop - at.get()), results)
    return [_narrowed(code, result.get(), 1, combine) for result in results]


def _narrowed(code: Code, value: Value, count: int, combine: Any) -> Value:
    """A vector's halves joined until it has `count` elements."""
    while vector_length(value.kind) > count:
        value = combine(code, *code.halves(value))
    return value


def summed(code: Code, n: Value, count: int, terms: Terms, widths: Sequence[int] = (MANY, LANES)) -> list[Value]:
    """The sums of the `count` terms of each element of a row, in double precision."""
    totals = [code.variable("double", 0.0) for _ in range(count)]
    with code.loop(0, n, BLOCK) as start:
        parts = folded(code, start, code.minimum(start + BLOCK, n), count, terms, widths=widths)
        for total, part in zip(totals, parts, strict=True):
            total.add(code.cast(part, "double"))
    return [total.get() for total in totals]


def across(code: Code, value: Value, combine: Any = added) -> Value:
    """A vector's elements joined as `folded` does."""
    return _narrowed(code, value, 1, combine)


def largest(code: Code, n: Value, x: Value) -> Value:
    """The largest element of a row that is not NaN; -inf where there is none."""
    infinite = -math.inf
    terms = lambda i, count, mask: (load(code, x, i, mask, count, infinite),)  # noqa: E731
    return folded(code, 0, n, 1, terms, infinite, larger)[0]


def by_length(short: Callable[..., None]) -> Callable[..., Callable[..., None]]:
    """Let `short(code, pointers, n, mask)` write the code of rows of one vector: the same sums without loops."""

    def decorate(write: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(write)
        def both(code: Code, pointers: list[Value], n: Value, *parameters: Any) -> None:
            mask = mask_of(code, n)
            code.choose(
                n <= LANES,
                lambda: short(code, pointers, n, mask, *parameters),
                lambda: write(code, pointers, n, *parameters),
            )

        return both

    return decorate


class RowFunction:
    """A function of rows that lie side by side, one row (or one number) of each operand for each of the results.

    Args:
        write: (code, addresses of the operands' and results' rows, n, *parameters) writes the code of one row.
        signature: NumPy's, with the one size n; such as "(n),()->(n)".
        types: NumPy's letters of the operands, then of the results; "E" for bfloat16, given as uint16.
    """

    def __init__(self, write: Callable[..., None], signature: str, types: str, parameters: tuple):
        name = "-".join([f"{write.__module__.rpartition('.')[2]}.{write.__name__}", *map(str, parameters)])
        self.inputs, sizes = signature.partition("->")[0].count("("), signature.replace("->", ",").split(",")
        self.rows = [size == "(n)" for size in sizes]
        self.types, count = types, len(types)
        loop, entry = linked(name, [LOOP, ENTRY], lambda: _module(write, count, parameters), optimize=True)
        self.kernel = NativeKernel(name, entry, "qqq" + "q" * 2 * count)
        self.ufunc = ufunc_at(loop, signature, types, self.inputs, write.__name__.strip("_"), weight=WEIGHT)
        self.dtypes = [DTYPES[t] for t in types[self.inputs :]]

    def __call__(self, *operands: np.ndarray) -> Any:
        """The results for contiguous operands (*, n) or (*), the first of which has all rows: an array, or a tuple of them."""
        first = operands[0]
        if first.size >= THREADS.rows:
            if WATCH.trace is not None:
                return self._launched(first, operands)
            start()
        return self.ufunc(*operands)

    def _launched(self, first: np.ndarray, operands: tuple[np.ndarray, ...]) -> Any:
        """The results by a launch that is noted with its blocks, which the tape's threads share."""
        n, lead = first.shape[-1], first.shape[:-1]
        count = first.size // n
        results = [np.empty(first.shape if row else lead, dtype)
                   for row, dtype in zip(self.rows[self.inputs :], self.dtypes, strict=True)]  # fmt: skip
        each = max(1, UNITS // n)
        words: list[Any] = [count, n, each]
        for array, row in zip((*operands, *results), self.rows, strict=True):
            size, array = n if row else 1, np.asarray(array)
            if array.size != size:
                array = np.broadcast_to(array, first.shape if row else lead)
            words += watched_contiguous(array), 0 if array.size == size else size * array.itemsize
        parallel(self.kernel, -(-count // each), *words, grain=GRAIN)  # type: ignore[arg-type]
        return results[0] if len(results) == 1 else tuple(results)


def contiguous(x: np.ndarray) -> np.ndarray:
    """x, copied unless its rows lie behind each other."""
    return x if x.flags.c_contiguous else watched_contiguous(x)


def row_function(
    signature: str, types: str, half: str = ""
) -> Callable[[Callable[..., None]], Callable[..., RowFunction]]:
    """Make `write(code, pointers, n, *parameters)` a function of the parameters that gives the compiled `RowFunction`.

    half: the types if the last of the parameters is true.
    """

    def decorate(write: Callable[..., None]) -> Callable[..., RowFunction]:
        @functools.cache
        def compiled_for(*parameters: Any) -> RowFunction:
            return RowFunction(write, signature, half if half and parameters[-1] else types, parameters)

        functools.update_wrapper(compiled_for, write)
        return compiled_for

    return decorate


def _module(write: Callable[..., None], count: int, parameters: tuple) -> str:
    """The IR of a function of rows in both forms.

    The pool's words are the number of rows, n and the rows of a block, then address and bytes to the next row of each array.
    """
    code = Code()
    rows, n, each, *places = code.arguments("qqq" + "pq" * count)
    first, last = (Value(code, name, "i64") for name in ("%first", "%last"))
    with code.loop(first * each, code.minimum(last * each, rows)) as row:
        write(code, [code.at("i8", address, row * step) for address, step in zip(places[::2], places[1::2], strict=True)],
              n, *parameters)  # fmt: skip
    return code.module("") + _numpy_loop(count)


def _numpy_loop(count: int) -> str:
    """The loop that NumPy calls, with (addresses, (rows, n), bytes to the next row of each array)."""
    lines = [f"define void @{LOOP}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
             f"  %words = alloca [{3 + 2 * count} x i64], align 8"]  # fmt: skip
    sources = [("dims", 0), ("dims", 1), ("dims", 0)] + [(s, k) for k in range(count) for s in ("args", "steps")]
    for k, (source, place) in enumerate(sources):
        lines += [
            f"  %from{k} = getelementptr i64, ptr %{source}, i64 {place}",
            f"  %v{k} = load i64, ptr %from{k}, align 8",
            f"  %to{k} = getelementptr i64, ptr %words, i64 {k}",
            f"  store i64 %v{k}, ptr %to{k}, align 8",
        ]
    return "\n".join([*lines, f"  call i64 @{ENTRY}(ptr %words, i64 0, i64 1)", "  ret void", "}", ""])
