"""Matrix products of bfloat16 on processors with AMX or AVX-512-BF16, summed in float32 (`_dots`).

Both operands are packed into panels of 32 lines (`_pairs`), but for a left one whose rows AMX reads where they lie. Then
blocks of up to 128 × 256 results are summed, DEPTH steps of 32 k at a time, in memory on the thread's stack, and rounded
once. Of stacks, and of few rows, each block packs what it needs (`_pair_products`). An element has one value, whatever the
layout and the size of its matrices and the number of threads: its sum is cut by its length alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tdt._kernels import _dots
from tdt._kernels._addresses import address_of
from tdt._kernels._code import Code, Value, native
from tdt._kernels._dots import SIDE, STEP_BYTES, TILE, WAYS
from tdt._kernels._formulas import BFLOAT16, astype
from tdt._kernels._pair_blocks import ACROSS, BLOCK_BYTES, DEPTH, DOWN, GROUP, ahead, block_of, finish
from tdt._kernels._pair_products import packing_products
from tdt._kernels._pair_windows import windows_times
from tdt._kernels._pairs import CHUNK, pack, table_of
from tdt._kernels._pool import parallel

GRAIN = 1 << 22  # multiply-adds that a thread should at least have: some 10 µs
PACKED = 1 << 17  # bytes that a thread should at least pack


@native("qqqqqqqqqqqqq")
def _blocks(code: Code, first: Value, last: Value, arguments: list[Value], way: str, rounds: bool) -> None:
    """Blocks of products of packed operands.

    Arguments: addresses of the packed operands, the result and the bias; rows and columns of a result; panels of both
    operands; steps; bytes from an operand's matrix to the next, and of results; numbers from a result's row to the next.

    Args:
        rounds: results are bfloat16, with the bias; else float32, without.
    """
    left, right, result, bias, rows, columns, down, across, steps, left_next, right_next, out_next, pitch = arguments
    dots = WAYS[way](code)
    scratch = code.array("float", DOWN * ACROSS * SIDE * SIDE)
    complete = code.array("float", SIDE * SIDE)  # of one block, which stays in the level-one cache until it is written
    blocks_down, blocks_across = (down + (DOWN - 1)) // DOWN, (across + (ACROSS - 1)) // ACROSS
    dots.begin()
    with code.loop(first, last) as piece:
        matrix = piece // (blocks_down * blocks_across)
        part = piece - matrix * blocks_down * blocks_across
        row, column = block_of(code, part, blocks_down, blocks_across, code.value(GROUP, "i64"))
        a, b, c = left + matrix * left_next, right + matrix * right_next, result + matrix * out_next
        with code.loop(0, steps, DEPTH) as begin:
            count = code.minimum(steps - begin, DEPTH)
            with (
                code.loop(0, code.minimum(down - row, DOWN)) as i,
                code.loop(0, code.minimum(across - column, ACROSS)) as j,
            ):
                block = code.at("i8", scratch, (j * DOWN + i) * BLOCK_BYTES)
                panels = [
                    address + (index * steps + begin) * STEP_BYTES for address, index in ((a, row + i), (b, column + j))
                ]
                ends = begin + count == steps
                with code.when(ends):
                    ahead(code, ((row + i) * SIDE, (column + j) * SIDE), rows, c, pitch, 2 if rounds else 4)
                out = code.select(ends, complete, block)
                dots.block(*(code.cast(panel, "ptr") for panel in panels), count, block, begin == 0, out)
                with code.when(ends):
                    finish(dots, complete, ((row + i) * SIDE, (column + j) * SIDE), (rows, columns), c, pitch,
                            bias if rounds else None)  # fmt: skip
    dots.end()


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


def lines_of(lines: int, depth: int, line_step: int, k_step: int, item: int = 2) -> Lines | None:
    """A plain matrix, by bytes from a line and a k to the next; None if neither lies together, or in descending order.

    item: bytes of an element.
    """
    steps = -(-depth // SIDE)
    if min(line_step, k_step) < 0:
        return None
    if k_step == item or depth == 1:
        counts = [min(SIDE, depth - SIDE * k) for k in range(steps)]
        inner = np.stack([np.arange(steps) * SIDE * item, counts], 1)
        return Lines("deep", np.arange(lines) * line_step, np.ascontiguousarray(inner), lines)
    if line_step == item or lines == 1:
        return Lines("flat", np.arange(0, lines, TILE) * item, table_of(np.arange(depth) * k_step), lines)
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
    kernel, pieces = pack(lines.form, right, source.itemsize), len(matrices) * lines.panels * -(-lines.steps // some)
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


def multiply(
    left: Packed, right: Packed, sizes: tuple[int, int, int, int], out: np.ndarray, bias: np.ndarray | None = None
) -> None:
    """Products of packed matrices into `out`, contiguous (matrices, rows, columns) of bfloat16, or of float32 without bias.

    Args:
        sizes: matrices, rows, columns, steps.
        bias: of each column, float32, in as many numbers as the panels have.
    """
    count, rows, columns, steps = sizes
    pieces = count * -(-left.panels // DOWN) * -(-right.panels // ACROSS)
    work = min(left.panels, DOWN) * min(right.panels, ACROSS) * SIDE * SIDE * SIDE * steps
    rounds = out.dtype == BFLOAT16
    parallel(
        _blocks(_dots.available(), rounds), pieces, left.memory, right.memory, out, 0 if bias is None else bias, rows, columns,
        left.panels, right.panels, steps, left.bytes, right.bytes, rows * columns * out.itemsize, columns,
        grain=max(1, GRAIN // work),
    )  # fmt: skip


def padded_bias(bias: np.ndarray | None, columns: int) -> np.ndarray:
    """A bias, rounded to bfloat16, as float32, filled up with zeros to whole panels."""
    values = np.zeros(-(-columns // SIDE) * SIDE, np.float32)
    if bias is not None:
        values[:columns] = bias if bias.dtype == BFLOAT16 else astype(bias, BFLOAT16)
    return values


def multiply_rows(source: np.ndarray, end: int, rows: tuple[np.ndarray, np.ndarray, np.ndarray], right: Packed,
                  out: np.ndarray, bias: np.ndarray | None) -> None:  # fmt: skip
    """Rows of `source`, which has so many bytes, times a packed operand, plus a bias, into `out`.

    rows: their offsets, the pitches of each 16, and (offset, count) of each step.
    """
    (windows, columns), steps, start = out.shape, len(rows[2]), address_of(source)
    pieces = -(-windows // (SIDE * DOWN)) * -(-right.panels // ACROSS)
    work = DOWN * min(right.panels, ACROSS) * SIDE * SIDE * SIDE * steps
    parallel(
        windows_times(_dots.available()), pieces, start, start + end, *rows, right.memory, out, padded_bias(bias, columns),
        windows, columns, right.panels, steps, grain=max(1, GRAIN // work),
    )  # fmt: skip


def pitches_of(windows: np.ndarray, in_place: bool) -> np.ndarray:
    """Of each 16 offsets, the distance at which they lie; 0 if that differs among them, or they are fewer, or not `in_place`."""
    pitches = np.zeros(-(-len(windows) // SIDE) * (SIDE // TILE), np.int64)
    if in_place:
        whole = len(windows) // TILE
        steps = np.diff(windows[: whole * TILE].reshape(whole, TILE), axis=1)
        pitches[:whole] = np.where((steps == steps[:, :1]).all(1), steps[:, 0], 0)
    return pitches


class _Operand(NamedTuple):
    """How an operand of a product lies.

    Attributes:
        copied: whether it is copied first.
        matrices, lines: their offsets; end: its extent in bytes.
        pitches: of each 16 lines of a single left operand that need not be packed, else None.
    """

    copied: bool
    matrices: np.ndarray
    lines: Lines
    end: int
    pitches: np.ndarray | None


def product(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, dtype: np.dtype = BFLOAT16) -> np.ndarray:
    """a @ b for (..., M, K) and (..., K, N) with the same leading sizes, plus a bias (N,); rounded once.

    Operands of float32 are rounded to bfloat16 when they are packed. dtype: bfloat16, or without a bias float32.
    """
    m, k, n = *a.shape[-2:], b.shape[-1]
    left = _operand(a.shape, a.strides, False, a.itemsize)
    right = _operand(b.shape, b.strides, True, b.itemsize)
    out = np.empty((*a.shape[:-2], m, n), dtype)
    if a.itemsize == b.itemsize == out.itemsize and _packs_once(left, right):
        _multiply_packing(a, left, b, right, out, bias)
        return out
    second = _packed_operand(b, right, True)
    if left.pitches is not None and WAYS[_dots.available()].IN_PLACE and dtype == BFLOAT16:
        rows = left.lines.outer, left.pitches, left.lines.inner
        multiply_rows(a, left.end, rows, second, out.reshape(m, n), bias)
    else:
        sizes = math.prod(a.shape[:-2]), m, n, -(-k // SIDE)
        multiply(
            _packed_operand(a, left, False), second, sizes, out, padded_bias(bias, n) if dtype == BFLOAT16 else None
        )
    return out


def _packs_once(left: _Operand, right: _Operand) -> bool:
    """Whether blocks that pack what they need pack nothing twice, or for few others, and write no large operand to memory."""
    blocks_down, blocks_across = -(-left.lines.panels // DOWN), -(-right.lines.panels // ACROSS)
    short, in_place = left.lines.steps <= DEPTH, left.pitches is not None
    return blocks_down == 1 or (short and (len(left.matrices) > 1 or (blocks_across == 1 and not in_place)))


def _multiply_packing(
    a: np.ndarray, left: _Operand, b: np.ndarray, right: _Operand, out: np.ndarray, bias: np.ndarray | None
) -> None:
    """`product` into `out` by blocks that pack what they need."""
    rows, columns, steps = *out.shape[-2:], left.lines.steps
    operands = []
    for array, plan in ((a, left), (b, right)):
        source = np.ascontiguousarray(array) if plan.copied else array
        start = address_of(source)
        operands.append((source, start, start + plan.end, plan.matrices, plan.lines.outer, plan.lines.inner))
    whole = left.lines.form == "deep" and (left.lines.inner[:, 1] == SIDE).all() and rows >= TILE
    pitch = int(left.lines.outer[1]) if whole and WAYS[_dots.available()].IN_PLACE else 0
    blocks_down, blocks_across = -(-left.lines.panels // DOWN), -(-right.lines.panels // ACROSS)
    work = min(rows, DOWN * SIDE) * min(columns, ACROSS * SIDE) * SIDE * steps
    parallel(
        packing_products(_dots.available(), left.lines.form, right.lines.form),
        len(left.matrices) * blocks_down * blocks_across, *operands[0][1:], pitch, *operands[1][1:], out,
        padded_bias(bias, columns), rows, columns, steps, len(left.lines.outer), len(right.lines.outer),
        grain=max(1, GRAIN // work),
    )  # fmt: skip


def _packed_operand(array: np.ndarray, plan: _Operand, right: bool) -> Packed:
    source = np.ascontiguousarray(array) if plan.copied else array
    return packed(source, plan.end, plan.matrices, plan.lines, right)


@functools.lru_cache(512)
def _operand(shape: tuple[int, ...], strides: tuple[int, ...], right: bool, item: int) -> _Operand:
    lines, depth = shape[:-3:-1] if right else shape[-2:]
    found = None if min(strides) < 0 else lines_of(lines, depth, *(strides[:-3:-1] if right else strides[-2:]), item)
    copied = found is None
    if copied:
        strides = tuple(item * math.prod(shape[k + 1 :]) for k in range(len(shape)))
        found = lines_of(lines, depth, *(strides[:-3:-1] if right else strides[-2:]), item)
    assert found is not None, "a contiguous matrix has lines"
    end = item + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    matrices, pitches = _offsets(shape[:-2], strides[:-2]), None
    if item == 2 and not (right or copied) and found.form == "deep" and len(matrices) == 1 and depth % SIDE == 0:
        pitches = pitches_of(found.outer, True)
    return _Operand(copied, matrices, found, end, pitches)


def _offsets(sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """The offsets of all matrices of a stack."""
    total = np.zeros((), np.int64)
    for n, step in zip(sizes, steps, strict=True):
        total = total[..., None] + np.arange(n) * step
    return np.ascontiguousarray(total.reshape(-1))
