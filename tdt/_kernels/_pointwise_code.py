"""The machine code of `pointwise_cpu`: products of samples from packed panels, and sums of such products over samples.

Images may be of bfloat16 (`half`): they are converted as they are packed, and what tiles read by rows is converted before, block
by block. A block of the result is summed in a scratch array then, and rounded as it is finished.
"""

from __future__ import annotations

from types import SimpleNamespace

from tdt._kernels._bfloat16 import round_block, widen_line
from tdt._kernels._code import Code, Value, native
from tdt._kernels._tile import call

DEPTH = 256  # products that are summed in registers
COLUMNS = 192  # columns of a block: packed 196 KB, in a level-two cache; a multiple of every tile's
ROWS = 192  # rows of a block: with DEPTH of them, as much
ROUNDED = ROWS * COLUMNS  # floats of a block that is rounded
WIDENED = (ROWS + 32) * DEPTH  # floats of the rows of a block, a tile's more at most, that are converted
JOINED = 36864  # floats of panels, of the whole depth, where samples share tiles
JOINED_ROWS = 96  # rows of a block then

assert JOINED + JOINED_ROWS * COLUMNS // 2 + 16 <= DEPTH * COLUMNS  # panels, their last vector, and a block of rows fit

# Words of `products` and `joined_products`: addresses of the tile, of a packer, of the offsets of a tile's rows of w; the
# tile's size; rows, depth and columns of a sample's product; its blocks of columns, and columns of each; rows computed at a time;
# samples; rows of a block, and how many blocks have the same rows.
PRODUCTS = ("tile", "pack", "table", "tile_rows", "tile_columns", "rows", "depth", "pixels", "blocks", "step", "together",
            "count", "band", "in_band")  # fmt: skip
# Words of `products_in_place`: the tile that reads lines of x where they lie, and one for the pixels that are left.
IN_PLACE = ("tile", "table", "tile_rows", "tile_columns", "rest_tile", "rest_table", "rest_rows", "pack", "rows", "depth",
            "pixels", "blocks", "step", "far", "band", "in_band")  # fmt: skip
# Words of `summed`: as above, and the address of offsets of samples of y; samples, of a part, and summed at a time; rows,
# columns and depth of a sample's product; blocks of columns, and columns of each; as in PRODUCTS; elements from row to row of
# what is converted.
SUMMED = ("tile", "pack", "table", "cells", "tile_rows", "tile_columns", "count", "chunk", "together", "rows", "columns",
          "pixels", "blocks", "step", "band", "in_band", "pitch")  # fmt: skip


def _scratch(code: Code) -> tuple[Value, Value]:
    """Addresses of memory on the stack, enough for panels of JOINED floats and a block of rows, too; and of a word of 0."""
    zero = code.array("i64", 1)
    code.store(code.value(0, "i64"), zero)
    return code.cast(code.array("float", DEPTH * COLUMNS), "i64"), code.cast(zero, "i64")


def _bias_at(code: Code, bias: Value, row: Value, ends: Value) -> Value:
    """The address of the bias from `row` on if the sum ends and there is one, or 0."""
    return code.select(ends & (bias != 0), bias + 4 * row, 0)


def _block(code: Code, p: SimpleNamespace, number: Value) -> tuple[Value, Value, Value]:
    """The number of a block among those with the same rows, its first row, and the one behind its last."""
    band = number // p.in_band
    return number - band * p.in_band, band * p.band, code.minimum((band + 1) * p.band, p.rows)


@native("qqqqp")
def products(code: Code, first: Value, last: Value, arguments: list[Value], half: bool) -> None:
    """Blocks of `step` columns of the samples' products, `together` rows at a time. half: x and the result are of bfloat16."""
    w, x, bias, out, words = arguments
    p, size = code.words(words, PRODUCTS), 2 if half else 4
    panels, zero = _scratch(code)
    rounded = code.cast(code.array("float", ROUNDED), "i64") if half else None
    with code.loop(first, last) as number:
        number, top, bottom = _block(code, p, number)
        n = number // p.blocks
        start = (number - n * p.blocks) * p.step
        wide = code.minimum(p.pixels - start, p.step)
        block = out + size * (n * p.rows * p.pixels + start)

        def pack(k: Value, some: Value, n: Value = n, start: Value = start, wide: Value = wide) -> None:
            call(code, p.pack, x + size * ((n * p.depth + k) * p.pixels + start), p.pixels, some, panels, 0, wide)

        def rows(
            low: Value, high: Value, k: Value, some: Value, target: Value, pitch: Value, wide: Value = wide
        ) -> None:
            """Sums of some rows, from row `low` at `target` on."""
            begins, ends = code.cast(k == 0, "i64"), k + some == p.depth
            with code.loop(0, wide, p.tile_columns) as j:
                here = code.minimum(wide - j, p.tile_columns)
                with code.loop(low, high, p.tile_rows) as i:
                    call(code, p.tile, w + 4 * (i * p.depth + k), p.table, zero, 1, some, panels + 4 * j * some, 0,
                         target + 4 * ((i - low) * pitch + j), pitch, _bias_at(code, bias, i, ends),
                         code.minimum(high - i, p.tile_rows), here, begins)  # fmt: skip

        if rounded is None:
            with code.loop(0, p.depth, DEPTH) as k:
                some = code.minimum(p.depth - k, DEPTH)
                pack(k, some)
                with code.loop(top, bottom, p.together) as low:
                    high = code.minimum(low + p.together, bottom)
                    rows(low, high, k, some, block + 4 * low * p.pixels, p.pixels)
        else:
            with code.loop(top, bottom, p.together) as low:  # each of which is finished before the next
                high = code.minimum(low + p.together, bottom)
                with code.loop(0, p.depth, DEPTH) as k:
                    some = code.minimum(p.depth - k, DEPTH)
                    with code.when((low == top) | (p.depth > DEPTH)):
                        pack(k, some)
                    rows(low, high, k, some, rounded, p.step)
                round_block(code, high - low, wide, rounded, p.step, block + 2 * low * p.pixels, p.pixels)


@native("qqqqp")
def products_in_place(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """As `products`, with lines of x that are not packed, but for those of the last pixels, of fewer than a tile's columns."""
    w, x, bias, out, words = arguments
    p = code.words(words, IN_PLACE)
    panels, zero = _scratch(code)
    with code.loop(first, last) as number:
        number, top, bottom = _block(code, p, number)
        n = number // p.blocks
        start = (number - n * p.blocks) * p.step
        wide = code.minimum(p.pixels - start, p.step)
        whole = wide - wide % p.tile_columns
        block = out + 4 * (n * p.rows * p.pixels + start)
        with code.loop(0, p.depth, DEPTH) as k:
            some = code.minimum(p.depth - k, DEPTH)
            begins, ends = code.cast(k == 0, "i64"), k + some == p.depth
            lines = x + 4 * ((n * p.depth + k) * p.pixels + start)

            def rows(tile: Value, table: Value, step: Value, b: Value, j: Value, here: Value) -> None:
                with code.loop(top, bottom, step) as i:
                    with code.when(p.far != 0):
                        parts = [some * (row - top) // (bottom - top) for row in (i, i + step)]
                        _prefetch(code, b + 4 * p.tile_columns, p, parts)
                    call(code, tile, w + 4 * (i * p.depth + k), table, zero, 1, some, b, p.pixels, block + 4 * (i * p.pixels + j),
                         p.pixels, _bias_at(code, bias, i, ends), code.minimum(bottom - i, step), here, begins)  # fmt: skip

            with code.loop(0, whole, p.tile_columns) as j:
                rows(p.tile, p.table, p.tile_rows, lines + 4 * j, j, p.tile_columns)
            with code.when(whole < wide):
                call(code, p.pack, lines + 4 * whole, p.pixels, some, panels, 0, wide - whole)
                rows(p.rest_tile, p.rest_table, p.rest_rows, panels, whole, wide - whole)


def _prefetch(code: Code, lines: Value, p: SimpleNamespace, part: list[Value]) -> None:
    """Load a part of the lines of the next tile into the caches while this one's are summed: they are far from each other."""
    with code.loop(part[0], part[1]) as k, code.loop(0, 4 * p.tile_columns, 64) as at:
        code.prefetch(lines + 4 * k * p.pixels + at)


@native("qqqqp")
def joined_products(
    code: Code, first: Value, last: Value, arguments: list[Value], columns: int, width: int, half: bool
) -> None:
    """Blocks of `step` columns of the products of all samples, one after the other.

    Args:
        columns: of a tile; width: of a vector; half: as in `products`.
    """
    w, x, bias, out, words = arguments
    p = code.words(words, PRODUCTS)
    panels, zero = _scratch(code)
    sums, all_columns = panels + 4 * p.depth * p.step, p.count * p.pixels
    runs = code.array("i64", 3 * columns)
    with code.loop(first, last) as number:
        number, top, bottom = _block(code, p, number)
        start = number * p.step
        wide = code.minimum(all_columns - start, p.step)
        with code.loop(0, wide, columns) as j:
            _join(code, p, x, panels + 4 * j * p.depth, start + j, code.minimum(wide - j, columns), runs, width, half)
        with code.loop(top, bottom, p.together) as low:
            high = code.minimum(low + p.together, bottom)
            with code.loop(0, wide, columns) as j:
                here = code.minimum(wide - j, columns)
                with code.loop(low, high, p.tile_rows) as i, code.loop(0, p.depth, DEPTH) as k:
                    begins, some = code.cast(k == 0, "i64"), code.minimum(p.depth - k, DEPTH)
                    call(code, p.tile, w + 4 * (i * p.depth + k), p.table, zero, 1, some,
                         panels + 4 * (j * p.depth + k * columns), 0, sums + 4 * ((i - low) * p.step + j), p.step,
                         _bias_at(code, bias, i, k + some == p.depth), code.minimum(high - i, p.tile_rows), here,
                         begins)  # fmt: skip
            q = code.variable("i64", 0)
            with code.forever() as leave:  # sample by sample
                at = q.get()
                leave(at >= wide)
                n = (start + at) // p.pixels
                inner = start + at - n * p.pixels
                run = code.minimum(wide - at, p.pixels - inner)
                if half:
                    target = out + 2 * ((n * p.rows + low) * p.pixels + inner)
                    round_block(code, high - low, run, sums + 4 * at, p.step, target, p.pixels)
                else:
                    with code.loop(low, high) as i:
                        code.copy(
                            out + 4 * ((n * p.rows + i) * p.pixels + inner),
                            sums + 4 * ((i - low) * p.step + at),
                            4 * run,
                        )
                q.set(at + run)


def _join(
    code: Code,
    p: SimpleNamespace,
    x: Value,
    out: Value,
    start: Value,
    count: Value,
    runs: Value,
    width: int,
    half: bool,
) -> None:
    """Pack `count` columns of all samples' from `start` on into a panel. runs: memory for three words for each."""
    found, q, size = code.variable("i64", 0), code.variable("i64", 0), 2 if half else 4
    with code.forever() as leave:
        at = q.get()
        leave(at >= count)
        n = (start + at) // p.pixels
        inner = start + at - n * p.pixels
        run = code.minimum(count - at, p.pixels - inner)
        for k, value in enumerate((x + size * (n * p.depth * p.pixels + inner), out + 4 * at, run)):
            code.store(value, runs, 3 * found.get() + k)
        found.add(1)
        q.set(at + run)
    with code.loop(0, p.depth) as k:  # line by line, as a run's last vector is written whole
        with code.loop(0, found.get()) as number:
            source, target, run = (code.load("i64", runs, 3 * number + i) for i in range(3))
            source, target = source + size * k * p.pixels, target + 4 * k * p.tile_columns
            if half:
                widen_line(code, run, source, target, width)
            else:
                with code.loop(0, run, width) as i:
                    value = code.load_first("float", code.cast(source + 4 * i, "ptr"), run - i, width)
                    code.store(value, code.cast(target + 4 * i, "ptr"))


@native("qqqp")
def summed(code: Code, first: Value, last: Value, arguments: list[Value], half: bool) -> None:
    """Blocks of the weight gradient, ROWS × step, of the sum over `chunk` samples; `together` of them are summed at a time.

    half: x and y are of bfloat16.
    """
    y, x, out, words = arguments
    p, size = code.words(words, SUMMED), 2 if half else 4
    panels, _ = _scratch(code)
    lines_of_y = code.cast(code.array("float", WIDENED), "i64") if half else None
    with code.loop(first, last) as number:
        number, low, high = _block(code, p, number)
        part = number // p.blocks
        left = (number - part * p.blocks) * p.step
        wide = code.minimum(p.columns - left, p.step)
        begin, end = part * p.chunk, code.minimum((part + 1) * p.chunk, p.count)
        with code.loop(begin, end, p.together) as n:
            samples = code.minimum(end - n, p.together)
            with code.loop(0, p.pixels, DEPTH) as k:
                some = code.minimum(p.pixels - k, DEPTH)
                begins = code.cast((n == begin) & (k == 0), "i64")
                rows, pitch = y + 4 * ((n * p.rows + low) * p.pixels + k), p.pixels
                if lines_of_y is not None:
                    rows, pitch = lines_of_y, p.pitch
                    with code.loop(0, samples) as s:
                        source = y + 2 * (((n + s) * p.rows + low) * p.pixels + k)
                        with code.loop(0, high - low) as i:
                            target = lines_of_y + 4 * (s * p.band + i) * pitch
                            widen_line(code, some, source + 2 * i * p.pixels, target)
                with code.loop(0, wide, p.tile_columns) as j:
                    here, lines = code.minimum(wide - j, p.tile_columns), panels + 4 * some * samples * j
                    with code.loop(0, samples) as s:
                        call(code, p.pack, x + size * (((n + s) * p.columns + left + j) * p.pixels + k), p.pixels, some,
                             lines + 4 * p.tile_columns * some * s, 0, here)  # fmt: skip
                    with code.loop(low, high, p.tile_rows) as i:
                        call(code, p.tile, rows + 4 * (i - low) * pitch, p.table, p.cells, samples, some, lines,
                             0, out + 4 * ((part * p.rows + i) * p.columns + left + j), p.columns, 0,
                             code.minimum(high - i, p.tile_rows), here, begins)  # fmt: skip
