"""Sorting and selection along the last dimension of small arrays, as NumPy's generalised ufuncs.

Keys are those of `_order`, as signed integers: ascending, or descending where inverted; NaN is last, or first. An
element's place among few is the number of smaller keys, of equal ones those before it: all are counted by vectors, without a
branch. Longer rows are sorted by digits. The order is stable, so that it is one, however it is found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tdt._kernels._code import SIZES, Code, Value, Variable, native
from tdt._kernels._conditions import LONGEST_ROW
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._order import INTEGERS, LARGEST, SIGNED_BITS, sort_by_digits

COMPARED = 5  # elements of a row that are compared one with another, each with each
FEW = 64  # elements of a row whose places are counted
MOST = LONGEST_ROW  # elements of a row whose keys lie on the stack
LANES = 8  # keys that are counted at a time
WIDE = 32  # and those that are compared with one
SKIPPED = 16  # elements that are compared with the last of the first k at once
DIGIT = 8  # bits


class Row:
    """The keys of a row on the stack.

    Keys of up to 32 bits are the upper half of a word whose lower half is the element's index, so that no two are equal.
    """

    def __init__(self, code: Code, letter: str, x: Operand, n: Value, descending: bool):
        self.code, self.letter, self.x, self.n, self.descending = code, letter, x, n, descending
        self.kind = INTEGERS[letter]
        self.element = {"f": "float", "d": "double"}.get(letter, self.kind)
        self.packed = SIZES[self.kind] < 8
        self.keys = code.array("i64", MOST)

    def key(self, i: Value) -> Value:
        """The key of an element, with its index if there is room."""
        return self._key(self.code.load(self.element, self.x.place(self.code, i)), i)

    def _key(self, number: Value, i: Value) -> Value:
        """The keys of an element, or of a vector of them, with the indices `i`."""
        code, letter = self.code, self.letter
        if letter in "fd":
            value, number = number, code.bits(number + 0.0, self.kind)  # -0 becomes 0
            number = code.select(number < 0, number ^ LARGEST[letter], number)
            number = code.select(value != value, code.value(LARGEST[letter], number.kind), number)
        number = number ^ -1 if self.descending else number
        return (code.cast(number, "i64") << 32) | i if self.packed else number

    def read(self) -> None:
        """Compute all keys."""
        code, start = self.code, self.code.variable("i64", 0)
        with code.when(self.x.strides[0] == SIZES[self.kind]):
            start.set(self.n // LANES * LANES)
            with code.loop(0, start.get(), LANES) as i:
                places = code.splat(i, LANES) + code.counting(LANES)
                code.store(self._key(code.load(self.element, self.x.address, i, LANES), places), self.keys, i)
        with code.loop(start.get(), self.n) as i:
            code.store(self.key(i), self.keys, i)

    def fill_up(self, lanes: int) -> None:
        """Let the keys that a vector reads beyond the last one be the largest."""
        with self.code.loop(self.n, (self.n + (lanes - 1)) // lanes * lanes) as i:
            self.code.store(self.code.value((1 << 63) - 1, "i64"), self.keys, i)

    def below(self, key: Value) -> Value:
        """How many keys are smaller. They must be filled up to a multiple of WIDE."""
        code = self.code
        count, bound = code.variable(f"<{WIDE} x i64>", 0), code.splat(key, WIDE)
        with code.loop(0, self.n, WIDE) as i:
            count.set(count.get() + code.cast(code.load("i64", self.keys, i, WIDE) < bound, "i64"))
        total = count.get()
        for _ in range(WIDE.bit_length() - 1):
            first, second = code.halves(total)
            total = first + second
        return total

    def of_rank(self, rank: Value) -> Value:
        """The key of an element of a rank, bit by bit from the highest: the largest that at most `rank` keys are below."""
        code, size = self.code, SIGNED_BITS[self.kind]
        top = 31 + size if self.packed else 63
        found = code.variable("i64", -1 << top)
        self.fill_up(WIDE)
        for first, last in ((top, 32), (MOST.bit_length() - 2, 0)) if self.packed else ((63, 0),):
            with code.loop(0, first - last + 1) as k:
                larger = found.get() + (code.value(1, "i64") << (first - k))
                found.set(code.select(self.below(larger) <= rank, larger, found.get()))
        return found.get()

    def counted(self, use: Callable[[Value, Value], None]) -> None:
        """`use(i, place)` for each of at most FEW elements: its index, and its place in order."""
        code, n = self.code, self.n
        self.fill_up(LANES)
        counts = code.array("i64", FEW)
        with code.loop(0, n, LANES) as i:
            own = code.load("i64", self.keys, i, LANES)
            count = code.variable(own.kind, 0)
            with code.loop(0, n) as j:
                other = code.splat(code.load("i64", self.keys, j), LANES)
                before = other < own
                if not self.packed:
                    before = before | ((other == own) & (code.splat(j - i, LANES) < code.counting(LANES)))
                count.set(count.get() + code.cast(before, "i64"))
            code.store(count.get(), counts, i)
        with code.loop(0, n) as i:
            use(i, code.load("i64", counts, i))

    def compared(self, count: int, use: Callable[[Value, Value], None]) -> None:
        """`counted` for rows of so many elements, each of which is compared with each."""
        code, numbers = self.code, [self.code.value(i, "i64") for i in range(count)]
        keys = [self.key(i) for i in numbers]
        places = [*numbers]
        for i, j in itertools.combinations(range(count), 2):
            later = code.cast(keys[j] < keys[i], "i64")  # whether element i comes after j, which is behind it
            places[i], places[j] = places[i] + later, places[j] - later
        for i, place in zip(numbers, places, strict=True):
            use(i, place)

    def none_before(self, start: Value, count: int, i: Value) -> Value:
        """Whether no element among `count` from `start` on comes before element i in order; of side by side elements."""
        code = self.code
        bound = code.splat(code.load(self.element, self.x.place(code, i)), count)
        elements = code.load(self.element, self.x.address, start, count)
        behind = elements <= bound if self.descending else elements >= bound
        if self.letter in "fd" and not self.descending:
            behind = behind | (elements != elements)
        return code.new(f"i{count}", f"bitcast {behind.kind} {behind.name} to i{count}") == -1

    def value(self, i: Value) -> Value:
        """An element's bits."""
        return self.code.load(self.kind, self.x.place(self.code, i))


def _sort_packed(row: Row, n: Value) -> Value:
    """Sort the first n keys by their upper halves; the address of the sorted ones, whose sign is inverted."""
    code, passes = row.code, SIGNED_BITS[row.kind] // DIGIT
    many = 1 << DIGIT
    counts, other = code.array("i32", passes * many), code.array("i64", MOST)
    with code.loop(0, passes * many, LANES) as d:
        code.store(code.value(0, f"<{LANES} x i32>"), counts, d)

    def digit_of(key: Value, step: int) -> Value:
        return (key >> (32 + step * DIGIT)) & (many - 1)

    with code.loop(0, n) as i:
        key = code.load("i64", row.keys, i) ^ _sign(row)
        code.store(key, row.keys, i)
        for step in range(passes):
            d = digit_of(key, step) + step * many
            code.store(code.load("i32", counts, d) + 1, counts, d)
    source, target = row.keys, other
    for step in range(passes):
        total = code.variable("i32", 0)
        with code.loop(step * many, (step + 1) * many) as d:
            count = code.load("i32", counts, d)
            code.store(total.get(), counts, d)
            total.add(count)
        with code.loop(0, n) as i:
            key = code.load("i64", source, i)
            d = digit_of(key, step) + step * many
            at = code.load("i32", counts, d)
            code.store(at + 1, counts, d)
            code.store(key, target, code.cast(at, "i64"))
        source, target = target, source
    return source


def _sign(row: Row) -> int:
    """The bit of the sign in a packed key; those above it are copies of it, and of no account in sorting."""
    top = 31 + SIGNED_BITS[row.kind]
    return -(1 << 63) if top == 63 else 1 << top


def _sort_row(code: Code, operands: list[Operand], n: Value, letter: str, descending: bool) -> None:
    x, values, indices = operands
    row = Row(code, letter, x, n, descending)

    def put(i: Value, place: Value) -> None:
        code.store(row.value(i), values.place(code, place))
        code.store(i, indices.place(code, place))

    _put_in_order(row, put)


def _put_in_order(row: Row, put: Callable[[Value, Value], None]) -> None:
    """`put(i, place)` for each element: its index, and its place in order."""
    code, n = row.code, row.n

    def several() -> None:
        row.read()
        code.choose(n <= FEW, lambda: row.counted(put), many)

    def many() -> None:
        if row.packed:
            keys = _sort_packed(row, n)
            with code.loop(0, n) as k:
                put(code.load("i64", keys, k) & 0xFFFFFFFF, k)
            return
        places, other_places = code.array("i32", MOST), code.array("i32", MOST)
        with code.loop(0, n) as i:
            code.store(code.load("i64", row.keys, i) ^ -(1 << 63), row.keys, i)
            code.store(code.cast(i, "i32"), places, i)
        buffers = [row.keys, places, code.array("i64", MOST), other_places]
        sort_by_digits(code, buffers, code.array("i32", 1 << DIGIT), n, 64, DIGIT)
        with code.loop(0, n) as k:
            put(code.cast(code.load("i32", places, k), "i64"), k)

    def begin(count: int) -> None:
        if count > COMPARED:
            several()
        else:
            code.choose(n == count, lambda: row.compared(count, put), lambda: begin(count + 1))

    begin(2)


@generalized("(n)->(n),(n)")
def row_sort(code: Code, operands: list[Operand], sizes: list[Value], letter: str, descending: bool) -> None:
    """The elements in order, and their indices; rows of at most MOST."""
    _sort_row(code, operands, sizes[0], letter, descending)


@native("pppqqq")
def sort_rows(code: Code, first: Value, last: Value, arguments: list[Value], letter: str, descending: bool) -> None:
    """x, values, indices: contiguous (rows, n), n, rows, each (rows of a block)."""
    *arrays, n, rows, each = arguments
    sizes = SIZES[INTEGERS[letter]], SIZES[INTEGERS[letter]], 8
    with code.loop(first * each, code.minimum(last * each, rows)) as row:
        places = [code.at("i8", a, row * n * size) for a, size in zip(arrays, sizes, strict=True)]
        strides = [(code.value(size, "i64"),) for size in sizes]
        _sort_row(code, [Operand(*o) for o in zip(places, strides, strict=True)], n, letter, descending)


@generalized("(n),(k)->(k),(k)")
def row_topk(code: Code, operands: list[Operand], sizes: list[Value], letter: str, descending: bool) -> None:
    """The first k elements in order, and their indices. The second operand gives k by its size."""
    x, _, values, indices = operands
    n, k = sizes
    row = Row(code, letter, x, n, descending)

    def put(i: Value, place: Value) -> None:
        code.store(row.value(i), values.place(code, place))
        code.store(i, indices.place(code, place))

    def few() -> None:
        row.read()

        def first(i: Value, place: Value) -> None:
            with code.when(place < k):
                put(i, place)

        row.counted(first)

    def many() -> None:
        """Insert each element that is smaller than the last of the first k so far, which are in order."""
        places = row.keys if row.packed else code.array("i64", MOST)
        found, last = code.variable("i64", 0), code.variable("i64", (1 << 63) - 1)
        dense = x.strides[0] == SIZES[row.kind]

        def place_of_last() -> Value:
            place = code.load("i64", places, k - 1)
            return place & 0xFFFFFFFF if row.packed else place

        with code.loop(0, n, SKIPPED) as start:
            some = code.variable("i1", 1)
            with code.when(dense & (found.get() == k) & (start + SKIPPED <= n)):
                some.set(row.none_before(start, SKIPPED, place_of_last()) ^ 1)
            with code.when(some.get()):
                insert(start, code.minimum(start + SKIPPED, n), places, found, last)
        with code.loop(0, k) as place:
            i = code.load("i64", places, place)
            put(i & 0xFFFFFFFF if row.packed else i, place)

    def insert(start: Value, stop: Value, places: Value, found: Variable, last: Variable) -> None:
        with code.loop(start, stop) as i:
            key = row.key(i)
            with code.when((found.get() < k) | (key < last.get())):
                j = code.variable("i64")
                j.set(code.minimum(found.get(), k - 1))
                with code.forever() as leave:
                    leave(j.get() == 0)
                    before = code.load("i64", row.keys, j.get() - 1)
                    leave(before <= key)
                    code.store(before, row.keys, j.get())
                    if not row.packed:
                        code.store(code.load("i64", places, j.get() - 1), places, j.get())
                    j.add(-1)
                code.store(key, row.keys, j.get())
                if not row.packed:
                    code.store(i, places, j.get())
                found.set(code.minimum(found.get() + 1, k))
                last.set(code.load("i64", row.keys, found.get() - 1))

    code.choose((n <= FEW) & (k * 2 > n), few, many)


@generalized("(n),(k)->(k),(k)")
def row_topk_of_many(code: Code, operands: list[Operand], sizes: list[Value], letter: str, descending: bool) -> None:
    """`row_topk` for larger k, and types of up to 32 bits: time does not depend on the order of the elements.

    Keys that are smaller than that of rank k among those before are collected. When there is no room, they are sorted, and the
    first k kept.
    """
    x, _, values, indices = operands
    n, k = sizes
    row, highest = Row(code, letter, x, n, descending), (1 << 63) - 1
    room = code.minimum(k * 4, MOST - 1)  # one key beyond is written, and not counted
    count, limit = code.variable("i64", 0), code.variable("i64", highest)
    dense = x.strides[0] == SIZES[row.kind]

    def keep_first() -> None:
        keys = _sort_packed(row, count.get())
        count.set(code.minimum(count.get(), k))
        with code.loop(0, count.get()) as place:
            code.store(code.load("i64", keys, place) ^ _sign(row), row.keys, place)
        with code.when(count.get() == k):
            limit.set(code.load("i64", row.keys, k - 1))

    with code.loop(0, n, SKIPPED) as start:
        stop = code.minimum(start + SKIPPED, n)
        some = code.variable("i1", 1)
        with code.when(dense & (limit.get() != highest) & (start + SKIPPED <= n)):
            some.set(row.none_before(start, SKIPPED, limit.get() & 0xFFFFFFFF) ^ 1)
        with code.when(some.get()), code.loop(start, stop) as i:
            key = row.key(i)
            code.store(key, row.keys, count.get())
            count.add(code.cast(key < limit.get(), "i64", signed=False))
        with code.when((count.get() + SKIPPED > room) | (stop == n)):
            keep_first()
    with code.loop(0, k) as place:
        i = code.load("i64", row.keys, place) & 0xFFFFFFFF
        code.store(row.value(i), values.place(code, place))
        code.store(i, indices.place(code, place))


@generalized("(n)->(),()")
def row_median(code: Code, operands: list[Operand], sizes: list[Value], letter: str, nan: bool) -> None:
    """The lower median and its index: of the numbers alone where `nan`, else of the first NaN if there is one."""
    x, value, index = operands
    (n,) = sizes
    row = Row(code, letter, x, n, False)
    row.read()
    numbers = code.variable("i64", n)
    if letter in "fd":
        largest = LARGEST[letter]
        with code.loop(0, n) as i:
            key = code.load("i64", row.keys, i)
            bad = ((key >> 32) if row.packed else key) == largest
            numbers.add(code.cast(bad, "i64", signed=False) * -1)
    good = numbers.get()
    rank = code.select(good > 0, (good - 1) // 2, 0)
    if not nan:
        rank = code.select(good < n, good, rank)
    _put_of_rank(code, row, rank, value, index)


@generalized("(n)->(),()")
def row_mode(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """The most frequent element, the smallest of equally frequent ones, and the last index at which it occurs."""
    x, value, index = operands
    (n,) = sizes
    row, order = Row(code, letter, x, n, False), code.array("i64", MOST)
    _put_in_order(row, lambda i, place: code.store(i, order, place))
    run, most, at = (code.variable("i64", 0) for _ in range(3))  # `run`: how many equal elements there are up to one
    before = code.variable("i64", code.load("i64", order, 0))
    with code.loop(0, n) as place:
        i = code.load("i64", order, place)
        one, other = (code.load(row.element, x.place(code, k)) for k in (i, before.get()))
        run.set(code.select(one == other, run.get() + 1, 1))  # a nan is no other's equal
        more = run.get() > most.get()
        most.set(code.select(more, run.get(), most.get()))
        at.set(code.select(more, i, at.get()))
        before.set(i)
    code.store(row.value(at.get()), value.address)
    code.store(at.get(), index.address)


@generalized("(n),()->(),()")
def row_kth(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """The element of a rank, the second operand, and its index."""
    x, rank, value, index = operands
    row = Row(code, letter, x, sizes[0], False)
    row.read()
    _put_of_rank(code, row, code.load("i64", rank.address), value, index)


def _put_of_rank(code: Code, row: Row, rank: Value, value: Operand, index: Operand) -> None:
    """Write the element whose place in order is `rank`, and its index."""

    def put(i: Value) -> None:
        code.store(row.value(i), value.address)
        code.store(i, index.address)

    def few() -> None:
        def one(i: Value, place: Value) -> None:
            with code.when(place == rank):
                put(i)

        row.counted(one)

    def many() -> None:
        found = row.of_rank(rank)
        if row.packed:
            put(found & 0xFFFFFFFF)
            return
        remaining = code.variable("i64", rank - row.below(found))
        i = code.variable("i64", 0)
        with code.forever() as leave:
            equal = code.load("i64", row.keys, i.get()) == found
            leave(equal & (remaining.get() == 0))
            remaining.add(code.cast(equal, "i64", signed=False) * -1)
            i.add(1)
        put(i.get())

    code.choose(row.n <= FEW, few, many)
