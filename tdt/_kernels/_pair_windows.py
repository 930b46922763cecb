"""Windows of images of bfloat16 times packed weights, summed in float32: the loops of a convolution (`bfloat16_conv_cpu`).

AMX reads 16 rows of a tile at any equal distance: 16 windows that lie evenly, and a step of 32 numbers of each, need not be
packed. Other windows, those at the end of a line among them, are copied, a few steps at a time, to memory that stays in a cache.
"""

from __future__ import annotations

from tdt._kernels._code import Code, Value, native
from tdt._kernels._dots import SIDE, STEP_BYTES, TILE, TILE_BYTES, WAYS, Rows
from tdt._kernels._pair_blocks import ACROSS, BLOCK_BYTES, DEPTH, DOWN, GROUP, ahead, block_of, finish
from tdt._kernels._pairs import Offsets, pack_tile


@native("qqqqqqqqqqqq")
def windows_times(code: Code, first: Value, last: Value, arguments: list[Value], way: str) -> None:
    """Blocks of the product of windows and weights, rounded to bfloat16.

    Arguments: addresses of the image's first element, past its last one, of the offsets of windows, of the pitch of each 16 of
    them (0: they are copied), of (offset, count) of each step, of the packed weights, the result and the bias; windows, columns,
    panels of the weights, steps.
    """
    image, end, windows, pitches, table, weights, result, bias, rows, columns, across, steps = arguments
    dots = WAYS[way](code)
    sums = code.array("float", DOWN * ACROSS * SIDE * SIDE)
    complete = code.array("float", SIDE * SIDE)
    copies = code.cast(code.array("i8", DOWN * DEPTH * STEP_BYTES), "i64")
    element = code.array("i16", SIDE * TILE)
    own = code.array("i64", 2 * DEPTH)  # the table of steps of what is copied
    for k in range(DEPTH):
        code.store(code.value(k * STEP_BYTES, "i64"), own, 2 * k)
    window_table, step_table, pitch_table = (code.cast(each, "ptr") for each in (windows, table, pitches))
    down = (rows + (SIDE - 1)) // SIDE
    blocks_down, blocks_across = (down + (DOWN - 1)) // DOWN, (across + (ACROSS - 1)) // ACROSS
    dots.begin()
    with code.loop(first, last) as piece:
        row, column = block_of(code, piece, blocks_down, blocks_across, code.value(GROUP, "i64"))
        high = code.minimum(down - row, DOWN)
        with code.loop(0, steps, DEPTH) as begin:
            count = code.minimum(steps - begin, DEPTH)
            with code.loop(0, high * 2) as half:
                tile, panel = row * 2 + half, half // 2
                to = copies + panel * (DEPTH * STEP_BYTES) + (half - panel * 2) * TILE_BYTES
                with code.when(code.load("i64", pitch_table, tile) == 0), code.loop(0, count) as step:
                    offsets = Offsets(code, "deep", window_table, step_table, tile * TILE, rows, begin + step)
                    pack_tile(code, "deep", False, image, end, offsets, element, to + step * STEP_BYTES)
            with code.loop(0, high) as i, code.loop(0, code.minimum(across - column, ACROSS)) as j:
                block = code.at("i8", sums, (j * DOWN + i) * BLOCK_BYTES)
                b = code.cast(weights + ((column + j) * steps + begin) * STEP_BYTES, "ptr")
                copied = copies + i * (DEPTH * STEP_BYTES)
                ends = begin + count == steps
                with code.when(ends):
                    ahead(code, ((row + i) * SIDE, (column + j) * SIDE), rows, result, columns)
                out = code.select(ends, complete, block)
                left = []
                for half in range(2):
                    tile = (row + i) * 2 + half
                    pitch = code.load("i64", pitch_table, tile)
                    there = image + code.load("i64", window_table, code.minimum(tile * TILE, rows - 1))
                    left.append(
                        Rows(
                            code.select(pitch != 0, there, copied + half * TILE_BYTES),
                            code.select(pitch != 0, pitch, 4 * TILE),
                            code.select(pitch != 0, table + begin * 16, code.cast(own, "i64")),
                        )
                    )
                if dots.IN_PLACE:
                    dots.block_in_place(left, b, count, block, begin == 0, out)
                else:
                    dots.block(code.cast(copied, "ptr"), b, count, block, begin == 0, out)
                with code.when(ends):
                    finish(dots, complete, ((row + i) * SIDE, (column + j) * SIDE), (rows, columns), result, columns,
                           bias)  # fmt: skip
    dots.end()
