"""The register tile of matrix products and convolutions: machine code for any number of rows and of vectors a row.

    c[i, j] (+)= Σ_k a[i, k] · b[k, j]  (+ bias[j] or bias[i])        for `shape.rows` rows and `shape.columns` columns,

summed in registers with `fma`, in the order of k: an element has one value, whichever tile computes it. A tile is a
function of its own, without Numba (`address`: some 20 ms to compile, 1 ms from the cache), that a kernel calls:

    shape = choose(out_channels)                   # the fastest tile, with the padding of the columns
    function = address("rows", shape)              # an argument of the kernel, with shape.rows and shape.columns
    ...
    call(code, function, x, rows_i, cells_t, cells_here, run, panel_j, 0, out_i_j, pitch, bias_j, rows_left, columns_left, first)

How the left operand is addressed (`left`), for row r of the tile:

    "panel"   a[k · shape.rows + r], for k < count: packed, the rows of a tile together for each k
    "rows"    a[rows[r] + cells[t] + q], for t < count, q < run: for each t, the elements of a run are contiguous. A patch
              of a convolution; a plain matrix has one cell, 0, and as many in the run as it has columns
    "cells"   a[cells[k] + r], for k < count: the rows are contiguous, as in a weight gradient

The right operand is packed into panels [k][shape.columns] (the last one filled up), its lines in the order of the sum;
with `panels=False` line k is at b + k · `step`. Results are at c + r · `pitch`; with `places=True`, `pitch` is the address
of a table: row r is at c + places[r]. Offsets, steps and pitches count elements. The bias is one of columns, with
`by_row=True` of rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tdt._kernels._assembler import Assembler
from tdt._kernels._native import linked, vector_width

if TYPE_CHECKING:
    from tdt._kernels._code import Code, Value

WORDS = ("a", "rows", "cells", "count", "run", "b", "step", "c", "pitch", "bias", "high", "wide", "first")
LEFT = ("panel", "rows", "cells")
FUNCTION = "tdt_function"  # the symbol of every function written here
GRAIN = 1 << 21  # multiply-adds that a thread should at least have: about 40 µs
UNROLLED = 4  # steps of the sum in a round of the loop

# {(rows, vectors a row): rate}, the best first: the sums, the vectors of b and an element of a fill the registers. The fewer
# vectors a row, the more elements of a are loaded for a product, each by an address in a register of its own (of 16) where
# rows lie apart; rates relative to the best.
OF_32_REGISTERS = {(8, 3): 1.0, (6, 4): 1.0, (12, 2): 0.95, (12, 1): 0.85}
OF_16_REGISTERS = {(6, 2): 1.0, (4, 3): 1.0, (12, 1): 0.8}
# {vectors a row: rows at most} where the rows lie together, so that one register addresses all; cycles of a step of its own.
MOST_ROWS_TOGETHER = {4: 6, 3: 9, 2: 14, 1: 24}
STEP = 1
MOST_FEW_ROWS, FEW = {7: 1, 5: 2, 4: 2, 3: 4, 2: 6, 1: 7}, 8  # as above in 16 registers, for fewer rows than that
MOST_ROWS_TOGETHER_OF_16 = {3: 4, 2: 6, 1: 12}
LARGEST_VECTOR = 64  # bytes of a vector where there are 32 registers
EDGE_TIME = 1.05  # of a tile that is narrower than its panels, times that of its steps


class Shape(NamedTuple):
    """Rows of a tile, vectors in each row, numbers in a vector, bytes of a number: 4 of float32, 8 of float64."""

    rows: int
    vectors: int
    width: int
    item: int = 4

    @property
    def columns(self) -> int:
        return self.vectors * self.width

    @property
    def cycles(self) -> float:
        """Of a step of the sum, in which two products are added and two vectors loaded, and each sum waits for 4."""
        return max(self.rows * self.vectors, self.rows + self.vectors, 8) / 2 + STEP


def width_of(item: int) -> int:
    """The numbers of so many bytes in a register."""
    return vector_width() * 4 // item


@functools.cache
def rates(width: int | None = None, item: int = 4) -> dict[Shape, float]:
    """The tiles for vectors of `width` numbers (None: this processor's), the best first, and their relative rates."""
    width = width or width_of(item)
    sizes = OF_32_REGISTERS if width * item == LARGEST_VECTOR else OF_16_REGISTERS
    return {Shape(*size, width, item): rate for size, rate in sizes.items()}


@functools.cache
def choose(columns: int, width: int | None = None, item: int = 4) -> Shape:
    """The tile that computes so many columns, padded to a multiple of its own, in the least time."""
    tiles = rates(width, item)
    return min(tiles, key=lambda shape: -(-columns // shape.columns) * shape.columns / tiles[shape])


@functools.cache
def choose_with_edge(columns: int, width: int | None = None, item: int = 4) -> Shape:
    """As `choose`, the last columns by a narrower tile, `edge`."""
    tiles = rates(width, item)

    def time(shape: Shape) -> float:
        whole, rest = divmod(columns, shape.columns)
        vectors = -(-rest // shape.width)
        last = shape._replace(vectors=vectors).cycles / shape.cycles * shape.vectors
        return (whole * shape.vectors + (vectors if vectors in (0, shape.vectors) else EDGE_TIME * last)) / tiles[shape]

    return min(tiles, key=time)


@functools.cache
def limited_shape(columns: int, limit: str) -> Shape:
    """The tile for so many columns of a product with a `limit` of `product_cpu.limited`."""
    tiles = rates()
    if limit == "to row":
        return choose_with_edge(columns)
    if limit == "from row":  # whose left operand is mostly packed in pieces of a tile's rows
        return min(tiles, key=lambda shape: 1 / tiles[shape] + 2 / shape.rows)
    # Every row, or sum, leaves out one more than the next one, by whole tiles.
    return min(tiles, key=lambda shape: (columns + shape.columns) / tiles[shape])


@functools.cache
def choose_for(rows: int, columns: int, width: int | None = None, item: int = 4, together: bool = False) -> Shape:
    """As `choose`, for so many rows in all: a few, or any number, in 16 registers if they lie `together`."""
    width = width or width_of(item)
    narrow, few = width * item < LARGEST_VECTOR, rows < FEW
    if narrow and not few and not together:
        return choose(columns, width, item)
    most_rows = MOST_FEW_ROWS if narrow and few else _most_rows_together(width, item)
    shapes = [Shape(r, v, width, item) for v, most in most_rows.items() for r in range(1, most + 1)]
    if narrow and not few:
        # Of equally fast ones the one with more sums; one vector a row takes a load for each product.
        shapes = [shape for shape in reversed(shapes) if shape.vectors > 1 or columns <= width]

    def time(shape: Shape) -> float:
        return -(-rows // shape.rows) * -(-columns // shape.columns) * shape.cycles

    # Of equally fast ones the one whose columns are filled up least: all of them are packed.
    return min(shapes, key=lambda shape: (time(shape), -(-columns // shape.columns) * shape.columns))


def same_columns(shape: Shape) -> list[Shape]:
    """The tiles of as many columns whose rows lie together, the most first."""
    most = _most_rows_together(shape.width, shape.item).get(shape.vectors, shape.rows)
    return [shape._replace(rows=rows) for rows in range(most, 0, -1)]


def _most_rows_together(width: int, item: int) -> dict[int, int]:
    return MOST_ROWS_TOGETHER if width * item == LARGEST_VECTOR else MOST_ROWS_TOGETHER_OF_16


def address(left: str, shape: Shape, *, panels: bool = True, places: bool = False, by_row: bool = False,
            run: int = 0) -> int:  # fmt: skip
    """The address of a tile's function, for `tile`.

    Args:
        left: "panel", "rows" or "cells": how the left operand is addressed.
        panels: the right operand is packed; else its lines are `step` apart.
        places: a table says where rows of the result are; else they are `pitch` apart.
        by_row: the bias has a number for each row; else for each column.
        run: elements of each run of "rows", which then are no loop; 0: the word of that name says how many.
    """
    right, suffix = "panels" if panels else "lines", "_places" * places + "_by_row" * by_row + f"_{run}" * (run > 0)
    name = f"tile_{left}_{'x'.join(map(str, shape))}_{right}{suffix}"
    return linked(name, [FUNCTION], lambda: Emitter(left, shape, panels, places, by_row, run).module)[0]


def edge(left: str, shape: Shape, columns: int, **form: Any) -> tuple[int, int]:
    """The columns and the address of the tile that computes the last of so many, from panels of `shape`'s; 0, 0 if that is it.

    form: as of `address`.
    """
    vectors = -(-(columns % shape.columns) // shape.width)
    if vectors in (0, shape.vectors):
        return 0, 0
    narrow = shape._replace(vectors=vectors)
    return narrow.columns, address(left, narrow, panels=False, **form)


class Routine(Assembler):
    """Writes a function of its own module, whose parameters are words."""

    def __init__(self, words: tuple[str, ...], width: int, name: str = FUNCTION, item: int = 4):
        super().__init__(name, width, item)
        function = self.begin(name, len(words), self.ir.VoidType())
        self.values: dict[str, Any] = dict(zip(words, function.args, strict=True))

    def bytes_of(self, elements: Any, size: int = 0) -> Any:
        """The bytes of so many elements of `size` bytes, 0: of those of a vector."""
        return self.builder.shl(elements, self.number((size or self.item).bit_length() - 1))

    def at(self, address: Any, offset: Any, kind: Any) -> Any:
        """A pointer to `kind`, `offset` bytes after an address."""
        return self.pointer(self.builder.add(address, self.number(offset)), kind)

    def entry(self, table: Any, index: Any) -> Any:
        """Entry of a table of words."""
        return self.builder.load(self.at(table, self.bytes_of(index, 8), self.i64))

    def read(self, address: Any, offset: Any, mask: Any = None) -> Any:
        """A vector `offset` bytes after an address; zeros where the mask is not set."""
        return self.load(self.builder.add(address, self.number(offset)), mask)

    def write(self, value: Any, address: Any, offset: Any, mask: Any = None) -> None:
        """Store a vector, or its elements whose mask is set."""
        self.store(value, self.builder.add(address, self.number(offset)), mask)

    def loop(self, count: Any, start: list[Any], step: Any) -> list[Any]:
        """`values = step(values)`, `count` times from `start`; the last values. count may be 0.

        LLVM does not unroll it further: loads would push sums out of registers.
        """

        def body(left: Any, values: list[Any]) -> tuple[Any, list[Any], Any]:
            results = step(values)
            less = self.builder.sub(left, self.number(1))
            return less, results, self.builder.icmp_signed(">", less, self.number(0))

        some = self.builder.icmp_signed(">", count, self.number(0))
        return self.rounds(some, count, start, body, unroll=False)

    def unrolled(self, count: Any, start: list[Any], step: Any) -> list[Any]:
        """`values = step(values, rounds)` for `rounds` steps of the sum at a time, `count` steps in all."""
        builder = self.builder
        values = self.loop(
            builder.lshr(count, self.number(UNROLLED.bit_length() - 1)), start, lambda values: step(values, UNROLLED)
        )
        return self.loop(builder.and_(count, self.number(UNROLLED - 1)), values, lambda values: step(values, 1))


class Emitter(Routine):
    """Writes the function of a tile."""

    words = WORDS

    def __init__(self, left: str, shape: Shape, panels: bool, places: bool, by_row: bool = False, run: int = 0):
        assert left in LEFT, f"left is one of {LEFT}, not {left}"
        super().__init__(self.words, shape.width, item=shape.item)
        self.left, self.shape, self.panels, self.places, self.by_row = left, shape, panels, places, by_row
        self.run = run
        last = self.builder.sub(self.values["high"], self.number(1))
        self.index = [self.smaller(self.number(r), last) for r in range(self.shape.rows)]
        self.targets = [self._target(index) for index in self.index]
        self._prefetch()
        self._finish()
        self.builder.ret_void()

    # The sum. A state of its loops is an address or offset in a, the addresses that `_rights` begins with, and the sums.

    def _begin(self) -> list[Any]:
        return [*self._rights(), *[self.zero] * (self.shape.rows * self.shape.vectors)]

    def _rights(self) -> list[Any]:
        return [self.values["b"]]

    def line_at(self, rights: list[Any]) -> tuple[list[Any], list[Any]]:
        """The vectors of b's line, and where the next one is."""
        [b] = rights
        size = self.item * self.width
        return [self.read(b, size * v) for v in range(self.shape.vectors)], [self.builder.add(b, self.line)]

    def products(self, state: list[Any], rounds: int, element: Any) -> list[Any]:
        """Add `rounds` steps: `element(r, u)` points to row r of step u. state: all but the place in a."""
        vectors = self.shape.vectors
        count = len(state) - self.shape.rows * vectors
        rights, sums = state[:count], state[count:]
        for u in range(rounds):
            lines, rights = self.line_at(rights)
            for r in range(self.shape.rows):
                value = self.spread(self.builder.load(element(r, u)))
                for v in range(vectors):
                    k = r * vectors + v
                    sums[k] = self.fma(value, lines[v], sums[k])
        return [*rights, *sums]

    def sums(self) -> list[Any]:
        """The sums of all steps."""
        return getattr(self, f"_sum_{self.left}")()[-self.shape.rows * self.shape.vectors :]

    @functools.cached_property
    def line(self) -> Any:
        """Bytes from a line of b to the next."""
        return self.number(self.item * self.shape.columns) if self.panels else self.bytes_of(self.values["step"])

    def _sum_panel(self) -> list[Any]:
        single, size = self.real, self.item * self.shape.rows

        def step(values: list[Any], rounds: int) -> list[Any]:
            a, *state = values
            state = self.products(state, rounds, lambda r, u: self.at(a, u * size + self.item * r, single))
            return [self.builder.add(a, self.number(rounds * size)), *state]

        _ = self.line  # before the loop
        return self.unrolled(self.values["count"], [self.values["a"], *self._begin()], step)

    def _sum_rows(self) -> list[Any]:
        single, builder = self.real, self.builder
        a = [builder.add(self.values["a"], self.bytes_of(self.entry(self.values["rows"], i))) for i in self.index]

        def step(values: list[Any], rounds: int) -> list[Any]:
            offset, *state = values
            state = self.products(state, rounds, lambda r, u: self.at(builder.add(a[r], offset), self.item * u, single))
            return [builder.add(offset, self.number(self.item * rounds)), *state]

        def cell(values: list[Any]) -> list[Any]:
            table, *state = values
            start = [self.bytes_of(builder.load(self.at(table, 0, self.i64))), *state]
            _, *state = step(start, self.run) if self.run else self.unrolled(self.values["run"], start, step)
            return [builder.add(table, self.number(8)), *state]

        _ = self.line
        return self.loop(self.values["count"], [self.values["cells"], *self._begin()], cell)

    def _sum_cells(self) -> list[Any]:
        single, builder = self.real, self.builder

        def step(values: list[Any], rounds: int) -> list[Any]:
            table, *state = values
            a = [
                builder.add(self.values["a"], self.bytes_of(builder.load(self.at(table, 8 * u, self.i64))))
                for u in range(rounds)
            ]
            state = self.products(state, rounds, lambda r, u: self.at(a[u], self.item * r, single))
            return [builder.add(table, self.number(8 * rounds)), *state]

        _ = self.line
        return self.unrolled(self.values["count"], [self.values["cells"], *self._begin()], step)

    # The end: what was there, the bias, the edges.

    def _target(self, index: Any) -> Any:
        """The address of a row of the result; rows past `high` repeat the last one."""
        pitch = self.values["pitch"]
        offset = self.entry(pitch, index) if self.places else self.builder.mul(index, pitch)
        return self.builder.add(self.values["c"], self.bytes_of(offset))

    def _prefetch(self) -> None:
        for target in self.targets:
            self.fetch(target)

    def fetch(self, address: Any) -> None:
        """Fetch a line of as many columns into the nearest cache; it may begin within a cache line."""
        size = self.item * self.shape.columns
        for offset in (*range(0, size, 64), size - 1):
            self.prefetch(self.builder.add(address, self.number(offset)))

    def _finish(self) -> None:
        sums = self.sums()
        self._either(lambda masks: self._end(sums, masks))

    def _either(self, write: Callable[[list[Any]], None]) -> None:
        """Write code for whole vectors, without masks, and for those of `wide` columns."""
        full = self.builder.icmp_signed(">=", self.values["wide"], self.number(self.shape.columns))
        with self.builder.if_else(full) as (whole, edge):
            with whole:
                write([None] * self.shape.vectors)
            with edge:
                write([self.mask(self.values["wide"], v * self.width) for v in range(self.shape.vectors)])

    def _end(self, sums: list[Any], masks: list[Any]) -> None:
        """Add the sums to what is there, unless they are the first, add the bias if there is one, and write."""
        builder, zero, vectors = self.builder, self.number(0), self.shape.vectors
        again = builder.icmp_signed("==", self.values["first"], zero)
        size = self.item * self.width
        sums = self._added(again, sums, lambda r, v: self.read(self.targets[r], v * size, masks[v]))
        some = builder.icmp_signed("!=", self.values["bias"], zero)
        bias: dict[int, Any] = {}

        def added(r: int, v: int) -> Any:
            key = r if self.by_row else v
            if key not in bias:
                bias[key] = self._of_row(r) if self.by_row else self.read(self.values["bias"], v * size, masks[v])
            return bias[key]

        sums = self._added(some, sums, added)
        after = builder.append_basic_block("written")
        for r in range(self.shape.rows):
            for v in range(vectors):
                self.write(sums[r * vectors + v], self.targets[r], v * size, masks[v])
            following = builder.append_basic_block("row")
            builder.cbranch(builder.icmp_signed(">", self.values["high"], self.number(r + 1)), following, after)
            builder.position_at_end(following)
        builder.branch(after)
        builder.position_at_end(after)

    def _of_row(self, r: int) -> Any:
        """The bias of a row, in all lanes."""
        place = self.builder.add(self.values["bias"], self.bytes_of(self.index[r]))
        return self.spread(self.builder.load(self.at(place, 0, self.real)))

    def _added(self, condition: Any, sums: list[Any], other: Any) -> list[Any]:
        """`other(row, vector) + sum` for each sum if the condition holds, else the sums."""
        builder, vectors = self.builder, self.shape.vectors
        start = builder.block
        with builder.if_then(condition):
            values = [builder.fadd(other(*divmod(k, vectors)), total) for k, total in enumerate(sums)]
            end = builder.block
        results = []
        for value, total in zip(values, sums, strict=True):
            phi = builder.phi(self.vector)
            phi.add_incoming(total, start)
            phi.add_incoming(value, end)
            results.append(phi)
        return results


def call(code: Code, function: Value, *words: Value | int) -> None:
    """Call a tile's function, or one of `_pack`, in code that is written with `_code`: a word for each of its `WORDS`."""
    text = ", ".join(f"i64 {code.value(word, 'i64').name}" for word in words)
    code.lines.append(f"  call void {code.cast(function, 'ptr').name}({text})")
