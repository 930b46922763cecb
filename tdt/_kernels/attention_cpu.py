"""Attention and its gradients in float32 on the CPU, some rows of weights at a time, which stay in the cache.

The scores of `ROWS` queries and all keys that they see are products with the keys in panels, turned so that a vector holds
keys; they become weights, and go into a second product, before the next rows are looked at: memory grows with the keys, not
with queries times keys. Where a query sees only the keys up to its own, tiles behind are left out. Every score is the sum
over the width in order, and every result the sum over blocks of `DEPTH` keys, whatever the number of queries.

Of bfloat16 (`half`), the rows of a head are converted into memory of its thread first, and results are rounded once; where the
processor sums pairs, many queries are computed by `bfloat16_attention_cpu`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import _bfloat16, _dots, bfloat16_attention_cpu
from tdt._kernels._addresses import address_of
from tdt._kernels._attention_heads import ARRAYS, CHUNK, KEEP, MASK, ROWS, STRIDES, WORDS, Heads, soften
from tdt._kernels._attention_products import lanes_and_rows
from tdt._kernels._code import Code, Value, native
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._launches import WATCH, are_zeros
from tdt._kernels._native import Entry, NativeKernel, vector_width
from tdt._kernels._pool import parallel
from tdt._kernels._rows import LANES, allocated, for_each, load, release, store, summed

FEW_QUERIES = 16  # or keys, with fewer of which packing them for pairs takes longer than the products
GRAIN = 1 << 15  # multiply-adds that a thread should at least have
ADDRESSES = struct.Struct("=" + "q" * (1 + ARRAYS)).pack
MOST_CALLS = 1000


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, keep: np.ndarray | None,
              out: np.ndarray, norms: np.ndarray, *, causal: bool, scale: float, dropped: float) -> None:  # fmt: skip
    """The op `attention` for (*, T, E), with at most two dimensions before T; `out` and `norms` are written to.

    mask: of numbers or of bools, broadcastable to (*, T, S).
    """
    chunks, mask = -(-q.shape[-2] // CHUNK), _with_keys(mask, k)
    kernel = _forward_kernel(q, k, v)
    _run(kernel, chunks, (q, k, v, out, mask, keep), norms, causal, scale, dropped)


def prepared(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, out: np.ndarray, *, causal: bool,
             scale: float) -> Callable[..., None]:  # fmt: skip
    """`attention` of arrays of these shapes and strides without dropout, as a function of them, `out` and `norms`."""
    whole = _with_keys(mask, k)
    kernel, arrays = _forward_kernel(q, k, v), (q, k, v, out, whole, None)
    compute = _Call(kernel, arrays, -(-q.shape[-2] // CHUNK), causal, scale, 0.0).compute
    if whole is mask:
        return lambda q, k, v, mask, out, norms: compute(norms, (q, k, v, out, mask, None))
    return lambda q, k, v, mask, out, norms: compute(norms, (q, k, v, out, _with_keys(mask, k), None))


def _forward_kernel(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> NativeKernel:
    """The kernel of `attention`: of many queries in bfloat16 the one that sums pairs, where the processor does so."""
    way = _way(q, k)
    return bfloat16_attention_cpu.forward(vector_width(), way) if way else _forward(vector_width(), q.dtype == BFLOAT16)


def _way(q: np.ndarray, k: np.ndarray) -> str:
    """The instructions that attention of so many queries and keys is computed by in pairs, as `_dots.available`; "" for none."""
    return _dots.available() if q.dtype == BFLOAT16 and min(q.shape[-2], k.shape[-2]) >= FEW_QUERIES else ""


def attention_vjp(g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None,
                  keep: np.ndarray | None, out: np.ndarray, norms: np.ndarray, gq: np.ndarray, gk: np.ndarray,
                  gv: np.ndarray, g_mask: np.ndarray | None, *, causal: bool, scale: float, dropped: float) -> None:  # fmt: skip
    """Add the gradients in q, k and v from `g`, that in `out`, to gq, gk and gv, which are zeros; g_mask gets that in scores."""
    are_zeros(gq, gk, gv)
    arrays = q, k, v, out, _with_keys(mask, k), keep, g, gq, gk, gv, g_mask
    way = _way(q, k)
    kernel = (
        bfloat16_attention_cpu.backward(vector_width(), way) if way else _backward(vector_width(), q.dtype == BFLOAT16)
    )
    _run(kernel, 1, arrays, norms, causal, scale, dropped)


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


@native(WORDS)
def _forward(code: Code, first: Value, last: Value, arguments: list[Value], width: int, half: bool) -> None:
    heads = Heads(code, arguments, *lanes_and_rows(width)[:2], half)
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
                top, total = soften(code, row, count)
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


@native(WORDS)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value], width: int, half: bool) -> None:
    heads = Heads(code, arguments, *lanes_and_rows(width)[:2], half)
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
                shared = _dot(code, g, out, i + r, heads.size)
                heads.gradients((mask, keep, g_mask), head, i + r, row, g_row, count, shared)
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
