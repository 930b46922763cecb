"""Products of bfloat16 whose operands are packed by the piece of work that sums them, into memory of its thread.

A block of up to 128 × 256 results packs the parts of both operands that it needs, unless the block before needed the same ones.
So operands are read once, and what is packed stays in a level-two cache: of stacks of matrices, and of products of few rows,
whose time is that of reading. Blocks are summed as those of operands that were packed before (`bfloat16_cpu`), to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from tdt._kernels._code import Code, Value, native
from tdt._kernels._dots import SIDE, STEP_BYTES, TILE, TILE_BYTES, WAYS, Rows
from tdt._kernels._pair_blocks import ACROSS, BLOCK_BYTES, DEPTH, DOWN, ahead, block_of, finish
from tdt._kernels._pairs import Offsets, pack_both, pack_tile

PANEL_BYTES = DEPTH * STEP_BYTES  # of a part of a packed operand


@native("q" * 18)
def packing_products(
    code: Code, first: Value, last: Value, arguments: list[Value], way: str, left_form: str, right_form: str
) -> None:
    """Blocks of products, rounded to bfloat16, with a bias.

    Arguments: of the left operand, addresses of the first element, past the last one, of the offsets of matrices, of lines and of
    k, and the bytes from a row to the next where whole tiles are read in place, else 0; of the right operand the same five
    addresses; addresses of the result and the bias; rows and columns of a result; steps; numbers of offsets of lines of both.
    """
    left, pitch, right = arguments[:5], arguments[5], arguments[6:11]
    result, bias, rows, columns, steps, *entries = arguments[11:]
    dots = WAYS[way](code)
    sums = code.array("float", DOWN * ACROSS * SIDE * SIDE)
    complete = code.array("float", SIDE * SIDE)
    own = code.array("i64", 2 * DEPTH)  # the table of steps of what is packed
    for k in range(DEPTH):
        code.store(code.value(k * STEP_BYTES, "i64"), own, 2 * k)
    forms, lines = (left_form, right_form), (rows, columns)
    packers = [
        _Packer(code, operand, form, most, count, lines=length, is_right=bool(k))
        for k, (operand, form, most, count, length) in enumerate(
            zip((left, right), forms, (DOWN, ACROSS), entries, lines, strict=True)
        )
    ]
    down, across = (rows + (SIDE - 1)) // SIDE, (columns + (SIDE - 1)) // SIDE
    blocks_down, blocks_across = (down + (DOWN - 1)) // DOWN, (across + (ACROSS - 1)) // ACROSS
    dots.begin()
    with code.loop(first, last) as piece:
        matrix = piece // (blocks_down * blocks_across)
        part = piece - matrix * blocks_down * blocks_across
        row, column = block_of(code, part, blocks_down, blocks_across, blocks_down)
        high, broad = code.minimum(down - row, DOWN), code.minimum(across - column, ACROSS)
        out = result + matrix * rows * columns * 2
        with code.loop(0, steps, DEPTH) as begin:
            count = code.minimum(steps - begin, DEPTH)
            packers[0].pack(
                matrix, row, high, begin, count, steps, lambda tile: (pitch == 0) | (tile * TILE + TILE > rows)
            )
            packers[1].pack(matrix, column, broad, begin, count, steps, None)
            with code.loop(0, high) as i, code.loop(0, broad) as j:
                block = code.at("i8", sums, (j * DOWN + i) * BLOCK_BYTES)
                b = code.cast(packers[1].memory + j * PANEL_BYTES, "ptr")
                copied = packers[0].memory + i * PANEL_BYTES
                ends = begin + count == steps
                place = (row + i) * SIDE, (column + j) * SIDE
                with code.when(ends):
                    ahead(code, place, rows, out, columns)
                target = code.select(ends, complete, block)
                if dots.IN_PLACE:
                    there = packers[0].base(matrix) + (row + i) * SIDE * pitch
                    both = [(pitch != 0) & ((row + i) * SIDE + (half + 1) * TILE <= rows) for half in range(2)]
                    tiles = [
                        Rows(
                            code.select(test, there + half * TILE * pitch, copied + half * TILE_BYTES),
                            code.select(test, pitch, 4 * TILE),
                            code.select(test, left[4] + begin * 16, code.cast(own, "i64")),
                        )
                        for half, test in enumerate(both)
                    ]
                    dots.block_in_place(tiles, b, count, block, begin == 0, target)
                else:
                    dots.block(code.cast(copied, "ptr"), b, count, block, begin == 0, target)
                with code.when(ends):
                    finish(dots, complete, place, (rows, columns), out, columns, bias)
    dots.end()


class _Packer:
    """Packs parts of an operand: a few panels, of up to `DEPTH` steps; the last one stays."""

    def __init__(
        self, code: Code, operand: list[Value], form: str, most: int, entries: Value, *, lines: Value, is_right: bool
    ):
        """operand: as `packing_products` says. most: panels of a part. entries: offsets of lines."""
        self.code, self.form, self.entries, self.lines, self.is_right = code, form, entries, lines, is_right
        self.start, self.end, *tables = operand
        self.matrices, self.line_table, self.k_table = (code.cast(table, "ptr") for table in tables)
        self.memory = code.cast(code.array("i8", most * PANEL_BYTES), "i64")
        self.copied = code.array("i16", SIDE * TILE)
        self.packed = code.variable("i64", -1)  # the number of the part that is packed

    def base(self, matrix: Value) -> Value:
        """The address of a matrix."""
        return self.start + self.code.load("i64", self.matrices, matrix)

    def pack(self, matrix: Value, panel: Value, panels: Value, begin: Value, count: Value, steps: Value,
             needed: Callable[[Value], Value] | None) -> None:  # fmt: skip
        """Pack the tiles of a part that have lines, and that are `needed`."""
        code = self.code
        every = (self.lines + (SIDE - 1)) // SIDE
        number = (matrix * every + panel) * steps + begin
        with code.when(number != self.packed.get()):
            self.packed.set(number)
            base = self.base(matrix)

            def tile(half: Value, step: Value) -> None:
                place = panel * 2 + half
                to = self.memory + (half // 2) * PANEL_BYTES + half % 2 * TILE_BYTES + step * STEP_BYTES
                offsets = Offsets(
                    code, self.form, self.line_table, self.k_table, place * TILE, self.entries, begin + step
                )
                pack_tile(code, self.form, self.is_right, base, self.end, offsets, self.copied, to)

            tiles = code.minimum(panels * 2, (self.lines + (TILE - 1)) // TILE - panel * 2)
            if self.form == "flat":  # along the rows of memory
                with code.loop(0, count) as step, code.loop(0, panels) as k:

                    def apart(step: Value = step, k: Value = k) -> None:
                        with code.loop(k * 2, code.minimum(tiles, k * 2 + 2)) as half:
                            tile(half, step)

                    to = self.memory + k * PANEL_BYTES + step * STEP_BYTES
                    pack_both(code, self.is_right, base, self.end, self.line_table, self.k_table, panel + k, self.entries,
                              begin + step, to, apart)  # fmt: skip
            else:
                with code.loop(0, tiles) as half:
                    with code.when(code.value(1, "i64") == 1 if needed is None else needed(panel * 2 + half)):
                        with code.loop(0, count) as step:
                            tile(half, step)
