"""Machine code of Winograd's F(2×2, 3×3): the transforms on explicit vectors of channels, and the loops over tiles.

A tile is a 4 × 4 window of the padded image and a 2 × 2 piece of the result; windows of neighbouring tiles overlap by two.
With d a window, g a 3 × 3 kernel, y a piece of the result, and ⊙ the product of elements,

    y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A

for each pair of channels: summed over the input channels, ⊙ is a matrix product (tiles × in) (in × out) for each of the 16
places e of a window. The gradient of g is the adjoint: Gᵀ [Σ over tiles (Bᵀ d B) ⊙ (A y Aᵀ)] G.

Layouts: transformed images [e][tile][channel]; transformed weights, and gradients y, in panels of the register tile's
columns, [e][panel][in or tile][column]. A plane, of one e, is one cache line longer than its elements: else the 16 lines that
a transform reads or writes would all have the same place in a cache.
"""

from __future__ import annotations

from typing import Any

from tdt._kernels import _tile
from tdt._kernels._words import Word, WordAssembler

PLACES = 16  # elements of a window
PAD = 16  # elements between planes
PIECE = 16  # input channels of the weights that are, with a panel of output channels, one block of work
CELLS = 9  # of a kernel
GROUP = 8  # tiles whose transforms are one block of work in the weight gradient
DEPTH = 256  # channels or tiles that are summed at a time, so that a panel of them stays in a level-one cache

# down, across: how many tiles are in a column and in a row
IMAGE = ("x", "height", "width", "channels", "top", "left", "down", "across")
RESULT = ("y", "out_height", "out_width", "out_channels")
SCRATCH = ("slots", "slot_count", "scratch", "scratch_size")
TILE = ("tile", "rows", "cells", "tile_rows", "panel")  # the register tile: address, tables, shape
KERNELS = {
    "weights": (
        *SCRATCH, "w", "piece_step", "panel_step", "pack", "calls", "call_step", "line_step", "lines", "channel", "cell", "begin",
        "channels", "out_channels", "panel", "u", "u_plane",
    ),
    "forward": (
        *IMAGE, *RESULT, *SCRATCH, *TILE, "tiles", "block", "run", "u", "u_plane", "v_plane", "m_plane", "bias", "flags",
    ),
    "transform": (*IMAGE, *RESULT, *SCRATCH, "panel", "start", "tiles", "pitch", "v", "v_plane", "z", "z_plane"),
    "products": (*TILE, "tiles", "channels", "out_channels", "pitch", "v", "v_plane", "z", "z_plane", "s", "s_plane", "begins"),
    "gradient": (
        *SCRATCH, "s", "s_plane", "channels", "out_channels", "panel", "w", "turn", "calls", "call_step", "piece_step", "lines",
        "channel", "cell", "flags",
    ),
}  # fmt: skip


def module(width: int) -> Any:
    """The module of all kernels, for vectors of `width` floats."""
    code = Emitter("winograd", width)
    code.helpers()
    for name in KERNELS:
        first, last, values = code.kernel(name, KERNELS[name])
        getattr(code, name)(first, last, values)
        code.end()
    return code.module


class TileOfRuns(_tile.Emitter):
    """Writes a register tile ("rows") that sums each run of channels on its own, and adds up their sums.

    The transforms double the errors of long sums; sums of a few channels each make up for that.
    """

    def _sum_rows(self) -> list[Any]:
        single, builder = self.f32, self.builder
        a = [builder.add(self.values["a"], self.bytes_of(self.entry(self.values["rows"], i))) for i in self.index]
        right, *zeros = self._begin()
        memory = builder.alloca(self.vector, self.number(len(zeros)))
        totals = [builder.gep(memory, [self.number(k)]) for k in range(len(zeros))]
        for total in totals:
            builder.store(self.zero, total)

        def step(values: list[Any], rounds: int) -> list[Any]:
            offset, *state = values
            state = self.products(state, rounds, lambda r, u: self.at(builder.add(a[r], offset), 4 * u, single))
            return [builder.add(offset, self.number(4 * rounds)), *state]

        def run(values: list[Any]) -> list[Any]:
            table, b = values
            offset = self.bytes_of(builder.load(self.at(table, 0, self.i64)))
            _, b, *sums = self.unrolled(self.values["run"], [offset, b, *zeros], step)
            for total, value in zip(totals, sums, strict=True):
                builder.store(builder.fadd(builder.load(total), value), total)
            return [builder.add(table, self.number(8)), b]

        self.loop(self.values["count"], [self.values["cells"], right], run)
        return [builder.load(total) for total in totals]


class Emitter(WordAssembler):
    """Writes the functions and the kernels."""

    # Sums of vectors.

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b)

    def subtract(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b)

    def half(self, a: Any) -> Any:
        return self.builder.fmul(a, self.constant(0.5))

    def by_input(self, d: list[Any]) -> list[Any]:
        """Bᵀ d"""
        return [self.subtract(d[0], d[2]), self.add(d[1], d[2]), self.subtract(d[2], d[1]), self.subtract(d[1], d[3])]

    def by_output(self, m: list[Any]) -> list[Any]:
        """Aᵀ m"""
        return [
            self.add(self.add(m[0], m[1]), m[2]),
            self.subtract(self.subtract(m[1], m[2]), m[3]),
        ]

    def by_output_adjoint(self, y: list[Any]) -> list[Any]:
        """A y"""
        return [y[0], self.add(y[0], y[1]), self.subtract(y[0], y[1]), self.builder.fneg(y[1])]

    def by_weights(self, g: list[Any]) -> list[Any]:
        """G g"""
        ends = self.add(g[0], g[2])
        return [g[0], self.half(self.add(ends, g[1])), self.half(self.subtract(ends, g[1])), g[2]]

    def by_weights_adjoint(self, u: list[Any]) -> list[Any]:
        """Gᵀ u"""
        total, difference = self.half(self.add(u[1], u[2])), self.half(self.subtract(u[1], u[2]))
        return [self.add(u[0], total), difference, self.add(total, u[3])]

    # Functions on rows of channels: `size` is in bytes, a multiple of a vector's.

    def helpers(self) -> None:
        self._copy()
        self._zero()
        self._input_tile()
        self._input_window()
        self._output_tile()
        self._gradient_tile()

    def _copy(self) -> None:
        p = self.function("copy", ("source", "target", "size"))
        with self.loop(0, p["size"], 4 * self.width) as c:
            self.store(self.load(p["source"] + c), p["target"] + c)
        self.end()

    def _zero(self) -> None:
        p = self.function("zero", ("target", "size"))
        with self.loop(0, p["size"], 4 * self.width) as c:
            self.store(self.constant(0.0), p["target"] + c)
        self.end()

    def _input_tile(self) -> None:
        """Bᵀ d B of a window whose pixels are `row` and `column` bytes apart."""
        p = self.function("input_tile", ("source", "row", "column", "target", "plane", "size"))
        with self.loop(0, p["size"], 4 * self.width) as c:
            lines = [p["source"] + c + p["row"] * i for i in range(4)]
            pixel = [[line + p["column"] * j for j in range(4)] for line in lines]
            for i, (a, b) in enumerate(((0, 2), (1, 2), (2, 1), (1, 3))):
                # Two lines are loaded for each of Bᵀ d: with all of them at once, registers would not do.
                combine = self.add if i == 1 else self.subtract
                values = self.by_input([combine(self.load(pixel[a][j]), self.load(pixel[b][j])) for j in range(4)])
                for j, value in enumerate(values):
                    self.store(value, p["target"] + c + p["plane"] * (4 * i + j))
        self.end()

    def _input_window(self) -> None:
        """The transform of the window of tile number `tile`; pixels outside of the image are 0."""
        p = self.function("input_window", (*IMAGE, "tile", "patch", "target", "plane"))
        size = p["channels"] * 4
        n, i, j = self._position(p["tile"], p["down"], p["across"])
        top, left = i * 2 - p["top"], j * 2 - p["left"]
        image = p["x"] + n * p["height"] * p["width"] * size
        inside = self.both(top >= 0, left >= 0, p["height"] >= top + 4, p["width"] >= left + 4)
        with self.either(inside) as (then, otherwise):
            with then:
                source = image + (top * p["width"] + left) * size
                self.call("input_tile", source, p["width"] * size, size, p["target"], p["plane"], size)
            with otherwise:
                with self.loop(0, 4) as row, self.loop(0, 4) as column:
                    h, w = top + row, left + column
                    target = p["patch"] + (row * 4 + column) * size
                    inside = self.both(h >= 0, h < p["height"], w >= 0, w < p["width"])
                    with self.either(inside) as (there, outside):
                        with there:
                            self.call("copy", image + (h * p["width"] + w) * size, target, size)
                        with outside:
                            self.call("zero", target, size)
                self.call("input_tile", p["patch"], size * 4, size, p["target"], p["plane"], size)
        self.end()

    def _output_tile(self) -> None:
        """Aᵀ m A + bias of a tile, into its four pixels; into `flags` NaN, where one of them is not finite."""
        pixels = ("p00", "p01", "p10", "p11")
        p = self.function("output_tile", ("source", "plane", "bias", *pixels, "size", "flags"))
        with self.loop(0, p["size"], 4 * self.width) as c:
            columns = []
            for j in range(4):
                places = [p["source"] + c + p["plane"] * (4 * i + j) for i in range(4)]
                columns.append(self.by_output([self.load(place) for place in places]))
            bias = self.load(p["bias"] + c)
            results = [
                self.add(value, bias) for i in range(2) for value in self.by_output([columns[j][i] for j in range(4)])
            ]
            for pixel, value in zip(pixels, results, strict=True):
                self.store(value, p[pixel] + c)
            self._flag(results, p["flags"])
        self.end()

    def _flag(self, values: list[Any], flags: Word) -> None:
        """Let `flags` become NaN where one of the values is infinite or NaN, or their sum overflows."""
        total = values[0]
        for value in values[1:]:
            total = self.add(total, value)
        self.store(self.add(self.load(flags), self.builder.fmul(total, self.constant(0.0))), flags)

    def _gradient_tile(self) -> None:
        """A y Aᵀ of four pixels."""
        pixels = ("p00", "p01", "p10", "p11")
        p = self.function("gradient_tile", (*pixels, "target", "plane", "size"))
        with self.loop(0, p["size"], 4 * self.width) as c:
            values = [self.load(p[pixel] + c) for pixel in pixels]
            columns = [self.by_output_adjoint([values[j], values[2 + j]]) for j in range(2)]
            for i in range(4):
                for j, value in enumerate(self.by_output_adjoint([columns[0][i], columns[1][i]])):
                    self.store(value, p["target"] + c + p["plane"] * (4 * i + j))
        self.end()

    # Where a tile is.

    def _position(self, tile: Word, down: Word, across: Word) -> tuple[Word, Word, Word]:
        """The sample, the row and the column of a tile."""
        line = tile // across
        n = line // down
        return n, line - n * down, tile - line * across

    def _pixels(self, p: dict[str, Word], tile: Word, outside: Word, each: Word | int) -> list[Word]:
        """The addresses of a tile's four pixels of the result; for those that do not exist, places from `outside` on."""
        n, i, j = self._position(tile, p["down"], p["across"])
        size = p["out_channels"] * 4
        image = p["y"] + n * p["out_height"] * p["out_width"] * size
        found = []
        for k in range(4):
            h, w = i * 2 + k // 2, j * 2 + k % 2
            exists = self.both(h < p["out_height"], w < p["out_width"])
            place = image + (h * p["out_width"] + w) * size
            found.append(self.select(exists, place, outside + self.word(self.number(each)) * k))
        return found

    # The kernels.

    def weights(self, first: Word, last: Word, p: dict[str, Word]) -> None:
        """G g Gᵀ for PIECE input channels and a panel of output channels a block.

        `calls` calls of `pack` bring them into the workspace, `lines` lines of a panel each. There the cells of a channel
        begin at line `begin`; `channel` and `cell` are the lines from one to the next.
        """
        slot = self.claim(p["slots"], p["slot_count"])
        scratch = p["scratch"] + slot * p["scratch_size"]
        pieces = p["channels"] // PIECE
        width = p["panel"] * 4
        with self.loop(first, last) as number:
            panel = number // pieces
            piece = number - panel * pieces
            source = p["w"] + (panel * p["panel_step"] + piece * p["piece_step"]) * 4
            with self.loop(0, p["calls"]) as call:
                target = scratch + call * p["lines"] * width
                start = source + call * p["call_step"] * 4
                self.call_at(p["pack"], start, p["line_step"], p["lines"], target, 0, p["panel"])
            with self.loop(0, PIECE) as channel, self.loop(0, width, 4 * self.width) as c:
                cells = scratch + (p["begin"] + channel * p["channel"]) * width + c
                columns = []
                for j in range(3):
                    places = [cells + p["cell"] * width * (3 * i + j) for i in range(3)]
                    columns.append(self.by_weights([self.load(place) for place in places]))
                target = p["u"] + (panel * p["channels"] + piece * PIECE + channel) * width + c
                for i in range(4):
                    for j, value in enumerate(self.by_weights([columns[k][i] for k in range(3)])):
                        self.store(value, target + p["u_plane"] * (4 * i + j))
        self.release(p["slots"], slot)

    def forward(self, first: Word, last: Word, p: dict[str, Word]) -> None:
        """The result of `block` tiles a block: a window of the workspace holds their transforms and products."""
        slot = self.claim(p["slots"], p["slot_count"])
        v = p["scratch"] + slot * p["scratch_size"]
        m = v + p["v_plane"] * PLACES
        patch = m + p["m_plane"] * PLACES
        size, out_size = p["channels"] * 4, p["out_channels"] * 4
        with self.loop(first, last) as number:
            start = number * p["block"]
            count = self.smaller(p["block"], p["tiles"] - start)
            with self.loop(0, count) as i:
                self.call("input_window", *(p[k] for k in IMAGE), start + i, patch, v + i * size, p["v_plane"])
            with self.loop(0, PLACES) as e:
                self._block_product(p, v + e * p["v_plane"], p["u"] + e * p["u_plane"], m + e * p["m_plane"], count)
            with self.loop(0, count) as i:
                pixels = self._pixels(p, start + i, patch, 0)
                flags = p["flags"] + number * (4 * self.width)
                self.call("output_tile", m + i * out_size, p["m_plane"], p["bias"], *pixels, out_size, flags)
        self.release(p["slots"], slot)

    def _block_product(self, p: dict[str, Word], v: Word, u: Word, m: Word, count: Word) -> None:
        """The product (tiles × in) (in × out) for one place of a window."""
        size, out_size = p["channels"] * 4, p["out_channels"] * 4
        step = p["run"] * (self.word(self.i64(DEPTH)) // p["run"])
        with self.loop(0, p["channels"], step) as k:
            runs = self.smaller(p["channels"] - k, step) // p["run"]
            begins = self.word(self.builder.zext((k < 1), self.i64))
            with self.loop(0, p["out_channels"], p["panel"]) as j, self.loop(0, count, p["tile_rows"]) as i:
                right = u + (j * p["channels"] + k * p["panel"]) * 4
                self.call_at(
                    p["tile"], v + i * size + k * 4, p["rows"], p["cells"], runs, p["run"], right, 0, m + i * out_size + j * 4,
                    p["out_channels"], 0, self.smaller(count - i, p["tile_rows"]), p["panel"], begins,
                )  # fmt: skip

    def transform(self, first: Word, last: Word, p: dict[str, Word]) -> None:
        """Both transforms of the weight gradient, of GROUP tiles a block: tiles from `start` on, `tiles` of them."""
        slot = self.claim(p["slots"], p["slot_count"])
        patch = p["scratch"] + slot * p["scratch_size"]
        size = p["panel"] * 4
        with self.loop(first, last) as number:
            low = number * GROUP
            with self.loop(low, self.smaller(low + GROUP, p["tiles"])) as i:
                target = p["v"] + i * p["channels"] * 4
                self.call("input_window", *(p[k] for k in IMAGE), p["start"] + i, patch, target, p["v_plane"])
                self.call("zero", patch, p["out_channels"] * 4)
                pixels = self._pixels(p, p["start"] + i, patch, 0)
                with self.loop(0, p["out_channels"] // p["panel"]) as panel:
                    places = [pixel + panel * size for pixel in pixels]
                    target = p["z"] + (panel * p["pitch"] + i) * size
                    self.call("gradient_tile", *places, target, p["z_plane"], size)
        self.release(p["slots"], slot)

    def products(self, first: Word, last: Word, p: dict[str, Word]) -> None:
        """The sums over `tiles` tiles, for one place of a window and one panel of output channels a block."""
        panels = p["out_channels"] // p["panel"]
        with self.loop(first, last) as number:
            e = number // panels
            panel = number - e * panels
            left = p["v"] + e * p["v_plane"]
            right = p["z"] + e * p["z_plane"] + panel * p["pitch"] * p["panel"] * 4
            result = p["s"] + e * p["s_plane"] + panel * p["panel"] * 4
            with self.loop(0, p["tiles"], DEPTH) as k:
                depth = self.smaller(p["tiles"] - k, self.word(self.i64(DEPTH)))
                begins = self.select(k < 1, p["begins"], self.word(self.i64(0)))
                with self.loop(0, p["channels"], p["tile_rows"]) as i:
                    self.call_at(
                        p["tile"], left + (k * p["channels"] + i) * 4, p["rows"], p["cells"], depth, 0,
                        right + k * p["panel"] * 4, 0, result + i * p["out_channels"] * 4, p["out_channels"], 0,
                        self.smaller(p["channels"] - i, p["tile_rows"]), p["panel"], begins,
                    )  # fmt: skip

    def gradient(self, first: Word, last: Word, p: dict[str, Word]) -> None:
        """Gᵀ s G, the weight gradient, for PIECE input channels and a panel of output channels a block.

        It is computed in the workspace, in lines as for `weights`. From there `turn` brings eight lines at a time to their
        place: groups of `lines` lines, whose places are `call_step` apart.
        """
        slot = self.claim(p["slots"], p["slot_count"])
        scratch = p["scratch"] + slot * p["scratch_size"]
        panels = p["out_channels"] // p["panel"]
        width, row = p["panel"] * 4, p["channels"] * CELLS
        with self.loop(first, last) as number:
            piece = number // panels
            panel = number - piece * panels
            with self.loop(0, PIECE) as channel, self.loop(0, width, 4 * self.width) as c:
                source = p["s"] + ((piece * PIECE + channel) * p["out_channels"]) * 4 + panel * width + c
                columns = []
                for j in range(4):
                    places = [source + p["s_plane"] * (4 * i + j) for i in range(4)]
                    columns.append(self.by_weights_adjoint([self.load(place) for place in places]))
                target = scratch + channel * p["channel"] * width + c
                results = [
                    value for i in range(3) for value in self.by_weights_adjoint([columns[j][i] for j in range(4)])
                ]
                for k, value in enumerate(results):
                    self.store(value, target + p["cell"] * width * k)
                self._flag(results, p["flags"] + number * (4 * self.width))
            target = p["w"] + (panel * p["panel"] * row + piece * p["piece_step"]) * 4
            with self.loop(0, p["calls"]) as call, self.loop(0, p["lines"], 8) as line:
                source = scratch + (call * p["lines"] + line) * width
                place = target + (call * p["call_step"] + line) * 4
                self.call_at(p["turn"], source, p["panel"], p["panel"], place, row, 8)
        self.release(p["slots"], slot)
