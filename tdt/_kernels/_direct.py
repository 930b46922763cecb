"""Products of small matrices, or with few rows or one column: machine code that reads the operands where they lie.

    direct(a, a_row, a_k, b, b_k, b_column, c, c_row, m, n, k, bias, table)   # addresses, strides in bytes, sizes

computes c = a @ b (+ bias) of float32 or float64 for any strides of the operands; a row of the result is contiguous. Nothing is
prepared, so that the smallest product costs no more than its call. An element has the bits that the packed form gives it
(`product_cpu`): its products are summed in order with `fma`, DEPTH of them at a time, and these sums are added in order.

A tile of some rows and vectors reads b's lines. Where there are more rows than a tile's, the first tile writes the lines to a
panel on the stack, from which the others read them. Columns that are contiguous in memory, as the weights of a linear layer,
are turned in registers for a few rows, and for more rows into a panel first. With one column, or few that would fill a part of
a vector, the transposed product is computed.

Tiles and packers are compiled when a product first requires them (`_direct_parts`): until then it is computed a row at a time,
with the same bits. So who calls this code looks at `parts().required` afterwards.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tdt._kernels._code import Code, Value, Variable
from tdt._kernels._compilable import ENTRY
from tdt._kernels._direct_parts import (
    DEPTH,
    LANES,
    MOST_ROWS,
    MOST_ROWS_OF_ONE,
    PARTS_AT_ONCE,
    PLACES,
    REPEATED,
    STREAMED,
    STREAMS,
    TILE_WORDS,
    TURNED,
    WIDE,
    Part,
    Parts,
    Tile,
    part_of,
)
from tdt._kernels._gufunc import LOOP, Operand, ufunc_at, written
from tdt._kernels._native import NativeKernel, has_feature, linked, vector_width
from tdt._kernels._pack import Columns, block_of
from tdt._kernels._tile import call

KINDS = {4: "float", 8: "double"}  # by the bytes of an element
NAME, ROWS, SIMPLEST, TURN = "tdt_direct", "tdt_rows", "tdt_row", "tdt_turn"
WORDS = ("a", "a_row", "a_k", "b", "b_k", "b_column", "c", "c_row", "m", "n", "k", "bias", "table")
OPEN_SIZE = 1 << 13  # bytes of a panel's lines, from the first to the last, that lie in the nearest cache
# Bytes from a line that is streamed to the next, at least, of one or two rows and of more, by the floats of a vector; and of the
# matrix: pieces of lines as wide as a tile come from memory, or a level-three cache, in an order that no processor foresees.
LONG, MANY = {8: (1 << 10, 1 << 11), 16: (1 << 12, 1 << 12)}, 1 << 17
# Columns up to which, and rows from which on, the transposed product is computed, by the floats of a vector: where rows of `a`
# and columns of `b` are contiguous, where rows of `a` alone are, so that `b` is copied, and where columns of `a` are. With more
# multiply-adds for an element than DEEP.
NARROW = {8: ((8, 8), (4, 16), (8, 8)), 16: ((12, 32), (12, 32), (16, 32))}
DEEP = 32
TURNED_ROWS = 16  # of the result, that are written together when it is turned
TURNED_SIZE = 1 << 14  # bytes of it that are computed before they are turned
# In vectors of eight, one row reads sixteen columns at a time if the matrix has fewer bytes, and if columns do not lie a
# multiple of so many bytes apart, where they share a set of the nearest cache. Eight columns, in two parts of the sum at a time,
# are read if it has fewer bytes than NEAR_IN_PARTS: these are twice as many places as a processor foresees in memory beyond the
# last cache.
NEAR, NEAR_IN_PARTS, PAGE = 1 << 23, 12 << 20, 1 << 12
FAR = 1 << 21  # bytes of a matrix that a level-two cache does not keep: columns are fetched in advance
COPIED_SIZE = 1 << 17  # bytes of `b` that are copied first, if its columns are not contiguous as the rows of `a`


def modules(width: int, item: int, foresees: bool) -> list[Any]:
    """The IR of `direct` and of what it calls, with the tile that computes what no other is compiled for: one row, up to two
    vectors. foresees: whether the processor loads ahead what many columns hold (`foresees_many_columns`)."""
    return [
        Tile(SIMPLEST, 1, 2, width * 4 // item, whole=0, item=item).module,
        Columns(0, block_of(item), TURN, item=item).module,
        Rows(width, item, foresees).module(),
        _direct(width, item),
    ]


def _direct(width: int, item: int) -> str:
    """The IR of `direct`: calls `Rows`, for the transposed product where its vectors are filled better."""
    code, kind, columns = Code(), KINDS[item], 2 * width * 4 // item
    word = {name: Value(code, f"%{name}", "i64") for name in WORDS}
    m, n, k, c, pitch = (word[name] for name in ("m", "n", "k", "c", "c_row"))
    copies = (word["a_k"] == item) & (word["b_k"] != item)
    across = (word["a_k"] != item) & (word["a_row"] == item)
    most, least = (
        code.select(across, by_columns, code.select(copies, copied, code.value(in_order, "i64")))
        for in_order, copied, by_columns in zip(*_narrow(width, item), strict=True)
    )
    narrow = (n > 1) & (n <= most) & (m >= least) & (k > DEEP) & (~copies | (n * k <= COPIED_SIZE // item))
    narrow = narrow & (across | (word["a_k"] == item))

    def turned() -> None:
        scratch, copy = (code.cast(code.array("i8", size), "i64") for size in (TURNED_SIZE, COPIED_SIZE))
        b, row, step = (code.variable("i64", word[name]) for name in ("b", "b_column", "b_k"))
        with code.when(copies):
            with code.loop(0, n) as j, code.loop(0, k) as q:
                element = code.load(kind, code.cast(word["b"] + j * word["b_column"] + q * word["b_k"], "ptr"))
                code.store(element, code.cast(copy, "ptr"), j * k + q)
            b.set(copy)
            row.set(item * k)
            step.set(item)
        size = code.value(TURNED_SIZE // item, "i64") // n // columns * columns
        with code.loop(0, m, size) as i:
            high = code.minimum(m - i, size)
            _call(code, ROWS, [b.get(), row.get(), step.get(), word["a"] + i * word["a_row"], word["a_k"], word["a_row"],
                               scratch, item * high, n, high, k, 0, word["table"]])  # fmt: skip
            turn_back(code, lambda *words: _call(code, TURN, words), (scratch, high), (n, high),
                      (c + i * pitch, pitch // item), word["bias"], item, block_of(item))  # fmt: skip

    code.choose(narrow, turned, lambda: _call(code, ROWS, list(word.values())))
    head = f"define void @{NAME}({', '.join(f'i64 %{name}' for name in WORDS)}) {{\nentry:"
    return "\n".join([head, *code.variables, *code.lines, "  ret void", "}", *sorted(code.declared), ""])


def _narrow(width: int, item: int) -> list[tuple[int, int]]:
    """NARROW for elements of so many bytes."""
    return [(columns * 4 // item, rows) for columns, rows in NARROW[width]]


def is_narrow(m: int, n: int, k: int, strides: tuple[int, int], step: int, width: int, item: int) -> bool:
    """Whether `direct` computes the transposed product. strides: those of `a`; step: of `b`, from line to line."""
    copies = strides[1] == item != step
    most, least = _narrow(width, item)[1 if copies else 0 if strides[1] == item else 2]
    return (
        item in strides and 1 < n <= most and m >= least and k > DEEP and (not copies or n * k <= COPIED_SIZE // item)
    )


def turn_back(code: Code, turn: Callable[..., None], source: tuple, sizes: tuple, out: tuple, bias: Value,
              item: int, block: int) -> None:  # fmt: skip
    """Turn rows of a transposed product into columns of the result, and add the bias.

    Some rows of the result are written from one end to the other: more would not stay in the nearest cache until a line of it
    is full.

    Args:
        turn: a call of `turner`'s function, for `block`. source, out: address, and elements from row to row. sizes: rows and
            columns of the source. bias: its address, or 0. item: bytes of an element.
    """
    (start, pitch), (height, wide) = source, sizes
    kind = KINDS[item]
    with code.when(bias != 0), code.loop(0, height) as i:
        row, value = code.cast(start + item * i * pitch, "ptr"), code.load(kind, code.cast(bias, "ptr"), i)
        whole = wide // block * block
        with code.loop(0, whole, block) as j:
            code.store(code.load(kind, row, j, block) + code.splat(value, block), row, j)
        with code.loop(whole, wide) as j:
            code.store(code.load(kind, row, j) + value, row, j)
    with code.loop(0, wide, TURNED_ROWS) as j, code.loop(0, height, block) as i:
        turn(start + item * (i * pitch + j), pitch, code.minimum(wide - j, TURNED_ROWS), out[0] + item * (j * out[1] + i),
             out[1], code.minimum(height - i, block))  # fmt: skip


class Rows:
    """Writes the function that computes a product row by row, along vectors of columns."""

    def __init__(self, width: int, item: int, foresees: bool):
        self.code, self.width, self.item, self.foresees = Code(), width, item, foresees
        self.numbers, self.kind = width * 4 // item, KINDS[item]  # of a vector
        code = self.code
        word = {name: Value(code, f"%{name}", "i64") for name in WORDS}
        # One column that is contiguous in the result: the transposed product, whose row is the column.
        turn = (word["n"] == 1) & (word["m"] != 1) & (word["c_row"] == item)
        pairs = {"a": "b", "a_k": "b_k", "b": "a", "b_k": "a_k", "b_column": "a_row", "m": "n", "n": "m"}
        self.bias = code.select(turn, 0, word["bias"])
        self.word = {
            name: code.select(turn, word[pairs[name]], word[name]) if name in pairs else word[name] for name in WORDS
        }
        self.table = code.cast(word["table"], "ptr")
        self.panel = code.cast(code.array(self.kind, DEPTH * 2 * self.numbers), "i64")
        self._products()
        with code.when(turn & (word["bias"] != 0)):
            bias = code.load(self.kind, code.cast(word["bias"], "ptr"))
            out = code.cast(word["c"], "ptr")
            with code.loop(0, word["m"]) as i:
                code.store(code.load(self.kind, out, i) + bias, out, i)

    def module(self) -> str:
        head = [f"define void @{ROWS}({', '.join(f'i64 %{name}' for name in WORDS)}) {{", "entry:"]
        code = self.code
        words = ", ".join(["i64"] * len(TILE_WORDS))
        declared = [f"declare void @{SIMPLEST}({words})", *sorted(code.declared)]
        return "\n".join([*head, *code.variables, *code.lines, "  ret void", "}", *declared, ""])

    def _products(self) -> None:
        code, word = self.code, self.word
        self.lines = word["b_column"] == self.item
        fetched = code.value(0 if self.foresees else FAR // self.item, "i64")
        self.far = code.cast((fetched != 0) & (word["n"] * word["k"] >= fetched), "i64")
        near = code.minimum(word["k"], DEPTH) * word["b_k"] <= OPEN_SIZE
        near = near | (word["b_k"] <= 8 * self.width)  # as in a panel
        self.open = self.lines & ((word["m"] <= MOST_ROWS[self.width]) | near)  # lines are read where they lie
        done = code.variable("i64", 0)  # columns
        few, more = LONG[self.width]
        long = code.select(word["m"] <= 2, few, code.value(more, "i64"))
        far = (word["b_k"] >= long) & (2 * self.item * word["n"] >= long)
        far = far & (word["n"] * word["k"] >= MANY // self.item)
        with code.when(self.lines & far & (word["m"] <= max(STREAMS[self.width]))):
            self._long_lines(done)
        with code.when(self.lines & (word["k"] == 1)):
            self._row_by_row(done)
        with code.when(done.get() == 0):
            self._whole_columns(done)
        with code.when(done.get() < word["n"]), self._depths() as part:
            self._blocks(done.get(), part)

    def _long_lines(self, done: Variable) -> None:
        """All columns of the fewest rows, along the lines of a large matrix, if the part for that is compiled."""
        code, word = self.code, self.word
        function, _ = self._chosen({("stream", rows, 0): word["m"] == rows for rows in STREAMS[self.width]})
        with code.when(function != 0):
            most = STREAMED // self.item
            with code.loop(0, word["n"], most) as j, self._depths() as (pc, depth):
                wide = code.minimum(word["n"] - j, most)
                self._tile(
                    function, 0, j, (pc, depth), wide, (word["b"] + pc * word["b_k"] + self.item * j, word["b_k"])
                )
            done.set(word["n"])

    def _row_by_row(self, done: Variable) -> None:
        """As many columns as fill vectors, of sums of one product: what takes time is to write, a row from one end to the
        other."""
        code, word, w = self.code, self.word, self.numbers
        line, bias = code.cast(word["b"], "ptr"), code.cast(self.bias, "ptr")
        whole = word["n"] // w * w
        zero = code.splat(code.value(0.0, self.kind), w)  # to which other sums add their first product
        done.set(whole)
        with code.loop(0, word["m"]) as i:
            factor = code.splat(code.load(self.kind, code.cast(word["a"] + i * word["a_row"], "ptr")), w)
            row = code.cast(word["c"] + i * word["c_row"], "ptr")

            def products(biased: bool, factor: Value = factor, row: Value = row) -> None:
                with code.loop(0, whole, w) as j:
                    total = code.call("fma", factor, code.load(self.kind, line, j, w), zero)
                    code.store(total + code.load(self.kind, bias, j, w) if biased else total, row, j)

            code.choose(self.bias == 0, lambda: products(False), lambda: products(True))

    def _whole_columns(self, done: Variable) -> None:
        """Of a few rows, as many columns as fill the widest tile: lines where they lie, or columns turned in registers."""
        code, word, w, numbers = self.code, self.word, self.width, self.numbers
        tests: dict[Part, Value] = {}
        for rows, vectors in WIDE[w].items():
            tests["lines", rows, vectors] = self.open & (word["m"] == rows) & (word["n"] >= vectors * numbers)
        for rows in REPEATED[w]:
            place = "lines", 8, WIDE[w][8]
            tests[place] = tests[place] | self.lines & (word["m"] == rows) & (word["n"] >= WIDE[w][8] * numbers)
        columns = (word["b_k"] == self.item) & (self.lines == 0)
        columns = columns & (word["a_k"] == self.item)
        for rows, groups in TURNED[w].items():
            tests["columns", rows, groups] = columns & (word["m"] == rows) & (word["n"] >= groups * numbers)
        in_parts = last_in_parts = columns
        if w < LANES:
            size = self.item * word["n"] * word["k"]
            pair = columns & (size < NEAR) & (word["b_column"] % PAGE != 0)
            pair = pair & (word["m"] == 1) & (word["n"] >= 2 * numbers)
            tests["columns", 1, 2] = pair
            last_in_parts = columns & (size < NEAR_IN_PARTS)
            in_parts = last_in_parts & ~pair
        function, vectors = self._chosen(tests)
        size = vectors * numbers
        step = code.select(self.lines, word["b_k"], word["b_column"])
        with code.when(size != 0):
            whole = word["n"] // size * size
            done.set(whole)
            rows_at_once = code.select(word["m"] > MOST_ROWS[w], 8, word["m"])
            # Lines are read for a part of the sum before the next one, columns as a whole.
            across = code.select(self.lines, whole, size)
            with code.loop(0, whole, across) as start:
                first = self._in_parts("columns_in_parts", in_parts, (start, across))
                with self._depths(first) as (pc, depth), code.loop(start, start + across, size) as j:
                    address = word["b"] + pc * word["b_k"] + j * word["b_column"]
                    with code.loop(0, word["m"], rows_at_once) as i:
                        self._tile(function, i, j, (pc, depth), size, (address, step), self.far)
        self._last_lines(done)
        self._last_columns(done, columns, last_in_parts)

    def _last_lines(self, done: Variable) -> None:
        """Of a few rows, the columns that do not fill the widest tile, if they are more than two vectors."""
        code, word, w, numbers = self.code, self.word, self.width, self.numbers
        left = word["n"] - done.get()
        few = self.open & (left > 2 * numbers)
        tests = {
            ("last_lines", rows, vectors): few & (word["m"] == rows) & (left < vectors * numbers)
            for rows, vectors in WIDE[w].items()
        }
        function, _ = self._chosen(tests)
        with code.when(function != 0):
            j = done.get()
            with self._depths() as (pc, depth):
                self._tile(
                    function, 0, j, (pc, depth), left, (word["b"] + pc * word["b_k"] + self.item * j, word["b_k"])
                )
            done.set(word["n"])

    def _in_parts(self, kind: str, columns: Value, bounds: tuple[Value, Value]) -> Value:
        """Sum parts of one row and some columns, if these are contiguous, several at a time. The first product that is left.

        bounds: the first column, and how many.
        """
        code, word, (first, count) = self.code, self.word, bounds
        if self.width == LANES and self.foresees:
            return code.value(0, "i64")
        size = PARTS_AT_ONCE * DEPTH
        function, _ = self._chosen({(kind, 1, 1): columns & (word["m"] == 1) & (word["k"] >= size)})
        end = code.select(function == 0, 0, word["k"] // size * size)
        with code.when(end != 0), code.loop(first, first + count, self.numbers) as j, code.loop(0, end, size) as pc:
            address = word["b"] + pc * word["b_k"] + j * word["b_column"]
            wide = code.minimum(first + count - j, self.numbers)
            self._tile(function, 0, j, (pc, size), wide, (address, word["b_column"]), self.far)
        return end

    def _last_columns(self, done: Variable, columns: Value, in_parts: Value) -> None:
        """Of a few rows, the columns that do not fill a tile, if they are contiguous."""
        code, word = self.code, self.word
        left = columns & (done.get() < word["n"])
        tests = {("last_columns", rows, 1): left & (word["m"] == rows) for rows in TURNED[self.width]}
        function, _ = self._chosen(tests)
        with code.when(function != 0):
            with code.loop(done.get(), word["n"], self.numbers) as j:
                wide = code.minimum(word["n"] - j, self.numbers)
                with self._depths(self._in_parts("last_columns_in_parts", in_parts, (j, wide))) as (pc, depth):
                    address = word["b"] + pc * word["b_k"] + j * word["b_column"]
                    self._tile(function, 0, j, (pc, depth), wide, (address, word["b_column"]))
            done.set(word["n"])

    def _blocks(self, first: Value, part: tuple[Value, Value]) -> None:
        """All rows, and columns from `first` on, in blocks of columns of which the lines fill a panel's memory.

        A block of a shallow sum has many columns: then it is computed a tile's rows at a time, so that rows are written from
        one end to the other, and not in pieces of a tile's width.
        """
        code, word, (pc, depth), columns = self.code, self.word, part, 2 * self.numbers
        size = code.value(DEPTH, "i64") // code.select(depth == 0, 1, depth) * columns
        rows = self._tile_rows(word["m"], MOST_ROWS[self.width])
        height = code.select((size == columns) | (word["n"] <= columns), word["m"], rows)
        one = word["n"] - first <= self.numbers
        packed = self.open == 0
        packing = self._part(packed & self.lines, "packing", rows)
        turned = packed & (self.lines == 0) & (word["b_k"] == self.item)
        packer, vectors = self._chosen(
            {("pack_columns", 0, 2): turned & (one == 0), ("pack_columns", 0, 1): turned & one}
        )
        filled = self.item * code.select(vectors == 1, columns // 2, code.value(columns, "i64"))
        line = code.select(packed, filled, word["b_k"])
        with code.loop(first, word["n"], size) as block:
            wide = code.minimum(word["n"] - block, size)
            source = word["b"] + pc * word["b_k"] + block * word["b_column"]
            with code.when(packed & (packing == 0)):
                self._pack(packer, source, depth, wide)
            with code.loop(0, word["m"], height) as low, code.loop(0, wide, columns) as j:
                panel, at = self.panel + self.item * j * depth, source + self.item * j
                row = code.variable("i64", low)
                with code.when((packing != 0) & (low == 0)):
                    self._tile(packing, 0, block + j, part, code.minimum(wide - j, columns), (at, word["b_k"]), panel)
                    row.set(rows)
                start = code.select(packed, panel, at)
                self._rows((row.get(), code.minimum(word["m"], low + height)), block + j, part, (start, line))

    def _pack(self, packer: Value, source: Value, depth: Value, wide: Value) -> None:
        """Write the panels of a block: by the packer of columns at an address, or an element at a time where that is 0."""
        code, word, columns = self.code, self.word, 2 * self.numbers

        def copy() -> None:
            panel = code.cast(self.panel, "ptr")
            with code.loop(0, wide) as i, code.loop(0, depth) as q:
                element = code.load(self.kind, code.cast(source + q * word["b_k"] + i * word["b_column"], "ptr"))
                code.store(element, panel, (i // columns) * (depth * columns) + q * columns + i % columns)

        step = word["b_column"] // self.item
        code.choose(packer != 0, lambda: call(code, packer, source, step, depth, self.panel, 0, wide), copy)

    def _tile_rows(self, left: Value, most: Value | int) -> Value:
        """Rows of the next of the tiles that compute so many: of about equal heights, as 4 + 4 and 4 + 3 rows are faster than
        6 + 2 and 6 + 1."""
        tiles = self.code.maximum((left + most - 1) // most, 1)
        return (left + tiles - 1) // tiles

    def _part(self, test: Value, kind: str, rows: Value) -> Value:
        """The address of the tile of this kind, two vectors wide, if the test holds; 0 if it does not, or none is compiled."""
        return part_of(self.code, self.table, self.code.select(test, PLACES[kind, 1, 2] + rows - 1, 0))

    @contextlib.contextmanager
    def _depths(self, first: Value | int = 0) -> Iterator[tuple[Value, Value]]:
        """A loop over blocks of the sum, from product `first` on: the start of each, and its size. There is one of none where
        the sum is empty."""
        code, k = self.code, self.word["k"]
        with code.loop(first, code.select(k == 0, 1, k), DEPTH) as start:
            yield start, code.minimum(k - start, DEPTH)

    def _rows(self, bounds: tuple[Value, Value], j: Value, part: tuple[Value, Value],
              lines: tuple[Value, Value | int]) -> None:  # fmt: skip
        """Rows between bounds, of up to two vectors of columns."""
        code, word = self.code, self.word
        wide = code.minimum(word["n"] - j, 2 * self.numbers)
        one = wide <= self.numbers
        row = code.variable("i64", bounds[0])
        with code.forever() as leave:
            i = row.get()
            left = bounds[1] - i
            leave(left <= 0)
            most = code.select(one, MOST_ROWS_OF_ONE, code.value(MOST_ROWS[self.width], "i64"))
            rows = self._tile_rows(left, most)
            first_part = code.select(one, PLACES["lines", 1, 1], code.value(PLACES["lines", 1, 2], "i64"))
            function = part_of(code, self.table, first_part + rows - 1)
            missing = function == 0
            simplest = Value(code, f"ptrtoint (ptr @{SIMPLEST} to i64)", "i64")
            function = code.select(missing, simplest, function)
            with code.loop(i, i + rows, code.select(missing, 1, rows)) as first:
                self._tile(function, first, j, part, wide, lines)
            row.set(i + rows)

    def _chosen(self, tests: dict[Part, Value]) -> tuple[Value, Value]:
        """The address and the vectors of the last part whose test holds; 0 if there is none, or it is not compiled."""
        code = self.code
        place, size = code.value(0, "i64"), code.value(0, "i64")
        for part, test in tests.items():
            place, size = code.select(test, PLACES[part], place), code.select(test, part[2], size)
        function = part_of(code, self.table, place)
        return function, code.select(function == 0, 0, size)

    def _tile(self, function: Value, i: Value | int, j: Value, part: tuple[Value, Value], wide: Value | int,
              lines: tuple[Value, Value | int], panel: Value | int = 0) -> None:  # fmt: skip
        """Call a tile, for rows from i and columns from j on.

        part: of the sum, its start and size. lines: the address of b's first line or column, and bytes to the next. panel:
        where the lines are packed too; of columns, whether the next ones are fetched.
        """
        code, word, (start, depth) = self.code, self.word, part
        i = code.value(i, "i64")
        ends = code.select((start + depth == word["k"]) & (self.bias != 0), self.bias + self.item * j, 0)
        call(code, function, word["a"] + i * word["a_row"] + start * word["a_k"], word["a_row"], word["a_k"], *lines,
             word["c"] + i * word["c_row"] + self.item * j, word["c_row"], ends, wide, depth, code.cast(start != 0, "i64"),
             panel)  # fmt: skip


def _call(code: Code, name: str, words: Sequence[Value | int]) -> None:
    code.declared.add(f"declare void @{name}({', '.join(['i64'] * len(words))})")
    text = ", ".join(f"i64 {code.value(word, 'i64').name}" for word in words)
    code.lines.append(f"  call void @{name}({text})")


def _loop(code: Code, operands: list[Operand], sizes: list[Value], item: int) -> None:
    """One product of a ufunc's loop: a, b, perhaps a bias, and the result."""
    a, b, *biases, c = ([code.cast(operand.address, "i64"), *operand.strides] for operand in operands)
    m, k, n = sizes
    table = code.cast(Value(code, "%data", "ptr"), "i64")
    bias, step = biases[0] if biases else (code.value(0, "i64"), code.value(item, "i64"))
    gaps = (step != item) & (n > 1)  # then the tiles cannot add it
    _call(code, NAME, [*a, *b, c[0], c[1], m, n, k, code.select(gaps, 0, bias), table])
    if biases:
        with code.when(gaps), code.loop(0, m) as i, code.loop(0, n) as j:
            row = code.cast(c[0] + i * c[1], "ptr")
            added = code.load(KINDS[item], code.cast(bias + j * step, "ptr"))
            code.store(added + code.load(KINDS[item], row, j), row, j)


# The words of a plan: of how many matrices and parts of a matrix work consists, the size of a part, strides and sizes.
(INNER, DOWN, ACROSS, PIECE_ROWS, PIECE_COLUMNS, A_OUTER, A_INNER, A_ROW, A_K, B_OUTER, B_INNER, B_K, B_COLUMN, C_NEXT, C_ROW,
 M, N, K) = range(18)  # fmt: skip


def _pieces(item: int) -> str:
    """A kernel: blocks of rows and columns of each matrix of a stack."""
    code = Code()
    first, last = Value(code, "%first", "i64"), Value(code, "%last", "i64")
    words, table, a, b, c, bias = code.arguments("pqqqqq")
    plan = [code.load("i64", words, k) for k in range(K + 1)]
    with code.loop(first, last) as piece:
        matrix = piece // (plan[DOWN] * plan[ACROSS])
        part = piece - matrix * plan[DOWN] * plan[ACROSS]
        outer, down = matrix // plan[INNER], part // plan[ACROSS]
        inner, across = matrix - outer * plan[INNER], part - down * plan[ACROSS]
        i, j = down * plan[PIECE_ROWS], across * plan[PIECE_COLUMNS]
        _call(code, NAME, [
            a + outer * plan[A_OUTER] + inner * plan[A_INNER] + i * plan[A_ROW], plan[A_ROW], plan[A_K],
            b + outer * plan[B_OUTER] + inner * plan[B_INNER] + j * plan[B_COLUMN], plan[B_K], plan[B_COLUMN],
            c + matrix * plan[C_NEXT] + i * plan[C_ROW] + item * j, plan[C_ROW],
            code.minimum(plan[PIECE_ROWS], plan[M] - i), code.minimum(plan[PIECE_COLUMNS], plan[N] - j), plan[K],
            code.select(bias == 0, 0, bias + item * j), table,
        ])  # fmt: skip
    return code.module("pqqqqq")


BIASED = f"{LOOP}_biased"
SIGNATURES = {LOOP: "(m?,k),(k,n?)->(m?,n?)", BIASED: "(m?,k),(k,n),(n)->(m?,n)"}


def _written(width: int, item: int, foresees: bool) -> list[Any]:
    loops = [
        written(_loop, SIGNATURES[name], types, (item,)).replace(f"@{LOOP}(", f"@{name}(")
        for name, types in zip(SIGNATURES, _types(item), strict=True)
    ]
    return [*modules(width, item, foresees), *loops, _pieces(item)]


def _types(item: int) -> tuple[str, str]:
    """NumPy's letters of the operands, without and with a bias."""
    letter = KINDS[item][0]
    return 3 * letter, 4 * letter


@functools.cache
def _addresses(width: int, item: int = 4, foresees: bool | None = None) -> list[int]:
    """foresees: as in `modules`; None: what this processor does."""
    symbols = [LOOP, BIASED, ENTRY]

    def write() -> list[Any]:
        return _written(width, item, foresees_many_columns() if foresees is None else foresees)

    name = f"direct_{width}_{item}" + ("" if foresees is None else f"_{int(foresees)}")
    return linked(name, symbols, write, optimize=True, vectorize=False)


def foresees_many_columns() -> bool:
    """Whether the processor itself loads ahead what it reads of 32 columns, a piece of each in turn, as Intel's do with AVX-512.

    Those of AMD, which have SSE4a, do not: there the columns are fetched, and fewer are read at a time.
    """
    return not has_feature("sse4a")


def parts(width: int | None = None, item: int = 4) -> Parts:
    """The parts that are compiled for vectors of `width` floats (None: this processor's) and elements of `item` bytes."""
    return _parts(width or vector_width(), item)


_parts = functools.cache(Parts)


@functools.cache
def ufuncs(width: int | None = None, item: int = 4) -> tuple[Callable, Callable]:
    """Functions of float32 arrays (item 8: of float64) on the calling thread: a @ b with stacks broadcast, and a @ b + bias.

    After a call, `parts(width, item).required[0]` says whether parts are to be compiled.
    """
    plain, biased, _ = _addresses(width or vector_width(), item)
    table = parts(width, item).table
    return (
        ufunc_at(plain, SIGNATURES[LOOP], _types(item)[0], 2, "product", table),
        ufunc_at(biased, SIGNATURES[BIASED], _types(item)[1], 3, "product_and_bias", table),
    )


@functools.cache
def pieces(width: int | None = None, item: int = 4) -> NativeKernel:
    """The kernel that computes pieces of work as a plan says: see `INNER` and what follows. It takes `parts(…).table` too."""
    return NativeKernel("direct", _addresses(width or vector_width(), item)[2], "qqqqqq")
