"""Draws from the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), many at a time.

NumPy makes one word after the other; a state's 624 words can be made as vectors, since each follows from words that lie 227
places back, or ahead of it. What is drawn, uniform numbers or coin flips, is computed from them while they are in the cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels._exponential import log
from tdt._kernels._inline import inline
from tdt._kernels._trigonometric import cos_of_small, sin_of_small
from tdt._kernels.expression import sqrt

SIZE, MIDDLE = 624, 397
UPPER, LOWER, TWIST = 0x80000000, 0x7FFFFFFF, 0x9908B0DF
MASK_7, MASK_15 = 0x9D2C5680, 0xEFC60000
ROOM = 2 * SIZE  # words that are made before they are used; a multiple of 2 · PAIRS
PAIRS = 8  # of normal numbers that are computed together, of as many radii and angles
TURN = float(np.float32(2 * np.pi))
# Of integers that are drawn, by NumPy's codes.
KINDS = {"i8": "i64", "i4": "i32", "i2": "i16", "i1": "i8", "u1": "i8", "b1": "i8", "f4": "float", "f8": "double"}


def renew(code: Code, state: Value) -> None:
    """The next 624 words of the state."""

    def some(start: int, stop: int, ahead: int) -> None:
        with code.loop(start, stop) as k:
            _twist(code, state, k, k + 1, k + ahead)

    some(0, SIZE - MIDDLE, MIDDLE)
    some(SIZE - MIDDLE, SIZE - 1, MIDDLE - SIZE)
    last = code.value(SIZE - 1, "i64")
    _twist(code, state, last, code.value(0, "i64"), code.value(MIDDLE - 1, "i64"))


def _twist(code: Code, state: Value, place: Value, following: Value, other: Value) -> None:
    after = code.load("i32", state, following)
    y = (code.load("i32", state, place) & UPPER) | (after & LOWER)
    twisted = code.load("i32", state, other) ^ (y >> 1)
    code.store(twisted ^ code.select((y & 1) != 0, code.value(TWIST, "i32"), 0), state, place)


def tempered(y: Value) -> Value:
    """The word that is drawn of one of the state."""
    y = y ^ (y >> 11)
    y = y ^ ((y << 7) & MASK_7)
    y = y ^ ((y << 15) & MASK_15)
    return y ^ (y >> 18)


def _fill(code: Code, state: Value, place: Variable, words: Value, count: Value) -> None:
    """Write the next `count` words to `words`."""
    done = code.variable("i64", 0)
    with code.forever() as leave:
        leave(done.get() >= count)
        with code.when(place.get() == SIZE):
            renew(code, state)
            place.set(0)
        many = code.minimum(count - done.get(), code.value(SIZE, "i64") - place.get())
        begin, to = place.get(), done.get()
        with code.loop(0, many) as i:
            code.store(tempered(code.load("i32", state, begin + i)), words, to + i)
        place.add(many)
        done.add(many)


@contextlib.contextmanager
def _words(code: Code, state: Value, n: Value, each: int) -> Iterator[tuple[Value, Value, Value]]:
    """A loop over the words of `n` numbers, `each` of a number: some words, the first number that they are of, and how many."""
    words = code.array("i32", ROOM)
    place = code.variable("i64", code.cast(code.load("i32", state, SIZE), "i64"))
    with code.loop(0, n, ROOM // each) as start:
        count = code.minimum(n - start, ROOM // each)
        _fill(code, state, place, words, count * each)
        yield words, start, count
    code.store(code.cast(place.get(), "i32"), state, SIZE)


def _pair(code: Code, words: Value, i: Value) -> Value:
    """64 bits of two words, of which the first is the high half."""
    high, low = (code.cast(code.load("i32", words, i * 2 + k), "i64", signed=False) for k in (0, 1))
    return (high << 32) | low


def _unit(code: Code, bits: Value) -> Value:
    """53 bits as a number on [0, 1)."""
    return code.cast(bits, "double") * 2.0**-53


def _scaled(code: Code, unit: Value, low: Value, high: Value) -> Value:
    """low + unit · (high - low), rounded once; what rounds to `high` becomes `low`."""
    low, high = code.cast(low, unit.kind), code.cast(high, unit.kind)
    value = code.call("fma", unit, high - low, low)
    return code.select(value >= high, low, value)


@native("ppqddq")
def draws(code: Code, first: Value, last: Value, arguments: list[Value], how: str, kind: str = "i8") -> None:
    """state, out, n, low, high, bound: `n` numbers, each from one word, or from two: "pairs", "unit64", and in the type `kind`
    1 or 0 ("below") and exponential numbers of the mean -`low`.
    """
    state, out, n, low, high, bound = arguments
    each = 1 if how in ("words", "words32", "unit32") else 2
    with _words(code, state, n, each) as (words, start, count), code.loop(0, count) as i:
        if how == "words":
            value = code.cast(code.load("i32", words, i), "i64", signed=False)
        elif how == "words32":
            value = code.load("i32", words, i)
        elif how == "unit32":
            bits = code.load("i32", words, i) & 0xFFFFFF
            value = _scaled(code, code.cast(bits, "float") * 2.0**-24, low, high)
        else:
            value = _pair(code, words, i)
            if how != "pairs":
                value = value & (2**53 - 1)
            if how == "unit64":
                value = _scaled(code, _unit(code, value), low, high)
            elif how == "exponential":
                value = code.cast(code.function("log1p", "double", 0.0 - _unit(code, value)) * low, kind)
            elif how == "below":
                value = code.cast(value < bound, kind, signed=False)
        code.store(value, out, start + i)


@native("ppqqq")
def integers_of(code: Code, first: Value, last: Value, arguments: list[Value], wide: bool, kind: str) -> None:
    """state, out, n, span, low: `n` integers on [low, low + span), remainders of one word each, or of two if `wide`.

    There are fewer than 2⁶³ integers in the range, and fewer than 2³¹ unless it is wide.
    """
    state, out, n, span, low = arguments
    real = code.cast(span, "double")
    inverse = 1.0 / real
    with _words(code, state, n, 2 if wide else 1) as (words, start, count), code.loop(0, count) as i:
        if wide:
            value = _pair(code, words, i) % span
        else:  # a quotient of 32 bits is off by one at most
            word = code.cast(code.load("i32", words, i), "double", signed=False)
            rest = word - code.call("floor", word * inverse) * real
            rest = code.select(rest < 0.0, rest + real, rest)
            rest = code.select(rest >= real, rest - real, rest)
            value = code.cast(code.cast(rest, "i32"), "i64")
        code.store(code.cast(value + low, kind), out, start + i)


@native("ppqdd")
def blocks_of_normals(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """state, out, n, mean, std: `n` ≥ 16 normal numbers by the method of Box and Muller (1958), each from a uniform one.

    Of 16 uniform numbers 8 give radii and 8 angles; if 16 does not divide `n`, the last 16 are drawn again.
    """
    state, out, n, mean, std = arguments
    words = code.array("i32", ROOM)
    place = code.variable("i64", code.cast(code.load("i32", state, SIZE), "i64"))
    each, block = (2, _long_block(code, mean, std)) if kind == "double" else (1, _block(code, mean, std))

    def blocks(count: Value | int, to: Value) -> None:
        with code.loop(0, code.value(count, "i64") // (2 * PAIRS) * (2 * PAIRS), 2 * PAIRS) as k:
            block(words, k, out, to + k)

    with code.loop(0, n, ROOM // each) as start:
        count = code.minimum(n - start, ROOM // each)
        _fill(code, state, place, words, count * each)
        blocks(count, start)
    with code.when(n % (2 * PAIRS) != 0):
        _fill(code, state, place, words, code.value(2 * PAIRS * each, "i64"))
        blocks(2 * PAIRS, n - 2 * PAIRS)
    code.store(code.cast(place.get(), "i32"), state, SIZE)


def _block(code: Code, mean: Value, std: Value) -> Callable[[Value, Value, Value, Value], None]:
    """What writes code for 16 normal numbers of float32: from the words at a place, to a place of the result."""
    shift, scale = (code.splat(code.cast(each, "float"), PAIRS) for each in (mean, std))

    def write(words: Value, k: Value, out: Value, to: Value) -> None:
        unit, turn = (
            code.cast(code.load("i32", words, k + half, PAIRS) & 0xFFFFFF, "float") * 2.0**-24 for half in (0, PAIRS)
        )
        radius = inline(code, lambda x: sqrt(log(1 - x) * -2), unit)
        for half, formula in ((0, cos_of_small), (PAIRS, sin_of_small)):
            value = radius * inline(code, lambda x, f=formula: f(x * TURN), turn) * scale
            code.store(value + shift, out, to + half)

    return write


def _long_block(code: Code, mean: Value, std: Value) -> Callable[[Value, Value, Value, Value], None]:
    """The same of float64, by the functions of the C library, which PyTorch calls too."""

    def write(words: Value, k: Value, out: Value, to: Value) -> None:
        with code.loop(0, PAIRS) as pair:
            unit, turn = (_unit(code, _pair(code, words, k + half + pair) & (2**53 - 1)) for half in (0, PAIRS))
            radius = code.call("sqrt", code.function("log", "double", 1.0 - unit) * -2.0)
            for half, function in ((0, "cos"), (PAIRS, "sin")):
                value = radius * code.function(function, "double", turn * (2 * np.pi))
                code.store(code.call("fma", value, std, mean), out, to + half + pair)

    return write


@native("pppq")
def _flips(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """state, probabilities, out, n. The code fails, before it draws, at a number that is no probability."""
    state, probabilities, out, n = arguments
    valid = code.variable("i1", 1)
    with code.loop(0, n) as i:
        p = code.load(kind, probabilities, i)
        valid.set(valid.get() & (p >= 0.0) & (p <= 1.0))
    with code.when(valid.get() == 0):
        code.fail()
    with _words(code, state, n, 2 if kind == "double" else 1) as (words, start, count), code.loop(0, count) as i:
        if kind == "double":
            unit = _unit(code, _pair(code, words, i) & (2**53 - 1))
        else:
            unit = code.cast(code.load("i32", words, i) & 0xFFFFFF, "float") * 2.0**-24
        code.store(code.cast(unit < code.load(kind, probabilities, start + i), kind), out, start + i)


@native("ppq")
def _shuffle(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """words, order, n: exchange each element with one of those from it on (Fisher and Yates)."""
    words, order, n = arguments
    with code.loop(0, n - 1) as i:
        left = code.cast(n - i, kind)
        j = i + code.cast(code.load(kind, words, i) % left, "i64", signed=False)
        a, b = code.load("i64", order, i), code.load("i64", order, j)
        code.store(b, order, i)
        code.store(a, order, j)


def draw(state: np.ndarray, n: int, how: str, dtype: Any, low: float = 0.0, high: float = 1.0, bound: int = 0) -> Any:
    """The next `n` numbers of a generator, whose state moves on.

    Args:
        state: 624 words and the place of the next one, in uint32.
        how: "words" or, in 32 bits, "words32"; "pairs" of words; "unit32" or "unit64" for uniform numbers on [low, high)
            of 24 or 53 bits; "below" for whether 53 bits are below `bound`.
        dtype: of the result, as `how` writes it.
    """
    out = np.empty(n, dtype)
    draws(how)(0, 1, state, out, n, float(low), float(high), bound)
    return out


def flips(state: np.ndarray, probabilities: np.ndarray) -> np.ndarray | None:
    """1 with the probability of each element of a contiguous array of float32 or float64, else 0, in its type.

    None, with nothing drawn, where an element is no probability.
    """
    out, kind = np.empty_like(probabilities), KINDS[probabilities.dtype.str[1:]]
    return out if _flips(kind)(0, 1, state, probabilities, out, out.size) else None


def words(state: np.ndarray, n: int) -> np.ndarray:
    """The next `n` words, in uint64. state: 624 words and the place of the next one, in uint32; it moves on."""
    return draw(state, n, "words", np.uint64)


def pairs(state: np.ndarray, n: int) -> np.ndarray:
    """The next `n` pairs of words in uint64, the first word of each as the high half."""
    return draw(state, n, "pairs", np.uint64)


def shuffled(numbers: np.ndarray, n: int) -> np.ndarray:
    """0 … n-1 in the order that random numbers (uint32 or uint64) give."""
    order = np.arange(n)
    _shuffle("i32" if numbers.itemsize == 4 else "i64")(0, 1, numbers, order, n)
    return order
