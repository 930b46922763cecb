"""Products of small matrices, or with few rows or one column: machine code that reads the operands where they lie.

    direct(a, a_row, a_k, b, b_k, b_column, c, c_row, m, n, k, bias)          # addresses, strides in bytes, sizes

computes c = a @ b (+ bias) for any strides of the operands; a row of the result is contiguous. Nothing is prepared, so that
the smallest product costs no more than its call. An element has the bits that the packed form gives it (`product_cpu`): its
products are summed in order with `fma`, DEPTH of them at a time, and these sums are added in order.

A tile of some rows and vectors reads b's lines. Columns that are contiguous in memory, as the weights of a linear layer, are
turned in registers, eight by eight, for a few rows, and for more rows into a panel on the stack first. With one column, the
transposed product is computed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tdt._kernels._code import Code, Value
from tdt._kernels._compilable import ENTRY
from tdt._kernels._gufunc import LOOP, Operand, ufunc_at, written
from tdt._kernels._native import NativeKernel, linked, vector_width
from tdt._kernels._pack import BLOCK, Columns, Lines, turned
from tdt._kernels._tile import Routine, call

DEPTH = 256  # products that are summed in registers
NAME = "tdt_direct"
WORDS = ("a", "a_row", "a_k", "b", "b_k", "b_column", "c", "c_row", "m", "n", "k", "bias")
TILE_WORDS = ("a", "a_row", "a_k", "b", "b_step", "c", "c_row", "bias", "wide", "count", "again")
# Rows by vectors a row.
TWO = (6, 4, 3, 2, 1)
ONE = (8, 4, 1)
WIDE = {1: 8, 2: 4, 3: 4}
TURNED = {1: 2, 2: 1}  # by groups of eight columns
OPEN_ROWS = 12  # up to so many, lines are read where they lie
OPEN_SIZE = 1 << 13  # bytes of a panel's lines, from the first to the last, that lie in the nearest cache
BLOCK_ROWS = 12  # rows that are computed at a time where a panel's memory has room for several panels
STREAMS, STREAMED = (1, 2, 4), 2048  # rows, and columns at most, of which lines are read along their whole length
STREAMED_LINES = 8  # by rows: so many of them at a time
LONG, MANY = 1 << 12, 1 << 18  # bytes from such a line to the next, at least, and elements of the matrix
RUN = 32  # elements of a column that are turned at a time: two cache lines
LINES, COLUMNS, ONE_COLUMNS = "tdt_pack_lines", "tdt_pack_columns", "tdt_pack_one_vector"


class Tile(Routine):
    """`rows` rows by `vectors` vectors, the last of which may be partial: a[r, k] lies at a + r · a_row + k · a_k, line k of b
    at b + k · b_step. Sums are stored, or if `again` added to what is there; then the bias is added, unless its address is 0."""

    def __init__(self, name: str, rows: int, vectors: int, width: int):
        super().__init__(TILE_WORDS, width, name)
        self.rows, self.vectors = rows, vectors
        builder, values = self.builder, self.values
        self.targets = [builder.add(values["c"], builder.mul(self.number(r), values["c_row"])) for r in range(rows)]
        for target in self.targets:
            for offset in range(0, 4 * vectors * width, 64):
                args = [self.at(target, offset, self.i8), self.i32(0), self.i32(3), self.i32(1)]
                self.intrinsic("llvm.prefetch.p0", self.ir.VoidType(), args)
        self.whole()
        builder.ret_void()

    def whole(self) -> None:
        """All of the function."""
        self.either(lambda: self.end(self.sums()), self.vectors - 1)

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
        triple = builder.mul(row, self.number(3))
        starts = [builder.add(values["a"], builder.mul(triple, self.number(g))) for g in range(-(-self.rows // 3))]

        def step(state: list[Any]) -> list[Any]:
            *a, b = state[: len(starts) + 1]
            sums = state[len(starts) + 1 :]
            lines = self.line(b)
            for r in range(self.rows):
                element = builder.load(self.at(builder.add(a[r // 3], steps[r % 3]), 0, self.f32))
                value = self.spread(element)
                for v in range(self.vectors):
                    k = r * self.vectors + v
                    sums[k] = self.fma(value, lines[v], sums[k])
            return [*[builder.add(address, values["a_k"]) for address in a], builder.add(b, values["b_step"]), *sums]

        start = [*starts, values["b"], *[self.zero] * (self.rows * self.vectors)]
        return self.loop(values["count"], start, step)[len(starts) + 1 :]

    def line(self, b: Any) -> list[Any]:
        return [self.read(b, 4 * v * self.width, mask) for v, mask in enumerate(self.masks)]

    def end(self, sums: list[Any]) -> None:
        """Add what is there and the bias, and write."""
        size, masks = 4 * self.width, self.masks
        places = [(r, v) for r in range(self.rows) for v in range(self.vectors)]
        sums = self.added(
            "again", sums, lambda k: self.read(self.targets[places[k][0]], places[k][1] * size, masks[places[k][1]])
        )
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

    def __init__(self, name: str, rows: int, width: int):
        Routine.__init__(self, TILE_WORDS, width, name)
        self.rows = rows
        builder, values = self.builder, self.values
        self.buffer = builder.ptrtoint(builder.alloca(self.ir.ArrayType(self.f32, STREAMED * rows)), self.i64)
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
            [self.spread(builder.load(self.at(builder.add(row, k), 0, self.f32))) for k in steps] for row in rows
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
        return self.builder.add(self.builder.add(self.buffer, self.number(4 * STREAMED * row)), offset)

    def columns(self, piece: Callable[[Any, Any], object]) -> None:
        """`piece(offset, mask)` for each vector of columns."""
        builder, wide = self.builder, self.values["wide"]
        size = self.number(4 * self.width)

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
    """A tile of groups of eight columns, that lie `b_step` apart and are contiguous: turned in registers, eight of k at a time.
    All of its columns exist."""

    def __init__(self, name: str, rows: int, groups: int):
        super().__init__(name, rows, groups, BLOCK)

    def whole(self) -> None:
        self.masks = [None] * self.vectors
        self.end(self.sums())

    def sums(self) -> list[Any]:
        builder, values = self.builder, self.values
        step = values["b_step"]
        multiples = [builder.mul(step, self.number(k)) for k in range(BLOCK)]
        rows = [builder.add(values["a"], builder.mul(self.number(r), values["a_row"])) for r in range(self.rows)]
        groups = [builder.add(values["b"], builder.mul(step, self.number(BLOCK * g))) for g in range(self.vectors)]

        def products(state: list[Any], lines: int, read: Callable[[list[Any]], list[Any]]) -> list[Any]:
            """Add the products of some lines of all groups; `read` gets the addresses of a group's columns."""
            a, offset, *sums = state
            steps = [builder.add(a, builder.mul(values["a_k"], self.number(u))) for u in range(lines)]
            for g, group in enumerate(groups):
                start = builder.add(group, offset)
                for k, line in zip(steps, read([builder.add(start, m) for m in multiples]), strict=True):
                    for r in range(self.rows):
                        value = self.spread(builder.load(self.at(builder.add(rows[r], k), 0, self.f32)))
                        sums[r * self.vectors + g] = self.fma(value, line, sums[r * self.vectors + g])
            after = builder.add(a, builder.mul(values["a_k"], self.number(lines)))
            return [after, builder.add(offset, self.number(4 * lines)), *sums]

        def single(columns: list[Any]) -> list[Any]:
            line = self.zero
            for i, column in enumerate(columns):
                line = builder.insert_element(line, builder.load(self.at(column, 0, self.f32)), self.i32(i))
            return [line]

        start = [self.number(0), self.number(0), *[self.zero] * (self.rows * self.vectors)]

        def lines_of(columns: list[Any]) -> list[Any]:
            halves = [[builder.add(c, self.number(4 * k)) for c in columns] for k in range(0, RUN, BLOCK)]
            return [line for half in halves for line in turned(self, half)]

        state = self.loop(
            builder.lshr(values["count"], self.number(RUN.bit_length() - 1)), start,
            lambda state: products(state, RUN, lines_of),
        )  # fmt: skip
        rest = builder.and_(values["count"], self.number(RUN - 1))
        state = self.loop(
            builder.lshr(rest, self.number(BLOCK.bit_length() - 1)), state,
            lambda state: products(state, BLOCK, lambda columns: turned(self, columns)),
        )  # fmt: skip
        rest = builder.and_(rest, self.number(BLOCK - 1))
        return self.loop(rest, state, lambda state: products(state, 1, single))[2:]


WRITERS = {
    "lines": Tile, "columns": lambda name, rows, vectors, width: TurnedTile(name, rows, vectors),
    "stream": lambda name, rows, vectors, width: Stream(name, rows, width),
}  # fmt: skip
SIZES = (
    [("lines", rows, 2) for rows in TWO] + [("lines", rows, 1) for rows in ONE] + [("lines", *each) for each in WIDE.items()]
    + [("columns", *each) for each in TURNED.items()] + [("stream", rows, 0) for rows in STREAMS]
)  # fmt: skip
NAMES = {size: f"tdt_{size[0]}_{size[1]}x{size[2]}" for size in SIZES}  # of tiles, by kind, rows and vectors


def modules(width: int) -> list[Any]:
    """The IR of all tiles, of the packing of panels, and of `direct`, which calls them."""
    found = [WRITERS[kind](name, rows, vectors, width).module for (kind, rows, vectors), name in NAMES.items()]
    found += [Lines(2 * width, width, LINES).module, Columns(2 * width, width, COLUMNS).module]
    found.append(Columns(width, width, ONE_COLUMNS).module)
    return [*found, Direct(width).module()]


class Direct:
    """Writes `direct`."""

    def __init__(self, width: int):
        self.code, self.width = Code(), width
        code = self.code
        word = {name: Value(code, f"%{name}", "i64") for name in WORDS}
        # One column: the transposed product, whose row is the column.
        turn = (word["n"] == 1) & (word["m"] != 1)
        pairs = {"a": "b", "a_k": "b_k", "b": "a", "b_k": "a_k", "b_column": "a_row", "m": "n", "n": "m"}
        self.bias = code.select(turn, 0, word["bias"])
        self.word = {
            name: code.select(turn, word[pairs[name]], word[name]) if name in pairs else word[name] for name in WORDS
        }
        self.panel = code.cast(code.array("float", DEPTH * 2 * width), "i64")
        self.number = code.variable("i64")
        self._products()
        with code.when(turn & (word["bias"] != 0)):
            bias = code.load("float", code.cast(word["bias"], "ptr"))
            out = code.cast(word["c"], "ptr")
            with code.loop(0, word["m"]) as i:
                code.store(code.load("float", out, i) + bias, out, i)

    def module(self) -> str:
        head = [f"define void @{NAME}({', '.join(f'i64 %{name}' for name in WORDS)}) {{", "entry:"]
        words = ", ".join(["i64"] * len(TILE_WORDS))
        declared = [f"declare void @{name}({words})" for name in NAMES.values()]
        declared += [f"declare void @{name}({', '.join(['i64'] * 6)})" for name in (LINES, COLUMNS, ONE_COLUMNS)]
        code = self.code
        return "\n".join(
            [*head, *code.variables, *code.lines, "  ret void", "}", *declared, *sorted(code.declared), ""]
        )

    def _call(self, name: str, *words: Value | int) -> None:
        text = ", ".join(f"i64 {self.code.value(word, 'i64').name}" for word in words)
        self.code.lines.append(f"  call void @{name}({text})")

    def _products(self) -> None:
        code, word = self.code, self.word
        lines = word["b_column"] == 4
        code.choose(lines, self._of_lines, self._of_columns)

    def _of_lines(self) -> None:
        code, word = self.code, self.word
        near = code.minimum(word["k"], DEPTH) * word["b_k"] <= OPEN_SIZE
        far = (
            (word["m"] <= max(STREAMS))
            & (word["b_k"] >= LONG)
            & (word["n"] >= LONG // 8)
            & (word["n"] * word["k"] >= MANY)
        )
        read = lambda: code.choose(far, self._streamed, self._open)  # noqa: E731
        code.choose((word["m"] <= OPEN_ROWS) | near, read, lambda: self._packed(True))

    def _streamed(self) -> None:
        """Long lines, of a large matrix."""
        code, word = self.code, self.word
        with code.loop(0, word["n"], STREAMED) as j, self._depths() as (pc, depth):
            row = code.variable("i64", 0)
            wide = code.minimum(word["n"] - j, STREAMED)
            with code.forever() as leave:
                i = row.get()
                left = word["m"] - i
                leave(left <= 0)
                rows = code.select(left == 3, 2, code.minimum(left, max(STREAMS)))
                function, _ = self._chosen({(r, 0): rows == r for r in STREAMS}, "stream")
                self._tile(function, i, j, (pc, depth), wide, (word["b"] + pc * word["b_k"] + 4 * j, word["b_k"]))
                row.set(i + rows)

    def _open(self) -> None:
        """Lines that are read where they lie."""
        code, word, w = self.code, self.word, self.width
        function, size = self._chosen({(rows, vectors): word["m"] == rows for rows, vectors in WIDE.items()})
        with self._depths() as (pc, depth):
            column = code.variable("i64", 0)
            lines = word["b"] + pc * word["b_k"]
            with code.when(size != 0), code.forever() as leave:
                j = column.get()
                leave(j + size * w > word["n"])
                self._tile(function, 0, j, (pc, depth), size * w, (lines + 4 * j, word["b_k"]))
                column.set(j + size * w)
            self._blocks(column.get(), (pc, depth), None)

    def _packed(self, lines: bool, first: Value | int = 0) -> None:
        """Panels that are packed on the stack first, from column `first` on."""
        code, word, columns = self.code, self.word, 2 * self.width

        def pack(source: Value, depth: Value, wide: Value) -> Value:
            if lines:
                self._call(LINES, source, word["b_k"] >> 2, depth, self.panel, 0, wide)
                return code.value(4 * columns, "i64")
            contiguous = word["b_k"] == 4
            code.choose(contiguous, lambda: turn(source, depth, wide), lambda: copy(source, depth, wide))
            return code.select(contiguous & (wide <= self.width), 2 * columns, code.value(4 * columns, "i64"))

        def turn(source: Value, depth: Value, wide: Value) -> None:
            one, two = (Value(code, f"ptrtoint (ptr @{name} to i64)", "i64") for name in (ONE_COLUMNS, COLUMNS))
            function = code.select(wide <= self.width, one, two)
            call(code, function, source, word["b_column"] >> 2, depth, self.panel, 0, wide)

        def copy(source: Value, depth: Value, wide: Value) -> None:
            panel = code.cast(self.panel, "ptr")
            with code.loop(0, wide) as i, code.loop(0, depth) as q:
                element = code.load("float", code.cast(source + q * word["b_k"] + i * word["b_column"], "ptr"))
                code.store(element, panel, (i // columns) * (depth * columns) + q * columns + i % columns)

        with self._depths() as part:
            self._blocks(first, part, pack)

    def _blocks(
        self, first: Value | int, part: tuple[Value, Value], pack: Callable[[Value, Value, Value], Value] | None
    ) -> None:
        """All rows, and columns from `first` on, in blocks of columns of which the lines fill a panel's memory.

        A block of a shallow sum has many columns: then it is computed a few rows at a time, so that rows are written from one
        end to the other, and not in pieces of a tile's width.

        pack: writes the panels of a block: for the address of its first element, the depth and the number of columns. It
            gives the bytes from line to line.
        """
        code, word, (pc, depth), columns = self.code, self.word, part, 2 * self.width
        size = code.value(DEPTH, "i64") // code.select(depth == 0, 1, depth) * columns
        height = code.select((size == columns) | (word["n"] <= columns), word["m"], BLOCK_ROWS)
        with code.loop(first, word["n"], size) as block:
            wide = code.minimum(word["n"] - block, size)
            source = word["b"] + pc * word["b_k"] + block * word["b_column"]
            step = word["b_k"] if pack is None else pack(source, depth, wide)
            with code.loop(0, word["m"], height) as low, code.loop(0, wide, columns) as j:
                lines = source + 4 * j if pack is None else self.panel + 4 * j * depth
                self._rows((low, code.minimum(word["m"], low + height)), block + j, part, (lines, step))

    def _of_columns(self) -> None:
        """Columns: of a few rows turned in registers as far as there are enough for a tile; packed where they are not."""
        code, word = self.code, self.word
        function, groups = self._chosen({(r, g): word["m"] == r for r, g in TURNED.items()}, "columns")
        size = groups * BLOCK
        whole = code.select(word["b_k"] == 4, word["n"] // code.select(size == 0, 1, size), 0) * size
        column = code.variable("i64", 0)
        with code.forever() as leave:
            j = column.get()
            leave(j >= whole)
            with self._depths() as (pc, depth):
                columns = word["b"] + pc * 4 + j * word["b_column"]
                self._tile(function, 0, j, (pc, depth), size, (columns, word["b_column"]))
            column.set(j + size)
        with code.when(whole < word["n"]):
            self._packed(False, whole)

    @contextlib.contextmanager
    def _depths(self) -> Iterator[tuple[Value, Value]]:
        """A loop over blocks of the sum: the start of each, and its size. There is one of none where the sum is empty."""
        code, k = self.code, self.word["k"]
        with code.loop(0, code.select(k == 0, 1, k), DEPTH) as start:
            yield start, code.minimum(k - start, DEPTH)

    def _rows(self, bounds: tuple[Value, Value], j: Value, part: tuple[Value, Value],
              lines: tuple[Value, Value | int]) -> None:  # fmt: skip
        """Rows between bounds, of up to two vectors of columns."""
        code, word = self.code, self.word
        wide = code.minimum(word["n"] - j, 2 * self.width)
        one = wide <= self.width
        row = code.variable("i64", bounds[0])
        with code.forever() as leave:
            i = row.get()
            left = bounds[1] - i
            leave(left <= 0)
            # 4 + 4 and 4 + 3 rows are faster than 6 + 2 and 6 + 1.
            six = (left == 6) | (left > 8)
            rows = code.select(six, 6, code.minimum(left, 4))
            rows = code.select(one, code.select(left >= 8, 8, code.select(left >= 4, 4, code.value(1, "i64"))), rows)
            tests = {(r, 2): rows == r for r in TWO} | {(r, 1): one & (rows == r) for r in ONE}
            self._tile(self._chosen(tests)[0], i, j, part, wide, lines)
            row.set(i + rows)

    def _chosen(self, tests: dict[tuple[int, int], Value], kind: str = "lines") -> tuple[Value, Value]:
        """The function and the vectors of the last tile whose test holds; 0 if there is none."""
        code = self.code
        function, size = code.value(0, "i64"), code.value(0, "i64")
        for (rows, vectors), test in tests.items():
            address = Value(code, f"ptrtoint (ptr @{NAMES[kind, rows, vectors]} to i64)", "i64")
            function, size = code.select(test, address, function), code.select(test, vectors, size)
        return function, size

    def _tile(self, function: Value, i: Value | int, j: Value, part: tuple[Value, Value], wide: Value | int,
              lines: tuple[Value, Value | int]) -> None:  # fmt: skip
        """Call a tile, for rows from i and columns from j on.

        part: of the sum, its start and size. lines: the address of b's first line or column, and bytes to the next.
        """
        code, word, (start, depth) = self.code, self.word, part
        i = code.value(i, "i64")
        ends = code.select((start + depth == word["k"]) & (self.bias != 0), self.bias + 4 * j, 0)
        call(code, function, word["a"] + i * word["a_row"] + start * word["a_k"], word["a_row"], word["a_k"], *lines,
             word["c"] + i * word["c_row"] + 4 * j, word["c_row"], ends, wide, depth, code.cast(start != 0, "i64"))  # fmt: skip


def _call_direct(code: Code, words: list[Value | int]) -> None:
    code.declared.add(f"declare void @{NAME}({', '.join(['i64'] * len(WORDS))})")
    text = ", ".join(f"i64 {code.value(word, 'i64').name}" for word in words)
    code.lines.append(f"  call void @{NAME}({text})")


def _loop(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    """One product of a ufunc's loop: a, b, perhaps a bias, and the result."""
    a, b, *bias, c = ([code.cast(operand.address, "i64"), *operand.strides] for operand in operands)
    m, k, n = sizes
    _call_direct(code, [*a, *b, c[0], c[1], m, n, k, bias[0][0] if bias else 0])


# The words of a plan: of how many matrices and parts of a matrix work consists, the size of a part, strides and sizes.
(INNER, DOWN, ACROSS, PIECE_ROWS, PIECE_COLUMNS, A_OUTER, A_INNER, A_ROW, A_K, B_OUTER, B_INNER, B_K, B_COLUMN, C_NEXT, C_ROW,
 M, N, K) = range(18)  # fmt: skip


def _pieces() -> str:
    """A kernel: blocks of rows and columns of each matrix of a stack."""
    code = Code()
    first, last = Value(code, "%first", "i64"), Value(code, "%last", "i64")
    words, a, b, c, bias = code.arguments("pqqqq")
    plan = [code.load("i64", words, k) for k in range(K + 1)]
    with code.loop(first, last) as piece:
        matrix = piece // (plan[DOWN] * plan[ACROSS])
        part = piece - matrix * plan[DOWN] * plan[ACROSS]
        outer, down = matrix // plan[INNER], part // plan[ACROSS]
        inner, across = matrix - outer * plan[INNER], part - down * plan[ACROSS]
        i, j = down * plan[PIECE_ROWS], across * plan[PIECE_COLUMNS]
        _call_direct(code, [
            a + outer * plan[A_OUTER] + inner * plan[A_INNER] + i * plan[A_ROW], plan[A_ROW], plan[A_K],
            b + outer * plan[B_OUTER] + inner * plan[B_INNER] + j * plan[B_COLUMN], plan[B_K], plan[B_COLUMN],
            c + matrix * plan[C_NEXT] + i * plan[C_ROW] + 4 * j, plan[C_ROW],
            code.minimum(plan[PIECE_ROWS], plan[M] - i), code.minimum(plan[PIECE_COLUMNS], plan[N] - j), plan[K],
            code.select(bias == 0, 0, bias + 4 * j),
        ])  # fmt: skip
    return code.module("pqqqq")


BIASED = f"{LOOP}_biased"
SIGNATURES = {LOOP: "(m?,k),(k,n?)->(m?,n?)", BIASED: "(m?,k),(k,n),(n)->(m?,n)"}


def _written(width: int) -> list[Any]:
    types = {LOOP: "fff", BIASED: "ffff"}
    loops = [written(_loop, SIGNATURES[name], types[name], ()).replace(f"@{LOOP}(", f"@{name}(") for name in SIGNATURES]
    return [*modules(width), *loops, _pieces()]


@functools.cache
def _addresses(width: int) -> list[int]:
    return linked(f"direct_{width}", [LOOP, BIASED, ENTRY], lambda: _written(width), optimize=True)


@functools.cache
def ufuncs(width: int | None = None) -> tuple[Callable, Callable]:
    """Functions of float32 arrays on the calling thread: a @ b with stacks broadcast, and a @ b + bias."""
    plain, biased, _ = _addresses(width or vector_width())
    return ufunc_at(plain, SIGNATURES[LOOP], "fff", 2, "product"), ufunc_at(
        biased, SIGNATURES[BIASED], "ffff", 3, "product_and_bias"
    )


@functools.cache
def pieces(width: int | None = None) -> NativeKernel:
    """The kernel that computes pieces of work as a plan says: see `INNER` and what follows."""
    return NativeKernel("direct", _addresses(width or vector_width())[2], "qqqqq")
