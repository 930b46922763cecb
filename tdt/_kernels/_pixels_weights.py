"""The instructions of `_pixels`: weight gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tdt._kernels._pixels_emit import Pixels
from tdt._kernels._plane_taps import PIXEL_BUFFER, PIXEL_SUMS, TOGETHER, Tap

LARGE_PLANES = 1 << 16  # floats of a chunk of planes that do not stay in a level-two cache until they are read


class Weights(Pixels):
    """Weight gradient. For each number t of a channel in its group there is a vector: of the targets that meet channel t; but of
    "mixed", of the channels, each with the target t places on in its group."""

    def prepare(self) -> None:
        rows, columns = self.kind.kernel
        together = self.kind.per if self.kind.form == "spread" else 1
        every = [tap for column in self.taps.phases[0] for tap in column]
        each = max(1, PIXEL_SUMS // (columns * together))
        passes = [
            sorted(tap for tap in every if low <= tap.number // columns < low + each) for low in range(0, rows, each)
        ]
        most = max(1, PIXEL_SUMS // together)
        self.passes = [some[i : i + most] for some in passes for i in range(0, len(some), most)]
        self.gradient = self.local(PIXEL_BUFFER)
        self.line_pairs = self.pieces(self.value("target_width"), TOGETHER)

    def block(self, index: Any) -> None:
        value = self.value
        self.chunk(self.rest(index, value("chunks")))
        begin = self.mul(self.divided(index, value("chunks")), value("part"))
        end = self.smaller(self.add(begin, value("part")), value("samples"))
        target = self.at(value("target"), self.mul(index, value("inner"), self.cells * self.kind.out))

        def sample(n: Any) -> None:
            size, target_size = (self.mul(value(f"{name}height"), value(f"{name}width")) for name in ("", "target_"))
            source = self.of_image(value("source"), self.mul(n, size, value("source_channels")))
            gradient = self.of_image(value("gradient"), self.mul(n, target_size, value("target_channels")))
            source = self.of_image(source, self.mul(self.first_source, size) if self.kind.planes else self.first_source)
            first = self.mul(self.first_target, target_size) if self.kind.planes else self.first_target
            gradient = self.of_image(gradient, first)

            def strip(row: Any) -> None:
                if self.kind.planes:
                    self.load_ahead(n, begin, end, row, source, gradient)
                rows = self.smaller(value("tile_rows"), self.sub(value("target_height"), row))
                filled = self.add(self.mul(self.sub(rows, 1), self.down), self.taps.span[0])
                first = self.repeated(row)
                self.fill(source, self.sub(self.mul(row, self.down), value("top")), filled, first)
                pixels = self.mul(row, value("target_width"))
                y = self.of_image(gradient, pixels if self.kind.planes else self.mul(pixels, value("target_channels")))
                self.fill_gradient(y, rows)
                self.loop(0, self.pieces(self.target_here, self.width), 1, lambda v: self.add_strip(v, rows, target))

            self.loop(0, value("target_height"), value("tile_rows"), strip)

        self.loop(begin, end, 1, sample)

    def load_ahead(self, n: Any, begin: Any, end: Any, row: Any, source: Any, gradient: Any) -> None:
        """Load what a strip of the next sample, or chunk, reads of small planes, and the next strip of large ones.

        begin, end: of the samples. source, gradient: the planes of sample n.
        """
        value, strips = self.value, self.pieces(self.value("target_height"), self.value("tile_rows"))
        below = self.add(row, value("tile_rows"))
        line = self.sub(self.add(self.mul(self.sub(below, 1), self.down), self.taps.span[0]), value("top"))
        rows = self.mul(value("tile_rows"), self.down)
        for planes, every, many, height, width, behind, lines in (
            (source, "source_channels", self.here, "height", "width", line, rows),
            (gradient, "target_channels", self.target_here, "target_height", "target_width", below, value("tile_rows")),
        ):
            size = self.mul(value(height), value(width))
            chunk, sample = self.mul(many, size), self.mul(value(every), size)

            def next_planes(planes: Any = planes, chunk: Any = chunk, sample: Any = sample) -> None:
                share = self.pieces(chunk, strips)
                back = self.sub(chunk, self.mul(self.sub(n, begin), sample))
                step = self.builder.select(self.less(self.add(n, 1), end), sample, back)
                first = self.add(step, self.mul(self.divided(row, value("tile_rows")), share))
                self.prefetch_few(self.of_image(planes, first), share)

            def next_lines(planes: Any = planes, many: Any = many, size: Any = size, behind: Any = behind,
                           lines: Any = lines, width: str = width) -> None:  # fmt: skip
                first, count = self.of_image(planes, self.mul(behind, value(width))), self.mul(lines, value(width))
                self.loop(0, many, 1, lambda c: self.prefetch_few(self.of_image(first, self.mul(c, size)), count))

            self.either(self.less(chunk, LARGE_PLANES), next_planes, next_lines)

    def repeated(self, row: Any) -> Any:
        """Move the lines of the buffer that a strip reads like the one before it, and count them."""
        value, both = self.value, max(0, self.taps.span[0] - self.down)
        count = self.builder.select(self.less(0, row), self.number(both), self.number(0))
        behind = self.at(self.buffer, self.mul(value("tile_rows"), self.down, value("line")))

        def moved(j: Any) -> None:
            self.store(self.load(self.at(behind, j)), self.at(self.buffer, j))

        self.loop(0, self.mul(count, value("line")), self.width, moved)
        return count

    def fill_gradient(self, y: Any, rows: Any) -> None:
        """Copy a chunk of the gradient's channels, so that they lie close to each other; zeros where a line ends."""
        value, out = self.value, self.kind.out
        columns = value("target_width")
        size = self.mul(value("target_height"), columns)

        def row(i: Any, at: Any) -> list[Any]:
            line = self.at(self.gradient, self.mul(i, self.line_pairs, TOGETHER * out))
            self.ahead = self.mul(value("target_channels"), columns, value("tile_rows"), 4)
            self.move(at, size, value("target_channels"), columns, line, out, self.target_here)
            self.zeros(line, self.mul(columns, out), self.mul(self.line_pairs, TOGETHER * out))
            return [self.of_image(at, columns if self.kind.planes else self.mul(columns, value("target_channels")))]

        self.loop(0, rows, 1, row, [y])

    def add_strip(self, v: Any, rows: Any, target: Any) -> None:
        """Add the sums over a strip for a vector of targets, and each of the sources they meet."""
        channel, value = self.mul(v, self.width), self.value
        start, y, place = (
            self.at(self.buffer, self.begins(v)),
            self.at(self.gradient, channel),
            self.at(target, channel),
        )

        def some(row: Any) -> None:
            x = self.at(start, self.mul(row, self.down, value("line")))
            right = self.at(y, self.mul(row, self.line_pairs, TOGETHER * self.kind.out))
            self.add_chain(x, right, place, self.smaller(value("chain"), self.sub(rows, row)))

        self.loop(0, rows, value("chain"), some)

    def add_chain(self, start: Any, y: Any, place: Any, rows: Any) -> None:
        """Add the sums over some rows."""
        per = self.kind.per
        if self.kind.form == "spread":
            step = self.number(self.cells * self.kind.out)

            def some(t: Any) -> None:
                self.add_sums(self.at(start, t), y, self.at(place, self.mul(t, step)), rows, list(range(per)))

            self.loop(0, self.value("inner"), per, some)
        else:
            for t in range(per):
                self.add_sums(start, y, place, rows, [t])

    def add_sums(self, start: Any, y: Any, place: Any, rows: Any, channels: list[int]) -> None:
        """For some channels of the group."""
        for taps in self.passes:
            sums = self.sums(start, y, rows, taps, channels)
            places = [self.at(place, self.place(tap, t)) for t in channels for tap in taps]
            for at, total in zip(places, sums, strict=True):
                self.store(self.builder.fadd(self.load(at), total), at)

    def sums(self, start: Any, y: Any, rows: Any, taps: list[Tap], channels: list[int]) -> list[Any]:
        """Sums over a strip for some taps."""
        value, pixel = self.value, self.kind.pixel
        along = TOGETHER * self.across * pixel
        # From behind the last targets of a line to the first of the next one.
        behind = self.sub(self.mul(value("line"), self.down), self.mul(self.sub(self.line_pairs, 1), along))
        lines = sorted({tap.row for tap in taps})

        spread = self.kind.form == "spread"

        def one(_: Any, pair: Any, x: Any, y: Any, *sums: Any) -> list[Any]:
            right, added = [self.load(self.at(y, u * self.kind.out)) for u in range(TOGETHER)], list(sums)
            if not spread:
                right = [self.rotated(value, channels[0]) for value in right]
            for row in lines:
                line = self.at(x, self.mul(value("line"), row)) if row else x
                for k, t in enumerate(channels):
                    met: dict[int, list[tuple[int, int]]] = {}
                    for i, tap in enumerate(taps):
                        for u in range(TOGETHER if tap.row == row else 0):
                            met.setdefault(u * self.across + self.column(tap), []).append((u, k * len(taps) + i))
                    for column in sorted(met):
                        place = self.at(line, column * pixel)
                        source = self.read(place, t) if spread else self.load(place)
                        for u, i in met[column]:
                            added[i] = self.fma(source, right[u], added[i])
            following = self.add(pair, 1)
            ends = self.builder.icmp_signed(">=", following, self.line_pairs)
            x = self.at(x, self.builder.select(ends, behind, self.number(along)))
            following = self.builder.select(ends, self.number(0), following)
            return [following, x, self.at(y, TOGETHER * self.kind.out), *added]

        zero = [self.zero] * (len(channels) * len(taps))
        return self.loop(0, self.mul(rows, self.line_pairs), 1, one, [self.number(0), start, y, *zero])[3:]


class WeightsInPlace(Weights):
    """Weight gradient of "own" channels, of images as they lie: row by row of the gradient, without products with zeros around an
    image, as the columns at both ends have code of their own."""

    def prepare(self) -> None:
        value = self.value
        self.every = sorted(tap for column in self.taps.phases[0] for tap in column)
        self.step = self.builder.shl(value("channels"), self.number(2))  # from pixel to pixel
        self.left, self.right = (-(-zeros // self.across) for zeros in self.kind.padding)
        self.inner = self.sub(value("target_width"), self.left + self.right)

    def block(self, index: Any) -> None:
        value = self.value
        piece = self.divided(index, value("chunks"))
        begin = self.mul(piece, value("part"))
        end = self.smaller(self.add(begin, value("part")), value("samples"))
        first = self.mul(self.rest(index, value("chunks")), value("together"))
        last = self.smaller(self.add(first, value("together")), value("vectors"))
        target = self.at(value("target"), self.mul(piece, value("channels"), self.cells))

        def sample(n: Any) -> None:
            image, gradient = (
                self.add(value(name), self.mul(n, value(f"{size}height"), value(f"{size}width"), self.step))
                for name, size in (("source", ""), ("gradient", "target_"))
            )

            def strip(row: Any) -> None:
                stop = self.smaller(self.add(row, value("chain")), value("target_height"))

                def vector(v: Any) -> None:
                    # The last vector overlaps the one before, which has the first channels of both.
                    channel = self.smaller(self.mul(v, self.width), self.sub(value("channels"), self.width))
                    both = self.sub(self.mul(v, self.width), channel)
                    starts = [self.at(start, channel) for start in (image, gradient, target)]
                    self.add_rows(*starts, row, stop, both)

                self.loop(first, last, 1, vector)

            self.loop(0, value("target_height"), value("chain"), strip)

        self.loop(begin, end, 1, sample)

    def add_rows(self, image: Any, gradient: Any, place: Any, row: Any, stop: Any, both: Any) -> None:
        """Add the sums over some rows of a vector of channels, but for the first `both` of them."""
        zero = [self.zero] * self.cells
        sums = self.loop(row, stop, 1, lambda r, *sums: self.row(image, gradient, r, list(sums)), zero)
        places = [self.add(place, self.mul(tap.number, self.step)) for tap in self.every]

        def add(mask: Any = None) -> None:
            for at, total in zip(places, sums, strict=True):
                self.store(self.builder.fadd(self.load(at, mask), total), at, mask)

        self.either(self.less(0, both), lambda: add(self.between(both, self.number(self.width))), add)

    def row(self, image: Any, gradient: Any, row: Any, sums: list[Any]) -> list[Any]:
        """The sums with the products of a row of the gradient: for all taps at once, or line by line where some are outside."""
        value, step = self.value, self.step
        lines, inside = {}, {}
        for line in sorted({tap.row for tap in self.every}):
            here = self.sub(self.add(self.mul(row, self.down), line), value("top"))
            pixel = self.sub(self.mul(here, value("width")), self.kind.padding[0])
            lines[line] = self.add(image, self.mul(pixel, step))
            inside[line] = self.builder.icmp_unsigned("<", here, value("height"))
        y = self.add(gradient, self.mul(row, value("target_width"), step))

        def line_by_line() -> list[Any]:
            found = []
            for line, start in lines.items():
                some, before = zip(
                    *(each for each in zip(self.every, sums, strict=True) if each[0].row == line), strict=True
                )

                def add(line: int = line, start: Any = start, some: tuple = some, before: tuple = before) -> list[Any]:
                    return self.columns({line: start}, y, some, before)

                found += self.either(inside[line], add, lambda before=before: before)
            return found

        whole = functools.reduce(self.builder.and_, inside.values())
        return self.either(whole, lambda: self.columns(lines, y, self.every, sums), line_by_line)

    def columns(self, lines: dict[int, Any], y: Any, taps: Sequence[Tap], sums: Sequence[Any]) -> list[Any]:
        """Add the products of a row of the gradient with some lines of the image, each at the address of its first column."""
        step, (before, behind) = self.step, self.kind.padding
        along, reach = self.mul(step, self.across), max(map(self.column, self.taps.phases[0][-1])) + 1
        ahead = self.mul(self.value("chain"), step)

        def some(count: int, low: int, high: int) -> Callable:
            """The products of `count` pixels, for taps of the columns from `low` on and below `high`."""

            def products(_: Any, x: Any, at: Any, *sums: Any) -> list[Any]:
                right = [self.load(self.add(at, self.mul(step, u))) for u in range(count)]
                if count > 1 and taps is self.every:
                    self.prefetch_below(self.add(lines[max(lines)], x), at, ahead)
                added = list(sums)
                for line, start in lines.items():
                    met: dict[int, list[tuple[int, int]]] = {}
                    for i, tap in enumerate(taps):
                        column = self.column(tap)
                        for u in range(count if tap.row == line and low <= column < high else 0):
                            met.setdefault(u * self.across + column, []).append((u, i))
                    first = self.add(start, x)
                    for column in sorted(met):
                        source = self.load(self.add(first, self.mul(step, column)))
                        for u, i in met[column]:
                            added[i] = self.fma(source, right[u], added[i])
                    added = self.ordered(added)
                return [self.add(x, self.mul(along, count)), self.add(at, self.mul(step, count)), *added]

            return products

        carried = [self.number(0), y, *sums]
        for c in range(self.left):
            carried = some(1, before - c * self.across, reach)(None, *carried)
        pairs = self.builder.and_(self.inner, self.number(-TOGETHER))
        carried = self.loop(0, pairs, TOGETHER, some(TOGETHER, 0, reach), carried)
        carried = self.loop(pairs, self.inner, 1, some(1, 0, reach), carried)
        for c in reversed(range(self.right)):
            carried = some(1, 0, reach - behind + c * self.across)(None, *carried)
        return carried[2:]

    def prefetch_below(self, x: Any, y: Any, ahead: Any) -> None:
        """Load what the next rows read beside what these pixels do into the caches."""
        value, step = self.value, self.step
        for u in range(TOGETHER):
            self.prefetch(self.add(y, self.mul(ahead, value("target_width")), self.mul(step, u)))
        first = self.add(x, self.mul(ahead, value("width"), self.down))
        for r in range(self.down):
            line = self.sub(first, self.mul(value("width"), step, r))
            for c in range(TOGETHER * self.across):
                self.prefetch(self.add(line, self.mul(step, c)))
