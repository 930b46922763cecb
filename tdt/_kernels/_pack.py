"""Packing of matrices into the panels that register tiles read (`_tile`), and turning of blocks; functions without Numba.

Matrices are of float32, of bfloat16, which is converted to float32 on the way (`half`), or of float64 (`item` 8).

A panel is [k][columns]: for each k, the elements of a tile's rows or columns lie together. A packer fills as many panels as
`high` columns need, one after the other (panel p from out + p · count · columns on). It has one of two forms, after the
order of the elements in memory:

    "lines"    element (k, i) lies at source + k · step + i: it is copied; the last panel is filled up with zeros
    "columns"  element (k, i) lies at source + i · step + k: blocks of 8 × 8 are turned in registers, of float64 4 × 4; the
               last panel is filled up with the last column

`turner` gives the function that turns up to eight columns (four of float64) into lines anywhere, without a panel. In a kernel:

    function = packer("columns", shape.columns, shape.width)    # an argument of the kernel
    ...
    pack(function, place(w, j * depth + k), depth, count, place(panels, 0), 0, columns)
"""

from __future__ import annotations

from typing import Any

from tdt._kernels._native import linked
from tdt._kernels._tile import FUNCTION, Routine

WORDS = ("source", "step", "count", "out", "pitch", "high")
BLOCK = 8  # rows and columns that are turned at a time


def block_of(item: int) -> int:
    """Rows and columns that are turned at a time, of elements of so many bytes."""
    return 4 * BLOCK // item


def packer(form: str, columns: int, width: int, half: bool = False, item: int = 4) -> int:
    """The address of a function, for `pack`, that fills panels of so many columns.

    Args:
        form: "lines" or "columns": which of them are contiguous in memory.
        width: numbers in a vector.
        half: the matrix is of bfloat16; steps count its elements.
        item: bytes of an element of the panels.
    """
    assert form in ("lines", "columns"), f"a form is lines or columns, not {form}"
    name = f"pack_{form}_{columns}x{width}x{item}{'_half' * half}"
    written = Lines if form == "lines" else Columns
    return linked(name, [FUNCTION], lambda: written(columns, width, half=half, item=item).module)[0]


def turner(item: int = 4, block: int = 0) -> int:
    """The address of a function, for `pack`: element k of column i < high ≤ block goes to out[k · pitch + i].

    block: `block_of(item)` (also for 0), or the numbers of a vector.
    """
    block = block or block_of(item)
    return linked(f"turn_{block}x{item}", [FUNCTION], lambda: Columns(0, block, item=item).module)[0]


class Source(Routine):
    """A function that reads a matrix of elements of `item` bytes, or of bfloat16 if `half`, as float32."""

    def __init__(self, words: tuple[str, ...], width: int, half: bool, name: str = FUNCTION, item: int = 4):
        super().__init__(words, width, name, item)
        self.half, self.size = half, 2 if half else item

    def element_at(self, address: Any, offset: Any) -> Any:
        """The element at so many bytes after an address."""
        value = self.builder.load(self.at(address, offset, self.ir.IntType(16) if self.half else self.real))
        if not self.half:
            return value
        return self.builder.bitcast(self.builder.shl(self.builder.zext(value, self.i32), self.i32(16)), self.f32)


def elements_at(routine: Routine, address: Any, index: int, count: int, half: bool = False, mask: Any = None) -> Any:
    """The `count` numbers from element `index` on of an array, or one of bfloat16; zeros where the mask is not set."""
    builder, ir, size = routine.builder, routine.ir, 2 if half else routine.item
    kind = ir.VectorType(ir.IntType(16) if half else routine.real, count)
    pointer = routine.at(address, size * index, kind)
    if mask is None:
        value = builder.load(pointer)
        value.align = size
    else:
        name, zeros = f"llvm.masked.load.v{count}{'i16' if half else f'f{8 * size}'}.p0", ir.Constant(kind, [0] * count)
        value = routine.intrinsic(name, kind, [pointer, routine.i32(size), mask, zeros])
    if not half:
        return value
    words = ir.VectorType(routine.i32, count)
    value = builder.shl(builder.zext(value, words), ir.Constant(words, [16] * count))
    return builder.bitcast(value, ir.VectorType(routine.f32, count))


def nearest(routine: Routine, value: Any) -> Any:
    """The words of bfloat16 that are nearest to a vector of float32, as `_bfloat16.rounded` gives them."""
    builder, kind = routine.builder, routine.ir.VectorType(routine.i32, value.type.count)
    number = lambda n: routine.ir.Constant(kind, [n] * kind.count)  # noqa: E731
    bits = builder.bitcast(value, kind)
    odd = builder.and_(builder.lshr(bits, number(16)), number(1))
    quiet = builder.or_(builder.and_(bits, number(0x80000000)), number(0x7FC00000))
    found = builder.add(bits, builder.add(odd, number(0x7FFF)))
    found = builder.select(builder.fcmp_unordered("uno", value, value), quiet, found)
    words = routine.ir.VectorType(routine.ir.IntType(16), kind.count)
    return builder.trunc(builder.lshr(found, number(16)), words)


class Lines(Source):
    """Copies lines of `high` elements into panels of `columns`, one after the other: eight lines of each panel at a time, so
    that lines are read as streams and panels written in whole cache lines."""

    def __init__(self, columns: int, width: int, name: str = FUNCTION, half: bool = False, item: int = 4):
        super().__init__(WORDS, width, half, name, item)
        builder, values = self.builder, self.values
        self.columns, self.line = columns, self.number(item * columns)
        self.step, self.panel = self.bytes_of(values["step"], self.size), builder.mul(values["count"], self.line)
        panels = builder.udiv(values["high"], self.number(columns))
        rest = builder.urem(values["high"], self.number(columns))
        starts = range(0, columns, width)
        edge = [self.mask(rest, start) for start in starts]
        whole = [None if start + width <= columns else self.mask(self.number(columns), start) for start in starts]
        some = builder.icmp_signed(">", rest, self.number(0))

        def lines(count: int) -> Any:
            def copy(state: list[Any]) -> list[Any]:
                source, out = state
                end = self.loop(panels, [source, out], lambda state: self.copy(*state, count, whole))
                with builder.if_then(some):
                    self.copy(*end, count, edge)
                return [
                    builder.add(source, builder.mul(self.step, self.number(count))),
                    builder.add(out, self.number(item * columns * count)),
                ]

            return copy

        state = self.loop(
            builder.lshr(values["count"], self.number(3)), [values["source"], values["out"]], lines(BLOCK)
        )
        self.loop(builder.and_(values["count"], self.number(BLOCK - 1)), state, lines(1))
        builder.ret_void()

    def copy(self, source: Any, out: Any, count: int, masks: list[Any]) -> list[Any]:
        """Copy some lines of one panel; the addresses for the next one."""
        after = self.builder.add(source, self.number(self.size * self.columns)), self.builder.add(out, self.panel)
        for u in range(count):
            for k, mask in enumerate(masks):
                start, lanes = k * self.width, min(self.width, self.columns - k * self.width)
                value = elements_at(self, source, start, self.width, self.half, mask)
                store_lanes(self, value, out, self.item * (u * self.columns + start), lanes)
            source = self.builder.add(source, self.step)
        return list(after)


class Columns(Source):
    """Turns columns into lines: of panels of `columns` elements, one after the other, or, if that is 0, of up to a block's,
    `pitch` apart. Blocks of whole vectors where these are longer and fill the panel, so that lines are written whole."""

    def __init__(self, columns: int, width: int, name: str = FUNCTION, half: bool = False, item: int = 4):
        least = block_of(item)
        self.block = width if columns % width == 0 and width > least else least
        super().__init__(WORDS, self.block, half, name, item)
        builder, values = self.builder, self.values
        self.line = self.number(item * columns) if columns else self.bytes_of(values["pitch"])
        self.last = builder.sub(values["high"], self.number(1))
        if columns:
            panels = builder.udiv(builder.add(self.last, self.number(columns)), self.number(columns))
            size = builder.mul(values["count"], self.line)
            whole, rest = divmod(columns, self.block)

            def panel(state: list[Any]) -> list[Any]:
                first, out = state
                _, after = self.loop(self.number(whole), [first, out], lambda state: self.group(*state, self.block))
                if rest:
                    self.group(builder.add(first, self.number(whole * self.block)), after, rest)
                return [builder.add(first, self.number(columns)), builder.add(out, size)]

            self.loop(panels, [self.number(0), values["out"]], panel)
        else:
            full = builder.icmp_signed(">=", values["high"], self.number(self.block))
            with builder.if_else(full) as (yes, no):
                for branch, lanes in ((yes, self.block), (no, 0)):
                    with branch:
                        self.group(self.number(0), values["out"], lanes)
        builder.ret_void()

    def group(self, first: Any, out: Any, lanes: int) -> list[Any]:
        """Turn a block's columns from `first` on, of which so many are stored (0: `high`); where the next block's begin."""
        builder, values, block = self.builder, self.values, self.block
        index = [self.smaller(builder.add(first, self.number(i)), self.last) for i in range(block)]
        step = self.bytes_of(values["step"], self.size)
        sources = [builder.add(values["source"], builder.mul(i, step)) for i in index]
        mask = None if lanes else self.mask(values["high"])

        def whole(state: list[Any]) -> list[Any]:
            offset, target = state
            for row in turned(self, [builder.add(source, offset) for source in sources], self.half):
                store_lanes(self, row, target, 0, lanes or block, mask)
                target = builder.add(target, self.line)
            return [builder.add(offset, self.number(self.size * block)), target]

        def single(state: list[Any]) -> list[Any]:
            """One line, an element at a time: of fewer than a block's that are left."""
            offset, target = state
            value = self.zero
            for i, source in enumerate(sources):
                value = builder.insert_element(value, self.element_at(source, offset), self.i32(i))
            store_lanes(self, value, target, 0, lanes or block, mask)
            return [builder.add(offset, self.number(self.size)), builder.add(target, self.line)]

        blocks = builder.lshr(values["count"], self.number(block.bit_length() - 1))
        state = self.loop(blocks, [self.number(0), out], whole)
        self.loop(builder.and_(values["count"], self.number(block - 1)), state, single)
        return [builder.add(first, self.number(block)), builder.add(out, self.number(self.item * block))]


def turned(routine: Routine, addresses: list[Any], half: bool = False, mask: Any = None) -> list[Any]:
    """The vectors of so many numbers at these addresses, 4, 8 or 16 of them, or of bfloat16, as a block turned.

    Elements whose mask is not set are not read.

    Parts of 128 bits are loaded: with four floats in each, rows i, i + 4, … become the parts of one vector. So four rows are
    turned by eight shuffles within parts, where shuffles of whole vectors would take twice as many.
    """
    ir, block, part = routine.ir, len(addresses), 16 // routine.item
    kind, letter = ir.VectorType(routine.real, block), f"f{8 * routine.item}"

    def joined(parts: list[Any]) -> Any:
        value = ir.Constant(kind, ir.Undefined)
        for i, each in enumerate(parts):
            arguments = [value, each, ir.Constant(routine.i64, part * i)]
            value = routine.intrinsic(f"llvm.vector.insert.v{block}{letter}.v{part}{letter}", kind, arguments)
        return value

    lines = []
    for start in range(0, block, part):
        some = None if mask is None else shuffle(routine, mask, mask, list(range(start, start + part)))
        parts = [elements_at(routine, address, start, part, half, some) for address in addresses]
        rows = [joined(parts[i::part]) for i in range(part)]
        lines += turned_parts(routine, rows)
    return lines


def turned_parts(routine: Routine, rows: list[Any]) -> list[Any]:
    """Four vectors, of which each 128 bits are the rows of a block of 4 × 4, with these blocks turned; two of float64."""
    block, part = rows[0].type.count, len(rows)

    def shuffled(a: Any, b: Any, order: list[int]) -> Any:
        """Of each part of a, and the same of b, counted from 4 on, these elements."""
        places = [start + (block - part if e >= part else 0) + e for start in range(0, block, part) for e in order]
        return shuffle(routine, a, b, places)

    if part == 2:
        return [shuffled(*rows, order) for order in ([0, 2], [1, 3])]
    low, high = [0, 4, 1, 5], [2, 6, 3, 7]
    pairs = [shuffled(rows[i], rows[i + 1], order) for order in (low, high) for i in (0, 2)]
    left, right = [0, 1, 4, 5], [2, 3, 6, 7]
    return [shuffled(pairs[i], pairs[i + 1], order) for i in (0, 2) for order in (left, right)]


def shuffle(routine: Routine, a: Any, b: Any, places: list[int]) -> Any:
    """The elements of two vectors at these places, counted through both."""
    return routine.builder.shuffle_vector(
        a, b, routine.ir.Constant(routine.ir.VectorType(routine.i32, len(places)), places)
    )


def turned_halves(routine: Routine, addresses: list[Any], mask: Any = None) -> list[Any]:
    """Eight vectors, the lines of sixteen columns of eight floats at these addresses; zeros where a mask is not set. Of float64
    four, of eight columns of four numbers.

    Halves of vectors are loaded, as more inserts and fewer shuffles would take longer beside other instructions.
    """
    pairs = range(block_of(routine.item))
    return turned_pairs(routine, [pair_of_halves(routine, addresses, k, mask) for k in pairs])


def pair_of_halves(routine: Routine, addresses: list[Any], number: int, mask: Any = None) -> Any:
    """Of the vectors that `turned_pairs` takes one: half a vector of each of two columns."""
    block, part = block_of(routine.item), 16 // routine.item
    first = number % part + block * (number // part)
    low, high = (elements_at(routine, addresses[k], 0, block, mask=mask) for k in (first, first + part))
    return shuffle(routine, low, high, list(range(2 * block)))


def turned_pairs(routine: Routine, joined: list[Any]) -> list[Any]:
    """`turned_halves`, of what has been read."""
    block, part = block_of(routine.item), 16 // routine.item
    parts = turned_parts(routine, joined[:part]), turned_parts(routine, joined[part:])
    lines = []
    for start in (0, part):  # of the parts of a half
        first = [*range(start, start + part), *range(start + block, start + block + part)]
        places = [*first, *[2 * block + place for place in first]]
        lines += [shuffle(routine, a, b, places) for a, b in zip(*parts, strict=True)]
    return lines


def store_lanes(routine: Routine, value: Any, address: Any, offset: int, count: int, mask: Any = None) -> None:
    """Store the first lanes of a vector, in powers of two; or those of a mask."""
    ir, builder = routine.ir, routine.builder
    width = value.type.count
    if mask is not None or count == width:
        routine.write(value, address, offset, mask)
        return
    start = 0
    for size in (8, 4, 2, 1):
        if count & size:
            order = ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(start, start + size)))
            part = builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)
            routine.write(part, address, offset + routine.item * start)
            start += size
