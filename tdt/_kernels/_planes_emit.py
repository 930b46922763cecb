"""The instructions of `_planes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tdt._kernels._compilable import ENTRY
from tdt._kernels._emit import _triple, _width
from tdt._kernels._plane_taps import BUFFER, SUMS, WORDS, Kind, taps

WORD, SHORT, FLOAT = ir.IntType(64), ir.IntType(32), ir.FloatType()
NOTHING = ir.VoidType()


def number(value: int) -> Any:
    return ir.Constant(WORD, value)


class Emitter:
    """Loops, vectors and addresses, and the copy to the buffer. Addresses are words; offsets count floats."""

    def __init__(self, kind: Kind):
        self.kind, self.width = kind, kind.vector
        self.vector = ir.VectorType(FLOAT, kind.vector)
        self.zero = ir.Constant(self.vector, [0.0] * kind.vector)
        self.taps = taps(*kind[:5])
        # Steps of the buffer: a target's row and column begin at so many of its rows and columns.
        self.down, self.across = (1, 1) if kind.what == "input" else kind.stride

    def module(self) -> Any:
        names = WORDS["weights" if self.kind.what == "weights" else "values"]
        module = ir.Module("planes")
        module.triple = _triple()
        entry = ir.Function(module, ir.FunctionType(WORD, [WORD] * 3), ENTRY)
        self.builder = builder = ir.IRBuilder(entry.append_basic_block("entry"))
        words, first, last = entry.args
        self.values = {
            name: builder.load(builder.inttoptr(builder.add(words, number(8 * k)), WORD.as_pointer()))
            for k, name in enumerate(names)
        }
        self.buffer = self.local(BUFFER)
        self.prepare()
        self.loop(first, last, 1, lambda block: self.block(block))
        builder.ret(number(0))
        return module

    def prepare(self) -> None:
        """What is the same for all blocks."""

    def block(self, index: Any) -> None:
        raise NotImplementedError

    def local(self, count: int) -> Any:
        """The address of floats on the stack, and of some more that whole vectors may reach."""
        place = self.builder.alloca(ir.ArrayType(FLOAT, count + 64))
        place.align = 64
        return self.builder.ptrtoint(place, WORD)

    # Arithmetic.

    def value(self, name: str) -> Any:
        return self.values[name]

    def as_word(self, x: Any) -> Any:
        return number(x) if isinstance(x, int) else x

    def add(self, *terms: Any) -> Any:
        total = self.as_word(terms[0])
        for term in terms[1:]:
            total = total if isinstance(term, int) and term == 0 else self.builder.add(total, self.as_word(term))
        return total

    def sub(self, a: Any, b: Any) -> Any:
        return self.builder.sub(self.as_word(a), self.as_word(b))

    def mul(self, *factors: Any) -> Any:
        total = self.as_word(factors[0])
        for factor in factors[1:]:
            total = total if isinstance(factor, int) and factor == 1 else self.builder.mul(total, self.as_word(factor))
        return total

    def less(self, a: Any, b: Any) -> Any:
        return self.builder.icmp_signed("<", self.as_word(a), self.as_word(b))

    def smaller(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.less(a, b), self.as_word(a), self.as_word(b))

    def larger(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.less(a, b), self.as_word(b), self.as_word(a))

    def divided(self, a: Any, by: Any) -> Any:
        return self.builder.udiv(self.as_word(a), self.as_word(by))

    def rest(self, a: Any, by: Any) -> Any:
        return self.builder.urem(self.as_word(a), self.as_word(by))

    def pieces(self, total: Any, each: Any) -> Any:
        """How many pieces of size `each` cover `total`."""
        return self.divided(self.add(total, self.sub(each, 1)), each)

    # Memory.

    def at(self, base: Any, offset: Any) -> Any:
        """The address `offset` floats after `base`."""
        if isinstance(offset, int):
            return base if offset == 0 else self.builder.add(base, number(4 * offset))
        return self.builder.add(base, self.builder.shl(offset, number(2)))

    def pointer(self, address: Any, kind: Any) -> Any:
        return self.builder.inttoptr(address, kind.as_pointer())

    def read(self, address: Any) -> Any:
        load = self.builder.load(self.pointer(address, self.vector))
        load.align = 4
        return load

    def write(self, value: Any, address: Any) -> None:
        self.builder.store(value, self.pointer(address, self.vector)).align = 4

    def splat(self, address: Any) -> Any:
        """A vector of one float, repeated."""
        return self.spread(self.builder.load(self.pointer(address, FLOAT)), self.vector)

    def spread(self, value: Any, vector: Any) -> Any:
        blank, zeros = (
            ir.Constant(vector, ir.Undefined),
            ir.Constant(ir.VectorType(SHORT, self.width), [0] * self.width),
        )
        single = self.builder.insert_element(blank, value, ir.Constant(SHORT, 0))
        return self.builder.shuffle_vector(single, blank, zeros)

    def mask(self, low: Any, high: Any) -> Any:
        """Lanes from `low` on and below `high`."""
        lanes = ir.VectorType(SHORT, self.width)
        numbers = ir.Constant(lanes, list(range(self.width)))
        below = self.spread(self.builder.trunc(self.as_word(high), SHORT), lanes)
        result = self.builder.icmp_signed("<", numbers, below)
        if isinstance(low, int) and low == 0:
            return result
        above = self.spread(self.builder.trunc(low, SHORT), lanes)
        return self.builder.and_(result, self.builder.icmp_signed(">=", numbers, above))

    def masked_read(self, address: Any, mask: Any) -> Any:
        args = [self.pointer(address, self.vector), SHORT(4), mask, self.zero]
        return self.call(f"llvm.masked.load.v{self.width}f32.p0", self.vector, args)

    def masked_write(self, value: Any, address: Any, mask: Any) -> None:
        args = [value, self.pointer(address, self.vector), SHORT(4), mask]
        self.call(f"llvm.masked.store.v{self.width}f32.p0", NOTHING, args)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.call(f"llvm.fma.v{self.width}f32", self.vector, [a, b, c])

    def call(self, name: str, result: Any, args: list[Any]) -> Any:
        module = self.builder.module
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return self.builder.call(module.globals.get(name) or ir.Function(module, kind, name), args)

    def joined(self, parts: list[Any]) -> list[Any]:
        """One or two vectors interleaved: as many vectors, in order."""
        if len(parts) == 1:
            return parts
        half = self.width // 2
        orders = [[h + i // 2 + self.width * (i % 2) for i in range(self.width)] for h in (0, half)]
        return [self.shuffled(*parts, order) for order in orders]

    def shuffled(self, a: Any, b: Any, order: list[int]) -> Any:
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(SHORT, self.width), order))

    def ordered(self, values: list[Any]) -> list[Any]:
        """The values, none of which is computed after what uses them: an empty instruction that takes all.

        Without it LLVM orders long code by the sums instead of by the lines read, and has too few registers.
        """
        letter = {"x86": "x", "aar": "w", "arm": "w"}.get(_triple()[:3])
        if letter is None or self.width > _width():  # vectors of several registers
            return values
        kind = ir.LiteralStructType([self.vector] * len(values)) if len(values) > 1 else self.vector
        constraints = ",".join([f"={letter}"] * len(values) + [str(k) for k in range(len(values))])
        both = self.builder.asm(ir.FunctionType(kind, [self.vector] * len(values)), "", constraints, values, True)
        return [self.builder.extract_value(both, k) for k in range(len(values))] if len(values) > 1 else [both]

    # Control flow.

    def loop(self, start: Any, stop: Any, step: Any, body: Callable, carried: list[Any] | None = None) -> list[Any]:
        """`carried = body(i, *carried)` for i from `start` in steps below `stop`; the last values."""
        builder, first = self.builder, carried or []
        start, stop = self.as_word(start), self.as_word(stop)
        before, inside, after = builder.block, *(builder.append_basic_block(name) for name in ("loop", "end"))
        builder.cbranch(self.less(start, stop), inside, after)
        builder.position_at_end(inside)
        index = builder.phi(WORD)
        values = [builder.phi(value.type) for value in first]
        results = body(index, *values) or []
        end, following = builder.block, self.add(index, step)
        for phi, value, result in zip([index, *values], [start, *first], [following, *results], strict=True):
            phi.add_incoming(value, before)
            phi.add_incoming(result, end)
        builder.cbranch(self.less(following, stop), inside, after)
        builder.position_at_end(after)
        last = [builder.phi(value.type) for value in first]
        for phi, value, result in zip(last, first, results, strict=True):
            phi.add_incoming(value, before)
            phi.add_incoming(result, end)
        return last

    def either(self, condition: Any, yes: Callable, no: Callable) -> list[Any]:
        """The values of `yes()` if the condition holds, else of `no()`."""
        builder = self.builder
        with builder.if_else(condition) as (then, other):
            with then:
                a, from_then = yes() or [], builder.block
            with other:
                b, from_other = no() or [], builder.block
        results = []
        for x, y in zip(a, b, strict=True):
            phi = builder.phi(x.type)
            phi.add_incoming(x, from_then)
            phi.add_incoming(y, from_other)
            results.append(phi)
        return results

    # The buffer: planes of rows, each of `across` phases of `pitch` columns.

    def zeros(self, address: Any, low: Any, high: Any) -> None:
        """Zeros from `low` to `high`, and up to a vector more."""
        self.loop(low, high, self.width, lambda j: self.write(self.zero, self.at(address, j)))

    def fill(self, plane: Any, place: Any, row: Any, column: Any, rows: Any) -> None:
        """Copy `rows` rows of the plane at an address to one at `place`, from this row and column of targets on."""
        top = self.sub(self.mul(row, self.down), self.value("top"))
        left = self.sub(self.mul(column, self.across), self.value("left"))
        pitch, width = self.value("pitch"), self.value("width")
        # Two phases: the last vector of the first one may not reach into the second one.
        most = self.mul(self.sub(pitch, self.width), 2) if self.across == 2 else self.mul(pitch, self.across)
        low = self.smaller(most, self.larger(0, self.sub(0, left)))
        high = self.larger(low, self.smaller(most, self.sub(width, left)))

        def copy(i: Any) -> None:
            here, line = self.add(top, i), self.at(place, self.mul(i, pitch, self.across))
            source = self.at(plane, self.add(self.mul(here, width), left))
            inside = self.builder.icmp_unsigned("<", here, self.value("height"))
            self.either(
                inside,
                lambda: self.line(source, line, low, high),
                lambda: self.zeros(line, 0, self.mul(pitch, self.across)),
            )

        self.loop(0, rows, 1, copy)

    def line(self, source: Any, line: Any, low: Any, high: Any) -> None:
        """Columns [low, high) of one row, which are at `source` + column; zeros around them."""
        pitch, width = self.value("pitch"), self.width
        if self.across == 1:
            self.zeros(line, 0, low)
            whole = self.sub(high, self.builder.and_(self.sub(high, low), number(width - 1)))
            self.loop(low, whole, width, lambda j: self.write(self.read(self.at(source, j)), self.at(line, j)))
            with self.builder.if_then(self.less(whole, high)):
                some = self.masked_read(self.at(source, whole), self.mask(0, self.sub(high, whole)))
                self.write(some, self.at(line, whole))
            self.zeros(line, high, pitch)
        elif self.across == 2:
            self._line_of_pairs(source, line, low, high)
        else:
            self.zeros(line, 0, self.mul(pitch, self.across))

            def move(j: Any) -> None:
                value = self.builder.load(self.pointer(self.at(source, j), FLOAT))
                place = self.add(self.mul(self.rest(j, self.across), pitch), self.divided(j, self.across))
                self.builder.store(value, self.pointer(self.at(line, place), FLOAT))

            self.loop(low, high, 1, move)

    def _line_of_pairs(self, source: Any, line: Any, low: Any, high: Any) -> None:
        """`line` for two phases."""
        pitch, width = self.value("pitch"), self.width
        start = self.builder.and_(low, number(-2))
        first = self.builder.lshr(start, number(1))
        second = self.at(line, pitch)
        self.zeros(line, 0, first)
        self.zeros(second, 0, first)

        def pair(j: Any, _: Any) -> list[Any]:
            end = self.add(j, 2 * width)
            inside = self.builder.and_(
                self.builder.icmp_signed(">=", j, low), self.builder.icmp_signed("<=", end, high)
            )
            places = [self.at(source, self.add(j, k * width)) for k in range(2)]

            def masked() -> list[Any]:
                starts = [self.add(j, k * width) for k in range(2)]
                masks = [self.mask(self.sub(low, s), self.sub(high, s)) for s in starts]
                return [self.masked_read(place, mask) for place, mask in zip(places, masks, strict=True)]

            a, b = self.either(inside, lambda: [self.read(place) for place in places], masked)
            half = self.builder.lshr(j, number(1))
            for k, target in enumerate((line, second)):
                self.write(self.shuffled(a, b, list(range(k, 2 * width, 2))), self.at(target, half))
            return [self.add(half, width)]

        stop = self.builder.select(self.less(low, high), high, start)
        (done,) = self.loop(start, stop, 2 * width, pair, [first])
        self.zeros(line, done, self.sub(pitch, width - 1))
        self.zeros(second, done, self.sub(pitch, width - 1))


class Values(Emitter):
    """Result or input gradient."""

    def prepare(self) -> None:
        rows = self.add(self.mul(self.sub(self.value("tile_rows"), 1), self.down), self.taps.span[0])
        self.buffer_rows = rows
        self.line_step = self.mul(self.value("pitch"), self.across)
        self.plane_step = self.mul(rows, self.line_step)
        phases = 1 if self.kind.what == "result" else self.kind.stride[1]
        self.target_rows = 1 if self.kind.what == "result" else self.kind.stride[0]
        self.phases = phases

    def block(self, index: Any) -> None:
        value = self.value
        source = self.at(value("source"), self.mul(index, value("inner"), value("height"), value("width")))
        size = self.mul(value("target_height"), value("target_width"))
        target = self.at(value("target"), self.mul(index, value("outer"), size))
        group = self.rest(index, value("groups"))
        weight = self.at(
            value("weight"), self.mul(group, value("outer"), value("inner"), self.kind.kernel[0] * self.kind.kernel[1])
        )
        bias = self.at(value("bias"), self.mul(group, value("outer")))
        tiles = self.pieces(value("columns"), value("tile_columns"))

        def strip(row: Any) -> None:
            row = self.smaller(row, self.sub(value("rows"), value("tile_rows")))

            def tile(t: Any) -> None:  # from the last to the first, as what is written may reach into the next row
                column = self.mul(self.sub(self.sub(tiles, 1), t), value("tile_columns"))

                def plane(k: Any) -> None:
                    here = self.at(source, self.mul(k, value("height"), value("width")))
                    self.fill(here, self.at(self.buffer, self.mul(k, self.plane_step)), row, column, self.buffer_rows)

                self.loop(0, 1 if self.kind.single else value("inner"), 1, plane)
                self.tile(row, column, weight, bias, target, size)

            self.loop(0, tiles, 1, tile)

        self.loop(0, value("rows"), value("tile_rows"), strip)

    def tile(self, row: Any, column: Any, weight: Any, bias: Any, target: Any, size: Any) -> None:
        """All targets of a tile whose sources are in the buffer."""
        value = self.value
        channels, rows, vectors = self.kind.tile
        wide = vectors * self.width
        columns = self.smaller(value("tile_columns"), self.sub(value("columns"), column))
        blocks = self.pieces(columns, wide)

        def some_channels(m: Any) -> None:
            last = self.sub(value("outer"), 1)
            index = [self.smaller(self.add(m, k), last) for k in range(channels)] if channels > 1 else [m]
            weights = [self.at(weight, self.mul(i, value("outer_step"))) for i in index]
            biases = [self.at(bias, i) for i in index]
            targets = [self.at(target, self.mul(i, size)) for i in index]

            def some_rows(r: Any) -> None:
                r = self.smaller(r, self.sub(value("tile_rows"), rows)) if rows > 1 else r

                def some_columns(b: Any) -> None:
                    q = self.mul(self.sub(self.sub(blocks, 1), b), wide)
                    start = self.at(self.buffer, self.add(self.mul(r, self.down, self.line_step), q))
                    for phase in range(self.target_rows):
                        sums = self.sums(phase, start, weights, biases)
                        self.store(phase, sums, self.add(row, r), self.add(column, q), targets, size)

                self.loop(0, blocks, 1, some_columns)

            self.loop(0, value("tile_rows"), rows, some_rows)

        self.loop(0, value("outer"), channels, some_channels)

    def sums(self, phase: int, start: Any, weights: list[Any], biases: list[Any]) -> list[Any]:
        """Sums of a tile: for each channel, row, column phase and vector."""
        channels, rows, vectors = self.kind.tile
        begin = [self.splat(bias) for bias in biases]
        sums = [begin[m] for m in range(channels) for _ in range(rows * self.phases * vectors)]
        if self.kind.single:
            return self.products(phase, start, weights, sums)
        inner_step = self.builder.shl(self.value("inner_step"), number(2))
        plane = self.builder.shl(self.plane_step, number(2))

        def one(_: Any, *carried: Any) -> list[Any]:
            at, step, *values = carried
            here = [self.builder.add(weight, step) for weight in weights]
            values = self.products(phase, at, here, values)
            return [self.builder.add(at, plane), self.builder.add(step, inner_step), *values]

        return self.loop(0, self.value("inner"), 1, one, [start, number(0), *sums])[2:]

    def products(self, phase: int, start: Any, weights: list[Any], sums: list[Any]) -> list[Any]:
        """Add one channel's taps."""
        sums = list(sums)
        for column in self.taps.phases[phase]:
            if self.kind.tile[0] == 1:
                self._rows_together(column, start, weights[0], sums)
            else:
                self._channels_together(column, start, weights, sums)
        return sums

    def _rows_together(self, column: tuple, start: Any, weights: Any, sums: list[Any]) -> None:
        """Add the taps of one column of the kernel: those of all rows of the tile that read a line of the buffer."""
        _, rows, vectors = self.kind.tile
        known = {tap.number: self.splat(self.at(weights, tap.number)) for tap in column}
        for line in sorted({r * self.down + tap.row for tap in column for r in range(rows)}):
            met = [(r, tap) for r in range(rows) for tap in column if r * self.down + tap.row == line]
            x = self._windows(start, met[0][1], line)
            for r, tap in met:
                for v in range(vectors):
                    k = (r * self.phases + tap.target_phase) * vectors + v
                    sums[k] = self.fma(known[tap.number], x[v], sums[k])
            sums[:] = self.ordered(sums)

    def _channels_together(self, column: tuple, start: Any, weights: list[Any], sums: list[Any]) -> None:
        """Add the taps of one column of the kernel: each to all channels of the tile."""
        _, rows, vectors = self.kind.tile
        for tap in column:
            x = [self._windows(start, tap, r * self.down + tap.row) for r in range(rows)]
            for m, weight in enumerate(weights):
                w = self.splat(self.at(weight, tap.number))
                for r in range(rows):
                    for v in range(vectors):
                        k = ((m * rows + r) * self.phases + tap.target_phase) * vectors + v
                        sums[k] = self.fma(w, x[r][v], sums[k])
            sums[:] = self.ordered(sums)

    def _windows(self, start: Any, tap: Any, line: int) -> list[Any]:
        """The vectors that a tap reads in a line of the buffer."""
        base = self.at(start, self.mul(self.line_step, line)) if line else start
        base = self.at(base, self.mul(self.value("pitch"), tap.phase)) if tap.phase else base
        return [self.read(self.at(base, tap.column + v * self.width)) for v in range(self.kind.tile[2])]

    def store(self, phase: int, sums: list[Any], row: Any, column: Any, targets: list[Any], size: Any) -> None:
        """Write a tile's sums.

        A row's last vectors may reach into the rows after it, which are written later, but not behind the plane.
        """
        channels, rows, vectors = self.kind.tile
        wide = self.phases * vectors * self.width
        width = self.value("target_width")
        for r in range(rows):
            line = self.add(self.mul(self.add(row, r), self.target_rows), phase)

            def write(r: int = r, line: Any = line) -> None:
                place = self.add(self.mul(line, width), self.mul(column, self.phases))
                left = self.sub(width, self.mul(column, self.phases))
                values = []
                for m in range(channels):
                    first = (m * rows + r) * self.phases * vectors
                    for v in range(vectors):
                        parts = [sums[first + p * vectors + v] for p in range(self.phases)]
                        values += [(m, v * self.phases + k, x) for k, x in enumerate(self.joined(parts))]

                def whole() -> None:
                    for m, k, x in values:
                        self.write(x, self.at(targets[m], self.add(place, k * self.width)))

                def part() -> None:
                    masks = [self.mask(0, self.sub(left, k * self.width)) for k in range(self.phases * vectors)]
                    for m, k, x in values:
                        self.masked_write(x, self.at(targets[m], self.add(place, k * self.width)), masks[k])

                self.either(self.builder.icmp_signed("<=", self.add(place, wide), size), whole, part)

            if self.target_rows == 1:
                write()
            else:
                with self.builder.if_then(self.less(line, self.value("target_height"))):
                    write()


class Weights(Emitter):
    """Weight gradient."""

    def prepare(self) -> None:
        rows, columns = self.kind.kernel
        self.cells = rows * columns
        self.place = self.local(SUMS)
        # Rows of the kernel whose sums are in registers at once.
        each = max(1, min(rows, 12 // (columns * self.kind.tile[0])))
        every = [tap for column in self.taps.phases[0] for tap in column]
        self.passes = [
            [tap for tap in every if low <= tap.number // columns < low + each] for low in range(0, rows, each)
        ]
        if columns > 12:  # too many for one row: cut
            self.passes = [some[i : i + 12] for some in self.passes for i in range(0, len(some), 12)]

    def block(self, index: Any) -> None:
        value = self.value
        group, k = self.divided(index, value("inner")), self.rest(index, value("inner"))
        plane = self.mul(value("height"), value("width"))
        size = self.mul(value("target_height"), value("target_width"))
        channels, line_step = self.mul(value("groups"), value("inner")), self.mul(value("pitch"), self.across)
        count = self.mul(value("outer"), self.cells * self.width)
        self.zeros(self.place, 0, count)

        def samples(n: Any) -> None:
            here = self.smaller(value("together"), self.sub(value("samples"), n))

            def strip(row: Any) -> None:
                rows = self.smaller(value("tile_rows"), self.sub(value("target_height"), row))
                filled = self.add(self.mul(self.sub(rows, 1), self.down), self.taps.span[0])
                step = self.mul(filled, line_step)

                def tile(column: Any) -> None:
                    columns = self.smaller(value("tile_columns"), self.sub(value("target_width"), column))

                    def copy(i: Any) -> None:
                        source = self.at(
                            value("source"), self.mul(self.add(self.mul(self.add(n, i), channels), index), plane)
                        )
                        self.fill(source, self.at(self.buffer, self.mul(i, step)), row, column, filled)

                    self.loop(0, here, 1, copy)
                    first = self.add(self.mul(n, value("groups"), value("outer")), self.mul(group, value("outer")))
                    y = self.at(
                        value("gradient"), self.add(self.mul(first, size), self.mul(row, value("target_width")), column)
                    )
                    self.tile(y, size, here, rows, columns, step, line_step)

                self.loop(0, value("target_width"), value("tile_columns"), tile)

            self.loop(0, value("target_height"), value("tile_rows"), strip)

        self.loop(0, value("samples"), value("together"), samples)
        base = self.at(
            value("target"), self.mul(self.add(self.mul(group, value("outer"), value("inner")), k), self.cells)
        )

        def total(m: Any) -> None:
            target = self.at(base, self.mul(m, value("inner"), self.cells))
            sums = self.at(self.place, self.mul(m, self.cells * self.width))

            def cell(t: Any) -> None:
                single = self.added(self.read(self.at(sums, self.mul(t, self.width))))
                self.builder.store(single, self.pointer(self.at(target, t), FLOAT))

            self.loop(0, self.cells, 1, cell)

        self.loop(0, value("outer"), 1, total)

    def added(self, vector: Any) -> Any:
        """The sum of a vector's elements, by halves."""
        half = self.width
        while half > 1:
            half //= 2
            order = [(i + half) % self.width for i in range(self.width)]
            vector = self.builder.fadd(vector, self.shuffled(vector, vector, order))
        return self.builder.extract_element(vector, ir.Constant(SHORT, 0))

    def tile(self, y: Any, size: Any, samples: Any, rows: Any, columns: Any, step: Any, line_step: Any) -> None:
        """Add the sums over a tile to those on the stack."""
        channels = self.kind.tile[0]
        extent = samples, rows, columns, step, line_step

        def some_channels(m: Any) -> None:
            last = self.sub(self.value("outer"), 1)
            index = [self.smaller(self.add(m, k), last) for k in range(channels)] if channels > 1 else [m]
            lines = [self.at(y, self.mul(i, size)) for i in index]
            for some in self.passes:
                sums = self.sums(some, lines, self.mul(self.value("groups"), self.value("outer"), size), *extent)
                places = [
                    self.at(self.place, self.mul(self.add(self.mul(i, self.cells), tap.number), self.width))
                    for i in index
                    for tap in some
                ]
                old = [self.read(place) for place in places]  # all before any is written: repeated channels are equal
                for before, new, place in zip(old, sums, places, strict=True):
                    self.write(self.builder.fadd(before, new), place)

        self.loop(0, self.value("outer"), channels, some_channels)

    def sums(self, taps: list, lines: list[Any], sample: Any, samples: Any, rows: Any, columns: Any, step: Any,
             line_step: Any) -> list[Any]:  # fmt: skip
        """Sums over a tile for some taps, for each channel of y that begins at `lines`; `sample`: from one to the next."""
        width = self.value("target_width")
        steps = self.mul(rows, self.pieces(columns, self.width))
        # From the end of a row to the next.
        y_step, x_step = width, self.mul(line_step, self.down)

        def one_sample(n: Any, *sums: Any) -> list[Any]:
            image = self.at(self.buffer, self.mul(n, step))
            own = [self.at(line, self.mul(n, sample)) for line in lines]

            # One loop over rows and columns: nested ones would move sums from register to register.
            def one(_: Any, column: Any, x: Any, y: Any, *sums: Any) -> list[Any]:
                mask = self.mask(0, self.sub(columns, column))
                right = [self.masked_read(self.at(line, self.add(y, column)), mask) for line in own]
                sums = self.products(self.at(image, self.add(x, column)), right, taps, sums)
                following = self.add(column, self.width)
                ends = self.builder.icmp_signed(">=", following, columns)
                zero = number(0)
                following = self.builder.select(ends, zero, following)
                x = self.add(x, self.builder.select(ends, x_step, zero))
                y = self.add(y, self.builder.select(ends, y_step, zero))
                return [following, x, y, *sums]

            return self.loop(0, steps, 1, one, [number(0), number(0), number(0), *sums])[3:]

        return self.loop(0, samples, 1, one_sample, [self.zero] * (len(lines) * len(taps)))

    def products(self, x: Any, y: list[Any], taps: list, sums: Any) -> list[Any]:
        """Add a vector of columns."""
        sums = list(sums)
        for t, tap in enumerate(taps):
            base = self.add(self.mul(self.value("pitch"), tap.row * self.across + tap.phase), tap.column)
            window = self.read(self.at(x, base))
            for m, line in enumerate(y):
                k = m * len(taps) + t
                sums[k] = self.fma(window, line, sums[k])
        return self.ordered(sums)
