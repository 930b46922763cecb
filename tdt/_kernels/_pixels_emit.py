"""The instructions of `_pixels`: the copy to the buffer, results and input gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tdt._kernels._plane_taps import Tap
from tdt._kernels._planes_emit import Instructions

ADDRESSES = 8  # that are written at a time


class Pixels(Instructions):
    """What both kernels share: chunks of channels, and their copy to the buffer."""

    def of_image(self, base: Any, offset: Any) -> Any:
        """The address `offset` elements of an image after `base`."""
        if isinstance(offset, int):
            return self.add(base, self.image_item * offset) if offset else base
        return self.builder.add(base, self.builder.shl(offset, self.number(self.image_item.bit_length() - 1)))

    @property
    def image_item(self) -> int:
        """Bytes of an element of the images."""
        return 2 if self.kind.half else 4

    def chunk(self, index: Any) -> None:
        """Find where a chunk of channels begins in the source and in the target, and how many channels it has."""
        value = self.value
        self.first_source, self.first_target = (
            self.mul(index, value(f"{name}_chunk")) for name in ("source", "target")
        )
        self.here = self.smaller(value("source_chunk"), self.sub(value("source_channels"), self.first_source))
        self.target_here = self.smaller(value("target_chunk"), self.sub(value("target_channels"), self.first_target))

    def fill(self, sample: Any, top: Any, rows: Any, first: Any = 0) -> None:
        """Copy rows of a sample's image, of which the first would be row `top`, to the buffer; zeros where there are none."""
        value, pixel = self.value, self.kind.pixel
        columns, width = value("buffer_columns"), value("width")
        low = self.smaller(columns, self.larger(0, value("left")))
        high = self.larger(low, self.smaller(columns, self.add(width, value("left"))))
        size = self.mul(value("height"), width)

        def row(i: Any) -> None:
            line, here = self.at(self.buffer, self.mul(i, value("line"))), self.add(top, i)

            def copy() -> None:
                place = self.add(self.mul(here, width), self.sub(low, value("left")))
                source = self.of_image(sample, place if self.kind.planes else self.mul(place, value("source_channels")))
                start = self.at(line, self.mul(low, pixel))
                self.zeros(line, 0, self.mul(low, pixel))
                self.ahead = self.mul(value("source_channels"), width, self.down, value("tile_rows"), 4)
                self.move(source, size, value("source_channels"), self.sub(high, low), start, pixel, self.here)
                self.zeros(line, self.mul(high, pixel), self.mul(columns, pixel))

            inside = self.builder.icmp_unsigned("<", here, value("height"))
            self.either(inside, copy, lambda: self.zeros(line, 0, self.mul(columns, pixel)))

        self.loop(first, rows, 1, row)

    def move(self, source: Any, size: Any, channels: Any, count: Any, target: Any, pixel: int, here: Any) -> None:
        """Copy the first `here` channels of `count` pixels, of an image of `size` pixels, to places `pixel` floats apart."""
        if self.kind.planes:
            words = source, size, count, target, self.number(pixel), self.number(0), here
            kind = self.ir.FunctionType(self.ir.VoidType(), [self.i64] * len(words))
            self.builder.call(self.pointer(self.value("turn"), kind), words)
            return
        step = self.builder.shl(channels, self.number(2))

        def pixels(many: Any) -> Callable[[], None]:
            def moved(j: Any, at: Any) -> list[Any]:
                for c in range(0, 4 * pixel, 64):
                    self.prefetch(self.add(at, self.ahead, c))
                self.copy(at, self.at(target, self.mul(j, pixel)), many)
                return [self.builder.add(at, step)]

            return lambda: self.loop(0, count, 1, moved, [source])

        self.either(self.builder.icmp_signed("==", here, self.number(pixel)), pixels(pixel), pixels(here))

    def copy(self, source: Any, target: Any, count: Any) -> None:
        """Copy floats: so many vectors in a row, or as many as it turns out, with zeros up to a whole vector."""
        if isinstance(count, int):
            for c in range(0, count, self.width):
                self.store(self.load(self.at(source, c)), self.at(target, c))
            return

        def some(c: Any) -> None:
            self.store(self.load(self.at(source, c), self.mask(self.sub(count, c))), self.at(target, c))

        self.loop(0, count, self.width, some)

    def begins(self, v: Any) -> Any:
        """The first source of a vector of targets."""
        if self.kind.form == "spread":
            return self.mul(self.divided(v, self.value("group_vectors")), self.value("inner"))
        return self.mul(v, self.width)

    def read(self, address: Any, t: int) -> Any:
        """What a vector of targets meets at an address, of channel t of the group."""
        if self.kind.form == "spread":
            return self.splat(self.at(address, t))
        x = self.load(address)
        per = self.kind.per
        return x if per == 1 else self.shuffled(x, x, [i - i % per + t for i in range(self.width)])

    def rotated(self, y: Any, t: int) -> Any:
        """A vector of "mixed" targets, each group's t places on: the targets that a vector of its sources meets."""
        per = self.kind.per
        return y if t == 0 else self.shuffled(y, y, [i - i % per + (i + t) % per for i in range(self.width)])

    def place(self, tap: Tap, t: int = 0) -> int:
        """The place of the weights, or their gradient, of channel t and a cell in those of a chunk."""
        return (t * self.cells + tap.number) * self.kind.out

    @property
    def cells(self) -> int:
        return self.kind.kernel[0] * self.kind.kernel[1]

    def column(self, tap: Tap) -> int:
        """The column of the buffer that a tap reads for the first target."""
        return tap.column * self.across + tap.phase


class Values(Pixels):
    """Result or input gradient."""

    @property
    def column_phases(self) -> int:
        return self.kind.stride[1] if self.kind.what == "input" else 1

    def source(self, start: Any, line: int, column: int) -> Any:
        """The address of what a tile reads in this line and column. start: as of `targets`."""
        raise NotImplementedError

    def targets(self, v: Any, start: Any, row: Any, column: Any, target: Any, channel: Any) -> None:
        """A tile of vector v of the targets, from `channel` on, and of those together with it.

        start: address, or offset, of the sources of its first target.
        """
        value = self.value
        group, inside = (f(v, value("group_vectors")) for f in (self.divided, self.rest))
        place = self.add(self.mul(group, value("weight_group")), self.mul(inside, value("weight_vector")))
        weight = self.at(value("weight"), place)
        starts = [self.add(channel, i * self.width) for i in range(self.kind.together)]
        bias = [self.load(self.at(value("bias"), first)) for first in starts]
        for phase in range(len(self.taps.phases)):
            sums = self.sums(phase, start, weight, bias)
            for i, first in enumerate(starts):
                own = sums[i * self.tile_sums : (i + 1) * self.tile_sums]
                self.write(phase, own, row, column, self.at(target, first))

    @property
    def tile_sums(self) -> int:
        """Sums of a tile of one vector of the targets."""
        return self.kind.tile[0] * self.column_phases * self.kind.tile[1]

    def sums(self, phase: int, start: Any, weight: Any, bias: list[Any]) -> list[Any]:
        """Sums of a tile: for each vector of targets, row, column phase and column."""
        sums = [each for each in bias for _ in range(self.tile_sums)]
        if self.kind.form != "spread":
            return self.products(phase, start, weight, sums)
        step = self.builder.shl(self.value("weight_step"), self.number(2))

        def channel(_: Any, x: Any, w: Any, *sums: Any) -> list[Any]:
            added = self.products(phase, x, w, list(sums))
            return [self.builder.add(x, self.number(4)), self.builder.add(w, step), *added]

        return self.loop(0, self.value("inner"), 1, channel, [start, weight, *sums])[2:]

    def products(self, phase: int, start: Any, weight: Any, sums: list[Any]) -> list[Any]:
        """Add the taps of a row phase, line by line of the sources: each number that is read goes to all targets it meets."""
        high, wide = self.kind.tile
        sums = list(sums)
        taps = [tap for column in self.taps.phases[phase] for tap in column]
        lines = {r * self.down + tap.row for tap in taps for r in range(high)}
        for line in sorted(lines):
            for t in range(self.kind.per):
                met: dict[int, list[tuple[Any, int]]] = {}
                for r in range(high):
                    for tap in taps:
                        if r * self.down + tap.row == line:
                            for i in range(self.kind.together):
                                w = self.load(self.at(weight, self.place(tap, t) + i * self.width))
                                for c in range(wide):
                                    k = i * self.tile_sums + (r * self.column_phases + tap.target_phase) * wide + c
                                    met.setdefault(c * self.across + self.column(tap), []).append((w, k))
                for column in sorted(met):
                    x = self.read(self.source(start, line, column), t)
                    for w, k in met[column]:
                        sums[k] = self.fma(w, x, sums[k])
                sums = self.ordered(sums)
        return sums

    def write(self, phase: int, sums: list[Any], row: Any, column: Any, target: Any) -> None:
        """Write a tile's sums where the result has rows and columns for them."""
        value, builder = self.value, self.builder
        high, wide = self.kind.tile
        steps, phases = len(self.taps.phases), self.column_phases
        for r in range(high):
            line = self.add(self.mul(self.add(row, r), steps), phase)

            def columns(r: int = r, line: Any = line) -> None:
                for p in range(phases):
                    for c in range(wide):
                        at = self.add(self.mul(self.add(column, c), phases), p)
                        pixel = self.add(self.mul(line, value("target_width")), at)
                        place = self.at(target, self.mul(pixel, value("target_channels")))
                        total = sums[(r * phases + p) * wide + c]
                        if p:
                            with builder.if_then(self.less(at, value("target_width"))):
                                self.store(total, place)
                        else:
                            self.store(total, place)

            if phase:
                with builder.if_then(self.less(line, value("target_height"))):
                    columns()
            else:
                columns()


class InPlace(Values):
    """Of images as they lie: a table has the address of each pixel that a tile of targets reads, or that of zeros where there is
    none."""

    def prepare(self) -> None:
        high, wide = self.kind.tile
        self.lines = (high - 1) * self.down + self.taps.span[0]
        taps = [tap for phase in self.taps.phases for some in phase for tap in some]
        columns = (wide - 1) * self.across + max(map(self.column, taps)) + 1
        self.pitch = columns + -columns % ADDRESSES
        place = self.builder.alloca(self.ir.ArrayType(self.i64, self.lines * self.pitch))
        place.align = 64
        self.table = self.builder.ptrtoint(place, self.i64)
        self.step = self.builder.shl(self.value("source_channels"), self.number(2))  # from pixel to pixel

    def block(self, index: Any) -> None:
        value, (high, wide) = self.value, self.kind.tile
        n, strip = self.divided(index, value("strips")), self.rest(index, value("strips"))
        row = self.smaller(self.mul(strip, high), self.sub(value("rows"), high))
        size = self.mul(value("target_height"), value("target_width"), value("target_channels"))
        target = self.at(value("target"), self.mul(n, size))

        def some_columns(b: Any) -> None:
            b = self.smaller(b, self.sub(value("columns"), wide))
            self.find(self.mul(n, value("height"), value("width")), self.sub(self.mul(row, self.down), value("top")),
                      self.sub(self.mul(b, self.across), value("left")))  # fmt: skip

            def vector(v: Any) -> None:
                # The last vector overlaps the one before.
                channel = self.smaller(self.mul(v, self.width), self.sub(value("target_channels"), self.width))
                self.below = self.lines_below(n, row, b, channel)
                self.targets(v, self.builder.shl(channel, self.number(2)), row, b, target, channel)
                for address in self.below:
                    self.prefetch(address)

            self.loop(0, value("vectors"), 1, vector)

        self.loop(0, value("columns"), wide, some_columns)

    def lines_below(self, n: Any, row: Any, column: Any, channel: Any) -> Iterator[Any]:
        """The addresses of what the tile below reads beside what this one does, of a vector of channels."""
        value, (high, wide) = self.value, self.kind.tile
        line = self.add(self.mul(n, value("height")), self.mul(row, self.down), self.sub(self.lines, value("top")))
        pixel = self.add(self.mul(line, value("width")), self.sub(self.mul(column, self.across), value("left")))
        first = self.add(value("source"), self.mul(pixel, self.step), self.mul(channel, 4))
        for _ in range(high * self.down):
            at = first
            for _ in range(wide * self.across):
                yield at
                at = self.builder.add(at, self.step)
            first = self.builder.add(first, self.mul(value("width"), self.step))

    def source(self, start: Any, line: int, column: int) -> Any:
        for address in itertools.islice(self.below, 1):  # between the products, as not many can be on their way at once
            self.prefetch(address)
        entry = self.add(self.table, 8 * (line * self.pitch + column))
        return self.builder.add(self.builder.load(self.pointer(entry, self.i64)), start)

    def find(self, sample: Any, top: Any, left: Any) -> None:
        """Fill the table for a tile of targets, whose first one reads from (top, left) of the image on.

        sample: pixels before the image.
        """
        builder, value = self.builder, self.value
        kind, order = self.ir.VectorType(self.i64, ADDRESSES), list(range(ADDRESSES))

        def same(number: Any) -> Any:
            undefined, zeros = self.ir.Constant(kind, self.ir.Undefined), [0] * ADDRESSES
            single = builder.insert_element(undefined, self.number(number), self.i32(0))
            order = self.ir.Constant(self.ir.VectorType(self.i32, ADDRESSES), zeros)
            return builder.shuffle_vector(single, undefined, order)

        none, width = same(value("zeros")), same(value("width"))
        pieces = []
        for k in range(0, self.pitch, ADDRESSES):
            columns = builder.add(same(self.add(left, k)), self.ir.Constant(kind, order))
            steps = builder.mul(columns, same(self.step))
            pieces.append((builder.icmp_unsigned("<", columns, width), steps))

        def line(i: Any) -> None:
            here = self.add(top, i)
            inside = builder.icmp_unsigned("<", here, value("height"))
            first = self.mul(self.add(sample, self.mul(here, value("width"))), self.step)
            start, place = same(self.add(value("source"), first)), self.add(self.table, self.mul(i, 8 * self.pitch))
            for k, (valid, steps) in enumerate(pieces):
                addresses = builder.select(inside, builder.select(valid, builder.add(start, steps), none), none)
                self.store(addresses, self.add(place, 8 * ADDRESSES * k))

        self.loop(0, self.lines, 1, line)


class Buffered(Values):
    """Of images whose chunks of channels are copied to the buffer: the numbers of a group, which all of its targets meet, lie
    close together there."""

    def block(self, index: Any) -> None:
        value, (high, wide) = self.value, self.kind.tile
        chunk, rest = self.rest(index, value("chunks")), self.divided(index, value("chunks"))
        strip, n = self.rest(rest, value("strips")), self.divided(rest, value("strips"))
        self.chunk(chunk)
        row = self.smaller(self.mul(strip, value("tile_rows")), self.sub(value("rows"), value("tile_rows")))
        plane = self.mul(n, value("height"), value("width"), value("source_channels"))
        rows = self.add(self.mul(self.sub(value("tile_rows"), 1), self.down), self.taps.span[0])
        sample = self.at(value("source"), self.add(plane, self.first_source))
        self.fill(sample, self.sub(self.mul(row, self.down), value("top")), rows)
        size = self.mul(value("target_height"), value("target_width"), value("target_channels"))
        target = self.at(value("target"), self.mul(n, size))

        def some_rows(r: Any) -> None:
            r = self.smaller(r, self.sub(value("tile_rows"), high)) if high > 1 else r

            def some_columns(b: Any) -> None:
                b = self.smaller(b, self.sub(value("columns"), wide))
                at = self.add(self.mul(r, self.down, value("line")), self.mul(b, self.across * self.kind.pixel))

                def vector(v: Any) -> None:
                    start = self.at(self.at(self.buffer, at), self.begins(v))
                    channel = self.add(self.first_target, self.mul(v, self.width))
                    of_all = self.divided(channel, self.width)
                    self.targets(of_all, start, self.add(row, r), b, target, channel)

                self.loop(0, self.divided(self.target_here, self.width), self.kind.together, vector)

            self.loop(0, value("columns"), wide, some_columns)

        self.loop(0, value("tile_rows"), high, some_rows)

    def source(self, start: Any, line: int, column: int) -> Any:
        base = self.at(start, self.mul(self.value("line"), line)) if line else start
        return self.at(base, column * self.kind.pixel)
