"""Elements of small arrays along the last dimension by indices: generalised ufuncs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tdt._kernels._code import SIZES, Code, Value, Variable
from tdt._kernels._gufunc import Operand, for_arrays, generalized
from tdt._kernels.index_cpu import combined

KINDS = {"f": "float", "d": "double", "i": "i32", "l": "i64", "q": "i64", "h": "i16", "b": "i8"}
NONE = np.zeros((), np.int64)  # copied for each call, to be set where one fails: faster than `zeros`
INDICES = {"l": "i64", "q": "i64", "i": "i32"}
VECTOR = 64  # bytes of a row that are added at a time
MANY = 8  # indices that are compared at a time


def _number(code: Code, place: Value, kind: str, n: Value, negative: bool, failed: Variable) -> Value:
    """The index at a place, counted from the end where it is `negative`; 0, and `failed` becomes 1, where it is out of range."""
    number = code.cast(code.load(kind, place), "i64")
    number = code.select(number < 0, number + n, number) if negative else number
    bad = (number < 0) | (number >= n)
    failed.set(failed.get() | code.cast(bad, "i64"))
    return code.select(bad, 0, number)


@contextlib.contextmanager
def _noting(code: Code, failed: Operand) -> Iterator[Variable]:
    """A variable; if the block makes it 1, the word `failed` becomes 1."""
    found = code.variable("i64", 0)
    yield found
    with code.when(found.get() != 0):
        code.store(found.get(), failed.address)


@generalized("(n),(m),()->(m)")
def row_take(code: Code, operands: list[Operand], sizes: list[Value], letter: str, index_letter: str,
             negative: bool) -> None:  # fmt: skip
    """x, index, a word that becomes 1 for an index out of range; x has elements."""
    x, index, failed, out = operands
    n, m = sizes
    kind, integer = KINDS[letter], INDICES[index_letter]

    def read(number: Value, k: Value) -> None:
        code.store(code.load(kind, x.place(code, number)), out.place(code, k))

    _at_indices(code, index, integer, (n, m), negative, failed, read)


def _at_indices(
    code: Code, index: Operand, integer: str, sizes: Sequence[Value], negative: bool, failed: Operand,
    move: Callable[[Value, Value], None],
) -> None:  # fmt: skip
    """`move(number, k)` for each index and its place k, in order.

    Indices that lie side by side are compared by vectors before; only where one is not in [0, n), each is looked at again.
    """
    n, m = sizes

    def quickly() -> None:
        with code.loop(0, m) as k:
            move(code.cast(code.load(integer, index.address, k), "i64"), k)

    def singly() -> None:
        with _noting(code, failed) as found, code.loop(0, m) as k:
            move(_number(code, index.place(code, k), integer, n, negative, found), k)

    code.choose(_all_in_range(code, index, integer, n, m), quickly, singly)


@generalized("(n),(m),(m),()->()")
def row_place(code: Code, operands: list[Operand], sizes: list[Value], letter: str, index_letter: str,
              negative: bool, how: str) -> None:  # fmt: skip
    """x, which is written to, index, what is `combined` with it in order, a word as in `row_take`; a result of no meaning."""
    x, index, source, failed, out = operands
    n, m = sizes
    kind = KINDS[letter]

    def write(number: Value, k: Value) -> None:
        place, new = x.place(code, number), code.load(kind, source.place(code, k))
        code.store(combined(code, how, code.load(kind, place), new), place)

    _at_indices(code, index, INDICES[index_letter], (n, m), negative, failed, write)
    code.store(code.value(0, "i8"), out.address)


def _all_in_range(code: Code, index: Operand, integer: str, n: Value, m: Value) -> Value:
    """Whether m indices lie side by side, and in [0, n)."""
    bad = code.variable(f"<{MANY} x i1>", 0)
    last = code.variable("i1", 0)

    def compare() -> None:
        whole = m // MANY * MANY
        end = code.cast(n, integer)
        with code.loop(0, whole, MANY) as k:
            numbers = code.load(integer, index.address, k, MANY)
            bad.set(bad.get() | (numbers < 0) | (numbers >= code.splat(end, MANY)))
        with code.loop(whole, m) as k:
            number = code.load(integer, index.address, k)
            last.set(last.get() | (number < 0) | (number >= end))

    code.choose(index.strides[0] == SIZES[integer], compare, lambda: last.set(code.value(1, "i1")))
    several = code.new(f"i{MANY}", f"bitcast <{MANY} x i1> {bad.get().name} to i{MANY}")
    return (several == 0) & (last.get() == 0)


@generalized("(n,d),(m),(m,d),()->()")
def row_place_entries(code: Code, operands: list[Operand], sizes: list[Value], letter: str, index_letter: str,
                      negative: bool, how: str) -> None:  # fmt: skip
    """`row_place` of rows, in x and in what is placed, whose elements lie side by side."""
    x, index, source, failed, out = operands
    n, d, m = sizes
    kind, zero = KINDS[letter], code.value(0, "i64")
    with _noting(code, failed) as found, code.loop(0, m) as k:
        number = _number(code, index.place(code, k), INDICES[index_letter], n, negative, found)
        target, row = x.place(code, number, zero), source.place(code, k, zero)
        many = VECTOR // SIZES[kind]
        whole = d // many * many
        for begin, end, count in ((zero, whole, many), (whole, d, 0)):
            with code.loop(begin, end, count or 1) as j:
                new = code.load(kind, row, j, count)
                code.store(combined(code, how, code.load(kind, target, j, count), new), target, j)
    code.store(code.value(0, "i8"), out.address)


@generalized("(m),(m),(),(),()->(m)")
def joined(code: Code, operands: list[Operand], sizes: list[Value], outer_letter: str, inner_letter: str) -> None:
    """Integers of two dimensions, which may count from the end, the dimensions' sizes, a word as in `row_take`.

    The places of the elements, outer · size of the inner dimension + inner.
    """
    outer, inner, outer_size, inner_size, failed, out = operands
    (m,) = sizes
    rows, columns = (code.load("i64", a.address) for a in (outer_size, inner_size))
    kinds, zero = (INDICES[outer_letter], INDICES[inner_letter]), code.value(0, "i64")

    def side_by_side() -> None:
        whole, bad = m // MANY * MANY, code.variable(f"<{MANY} x i1>", 0)

        def number(address: Value, kind: str, k: Value, n: Value) -> Value:
            found, n = code.cast(code.load(kind, address, k, MANY), "i64"), code.splat(n, MANY)
            found = code.select(found < 0, found + n, found)
            bad.set(bad.get() | (found < 0) | (found >= n))
            return found

        with code.loop(0, whole, MANY) as k:
            row, column = number(outer.address, kinds[0], k, rows), number(inner.address, kinds[1], k, columns)
            code.store(row * code.splat(columns, MANY) + column, out.address, k)
        several = code.new(f"i{MANY}", f"bitcast <{MANY} x i1> {bad.get().name} to i{MANY}")
        with code.when(several != 0):
            code.store(code.value(1, "i64"), failed.address)
        singly(whole)

    def singly(first: Value) -> None:
        with _noting(code, failed) as found, code.loop(first, m) as k:
            row, column = (
                _number(code, a.place(code, k), kind, n, True, found)
                for a, kind, n in zip((outer, inner), kinds, (rows, columns), strict=True)
            )
            code.store(row * columns + column, out.place(code, k))

    dense = out.strides[0] == SIZES["i64"]
    for operand, kind in zip((outer, inner), kinds, strict=True):
        dense = dense & (operand.strides[0] == SIZES[kind])
    code.choose(dense, side_by_side, lambda: singly(zero))


@generalized("(n,d),(m),()->(m,d)")
def row_entries(code: Code, operands: list[Operand], sizes: list[Value], index_letter: str, size: int) -> None:
    """Rows whose elements, of `size` bytes, lie side by side, an index, a word as in `row_take`: the rows at the index."""
    x, index, failed, out = operands
    n, d, m = sizes
    zero = code.value(0, "i64")
    with _noting(code, failed) as found, code.loop(0, m) as k:
        number = _number(code, index.place(code, k), INDICES[index_letter], n, False, found)
        code.copy(out.place(code, k, zero), x.place(code, number, zero), d * size)


@generalized("(n,d),(m),(),(),()->(d)")
def row_bag(code: Code, operands: list[Operand], sizes: list[Value], letter: str, index_letter: str,
            offset_letter: str) -> None:  # fmt: skip
    """Rows of x, whose elements lie side by side, an index, the first and last place in it, a word as in `row_take`.

    The sum of the rows there, one after the other; places that are out of order fail too.
    """
    x, index, first, last, failed, out = operands
    n, d, m = sizes
    kind, zero = KINDS[letter], code.value(0, "i64")
    with _noting(code, failed) as found:
        start, stop = (code.cast(code.load(INDICES[offset_letter], a.address), "i64") for a in (first, last))
        bad = (start < 0) | (stop < start) | (stop > m)
        found.set(code.cast(bad, "i64"))
        start, stop = code.select(bad, 0, start), code.select(bad, 0, stop)
        many = VECTOR // SIZES[kind]
        whole = d // many * many
        for begin, end, count in ((zero, whole, many), (whole, d, 0)):
            with code.loop(begin, end, count or 1) as j:
                total = code.variable(f"<{count} x {kind}>" if count else kind, 0)
                with code.loop(start, stop) as k:
                    number = _number(code, index.place(code, k), INDICES[index_letter], n, False, found)
                    total.set(total.get() + code.load(kind, x.place(code, number, zero), j, count))
                code.store(total.get(), out.place(code, zero), j)


Views = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, ...]]
_codes: dict[tuple, Any] = {}


def _code_for(record: Any, letter: str, index_letter: str, *how: bool | str) -> Any:
    key = record, letter, index_letter, *how
    code = _codes.get(key)
    if code is None:
        types = letter + index_letter + ("q" + letter if record is row_take else letter + "q?")
        code = _codes[key] = record(types, letter, index_letter, *how)
    return code


def take(x: np.ndarray, index: np.ndarray, dim: int, negative: bool) -> np.ndarray | None:
    """The elements of x at `index`, a vector or of x's shape but for `dim`; None for an index out of range."""
    code = _code_for(row_take, x.dtype.char, index.dtype.char, negative)
    failed = NONE.copy()
    if dim == x.ndim - 1:
        out = code(x, index, failed)
    else:
        out = np.empty(index.shape, x.dtype)
        code(x.swapaxes(dim, -1), index.swapaxes(dim, -1), failed, out.swapaxes(dim, -1))
    return None if failed else out


def prepared_take(x: np.ndarray, index: np.ndarray, dim: int) -> Callable[..., np.ndarray]:
    """`take` of elements, without negative indices; see `prepares`."""
    code, shape, kind = _code_for(row_take, x.dtype.char, index.dtype.char, False), index.shape, x.dtype

    def taken(x: np.ndarray, index: np.ndarray, failed: np.ndarray) -> np.ndarray:
        out = np.empty(shape, kind)
        code(x.swapaxes(dim, -1), index.swapaxes(dim, -1), failed, out.swapaxes(dim, -1))
        return out

    out = np.empty(shape, kind)
    operands = [x.swapaxes(dim, -1), index.swapaxes(dim, -1), NONE.copy()]
    return raising(for_arrays(taken, code, operands, [(out, out.swapaxes(dim, -1))], tables=1))


def raising(run: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """`run` with a word for failures as its last argument; IndexError if it sets that.

    Calls share a word until one of them fails. No call clears it, so that one on another thread loses no failure.
    """
    word = NONE.copy()

    def called(*arrays: np.ndarray) -> np.ndarray:
        nonlocal word
        failed = word
        out = run(*arrays, failed)
        if failed:
            word = NONE.copy()
            raise IndexError("an index is out of range, or a degree")
        return out

    return called


def prepared_place(x: np.ndarray, index: np.ndarray, dim: int, negative: bool, how: str) -> Callable[..., np.ndarray]:
    """A copy of x that was written to as `add` adds; see `prepares`.

    how: of `index_cpu.combined`.
    """
    code, views = _placing(x, index, dim, negative, how)
    general = lambda x, index, source, failed: code(*views(x, index, source), failed)  # noqa: E731
    run = general
    if index.flags.c_contiguous:
        source = np.zeros(
            (*x.shape[:dim], len(index) if index.ndim == 1 else index.shape[dim], *x.shape[dim + 1 :]), x.dtype
        )
        zeros = views(np.zeros(x.shape, x.dtype), np.zeros(index.shape, index.dtype), source)
        run = for_arrays(general, code, [*zeros, NONE.copy()])

    def placed(x: np.ndarray, index: np.ndarray, source: np.ndarray, failed: np.ndarray) -> np.ndarray:
        out = x.copy()
        run(out, index, source, failed)
        return out

    return raising(placed)


def _placing(x: np.ndarray, index: np.ndarray, dim: int, negative: bool, how: str) -> tuple[Callable[..., Any], Views]:
    """The ufunc that writes to x, with a word as in `row_take`; and what gives its operands of x, the index and the source."""
    types = x.dtype.char, index.dtype.char, negative, how
    if index.ndim < x.ndim and dim < x.ndim - 1:
        shape, rows = (*x.shape[: dim + 1], -1), (*x.shape[:dim], index.shape[-1], -1)
        code = _code_for(row_place_entries, *types)
        return code, lambda x, index, source: (x.reshape(shape), index, source.reshape(rows))
    return _code_for(row_place, *types), lambda x, index, source: (
        x.swapaxes(dim, -1), index if index.ndim == 1 else index.swapaxes(dim, -1), source.swapaxes(dim, -1)
    )  # fmt: skip


def prepared_entries(x: np.ndarray, index: np.ndarray) -> Callable[..., np.ndarray]:
    """`entries`; see `prepares`."""
    if x.ndim == 1 and x.dtype.char in KINDS:
        code = _code_for(row_take, x.dtype.char, index.dtype.char, False)
        return raising(for_arrays(code, code, [x, index, NONE.copy()]))
    code, rows, shape = _entries_code(x.dtype, index.dtype), (len(x), -1), (*index.shape, *x.shape[1:])
    general = lambda x, index, failed: code(x.reshape(rows), index.reshape(-1), failed).reshape(shape)  # noqa: E731
    out, flat = np.empty(shape, x.dtype), index.reshape(-1)
    operands, results = [x.reshape(rows), flat, NONE.copy()], [(out, out.reshape(len(flat), -1))]
    return raising(for_arrays(general, code, operands, results, tables=1))


def prepared_entries_along(x: np.ndarray, index: np.ndarray, dim: int, whole: tuple) -> Callable[..., np.ndarray]:
    """The elements of a contiguous x at an index that was expanded: index[whole] names entries along `dim`. See `prepares`."""
    code, rows, shape = _entries_code(x.dtype, index.dtype), (*x.shape[: dim + 1], -1), index.shape
    general = lambda x, index, failed: code(x.reshape(rows), index[whole], failed).reshape(shape)  # noqa: E731
    out = np.empty(shape, x.dtype)
    operands, results = [x.reshape(rows), index[whole], NONE.copy()], [(out, out.reshape(*shape[: dim + 1], -1))]
    return raising(for_arrays(general, code, operands, results, tables=1))


def entries(x: np.ndarray, index: np.ndarray) -> np.ndarray | None:
    """The rows x[index] of a contiguous array, for contiguous indices, or a vector of them; None for one out of range."""
    if x.ndim == 1 and x.dtype.char in KINDS:
        return take(x, index, 0, False)
    failed = NONE.copy()
    rows = x if x.ndim == 2 else x.reshape(len(x), -1)
    out = _entries_code(x.dtype, index.dtype)(rows, index.reshape(-1), failed)
    return None if failed else out if x.ndim == 2 and index.ndim == 1 else out.reshape(*index.shape, *x.shape[1:])


@functools.cache
def _entries_code(kind: np.dtype, index_kind: np.dtype) -> Callable[..., np.ndarray]:
    """(rows of elements of a type, index, word) → the rows at the index."""
    letter = index_kind.char
    if kind.char in KINDS:
        return row_entries(f"{kind.char}{letter}q{kind.char}", letter, kind.itemsize)
    code = row_entries(f"B{letter}qB", letter, 1)
    return lambda rows, index, failed: code(rows.view(np.uint8), index, failed).view(kind)


def add(out: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, negative: bool) -> bool:
    """Add `source` to `out` at `index`, of source's shape or a vector, in order; whether all indices are in range.

    out: contiguous; and `source` too, where the index is a vector.
    """
    failed = NONE.copy()
    code, views = _placing(out, index, dim, negative, "sum")
    code(*views(out, index, source), failed)
    return not failed


def flat_index(index: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray | None:
    """The flat places of the integers of several dimensions, broadcast; None if one is out of range."""
    whole = index[0].shape
    if not whole or any(each.shape != whole for each in index):
        index = np.broadcast_arrays(*index)
        whole = index[0].shape
        index = [np.atleast_1d(each) for each in index]
    places, size, failed = index[0], shape[0], NONE.copy()
    for inner, n in zip(index[1:], shape[1:], strict=True):
        letters = places.dtype.char, inner.dtype.char
        places = joined(f"{letters[0]}{letters[1]}qqqq", *letters)(places, inner, size, n, failed)
        size *= n
    return None if failed else places.reshape(whole)


def prepared_flat_index(index: Sequence[np.ndarray], shape: tuple[int, ...]) -> Callable[..., np.ndarray]:
    """`flat_index` of two dimensions, as a vector; see `prepares`."""
    letters, count = [each.dtype.char for each in index], index[0].size
    code, sizes = joined(f"{letters[0]}{letters[1]}qqqq", *letters), [np.array(n) for n in shape]
    run = for_arrays(code, code, [*[each.reshape(-1) for each in index], *sizes, NONE.copy()])
    return raising(lambda outer, inner, failed: run(outer.reshape(count), inner.reshape(count), *sizes, failed))


def bags(x: np.ndarray, index: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
    """The sums (B, D) of the rows of a contiguous x (n, D) at `index` (m) or (B, m), from the places `first` (B) to `last`.

    They are added one after the other. None if an index is out of range, or places are out of order.
    """
    letters = x.dtype.char, index.dtype.char, first.dtype.char
    failed = NONE.copy()
    out = row_bag("".join([*letters, letters[2], "q", letters[0]]), *letters)(x, index, first, last, failed)
    return None if failed else out
