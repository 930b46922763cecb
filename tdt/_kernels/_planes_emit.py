"""The instructions of `_planes` and `_pixels`: arithmetic and loops; and the copy to the buffer of `_planes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._kernels._assembler import Assembler
from tdt._kernels._native import target_triple, vector_width
from tdt._kernels._plane_taps import BUFFER, WORDS, Kind, PixelKind, taps

AHEAD = 1 << 16  # bytes that are loaded ahead, at most


class Instructions(Assembler):
    """Writes the kernel of a kind. Offsets count floats."""

    def __init__(self, kind: Kind | PixelKind, words: str):
        super().__init__("planes", kind.vector)
        self.kind = kind
        self.taps = taps(*kind[:5])
        # Steps of the buffer: a target's row and column begin at so many of its rows and columns.
        self.down, self.across = (1, 1) if kind.what == "input" else kind.stride
        first, last, self.values = self.begin_kernel(words, WORDS[words])
        self.buffer = self.local(BUFFER)
        self.prepare()
        self.loop(first, last, 1, lambda block: self.block(block))
        self.builder.ret(self.number(0))

    def prepare(self) -> None:
        """What is the same for all blocks."""

    def block(self, index: Any) -> None:
        raise NotImplementedError

    def local(self, count: int) -> Any:
        """The address of floats on the stack, and of some more that whole vectors may reach."""
        place = self.builder.alloca(self.ir.ArrayType(self.f32, count + 64))
        place.align = 64
        return self.builder.ptrtoint(place, self.i64)

    # Arithmetic.

    def value(self, name: str) -> Any:
        return self.values[name]

    def add(self, *terms: Any) -> Any:
        total = self.number(terms[0])
        for term in terms[1:]:
            total = total if isinstance(term, int) and term == 0 else self.builder.add(total, self.number(term))
        return total

    def sub(self, a: Any, b: Any) -> Any:
        return self.builder.sub(self.number(a), self.number(b))

    def mul(self, *factors: Any) -> Any:
        total = self.number(factors[0])
        for factor in factors[1:]:
            total = total if isinstance(factor, int) and factor == 1 else self.builder.mul(total, self.number(factor))
        return total

    def larger(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.less(a, b), self.number(b), self.number(a))

    def divided(self, a: Any, by: Any) -> Any:
        return self.builder.udiv(self.number(a), self.number(by))

    def rest(self, a: Any, by: Any) -> Any:
        return self.builder.urem(self.number(a), self.number(by))

    def pieces(self, total: Any, each: Any) -> Any:
        """How many pieces of size `each` cover `total`."""
        return self.divided(self.add(total, self.sub(each, 1)), each)

    # Memory.

    def at(self, base: Any, offset: Any) -> Any:
        """The address `offset` floats after `base`."""
        if isinstance(offset, int):
            return base if offset == 0 else self.builder.add(base, self.number(4 * offset))
        return self.builder.add(base, self.builder.shl(offset, self.number(2)))

    def zeros(self, address: Any, low: Any, high: Any) -> None:
        """Zeros from `low` to `high`, and up to a vector more."""
        self.loop(low, high, self.width, lambda j: self.store(self.zero, self.at(address, j)))

    def splat(self, address: Any) -> Any:
        """A vector of one float, repeated."""
        return self.spread(self.builder.load(self.pointer(address, self.f32)))

    image_item = 4  # bytes of an element of the images

    def prefetch_few(self, address: Any, count: Any) -> None:
        """Load so many elements of an image into the caches, unless they are many."""
        size = self.mul(count, self.image_item)
        stop = self.builder.select(self.less(size, AHEAD), size, self.number(0))
        self.loop(0, stop, 64, lambda offset: self.prefetch(self.add(address, offset)))

    def between(self, low: Any, high: Any) -> Any:
        """The mask of a vector's elements from number `low` on and below `high`."""
        numbers = self.ir.Constant(self.ir.VectorType(self.i32, self.width), list(range(self.width)))
        below, above = self.mask(high), self.spread(self.builder.trunc(low, self.i32))
        return self.builder.and_(below, self.builder.icmp_signed(">=", numbers, above))

    def joined(self, parts: list[Any]) -> list[Any]:
        """One or two vectors interleaved: as many vectors, in order."""
        if len(parts) == 1:
            return parts
        half = self.width // 2
        orders = [[h + i // 2 + self.width * (i % 2) for i in range(self.width)] for h in (0, half)]
        return [self.shuffled(*parts, order) for order in orders]

    def shuffled(self, a: Any, b: Any, order: list[int]) -> Any:
        return self.builder.shuffle_vector(a, b, self.ir.Constant(self.ir.VectorType(self.i32, self.width), order))

    def ordered(self, values: list[Any]) -> list[Any]:
        """The values, none of which is computed after what uses them: an empty instruction that takes all.

        Without it LLVM orders long code by the sums instead of by the lines read, and has too few registers.
        """
        letter = {"x86": "v", "aar": "w", "arm": "w"}.get(target_triple()[:3])
        if letter is None or self.width > vector_width():  # vectors of several registers
            return values
        kind = self.ir.LiteralStructType([self.vector] * len(values)) if len(values) > 1 else self.vector
        constraints = ",".join([f"={letter}"] * len(values) + [str(k) for k in range(len(values))])
        both = self.builder.asm(self.ir.FunctionType(kind, [self.vector] * len(values)), "", constraints, values, True)
        return [self.builder.extract_value(both, k) for k in range(len(values))] if len(values) > 1 else [both]

    # Control flow.

    def loop(self, start: Any, stop: Any, step: Any, body: Callable, carried: list[Any] | None = None) -> list[Any]:
        """`carried = body(i, *carried)` for i from `start` in steps below `stop`; the last values."""
        start, stop = self.number(start), self.number(stop)

        def one(index: Any, values: list[Any]) -> tuple[Any, list[Any], Any]:
            results = body(index, *values) or []
            following = self.add(index, step)
            return following, results, self.less(following, stop)

        return self.rounds(self.less(start, stop), start, carried or [], one)

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


class Emitter(Instructions):
    """Writes a kernel for contiguous images, with the copy to their buffer."""

    def __init__(self, kind: Kind):
        super().__init__(kind, "weights" if kind.what == "weights" else "values")

    # The buffer: planes of rows, each of `across` phases of `pitch` columns.

    def fill(self, plane: Any, place: Any, row: Any, column: Any, rows: Any, ahead: Any = None) -> None:
        """Copy `rows` rows of the plane at an address to one at `place`, from this row and column of targets on.

        ahead: bytes from what is read to what is loaded into the caches on the way, if the operands are `far`.
        """
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
            if ahead is not None:
                first = self.add(self.at(source, low), ahead)
                size = self.mul(self.sub(high, low), self.value("far"), 4)
                self.loop(0, size, 64, lambda at: self.prefetch(self.add(first, at)))
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
            whole = self.sub(high, self.builder.and_(self.sub(high, low), self.number(width - 1)))
            self.loop(low, whole, width, lambda j: self.store(self.load(self.at(source, j)), self.at(line, j)))
            with self.builder.if_then(self.less(whole, high)):
                some = self.load(self.at(source, whole), self.mask(self.sub(high, whole)))
                self.store(some, self.at(line, whole))
            self.zeros(line, high, pitch)
        elif self.across == 2:
            self._line_of_pairs(source, line, low, high)
        else:
            self.zeros(line, 0, self.mul(pitch, self.across))

            def move(j: Any) -> None:
                value = self.builder.load(self.pointer(self.at(source, j), self.f32))
                place = self.add(self.mul(self.rest(j, self.across), pitch), self.divided(j, self.across))
                self.builder.store(value, self.pointer(self.at(line, place), self.f32))

            self.loop(low, high, 1, move)

    def _line_of_pairs(self, source: Any, line: Any, low: Any, high: Any) -> None:
        """`line` for two phases."""
        pitch, width = self.value("pitch"), self.width
        start = self.builder.and_(low, self.number(-2))
        first = self.builder.lshr(start, self.number(1))
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
                masks = [self.between(self.sub(low, s), self.sub(high, s)) for s in starts]
                return [self.load(place, mask) for place, mask in zip(places, masks, strict=True)]

            a, b = self.either(inside, lambda: [self.load(place) for place in places], masked)
            half = self.builder.lshr(j, self.number(1))
            for k, target in enumerate((line, second)):
                self.store(self.shuffled(a, b, list(range(k, 2 * width, 2))), self.at(target, half))
            return [self.add(half, width)]

        stop = self.builder.select(self.less(low, high), high, start)
        (done,) = self.loop(start, stop, 2 * width, pair, [first])
        self.zeros(line, done, self.sub(pitch, width - 1))
        self.zeros(second, done, self.sub(pitch, width - 1))
