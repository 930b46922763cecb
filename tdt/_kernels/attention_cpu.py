"""Attention and its gradients in float32 on the CPU, some rows of weights at a time, which stay in the cache.

The scores of `ROWS` queries and all keys that they see are products with the keys in panels, turned so that a vector holds
keys; they become weights, and go into a second product, before the next rows are looked at: memory grows with the keys, not
with queries times keys. Where a query sees only the keys up to its own, tiles behind are left out. Every score is the sum
over the width in order, and every result the sum over blocks of `DEPTH` keys, whatever the number of queries.

Of bfloat16 (`half`), the rows of a head are converted into memory of its thread first, and results are rounded once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import _bfloat16
from tdt._kernels._addresses import address_of
from tdt._kernels._attention_products import dots, lanes_and_rows, row_tile, tile, turn
from tdt._kernels._code import Code, Value, native
from tdt._kernels._exponential import exp_of_negative
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._inline import inline
from tdt._kernels._launches import WATCH, are_zeros
from tdt._kernels._native import Entry, NativeKernel, vector_width
from tdt._kernels._pool import parallel
from tdt._kernels._rows import LANES, allocated, for_each, largest, load, release, store, summed

ROWS, FEW_ROWS, MANY_KEYS = 48, 12, 4096  # queries whose scores are in memory at a time; with more keys, FEW_ROWS
CHUNK = 4 * ROWS  # queries for which the keys are turned once
DEPTH = 512  # keys that are summed in one chain
GRAIN = 1 << 15  # multiply-adds that a thread should at least have
STRIDES = 3  # of the batch, of heads and of rows
ARRAYS = 11  # q, k, v, out, mask, keep, g, gq, gk, gv, g_mask
MASK, KEEP = 4, 5  # places among them; their strides are in bytes
WORDS = "q" * (1 + ARRAYS + STRIDES * ARRAYS) + "qqqqqqqqdd"
ADDRESSES = struct.Struct("=" + "q" * (1 + ARRAYS)).pack
MOST_CALLS = 1000


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, keep: np.ndarray | None,
              out: np.ndarray, norms: np.ndarray, *, causal: bool, scale: float, dropped: float) -> None:  # fmt: skip
    """The op `attention` for (*, T, E), with at most two dimensions before T; `out` and `norms` are written to.

    mask: of numbers or of bools, broadcastable to (*, T, S).
    """
    chunks, mask = -(-q.shape[-2] // CHUNK), _with_keys(mask, k)
    kernel = _forward(vector_width(), q.dtype == BFLOAT16)
    _run(kernel, chunks, (q, k, v, out, mask, keep), norms, causal, scale, dropped)


def prepared(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, out: np.ndarray, *, causal: bool,
             scale: float) -> Callable[..., None]:  # fmt: skip
    """`attention` of arrays of these shapes and strides without dropout, as a function of them, `out` and `norms`."""
    whole = _with_keys(mask, k)
    kernel, arrays = _forward(vector_width(), q.dtype == BFLOAT16), (q, k, v, out, whole, None)
    compute = _Call(kernel, arrays, -(-q.shape[-2] // CHUNK), causal, scale, 0.0).compute
    if whole is mask:
        return lambda q, k, v, mask, out, norms: compute(norms, (q, k, v, out, mask, None))
    return lambda q, k, v, mask, out, norms: compute(norms, (q, k, v, out, _with_keys(mask, k), None))


def attention_vjp(g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None,
                  keep: np.ndarray | None, out: np.ndarray, norms: np.ndarray, gq: np.ndarray, gk: np.ndarray,
                  gv: np.ndarray, g_mask: np.ndarray | None, *, causal: bool, scale: float, dropped: float) -> None:  # fmt: skip
    """Add the gradients in q, k and v from `g`, that in `out`, to gq, gk and gv, which are zeros; g_mask gets that in scores."""
    are_zeros(gq, gk, gv)
    arrays = q, k, v, out, _with_keys(mask, k), keep, g, gq, gk, gv, g_mask
    _run(_backward(vector_width(), q.dtype == BFLOAT16), 1, arrays, norms, causal, scale, dropped)


def _with_keys(mask: np.ndarray | None, k: np.ndarray) -> np.ndarray | None:
    """The mask with an element for each key."""
    return mask if mask is None or mask.shape[-1] == k.shape[-2] else np.repeat(mask, k.shape[-2], -1)


class _Call:
    """A kernel for arrays of certain shapes and strides, as the pool calls it with their addresses.

    The kernel's words are the addresses, then what depends on the shapes alone.
    """

    __slots__ = ("kernel", "name", "units", "grain", "rest", "strided")

    def __init__(self, kernel: NativeKernel, arrays: tuple, chunks: int, causal: bool, scale: float, dropped: float):
        q, k, v = arrays[:3]
        self.kernel, self.name = kernel, kernel.name
        # Of a few arrays, such as those turned by hand, the elements of a row do not lie side by side: they are copied.
        self.strided = [a is not None and a.shape[-1] != 1 and a.strides[-1] != a.itemsize for a in arrays]
        words: list[Any] = []
        for place, (a, strided) in enumerate(zip(arrays, self.strided, strict=True)):
            steps = [] if a is None else _steps(a, strided, place in (MASK, KEEP))
            words += (*(0,) * (STRIDES - len(steps)), *steps)
        words += (0,) * (STRIDES * (ARRAYS - len(arrays)))
        length, places, width, size = q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
        heads = q.shape[-3] if q.ndim > 2 else 1
        mask = arrays[MASK]
        words += (
            heads,
            length,
            places,
            width,
            size,
            chunks,
            int(causal),
            int(mask is not None and mask.dtype == np.bool_),
        )
        self.rest = struct.pack(f"={len(words)}qdd", *words, scale, 1 / (1 - dropped))
        self.units = math.prod(q.shape[:-2]) * chunks
        self.grain = -(-GRAIN // max(1, length * places * (width + size) // chunks))

    def prepare(self, arrays: tuple) -> tuple[Entry, bytes]:
        """As `NativeKernel.prepare`."""
        addresses = [0 if a is None else address_of(a) for a in arrays]
        return self.kernel.entry, ADDRESSES(*addresses, *(0,) * (1 + ARRAYS - len(addresses))) + self.rest

    def compute(self, norms: np.ndarray, arrays: tuple) -> None:
        """Compute all units."""
        if True in self.strided:
            arrays = tuple(
                [np.ascontiguousarray(a) if strided else a for a, strided in zip(arrays, self.strided, strict=True)]
            )
        if self.units < 2 * self.grain and WATCH.trace is None:
            self(0, self.units, norms, *arrays)
        else:
            parallel(self, self.units, norms, *arrays, grain=self.grain)  # type: ignore[arg-type]

    def __call__(self, first: int, last: int, *arrays: Any) -> None:
        """Compute units [first, last) on the calling thread."""
        entry, words = self.prepare(arrays)
        entry.call(words, first, last)


def _steps(a: np.ndarray, strided: bool, in_bytes: bool) -> list[int]:
    """The elements, or bytes, to the next entry of each dimension but the last one; 0 where there is one entry."""
    strides = np.empty(a.shape, a.dtype).strides if strided else a.strides
    return [0 if n == 1 else s if in_bytes else s // a.itemsize for n, s in zip(a.shape, strides, strict=True)][:-1]


_calls: dict[tuple, _Call] = {}


def _run(kernel: NativeKernel, chunks: int, arrays: tuple, norms: np.ndarray, causal: bool, scale: float,
         dropped: float) -> None:  # fmt: skip
    """Call the kernel on all heads, each divided into chunks of queries."""
    key = (kernel.name, causal, scale, dropped, *[a if a is None else (a.shape, a.strides, a.itemsize) for a in arrays])
    call = _calls.get(key)
    if call is None:
        if len(_calls) > MOST_CALLS:
            _calls.clear()
        call = _calls[key] = _Call(kernel, arrays, chunks, causal, scale, dropped)
    call.compute(norms, arrays)


class _Heads:
    """The code's arguments, and the addresses of a head's arrays."""

    def __init__(self, code: Code, arguments: list[Value], lanes: int, rows: int, half: bool):
        """lanes: elements of a tile's rows; rows: of a tile; half: arrays but the mask and its gradient are of bfloat16."""
        self.code, self.lanes, self.rows = code, lanes, rows
        self.kinds = [
            "i8" if k in (MASK, KEEP) else "i16" if half and k != ARRAYS - 1 else "float" for k in range(ARRAYS)
        ]
        norms, *addresses = arguments[: 1 + ARRAYS]
        rest = arguments[1 + ARRAYS :]
        self.top_and_sum = code.cast(norms, "ptr")  # of each row: its largest score and the inverse of its sum
        places = STRIDES * ARRAYS
        self.bases = [[address, *rest[STRIDES * k :][:STRIDES]] for k, address in enumerate(addresses)]
        (self.heads, self.length, self.places, self.width, self.size, self.chunks, causal, of_bools, scale, share) = (
            rest[places:]
        )
        self.causal, self.of_bools = causal != 0, of_bools != 0
        self.scale, self.share = code.cast(scale, "float"), code.cast(share, "float")
        self.pitch = ((self.places + (lanes - 1)) & -lanes) + lanes  # of scores: not a power of two
        self.room = code.select(self.places > MANY_KEYS, code.value(FEW_ROWS, "i64"), ROWS)
        self.tile = code.define("tile", ["i64", "ptr", "i64", "i64", "ptr", "i64", "i64", "ptr", "i64", "i64", "i64"],
                                lambda *args: tile(*args, lanes=lanes, most=rows))  # fmt: skip
        self.wide = 4 * lanes
        self.line = code.define(
            "line", ["ptr", "ptr", "i64", "i64", "ptr", "i64"], lambda *args: row_tile(*args, lanes=self.wide)
        )
        self.dots = code.define("dots", ["ptr", "ptr", "i64", "i64", "i64", "float", "ptr"], dots)
        self.turn = code.define("turn", ["ptr", "i64", "i64", "i64", "float", "ptr"],
                                lambda *args: turn(*args, lanes=lanes))  # fmt: skip

    def head(self, head: Value) -> list[tuple[Value, Value]]:
        """The address and the elements to the next row, of each array of a head; the addresses of absent ones mean nothing."""
        code = self.code
        batch = head // self.heads
        number = head - batch * self.heads
        return [(code.at(kind, code.cast(at, "ptr"), batch * by_batch + number * by_head), by_row)
                for kind, (at, by_batch, by_head, by_row) in zip(self.kinds, self.bases, strict=True)]  # fmt: skip

    def converted(
        self, array: tuple[Value, Value], start: Any, stop: Value, size: Value, memory: Value
    ) -> tuple[Value, Value]:
        """Rows [start, stop) of an array of bfloat16 in memory for floats: address and step of all rows, as if they were."""
        code = self.code
        out = code.at("float", memory, 0 - code.value(start, "i64") * size)
        with code.loop(start, stop) as row:
            line, target = code.at("i16", array[0], row * array[1]), code.at("float", out, row * size)
            for_each(code, size, lambda i, mask: store(code, _bfloat16.load(code, line, i, mask), target, i, mask))
        return out, size

    def put(self, source: tuple[Value, Value], stop: Value, size: Value, array: tuple[Value, Value]) -> None:
        """Round the first rows of `source` into an array of bfloat16."""
        code = self.code
        with code.loop(0, stop) as row:
            line, target = code.at("float", source[0], row * source[1]), code.at("i16", array[0], row * array[1])
            for_each(code, size, lambda i, mask: _bfloat16.store(code, load(code, line, i, mask), target, i, mask))

    def visible(self, row: Any) -> Value:
        """How many keys the queries before a row see."""
        return self.code.select(self.causal, self.code.minimum(self.places, row), self.places)

    def scores(self, left: Value, by_row: Value, panels: Value, depth: Value, out: Value, i: Value, rows: Value,
               visible: Value) -> None:  # fmt: skip
        """out = left · panels, for `rows` queries from i on and the keys that they see."""
        code = self.code
        with code.loop(0, visible, self.lanes) as j:
            first = code.select(self.causal, code.maximum(j - i, 0), 0)
            with code.loop(first, rows, self.rows) as r:
                self.tile(code.minimum(rows - r, self.rows), code.at("float", left, (i + r) * by_row), by_row, 1,
                          code.at("float", panels, j * depth), self.lanes, depth,
                          code.at("float", out, r * self.pitch + j), self.pitch, 0, self.lanes)  # fmt: skip

    def means(self, weights: Value, values: tuple[Value, Value], size: Value, out: tuple[Value, Value], i: Value, rows: Value,
              add: int) -> None:  # fmt: skip
        """out = weights · values for `rows` queries from i on, added to `out` if `add`."""
        code = self.code
        start = code.variable("i64", 0)
        if not add:
            with code.when(rows == 1):
                start.set(size - size % self.wide)
                end = self.visible(i + 1)
                with code.loop(0, start.get(), self.wide) as d:
                    with code.loop(0, end, DEPTH) as j:
                        self.line(code.at("float", weights, j), code.at("float", values[0], j * values[1] + d), values[1],
                                  code.minimum(end - j, DEPTH), code.at("float", out[0], i * out[1] + d),
                                  code.cast(j != 0, "i64"))  # fmt: skip
        with code.loop(start.get(), size, self.lanes) as d:
            with code.loop(0, rows, self.rows) as r:
                count = code.minimum(rows - r, self.rows)
                end = self.visible(i + r + count)
                with code.loop(0, end, DEPTH) as j:
                    self.tile(count, code.at("float", weights, r * self.pitch + j), self.pitch, 1,
                              code.at("float", values[0], j * values[1] + d), values[1], code.minimum(end - j, DEPTH),
                              code.at("float", out[0], (i + r) * out[1] + d), out[1],
                              code.cast(j != 0, "i64") if not add else 1, code.minimum(size - d, self.lanes))  # fmt: skip

    def sums(self, weights: Value, values: tuple[Value, Value], size: Value, out: tuple[Value, Value], i: Value, rows: Value,
             visible: Value) -> None:  # fmt: skip
        """Add weightsᵀ · values to the rows of `out`, which are those of the keys."""
        code = self.code
        with code.loop(0, size, self.lanes) as d:
            with code.loop(0, visible, self.rows) as c:
                first = code.select(self.causal, code.maximum(c - i, 0), 0)
                self.tile(code.minimum(visible - c, self.rows), code.at("float", weights, first * self.pitch + c), 1,
                          self.pitch, code.at("float", values[0], (i + first) * values[1] + d), values[1], rows - first,
                          code.at("float", out[0], c * out[1] + d), out[1], 1,
                          code.minimum(size - d, self.lanes))  # fmt: skip

    def add_mask(self, mask: tuple[Value, Value], row: Value, scores: Value, count: Value) -> None:
        """Add a row of the mask to its scores, or set those to -inf where it is False, if there is a mask."""
        code = self.code

        def numbers() -> None:
            for_each(
                code, count, lambda i, m: store(code, load(code, scores, i, m) + load(code, line, i, m), scores, i, m)
            )

        def bools() -> None:
            self.select(line, scores, count, lambda value, width: value, -math.inf)

        with code.when(self.bases[MASK][0] != 0):
            line = code.at("i8", mask[0], row * mask[1])
            code.choose(self.of_bools, bools, numbers)

    def drop(self, keep: tuple[Value, Value], row: Value, values: Value, count: Value, factor: Value | None) -> None:
        """Set the values that are dropped to 0 and multiply others by the factor, where weights are dropped."""
        code = self.code
        with code.when(self.bases[KEEP][0] != 0):
            line = code.at("i8", keep[0], row * keep[1])
            scaled = lambda value, width: value if factor is None else value * code.splat(factor, width)  # noqa: E731
            self.select(line, values, count, scaled, 0.0)

    def select(
        self, line: Value, values: Value, count: Value, change: Callable[[Value, int], Value], other: float
    ) -> None:
        """Write `change` of the values where a line of bools is True, else another number, in place."""
        code = self.code

        def few(i: Value, width: int) -> None:
            value = change(code.load("float", values, i, width), width)
            code.store(code.select(code.load("i8", line, i, width) != 0, value, other), values, i)

        with code.loop(0, count & -LANES, LANES) as i:
            few(i, LANES)
        with code.loop(count & -LANES, count) as i:
            few(i, 0)

    def clear(self, values: Value, start: Value, stop: Value) -> None:
        """Set the elements [start, stop) to 0."""
        code, zeros = self.code, self.code.value(0.0, f"<{LANES} x float>")
        line = code.at("float", values, start)
        for_each(code, stop - start, lambda i, mask: store(code, zeros, line, i, mask))


@native(WORDS)
def _forward(code: Code, first: Value, last: Value, arguments: list[Value], width: int, half: bool) -> None:
    heads = _Heads(code, arguments, *lanes_and_rows(width)[:2], half)
    factors = code.array("float", ROWS)
    sizes = [heads.pitch * heads.width, heads.room * heads.pitch]
    if half:
        sizes += [heads.width * CHUNK, heads.places * heads.width, heads.places * heads.size, heads.size * CHUNK]
    panels, scores, *rooms = allocated(code, *sizes)
    with code.loop(first, last) as unit:
        head = unit // heads.chunks
        q, k, v, out, mask, keep, *_ = heads.head(head)
        start = (unit - head * heads.chunks) * CHUNK
        stop = code.minimum(start + CHUNK, heads.length)
        result = out
        if half:
            reached = heads.visible(stop)
            q = heads.converted(q, start, stop, heads.width, rooms[0])
            k, v = (heads.converted(a, 0, reached, n, room)
                    for a, n, room in ((k, heads.width, rooms[1]), (v, heads.size, rooms[2])))  # fmt: skip
            out = code.at("float", rooms[3], 0 - start * heads.size), heads.size
        with code.when(heads.length != 1):
            heads.turn(*k, heads.visible(stop), heads.width, heads.scale, panels)
        with code.loop(start, stop, heads.room) as i:
            rows = code.minimum(heads.room, stop - i)
            visible = heads.visible(i + rows)

            def one(q: tuple[Value, Value] = q, k: tuple[Value, Value] = k, visible: Value = visible) -> None:
                heads.dots(q[0], *k, visible, heads.width, heads.scale, scores)

            def several(q: tuple[Value, Value] = q, i: Value = i, rows: Value = rows, visible: Value = visible) -> None:
                heads.scores(*q, panels, heads.width, scores, i, rows, visible)

            code.choose(heads.length == 1, one, several)
            with code.loop(0, rows) as r:
                row, count = code.at("float", scores, r * heads.pitch), heads.visible(i + r + 1)
                heads.add_mask(mask, i + r, row, count)
                top, total = _soften(code, row, count)
                heads.drop(keep, i + r, row, count, None)
                heads.clear(row, count, visible)
                inverse = code.cast(code.value(1.0, "double") / total, "float")
                inverse = code.select(total == 0.0, 0.0, inverse)
                place = (head * heads.length + i + r) * 2
                code.store(top, heads.top_and_sum, place)
                code.store(inverse, heads.top_and_sum, place + 1)
                code.store(inverse * heads.share, factors, r)
            heads.means(scores, v, heads.size, out, i, rows, 0)
            with code.loop(0, rows) as r:
                line = code.at("float", out[0], (i + r) * out[1])
                by = code.splat(code.load("float", factors, r), LANES)
                target = code.at("i16" if half else "float", result[0], (i + r) * result[1])
                for_each(code, heads.size, _scaling(code, line, by, target, _bfloat16.store if half else store))
    release(code, panels)


def _scaling(
    code: Code, line: Value, by: Value, out: Value, write: Callable[..., None]
) -> Callable[[Value, Value | None], None]:
    return lambda i, mask: write(code, load(code, line, i, mask) * by, out, i, mask)


def _copying(code: Code, line: Value, out: Value, by: Value) -> Callable[[Value, Value | None], None]:
    """Copy a line to `out`, then scale it."""

    def write(i: Value, mask: Value | None) -> None:
        value = load(code, line, i, mask)
        store(code, value, out, i, mask)
        store(code, value * by, line, i, mask)

    return write


def _soften(code: Code, row: Value, count: Value) -> tuple[Value, Value]:
    """exp(row - top) in place; returns `top`, the row's maximum, or 0 where that is -inf, and the sum."""
    top = largest(code, count, row)
    top = code.select(top == -math.inf, 0.0, top)
    shift = code.splat(top, LANES)

    def terms(i: Value, lanes: int, mask: Value | None) -> tuple[Value]:
        e = inline(code, exp_of_negative, load(code, row, i, mask) - shift)
        store(code, e, row, i, mask)
        return (e if mask is None else code.select(mask, e, 0.0),)

    return top, summed(code, count, 1, terms, (LANES,))[0]


@native(WORDS)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value], width: int, half: bool) -> None:
    heads = _Heads(code, arguments, *lanes_and_rows(width)[:2], half)
    of_scores = heads.room * heads.pitch
    sizes = [heads.pitch * heads.width, heads.pitch * heads.size, of_scores, of_scores]
    shapes = [(heads.length, heads.width), (heads.places, heads.width), (heads.places, heads.size)]  # of q, k, v
    if half:
        all_shapes = [*shapes, *[(heads.length, heads.size)] * 2, *shapes]  # then out, g, and the gradients
        sizes += [rows * columns for rows, columns in all_shapes]
    panels, others, scores, towards, *rooms = allocated(code, *sizes)
    with code.loop(first, last) as head:
        q, k, v, out, mask, keep, g, gq, gk, gv, g_mask = heads.head(head)
        results = gq, gk, gv
        if half:
            q, k, v, out, g = (
                heads.converted(a, 0, rows, size, room)
                for a, (rows, size), room in zip((q, k, v, out, g), all_shapes, rooms, strict=False)
            )
            gq, gk, gv = ((room, size) for room, (_, size) in zip(rooms[5:], shapes, strict=True))
            for room, (rows, size) in zip(rooms[5:], shapes, strict=True):
                code.clear(room, rows * size * 4)
        reached = heads.visible(heads.length)
        heads.turn(*k, reached, heads.width, heads.scale, panels)
        heads.turn(*v, reached, heads.size, code.value(1.0, "float"), others)
        with code.loop(0, heads.length, heads.room) as i:
            rows = code.minimum(heads.room, heads.length - i)
            visible = heads.visible(i + rows)
            heads.scores(*q, panels, heads.width, scores, i, rows, visible)
            heads.scores(*g, others, heads.size, towards, i, rows, visible)
            with code.loop(0, rows) as r:
                row, g_row = (code.at("float", a, r * heads.pitch) for a in (scores, towards))
                count = heads.visible(i + r + 1)
                heads.add_mask(mask, i + r, row, count)
                heads.drop(keep, i + r, g_row, count, heads.share)
                place = (head * heads.length + i + r) * 2
                top, norm = (code.load("float", heads.top_and_sum, place + n) for n in range(2))
                shared = _dot(code, g, out, i + r, heads.size)
                of_scores_too = heads.bases[ARRAYS - 1][0] != 0
                factor = code.select(of_scores_too, code.value(1.0, "float"), heads.scale)
                _gradients(code, row, g_row, count, top, norm, shared, factor)
                with code.when(of_scores_too):
                    line = code.at("float", g_mask[0], (i + r) * g_mask[1])
                    for_each(code, count, _copying(code, g_row, line, code.splat(heads.scale, LANES)))
                heads.drop(keep, i + r, row, count, heads.share)
                heads.clear(row, count, visible)
                heads.clear(g_row, count, visible)
            heads.means(towards, k, heads.width, gq, i, rows, 1)
            heads.sums(scores, g, heads.size, gv, i, rows, visible)
            heads.sums(towards, q, heads.width, gk, i, rows, visible)
        if half:
            for source, (rows, size), result in zip((gq, gk, gv), shapes, results, strict=True):
                heads.put(source, rows, size, result)
    release(code, panels)


def _dot(code: Code, a: tuple[Value, Value], b: tuple[Value, Value], row: Value, size: Value) -> Value:
    """The product of a row of each of two arrays: the sum that softmax's gradient subtracts."""
    left, right = (code.at("float", x, row * by_row) for x, by_row in (a, b))
    terms = lambda i, lanes, mask: (load(code, left, i, mask, lanes) * load(code, right, i, mask, lanes),)  # noqa: E731
    return code.cast(summed(code, size, 1, terms)[0], "float")


def _gradients(code: Code, row: Value, g_row: Value, count: Value, top: Value, norm: Value, shared: Value,
               factor: Value) -> None:  # fmt: skip
    """Scores to weights, and the gradients of weights to those of the scores before they are scaled, in place."""
    top, norm, shared, factor = (code.splat(v, LANES) for v in (top, norm, shared, factor))

    def write(i: Value, mask: Value | None) -> None:
        weight = inline(code, exp_of_negative, load(code, row, i, mask) - top) * norm
        g = load(code, g_row, i, mask)
        store(code, weight, row, i, mask)
        store(code, weight * (g - shared) * factor, g_row, i, mask)

    for_each(code, count, write)
