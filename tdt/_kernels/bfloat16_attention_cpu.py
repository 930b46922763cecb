"""Attention of bfloat16 on processors with AMX or AVX-512-BF16: both products are blocks of pairs (`_dots`), summed in float32.

The keys that the queries of a unit of work see are packed once, and their values. Of 32 queries at a time, the scores of all keys
are blocks of 32 × 32; each row becomes weights, in float32, which are rounded to bfloat16 where the second product reads them.
Every score is the sum over the width in order, and every result that over the keys, whatever the number of queries.
"""

from __future__ import annotations

from tdt._kernels import _bfloat16
from tdt._kernels._attention_heads import CHUNK, WORDS, Heads, soften
from tdt._kernels._attention_products import lanes_and_rows
from tdt._kernels._code import Code, Value, native
from tdt._kernels._dots import SIDE, STEP_BYTES, TILE, TILE_BYTES, WAYS, Amx, Avx512
from tdt._kernels._pairs import pack_tile
from tdt._kernels._rows import LANES, allocated, for_each, load, release

BLOCK = SIDE * SIDE  # floats
STEP = STEP_BYTES // 4  # of a packed operand, in floats
LINE = 64  # bytes


@native(WORDS)
def forward(code: Code, first: Value, last: Value, arguments: list[Value], width: int, way: str) -> None:
    """As `attention_cpu._forward` of bfloat16."""
    heads = Heads(code, arguments, *lanes_and_rows(width)[:2], True)
    dots = WAYS[way](code)
    factors, complete = code.array("float", SIDE), code.array("float", BLOCK)
    across, inside = _blocks(heads.places), _blocks(heads.width)
    panels = _blocks(heads.size)
    sizes = [across * inside * STEP, across * panels * STEP, inside * STEP, across * STEP, across * BLOCK]
    sizes += [across * SIDE, code.value(LINE // 4, "i64")]
    memory, *_ = allocated(code, *sizes)
    begin = (code.cast(memory, "i64") + (LINE - 1)) & -LINE
    keys, values, queries, weights, scores, line = _parts(begin, sizes[:-1])
    row = code.cast(line, "ptr")
    pack = _Packing(code)
    dots.begin()
    with code.loop(first, last) as unit:
        head = unit // heads.chunks
        q, k, v, out, mask, keep, *_ = heads.head(head)
        start = (unit - head * heads.chunks) * CHUNK
        stop = code.minimum(start + CHUNK, heads.length)
        reached = heads.visible(stop)
        with code.loop(0, _blocks(reached)) as panel, code.loop(0, inside) as step:
            pack.deep(True, k, panel, heads.places, step, heads.width, keys + (panel * inside + step) * STEP_BYTES)
        with code.loop(0, _blocks(reached)) as step, code.loop(0, panels) as panel:
            pack.flat(v, panel, heads.size, step, heads.places, values + (panel * across + step) * STEP_BYTES)
        with code.loop(start, stop, SIDE) as i:
            rows = code.minimum(stop - i, SIDE)
            steps = _blocks(heads.visible(i + rows))
            with code.loop(0, inside) as step:
                pack.deep(False, q, i // SIDE, heads.length, step, heads.width, queries + step * STEP_BYTES)
            with code.loop(0, steps) as j:
                block = code.cast(scores + j * (4 * BLOCK), "ptr")
                _multiply(dots, queries, keys + j * inside * STEP_BYTES, inside, block)
            with code.loop(0, rows) as r:
                count = heads.visible(i + r + 1)
                _gather(code, scores, r, steps, heads.scale, row)
                heads.add_mask(mask, i + r, row, count)
                top, total = soften(code, row, count)
                heads.drop(keep, i + r, row, count, None)
                heads.clear(row, count, steps * SIDE)
                _round(code, row, steps, weights + (r // TILE) * TILE_BYTES + (r % TILE) * LINE)
                inverse = code.cast(code.value(1.0, "double") / total, "float")
                inverse = code.select(total == 0.0, 0.0, inverse)
                place = (head * heads.length + i + r) * 2
                code.store(top, heads.top_and_sum, place)
                code.store(inverse, heads.top_and_sum, place + 1)
                code.store(inverse * heads.share, factors, r)
            with code.loop(0, panels) as panel:
                _multiply(dots, weights, values + panel * across * STEP_BYTES, steps, complete)
                with code.loop(0, rows) as r:
                    by = code.splat(code.load("float", factors, r), LANES)
                    source = code.at("float", complete, r * SIDE)
                    target = code.at("i16", out[0], (i + r) * out[1] + panel * SIDE)

                    def write(
                        c: Value, m: Value | None, source: Value = source, by: Value = by, to: Value = target
                    ) -> None:
                        _bfloat16.store(code, load(code, source, c, m) * by, to, c, m)

                    for_each(code, code.minimum(heads.size - panel * SIDE, SIDE), write)
    dots.end()
    release(code, memory)


def _blocks(count: Value) -> Value:
    """How many blocks of 32 have so many lines."""
    return (count + (SIDE - 1)) // SIDE


def _parts(begin: Value, sizes: list[Value]) -> list[Value]:
    """The addresses of parts of so many floats."""
    found = [begin]
    for size in sizes[:-1]:
        found.append(found[-1] + size * 4)
    return found


def _multiply(dots: Amx | Avx512, left: Value, right: Value, steps: Value, out: Value) -> None:
    """Write the product of 32 packed rows and 32 packed columns to `out`, a block of floats."""
    code = dots.code
    a, b = (code.cast(address, "ptr") for address in (left, right))
    begins = code.value(1, "i1")
    dots.block(a, b, steps, out, begins, out)


def _gather(code: Code, scores: Value, r: Value, steps: Value, scale: Value, out: Value) -> None:
    """A row of the blocks of scores, scaled."""
    by = code.splat(scale, TILE)
    with code.loop(0, steps) as j:
        line = code.cast(scores + j * (4 * BLOCK) + r * (4 * SIDE), "ptr")
        for c in range(0, SIDE, TILE):
            code.store(code.load("float", line, c, TILE) * by, out, j * SIDE + c)


def _round(code: Code, row: Value, steps: Value, out: Value) -> None:
    """Round a row of weights to its places in the tiles of a left operand."""
    with code.loop(0, steps) as j:
        target = code.cast(out + j * STEP_BYTES, "ptr")
        for c in range(0, SIDE, TILE):
            code.store(_bfloat16.rounded(code, code.load("float", row, j * SIDE + c, TILE)), target, c)


class _Places:
    """Where the elements of a tile of a matrix lie, as `_pairs.Offsets`."""

    def __init__(self, vectors: list[Value], common: Value, there: object, last: Value):
        self.vectors, self.common, self.there, self.last = vectors, common, there, last


class _Packing:
    """Packs steps of panels of matrices in memory: (address, elements from a row to the next)."""

    def __init__(self, code: Code):
        self.code, self.copied = code, code.array("i16", SIDE * TILE)

    def _tile(self, form: str, right: bool, matrix: tuple[Value, Value], rows: Value, width: Value, places: _Places,
              out: Value) -> None:  # fmt: skip
        base = self.code.cast(matrix[0], "i64")
        end = base + ((rows - 1) * matrix[1] + width) * 2
        pack_tile(self.code, form, right, base, end, places, self.copied, out)  # type: ignore[arg-type]

    def deep(self, right: bool, matrix: tuple[Value, Value], panel: Value, rows: Value, step: Value, width: Value,
             out: Value) -> None:  # fmt: skip
        """32 rows are the lines, and the numbers in them are summed."""
        code, pitch = self.code, matrix[1] * 2
        with code.loop(0, 2) as half:
            line = panel * SIDE + half * TILE
            vectors = [code.minimum(line + k, rows - 1) * pitch for k in range(TILE)]
            there = code.minimum(width - step * SIDE, SIDE)
            places = _Places(vectors, step * (2 * SIDE), there, vectors[-1])
            self._tile("deep", right, matrix, rows, width, places, out + half * TILE_BYTES)

    def flat(
        self, matrix: tuple[Value, Value], panel: Value, width: Value, step: Value, rows: Value, out: Value
    ) -> None:
        """32 columns are the lines, and rows are summed."""
        code, pitch = self.code, matrix[1] * 2
        with code.loop(0, 2) as half:
            line = panel * SIDE + half * TILE
            each = [step * SIDE + k for k in range(SIDE)]
            there = [k < rows for k in each]
            vectors = [code.select(test, k * pitch, 0) for test, k in zip(there, each, strict=True)]
            last = (code.minimum(step * SIDE + SIDE, rows) - 1) * pitch
            with code.when(line < width):
                self._tile(
                    "flat", True, matrix, rows, width, _Places(vectors, line * 2, there, last), out + half * TILE_BYTES
                )
