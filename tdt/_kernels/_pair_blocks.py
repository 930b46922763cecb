"""Blocks of up to 128 × 256 sums of bfloat16 products (`_dots`): their sizes, and how they are written to a result."""

from __future__ import annotations

from typing import Any

from tdt._kernels._code import Code, Value
from tdt._kernels._dots import SIDE, TILE

DEPTH = 16  # steps of a panel that are summed at a time: 32 KB of the right operand, in a level-one cache
DOWN, ACROSS = 4, 8  # panels of a block: 128 KB of the left operand, in a level-two cache; as much of sums
GROUP = 2  # rows of blocks that are summed side by side: weights that fill the cache are read once for all of them
BLOCK_BYTES = 4 * SIDE * SIDE
LINE = 64  # bytes of a line of the cache


def block_of(code: Code, number: Value, down: Value, across: Value, group: Value) -> tuple[Value, Value]:
    """The first panel of rows and of columns of a block: blocks are counted down the columns in groups of rows of blocks."""
    start = number // (group * across) * group
    within = number - start * across
    high = code.minimum(down - start, group)
    column = within // high
    return (start + within - column * high) * DOWN, column * ACROSS


def ahead(code: Code, place: tuple[Value, Value], rows: Value, out: Value, pitch: Value, item: int = 2) -> None:
    """Load the lines of the cache that a block of elements of `item` bytes will be written to, while it is summed."""
    row, column = place
    with code.loop(0, code.minimum(rows - row, SIDE)) as r:
        for part in range(0, SIDE * item, LINE):
            code.prefetch(code.cast(out + ((row + r) * pitch + column) * item + part, "ptr"), writes=True)


def finish(dots: Any, block: Value, place: tuple[Value, Value], sizes: tuple[Value, Value], out: Value, pitch: Value,
           bias: Value | None) -> None:  # fmt: skip
    """Write a block of sums to its place in the result: with a bias rounded to bfloat16, without one in float32."""
    code = dots.code
    (row, column), (rows, columns) = place, sizes
    high, wide = code.minimum(rows - row, SIDE), code.minimum(columns - column, SIDE)

    def target(r: Value, size: int) -> Value:
        return code.cast(out + ((row + r) * pitch + column) * size, "ptr")

    def copy(r: Value, c: Any, count: int) -> None:
        code.store(code.load("float", block, r * SIDE + c, count), target(r, 4), c)

    def write(r: Value, to: Value) -> None:
        for k in range(0, SIDE, TILE):
            value = code.load("float", block, r * SIDE + k, TILE)
            added = code.load("float", code.cast(bias, "ptr"), column + k, TILE)
            code.store(dots.rounded(value + added), to, k)

    def whole() -> None:
        with code.loop(0, high) as r:
            if bias is not None:
                write(r, target(r, 2))
            else:
                for k in range(0, SIDE, TILE):
                    copy(r, code.value(k, "i64"), TILE)

    def edge() -> None:
        line = None if bias is None else code.array("i16", SIDE)  # rounded as a vector, as other rows are
        with code.loop(0, high) as r:
            if line is not None:
                write(r, line)
            with code.loop(0, wide) as c:
                if line is None:
                    copy(r, c, 0)
                else:
                    code.store(code.load("i16", line, c), target(r, 2), c)

    code.choose(wide == SIDE, whole, edge)
