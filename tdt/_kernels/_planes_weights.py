"""The instructions of `_planes` for weight gradients."""

from __future__ import annotations

from typing import Any

from tdt._kernels._plane_taps import SUMS, most_sums
from tdt._kernels._planes_emit import Emitter


class Weights(Emitter):
    """Weight gradient."""

    def prepare(self) -> None:
        rows, columns = self.kind.kernel
        self.cells = rows * columns
        self.place = self.local(SUMS)
        # Rows of the kernel whose sums are in registers at once.
        most = most_sums(self.width)
        each = max(1, min(rows, most // (columns * self.kind.tile[0])))
        every = [tap for column in self.taps.phases[0] for tap in column]
        self.passes = [
            [tap for tap in every if low <= tap.number // columns < low + each] for low in range(0, rows, each)
        ]
        if columns > most:  # too many for one row: cut
            self.passes = [some[i : i + most] for some in self.passes for i in range(0, len(some), most)]

    def block(self, index: Any) -> None:
        value = self.value
        every, parts = self.mul(value("groups"), value("inner")), self.builder.udiv(value("inner"), value("some"))
        each = self.mul(value("groups"), parts)
        part, index = self.divided(index, each), self.rest(index, each)
        group, k = self.divided(index, parts), self.mul(self.rest(index, parts), value("some"))
        begin = self.mul(part, value("part"))
        end = self.smaller(self.add(begin, value("part")), value("samples"))
        plane = self.mul(value("height"), value("width"))
        size = self.mul(value("target_height"), value("target_width"))
        every_target = self.mul(value("groups"), value("outer"), size)
        line_step = self.mul(value("pitch"), self.across)
        count = self.mul(value("outer"), self.cells * self.width)
        self.zeros(self.place, 0, self.mul(value("some"), count))
        source = self.at(value("source"), self.mul(self.add(self.mul(group, value("inner")), k), plane))

        def samples(n: Any) -> None:
            here = self.smaller(value("together"), self.sub(end, n))

            def strip(row: Any) -> None:
                rows = self.smaller(value("tile_rows"), self.sub(value("target_height"), row))
                filled = self.add(self.mul(self.sub(rows, 1), self.down), self.taps.span[0])
                x_ahead, self.y_ahead = self.to_next_strip(row, rows, (every, plane), every_target)
                step = self.mul(filled, line_step)

                def tile(column: Any) -> None:
                    columns = self.smaller(value("tile_columns"), self.sub(value("target_width"), column))
                    first = self.add(self.mul(n, value("groups"), value("outer")), self.mul(group, value("outer")))
                    y = self.at(
                        value("gradient"), self.add(self.mul(first, size), self.mul(row, value("target_width")), column)
                    )

                    def channel(c: Any) -> None:
                        def copy(i: Any) -> None:
                            image = self.at(source, self.mul(self.add(self.mul(self.add(n, i), every), c), plane))
                            self.fill(image, self.at(self.buffer, self.mul(i, step)), row, column, filled, x_ahead)

                        self.loop(0, here, 1, copy)
                        place = self.at(self.place, self.mul(c, count))
                        last = self.builder.icmp_signed("==", self.add(c, value("far")), value("some"))
                        whole = self.mul(rows, value("target_width"), 4)
                        self.y_bytes = self.builder.select(last, whole, self.number(0))
                        self.tile(y, size, place, here, rows, columns, step, line_step)

                    self.loop(0, value("some"), 1, channel)

                self.loop(0, value("target_width"), value("tile_columns"), tile)

            self.loop(0, value("target_height"), value("tile_rows"), strip)

        self.loop(begin, end, value("together"), samples)
        first = self.mul(self.add(self.mul(part, value("groups")), group), value("outer"), value("inner"))
        base = self.at(value("target"), self.mul(self.add(first, k), self.cells))
        self.add_up(base, count)

    def to_next_strip(self, row: Any, rows: Any, image: tuple[Any, Any], target: Any) -> list[Any]:
        """Bytes from the numbers of a strip of `rows` to those of the next one, of these samples or of those that follow.

        image, target: factors of the elements of a sample.
        """
        value = self.value
        below = self.less(self.add(row, rows), value("target_height"))
        samples = self.mul(value("together"), *image), self.mul(value("together"), target)
        wide = self.mul(self.down, value("width")), value("target_width")
        return [
            self.builder.select(below, self.mul(rows, w, 4), self.mul(self.sub(s, self.mul(row, w)), 4))
            for s, w in zip(samples, wide, strict=True)
        ]

    def add_up(self, base: Any, count: Any) -> None:
        """Write the elements at `base`: the sums of those on the stack, which has `count` numbers for each channel."""
        value = self.value

        def total(m: Any) -> None:
            def channel(c: Any) -> None:
                target = self.at(base, self.mul(self.add(self.mul(m, value("inner")), c), self.cells))
                sums = self.at(self.place, self.add(self.mul(c, count), self.mul(m, self.cells * self.width)))

                def cell(t: Any) -> None:
                    single = self.added(self.load(self.at(sums, self.mul(t, self.width))))
                    self.builder.store(single, self.pointer(self.at(target, t), self.f32))

                self.loop(0, self.cells, 1, cell)

            self.loop(0, value("some"), 1, channel)

        self.loop(0, value("outer"), 1, total)

    def added(self, vector: Any) -> Any:
        """The sum of a vector's elements, by halves."""
        half = self.width
        while half > 1:
            half //= 2
            order = [(i + half) % self.width for i in range(self.width)]
            vector = self.builder.fadd(vector, self.shuffled(vector, vector, order))
        return self.builder.extract_element(vector, self.i32(0))

    def tile(self, y: Any, size: Any, place: Any, samples: Any, rows: Any, columns: Any, step: Any,
             line_step: Any) -> None:  # fmt: skip
        """Add the sums over a tile to those on the stack, at `place`."""
        channels = self.kind.tile[0]
        extent = samples, rows, columns, step, line_step

        def some_channels(m: Any) -> None:
            last = self.sub(self.value("outer"), 1)
            index = [self.smaller(self.add(m, k), last) for k in range(channels)] if channels > 1 else [m]
            lines = [self.at(y, self.mul(i, size)) for i in index]

            def following(at: Any) -> None:
                for line in lines:
                    self.prefetch(self.add(line, self.y_ahead, at))

            self.loop(0, self.y_bytes, 64, following)
            for some in self.passes:
                sums = self.sums(some, lines, self.mul(self.value("groups"), self.value("outer"), size), *extent)
                places = [
                    self.at(place, self.mul(self.add(self.mul(i, self.cells), tap.number), self.width))
                    for i in index
                    for tap in some
                ]
                old = [self.load(place) for place in places]  # all before any is written: repeated channels are equal
                for before, new, there in zip(old, sums, places, strict=True):
                    self.store(self.builder.fadd(before, new), there)

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
                mask = self.mask(self.sub(columns, column))
                right = [self.load(self.at(line, self.add(y, column)), mask) for line in own]
                sums = self.products(self.at(image, self.add(x, column)), right, taps, sums)
                following = self.add(column, self.width)
                ends = self.builder.icmp_signed(">=", following, columns)
                zero = self.number(0)
                following = self.builder.select(ends, zero, following)
                x = self.add(x, self.builder.select(ends, x_step, zero))
                y = self.add(y, self.builder.select(ends, y_step, zero))
                return [following, x, y, *sums]

            return self.loop(0, steps, 1, one, [self.number(0), self.number(0), self.number(0), *sums])[3:]

        return self.loop(0, samples, 1, one_sample, [self.zero] * (len(lines) * len(taps)))

    def products(self, x: Any, y: list[Any], taps: list, sums: Any) -> list[Any]:
        """Add a vector of columns."""
        sums = list(sums)
        for t, tap in enumerate(taps):
            base = self.add(self.mul(self.value("pitch"), tap.row * self.across + tap.phase), tap.column)
            window = self.load(self.at(x, base))
            for m, line in enumerate(y):
                k = m * len(taps) + t
                sums[k] = self.fma(window, line, sums[k])
        return self.ordered(sums)
