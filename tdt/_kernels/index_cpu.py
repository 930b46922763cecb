"""Entries along a dimension by a tensor of indices, on the CPU: taken (gather) and placed (scatter), on all threads.

Arrays are seen as (A, n, B), n along the dimension. An index names single elements, (A, m, B), or whole entries, (m) or (A, m).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._pool import parallel
from tdt._kernels._threads import THREADS

UNITS = 1 << 12  # elements that a block of the pool's work has at least
CHECKED = 1 << 9  # indices that are checked before the elements are taken, and are in the first cache then
AT_ONCE = 4  # elements of a row that are placed at a time
WIDTH = 64  # columns that a thread has at least, where there are few A
GRAIN = 2
VECTOR = 32  # bytes that are copied at a time
KINDS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
ADDED = {"f": "float", "d": "double", "i": "i32", "l": "i64", "q": "i64"}
INDICES = {"l": "i64", "q": "i64", "i": "i32"}


def _position(code: Code, index_kind: str, index: Value, place: Value, n: Value, negative: bool) -> Value:
    """An entry's number; if some are negative, those are counted from the end."""
    number = code.cast(code.load(index_kind, index, place), "i64")
    return code.select(number < 0, number + n, number) if negative else number


@native("pppqqqqqqq")
def _take(code: Code, first: Value, last: Value, arguments: list[Value], kind: str, index_kind: str, form: str,
          negative: bool) -> None:  # fmt: skip
    """x, index, out, n, m, B, rows, each (rows of a block), step (of the index from an A to the next: 0 or m), lowest index.

    Fails for an index out of range. form: "elements" and "entries" for rows (A · m) of B, "last" (B = 1) and "last entries" for
    rows (A) of m.
    """
    x, index, out, n, m, width, rows, each, step, low = arguments

    def number_at(place: Value) -> Value:
        return _position(code, index_kind, index, place, n, negative)

    if form == "last entries":
        _check(code, index_kind, index, code.value(0, "i64"), m, n, low)

    def take_row(row: Value) -> None:
        if form == "last entries":
            with code.loop(0, m) as j:
                code.store(code.load(kind, x, row * n + number_at(j)), out, row * m + j)
        elif form == "last":
            with code.loop(0, m) as j:
                code.store(code.load(kind, x, row * n + number_at(row * m + j)), out, row * m + j)
        else:
            outer = quotient(code, row, m, rows)
            base, target = outer * n * width, row * width
            if form == "entries":
                place = row - outer * (m - step)
                _check(code, index_kind, index, place, code.value(1, "i64"), n, low)
                _copy_row(code, kind, x, base + number_at(place) * width, out, target, width)
            else:
                with code.loop(0, width) as b:
                    code.store(code.load(kind, x, base + number_at(target + b) * width + b), out, target + b)

    with code.loop(first, last) as block:
        begin, end = block * each, code.minimum(block * each + each, rows)
        if form in ("last", "elements"):  # the indices of a block lie side by side
            of_row = m if form == "last" else width
            _check(code, index_kind, index, begin * of_row, (end - begin) * of_row, n, low)
        with code.loop(begin, end) as row:
            take_row(row)


def combined(code: Code, how: str, old: Value, new: Value) -> Value:
    """What is written for `new` to the place of `old`: "set", "sum", "prod", "amax" or "amin"."""
    if how in ("set", "sum", "prod"):
        return new if how == "set" else old + new if how == "sum" else old * new
    keep = (old >= new if how == "amax" else old <= new) | (old != old)
    return code.select(keep, old, new)


def quotient(code: Code, a: Value, b: Value, limit: Value) -> Value:
    """a // b, where a is below `limit`: without a division if that is b."""
    result = code.variable("i64", 0)
    with code.when(limit != b):
        result.set(a // b)
    return result.get()


def _check(code: Code, kind: str, index: Value, begin: Value, count: Value, n: Value, low: Value) -> None:
    """Fail unless `count` indices lie in [low, n): the bits of index - low and of n - 1 - index have no sign then."""
    many = 64 // SIZES[kind]
    low, high = code.cast(low, kind), code.cast(n - 1, kind)
    whole = count // many * many
    signs = code.variable(f"<{many} x {kind}>", 0)
    lows, highs = code.splat(low, many), code.splat(high, many)
    with code.loop(0, whole, many) as j:
        number = code.load(kind, index, begin + j, many)
        signs.set(signs.get() | (number - lows) | (highs - number))
    bits = signs.get()
    sign = code.variable(kind, 0)
    for place in range(many):
        sign.set(sign.get() | code.extract(bits, place))
    with code.loop(whole, count) as j:
        number = code.load(kind, index, begin + j)
        sign.set(sign.get() | (number - low) | (high - number))
    with code.when(sign.get() < 0):
        code.fail()


def _copy_row(code: Code, kind: str, x: Value, source: Value, out: Value, target: Value, width: Value) -> None:
    begin = code.variable("i64", 0)
    for bytes_ in (4 * VECTOR, VECTOR):
        many = bytes_ // SIZES[kind]
        left = begin.get()
        whole = left + (width - left) // many * many
        with code.loop(left, whole, many) as b:
            code.store(code.load(kind, x, source + b, many), out, target + b)
        begin.set(whole)
    with code.loop(begin.get(), width) as b:
        code.store(code.load(kind, x, source + b), out, target + b)


@native("pppqqqqqqq", vectorize=False)
def _put(
    code: Code, first: Value, last: Value, arguments: list[Value], kind: str, index_kind: str, whole: bool,
    single: bool, how: str, negative: bool,
) -> None:  # fmt: skip
    """out, index, source, n, m, B, parts (of the columns of an A), width of a part, step and lowest index as in `_take`.

    A block is a part of an A. single: B is 1, and `part` 1 if all indices are to be checked before an element is written. Fails
    for an index out of range.
    """
    out, index, source, n, m, width, parts, part, step, low = arguments

    def numbers(places: Sequence[Value]) -> list[Value]:
        return [_position(code, index_kind, index, place, n, negative) for place in places]

    def put(target: Value, new: Value, count: int = 0) -> None:
        code.store(combined(code, how, code.load(kind, out, target, count), new), out, target)

    def elements(outer: Value) -> None:
        """Of an A, some elements at a time, which are all read, and their places checked, before one is written."""
        begin, row = outer * step if whole else outer * m, outer * m
        with code.when(code.value(1, "i1") if whole else part == 1):
            _check(code, index_kind, index, begin, m, n, low)
        many = m // AT_ONCE * AT_ONCE
        for start, stop, count in ((code.value(0, "i64"), many, AT_ONCE), (many, m, 1)):
            with code.loop(start, stop, count) as j:
                places = numbers([begin + j + k for k in range(count)])
                if not whole:
                    with code.when(functools.reduce(Value.__or__, [(place < 0) | (place >= n) for place in places])):
                        code.fail()
                found = [code.load(kind, source, row + j + k) for k in range(count)]
                for place, new in zip(places, found, strict=True):
                    put(outer * n + place, new)

    def rows(outer: Value, left: Value) -> None:
        right = code.minimum(left + part, width)
        base = outer * n * width
        if whole:
            _check(code, index_kind, index, outer * step, m, n, low)
        with code.loop(0, m) as j:
            row = (outer * m + j) * width
            if whole:
                [number], many = numbers([outer * step + j]), 2 * VECTOR // SIZES[kind]
                end = left + (right - left) // many * many
                for begin, stop, count in ((left, end, many), (end, right, 0)):
                    with code.loop(begin, stop, count or 1) as b:
                        put(base + number * width + b, code.load(kind, source, row + b, count), count)
            else:
                _check(code, index_kind, index, row + left, right - left, n, low)
                with code.loop(left, right) as b:
                    put(base + numbers([row + b])[0] * width + b, code.load(kind, source, row + b))

    with code.loop(first, last) as unit:
        if single:
            elements(unit)
        else:
            outer = unit // parts
            rows(outer, (unit - outer * parts) * part)


def take(x: np.ndarray, index: np.ndarray, dim: int, negative: bool) -> np.ndarray | None:
    """The entries `index` along `dim`, or its elements; None if an index is out of range.

    Args:
        index: of entries (m), or (*, m) with the dimensions before `dim`; of elements as many dimensions as x.
        negative: whether indices may count from the end.
    """
    n, whole = x.shape[dim], index.ndim < x.ndim
    x, index = np.ascontiguousarray(x), np.ascontiguousarray(index)
    m = index.shape[-1 if whole else dim]
    width = math.prod(x.shape[dim + 1 :])
    form = ("last entries" if whole else "last") if width == 1 else "entries" if whole else "elements"
    rows = math.prod(x.shape[:dim]) * (1 if width == 1 else m)
    out = np.empty((*x.shape[:dim], m, *x.shape[dim + 1 :]), x.dtype)
    each = max(1, CHECKED // max(m if width == 1 else width, 1))
    routine = _take(KINDS[x.itemsize], INDICES[index.dtype.char], form, negative)
    args = x, index, out, n, m, width, rows, each, m if index.ndim > 1 else 0, -n if negative else 0
    return out if parallel_checked(routine, -(-rows // each), args, GRAIN * UNITS // CHECKED) else None


def parallel_checked(routine: Any, blocks: int, args: tuple, grain: int) -> bool:
    """Whether no block failed."""
    try:
        if blocks < 2 * grain:
            return routine(0, blocks, *args)
        parallel(_Raising(routine), blocks, *args, grain=grain)  # type: ignore[arg-type]
    except RuntimeError:
        return False
    return True


class _Raising:
    """A routine whose failure raises RuntimeError on the calling thread too."""

    __slots__ = ("routine", "name", "prepare")

    def __init__(self, routine: Any):
        self.routine, self.name, self.prepare = routine, routine.name, routine.prepare

    def __call__(self, first: int, last: int, *args: Any) -> None:
        if not self.routine(first, last, *args):
            raise RuntimeError("an index is out of range")


def put(out: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, how: str, negative: bool) -> bool:
    """Place `source` at the entries `index` of the contiguous `out`, in order: "set", "sum", "prod", "amax" or "amin".

    Args:
        index: as in `take`.
        source: contiguous.
        negative: whether indices may count from the end.
    Returns: whether all indices are in range; if not, some elements may be placed already.
    """
    n, whole = out.shape[dim], index.ndim < out.ndim
    index = np.ascontiguousarray(index)
    m = index.shape[-1 if whole else dim]
    width = math.prod(out.shape[dim + 1 :])
    outer = math.prod(out.shape[:dim])
    threads = THREADS.count if outer < 16 else 1
    if width == 1:
        parts, part = 1, int(outer == 1)
    else:
        part = max(-(-width // (2 * threads * WIDTH)) * WIDTH if threads > 1 else width, 1)
        parts = -(-width // part)
    kind = KINDS[out.itemsize] if how == "set" else ADDED[out.dtype.char]
    routine = _put(kind, INDICES[index.dtype.char], whole, width == 1, how, negative)
    grain = max(1, UNITS * 2 * parts // max(m * width, 1))
    args = out, index, source, n, m, width, parts, part, m if index.ndim > 1 else 0, -n if negative else 0
    return parallel_checked(routine, outer * parts, args, grain)
