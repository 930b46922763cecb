"""The remainder of a large number by π/2, in LLVM IR.

Source: M. H. Payne, R. N. Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18, 1983.

x = m 2^e, with an integer m of 24 bits. Of the product of m and 2/π only the bits from 4's down to 2^-62 matter: those
above are whole turns. They come from 96 bits of 2/π, whose place follows from e.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tdt._kernels._emit import Emitter

# The quarter turn nearest to x, from 0 to 3, and what is left, as the sum of two numbers.
RESULTS = ("angle_quarter", "angle_high", "angle_low")
SMALLEST = 2.0**14  # of the numbers that `angle` reduces

TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561  # · 2^256
FIRST = 24  # zeros in front, so that the place of the smallest x is in the table
WORDS = 24
TABLE_NAME = "@two_over_pi"


def words_of_table() -> list[int]:
    """32 bits each of 2/π, one word for each byte that they may start at."""
    return [TWO_OVER_PI >> (256 + FIRST - 8 * k - 32) & 0xFFFFFFFF for k in range(WORDS)]


TABLE = f"{TABLE_NAME} = internal constant [{WORDS} x i32] [{', '.join(f'i32 {w}' for w in words_of_table())}]"


def angle(emitter: Emitter, result: str, x: str) -> str:
    """The name of one of `RESULTS` of the vector x, positive numbers from `SMALLEST` on."""
    new, splat, w = emitter.new, emitter.splat, emitter.width
    words, longs = f"<{w} x i32>", f"<{w} x i64>"
    number = new(f"bitcast <{w} x float> {x} to {words}")
    # The first bit that matters: that of 2^(-e + 1) in 2/π, e = exponent - 150. Infinity and NaN read within the table too.
    place = new(f"lshr {words} {number}, {splat(23, 'i32')}")
    place = new(f"sub {words} {place}, {splat(152 - FIRST, 'i32')}")
    shift = new(f"and {words} {place}, {splat(7, 'i32')}")
    place = new(f"lshr {words} {place}, {splat(3, 'i32')}")
    m = new(f"and {words} {number}, {splat(0x7FFFFF, 'i32')}")
    m = new(f"or {words} {m}, {splat(0x800000, 'i32')}")
    m = new(f"shl {words} {m}, {shift}")
    m = new(f"zext {words} {m} to {longs}")
    products = []
    for later in (0, 4, 8):
        index = new(f"add {words} {place}, {splat(later, 'i32')}")
        gathered = "zeroinitializer"
        for k in range(w):  # a gather instruction, in the parts that every processor has
            at = new(f"extractelement {words} {index}, i32 {k}")
            at = new(f"getelementptr i32, ptr {TABLE_NAME}, i32 {at}")
            at = new(f"load i32, ptr {at}, align 4")
            gathered = new(f"insertelement {words} {gathered}, i32 {at}, i32 {k}")
        part = new(f"zext {words} {gathered} to {longs}")
        products.append(new(f"mul {longs} {m}, {part}"))
    high = new(f"shl {longs} {products[0]}, {splat(32, 'i64')}")
    low = new(f"lshr {longs} {products[2]}, {splat(32, 'i64')}")
    turns = new(f"add {longs} {high}, {products[1]}")
    turns = new(f"add {longs} {turns}, {low}")  # in units of 2^-62 quarters, modulo 4
    quarter = new(f"add {longs} {turns}, {splat(1 << 61, 'i64')}")
    quarter = new(f"lshr {longs} {quarter}, {splat(62, 'i64')}")
    if result == "angle_quarter":
        quarter = new(f"trunc {longs} {quarter} to {words}")
        return new(f"sitofp {words} {quarter} to <{w} x float>")
    whole = new(f"shl {longs} {quarter}, {splat(62, 'i64')}")
    rest = new(f"sub {longs} {turns}, {whole}")
    rest = new(f"sitofp {longs} {rest} to <{w} x double>")
    rest = new(f"fmul <{w} x double> {rest}, {splat(1.5707963267948966 / 2**62, 'double')}")
    first = new(f"fptrunc <{w} x double> {rest} to <{w} x float>")
    if result == "angle_high":
        return first
    first = new(f"fpext <{w} x float> {first} to <{w} x double>")
    rest = new(f"fsub <{w} x double> {rest}, {first}")
    return new(f"fptrunc <{w} x double> {rest} to <{w} x float>")
