"""The instructions of `_planes` for results and input gradients."""

from __future__ import annotations

from typing import Any

from tdt._kernels._planes_emit import Emitter

CHANNELS = 16  # whose products are one sum: a sum of very many terms, one after another, is less accurate


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
        if self.kind.in_place:  # a line outside of the plane
            taps = [tap for found in self.taps.phases for column in found for tap in column]
            self.zeros(self.buffer, 0, max(at for tap in taps for at in self._places(tap)) + self.width)

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
        planes = self.mul(value("inner"), value("height"), value("width"))
        self.prefetch_few(self.at(source, planes), planes)  # of the next group, while this one is computed
        if self.kind.in_place:
            self._in_place(source, weight, bias, target, size)
            return
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
            weights, biases, targets = self._of_channels(m, weight, bias, target, size)

            def some_rows(r: Any) -> None:
                r = self.smaller(r, self.sub(value("tile_rows"), rows)) if rows > 1 else r

                def some_columns(b: Any) -> None:
                    q = self.mul(self.sub(self.sub(blocks, 1), b), wide)
                    start = self.at(self.buffer, self.add(self.mul(r, self.down, self.line_step), q))
                    for phase in range(self.target_rows):
                        sums = self.sums(phase, start, weights, biases)
                        self.store_targets(phase, sums, self.add(row, r), self.add(column, q), targets, size)

                self.loop(0, blocks, 1, some_columns)

            self.loop(0, value("tile_rows"), rows, some_rows)

        self.loop(0, value("outer"), channels, some_channels)

    def _of_channels(self, m: Any, weight: Any, bias: Any, target: Any, size: Any) -> tuple[list, list, list]:
        """The addresses of weights, biases and targets of a tile's channels from number m on."""
        channels, last = self.kind.tile[0], self.sub(self.value("outer"), 1)
        index = [self.smaller(self.add(m, k), last) for k in range(channels)] if channels > 1 else [m]
        weights = [self.at(weight, self.mul(i, self.value("outer_step"))) for i in index]
        return weights, [self.at(bias, i) for i in index], [self.at(target, self.mul(i, size)) for i in index]

    def _in_place(self, source: Any, weight: Any, bias: Any, target: Any, size: Any) -> None:
        """All targets of a group from its planes, whose lines are read where they lie."""
        value = self.value
        _, rows, vectors = self.kind.tile
        wide = vectors * self.width
        blocks = self.pieces(value("columns"), wide)

        def some_channels(m: Any) -> None:
            weights, biases, targets = self._of_channels(m, weight, bias, target, size)

            def some_columns(b: Any) -> None:  # from the last to the first, as in `block`
                column = self.mul(self.sub(self.sub(blocks, 1), b), wide)
                first = self.sub(self.mul(column, self.across), value("left"))
                self.masks = self._masks(first)

                def some_rows(row: Any) -> None:
                    row = self.smaller(row, self.sub(value("rows"), rows)) if rows > 1 else row
                    self.lines = self._lines(source, row, first)
                    for phase in range(self.target_rows):
                        sums = self.sums(phase, None, weights, biases)
                        self.store_targets(phase, sums, row, column, targets, size)

                self.loop(0, value("rows"), rows, some_rows)

            self.loop(0, blocks, 1, some_columns)

        self.loop(0, value("outer"), self.kind.tile[0], some_channels)

    def _masks(self, first: Any) -> dict[int, Any]:
        """Which elements of the vectors that begin so far behind number `first` of a line are inside of it."""
        every = {at for found in self.taps.phases for column in found for tap in column for at in self._places(tap)}
        return {
            at: self.between(self.sub(-at, first), self.sub(self.sub(self.value("width"), at), first)) for at in every
        }

    def _places(self, tap: Any) -> list[int]:
        """Where the vectors begin that a tap reads for all targets in a row of a tile, from its first source on."""
        return [tap.column * self.across + tap.phase + k * self.width for k in range(self.across * self.kind.tile[2])]

    def _lines(self, source: Any, row: Any, first: Any) -> list[Any]:
        """The addresses of number `first` of each line that a tile reads, from a row of targets on; sets the steps to the next
        plane's."""
        lines, self.line_steps = [], []
        plane = self.mul(self.value("height"), self.value("width"), 4)
        for k in range((self.kind.tile[1] - 1) * self.down + self.taps.span[0]):
            here = self.add(self.sub(self.mul(row, self.down), self.value("top")), k)
            line = self.at(source, self.add(self.mul(here, self.value("width")), first))
            inside = self.builder.icmp_unsigned("<", here, self.value("height"))
            lines.append(self.builder.select(inside, line, self.buffer))
            self.line_steps.append(self.builder.select(inside, plane, self.number(0)))
        return lines

    def sums(self, phase: int, start: Any, weights: list[Any], biases: list[Any]) -> list[Any]:
        """Sums of a tile: for each channel, row, column phase and vector."""
        channels, rows, vectors = self.kind.tile
        begin = [self.splat(bias) for bias in biases]
        sums = [begin[m] for m in range(channels) for _ in range(rows * self.phases * vectors)]
        if self.kind.single:
            return self.products(phase, start, weights, sums)
        inner_step = self.builder.shl(self.value("inner_step"), self.number(2))
        plane = self.builder.shl(self.plane_step, self.number(2))
        first = self.lines if self.kind.in_place else [start]
        steps = self.line_steps if self.kind.in_place else [plane]
        places = len(first)

        def one(_: Any, step: Any, *carried: Any) -> list[Any]:
            self.lines, values = list(carried[:places]), list(carried[places:])
            here = [self.builder.add(weight, step) for weight in weights]
            values = self.products(phase, carried[0], here, values)
            following = map(self.builder.add, carried[:places], steps)
            return [self.builder.add(step, inner_step), *following, *values]

        def part(first: Any, *carried: Any) -> list[Any]:
            state, totals = carried[: -len(sums)], carried[-len(sums) :]
            count = self.smaller(self.sub(self.value("inner"), first), CHANNELS)
            state = self.loop(0, count, 1, one, list(state))
            values = state[-len(sums) :]
            return [*state[: -len(sums)], *zeros, *map(self.builder.fadd, totals, values)]

        zeros = [self.zero] * len(sums)
        self_lines = self.lines if self.kind.in_place else None
        results = self.loop(0, self.value("inner"), CHANNELS, part, [self.number(0), *first, *sums, *zeros])
        if self.kind.in_place:
            self.lines = self_lines
        return results[-len(sums) :]

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
        """The vectors that a tap reads in a line of the buffer, or of the source."""
        if self.kind.in_place:
            x = [self.load(self.at(self.lines[line], at), self.masks[at]) for at in self._places(tap)]
            if self.across == 1:
                return x
            even = list(range(0, 2 * self.width, 2))
            return [self.shuffled(a, b, even) for a, b in zip(x[::2], x[1::2], strict=True)]
        base = self.at(start, self.mul(self.line_step, line)) if line else start
        base = self.at(base, self.mul(self.value("pitch"), tap.phase)) if tap.phase else base
        return [self.load(self.at(base, tap.column + v * self.width)) for v in range(self.kind.tile[2])]

    def store_targets(self, phase: int, sums: list[Any], row: Any, column: Any, targets: list[Any], size: Any) -> None:
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
                        self.store(x, self.at(targets[m], self.add(place, k * self.width)))

                def part() -> None:
                    masks = [self.mask(self.sub(left, k * self.width)) for k in range(self.phases * vectors)]
                    for m, k, x in values:
                        self.store(x, self.at(targets[m], self.add(place, k * self.width)), masks[k])

                self.either(self.builder.icmp_signed("<=", self.add(place, wide), size), whole, part)

            if self.target_rows == 1:
                write()
            else:
                with self.builder.if_then(self.less(line, self.value("target_height"))):
                    write()
