"""The loops of the direct convolution (`conv_cpu`) as machine code: they call the register tile and what packs and turns."""

from __future__ import annotations

from types import SimpleNamespace

from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels._panels import PANEL, panel
from tdt._kernels._phases import DEPTH
from tdt._kernels._tile import call

ROWS = 192  # targets in a block
COLUMNS = 256  # channels in a block, at most
SCRATCH = ROWS * COLUMNS  # numbers of a block
SUMMED = 96  # windows that a weight gradient sums at a time: as much of both operands stays in a level-one cache
TURNED = 8  # channels that are turned to planes together
WIDEST = 64  # columns of a tile, at most
PHASE, BLOCK = 17, 6  # words in a row of the tables of a `_phases.Gather`

# The words of `gather` after those of a packer: addresses of tables of a `_phases.Gather`, and how many phases, each with the
# rows and the address of its tile, and the address of the one for the last columns; address of a function of `_turn`, and bytes
# of an element that it writes; how many the last columns are, 0 if their tile is the same; whether weights are packed block by
# block where they are used, and bytes for that which have to be 0 before; whether a piece packs its panels, which no other one
# uses; whether the result is channels-last.
# Then pieces of all lines of targets, of a line, and of the columns of a group; panels of a piece; lines of a piece, targets of a
# line; lines in all; depth, height and width of the result; elements of a sample of the bordered source, and of a group in it;
# channels of the result.
GATHER = (*PANEL, "offsets", "phases", "phase_count", "blocks", "turn_plain", "written", "edge_columns", "lazy", "unset",
          "packs", "last", "pieces", "along", "parts", "together", "down", "across", "all_lines", "depth", "height", "width",
          "volume", "group_step", "channels")  # fmt: skip

# The words of `sum_windows`: addresses of the offsets of a sample's windows in the bordered image, of the kernel's runs in a
# window (and how many there are), of the first window that has a run inside of the image and the one behind the last, for each
# run, of the rows of a block in the order of the result; elements of a sample of the image, and
# of a group in it; cells of a run, channels of a piece, panels of a piece, pieces of the channels and of the columns; windows
# in all and in a sample; channels and columns in a group, panels in a group, cells of the kernel; groups; the tile; whether the
# result is channels-last; addresses of the tile and of a function of `_turn`.
WINDOWS = ("offsets", "starts", "start_count", "ranges", "order", "volume", "group_step", "joined", "some", "together", "parts",
           "column_parts", "all_windows", "in_sample", "channels", "columns", "in_group", "cells", "groups", "tile_rows",
           "tile_columns", "last", "tile", "turn", "step")  # fmt: skip


@native("qqqqqp", vectorize=False)
def gather(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Pieces [first, last) of a result, or an input gradient: some lines of targets, or a part of a line, and some panels of
    columns. `panels` is packed, or memory for that; the bias has as many columns, or its address is 0."""
    image, weights, panels, bias, out, words = arguments
    p = code.words(words, GATHER)
    zero = code.value(0, "i64")
    local, packed = (code.cast(code.array("float", n), "i64") for n in (SCRATCH, 2 * DEPTH * WIDEST))
    rows = code.array("i64", 2 * ROWS)
    sources = code.cast(rows, "i64")
    offsets, phases, blocks = p.offsets, code.cast(p.phases, "ptr"), code.cast(p.blocks, "ptr")
    lazy, is_last = p.lazy != 0, p.last != 0
    with code.when(p.unset > 0):
        code.clear(packed, p.unset)
    with code.loop(first, last) as number:
        part = number // p.pieces
        piece = number - part * p.pieces
        group = part // p.parts
        begin = (part - group * p.parts) * p.together
        end = code.minimum(begin + p.together, p.in_group)
        low = piece // p.along
        left = (piece - low * p.along) * p.across
        low = low * p.down
        high, right = code.minimum(low + p.down, p.all_lines), code.minimum(left + p.across, p.width)
        column = group * p.columns + begin * p.tile_columns
        pitch = code.select(is_last, p.channels, p.together * p.tile_columns)
        target = code.select(is_last, out + 4 * column, local)
        with code.when(p.packs != 0), code.loop(begin, end) as j:
            of_all = group * p.in_group + j
            panel(code, p, weights, panels + 4 * of_all * p.line_count * p.tile_columns, of_all, zero, p.summed)
        with code.loop(0, p.phase_count) as k:
            phase = [code.load("i64", phases, PHASE * k + m) for m in range(PHASE)]
            count = _targets(code, p, rows, phase, (low, high), (left, right), pitch)
            with code.loop(phase[12], phase[13]) as index:
                cell, cells, run, line, channel, behind = (
                    code.load("i64", blocks, BLOCK * index + m) for m in range(BLOCK)
                )
                begins, ends = code.cast(index == phase[12], "i64"), index == phase[13] - 1
                with code.loop(begin, end) as j:
                    of_all = group * p.in_group + j
                    with code.when(lazy):
                        panel(code, p, weights, packed - 4 * line * p.tile_columns, of_all, channel, behind)
                    b = code.select(lazy, packed, panels + 4 * (of_all * p.line_count + line) * p.tile_columns)
                    here = code.minimum(p.columns - j * p.tile_columns, p.tile_columns)
                    tile_rows, tile = phase[14], code.select(here <= p.edge_columns, phase[16], phase[15])
                    wide = code.select(is_last, here, p.tile_columns)
                    added = code.select(ends & (bias != 0), bias + 4 * of_all * p.tile_columns, zero)
                    c = target + 4 * (j - begin) * p.tile_columns
                    with code.loop(0, count, tile_rows) as i:
                        call(code, tile, image + 4 * group * p.group_step, sources + 8 * i, offsets + 8 * cell, cells, run, b,
                             p.tile_columns, c, sources + 8 * (i + ROWS), added, code.minimum(count - i, tile_rows), wide,
                             begins)  # fmt: skip
        with code.when(p.last == 0):
            here = code.minimum(p.columns - begin * p.tile_columns, (end - begin) * p.tile_columns)
            _to_planes(code, p, out, local, pitch, (low, high), (left, right), column, here)


def _targets(code: Code, p: SimpleNamespace, rows: Value, phase: list[Value], lines: tuple[Value, Value],
             across: tuple[Value, Value], pitch: Value) -> Value:  # fmt: skip
    """Write the offsets of sources of a phase's targets in a piece, and the places of targets; how many there are."""
    (low, high), (left, right) = lines, across
    first, step, source_step = phase[8], phase[9], phase[11]
    begin = code.maximum((left - first + step - 1) // step, 0)
    end = code.minimum(phase[10], (right - first + step - 1) // step)
    count = code.variable("i64", 0)
    with code.loop(low, high) as line:
        rest = line // p.height
        n = rest // p.depth
        h, d = line - rest * p.height - phase[4], rest - n * p.depth - phase[0]
        y, z = h // phase[5], d // phase[1]
        met = (h == y * phase[5]) & (d == z * phase[1]) & (y >= 0) & (y < phase[6]) & (z >= 0) & (z < phase[2])
        with code.when(met):
            source = n * p.volume + z * phase[3] + y * phase[7]
            local = (line - low) * (right - left) - left
            put = code.select(p.last != 0, line * p.width, local) + first
            at = count.get() - begin
            with code.loop(begin, end) as k:
                code.store(source + k * source_step, rows, at + k)
                code.store((put + k * step) * pitch, rows, at + k + ROWS)
            count.add(code.maximum(end - begin, 0))
    return count.get()


def _to_planes(code: Code, p: SimpleNamespace, out: Value, local: Value, pitch: Value, lines: tuple[Value, Value],
               across: tuple[Value, Value], column: Value, here: Value) -> None:  # fmt: skip
    """Turn a piece into planes of channels, sample by sample."""
    (low, high), (left, right) = lines, across
    line = code.variable("i64", low)
    in_sample, wide = p.depth * p.height, right - left
    with code.forever() as leave:
        at = line.get()
        leave(at >= high)
        n = at // in_sample
        stop = code.minimum((n + 1) * in_sample, high)
        to = ((n * p.channels + column) * in_sample + at - n * in_sample) * p.width + left
        source = local + 4 * (at - low) * wide * pitch
        with code.loop(0, here, TURNED) as k:  # a few planes at a time: of many, lines are written in two parts
            call(code, p.turn_plain, source + 4 * k, pitch, code.minimum(here - k, TURNED),
                 out + p.written * (to + k * in_sample * p.width), in_sample * p.width, 0, (stop - at) * wide)  # fmt: skip
        line.set(stop)


@native("qqqp", vectorize=False)
def sum_windows(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Pieces [first, last) of the weight gradient: some channels, with all cells, and some panels of `right`."""
    image, right, out, words = arguments
    p = code.words(words, WINDOWS)
    local = code.cast(code.array("float", SCRATCH), "i64")
    table = code.array("i64", SUMMED)
    at = code.cast(table, "i64")
    offsets, starts, ranges = (code.cast(address, "ptr") for address in (p.offsets, p.starts, p.ranges))
    pitch = p.together * p.tile_columns
    with code.loop(first, last) as number:
        group = number // (p.parts * p.column_parts)
        rest = number - group * p.parts * p.column_parts
        begin = rest // p.parts
        channel = (rest - begin * p.parts) * p.some
        begin = begin * p.together
        end = code.minimum(begin + p.together, p.in_group)
        here = code.minimum(p.some, p.channels - channel)
        place, base = code.variable("i64", 0), code.variable("i64", 0)  # of a window in its sample, and of the sample
        with code.loop(0, p.all_windows, SUMMED) as low:
            count = code.minimum(p.all_windows - low, SUMMED)
            first_place = place.get()
            inside = first_place + count <= p.in_sample  # of one sample: the offsets are in the table of all samples
            sample = code.select(inside, image + 4 * base.get(), image)
            places = code.select(inside, p.offsets + 8 * first_place, at)
            with code.when(inside):
                place.add(count)
            with code.loop(0, code.select(inside, 0, count)) as i:
                _next_sample(code, p, place, base)
                code.store(code.load("i64", offsets, place.get()) + base.get(), table, i)
                place.add(1)
            _next_sample(code, p, place, base)
            begins = code.cast(low == 0, "i64")
            with code.loop(begin, end) as j:
                packed = (low * p.groups * p.in_group + (group * p.in_group + j) * count) * p.tile_columns
                in_place = low * p.step + group * p.columns + j * p.tile_columns
                b = right + 4 * code.select(p.step == 0, packed, in_place)
                line = code.select(p.step == 0, p.tile_columns, p.step)
                with code.loop(0, p.start_count) as run:
                    low_place, high_place = (code.load("i64", ranges, 2 * run + k) - first_place for k in range(2))
                    skipped = code.select(inside, code.maximum(low_place, 0), 0)
                    met = code.select(inside, code.maximum(code.minimum(high_place, count) - skipped, 0), count)
                    a = sample + 4 * (group * p.group_step + channel + code.load("i64", starts, run))
                    to = local + 4 * (run * p.joined * p.some * pitch + (j - begin) * p.tile_columns)
                    with code.loop(0, here * p.joined, p.tile_rows) as i:
                        call(code, p.tile, a + 4 * i, 0, places + 8 * skipped, met, 0, b + 4 * skipped * line, p.step,
                             to + 4 * i * pitch, pitch, 0, code.minimum(p.tile_rows, here * p.joined - i), p.tile_columns,
                             begins)  # fmt: skip
        column = group * p.columns + begin * p.tile_columns
        wide = code.minimum(p.columns, end * p.tile_columns) - begin * p.tile_columns
        is_last = p.last != 0
        with code.loop(0, code.select(is_last, p.cells, 1)) as cell:
            last_to, to = (column * p.cells + cell) * p.channels + channel, (column * p.channels + channel) * p.cells
            call(code, p.turn, local + 4 * cell * p.some * pitch, pitch, wide, out + 4 * code.select(is_last, last_to, to),
                 p.cells * p.channels, p.order, code.select(is_last, here, here * p.cells))  # fmt: skip


def _next_sample(code: Code, p: SimpleNamespace, place: Variable, base: Variable) -> None:
    """Go to the next sample if there is no window left in this one."""
    with code.when(place.get() == p.in_sample):
        place.set(0)
        base.add(p.volume)
