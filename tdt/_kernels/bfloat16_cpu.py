"""Matrix products of bfloat16 on processors with AMX or AVX-512-BF16, summed in float32 (`_dots`).

Both operands are packed into panels of 32 lines (`_pairs`). Then blocks of up to 128 × 256 results are summed, DEPTH steps of
32 k at a time, in memory on the thread's stack, and rounded once. An element has one value, whatever the layout and
the size of its matrices and the number of threads: its sum is cut by its length alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels import _dots
from tdt._kernels._addresses import address_of
from tdt._kernels._code import Code, Value, native
from tdt._kernels._dots import SIDE, STEP_BYTES, TILE, WAYS
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._pairs import CHUNK, pack, table_of
from tdt._kernels._pool import parallel

DEPTH = 8  # steps of a panel that are summed at a time: 16 KB of each operand, in a level-one cache
DOWN, ACROSS = 4, 8  # panels of a block: 128 KB of the left operand, in a level-two cache; as much of sums
BLOCK_BYTES = 4 * SIDE * SIDE
GRAIN = 1 << 22  # multiply-adds that a thread should at least have: some 10 µs
PACKED = 1 << 17  # bytes that a thread should at least pack
NAN = 0x7FC0


@native("qqqqqqqqqqqqqq")
def _blocks(code: Code, first: Value, last: Value, arguments: list[Value], way: str, rounds: bool) -> None:
    """Blocks of products of packed operands.

    Arguments: addresses of the packed operands, the result and the bias; rows and columns of a result; panels of both
    operands; steps; bytes from an operand's matrix to the next, and of results; numbers from a result's row to the next;
    whether sums are added to what is there.

    Args:
        rounds: results are bfloat16, with the bias; else float32, without.
    """
    (left, right, result, bias, rows, columns, down, across, steps, left_next, right_next, out_next, pitch,
     adds) = arguments  # fmt: skip
    dots = WAYS[way](code)
    scratch = code.array("float", DOWN * ACROSS * SIDE * SIDE)
    complete = code.array("float", SIDE * SIDE)  # of one block, which stays in the level-one cache until it is written
    blocks_down, blocks_across = (down + (DOWN - 1)) // DOWN, (across + (ACROSS - 1)) // ACROSS
    dots.begin()
    with code.loop(first, last) as piece:
        matrix = piece // (blocks_down * blocks_across)
        part = piece - matrix * blocks_down * blocks_across
        row, column = part // blocks_across * DOWN, part % blocks_across * ACROSS
        a, b, c = left + matrix * left_next, right + matrix * right_next, result + matrix * out_next
        with code.loop(0, steps, DEPTH) as begin:
            count = code.minimum(steps - begin, DEPTH)
            with (
                code.loop(0, code.minimum(across - column, ACROSS)) as j,
                code.loop(0, code.minimum(down - row, DOWN)) as i,
            ):
                block = code.at("i8", scratch, (j * DOWN + i) * BLOCK_BYTES)
                panels = [
                    address + (index * steps + begin) * STEP_BYTES for address, index in ((a, row + i), (b, column + j))
                ]
                ends = begin + count == steps
                out = code.select(ends, complete, block)
                dots.block(*(code.cast(panel, "ptr") for panel in panels), count, block, begin == 0, out)
                with code.when(ends):
                    finish(code, complete, ((row + i) * SIDE, (column + j) * SIDE), (rows, columns), c, pitch,
                            bias if rounds else None, adds)  # fmt: skip
    dots.end()


def finish(code: Code, block: Value, place: tuple[Value, Value], sizes: tuple[Value, Value], out: Value, pitch: Value,
            bias: Value | None, adds: Value) -> None:  # fmt: skip
    """Write a block of sums to its place in the result."""
    (row, column), (rows, columns) = place, sizes
    high, wide = code.minimum(rows - row, SIDE), code.minimum(columns - column, SIDE)
    size = 4 if bias is None else 2

    def write(r: Value, c: Any, count: int) -> None:
        value = code.load("float", block, r * SIDE + c, count)
        target = code.cast(out + ((row + r) * pitch + column + c) * size, "ptr")
        if bias is None:
            there = code.load("float", target, 0, count)
            zero = code.value(0.0, value.kind)
            code.store(value + code.select(adds != 0, there, zero), target)
        else:
            added = code.load("float", code.cast(bias, "ptr"), column + c, count)
            code.store(rounded(code, value + added), target)

    def whole() -> None:
        with code.loop(0, high) as r:
            for k in range(0, SIDE, TILE):
                write(r, code.value(k, "i64"), TILE)

    def edge() -> None:
        with code.loop(0, high) as r, code.loop(0, wide) as c:
            write(r, c, 0)

    code.choose(wide == SIDE, whole, edge)


def rounded(code: Code, value: Value) -> Value:
    """float32 rounded to the bits of bfloat16: to nearest, ties to even."""
    bits = code.bits(value, "i32")
    above = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
    return code.cast(code.select(value != value, NAN, above), "i16")


class Lines(NamedTuple):
    """Where the elements of an operand lie, as `_pairs.pack` takes it.

    Attributes:
        form: "deep" or "flat".
        outer: offsets of lines, or of each 16 of them.
        inner: of each step: (offset, count), or the table of k.
        lines: how many there are.
    """

    form: str
    outer: np.ndarray
    inner: np.ndarray
    lines: int

    @property
    def steps(self) -> int:
        return len(self.inner)

    @property
    def panels(self) -> int:
        return -(-self.lines // SIDE)


def lines_of(lines: int, depth: int, line_step: int, k_step: int) -> Lines | None:
    """A plain matrix, by bytes from a line and a k to the next; None if neither lies together, or in descending order."""
    steps = -(-depth // SIDE)
    if min(line_step, k_step) < 0:
        return None
    if k_step == 2 or depth == 1:
        counts = [min(SIDE, depth - SIDE * k) for k in range(steps)]
        inner = np.stack([np.arange(steps) * SIDE * 2, counts], 1)
        return Lines("deep", np.arange(lines) * line_step, np.ascontiguousarray(inner), lines)
    if line_step == 2 or lines == 1:
        return Lines("flat", np.arange(0, lines, TILE) * 2, table_of(np.arange(depth) * k_step), lines)
    return None


class Packed(NamedTuple):
    """A packed operand: its bytes, aligned to a cache line; the panels and bytes of a matrix."""

    memory: np.ndarray
    panels: int
    bytes: int


def packed(source: np.ndarray, end: int, matrices: np.ndarray, lines: Lines, right: bool) -> Packed:
    """An operand's stack of matrices, at these offsets. end: bytes of `source` from its first element on."""
    size = lines.panels * lines.steps * STEP_BYTES
    memory = aligned(size * len(matrices))
    some = CHUNK[lines.form]
    kernel, pieces = pack(lines.form, right), len(matrices) * lines.panels * -(-lines.steps // some)
    base = address_of(source)
    parallel(
        kernel, pieces, base, base + end, matrices, lines.outer, lines.inner, memory, len(lines.outer),
        lines.steps, lines.panels, grain=max(1, PACKED // (STEP_BYTES * min(lines.steps, some))),
    )  # fmt: skip
    return Packed(memory, lines.panels, size)


def aligned(size: int) -> np.ndarray:
    """So many bytes from the start of a cache line on."""
    memory = np.empty(size + 64, np.uint8)
    start = -address_of(memory) % 64
    return memory[start : start + size]


def multiply(left: Packed, right: Packed, sizes: tuple[int, int, int, int], out: np.ndarray, bias: np.ndarray | None = None,
             *, adds: bool = False) -> None:  # fmt: skip
    """Products of packed matrices into `out`, contiguous (matrices, rows, columns) of bfloat16, or of float32 without bias.

    Args:
        sizes: matrices, rows, columns, steps.
        bias: of each column, float32, in as many numbers as the panels have.
        adds: adds to what is in `out`.
    """
    count, rows, columns, steps = sizes
    pieces = count * -(-left.panels // DOWN) * -(-right.panels // ACROSS)
    work = min(left.panels, DOWN) * min(right.panels, ACROSS) * SIDE * SIDE * SIDE * steps
    rounds = out.dtype == BFLOAT16
    parallel(
        _blocks(_dots.available(), rounds), pieces, left.memory, right.memory, out, 0 if bias is None else bias, rows, columns,
        left.panels, right.panels, steps, left.bytes, right.bytes, rows * columns * out.itemsize, columns, int(adds),
        grain=max(1, GRAIN // work),
    )  # fmt: skip


def padded_bias(bias: np.ndarray | None, columns: int) -> np.ndarray:
    """A bias as float32, filled up with zeros to whole panels."""
    values = np.zeros(-(-columns // SIDE) * SIDE, np.float32)
    if bias is not None:
        values[:columns] = bias
    return values


class _Operand(NamedTuple):
    """How an operand of a product lies: whether it is copied first; offsets of its matrices, of its lines, its extent."""

    copied: bool
    matrices: np.ndarray
    lines: Lines
    end: int


def product(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """a @ b for bfloat16 (..., M, K) and (..., K, N) with the same leading sizes, plus a bias (N,); rounded once."""
    m, k, n = *a.shape[-2:], b.shape[-1]
    operands = []
    for array, right in ((a, False), (b, True)):
        plan = _operand(array.shape, array.strides, right)
        source = np.ascontiguousarray(array) if plan.copied else array
        operands.append(packed(source, plan.end, plan.matrices, plan.lines, right))
    out = np.empty((*a.shape[:-2], m, n), BFLOAT16)
    sizes = math.prod(a.shape[:-2]), m, n, -(-k // SIDE)
    multiply(*operands, sizes, out, padded_bias(bias, n))
    return out


@functools.lru_cache(512)
def _operand(shape: tuple[int, ...], strides: tuple[int, ...], right: bool) -> _Operand:
    lines, depth = shape[:-3:-1] if right else shape[-2:]
    found = None if min(strides) < 0 else lines_of(lines, depth, *(strides[:-3:-1] if right else strides[-2:]))
    copied = found is None
    if copied:
        strides = tuple(2 * math.prod(shape[k + 1 :]) for k in range(len(shape)))
        found = lines_of(lines, depth, *(strides[:-3:-1] if right else strides[-2:]))
    assert found is not None, "a contiguous matrix has lines"
    end = 2 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return _Operand(copied, _offsets(shape[:-2], strides[:-2]), found, end)


def _offsets(sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """The offsets of all matrices of a stack."""
    total = np.zeros((), np.int64)
    for n, step in zip(sizes, steps, strict=True):
        total = total[..., None] + np.arange(n) * step
    return np.ascontiguousarray(total.reshape(-1))
