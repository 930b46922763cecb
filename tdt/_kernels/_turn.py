"""Turning of rows into columns, in blocks of 8 × 8 that stay in registers; functions without Numba, as in `_pack`.

    out[lines(k) + i] = source[rows(i) + k]        for count elements k of `high` rows i

where rows lie `step` apart, or where a table says; and lines `pitch` apart, or at `pitch` times a table's entry. There is no
masked store, which takes AMD's processors a dozen cycles: the last eight rows overlap others.
"""

from __future__ import annotations

from typing import Any

from tdt._kernels._native import linked
from tdt._kernels._pack import BLOCK, Source, nearest, turned
from tdt._kernels._tile import FUNCTION, Routine

WORDS = ("source", "step", "count", "out", "pitch", "table", "high")
FORMS = ("plain", "scatter", "gather", "lines")
AHEAD = 16  # rows to the one that is fetched into the cache as another one is copied
MOST_APART = BLOCK - 1  # elements of a column that `separator` takes apart: as many as it has are a block of the turner


def turner(form: str = "plain", half: bool = False, rounds: bool = False) -> int:
    """The address of a function, for `turn`. form: "scatter" takes lines, and "gather" rows, from the table.

    "lines" turns nothing: it copies `high` elements of each of `count` rows, `step` apart, to the lines of the table.
    half: the source is of bfloat16, and is converted to float32; not for "lines".
    rounds: the lines are of bfloat16, to which float32 is rounded; not for "lines".
    """
    assert form in FORMS, f"form is one of {FORMS}, not {form}"
    name = f"turn-{form}{'-half' * half}{'-rounded' * rounds}"
    return linked(name, [FUNCTION], lambda: (Lines() if form == "lines" else Turn(form, half, rounds)).module)[0]


def separator(cells: int, width: int) -> int:
    """The address of a function that takes rows apart whose columns have a few elements each, as "scatter" does one row.

        out[table[u · cells + k] · pitch + i] = source[u · step + i · cells + k]        for rows u < count, columns i < high

    width: floats in a vector.
    """
    assert 1 < cells <= MOST_APART, f"2 to {MOST_APART} elements of a column are taken apart, not {cells}"
    return linked(f"turn-apart-{cells}x{width}", [FUNCTION], lambda: Apart(cells, width).module)[0]


class Apart(Routine):
    """Takes the elements of columns of `cells` apart: a vector of each is shuffled together from as many vectors of a row."""

    def __init__(self, cells: int, width: int) -> None:
        super().__init__(WORDS, width)
        builder, values = self.builder, self.values
        self.cells, self.scale = cells, self.bytes_of(values["pitch"])
        whole = builder.sdiv(values["high"], self.number(width))
        rest = builder.srem(values["high"], self.number(width))
        some = builder.icmp_signed(">", rest, self.number(0))
        edges = [self.mask(builder.mul(rest, self.number(cells)), v * width) for v in range(cells)]
        edge = self.mask(rest)

        def row(state: list[Any]) -> list[Any]:
            source, table = state
            lines = [
                builder.add(values["out"], builder.mul(self.scale, self.entry(table, self.number(k))))
                for k in range(cells)
            ]

            def vectors(at: list[Any]) -> list[Any]:
                self.separate(at[0], at[1:], [None] * cells, None)
                return [builder.add(at[0], self.number(4 * cells * width)), *self.next(at[1:])]

            first, *ends = self.loop(whole, [source, *lines], vectors)
            with builder.if_then(some):
                self.separate(first, ends, edges, edge)
            step = self.bytes_of(values["step"])
            return [builder.add(source, step), builder.add(table, self.number(8 * cells))]

        self.loop(values["count"], [values["source"], values["table"]], row)
        builder.ret_void()

    def next(self, lines: list[Any]) -> list[Any]:
        return [self.builder.add(line, self.number(4 * self.width)) for line in lines]

    def separate(self, source: Any, lines: list[Any], read: list[Any], written: Any) -> None:
        """A vector of columns. read, written: masks of the source's vectors and of the lines, None: all elements."""
        vectors = [self.read(source, 4 * v * self.width, mask) for v, mask in enumerate(read)]
        for k, line in enumerate(lines):
            places = [i * self.cells + k for i in range(self.width)]  # in the row, of this cell of each column
            result = vectors[0]
            for v in range(self.cells):  # from vector v its own, before it those that are there
                own = [divmod(place, self.width) for place in places]
                if v == 0:
                    order = [at if vector == 0 else 0 for vector, at in own]
                else:
                    order = [self.width + at if vector == v else i for i, (vector, at) in enumerate(own)]
                kind = self.ir.VectorType(self.i32, self.width)
                result = self.builder.shuffle_vector(result, vectors[v], self.ir.Constant(kind, order))
            self.write(result, line, 0, written)


class Lines(Routine):
    """Copies rows to the lines of a table."""

    def __init__(self) -> None:
        super().__init__(WORDS, BLOCK)
        builder, values = self.builder, self.values
        scale, step = self.bytes_of(values["pitch"]), self.bytes_of(values["step"])
        vectors = builder.lshr(values["high"], self.number(3))
        rest = builder.and_(values["high"], self.number(BLOCK - 1))

        def vector(state: list[Any]) -> list[Any]:
            source, out = state
            self.write(self.read(source, 0), out, 0)
            return [builder.add(source, self.number(4 * BLOCK)), builder.add(out, self.number(4 * BLOCK))]

        def single(state: list[Any]) -> list[Any]:
            source, out = state
            kind = self.f32
            builder.store(builder.load(self.at(source, 0, kind)), self.at(out, 0, kind))
            return [builder.add(source, self.number(4)), builder.add(out, self.number(4))]

        far = builder.mul(step, self.number(AHEAD))
        end = builder.sub(self.bytes_of(values["high"]), self.number(4))

        def row(state: list[Any]) -> list[Any]:
            k, source = state
            later = builder.add(source, far)
            self.prefetch(later)
            self.prefetch(builder.add(later, end))
            out = builder.add(values["out"], builder.mul(scale, self.entry(values["table"], k)))
            self.loop(rest, self.loop(vectors, [source, out], vector), single)
            return [builder.add(k, self.number(1)), builder.add(source, step)]

        self.loop(values["count"], [self.number(0), values["source"]], row)
        builder.ret_void()


class Turn(Source):
    """Eight rows at a time, whose columns become lines."""

    def __init__(self, form: str, half: bool = False, rounds: bool = False):
        super().__init__(WORDS, BLOCK, half)
        builder, values = self.builder, self.values
        self.form, self.to_half, self.written = form, rounds, 2 if rounds else self.item
        self.scale = self.bytes_of(values["pitch"], self.written)
        enough = builder.icmp_signed(">=", values["high"], self.number(BLOCK))
        with builder.if_else(enough) as (many, few):
            with many:
                last = builder.sub(values["high"], self.number(BLOCK))
                groups = builder.lshr(builder.add(values["high"], self.number(BLOCK - 1)), self.number(3))
                self.loop(groups, [self.number(0)], lambda state: self.group(self.smaller(state[0], last), state[0]))
            with few:
                # Lines that follow each other closely are written whole, each over the end of the one before.
                close = builder.icmp_signed("==", values["pitch"], values["high"])
                many = builder.sub(builder.lshr(values["count"], self.number(3)), self.number(1))
                none = self.number(0)
                whole = (
                    builder.select(builder.and_(close, self.less(none, many)), many, none) if form == "plain" else none
                )
                self.group(none, none, values["high"], whole)
        builder.ret_void()

    def group(self, first: Any, number: Any, count: Any = None, whole: Any = None) -> list[Any]:
        """Turn the eight rows from `first` on, or `count` of them; the number of the next.

        whole: of how many blocks of eight lines all eight elements may be written, before others that are written later.
        """
        builder, values = self.builder, self.values
        index = [builder.add(first, self.number(i)) for i in range(BLOCK)]
        if count is not None:
            index = [self.smaller(i, builder.sub(count, self.number(1))) for i in index]
        out = builder.add(values["out"], self.bytes_of(first, self.written))
        if self.form == "gather":
            offsets = [self.entry(values["table"], i) for i in index]
        else:
            offsets = [builder.mul(i, values["step"]) for i in index]
        sources = [builder.add(values["source"], self.bytes_of(offset, self.size)) for offset in offsets]

        def rows(k: Any, mask: Any = None) -> list[Any]:
            offset = self.bytes_of(k, self.size)
            return turned(self, [builder.add(source, offset) for source in sources], self.half, mask)

        def block(state: list[Any], count: Any) -> list[Any]:
            k, line = state
            for i, row in enumerate(rows(k)):
                line = self.store_line(row, builder.add(k, self.number(i)), line, out, count)
            return [builder.add(k, self.number(BLOCK)), line]

        state, blocks = [self.number(0), out], builder.lshr(values["count"], self.number(3))
        if whole is not None:
            state = self.loop(whole, state, lambda state: block(state, None))
            blocks = builder.sub(blocks, whole)
        k, _ = self.loop(blocks, state, lambda state: block(state, count))
        rest = builder.sub(values["count"], k)
        with builder.if_then(self.less(self.number(0), rest)):
            with builder.if_else(self.less(self.number(0), k)) as (some, none):
                with some:  # the last eight lines overlap others
                    last = builder.sub(values["count"], self.number(BLOCK))
                    block([last, builder.add(out, builder.mul(self.scale, last))], count)
                with none:
                    line = out
                    for i, row in enumerate(rows(self.number(0), self.mask(rest))[:-1]):
                        with builder.if_then(self.less(self.number(i), rest)):
                            self.store_line(row, self.number(i), line, out, count)
                        line = builder.add(line, self.scale)
        return [builder.add(number, self.number(BLOCK))]

    def store_line(self, row: Any, k: Any, line: Any, out: Any, count: Any) -> Any:
        """Store line k, at `line` unless a table says where; the address of the next line."""
        if self.form == "scatter":
            line = self.builder.add(out, self.builder.mul(self.scale, self.entry(self.values["table"], k)))
        row = nearest(self, row) if self.to_half else row
        if count is None:
            self.write(row, line, 0)
        else:
            self._store_first(row, line, count)
        return self.builder.add(line, self.scale)

    def _store_first(self, row: Any, line: Any, count: Any) -> None:
        """Store the first `count` elements, fewer than eight, one by one."""
        builder, kind = self.builder, row.type.element
        done = builder.append_basic_block("stored")
        for i in range(BLOCK - 1):
            element = builder.extract_element(row, self.i32(i))
            builder.store(element, self.at(line, self.written * i, kind))
            following = builder.append_basic_block("element")
            builder.cbranch(builder.icmp_signed(">", count, self.number(i + 1)), following, done)
            builder.position_at_end(following)
        builder.branch(done)
        builder.position_at_end(done)
