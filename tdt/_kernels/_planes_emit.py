"""The instructions of `_planes`: arithmetic, loops, and the copy to the buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tdt._kernels._native import target_triple, vector_width
from tdt._kernels._plane_taps import BUFFER, WORDS, Kind, taps

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
        name = "weights" if self.kind.what == "weights" else "values"
        module = ir.Module("planes")
        module.triple = target_triple()
        entry = ir.Function(module, ir.FunctionType(WORD, [WORD] * 3), name)
        self.builder = builder = ir.IRBuilder(entry.append_basic_block("entry"))
        words, first, last = entry.args
        self.values = {
            name: builder.load(builder.inttoptr(builder.add(words, number(8 * k)), WORD.as_pointer()))
            for k, name in enumerate(WORDS[name])
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
        letter = {"x86": "x", "aar": "w", "arm": "w"}.get(target_triple()[:3])
        if letter is None or self.width > vector_width():  # vectors of several registers
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
