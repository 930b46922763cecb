"""Products of attention: tiles of a few rows and a vector of columns, single rows, and keys turned for vectors to hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._kernels._code import Code, Value
from tdt._kernels._native import target_triple, vector_width
from tdt._kernels._rows import fma, load, mask_of, store

SQUARE = 8  # elements of a block that is turned in registers


def tile(code: Code, rows: Value, a: Value, a_row: Value, a_next: Value, b: Value, b_next: Value, depth: Value, c: Value,
         c_row: Value, more: Value, columns: Value, *, lanes: int, most: int) -> None:  # fmt: skip
    """c (rows, columns) = a (rows, depth) · b (depth, columns), added to c if `more`; each element is one chain of sums."""

    def body(first: Value, count: int, mask: Value | None) -> None:
        totals = [code.variable(f"<{lanes} x float>", 0.0) for _ in range(count)]
        lines = [code.at("float", a, a_row * (first + r)) for r in range(count)]
        with code.loop(0, depth) as k:
            right, place = load(code, b, b_next * k, mask, lanes), a_next * k
            for line, total in zip(lines, totals, strict=True):
                total.set(_multiplied(code, code.splat(code.load("float", line, place), lanes), right, total.get()))
        for r, total in enumerate(totals):
            line = code.at("float", c, c_row * (first + r))
            with code.when(more != 0):
                total.set(load(code, line, 0, mask, lanes) + total.get())
            store(code, total.get(), line, 0, mask)

    def in_groups(counts: Sequence[int], mask: Value | None) -> None:
        at = code.variable("i64", 0)
        for count in counts:
            start = at.get()
            stop = start + (rows - start) // count * count
            with code.loop(start, stop, count) as first:
                body(first, count, mask)
            at.set(stop)

    third = most // 3
    mask = mask_of(code, columns, lanes)
    # Few variants, each of which takes tens of milliseconds to compile.
    code.choose(
        columns == lanes, lambda: in_groups((most, 2 * third, third, 1), None), lambda: in_groups((2 * third, 1), mask)
    )


def row_tile(code: Code, a: Value, b: Value, b_next: Value, depth: Value, c: Value, more: Value, *, lanes: int) -> None:
    """As `tile`, for one row and more columns at a time."""
    total = code.variable(f"<{lanes} x float>", 0.0)
    with code.loop(0, depth) as k:
        right = code.load("float", b, b_next * k, lanes)
        total.set(_multiplied(code, code.splat(code.load("float", a, k), lanes), right, total.get()))
    with code.when(more != 0):
        total.set(code.load("float", c, 0, lanes) + total.get())
    code.store(total.get(), c)


def dots(
    code: Code, q: Value, source: Value, by_row: Value, count: Value, width: Value, factor: Value, out: Value
) -> None:
    """The scores of one query, as panels and `tile` give them: keys are turned in registers, sixteen at a time."""
    by, whole = code.splat(factor, SQUARE), width & -SQUARE
    with code.loop(0, count, 2 * SQUARE) as j:

        def several(j: Value = j) -> None:
            totals = [code.variable(f"<{SQUARE} x float>", 0.0) for _ in range(2)]
            with code.loop(0, whole, SQUARE) as e:
                for part, total in enumerate(totals):
                    lines = [
                        code.load("float", source, (j + (part * SQUARE + r)) * by_row + e, SQUARE)
                        for r in range(SQUARE)
                    ]
                    for k, turned in enumerate(_transposed(code, lines)):
                        value = code.splat(code.load("float", q, e + k), SQUARE)
                        total.set(_multiplied(code, value, turned * by, total.get()))
            for part, total in enumerate(totals):
                code.store(total.get(), out, j + part * SQUARE)
            with code.when(whole != width):
                with code.loop(0, 2 * SQUARE) as r:
                    singly(j + r, whole, code.load("float", out, j + r))

        def singly(row: Value, start: Any, begin: Any) -> None:
            total, line = code.variable("float", begin), code.at("float", source, row * by_row)
            with code.loop(start, width) as e:
                total.set(
                    _multiplied(code, code.load("float", q, e), code.load("float", line, e) * factor, total.get())
                )
            code.store(total.get(), out, row)

        def few(j: Value = j) -> None:
            with code.loop(j, count) as row:
                singly(row, 0, 0.0)

        code.choose(count - j >= 2 * SQUARE, several, few)


def _multiplied(code: Code, a: Value, b: Value, c: Value) -> Value:
    """a b + c, rounded once where the processor can."""
    return fma(code, a, b, c) if lanes_and_rows(vector_width())[2] else a * b + c


def lanes_and_rows(width: int) -> tuple[int, int, bool]:
    """A tile's columns and rows for vectors of this width, and whether products are rounded with their sum alone."""
    return 2 * width, 12 if width >= 16 else 6, width >= 8 or not target_triple().startswith("x86")


def turn(code: Code, source: Value, by_row: Value, count: Value, width: Value, factor: Value, out: Value, *,
         lanes: int) -> None:  # fmt: skip
    """Panels of `lanes` rows of (count, width), in which a vector holds an element of each; rows beyond are 0."""
    by = code.splat(factor, SQUARE)
    whole = width & -SQUARE
    with code.loop(0, count, lanes) as j:
        panel = code.at("float", out, j * width)
        with code.loop(0, lanes, SQUARE) as part:
            left = count - j - part
            target = code.at("float", panel, part)

            def square(j: Value = j, part: Value = part, target: Value = target) -> None:
                with code.loop(0, whole, SQUARE) as e:
                    lines = [code.load("float", source, (j + part + r) * by_row + e, SQUARE) for r in range(SQUARE)]
                    for k, turned in enumerate(_transposed(code, lines)):
                        code.store(turned * by, target, (e + k) * lanes)

            def singly(
                start: Any, j: Value = j, part: Value = part, target: Value = target, left: Value = left
            ) -> None:
                with code.loop(0, SQUARE) as r:
                    inside = r < left
                    row = code.select(inside, r, 0)
                    line = code.at("float", source, (j + code.select(left > 0, part, 0) + row) * by_row)
                    with code.loop(start, width) as e:
                        value = code.select(inside, code.load("float", line, e) * factor, 0.0)
                        code.store(value, target, e * lanes + r)

            def both() -> None:
                square()
                singly(whole)

            code.choose(left >= SQUARE, both, lambda: singly(0))


def _transposed(code: Code, lines: list[Value]) -> list[Value]:
    """Eight vectors of eight elements, turned: pairs, pairs of pairs, halves."""
    for step in (1, 2, 4):
        low = [(k // step % 2) * SQUARE + k // (2 * step) * 2 * step + k % step for k in range(SQUARE)]
        high = [k + step for k in low]
        turned: list[Any] = [None] * SQUARE
        for k in range(SQUARE):
            if k // step % 2 == 0:
                turned[k] = code.shuffle(lines[k], lines[k + step], low)
                turned[k + step] = code.shuffle(lines[k], lines[k + step], high)
        lines = turned
    return lines
