"""Matrix products in float32 or float64: packed, in blocks for the caches, of register tiles (`_tile`), on the pool's threads.

    for a block of columns, for DEPTH of the sum: pack the right operand into panels
        for a block of rows: pack the left operand's, unless few panels read it
            for each panel of columns, for each tile of rows: the tile adds its sum to the result

after Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008. Lines of the right operand that are
contiguous are packed by the first tile that reads them (`_packing_tile`). A tile sums up to DEPTH products in order with `fma`,
and these sums are added in order: an element has one value, whatever the size and the memory order of the matrices, the tile,
the cut into blocks and the number of threads. Operands of bfloat16 are converted while they are packed; a result of bfloat16 is
rounded a panel at a time, when its sums are complete.

Operands may be transposed or stacked, without a copy. Where the right one has few readers (rows of the left) packing would
cost more than it saves: if its columns are contiguous as in `linear`, the transposed product is computed, with the left operand
packed instead, and turned. Small matrices, and those with the fewest rows or one column, are `_direct`'s: here their stacks and
columns are cut for the threads.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels import _direct
from tdt._kernels._addresses import address_of
from tdt._kernels._bfloat16 import round_block
from tdt._kernels._code import Code, Value, native
from tdt._kernels._cut import cut
from tdt._kernels._formulas import BFLOAT16, FLOAT32, FLOAT64, narrow, widen
from tdt._kernels._launches import WATCH, note
from tdt._kernels._native import Entry, NativeKernel, vector_width
from tdt._kernels._pack import packer, turner
from tdt._kernels._packing_tile import packing_address
from tdt._kernels._planned import planned
from tdt._kernels._pool import parallel
from tdt._kernels._product_conditions import DEPTH, MOST_TURNED, SHALLOW, few_columns, is_direct
from tdt._kernels._threads import THREADS
from tdt._kernels._tile import Shape, address, call, choose_for, choose_with_edge, edge, limited_shape, width_of

LONGEST = (
    2 * DEPTH
)  # a sum below it is packed as a whole, in blocks of half as many rows and columns: the result is written once
ROWS = 192  # rows of the left operand in a block, or some fewer: packed 196 kB, a part of a level-two cache; half of float64
COLUMNS = 768  # columns of the right operand in a block: 786 kB; a multiple of every tile's; half of float64
GRAIN = 1 << 19  # multiply-adds that a piece of work should at least have: some 5 µs
READ = 8  # multiply-adds that take as long as to read one from a level-two cache, at least
# Results that are fetched while the one before is computed: of so many bytes, in stacks of so many, that a cache does not keep
# them, of sums up to so many products. The processor foresees no writes to lines in this order.
SHORT, MANY, SHORT_SUM = 1 << 13, 1 << 23, 16
PIECES = 2  # of each thread, so that one that starts late costs little
FEW_PANELS = 4  # panels of columns up to which the left operand is read where it lies
# Elements of a right operand whose lines a tile packs: narrow tiles read short pieces of lines in as many pages.
PACKED_BY_TILES = {8: 1 << 19, 16: 1 << 62}
TURNED_ROWS = 128  # rows of the left operand up to which the transposed product may be computed
TURN_BACK = 2.5  # the time to turn an element of its result, in those to pack one
TURNED_SIZE = 1 << 16  # floats of a piece of it, which is computed in scratch memory
RIGHT_SIZE, LEFT_SIZE = DEPTH * (COLUMNS + 128), DEPTH * (ROWS + 64)  # floats of what is packed at a time
TILES_PACK = (
    "",
    "from row",
    "from column",
)  # limits with which the first tile reads all lines of the right operand that others do
LIMITS_OF_ROWS = ("to row", "from row")
CELL = 32  # where the table of a plan has a 0: a tile has fewer rows

# The words of a plan. Of the left and the right operand: bytes from stack to stack, from matrix to matrix, to the next row
# (column), to the next k; elements from line to line. M, N, K are the sizes of left @ right; PITCH is that of the result.
(M, N, K, DOWN, ACROSS, PIECE_ROWS, PIECE_COLUMNS, BLOCK_ROWS, INNER, L_OUTER, L_INNER, L_ROW, L_K, L_STEP, R_OUTER,
 R_INNER, R_COLUMN, R_K, R_STEP, C_NEXT, PITCH, TILE_ROWS, TILE_COLUMNS, TILE, EDGE_COLUMNS, EDGE, LEFT, RIGHT, TURN, SPAN,
 AHEAD, PACKING, TABLE) = range(33)  # fmt: skip
LINE, WORD = 8, 8  # words of a cache line, bytes of a word
FLOATS = (4, 4)  # bytes of an element of each operand
ADDRESSES = struct.Struct("=qqqqq").pack


@native("pqqqqqqqqq", vectorize=False)
def _pieces(code: Code, first: Value, last: Value, arguments: list[Value], item: int, limit: str = "") -> None:
    """Pieces of products left @ right: blocks of rows and columns of each matrix of a stack. Addresses are words.

    item: bytes of an element of the result: 4 of float32, 8 of float64. limit: of `_limits`; then the result is float32.

    half_all: of the result in bfloat16, or 0. Then sums of more than DEPTH products are in `c_all` until they are complete.
    """
    words, flags, parts, scratch, scratch_size, l_all, r_all, c_all, bias, half_all = arguments
    plan = [code.load("i64", words, k) for k in range(TABLE + 1)]
    number = code.variable("i64", 0)
    with code.forever() as leave:  # until a part of the scratch memory is free
        leave(_add(code, flags, number.get(), 1) == 0)
        _add(code, flags, number.get(), -1)
        number.set((number.get() + 1) % parts)
    right = scratch + number.get() * scratch_size
    left, turned = right + 4 * RIGHT_SIZE, right + 4 * (RIGHT_SIZE + LEFT_SIZE)
    turns = plan[TURN] != 0
    with code.loop(first, last) as piece:
        matrix = piece // (plan[DOWN] * plan[ACROSS])
        part = piece - matrix * plan[DOWN] * plan[ACROSS]
        outer, down = matrix // plan[INNER], part // plan[ACROSS]
        inner, across = matrix - outer * plan[INNER], part - down * plan[ACROSS]
        low, begin = down * plan[PIECE_ROWS], across * plan[PIECE_COLUMNS]
        height = code.minimum(plan[PIECE_ROWS], plan[M] - low)
        l_piece = l_all + outer * plan[L_OUTER] + inner * plan[L_INNER] + low * plan[L_ROW]
        r_piece = r_all + outer * plan[R_OUTER] + inner * plan[R_INNER]
        c_piece = c_all + matrix * plan[C_NEXT]
        with code.loop(0, plan[AHEAD], 8 * LINE) as offset:
            code.prefetch(c_piece + plan[C_NEXT] + offset, writes=True)
        half = code.value(0, "i64")
        if item == 4:
            half = code.select(half_all == 0, 0, half_all + (matrix * plan[C_NEXT] >> 1) + 2 * low * plan[PITCH])
        # A turned product is computed in scratch memory first.
        out = code.select(turns, turned, c_piece + item * low * plan[PITCH])
        pitch = code.select(turns, plan[N], plan[PITCH])
        most = code.value(COLUMNS * DEPTH * 4 // item, "i64") // plan[SPAN]
        with code.loop(begin, code.minimum(begin + plan[PIECE_COLUMNS], plan[N]), most) as jc:
            wide = code.minimum(code.minimum(begin + plan[PIECE_COLUMNS], plan[N]) - jc, most)
            with code.loop(0, plan[K], plan[SPAN]) as pc:
                _block(code, plan, (left, right), (l_piece + pc * plan[L_K], r_piece + pc * plan[R_K] + jc * plan[R_COLUMN]),
                       (height, wide, code.minimum(plan[K] - pc, plan[SPAN])), (out + item * jc, pitch), pc,
                       _bias_of(turns, bias, jc, item), (code.select(turns | (half == 0), 0, half + 2 * jc), turned),
                       item, (limit, low, jc))  # fmt: skip
        with code.when(turns):
            turn = functools.partial(call, code, plan[TURN])
            _direct.turn_back(code, turn, (turned, pitch), (height, plan[N]), (c_piece + item * low, plan[PITCH]),
                              _bias_of(bias == 0, bias, low, item), item, width_of(item))  # fmt: skip
            if item == 4:
                with code.when(half_all != 0):
                    to = half_all + (matrix * plan[C_NEXT] >> 1) + 2 * low
                    round_block(code, plan[N], height, c_piece + 4 * low, plan[PITCH], to, plan[PITCH])
    _add(code, flags, number.get(), -1)


def _bias_of(none: Value, bias: Value, first: Value, item: int) -> Value:
    """The address of the bias from column `first` on, or 0."""
    return none.code.select(none | (bias == 0), 0, bias + item * first)


def _block(code: Code, plan: list[Value], packed: tuple, operands: tuple, sizes: tuple, result: tuple, pc: Value,
           bias: Value, rounded: tuple, item: int, limits: tuple) -> None:  # fmt: skip
    """All tiles of a block of columns and of the sum from `pc` on.

    packed: addresses for the packed left and right operand. operands: those of their first elements. sizes: rows, columns, and
    products of the sum. result: address and pitch. rounded: address of the result in bfloat16, or 0, memory for a panel of it.
    limits: of `_limits`, or "", and the first row and column of the block in its matrix.
    """
    (left, right), (l_all, r_block), (height, wide, span), (out, pitch) = packed, operands, sizes, result
    (half, rounding), (limit, top, side) = rounded, limits
    rows, columns = plan[TILE_ROWS], plan[TILE_COLUMNS]
    packs = plan[LEFT] != 0
    padded = (wide + columns - 1) // columns * columns
    packing = plan[PACKING]
    with code.when(packing == 0), _depths(code, span) as (start, depth):
        to = right + item * start * padded
        call(code, plan[RIGHT], r_block + start * plan[R_K], plan[R_STEP], depth, to, 0, wide)
    with code.loop(0, height, plan[BLOCK_ROWS]) as ic:
        tall = code.minimum(plan[BLOCK_ROWS], height - ic)
        l_first, filled = l_all + ic * plan[L_ROW], (tall + rows - 1) // rows * rows
        with code.when(packs), _depths(code, span) as (start, depth):
            to = left + item * start * filled
            _pack_left(code, plan, l_first, to, (ic, tall), (start, depth), pc, item, limits)
        with code.loop(0, wide, columns) as j, _depths(code, span) as (start, depth):
            ends = pc + start + depth == plan[K]
            added = code.select(ends & (bias != 0), bias + item * j, 0)
            to_half = ends & (half != 0)
            alone = to_half & (pc + start == 0)  # then the sums need not be kept
            to = code.select(alone, columns, pitch)
            l_block = code.select(packs, left + item * start * filled, l_first + start * plan[L_K])
            l_next = code.select(packs, item * depth, plan[L_ROW])
            here = code.minimum(columns, wide - j)
            tile = code.select(here <= plan[EDGE_COLUMNS], plan[EDGE], plan[TILE])
            lines = right + item * (start * padded + j * depth)

            def compute(i: Value, tile: Value, b: Value, step: Value, *panel: Value) -> None:
                high = code.minimum(rows, tall - i)
                sums = code.select(alone, rounding, out + item * ((ic + i) * pitch + j))
                skipped, end, begins = _limits(limit, top + ic + i, high, side + j, pc + start, depth)
                width = here
                if limit == "columns":  # the last tile of a row may be narrow
                    narrow = top + ic + i + high - side - j <= plan[EDGE_COLUMNS]
                    tile = code.select(narrow, plan[EDGE], tile)
                    width = code.select(narrow, code.minimum(here, plan[EDGE_COLUMNS]), here)
                a = l_block + i * l_next + skipped * code.select(packs, item * rows, plan[L_K])
                with code.when(end > skipped):
                    call(code, tile, a, plan[TABLE], plan[TABLE] + 8 * CELL, code.select(packs, end - skipped, 1),
                         end - skipped, b + item * step * skipped, step, sums, to, added, high, width,
                         code.cast(begins, "i64"), *[p + item * columns * skipped for p in panel])  # fmt: skip
                    if item == 4:
                        with code.when(to_half):
                            rounded_to = half + 2 * ((ic + i) * plan[PITCH] + j)
                            round_block(code, high, here, sums, to, rounded_to, plan[PITCH])

            first = code.select((packing != 0) & (ic == 0), rows, 0)
            with code.when(first != 0):
                compute(code.value(0, "i64"), packing, r_block + start * plan[R_K] + item * j, plan[R_STEP], lines)
            with code.loop(first, tall, rows) as i:
                compute(i, tile, lines, columns)


def _pack_left(code: Code, plan: list[Value], source: Value, to: Value, lines: tuple[Value, Value], part: tuple[Value, Value],
               pc: Value, item: int, limits: tuple) -> None:  # fmt: skip
    """Pack some of the left operand's rows for a part of the sum from `pc` on.

    lines: the first row in the block, and how many. part: the first product, and how many. limits: as of `_block`.
    """
    (ic, tall), (start, depth), (limit, top, side), rows = lines, part, limits, plan[TILE_ROWS]
    if limit not in LIMITS_OF_ROWS:
        call(code, plan[LEFT], source + start * plan[L_K], plan[L_STEP], depth, to, 0, tall)
        return
    with code.loop(0, tall, rows) as i:  # what each tile has products of
        high = code.minimum(rows, tall - i)
        skipped, end, _ = _limits(limit, top + ic + i, high, side, pc + start, depth)
        with code.when(end > skipped):
            begin = source + i * plan[L_ROW] + (start + skipped) * plan[L_K]
            panel = to + item * (i * depth + rows * skipped)
            call(code, plan[LEFT], begin, plan[L_STEP], end - skipped, panel, 0, high)


def _limits(limit: str, row: Value, high: Value, column: Value, at: Value, depth: Value) -> tuple[Value, Value, Value]:
    """What a tile computes of the products [at, at + depth): from where on, up to where, and whether these are the first.

    limit: of `limited`, or "".
    row, high, column: the tile's first row, how many rows it has, its first column.
    """
    code, zero = row.code, row.code.value(0, "i64")
    if limit == "to row":
        return zero, code.minimum(depth, row + high - at), at == 0
    if limit == "from row":
        return code.maximum(row - at, 0), depth, at <= row
    if limit == "from column":
        return code.maximum(column - at, 0), depth, at <= column
    return zero, code.select(column < row + high, depth, 0) if limit else depth, at == 0


@contextlib.contextmanager
def _depths(code: Code, span: Value) -> Iterator[tuple[Value, Value]]:
    """A loop over parts of a sum that a tile computes: the start of each, and its size."""
    with code.loop(0, span, DEPTH) as start:
        yield start, code.minimum(span - start, DEPTH)


def _add(code: Code, flags: Value, number: Value, value: int) -> Value:
    """Add to a flag atomically; its value before."""
    flag = code.cast(flags + 8 * LINE * number, "ptr")
    return code.new("i64", f"atomicrmw add ptr {flag.name}, i64 {value} seq_cst")


class Operand(NamedTuple):
    """Where the elements of a stack of matrices lie, in bytes: a line is a row of the left or a column of the right one.

    size: bytes of an element: 4 of float32, 8 of float64, 2 of bfloat16.
    """

    outer: int
    inner: int
    line: int
    k: int
    size: int

    def step(self) -> int:
        """Elements from one contiguous run to the next."""
        return (self.line if self.k == self.size else self.k) // self.size

    def packer(self, columns: int, width: int) -> int:
        return packer("columns" if self.k == self.size else "lines", columns, width, self.size == 2, max(self.size, 4))


class _Scratch:
    """Memory for packed operands: a part for each thread that works at the same time, and flags of those in use."""

    def __init__(self, parts: int):
        self.parts = parts
        # The rows of a turned piece are rounded up to a tile's.
        self.size = 4 * (RIGHT_SIZE + LEFT_SIZE + TURNED_SIZE + CELL * max(2 * TURNED_ROWS, MOST_TURNED))
        self.memory = np.empty(parts * self.size + 64, np.uint8)
        self.address = -(-address_of(self.memory) // 64) * 64
        self.flags = np.zeros(parts * LINE, np.int64)


_scratch: _Scratch | None = None


def _scratch_for(threads: int) -> _Scratch:
    global _scratch
    scratch = _scratch
    if scratch is None or scratch.parts < threads:
        scratch = _scratch = _Scratch(threads)
    return scratch


def _after_fork() -> None:
    global _scratch
    _scratch = None  # its flags may be those of threads that the child does not have
    _plan.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Plan:
    """How products of certain shapes and strides are computed by some threads.

    Attributes:
        shape, dtype: of the result; the dtype is that of the sums.
        copied: whether the operands are copied, as no line of theirs is contiguous.
        turned: whether it is the transposed product.
        limit: of `_limits`, if only a part is computed.
        pieces: of the work; 0: the sum is empty.
        grain: pieces that a thread should at least have.
        entry, start: the kernel, and its packed arguments but the addresses of arrays.
        summed: whether a result of bfloat16 needs memory for its sums.
        references: what the arguments point into.
        parts: of `_direct`, if it is that code, which takes no bfloat16: some may be required afterwards.
        shared: whether several threads compute it.
        alone: computes a result of that dtype on the calling thread, see `planned`; None where it is shared or operands copied.
        rounded: the same of a result in bfloat16; None before it is asked for.
    """

    __slots__ = ("shape", "dtype", "copied", "turned", "pieces", "grain", "entry", "start", "references", "summed", "shared",
                 "parts", "alone", "rounded", "work", "limit")  # fmt: skip

    def __init__(self, shape: tuple, dtype: np.dtype, copied: tuple[bool, bool] = (False, False), limit: str = ""):
        self.shape, self.dtype, self.copied, self.turned, self.pieces = shape, dtype, copied, False, 0
        self.limit = limit
        self.summed = False
        self.shared, self.alone, self.rounded, self.work = False, None, None, 0
        self.parts: _direct.Parts | None = None

    def prepare(self, words: list[int], table: np.ndarray, threads: int, work: int) -> None:
        """Set all else. words: of the plan but the address of `table`. work: multiply-adds."""
        scratch = _scratch_for(threads)
        plan = np.array([*words, address_of(table)], np.int64)
        pieces = work // (plan[M] * plan[N] * plan[K]) * plan[DOWN] * plan[ACROSS]
        arguments = (plan, address_of(scratch.flags), scratch.parts, scratch.address, scratch.size)
        references = plan, table, scratch.memory, scratch.flags
        parameters = (self.dtype.itemsize, self.limit) if self.limit else (self.dtype.itemsize,)
        self._prepare(_pieces(*parameters), arguments, 5, pieces, threads, work, references)

    def prepare_direct(self, words: list[int], pieces: int, threads: int, work: int) -> None:
        """Set all else, for the code of `_direct`. words: of its plan. work: multiply-adds."""
        plan = np.array(words, np.int64)
        item = self.dtype.itemsize
        self.parts = _direct.parts(item=item)
        references = plan, np.frombuffer(self.parts.required, np.uint8)
        self._prepare(_direct.pieces(item=item), (plan, self.parts.table), 4, pieces, threads, work, references)

    def _prepare(
        self,
        kernel: NativeKernel,
        arguments: tuple,
        addresses: int,
        pieces: int,
        threads: int,
        work: int,
        references: tuple,
    ) -> None:
        self.pieces, self.grain = pieces, -(-GRAIN * pieces // work)
        self.entry, packed = kernel.prepare((*arguments, *(0,) * addresses))
        self.start, self.references = packed[: -addresses * WORD], references
        self.shared = pieces > self.grain and threads > 1
        if not self.shared and not any(self.copied) and not self.limit:
            self.work, self.alone = work, self._planned(self.dtype, work)

    def rounds(self) -> Callable[[Any, Any, Any], Any]:
        """`rounded`, created if there is none."""
        if self.rounded is None:
            self.rounded = self._planned(BFLOAT16, self.work, FLOAT32 if self.summed else None)
        return self.rounded

    def _planned(self, dtype: np.dtype, work: int, sums: np.dtype | None = None) -> Callable[[Any, Any, Any], Any]:
        start = struct.unpack(f"={len(self.start) // WORD}q", self.start)
        return planned(self.entry.address, start, self.shape, dtype, self.pieces, work, self.turned, sums)


class _Job:
    """A call of a kernel whose arguments are packed already, as the pool calls it."""

    __slots__ = ("name", "entry", "words")

    def __init__(self, entry: Entry, words: bytes):
        self.name, self.entry, self.words = "product", entry, words

    def prepare(self, args: Sequence[Any]) -> tuple[Entry, bytes]:
        return self.entry, self.words

    def __call__(self, first: int, last: int) -> None:
        self.entry.call(self.words, first, last)


def product(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, dtype: np.dtype | None = None) -> np.ndarray:
    """a @ b for (..., M, K) and (..., K, N), plus a bias (N,); one of them may be a vector instead.

    Operands and result may be float32 or bfloat16, each of them; it is summed in float32, and rounded once. Or all are float64.

    dtype: of the result; None: that of the sums.
    """
    if not 1 < a.ndim == b.ndim or (a.ndim > 2 and a.shape[:-2] != b.shape[:-2]):
        return _unlike(a, b, bias, dtype)
    sizes = FLOATS if a.dtype is b.dtype is FLOAT32 else (a.itemsize, b.itemsize)
    plan = _plan(a.shape, a.strides, b.shape, b.strides, THREADS.count, sizes)
    rounds = dtype is not None and dtype is not plan.dtype
    if plan.parts is not None and (rounds or 2 in sizes):
        return narrow(product(*widen((a, b, bias))), dtype or FLOAT32)
    if bias is not None:
        bias = np.ascontiguousarray(bias if bias.dtype is plan.dtype else widen((bias,))[0])
    if plan.alone is not None and WATCH.trace is None:
        result = (plan.rounds() if rounds else plan.alone)(a, b, bias)
        if plan.parts is not None and plan.parts.required[0]:
            plan.parts.compile()
        return result
    half = np.empty(plan.shape, dtype) if rounds else None
    out = np.empty(plan.shape if half is None or plan.summed else 0, plan.dtype)
    if not plan.pieces:
        result = out if half is None else half
        result[...] = 0 if bias is None else bias
        return result
    if plan.copied[0]:
        a = np.ascontiguousarray(a)
    if plan.copied[1]:
        b = np.ascontiguousarray(b)
    left, right = (b, a) if plan.turned else (a, b)
    rounded = 0 if half is None else address_of(half)
    words = plan.start + ADDRESSES(
        address_of(left), address_of(right), address_of(out), 0 if bias is None else address_of(bias), rounded
    )
    if WATCH.trace is not None:
        note(plan.entry, words, plan.pieces, plan.grain, (a, b, out, bias, half, plan.references))
        plan.entry.call(words, 0, plan.pieces)
    elif plan.shared:
        parallel(_Job(plan.entry, words), plan.pieces, grain=plan.grain)  # type: ignore[arg-type]
    else:
        plan.entry.call(words, 0, plan.pieces)
    if plan.parts is not None and plan.parts.required[0]:
        plan.parts.compile()
    return out if half is None else half


def limited(a: np.ndarray, b: np.ndarray, limit: str) -> np.ndarray:
    """A part of a @ b, for (*, M, K) and (*, K, N) of float32, with the bits of `product`; other elements are 0.

    limit: "to row": of the sum of an element, the products up to the number of its row; "from row", "from column": those from the
        number of its row, or column, on. These are all if the others are 0 · x, x is finite, and the result is finite and not
        -0. "columns": the columns up to the number of the row.
    """
    plan = plan_of_limited(a, b, limit)
    a, b = (np.ascontiguousarray(x) if copied else x for x, copied in zip((a, b), plan.copied, strict=True))
    out = np.zeros(plan.shape, plan.dtype) if limit == "columns" else np.empty(plan.shape, plan.dtype)
    words = plan.start + ADDRESSES(address_of(a), address_of(b), address_of(out), 0, 0)
    if plan.shared:
        parallel(_Job(plan.entry, words), plan.pieces, grain=plan.grain)  # type: ignore[arg-type]
    else:
        plan.entry.call(words, 0, plan.pieces)
    return out


def plan_of_limited(a: np.ndarray, b: np.ndarray, limit: str) -> Plan:
    """The plan of `limited`."""
    return _plan(a.shape, a.strides, b.shape, b.strides, THREADS.count, FLOATS, limit)


def _unlike(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None, dtype: np.dtype | None) -> np.ndarray:
    """The product of a vector and matrices, or of stacks that are broadcast."""
    if a.ndim == 1:
        return product(a[None], b, bias, dtype)[..., 0, :]
    if b.ndim == 1:
        return product(a, b[:, None], bias, dtype)[..., 0]
    if b.ndim == 2 and a.flags.c_contiguous:
        return product(a.reshape(-1, a.shape[-1]), b, bias, dtype).reshape(*a.shape[:-1], b.shape[1])
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return product(a, b, bias, dtype)


def _lines(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> tuple[int, int] | None:
    """The strides of a matrix, one of which is an element, of so many bytes; None if neither is."""
    (height, width), (row, column) = shape[-2:], strides[-2:]
    if row != size and column != size:
        if width == 1:
            return row, size  # a stride that is never used
        return (size, column) if height == 1 else None
    return None if any(step % size for step in strides) else (row, column)


def _merged(sizes: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(size, step of a, step of b) of the leading sizes of two stacks, those joined that lie in order in both."""
    found: list[tuple[int, int, int]] = []
    for size, step_a, step_b in zip(sizes, a[:-2], b[:-2], strict=True):
        if size == 1:
            continue
        if found and found[-1][1:] == (size * step_a, size * step_b):
            found[-1] = found[-1][0] * size, step_a, step_b
        else:
            found.append((size, step_a, step_b))
    return found


def _contiguous(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The strides of a contiguous array of elements of so many bytes."""
    return tuple(size * math.prod(shape[k + 1 :]) for k in range(len(shape)))


@functools.lru_cache(512)
def _plan(a_shape: tuple, a_strides: tuple, b_shape: tuple, b_strides: tuple, threads: int,
          sizes: tuple[int, int] = FLOATS, limit: str = "") -> Plan:  # fmt: skip
    """The plan of a product. sizes: bytes of an element of each operand. limit: of `_limits`."""
    batch, (m, k), n = a_shape[:-2], a_shape[-2:], b_shape[-1]
    count = math.prod(batch)
    item = max(sizes[0], 4)
    dtype = FLOAT64 if item == 8 else FLOAT32
    if not count * m * n * k:
        return Plan((*batch, m, n), dtype)
    many = len(_merged(batch, a_strides, b_strides)) > 2  # then a copy
    direct = not limit and is_direct(count, (m, n, k), a_strides[-2:], b_strides[-2:], sizes)
    lines = _lines(a_shape, a_strides, sizes[0]), _lines(b_shape, b_strides, sizes[1])
    plan = Plan((*batch, m, n), dtype, tuple([many or (not direct and each is None) for each in lines]), limit)
    if plan.copied[0]:
        a_strides = _contiguous(a_shape, sizes[0])
    if plan.copied[1]:
        b_strides = _contiguous(b_shape, sizes[1])
    stacks = [(1, 0, 0), (1, 0, 0), *_merged(batch, a_strides, b_strides)][-2:]
    work = count * k * max(m * n, READ * max(m, n))
    pieces = max(1, min(threads * PIECES, work // GRAIN)) if threads > 1 else 1
    pieces = pieces if pieces < threads else -(-pieces // threads) * threads
    if direct:
        rows, columns = cut(pieces, count, (m, n), (16, 64), threads)
        down, across = -(-m // rows), -(-n // columns)
        (_, a_outer, b_outer), (inner, a_inner, b_inner) = stacks
        words = [inner, down, across, rows, columns, a_outer, a_inner, *a_strides[-2:], b_outer, b_inner, *b_strides[-2:],
                 item * m * n, item * n, m, n, k]  # fmt: skip
        plan.prepare_direct(words, count * down * across, threads, work)
        return plan
    left = Operand(stacks[0][1], stacks[1][1], *_lines(a_shape, a_strides, sizes[0]), sizes[0])
    right = Operand(stacks[0][2], stacks[1][2], *reversed(_lines(b_shape, b_strides, sizes[1])), sizes[1])
    pitch, most = n, m
    few = left.k != left.size and right.k != right.size and item == 4 and few_columns(m, n, k)
    few = few or (right.k == right.size and m <= TURNED_ROWS and m * (TURN_BACK * n + k) < n * k)
    if few and not limit:
        plan.turned = True
        left, right, m, n, most = right, left, n, m, TURNED_SIZE * 4 // item // m
    plan.summed = plan.turned or k > DEPTH
    shape, unpacked, span, block = _tiles(left, (m, n, k), item, plan.turned, limit)
    how = "rows" if unpacked else "panel"
    packed_by_tiles = PACKED_BY_TILES[vector_width()] * 4 // item
    rows, columns = cut(
        pieces, count, (m, n), (shape.rows, n if plan.turned else shape.columns), threads, -(-m // most)
    )
    table = np.zeros(CELL + 1, np.int64)
    table[:CELL] = np.arange(CELL) * (left.line // item)
    words = [
        m, n, k, -(-m // rows), -(-n // columns), rows, columns, block, stacks[1][0],
        left.outer, left.inner, left.line, left.k, left.step(), right.outer, right.inner, right.line, right.k, right.step(),
        item * m * n, pitch, shape.rows, shape.columns, address(how, shape),
        *edge(how, shape, shape.columns // 2 if limit == "columns" else n),
        0 if unpacked else left.packer(shape.rows, shape.width),
        right.packer(shape.columns, shape.width), turner(item, width_of(item)) if plan.turned else 0, span,
        item * m * n if item * m * n <= SHORT and item * count * m * n >= MANY and k <= SHORT_SUM else 0,
        packing_address(how, shape) if right.k != right.size == item and n * k <= packed_by_tiles and limit in TILES_PACK else 0,
    ]  # fmt: skip
    plan.prepare(words, table, threads, count * m * n * k)
    return plan


def _tiles(
    left: Operand, product: tuple[int, int, int], item: int, turned: bool, limit: str
) -> tuple[Shape, bool, int, int]:
    """The tile of a product, by rows, columns and products of a sum; whether it reads `left` where it lies; the products that
    are summed before the next rows, and the rows of a block."""
    m, n, k = product
    shape = limited_shape(n, limit) if limit else choose_with_edge(n, item=item)
    unpacked = left.k == left.size == item and (turned or -(-n // shape.columns) <= FEW_PANELS)
    if not unpacked and n <= shape.width:  # packed rows lie together: one vector of columns takes many of them
        shape = choose_for(m, n, item=item)
    span = LONGEST if DEPTH < k < LONGEST else DEPTH
    block = shape.rows if k <= SHALLOW else ROWS * DEPTH * 4 // item // span // shape.rows * shape.rows
    packed = -(-n // shape.columns) * shape.columns * k  # of the right operand, for whole tiles
    if unpacked and not turned and k >= LONGEST and packed <= COLUMNS * DEPTH * 4 // item:
        span, block = k, shape.rows  # a row of the left operand is read from one end to the other
    return shape, unpacked, span, block
