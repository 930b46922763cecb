"""The parts of products of small matrices: tiles of some rows, and packers of panels, each compiled when it is first required.

    parts = Parts(width)
    parts.addresses          # a table that machine code reads: the address of each part, 0 until it is compiled
    if parts.required[0]:      # code has set it: it found a 0, and computed the product with the simplest tile
        parts.compile()

A process compiles the few parts that its shapes call for, each in 25 to 150 ms, instead of all of them in seconds.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

from tdt._kernels._code import Code, Value
from tdt._kernels._native import linked
from tdt._kernels._pack import Columns, block_of, pair_of_halves, shuffle, turned, turned_halves, turned_pairs
from tdt._kernels._tile import FUNCTION, Routine

DEPTH = 256  # products that are summed in registers
TILE_WORDS = ("a", "a_row", "a_k", "b", "b_step", "c", "c_row", "bias", "wide", "count", "again", "panel")
MOST_ROWS = {8: 6, 16: 12}  # of a tile of two vectors a row, by the floats of a vector: as many as the registers hold
MOST_ROWS_OF_ONE = 12  # of a tile of one vector
# Vectors of a tile of so few rows, by the floats of a vector.
WIDE = {8: {1: 8, 2: 4, 3: 4}, 16: {1: 8, 2: 4, 3: 4, 4: 4, 5: 3, 6: 3, 7: 3, 8: 3}}
REPEATED = {8: (), 16: (16, 24)}  # rows that are computed by a wide tile of eight, as packing lines would not pay yet
# By rows, groups of a vector's columns: so many that sums, each of which waits for the one before, are not what takes the time.
# One row reads eight columns at a time, in vectors of eight: more streams than that a processor does not foresee.
TURNED = {8: dict.fromkeys(range(1, 9), 1), 16: {rows: 2 if rows < 9 else 1 for rows in range(1, 13)}}
LANES = 16  # floats of a vector of AVX-512
# Rows of which lines are read along their whole length, by the floats of a vector (a wide tile of sixteen reads whole cache lines
# of three and more rows as fast), and bytes of a line at most.
STREAMS, STREAMED = {8: (1, 2, 3, 4), 16: (1, 2)}, 1 << 13
STREAMED_LINES = 8  # by rows: so many of them at a time
CACHE_LINE = 64  # bytes of a column that are turned at a time
# Rows of tiles of sixteen columns that fetch the next ones where the matrix is so large that a level-two cache does not keep it.
FETCHING_ROWS = 2
WHOLE_LINES_ROWS = 4  # rows up to which a tile of sixteen columns has registers for sixteen elements of each
PARTS_AT_ONCE = 2  # parts of a sum of one row that a tile of columns computes at a time
AHEAD = 8  # lines by which a tile fetches b in advance: a processor does not foresee lines in pages of their own


class Tile(Routine):
    """`rows` rows by `vectors` vectors: a[r, k] lies at a + r · a_row + k · a_k, line k of b at b + k · b_step. Sums are stored,
    or if `again` added to what is there; then the bias is added, unless its address is 0.

    Args:
        whole: how many vectors are always whole; by default all but the last.
        packs: the lines are written to a panel too, which other rows read.
    """

    def __init__(
        self,
        name: str,
        rows: int,
        vectors: int,
        width: int,
        whole: int | None = None,
        *,
        packs: bool = False,
        item: int = 4,
    ):
        super().__init__(TILE_WORDS, width, name, item)
        self.rows, self.vectors, self.packs = rows, vectors, packs
        self.always_whole = vectors - 1 if whole is None else whole
        builder, values = self.builder, self.values
        self.targets = [builder.add(values["c"], builder.mul(self.number(r), values["c_row"])) for r in range(rows)]
        for target in self.targets:
            self.fetch(target)
        self.write_body()
        builder.ret_void()

    def write_body(self) -> None:
        """All of the function."""
        self.either(lambda: self.end(self.sums()), self.always_whole)

    def fetch(self, address: Any, size: int | None = None, level: int = 1) -> None:
        """Fetch bytes (by default a row of the tile, or a line of b) into a cache: 1 is the nearest. They may begin within a
        cache line."""
        size = size or self.item * self.vectors * self.width
        for offset in (*range(0, size, CACHE_LINE), size - 1):
            args = [self.at(address, offset, self.i8), self.i32(0), self.i32(4 - level), self.i32(1)]
            self.intrinsic("llvm.prefetch.p0", self.ir.VoidType(), args)

    def either(self, write: Callable[[], None], partial: int) -> None:
        """Write the code for whole vectors, and for `masks` of those from number `partial` on."""
        builder, wide = self.builder, self.values["wide"]
        full = builder.icmp_signed("==", wide, self.number(self.vectors * self.width))
        with builder.if_else(full) as (yes, no):
            for branch, first in ((yes, self.vectors), (no, partial)):
                with branch:
                    self.masks = [None if v < first else self.mask(wide, v * self.width) for v in range(self.vectors)]
                    write()

    def sums(self) -> list[Any]:
        builder, values = self.builder, self.values
        row = values["a_row"]
        steps = [self.number(0), row, builder.shl(row, self.number(1))]
        self.ahead = builder.mul(values["b_step"], self.number(AHEAD))
        triple = builder.mul(row, self.number(3))
        starts = [builder.add(values["a"], builder.mul(triple, self.number(g))) for g in range(-(-self.rows // 3))]

        def step(state: list[Any]) -> list[Any]:
            *a, b, panel = state[: len(starts) + 2]
            sums = state[len(starts) + 2 :]
            lines = self.line(b)
            if self.packs:
                for v, line in enumerate(lines):
                    self.write(line, panel, self.item * v * self.width)
                panel = builder.add(panel, self.number(self.item * self.vectors * self.width))
            self.fetch(builder.add(b, self.ahead))
            for r in range(self.rows):
                element = builder.load(self.at(builder.add(a[r // 3], steps[r % 3]), 0, self.real))
                value = self.spread(element)
                for v in range(self.vectors):
                    k = r * self.vectors + v
                    sums[k] = self.fma(value, lines[v], sums[k])
            a = [builder.add(address, values["a_k"]) for address in a]
            return [*a, builder.add(b, values["b_step"]), panel, *sums]

        start = [*starts, values["b"], values["panel"], *[self.zero] * (self.rows * self.vectors)]
        return self.loop(values["count"], start, step)[len(starts) + 2 :]

    def line(self, b: Any) -> list[Any]:
        return [self.read(b, self.item * v * self.width, mask) for v, mask in enumerate(self.masks)]

    def end(self, sums: list[Any]) -> None:
        """Add what is there, those of further parts and the bias, and write."""
        size, masks = self.item * self.width, self.masks
        places = [(r, v) for r in range(self.rows) for v in range(self.vectors)]
        sums, further = sums[: len(places)], sums[len(places) :]
        sums = self.added(
            "again", sums, lambda k: self.read(self.targets[places[k][0]], places[k][1] * size, masks[places[k][1]])
        )
        for start in range(0, len(further), len(places)):
            part = further[start : start + len(places)]
            sums = [self.builder.fadd(total, each) for total, each in zip(sums, part, strict=True)]
        sums = self.added(
            "bias", sums, lambda k: self.read(self.values["bias"], places[k][1] * size, masks[places[k][1]])
        )
        for (r, v), total in zip(places, sums, strict=True):
            self.write(total, self.targets[r], v * size, masks[v])

    def added(self, word: str, sums: list[Any], other: Any) -> list[Any]:
        """`other(k) + sum` for each sum if a word is not zero, else the sums."""
        builder = self.builder
        start = builder.block
        with builder.if_then(builder.icmp_signed("!=", self.values[word], self.number(0))):
            values = [builder.fadd(other(k), total) for k, total in enumerate(sums)]
            end = builder.block
        results = []
        for value, total in zip(values, sums, strict=True):
            phi = builder.phi(total.type)
            phi.add_incoming(total, start)
            phi.add_incoming(value, end)
            results.append(phi)
        return results


class Stream(Tile):
    """A tile of `rows` rows and any number of columns, up to STREAMED: for large matrices b with long lines.

    Some lines at a time are read along their whole length, while the sums stay on the stack: a narrow tile would read a short
    piece of every line, each from another page of memory.
    """

    def __init__(self, name: str, rows: int, width: int, item: int = 4):
        Routine.__init__(self, TILE_WORDS, width, name, item)
        self.rows = rows
        builder, values = self.builder, self.values
        memory = builder.alloca(self.ir.ArrayType(self.i8, STREAMED * rows))
        memory.align = CACHE_LINE
        self.buffer = builder.ptrtoint(memory, self.i64)
        size = STREAMED_LINES // rows
        self.columns(lambda offset, _: [self.store(self.zero, self.place(r, offset)) for r in range(rows)])
        state = self.loop(
            builder.udiv(values["count"], self.number(size)),
            [self.number(0), values["b"]],
            lambda s: self.group(*s, size),
        )
        self.loop(builder.urem(values["count"], self.number(size)), state, lambda s: self.group(*s, 1))
        self.columns(self.end_vector)
        builder.ret_void()

    def group(self, a: Any, b: Any, lines: int) -> list[Any]:
        """Add the products of some lines; where the next begin, in a and b."""
        builder, values = self.builder, self.values
        steps = [builder.add(a, builder.mul(values["a_k"], self.number(u))) for u in range(lines)]
        rows = [builder.add(values["a"], builder.mul(values["a_row"], self.number(r))) for r in range(self.rows)]
        factors = [
            [self.spread(builder.load(self.at(builder.add(row, k), 0, self.real))) for k in steps] for row in rows
        ]
        starts = [builder.add(b, builder.mul(values["b_step"], self.number(u))) for u in range(lines)]

        def piece(offset: Any, mask: Any) -> None:
            read = [self.load(builder.add(start, offset), mask) for start in starts]
            for r in range(self.rows):
                place = self.place(r, offset)
                total = self.load(place)
                for factor, line in zip(factors[r], read, strict=True):
                    total = self.fma(factor, line, total)
                self.store(total, place)

        self.columns(piece)
        return [builder.add(a, builder.mul(values["a_k"], self.number(lines))),
                builder.add(b, builder.mul(values["b_step"], self.number(lines)))]  # fmt: skip

    def place(self, row: int, offset: Any) -> Any:
        return self.builder.add(self.builder.add(self.buffer, self.number(STREAMED * row)), offset)

    def columns(self, piece: Callable[[Any, Any], object]) -> None:
        """`piece(offset, mask)` for each vector of columns."""
        builder, wide = self.builder, self.values["wide"]
        size = self.number(self.item * self.width)

        def body(state: list[Any]) -> list[Any]:
            piece(state[0], None)
            return [builder.add(state[0], size)]

        (offset,) = self.loop(builder.udiv(wide, self.number(self.width)), [self.number(0)], body)
        rest = builder.urem(wide, self.number(self.width))
        with builder.if_then(builder.icmp_signed("!=", rest, self.number(0))):
            piece(offset, self.mask(rest))

    def end_vector(self, offset: Any, mask: Any) -> None:
        """The end of a vector of columns of all rows."""
        builder, values = self.builder, self.values
        sums = [self.load(self.place(r, offset)) for r in range(self.rows)]
        targets = [builder.add(builder.add(values["c"], offset), builder.mul(values["c_row"], self.number(r)))
                   for r in range(self.rows)]  # fmt: skip
        sums = self.added("again", sums, lambda r: self.load(targets[r], mask))
        sums = self.added("bias", sums, lambda _: self.load(builder.add(values["bias"], offset), mask))
        for total, target in zip(sums, targets, strict=True):
            self.store(total, target, mask)


class TurnedTile(Tile):
    """A tile of groups of columns, a vector of each, that lie `b_step` apart and are contiguous, as the rows are: turned in
    registers, sixteen elements of k at a time. All of its columns exist.

    In vectors of sixteen floats the columns of the next tile are fetched meanwhile, one after another, where `panel` is not 0:
    read where they are turned, a piece of each column in turn, they would come from memory in an order that the processor does
    not foresee. It does foresee eight columns.

    Args:
        parts: of the sum, each of DEPTH products or, if it is one, of `count`. Two parts of sixteen columns keep as many sums as
            one part of 32, but read half as many lines at one place of a page: where columns lie a multiple of 4096 bytes
            apart, these share a set of the nearest cache.
    """

    def __init__(self, name: str, rows: int, groups: int, width: int, parts: int = 1, item: int = 4):
        self.parts = parts  # of the sum, that are computed at a time
        self.block, self.run = (
            block_of(item),
            CACHE_LINE // item,
        )  # elements of a column that are turned, and read, at a time
        super().__init__(name, rows, groups, width, item=item)

    def write_body(self) -> None:
        self.masks = [None] * self.vectors
        self.end(self.sums())

    def fetch_next(self, offset: Any) -> None:
        """Fetch a column of each group of the next tile, or a part of one: the first while the elements from 0 on are turned."""
        builder = self.builder
        number = builder.lshr(offset, self.number(CACHE_LINE.bit_length() - 1))
        pieces = DEPTH // self.run // self.width
        size = self.item * DEPTH * self.parts // pieces
        column, piece = builder.udiv(number, self.number(pieces)), builder.urem(number, self.number(pieces))
        for g in range(self.vectors):
            to = builder.add(column, self.number(self.width * (self.vectors + g)))
            address = builder.add(self.values["b"], builder.mul(to, self.values["b_step"]))
            self.fetch(builder.add(address, builder.mul(piece, self.number(size))), size, level=2)

    def columns(self) -> Callable[[int, Any], list[Any]]:
        """A function that gives the addresses of a group's columns at an offset."""
        builder, step = self.builder, self.values["b_step"]
        triple = builder.add(step, builder.shl(step, self.number(1)))

        def at(group: int, offset: Any) -> list[Any]:
            # Four columns to an address: there are registers for few of them.
            start = builder.add(self.values["b"], offset)
            start = builder.add(start, builder.mul(step, self.number(self.width * group))) if group else start
            addresses = []
            for quad in range(self.width // 4):
                start = builder.add(start, builder.shl(step, self.number(2))) if quad else start
                addresses += [start, builder.add(start, step), builder.add(start, builder.shl(step, self.number(1))),
                              builder.add(start, triple)]  # fmt: skip
            return addresses

        return at

    def lines(self, group: int, offset: Any, half: int, mask: Any = None) -> list[Any]:
        """Lines of a group's columns, for half of a cache line of each from an offset on, or those of a mask."""
        addresses = self.at_columns(group, self.builder.add(offset, self.number(self.item * self.block * half)))
        return (turned_halves if self.width > self.block else turned)(self, addresses, mask=mask)

    def both(self, group: int, offset: Any) -> list[list[Any]]:
        """What both halves of `lines` are made of, a cache line after the other: columns may share a set of the cache."""
        low, high = (
            self.at_columns(group, self.builder.add(offset, self.number(self.item * self.block * half)))
            for half in range(2)
        )
        pairs = [[pair_of_halves(self, half, k) for half in (low, high)] for k in range(self.block)]
        self.keep_order()
        return [list(half) for half in zip(*pairs, strict=True)]

    def add_products(
        self, rows: list[Any], first: int, sums: list[Any], group: int, lines: list[Any], part: int = 0
    ) -> None:
        """Add the products of some lines of a group and part: those of the rows' elements from number `first` on."""
        for u, line in enumerate(lines, first):
            for r in range(self.rows):
                address = self.builder.add(rows[r // 3], self.row_steps[r % 3])
                value = self.spread(self.builder.load(self.at(address, self.item * u, self.real)))
                k = (part * self.rows + r) * self.vectors + group
                sums[k] = self.fma(value, line, sums[k])

    def sums(self) -> list[Any]:
        builder, values = self.builder, self.values
        self.at_columns, row = self.columns(), values["a_row"]
        self.row_steps = [self.number(0), row, builder.shl(row, self.number(1))]
        triple = builder.mul(row, self.number(3))
        triples = [builder.add(values["a"], builder.mul(triple, self.number(g))) for g in range(-(-self.rows // 3))]

        def step_of(state: list[Any]) -> list[Any]:
            offset, rows, sums = state[0], state[1 : 1 + len(triples)], state[1 + len(triples) :]
            if self.rows <= FETCHING_ROWS and self.width > self.block:
                with builder.if_then(builder.icmp_signed("!=", values["panel"], self.number(0))):
                    self.fetch_next(offset)
            self.add_step(offset, rows, sums)
            return [*[builder.add(each, self.number(CACHE_LINE)) for each in (offset, *rows)], *sums]

        start = [self.number(0), *triples, *[self.zero] * (self.rows * self.vectors * self.parts)]
        count = values["count"] if self.parts == 1 else self.number(DEPTH)
        offset, *state = self.loop(builder.lshr(count, self.number(self.run.bit_length() - 1)), start, step_of)
        return state[len(triples) :] if self.parts > 1 else self.add_rest(offset, state, len(triples))

    def add_step(self, offset: Any, rows: list[Any], sums: list[Any]) -> None:
        """Add the products of a cache line of each column."""
        starts = [self.builder.add(offset, self.number(self.item * DEPTH * part)) for part in range(self.parts)]

        def add(part: int, g: int, half: int, found: list[Any]) -> None:
            self.add_products(rows, DEPTH * part + self.block * half, sums, g, found, part)
            self.keep_order()

        places = list(itertools.product(range(self.parts), range(self.vectors)))
        if self.width == self.block:  # other sums in turn, as each product waits for the sum before
            for half, (part, g) in itertools.product(range(2), places):
                add(part, g, half, self.lines(g, starts[part], half))
            return
        for part, g in places:
            halves = self.both(g, starts[part]) if self.rows <= WHOLE_LINES_ROWS else None
            for half in range(2):
                found = turned_pairs(self, halves[half]) if halves else self.lines(g, starts[part], half)
                add(part, g, half, found)

    def add_rest(self, offset: Any, state: list[Any], triples: int) -> list[Any]:
        """Add the products of what is left of the columns behind whole cache lines; the sums."""
        builder = self.builder
        rest = builder.and_(self.values["count"], self.number(self.run - 1))
        memory = builder.alloca(self.ir.ArrayType(self.real, self.run * self.width * self.vectors))
        memory.align = 64
        buffer, size = builder.ptrtoint(memory, self.i64), self.item * self.width * self.vectors
        with builder.if_then(builder.icmp_signed(">", rest, self.number(0))):
            for g, half in itertools.product(range(self.vectors), range(2)):
                for k, line in enumerate(self.lines(g, offset, half, self.mask_of_half(rest, half))):
                    self.write(line, buffer, (self.block * half + k) * size + self.item * self.width * g)

        def single(state: list[Any]) -> list[Any]:
            line, rows, sums = state[0], state[1 : 1 + triples], state[1 + triples :]
            for g in range(self.vectors):
                self.add_products(rows, 0, sums, g, [self.read(line, self.item * self.width * g)])
            after = [builder.add(each, self.number(self.item)) for each in rows]
            return [builder.add(line, self.number(size)), *after, *sums]

        return self.loop(rest, [buffer, *state], single)[1 + triples :]

    def keep_order(self) -> None:
        """Let LLVM load nothing here that is loaded later: turned lines would push sums out of registers."""
        kind = self.ir.FunctionType(self.ir.VoidType(), [])
        self.builder.asm(kind, "", "~{memory}", [], True)

    def mask_of_half(self, stop: Any, half: int) -> Any:
        """Which of the numbers of half of a cache line are below `stop`."""
        if self.width == self.block:
            return self.mask(stop, half * self.block)
        mask = self.mask(stop)
        return shuffle(self, mask, mask, list(range(half * self.block, (half + 1) * self.block)))


class LastTurnedTile(TurnedTile):
    """A tile of up to a vector's columns: the last one is read in the place of those that do not exist."""

    def write_body(self) -> None:
        self.masks = [self.mask(self.values["wide"])]
        self.end(self.sums())

    def columns(self) -> Callable[[int, Any], list[Any]]:
        builder, values = self.builder, self.values
        last = builder.sub(values["wide"], self.number(1))
        places = [self.smaller(self.number(i), last) for i in range(self.width)]
        starts = [builder.add(values["b"], builder.mul(place, values["b_step"])) for place in places]
        return lambda _, offset: [builder.add(start, offset) for start in starts]

    def fetch_next(self, offset: Any) -> None:
        """Nothing: it is the last tile."""


Part = tuple[str, int, int]  # the kind, and of a tile the rows and vectors
WRITERS: dict[str, Callable[[str, int, int, int, int], Routine]] = {
    "lines": lambda name, rows, vectors, width, item: Tile(name, rows, vectors, width, item=item),
    "last_lines": lambda name, rows, vectors, width, item: Tile(name, rows, vectors, width, 0, item=item),
    "packing": lambda name, rows, vectors, width, item: Tile(name, rows, vectors, width, 0, packs=True, item=item),
    "columns": lambda *sizes: TurnedTile(*sizes[:4], item=sizes[4]),
    "last_columns": lambda *sizes: LastTurnedTile(*sizes[:4], item=sizes[4]),
    "columns_in_parts": lambda *sizes: TurnedTile(*sizes[:4], PARTS_AT_ONCE, sizes[4]),
    "last_columns_in_parts": lambda *sizes: LastTurnedTile(*sizes[:4], PARTS_AT_ONCE, sizes[4]),
    "stream": lambda name, rows, vectors, width, item: Stream(name, rows, width, item),
    "pack_columns": lambda name, rows, vectors, width, item: Columns(vectors * width, width, name, item=item),
}
MOST = max(MOST_ROWS.values())
PARTS: list[Part] = [
    *[(kind, rows + 1, 2) for kind in ("lines", "packing") for rows in range(MOST)],
    *[("lines", rows + 1, 1) for rows in range(MOST_ROWS_OF_ONE)],
    *dict.fromkeys((kind, *each) for kind, sizes in (("lines", WIDE), ("last_lines", WIDE), ("columns", TURNED))
                   for each in itertools.chain(*[by_rows.items() for by_rows in sizes.values()])),
    *[("last_columns", rows, 1) for rows in TURNED[LANES]], *[("stream", rows, 0) for rows in STREAMS[8]],
    ("columns_in_parts", 1, 1), ("last_columns_in_parts", 1, 1), ("pack_columns", 0, 1), ("pack_columns", 0, 2),
]  # fmt: skip
PLACES = {part: place for place, part in enumerate(PARTS, 1)}  # in the table; 0: none
COUNT = len(PARTS)


class Parts:
    """The parts for vectors of `width` floats, and matrices of elements of `item` bytes: float32 or float64.

    Attributes:
        table: for machine code, the address of words: whether any part is required, the parts' addresses, which are required.
        required: bytes of the table, the first of which is not 0 if any part is required.
    """

    def __init__(self, width: int, item: int = 4):
        self.width, self.item, self.required = width, item, bytearray(8 * (1 + 2 * COUNT))
        self._words = (ctypes.c_int64 * (1 + 2 * COUNT)).from_buffer(self.required)
        self.table = ctypes.addressof(self._words)

    def compiled(self) -> list[Part]:
        """The parts that are compiled."""
        return [part for part, place in PLACES.items() if self._words[place]]

    def compile(self) -> None:
        """Compile the parts that are required."""
        words = self._words
        words[0] = 0
        for place, (kind, rows, vectors) in enumerate(PARTS, 1):
            if words[COUNT + place] and not words[place]:
                numbers = self.width * 4 // self.item
                name = f"direct_{kind}_{rows}x{vectors}x{numbers}x{self.item}"
                write = lambda: WRITERS[kind](FUNCTION, rows, vectors, numbers, self.item).module  # noqa: B023, E731
                [words[place]] = linked(name, [FUNCTION], write)


def part_of(code: Code, table: Value, place: Value) -> Value:
    """In code: the address of the part at a place of the table. If it is not compiled, 0, and it is required from now on."""
    address = code.variable("i64", 0)
    with code.when(place != 0):
        found = code.load("i64", table, place)
        address.set(found)
        with code.when(found == 0):
            code.store(code.value(1, "i64"), table, place + COUNT)
            code.store(code.value(1, "i64"), table)
    return address.get()
