"""Attention and its gradients in float32 on the CPU, a block of weights at a time, which stays in the cache.

For some queries and some keys the scores are one small product; they become weights and go into a second one, before the
next block is looked at (Dao et al., FlashAttention, 2022). The largest score of a row, which is taken from all before the
exponential, is known only at the end: what was summed up under a smaller one is scaled down. Products are made of
`conv`'s register tiles: where a query sees only the keys up to its own, the tiles behind are left out.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tdt._kernels._gemm import GRAIN, PANEL, tile_rows, tiles
from tdt._kernels._intrinsics import array_at, float_of_bits, local_floats
from tdt._kernels._jit import address_of, jit
from tdt._kernels._layout import _turn
from tdt._kernels._polynomial import exp32
from tdt._kernels._pool import parallel

ROWS, COLUMNS = 64, 128  # of a block of weights
PITCH = COLUMNS + 16  # from row to row: rows that are a power of two apart would share few places of the cache
DEPTH = 64  # numbers of a key that are turned at a time
ZERO, INF = np.float32(0), np.float32(math.inf)
FLOATS, BITS, FLAGS = np.empty(0, np.float32), np.empty(0, np.int32), np.empty(0, np.bool_)
LEAST, SIGN, MAGNITUDE = np.int32(-(2**31)), np.int32(31), np.int32(2**31 - 1)
FAR = 1 << 40  # the size of arrays whose end nobody asks for
one_block, two_blocks = local_floats((ROWS + DEPTH) * PITCH + 2 * ROWS), local_floats((2 * ROWS + DEPTH) * PITCH + ROWS)
AT, BATCH, HEAD, LINE = range(4)  # of an array: its address, and elements to the next of the batch, head and row
Q, K, V, OUT, MASK, KEEP, G, GQ, GK, GV = range(10)  # the arrays
ONES, SCORES = 10, 11  # places behind each other, and in a block's column


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, keep: np.ndarray | None,
              out: np.ndarray, norms: np.ndarray, *, causal: bool, scale: float, dropped: float) -> None:  # fmt: skip
    """The op `attention` for (*, T, E), with at most two dimensions before T; `out` and `norms` are written to."""
    blocks = -(-q.shape[-2] // ROWS)
    _run(_forward, blocks, (q, k, v, out, mask, keep), norms, causal, scale, dropped)


def attention_vjp(g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None,
                  keep: np.ndarray | None, out: np.ndarray, norms: np.ndarray, gq: np.ndarray, gk: np.ndarray,
                  gv: np.ndarray, *, causal: bool, scale: float, dropped: float) -> None:  # fmt: skip
    """Add the gradients in q, k and v from `g`, that in `out`, to gq, gk and gv."""
    _run(_backward, 1, (q, k, v, out, mask, keep, g, gq, gk, gv), norms, causal, scale, dropped)


def _run(
    kernel: Any, pieces: int, arrays: tuple, norms: np.ndarray, causal: bool, scale: float, dropped: float
) -> None:
    """Call the kernel on all heads, each divided into pieces."""
    arrays = tuple(a if a is None else _in_lines(a) for a in arrays)
    q, k, v = arrays[:3]
    length, places, width, size = q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
    where = np.array([_place(a) for a in arrays])
    largest = max(ROWS, COLUMNS, width, size)
    pitches = *where[:, LINE].tolist(), *(0,) * (ONES - len(arrays)), 1, PITCH
    parallel(
        kernel, math.prod(q.shape[:-2]) * pieces, pieces, q.shape[-3] if q.ndim > 2 else 1, length, places, width, size, where,
        _tables(pitches, largest), np.zeros(largest, np.float32), norms.reshape(-1), bool(causal), arrays[MASK] is not None,
        arrays[KEEP] is not None, float(scale), 1 / (1 - dropped), FLOATS, BITS, FLAGS,
        grain=-(-GRAIN * pieces // (length * places * (width + size))),
    )  # fmt: skip


@functools.lru_cache(256)
def _tables(pitches: tuple[int, ...], count: int) -> np.ndarray:
    """The offsets of the first rows of each array."""
    return np.array(pitches)[:, None] * np.arange(count)


def _in_lines(x: np.ndarray) -> np.ndarray:
    """x, or a copy, with the elements of a row next to each other."""
    return x if x.shape[-1] == 1 or x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


def _place(x: np.ndarray | None) -> tuple[int, ...]:
    if x is None:
        return 0, 0, 0, 0
    strides = (0,) * (4 - x.ndim) + x.strides
    return address_of(x), *(s // x.itemsize for s in strides[:3])


@jit
def _line(where, which, b, h, row, column, like):
    """An array's elements from a column of a row of a head on."""
    offset = b * where[which, BATCH] + h * where[which, HEAD] + row * where[which, LINE] + column
    return array_at(where[which, AT] + offset * like.itemsize, FAR, like)


@jit
def _visible(causal, i, j, columns):
    """How many of the columns from j on row i sees."""
    return max(0, min(columns, i - j + 1)) if causal else columns


@jit
def _largest(bits):
    """The maximum of a row from its floats' bits, which in this order compare as they do. A maximum of floats, which have
    NaN, would not be vectorised. NaN is larger or smaller than all numbers."""
    best = LEAST
    for j in range(bits.size):
        key = np.int32(bits[j] ^ ((bits[j] >> SIGN) & MAGNITUDE))
        best = key if key > best else best
    return float_of_bits(best ^ ((best >> SIGN) & MAGNITUDE))


@jit
def _soften(row, keys, before):
    """exp(row - top) in place; returns `top`, the maximum of `before` and the row (whose bits are `keys`), and the sum."""
    top = before
    if row.size > 0:
        best = _largest(keys)
        top = before if best <= before else best
    shift, total = ZERO if top == -INF else top, ZERO
    for c in range(row.size):
        e = exp32(row[c] - shift)
        row[c] = e
        total += e
    return top, total


@jit
def _gradients(row, g_row, top, norm, shared, factor):
    """Scores to weights, and the gradients of weights to those of the scores before they are scaled, in place."""
    for c in range(row.size):
        weight = exp32(row[c] - top) * norm
        row[c] = weight
        g_row[c] = weight * (g_row[c] - shared) * factor


@jit
def _products(left, from_row, rows, right, pitch, tables, depth, factor, turned, out, causal, i, j, columns, zeros):
    """out = factor · left rightᵀ for `rows` queries from i on and `columns` keys from j on that are not masked causally."""
    step = tile_rows()
    for e in range(0, depth, DEPTH):
        count = min(DEPTH, depth - e)
        _turn(right, e, pitch, turned, 0, PITCH, columns, count)
        if factor != np.float32(1):
            for n in range(count):
                line = turned[n * PITCH : n * PITCH + columns]
                for c in range(columns):
                    line[c] *= factor
        for r in range(0, rows, step):
            high = min(r + step, rows)
            visible = _visible(causal, i + high - 1, j, columns)
            tiles(left[e:], from_row, r, high, tables[ONES], tables[SCORES], 0, count, turned, PANEL, out, tables[SCORES],
                   zeros[:visible], e == 0)  # fmt: skip


@jit
def _forward(first, last, blocks, heads, length, places, width, size, where, tables, zeros, norms, causal, masked, dropping,
             scale, share, floats, bits, flags):  # fmt: skip
    memory, step = one_block(), tile_rows()
    scores = array_at(memory, FAR, floats)
    score_bits = array_at(memory, FAR, bits)
    turned = scores[ROWS * PITCH :]
    tops = turned[DEPTH * PITCH :]
    totals = tops[ROWS:]
    for number in range(first, last):
        head = number // blocks
        i = (number - head * blocks) * ROWS
        b = head // heads
        h = head - b * heads
        rows = min(ROWS, length - i)
        q, out = _line(where, Q, b, h, i, 0, floats), _line(where, OUT, b, h, i, 0, floats)
        for r in range(rows):
            tops[r] = -INF
            totals[r] = ZERO
        end = min(places, i + rows) if causal else places
        for j in range(0, end, COLUMNS):
            columns = min(COLUMNS, end - j)
            k, v = _line(where, K, b, h, j, 0, floats), _line(where, V, b, h, j, 0, floats)
            _products(q, tables[Q], rows, k, where[K, LINE], tables, width, np.float32(scale), turned, scores, causal, i, j,
                      columns, zeros)  # fmt: skip
            for r in range(rows):
                count = _visible(causal, i + r, j, columns)
                row, invisible = scores[r * PITCH : r * PITCH + count], scores[r * PITCH + count : r * PITCH + columns]
                if masked:
                    mask = _line(where, MASK, b, h, i + r, j, floats)
                    for c in range(count):
                        row[c] += mask[c]
                before = tops[r]
                tops[r], total = _soften(row, score_bits[r * PITCH : r * PITCH + count], before)
                for c in range(invisible.size):
                    invisible[c] = ZERO
                fade = exp32(before - (ZERO if tops[r] == -INF else tops[r]))
                totals[r] = totals[r] * fade + total
                if dropping:
                    keep = _line(where, KEEP, b, h, i + r, j, flags)
                    for c in range(count):
                        row[c] = row[c] if keep[c] else ZERO
                if j > 0:
                    line = out[r * where[OUT, LINE] : r * where[OUT, LINE] + size]
                    for c in range(size):
                        line[c] *= fade
            for r in range(0, rows, step):
                high = min(r + step, rows)
                visible = _visible(causal, i + high - 1, j, columns)
                tiles(scores, tables[SCORES], r, high, tables[ONES], tables[V], 0, visible, v, PANEL, out, tables[OUT],
                       zeros[:size], j == 0)  # fmt: skip
        for r in range(rows):
            line = out[r * where[OUT, LINE] : r * where[OUT, LINE] + size]
            factor = ZERO if totals[r] == ZERO else np.float32(1) / totals[r]
            norms[2 * (head * length + i + r)] = ZERO if tops[r] == -INF else tops[r]
            norms[2 * (head * length + i + r) + 1] = factor
            factor *= np.float32(share)
            for c in range(size):
                line[c] *= factor


@jit
def _backward(first, last, pieces, heads, length, places, width, size, where, tables, zeros, norms, causal, masked, dropping,
              scale, share, floats, bits, flags):  # fmt: skip
    step, factor = tile_rows(), np.float32(scale)
    scores = array_at(two_blocks(), FAR, floats)
    towards = scores[ROWS * PITCH :]
    turned = towards[ROWS * PITCH :]
    shared = turned[DEPTH * PITCH :]
    for head in range(first, last):
        b = head // heads
        h = head - b * heads
        for i in range(0, length, ROWS):
            rows = min(ROWS, length - i)
            q, g, gq = (_line(where, Q, b, h, i, 0, floats), _line(where, G, b, h, i, 0, floats),
                        _line(where, GQ, b, h, i, 0, floats))  # fmt: skip
            for r in range(rows):
                left, right = _line(where, G, b, h, i + r, 0, floats), _line(where, OUT, b, h, i + r, 0, floats)
                total = ZERO
                for c in range(size):
                    total += left[c] * right[c]
                shared[r] = total
            end = min(places, i + rows) if causal else places
            for j in range(0, end, COLUMNS):
                columns = min(COLUMNS, end - j)
                k, v = _line(where, K, b, h, j, 0, floats), _line(where, V, b, h, j, 0, floats)
                gk, gv = _line(where, GK, b, h, j, 0, floats), _line(where, GV, b, h, j, 0, floats)
                _products(q, tables[Q], rows, k, where[K, LINE], tables, width, factor, turned, scores, causal, i, j, columns,
                          zeros)  # fmt: skip
                _products(g, tables[G], rows, v, where[V, LINE], tables, size, np.float32(1), turned, towards, causal, i, j,
                          columns, zeros)  # fmt: skip
                for r in range(rows):
                    count = _visible(causal, i + r, j, columns)
                    row, g_row = scores[r * PITCH : r * PITCH + count], towards[r * PITCH : r * PITCH + count]
                    if masked:
                        mask = _line(where, MASK, b, h, i + r, j, floats)
                        for c in range(count):
                            row[c] += mask[c]
                    at = 2 * (head * length + i + r)
                    keep = _line(where, KEEP, b, h, i + r, j, flags)
                    if dropping:
                        for c in range(count):
                            g_row[c] *= np.float32(share) if keep[c] else ZERO
                    _gradients(row, g_row, norms[at], norms[at + 1], shared[r], factor)
                    if dropping:
                        for c in range(count):
                            row[c] *= np.float32(share) if keep[c] else ZERO
                    for c in range(r * PITCH + count, r * PITCH + columns):
                        scores[c] = ZERO
                        towards[c] = ZERO
                for r in range(0, rows, step):
                    high = min(r + step, rows)
                    visible = _visible(causal, i + high - 1, j, columns)
                    tiles(towards, tables[SCORES], r, high, tables[ONES], tables[K], 0, visible, k, PANEL, gq, tables[GQ],
                           zeros[:width], False)  # fmt: skip
                for c in range(0, columns, step):
                    high, start = min(c + step, columns), max(0, j + c - i) if causal else 0
                    tiles(scores, tables[ONES], c, high, tables[SCORES], tables[G], start, rows, g, PANEL, gv, tables[GV],
                           zeros[:size], False)  # fmt: skip
                    tiles(towards, tables[ONES], c, high, tables[SCORES], tables[Q], start, rows, q, PANEL, gk, tables[GK],
                           zeros[:width], False)  # fmt: skip
