"""Sorting and selection along contiguous rows by keys: integers that are ordered as the elements are.

A float's bits, those of a negative one inverted but for the sign, are such a key; NaN has the largest, and -0 that of 0.
Rows are sorted stably by their keys' digits, the lowest first (LSD radix sort); an element of a rank is found by counting
the highest digits. Both take time in proportion to the row, whatever its order.
"""

from __future__ import annotations

from tdt._kernels._code import Code, Value, Variable, native

INTEGERS = {"f": "i32", "d": "i64", "i": "i32", "l": "i64", "q": "i64", "h": "i16", "b": "i8"}
SIGNED_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
LARGEST = {"f": 0x7FFFFFFF, "d": 0x7FFFFFFFFFFFFFFF}


def _key(code: Code, letter: str, x: Value, place: Value, flip: Value) -> Value:
    """The key of an element, in an integer as large, whose order without sign is that of the elements.

    flip: all ones to sort in descending order, else 0.
    """
    kind = INTEGERS[letter]
    bits = SIGNED_BITS[kind]
    if letter in "fd":
        value = code.load({"f": "float", "d": "double"}[letter], x, place)
        number = code.bits(value + 0.0, kind)
        number = code.select(number < 0, number ^ LARGEST[letter], number)
        number = code.select(value != value, LARGEST[letter], number)
    else:
        number = code.load(kind, x, place)
    return number ^ -(1 << (bits - 1)) ^ code.cast(flip, kind)


def sort_by_digits(code: Code, buffers: list[Value], counts: Value, n: Value, bits: int, digit: int) -> None:
    """Sort (keys, places) in the first two buffers by all digits; an even number of passes leaves them there."""
    keys, places, other_keys, other_places = buffers
    kind = f"i{bits}"
    passes = -(-bits // digit)
    for step in range(passes):
        shift = step * digit
        with code.loop(0, 1 << digit) as d:
            code.store(code.value(0, "i32"), counts, d)

        def digit_of(key: Value, shift: int = shift) -> Value:
            return code.cast((key >> shift) & ((1 << digit) - 1), "i64", signed=False)

        with code.loop(0, n) as i:
            d = digit_of(code.load(kind, keys, i))
            code.store(code.load("i32", counts, d) + 1, counts, d)
        total = code.variable("i32", 0)
        with code.loop(0, 1 << digit) as d:
            count = code.load("i32", counts, d)
            code.store(total.get(), counts, d)
            total.add(count)
        with code.loop(0, n) as i:
            key = code.load(kind, keys, i)
            d = digit_of(key)
            at = code.load("i32", counts, d)
            code.store(at + 1, counts, d)
            wide = code.cast(at, "i64")
            code.store(key, other_keys, wide)
            code.store(code.load("i32", places, i), other_places, wide)
        keys, places, other_keys, other_places = other_keys, other_places, keys, places
    if passes % 2:
        with code.loop(0, n) as i:
            code.store(code.load("i32", places, i), other_places, i)


@native("pppqqqqq")
def argsort(code: Code, first: Value, last: Value, arguments: list[Value], letter: str, digit: int) -> None:
    """x, out (indices), scratch, n, rows, each (rows of a block), bytes of scratch of a block, flip.

    digit: bits of a digit.
    """
    x, out, scratch, n, rows, each, room, flip = arguments
    bits = SIGNED_BITS[INTEGERS[letter]]
    with code.loop(first, last) as block:
        base = code.at("i8", scratch, block * room)
        keys = base
        other_keys = code.at("i8", base, n * (bits // 8))
        places = code.at("i8", base, n * (bits // 4))
        other_places = code.at("i32", places, n)
        counts = code.at("i32", other_places, n)
        with code.loop(block * each, code.minimum((block + 1) * each, rows)) as row:
            with code.loop(0, n) as i:
                code.store(_key(code, letter, x, row * n + i, flip), keys, i)
                code.store(code.cast(i, "i32"), places, i)
            sort_by_digits(code, [keys, places, other_keys, other_places], counts, n, bits, digit)
            with code.loop(0, n) as i:
                code.store(code.cast(code.load("i32", places, i), "i64"), out, row * n + i)


@native("ppppqqqqqqq")
def ranked(code: Code, first: Value, last: Value, arguments: list[Value], letter: str, digit: int) -> None:
    """x, out (indices), scratch, ranks, n, rows, each (rows of a block), bytes of scratch of a block, flip, m, mode.

    Mode 0: out (rows) is the index of the element of rank m in stable order. Mode 1: of the first NaN, if there is one.
    Mode 2: of the lower median of the numbers. Mode 3: out (rows, m) are the indices of the m lowest, in order of index.
    """
    x, out, scratch, _, n, rows, each, room, flip, m, mode = arguments
    kind = INTEGERS[letter]
    bits = SIGNED_BITS[kind]
    top = code.value(LARGEST.get(letter, 0), kind) if letter in "fd" else None
    with code.loop(first, last) as block:
        keys = code.at("i8", scratch, block * room)
        left = code.at("i8", keys, n * (bits // 8))  # the keys that begin with the digits found so far
        counts = code.at("i8", left, n * (bits // 8))
        with code.loop(block * each, code.minimum((block + 1) * each, rows)) as row:
            nans = code.variable("i64", 0)
            with code.loop(0, n) as i:
                key = _key(code, letter, x, row * n + i, flip)
                code.store(key, keys, i)
                code.store(key, left, i)
                if top is not None:
                    nan = (key ^ code.cast(flip, kind)) == (top ^ -(1 << (bits - 1)))
                    nans.add(code.cast(nan, "i64", signed=False))
            rank = code.variable("i64", code.select(mode == 3, m - 1, m))
            with code.when(mode == 2):
                numbers = n - nans.get()
                rank.set(code.select(numbers > 0, (numbers - 1) // 2, 0))
            with code.when((mode == 1) & (nans.get() > 0)):
                rank.set(n - nans.get())
            found = _key_of_rank(code, left, counts, n, rank, bits, digit)
            _write_ranked(code, keys, out, n, row, (rank, found), m, mode, kind)


def _key_of_rank(code: Code, left: Value, counts: Value, n: Value, rank: Variable, bits: int, digit: int) -> Variable:
    """The key of the element of a rank, digit by digit from the highest; `rank` becomes the rank among equal keys."""
    kind = f"i{bits}"
    size, found = code.variable("i64", n), code.variable(kind, 0)
    shift = bits
    while shift:
        width = min(digit, shift)
        shift -= width

        def digit_of(key: Value, shift: int = shift, width: int = width) -> Value:
            return code.cast((key >> shift) & ((1 << width) - 1), "i64", signed=False)

        with code.loop(0, 1 << width) as d:
            code.store(code.value(0, "i32"), counts, d)
        with code.loop(0, size.get()) as i:
            d = digit_of(code.load(kind, left, i))
            code.store(code.load("i32", counts, d) + 1, counts, d)
        d = code.variable("i64", 0)
        with code.forever() as leave:
            count = code.cast(code.load("i32", counts, d.get()), "i64")
            leave(rank.get() < count)
            rank.add(count * -1)
            d.add(1)
        found.set(found.get() | (code.cast(d.get(), kind) << shift))
        if shift:
            remaining = code.variable("i64", 0)
            with code.loop(0, size.get()) as i:
                key = code.load(kind, left, i)
                code.store(key, left, remaining.get())
                remaining.add(code.cast(digit_of(key) == d.get(), "i64", signed=False))
            size.set(remaining.get())
    return found


def _write_ranked(code: Code, keys: Value, out: Value, n: Value, row: Value, found: tuple, m: Value, mode: Value,
                  kind: str) -> None:  # fmt: skip
    rank, key = found[0].get(), found[1].get()

    def one() -> None:
        equals = code.variable("i64", 0)
        i = code.variable("i64", 0)
        with code.forever() as leave:
            equal = code.load(kind, keys, i.get()) == key
            leave(equal & (equals.get() == rank))
            equals.add(code.cast(equal, "i64", signed=False))
            i.add(1)
        code.store(i.get(), out, row)

    def several() -> None:
        sign = -(1 << (SIGNED_BITS[kind] - 1))
        equals, written = code.variable("i64", 0), code.variable("i64", 0)
        with code.loop(0, n) as i:
            each = code.load(kind, keys, i)
            equal = each == key
            take = ((each ^ sign) < (key ^ sign)) | (equal & (equals.get() <= rank))
            equals.add(code.cast(equal, "i64", signed=False))
            with code.when(take):
                code.store(i, out, row * m + written.get())
                written.add(1)

    code.choose(mode == 3, several, one)
