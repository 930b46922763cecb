"""The arrays of a head and products of them, in the code of attention on the CPU (`attention_cpu`, `bfloat16_attention_cpu`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tdt._kernels import _bfloat16
from tdt._kernels._attention_products import dots, row_tile, tile, turn
from tdt._kernels._code import Code, Value
from tdt._kernels._exponential import exp_of_negative
from tdt._kernels._inline import inline
from tdt._kernels._rows import LANES, for_each, largest, load, store, summed

ROWS, FEW_ROWS, MANY_KEYS = 48, 12, 4096  # queries whose scores are in memory at a time; with more keys, FEW_ROWS
CHUNK = 4 * ROWS  # queries for which the keys are turned once
DEPTH = 512  # keys that are summed in one chain
STRIDES = 3  # of the batch, of heads and of rows
ARRAYS = 11  # q, k, v, out, mask, keep, g, gq, gk, gv, g_mask
MASK, KEEP = 4, 5  # places among them; their strides are in bytes
WORDS = "q" * (1 + ARRAYS + STRIDES * ARRAYS) + "qqqqqqqqdd"


class Heads:
    """The code's arguments, and the addresses of a head's arrays."""

    def __init__(self, code: Code, arguments: list[Value], lanes: int, rows: int, half: bool):
        """lanes: elements of a tile's rows; rows: of a tile; half: arrays but the mask and its gradient are of bfloat16."""
        self.code, self.lanes, self.rows = code, lanes, rows
        self.kinds = [
            "i8" if k in (MASK, KEEP) else "i16" if half and k != ARRAYS - 1 else "float" for k in range(ARRAYS)
        ]
        norms, *addresses = arguments[: 1 + ARRAYS]
        rest = arguments[1 + ARRAYS :]
        self.top_and_sum = code.cast(norms, "ptr")  # of each row: its largest score and the inverse of its sum
        places = STRIDES * ARRAYS
        self.bases = [[address, *rest[STRIDES * k :][:STRIDES]] for k, address in enumerate(addresses)]
        (self.heads, self.length, self.places, self.width, self.size, self.chunks, causal, of_bools, scale, share) = (
            rest[places:]
        )
        self.causal, self.of_bools = causal != 0, of_bools != 0
        self.scale, self.share = code.cast(scale, "float"), code.cast(share, "float")
        self.pitch = ((self.places + (lanes - 1)) & -lanes) + lanes  # of scores: not a power of two
        self.room = code.select(self.places > MANY_KEYS, code.value(FEW_ROWS, "i64"), ROWS)
        self.tile = code.define("tile", ["i64", "ptr", "i64", "i64", "ptr", "i64", "i64", "ptr", "i64", "i64", "i64"],
                                lambda *args: tile(*args, lanes=lanes, most=rows))  # fmt: skip
        self.wide = 4 * lanes
        self.line = code.define(
            "line", ["ptr", "ptr", "i64", "i64", "ptr", "i64"], lambda *args: row_tile(*args, lanes=self.wide)
        )
        self.dots = code.define("dots", ["ptr", "ptr", "i64", "i64", "i64", "float", "ptr"], dots)
        self.turn = code.define("turn", ["ptr", "i64", "i64", "i64", "float", "ptr"],
                                lambda *args: turn(*args, lanes=lanes))  # fmt: skip

    def head(self, head: Value) -> list[tuple[Value, Value]]:
        """The address and the elements to the next row, of each array of a head; the addresses of absent ones mean nothing."""
        code = self.code
        batch = head // self.heads
        number = head - batch * self.heads
        return [(code.at(kind, code.cast(at, "ptr"), batch * by_batch + number * by_head), by_row)
                for kind, (at, by_batch, by_head, by_row) in zip(self.kinds, self.bases, strict=True)]  # fmt: skip

    def converted(
        self, array: tuple[Value, Value], start: Any, stop: Value, size: Value, memory: Value
    ) -> tuple[Value, Value]:
        """Rows [start, stop) of an array of bfloat16 in memory for floats: address and step of all rows, as if they were."""
        code = self.code
        out = code.at("float", memory, 0 - code.value(start, "i64") * size)
        with code.loop(start, stop) as row:
            line, target = code.at("i16", array[0], row * array[1]), code.at("float", out, row * size)
            for_each(code, size, lambda i, mask: store(code, _bfloat16.load(code, line, i, mask), target, i, mask))
        return out, size

    def put(self, source: tuple[Value, Value], stop: Value, size: Value, array: tuple[Value, Value]) -> None:
        """Round the first rows of `source` into an array of bfloat16."""
        code = self.code
        with code.loop(0, stop) as row:
            line, target = code.at("float", source[0], row * source[1]), code.at("i16", array[0], row * array[1])
            for_each(code, size, lambda i, mask: _bfloat16.store(code, load(code, line, i, mask), target, i, mask))

    def visible(self, row: Any) -> Value:
        """How many keys the queries before a row see."""
        return self.code.select(self.causal, self.code.minimum(self.places, row), self.places)

    def scores(self, left: Value, by_row: Value, panels: Value, depth: Value, out: Value, i: Value, rows: Value,
               visible: Value) -> None:  # fmt: skip
        """out = left · panels, for `rows` queries from i on and the keys that they see."""
        code = self.code
        with code.loop(0, visible, self.lanes) as j:
            first = code.select(self.causal, code.maximum(j - i, 0), 0)
            with code.loop(first, rows, self.rows) as r:
                self.tile(code.minimum(rows - r, self.rows), code.at("float", left, (i + r) * by_row), by_row, 1,
                          code.at("float", panels, j * depth), self.lanes, depth,
                          code.at("float", out, r * self.pitch + j), self.pitch, 0, self.lanes)  # fmt: skip

    def means(self, weights: Value, values: tuple[Value, Value], size: Value, out: tuple[Value, Value], i: Value, rows: Value,
              add: int) -> None:  # fmt: skip
        """out = weights · values for `rows` queries from i on, added to `out` if `add`."""
        code = self.code
        start = code.variable("i64", 0)
        if not add:
            with code.when(rows == 1):
                start.set(size - size % self.wide)
                end = self.visible(i + 1)
                with code.loop(0, start.get(), self.wide) as d:
                    with code.loop(0, end, DEPTH) as j:
                        self.line(code.at("float", weights, j), code.at("float", values[0], j * values[1] + d), values[1],
                                  code.minimum(end - j, DEPTH), code.at("float", out[0], i * out[1] + d),
                                  code.cast(j != 0, "i64"))  # fmt: skip
        with code.loop(start.get(), size, self.lanes) as d:
            with code.loop(0, rows, self.rows) as r:
                count = code.minimum(rows - r, self.rows)
                end = self.visible(i + r + count)
                with code.loop(0, end, DEPTH) as j:
                    self.tile(count, code.at("float", weights, r * self.pitch + j), self.pitch, 1,
                              code.at("float", values[0], j * values[1] + d), values[1], code.minimum(end - j, DEPTH),
                              code.at("float", out[0], (i + r) * out[1] + d), out[1],
                              code.cast(j != 0, "i64") if not add else 1, code.minimum(size - d, self.lanes))  # fmt: skip

    def sums(self, weights: Value, values: tuple[Value, Value], size: Value, out: tuple[Value, Value], i: Value, rows: Value,
             visible: Value) -> None:  # fmt: skip
        """Add weightsᵀ · values to the rows of `out`, which are those of the keys."""
        code = self.code
        with code.loop(0, size, self.lanes) as d:
            with code.loop(0, visible, self.rows) as c:
                first = code.select(self.causal, code.maximum(c - i, 0), 0)
                self.tile(code.minimum(visible - c, self.rows), code.at("float", weights, first * self.pitch + c), 1,
                          self.pitch, code.at("float", values[0], (i + first) * values[1] + d), values[1], rows - first,
                          code.at("float", out[0], c * out[1] + d), out[1], 1,
                          code.minimum(size - d, self.lanes))  # fmt: skip

    def add_mask(self, mask: tuple[Value, Value], row: Value, scores: Value, count: Value) -> None:
        """Add a row of the mask to its scores, or set those to -inf where it is False, if there is a mask."""
        code = self.code

        def numbers() -> None:
            for_each(
                code, count, lambda i, m: store(code, load(code, scores, i, m) + load(code, line, i, m), scores, i, m)
            )

        def bools() -> None:
            self.select(line, scores, count, lambda value, width: value, -math.inf)

        with code.when(self.bases[MASK][0] != 0):
            line = code.at("i8", mask[0], row * mask[1])
            code.choose(self.of_bools, bools, numbers)

    def drop(self, keep: tuple[Value, Value], row: Value, values: Value, count: Value, factor: Value | None) -> None:
        """Set the values that are dropped to 0 and multiply others by the factor, where weights are dropped."""
        code = self.code
        with code.when(self.bases[KEEP][0] != 0):
            line = code.at("i8", keep[0], row * keep[1])
            scaled = lambda value, width: value if factor is None else value * code.splat(factor, width)  # noqa: E731
            self.select(line, values, count, scaled, 0.0)

    def gradients(self, arrays: tuple, head: Value, i: Value, row: Value, g_row: Value, count: Value,
                  shared: Value) -> None:  # fmt: skip
        """Scores of query `i` to weights, and the gradients of its weights to those of the scores before they are scaled, in
        place. arrays: the mask, what is kept, and the mask's gradient. shared: the product of the result and its gradient."""
        code, (mask, keep, g_mask) = self.code, arrays
        self.add_mask(mask, i, row, count)
        self.drop(keep, i, g_row, count, self.share)
        place = (head * self.length + i) * 2
        top, norm = (code.load("float", self.top_and_sum, place + n) for n in range(2))
        of_scores_too = self.bases[ARRAYS - 1][0] != 0
        factor = code.select(of_scores_too, code.value(1.0, "float"), self.scale)
        top, norm, shared, factor, scale = (code.splat(v, LANES) for v in (top, norm, shared, factor, self.scale))

        def write(c: Value, m: Value | None) -> None:
            weight = inline(code, exp_of_negative, load(code, row, c, m) - top) * norm
            g = load(code, g_row, c, m)
            store(code, weight, row, c, m)
            store(code, weight * (g - shared) * factor, g_row, c, m)

        for_each(code, count, write)
        with code.when(of_scores_too):
            line = code.at("float", g_mask[0], i * g_mask[1])

            def copy(c: Value, m: Value | None) -> None:
                value = load(code, g_row, c, m)
                store(code, value, line, c, m)
                store(code, value * scale, g_row, c, m)

            for_each(code, count, copy)
        self.drop(keep, i, row, count, self.share)

    def select(
        self, line: Value, values: Value, count: Value, change: Callable[[Value, int], Value], other: float
    ) -> None:
        """Write `change` of the values where a line of bools is True, else another number, in place."""
        code = self.code

        def few(i: Value, width: int) -> None:
            value = change(code.load("float", values, i, width), width)
            code.store(code.select(code.load("i8", line, i, width) != 0, value, other), values, i)

        with code.loop(0, count & -LANES, LANES) as i:
            few(i, LANES)
        with code.loop(count & -LANES, count) as i:
            few(i, 0)

    def clear(self, values: Value, start: Value, stop: Value) -> None:
        """Set the elements [start, stop) to 0."""
        code, zeros = self.code, self.code.value(0.0, f"<{LANES} x float>")
        line = code.at("float", values, start)
        for_each(code, stop - start, lambda i, mask: store(code, zeros, line, i, mask))


def soften(code: Code, row: Value, count: Value) -> tuple[Value, Value]:
    """exp(row - top) in place; returns `top`, the row's maximum, or 0 where that is -inf, and the sum."""
    top = largest(code, count, row)
    top = code.select(top == -math.inf, 0.0, top)
    shift = code.splat(top, LANES)

    def terms(i: Value, lanes: int, mask: Value | None) -> tuple[Value]:
        e = inline(code, exp_of_negative, load(code, row, i, mask) - shift)
        store(code, e, row, i, mask)
        return (e if mask is None else code.select(mask, e, 0.0),)

    return top, summed(code, count, 1, terms, (LANES,))[0]
