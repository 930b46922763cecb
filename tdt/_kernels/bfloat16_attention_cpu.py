"""Attention of bfloat16 on processors with AMX or AVX-512-BF16: all products are blocks of pairs (`_dots`), summed in float32.

The keys that the queries of a unit of work see are packed once, and their values. Of 32 queries at a time, the scores of all keys
are blocks of 32 × 32; each row becomes weights, in float32, which are rounded to bfloat16 where the second product reads them.
Every score is the sum over the width in order, and every result that over the keys, whatever the number of queries.

The gradients compute the scores again, and round weights and the gradients of scores to bfloat16 for the three products that
they are in. Those of keys and values are summed as transposed matrices, to which 32 queries at a time are added: the pairs of a
right operand are then rows of weights that lie side by side.
"""

from __future__ import annotations

import functools
from typing import Any

from tdt._kernels import _bfloat16
from tdt._kernels._attention_heads import CHUNK, WORDS, Heads, soften
from tdt._kernels._attention_products import lanes_and_rows
from tdt._kernels._code import Code, Value, native
from tdt._kernels._dots import SIDE, STEP_BYTES, TILE, TILE_BYTES, WAYS, Amx, Avx512
from tdt._kernels._pairs import interleaved, pack_tile, turned
from tdt._kernels._rows import LANES, allocated, for_each, load, mask_of, release, summed

BLOCK = SIDE * SIDE  # floats
STEP = STEP_BYTES // 4  # of a packed operand, in floats
LINE = 64  # bytes


@native(WORDS)
def forward(code: Code, first: Value, last: Value, arguments: list[Value], width: int, way: str) -> None:
    """As `attention_cpu._forward` of bfloat16."""
    _Forward(code, arguments, width, way).units(first, last)


@native(WORDS)
def backward(code: Code, first: Value, last: Value, arguments: list[Value], width: int, way: str) -> None:
    """As `attention_cpu._backward` of bfloat16."""
    _Backward(code, arguments, width, way).heads_of(first, last)


class _Forward:
    """The code of the results: memory for a unit of work, and its steps."""

    def __init__(self, code: Code, arguments: list[Value], width: int, way: str):
        self.code = code
        self.heads = heads = Heads(code, arguments, *lanes_and_rows(width)[:2], True)
        self.dots = WAYS[way](code)
        self.factors, self.complete = code.array("float", SIDE), code.array("float", BLOCK)
        self.across, self.inside = across, inside = _blocks(heads.places), _blocks(heads.width)
        self.panels = panels = _blocks(heads.size)
        sizes = [across * inside * STEP, across * panels * STEP, inside * STEP, across * STEP, across * BLOCK]
        self.memory, parts = _allocated(code, [*sizes, across * SIDE])
        self.keys, self.values, self.queries, self.weights, self.scores, line = parts
        self.row = code.cast(line, "ptr")
        self.pack = _Packing(code)

    def units(self, first: Value, last: Value) -> None:
        """Units of CHUNK queries of a head."""
        code, heads = self.code, self.heads
        self.dots.begin()
        with code.loop(first, last) as unit:
            head = unit // heads.chunks
            q, k, v, out, mask, keep, *_ = heads.head(head)
            start = (unit - head * heads.chunks) * CHUNK
            stop = code.minimum(start + CHUNK, heads.length)
            self.pack_keys(k, v, heads.visible(stop))
            with code.loop(start, stop, SIDE) as i:
                rows = code.minimum(stop - i, SIDE)
                steps = _blocks(heads.visible(i + rows))
                with code.loop(0, self.inside) as step:
                    to = self.queries + step * STEP_BYTES
                    self.pack.deep(False, q, i // SIDE, heads.length, step, heads.width, to)
                with code.loop(0, steps) as j:
                    block = code.cast(self.scores + j * (4 * BLOCK), "ptr")
                    _multiply(self.dots, self.queries, self.keys + j * self.inside * STEP_BYTES, self.inside, block)
                self.weigh(head, i, rows, steps, mask, keep)
                self.write(i, rows, steps, out)
        self.dots.end()
        release(code, self.memory)

    def pack_keys(self, k: tuple[Value, Value], v: tuple[Value, Value], reached: Value) -> None:
        """Pack the keys that a unit's queries see, and their values."""
        code, heads = self.code, self.heads
        with code.loop(0, _blocks(reached)) as panel, code.loop(0, self.inside) as step:
            to = self.keys + (panel * self.inside + step) * STEP_BYTES
            self.pack.deep(True, k, panel, heads.places, step, heads.width, to)
        with code.loop(0, _blocks(reached)) as step, code.loop(0, self.panels) as panel:
            to = self.values + (panel * self.across + step) * STEP_BYTES
            self.pack.flat(True, v, panel, heads.size, step, heads.places, to)

    def weigh(self, head: Value, i: Value, rows: Value, steps: Value, mask: Any, keep: Any) -> None:
        """Make weights of the scores of some queries, and keep each row's largest score and the inverse of its sum."""
        code, heads, row = self.code, self.heads, self.row
        with code.loop(0, rows) as r:
            count = heads.visible(i + r + 1)
            _gather(code, self.scores, r, steps, heads.scale, row)
            heads.add_mask(mask, i + r, row, count)
            top, total = soften(code, row, count)
            heads.drop(keep, i + r, row, count, None)
            heads.clear(row, count, steps * SIDE)
            _round(self.dots, row, steps, _row_of(self.weights, r))
            inverse = code.cast(code.value(1.0, "double") / total, "float")
            inverse = code.select(total == 0.0, 0.0, inverse)
            place = (head * heads.length + i + r) * 2
            code.store(top, heads.top_and_sum, place)
            code.store(inverse, heads.top_and_sum, place + 1)
            code.store(inverse * heads.share, self.factors, r)

    def write(self, i: Value, rows: Value, steps: Value, out: tuple[Value, Value]) -> None:
        """Write the results of some queries: sums of values by weights, divided by the sums of weights."""
        code, heads = self.code, self.heads
        with code.loop(0, self.panels) as panel:
            _multiply(self.dots, self.weights, self.values + panel * self.across * STEP_BYTES, steps, self.complete)
            with code.loop(0, rows) as r:
                by = code.splat(code.load("float", self.factors, r), LANES)
                source = code.at("float", self.complete, r * SIDE)
                target = code.at("i16", out[0], (i + r) * out[1] + panel * SIDE)

                def write(
                    c: Value, m: Value | None, source: Value = source, by: Value = by, to: Value = target
                ) -> None:
                    _bfloat16.store(code, load(code, source, c, m) * by, to, c, m)

                for_each(code, code.minimum(heads.size - panel * SIDE, SIDE), write)


class _Backward:
    """The code of the gradients: memory for a head, and the steps of its work."""

    def __init__(self, code: Code, arguments: list[Value], width: int, way: str):
        self.code = code
        self.heads = heads = Heads(code, arguments, *lanes_and_rows(width)[:2], True)
        self.dots = WAYS[way](code)
        self.across, self.inside, self.panels = across, inside, panels = [
            _blocks(n) for n in (heads.places, heads.width, heads.size)
        ]
        sizes = [across * inside * STEP, across * panels * STEP, inside * across * STEP]
        sizes += [n * STEP for n in (inside, panels, inside, panels)]
        sizes += [across * STEP] * 2 + [across * BLOCK] * 2 + [inside * across * BLOCK, panels * across * BLOCK]
        self.memory, parts = _allocated(code, [*sizes, *[across * SIDE] * 2])
        (self.keys, self.values, self.turned_keys, self.queries, self.grads, self.turned_queries, self.turned_grads,
         self.weights, self.slopes, self.scores, self.towards, self.key_sums, self.value_sums, *lines) = parts  # fmt: skip
        self.row, self.g_row = (code.cast(line, "ptr") for line in lines)
        self.complete, self.right = code.array("float", BLOCK), code.array("float", STEP)
        self.pack = _Packing(code)

    def heads_of(self, first: Value, last: Value) -> None:
        """Heads [first, last), 32 queries at a time."""
        code, heads = self.code, self.heads
        self.dots.begin()
        with code.loop(first, last) as head:
            q, k, v, out, mask, keep, g, gq, gk, gv, g_mask = heads.head(head)
            reached = heads.visible(heads.length)
            for sums, count in ((self.key_sums, self.inside), (self.value_sums, self.panels)):
                code.clear(code.cast(sums, "ptr"), count * self.across * (4 * BLOCK))
            self.pack_keys(k, v, reached)
            with code.loop(0, heads.length, SIDE) as i:
                rows = code.minimum(heads.length - i, SIDE)
                steps = _blocks(heads.visible(i + rows))
                self.pack_queries(q, g, i)
                self.multiply_rows(steps)
                with code.loop(0, rows) as r:
                    self.weigh(head, i, r, steps, (mask, keep, g_mask), g, out)
                with code.loop(rows, SIDE) as r, code.loop(0, steps) as j:
                    for to in (self.weights, self.slopes):
                        zeros = code.value(0, f"<{SIDE} x i16>")
                        code.store(zeros, code.cast(_row_of(to, r) + j * STEP_BYTES, "ptr"))
                self.write_queries(gq, i, rows, steps)
                self.add_to_keys(steps)
            for sums, count, size, result in (
                (self.key_sums, self.inside, heads.width, gk), (self.value_sums, self.panels, heads.size, gv)
            ):  # fmt: skip
                with code.loop(0, count) as panel, code.loop(0, _blocks(reached)) as j:
                    block = sums + (panel * self.across + j) * (4 * BLOCK)
                    _write_turned(code, block, panel * SIDE, size, j * SIDE, reached, result)
        self.dots.end()
        release(code, self.memory)

    def pack_keys(self, k: tuple[Value, Value], v: tuple[Value, Value], reached: Value) -> None:
        """Pack a head's keys, also turned, and its values."""
        code, heads, pack = self.code, self.heads, self.pack
        with code.loop(0, _blocks(reached)) as panel:
            with code.loop(0, self.inside) as step:
                to = self.keys + (panel * self.inside + step) * STEP_BYTES
                pack.deep(True, k, panel, heads.places, step, heads.width, to)
                to = self.turned_keys + (step * self.across + panel) * STEP_BYTES
                pack.flat(True, k, step, heads.width, panel, heads.places, to)
            with code.loop(0, self.panels) as step:
                to = self.values + (panel * self.panels + step) * STEP_BYTES
                pack.deep(True, v, panel, heads.places, step, heads.size, to)

    def pack_queries(self, q: tuple[Value, Value], g: tuple[Value, Value], i: Value) -> None:
        """Pack 32 queries and the gradients of their results, both also turned."""
        code, heads = self.code, self.heads
        for matrix, size, count, deep, flat in (
            (q, heads.width, self.inside, self.queries, self.turned_queries),
            (g, heads.size, self.panels, self.grads, self.turned_grads),
        ):
            with code.loop(0, count) as step:
                at = step * STEP_BYTES
                self.pack.deep(False, matrix, i // SIDE, heads.length, step, size, deep + at)
                self.pack.flat(False, matrix, step, size, i // SIDE, heads.length, flat + at)

    def multiply_rows(self, steps: Value) -> None:
        """The scores of 32 queries, and the gradients of their weights."""
        code = self.code
        with code.loop(0, steps) as j:
            for left, others, count, found in (
                (self.queries, self.keys, self.inside, self.scores), (self.grads, self.values, self.panels, self.towards)
            ):  # fmt: skip
                block = code.cast(found + j * (4 * BLOCK), "ptr")
                _multiply(self.dots, left, others + j * count * STEP_BYTES, count, block)

    def weigh(self, head: Value, i: Value, r: Value, steps: Value, masks: tuple, g: tuple[Value, Value],
              out: tuple[Value, Value]) -> None:  # fmt: skip
        """A row of weights, and the gradients of its scores."""
        code, heads, row, g_row = self.code, self.heads, self.row, self.g_row
        count = heads.visible(i + r + 1)
        _gather(code, self.scores, r, steps, heads.scale, row)
        _gather(code, self.towards, r, steps, code.value(1.0, "float"), g_row)
        heads.gradients(masks, head, i + r, row, g_row, count, _dot(code, g, out, i + r, heads.size))
        for line, to in ((row, self.weights), (g_row, self.slopes)):
            heads.clear(line, count, steps * SIDE)
            _round(self.dots, line, steps, _row_of(to, r))

    def write_queries(self, gq: tuple[Value, Value], i: Value, rows: Value, steps: Value) -> None:
        """The gradients of some queries."""
        code = self.code
        with code.loop(0, self.inside) as panel:
            turned_keys = self.turned_keys + panel * self.across * STEP_BYTES
            _multiply(self.dots, self.slopes, turned_keys, steps, self.complete)
            with code.loop(0, rows) as r:
                source = code.at("float", self.complete, r * SIDE)
                target = code.at("i16", gq[0], (i + r) * gq[1] + panel * SIDE)
                _write(code, source, target, code.minimum(self.heads.width - panel * SIDE, SIDE))

    def add_to_keys(self, steps: Value) -> None:
        """Add what 32 queries give to the gradients of keys and values."""
        code, right = self.code, self.right
        with code.loop(0, steps) as j:
            for of_rows, left, count, sums in (
                (self.slopes, self.turned_queries, self.inside, self.key_sums),
                (self.weights, self.turned_grads, self.panels, self.value_sums),
            ):
                _pair_rows(code, of_rows + j * STEP_BYTES, right)
                with code.loop(0, count) as panel:
                    block, step = code.cast(sums + (panel * self.across + j) * (4 * BLOCK), "ptr"), code.value(1, "i64")
                    _multiply(self.dots, left + panel * STEP_BYTES, code.cast(right, "i64"), step, block, 0)


def _allocated(code: Code, sizes: list[Value]) -> tuple[Value, list[Value]]:
    """Memory for parts of so many floats, and their addresses, the first at the beginning of a cache line."""
    memory, *_ = allocated(code, *sizes, code.value(LINE // 4, "i64"))
    return memory, _parts((code.cast(memory, "i64") + (LINE - 1)) & -LINE, sizes)


def _row_of(tiles: Value, r: Value) -> Value:
    """The address of a row in the tiles of a left operand."""
    return tiles + (r // TILE) * TILE_BYTES + (r % TILE) * LINE


def _dot(code: Code, a: tuple[Value, Value], b: tuple[Value, Value], row: Value, size: Value) -> Value:
    """As `attention_cpu._dot`, of bfloat16."""
    left, right = (code.at("i16", x, row * by_row) for x, by_row in (a, b))

    def terms(i: Value, lanes: int, mask: Value | None) -> tuple[Value]:
        return (_bfloat16.load(code, left, i, mask, lanes) * _bfloat16.load(code, right, i, mask, lanes),)

    return code.cast(summed(code, size, 1, terms)[0], "float")


def _write(code: Code, source: Value, out: Value, count: Value) -> None:
    """Round a line of floats."""
    for_each(code, count, lambda c, m: _bfloat16.store(code, load(code, source, c, m), out, c, m))


def _pair_rows(code: Code, rows: Value, out: Value) -> None:
    """The step of a right operand of 32 rows that are that of a left one."""
    with code.loop(0, SIDE // 2) as p:
        pair = [code.load("i16", code.cast(_row_of(rows, p * 2 + k), "ptr"), 0, SIDE) for k in range(2)]
        for half, words in enumerate(interleaved(code, *pair)):
            code.store(words, code.at("i8", out, half * TILE_BYTES + p * LINE))


def _write_turned(code: Code, block: Value, column: Value, size: Value, row: Value, rows: Value,
                  out: tuple[Value, Value]) -> None:  # fmt: skip
    """Round a block of 32 columns by 32 rows to its place in a matrix (rows, size)."""
    with code.loop(0, SIDE, TILE) as c, code.loop(0, SIDE, TILE) as r:
        with code.when((column + c < size) & (row + r < rows)):
            mask = mask_of(code, code.minimum(size - column - c, TILE), TILE)
            source = code.cast(block + (c * SIDE + r) * 4, "ptr")
            found = turned(code, [code.load("float", source, k * SIDE, TILE) for k in range(TILE)])
            for k, line in enumerate(found):
                with code.when(row + r + k < rows):
                    target = code.at("i16", out[0], (row + r + k) * out[1] + column + c)
                    _bfloat16.store(code, line, target, code.value(0, "i64"), mask)


def _blocks(count: Value) -> Value:
    """How many blocks of 32 have so many lines."""
    return (count + (SIDE - 1)) // SIDE


def _parts(begin: Value, sizes: list[Value]) -> list[Value]:
    """The addresses of parts of so many floats."""
    found = [begin]
    for size in sizes[:-1]:
        found.append(found[-1] + size * 4)
    return found


def _multiply(dots: Amx | Avx512, left: Value, right: Value, steps: Value, out: Value, begins: int = 1) -> None:
    """Write the product of 32 packed rows and 32 packed columns to `out`, a block of floats; unless it `begins`, add it."""
    code = dots.code
    a, b = (code.cast(address, "ptr") for address in (left, right))
    dots.block(a, b, steps, out, code.value(begins, "i1"), out)


def _gather(code: Code, scores: Value, r: Value, steps: Value, scale: Value, out: Value) -> None:
    """A row of the blocks of scores, scaled."""
    by = code.splat(scale, TILE)
    with code.loop(0, steps) as j:
        line = code.cast(scores + j * (4 * BLOCK) + r * (4 * SIDE), "ptr")
        for c in range(0, SIDE, TILE):
            code.store(code.load("float", line, c, TILE) * by, out, j * SIDE + c)


def _round(dots: Amx | Avx512, row: Value, steps: Value, out: Value) -> None:
    """Round a row of weights to its places in the tiles of a left operand."""
    code = dots.code
    with code.loop(0, steps) as j:
        target = code.cast(out + j * STEP_BYTES, "ptr")
        for c in range(0, SIDE, TILE):
            code.store(dots.rounded(code.load("float", row, j * SIDE + c, TILE)), target, c)


class _Places:
    """Where the elements of a tile of a matrix lie, as `_pairs.Offsets`."""

    def __init__(self, vectors: list[Value], common: Value, there: object, last: Value):
        self.vectors, self.common, self.there, self.last = vectors, common, there, last


class _Packing:
    """Packs steps of panels of matrices in memory: (address, elements from a row to the next)."""

    def __init__(self, code: Code):
        self.code, self.functions = code, {}  # type: ignore[var-annotated]

    def deep(self, right: bool, matrix: tuple[Value, Value], panel: Value, rows: Value, step: Value, width: Value,
             out: Value) -> None:  # fmt: skip
        """32 rows are the lines, and the numbers in them are summed."""
        self._call("deep", right, matrix, panel, rows, step, width, out)

    def flat(self, right: bool, matrix: tuple[Value, Value], panel: Value, width: Value, step: Value, rows: Value,
             out: Value) -> None:  # fmt: skip
        """32 columns are the lines, and rows are summed."""
        self._call("flat", right, matrix, panel, rows, step, width, out)

    def _call(self, form: str, right: bool, matrix: tuple[Value, Value], *rest: Value) -> None:
        """Call the function that packs so, which is written once: to compile it takes long."""
        if (form, right) not in self.functions:
            write = functools.partial(_pack_deep if form == "deep" else _pack_flat, right=right)
            kinds = ["ptr", "i64", *["i64"] * len(rest)]
            self.functions[form, right] = self.code.define(f"pack_{form}_{int(right)}", kinds, write)
        self.functions[form, right](*matrix, *rest)


def _pack_deep(code: Code, matrix: Value, pitch: Value, panel: Value, rows: Value, step: Value, width: Value, out: Value, *,
               right: bool) -> None:  # fmt: skip
    base, copied = code.cast(matrix, "i64"), code.array("i16", SIDE * TILE)
    end = base + ((rows - 1) * pitch + width) * 2
    with code.loop(0, 2) as half:
        line = panel * SIDE + half * TILE
        vectors = [code.minimum(line + k, rows - 1) * pitch * 2 for k in range(TILE)]
        places = _Places(vectors, step * (2 * SIDE), code.minimum(width - step * SIDE, SIDE), vectors[-1])
        pack_tile(code, "deep", right, base, end, places, copied, out + half * TILE_BYTES)  # type: ignore[arg-type]


def _pack_flat(code: Code, matrix: Value, pitch: Value, panel: Value, rows: Value, step: Value, width: Value, out: Value, *,
               right: bool) -> None:  # fmt: skip
    base, copied = code.cast(matrix, "i64"), code.array("i16", SIDE * TILE)
    end = base + ((rows - 1) * pitch + width) * 2
    with code.loop(0, 2) as half:
        line = panel * SIDE + half * TILE
        each = [step * SIDE + k for k in range(SIDE)]
        there = [k < rows for k in each]
        vectors = [code.select(test, k * pitch * 2, 0) for test, k in zip(there, each, strict=True)]
        last = (code.minimum(step * SIDE + SIDE, rows) - 1) * pitch * 2
        with code.when(line < width):
            places = _Places(vectors, line * 2, there, last)
            pack_tile(code, "flat", right, base, end, places, copied, out + half * TILE_BYTES)  # type: ignore[arg-type]
