"""Packing of bfloat16 matrices into the tiles of pairs that `_dots` sums, and blocks of 16-bit numbers turned.

A panel is 32 lines (rows of the left operand, columns of the right one) of all steps of 32 k. Where the elements lie is said
by two tables of offsets in bytes, whose sum is the place of an element; numbers that lie together have one offset:

    "deep"     k lies together: an offset for each line; for each step, (offset, how many of its 32 k there are)
    "flat"     lines lie together: an offset for each 16 lines; for each step, 32 offsets of k, -1 for one that is not
               there, and the largest of them (`table_of`)

A plain matrix, a transposed one and patches of an image are all such. Where a step has fewer than 32 k, the rest is zeros.
Lines past the last one are copies of others, which belong to results that nobody reads. Offsets of lines ascend, so that a
tile's last element shows whether whole vectors may be read: those that would pass the array's end are copied one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._dots import PAIRS, SIDE, STEP_BYTES, TILE, TILE_BYTES, nearest
from tdt._kernels._syntax import vector_length

EIGHTH = 8  # numbers of 16 bits in 128: instructions that interleave do so within as many bits
LINE = 64  # bytes of a line of the cache
AHEAD = 2  # steps of a line, or panels of a row, that are fetched from memory before they are packed
CHUNK = {"deep": 32, "flat": 2}  # steps that a piece of work packs: of lines that lie together, many in a row of memory


@native("qqqqqqqqq")
def pack(code: Code, first: Value, last: Value, arguments: list[Value], form: str, right: bool, item: int) -> None:
    """Pieces of packed operands: (matrix, panel, chunk of steps), or if lines lie together (matrix, chunk of steps, panel).

    Arguments: addresses of the first element, past the last one, of the offsets of matrices, of lines, of k, and of the
    result; numbers of offsets of lines, of steps, and of panels in a matrix.

    Args:
        right: for the right operand: tiles are [pair][column] instead of [row][pair].
        item: bytes of an element: 2 of bfloat16, 4 of float32, which is rounded.
    """
    source, end, matrices, line_table, k_table, out, entries, steps, panels = arguments
    matrices, line_table, k_table = (code.cast(table, "ptr") for table in (matrices, line_table, k_table))
    some = CHUNK[form]
    chunks = (steps + (some - 1)) // some
    copied = code.array("i8", item * SIDE * TILE)
    with code.loop(first, last) as piece:
        matrix = piece // (chunks * panels)
        part = piece - matrix * chunks * panels
        chunk, number = (part % chunks, part // chunks) if form == "deep" else (part // panels, part % panels)
        base = source + code.load("i64", matrices, matrix)
        with code.loop(chunk * some, code.minimum(chunk * some + some, steps)) as step:
            target = out + ((matrix * panels + number) * steps + step) * STEP_BYTES

            def apart(step: Value = step, target: Value = target) -> None:
                with code.loop(0, 2) as tile:
                    offsets = Offsets(code, form, line_table, k_table, (number * 2 + tile) * TILE, entries, step)
                    pack_tile(code, form, right, base, end, offsets, copied, target + tile * TILE_BYTES, item)

            if form == "deep":
                apart()
            else:
                pack_both(code, right, base, end, line_table, k_table, number, entries, step, target, apart, item)


def pack_both(code: Code, right: bool, base: Value, end: Value, lines: Value, ks: Value, panel: Value, entries: Value,
              step: Value, out: Value, apart: Callable[[], None], item: int = 2) -> None:  # fmt: skip
    """Pack the two tiles of a step of a "flat" panel at once if all of its k and lines are there, else by `apart`."""
    table = code.at("i64", ks, step * (SIDE + 1))
    signs = code.load("i64", table, 0, SIDE // 4)
    for k in range(1, 4):
        signs = signs | code.load("i64", table, k * (SIDE // 4), SIDE // 4)
    while vector_length(signs.kind):  # to a single one
        first, second = code.halves(signs)
        signs = first | second
    start = base + code.load("i64", lines, code.minimum(panel * 2, entries - 1))
    whole = (signs >= 0) & (panel * 2 + 1 < entries) & (start + code.load("i64", table, SIDE) + item * SIDE <= end)

    def together() -> None:
        tiles: list[list[Value]] = [[], []]
        for p in range(PAIRS):
            places = [start + code.load("i64", table, 2 * p + k) for k in range(2)]
            for place in places:
                _fetch(code, place, item)
            a, b = (_words(code, place, SIDE, item) for place in places)
            for tile, pairs in zip(tiles, interleaved(code, a, b), strict=True):
                tile.append(pairs)
        for half, tile in enumerate(tiles):
            for k, row in enumerate(tile if right else turned(code, tile)):
                code.store(row, code.cast(out + half * TILE_BYTES, "ptr"), k * PAIRS)

    code.choose(whole, together, apart)


def interleaved(code: Code, a: Value, b: Value) -> list[Value]:
    """The pairs of the 32 numbers of two vectors, in two vectors of 16."""
    found = []
    for half in range(2):
        pairs = code.shuffle(a, b, [half * TILE + i // 2 + SIDE * (i % 2) for i in range(SIDE)])
        found.append(code.new("<16 x i32>", f"bitcast {pairs.kind} {pairs.name} to <16 x i32>"))
    return found


def pack_tile(code: Code, form: str, right: bool, base: Value, end: Value, offsets: Offsets, copied: Value,
              out: Value, item: int = 2) -> None:  # fmt: skip
    """Pack one tile from address `base`. copied: memory for 32 × 16 numbers."""
    rows = _rows(code, form, base, end, offsets, copied, item)
    if (form == "deep") is right:
        rows = turned(code, rows)
    for k, row in enumerate(rows):
        code.store(row, code.cast(out, "ptr"), k * PAIRS)


class Offsets:
    """The offsets of a tile's lines and k; lines past the last repeat it.

    Attributes:
        vectors: of each vector of 32 k ("deep") or 16 lines ("flat").
        common: of the tile.
        last: the largest of `vectors`.
        there: how many k there are ("deep"), or for each whether it is ("flat").
    """

    def __init__(self, code: Code, form: str, lines: Value, ks: Value, line: Value, entries: Value, step: Value):
        def of_line(index: Value) -> Value:
            return code.load("i64", lines, code.minimum(index, entries - 1))

        self.there: Any
        if form == "deep":
            self.vectors = [of_line(line + k) for k in range(TILE)]
            self.common, self.there = (code.load("i64", ks, step * 2 + k) for k in range(2))
            self.last = self.vectors[-1]
        else:
            offsets = [code.load("i64", ks, step * (SIDE + 1) + k) for k in range(SIDE)]
            self.there = [offset >= 0 for offset in offsets]
            self.vectors = [code.select(there, x, 0) for there, x in zip(self.there, offsets, strict=True)]
            self.common, self.last = of_line(line // TILE), code.load("i64", ks, step * (SIDE + 1) + SIDE)


def _fetch(code: Code, address: Value, item: int) -> None:
    """Load the 32 numbers that lie AHEAD times 32 behind those at an address into the cache."""
    for line in range(0, item * SIDE, LINE):
        code.prefetch(code.cast(address + (AHEAD * item * SIDE + line), "ptr"))


def _words(code: Code, address: Value, count: int, item: int) -> Value:
    """The words of so many numbers of `item` bytes: 16, or 32 of them."""
    if item == 2:
        return code.load("i16", code.cast(address, "ptr"), 0, count)
    parts = [nearest(code, code.load("float", code.cast(address, "ptr"), k, TILE)) for k in range(0, count, TILE)]
    return parts[0] if count == TILE else code.shuffle(*parts, range(count))


def _rows(code: Code, form: str, base: Value, end: Value, offsets: Offsets, copied: Value, item: int) -> list[Value]:
    """A tile's 16 vectors of 16 pairs: a line each ("deep"), or a pair of k each ("flat")."""
    wide = SIDE if form == "deep" else TILE
    start = base + offsets.common
    place = [code.variable("i64", start + offset) for offset in offsets.vectors]
    kind = {2: "i16", 4: "i32"}[item]
    with code.when(start + offsets.last + item * wide > end):
        for k, variable in enumerate(place):
            address = variable.get()
            with code.loop(0, wide) as i:
                at = code.minimum(address + i * item, end - item)
                code.store(code.load(kind, code.cast(at, "ptr")), copied, i + k * wide)
            variable.set(code.cast(code.at(kind, copied, k * wide), "i64"))
    if form == "deep":
        for variable in place:
            _fetch(code, variable.get(), item)
    vectors = [_words(code, variable.get(), wide, item) for variable in place]
    zeros = code.value(0, vectors[0].kind)
    if form == "deep":
        numbers = Value(code, f"<{', '.join(f'i16 {k}' for k in range(SIDE))}>", zeros.kind)
        there = numbers < code.splat(code.cast(offsets.there, "i16"), SIDE)
        chosen = [code.select(there, vector, zeros) for vector in vectors]
        return [code.new("<16 x i32>", f"bitcast {zeros.kind} {v.name} to <16 x i32>") for v in chosen]
    chosen = [code.select(*each, zeros) for each in zip(offsets.there, vectors, strict=True)]
    words = [code.cast(vector, "i32", signed=False) for vector in chosen]
    return [words[2 * p] | (words[2 * p + 1] << 16) for p in range(PAIRS)]


def table_of(offsets: np.ndarray) -> np.ndarray:
    """The "flat" table of k: 32 offsets of each step, -1 at the end, and the largest."""
    steps = -(-len(offsets) // SIDE)
    table = np.full((steps, SIDE + 1), -1, np.int64)
    filled = np.full(steps * SIDE, -1, np.int64)
    filled[: len(offsets)] = offsets
    table[:, :SIDE] = filled.reshape(steps, SIDE)
    table[:, SIDE] = table[:, :SIDE].max(1)
    return table


def turned(code: Code, rows: list[Value]) -> list[Value]:
    """n vectors of blocks of n elements, a power of 2, as blocks turned: each round interleaves row i with row i + n / 2."""
    n, length = len(rows), int(rows[0].kind[1:].split()[0])
    half = n // 2
    orders = [[low + h + i // 2 + length * (i % 2) for low in range(0, length, n) for i in range(n)] for h in (0, half)]
    for _ in range(n.bit_length() - 1):
        rows = [code.shuffle(rows[i], rows[i + half], order) for i in range(half) for order in orders]
    return rows


@native("qqqq")
def pack_cells(code: Code, first: Value, last: Value, arguments: list[Value], cells: int, forward: bool) -> None:
    """The weights (rows, columns, cells) of a convolution as a right operand, both sizes multiples of 32, from where they lie.

    A piece is 32 rows of 32 columns. Arguments: addresses of the weights and of the result; rows and columns in blocks of 32.

    Args:
        cells: an odd number: 32 numbers from any place on are of as many columns, so that the numbers of a cell lie in
            different elements of the vectors that hold a row, and are brought together before they are put in order.
        forward: lines are the rows, steps (cell, 32 columns); else lines are the columns, steps (cell from the last, 32 rows).
    """
    source, out, down, across = arguments
    scratch = code.array("i16", cells * SIDE * SIDE)
    with code.loop(first, last) as piece:
        row = piece // across
        column = piece - row * across
        with code.loop(0, SIDE) as r:
            start = code.cast(source + ((row * SIDE + r) * across + column) * (2 * SIDE * cells), "ptr")
            vectors = [code.load("i16", start, SIDE * k, SIDE) for k in range(cells)]
            for cell in range(cells):
                places = [column * cells + cell for column in range(SIDE)]
                found = vectors[0]
                for k in range(1, cells):
                    elements = {place % SIDE for place in places if place // SIDE == k}
                    bits = ", ".join(f"i1 {int(e in elements)}" for e in range(SIDE))
                    found = code.select(Value(code, f"<{bits}>", f"<{SIDE} x i1>"), vectors[k], found)
                ordered = code.shuffle(found, found, [place % SIDE for place in places])
                code.store(ordered, scratch, (r + cell * SIDE) * SIDE)
        with code.loop(0, cells) as cell:
            block = code.at("i8", scratch, cell * (2 * SIDE * SIDE))
            step = row * (across * cells) + cell * across + column
            if not forward:
                step = column * (down * cells) + ((cells - 1) - cell) * down + row
            for half in range(2):
                if forward:
                    pairs = [code.load("i32", block, (half * TILE + k) * PAIRS, TILE) for k in range(TILE)]
                    tile = turned(code, pairs)
                else:
                    words = [
                        code.cast(code.load("i16", block, k * SIDE + half * TILE, TILE), "i32", signed=False)
                        for k in range(SIDE)
                    ]
                    tile = [words[2 * p] | (words[2 * p + 1] << 16) for p in range(PAIRS)]
                to = code.cast(out + step * STEP_BYTES + half * TILE_BYTES, "ptr")
                for k, line in enumerate(tile):
                    code.store(line, to, k * PAIRS)


@native("qqqqqqqq")
def place_rows(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Channels of 16-bit numbers, a piece each, whose rows are copied to their places among zeros.

    Arguments: addresses of the source, of the result, and of a table with each row's offset in the one and in the other; rows;
    numbers in a row; bytes from a channel to the next in the source and in the result; numbers in a channel of the result.
    """
    source, out, table, rows, width, source_step, out_step, length = arguments
    table = code.cast(table, "ptr")
    with code.loop(first, last) as channel:
        begin, target = source + channel * source_step, out + channel * out_step
        whole = code.cast(target, "ptr")
        zero = code.value(0, "i16")
        code.vectors(length, SIDE, lambda at, _, size: code.store(code.splat(zero, size), whole, at))
        with code.loop(0, rows) as row:
            there, to = (code.cast(base + code.load("i64", table, row * 2 + k), "ptr")
                         for k, base in enumerate((begin, target)))  # fmt: skip

            def copy(at: Value, _: int, size: int, there: Value = there, to: Value = to) -> None:
                code.store(code.load("i16", there, at, size), to, at)

            code.vectors(width, SIDE, copy, narrows=True)


@native("q" * 12)
def turn(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Pieces of matrices of 16-bit numbers that are transposed: 32 rows of one, a cache line of each row of the result.

    Rows may lie in two dimensions (groups, size). Arguments: addresses of the first source and of its result; rows and columns of
    a source; of the source, bytes from one to the next, from a group of rows to the next, the size of a group, and bytes from row
    to row in it; the same of the results, whose rows are the columns of the source.
    """
    source, out, rows, columns = arguments[:4]
    (source_next, *source_rows), (out_next, *out_rows) = arguments[4:8], arguments[8:]
    pieces = (rows + (SIDE - 1)) // SIDE
    read = code.array("i64", SIDE)  # addresses of rows
    with code.loop(first, last) as piece:
        matrix = piece // pieces
        low = (piece - matrix * pieces) * SIDE
        begin, target = source + matrix * source_next, out + matrix * out_next + low * 2
        starts = [begin + offset for offset in _offsets(low, SIDE, *source_rows)]
        for k, start in enumerate(starts):
            code.store(start, read, k)
        high, broad = code.minimum(rows - low, SIDE), columns // TILE * TILE
        tall = high // TILE * TILE
        with code.loop(0, broad, TILE) as column:
            ends = [target + offset for offset in _offsets(column, TILE, *out_rows)]
            with code.loop(0, tall, TILE) as row:
                at = [code.load("i64", read, row + k) + column * 2 for k in range(TILE)]
                _turn_block(code, at, [end + row * 2 for end in ends])
        edges = (tall, 0, broad), (0, broad, columns)  # rows from a number on, columns from one to another
        for begin_row, begin_column, end_column in edges:
            with code.loop(begin_column, end_column) as column, code.loop(begin_row, high) as row:
                [to] = _offsets(column, 1, *out_rows)
                number = code.load("i16", code.cast(code.load("i64", read, row) + column * 2, "ptr"))
                code.store(number, code.cast(target + to, "ptr"), row)


def _turn_block(code: Code, source: list[Value], out: list[Value]) -> None:
    """Transpose 16 × 16 numbers from the addresses of rows to those of the result's rows."""
    source, out = ([code.cast(address, "ptr") for address in addresses] for addresses in (source, out))
    for first in (0, EIGHTH):
        halves = [code.load("i16", address, first, EIGHTH) for address in source]
        both = [code.shuffle(*pair, range(TILE)) for pair in zip(halves[:EIGHTH], halves[EIGHTH:], strict=True)]
        for k, line in enumerate(turned(code, both)):
            code.store(line, out[first + k])


def _offsets(first: Value, count: int, group: Value, size: Value, step: Value) -> list[Value]:
    """The offsets of so many rows from `first` on, `step` bytes apart in groups of `size`, which are `group` bytes apart."""
    code = first.code
    number = first // size
    within = first - number * size
    found = [number * group + within * step]
    back = group - (size - 1) * step  # from the last row of a group to the next group
    for _ in range(count - 1):
        ends = within + 1 == size
        found.append(found[-1] + code.select(ends, back, step))
        within = code.select(ends, 0, within + 1)
    return found
