"""Convolution of channels-last images in groups, in float32: machine code for one kernel, stride and dilation.

Vectors lie along channels: the sums and taps are those of `_planes`, of images (N, H, W, C). A chunk of the channels of some
rows is copied to a buffer, padded with zeros, so that a tile of targets reads at fixed distances. A vector of targets meets

    "own"     a vector of sources: depthwise
    "mixed"   a vector of sources, in each group one of its channels for all: groups of 2, 4, …, fewer than a vector has
    "spread"  one number: groups of as many targets as a vector has, or a multiple

An element is summed with `fma` in the order channel, row and column of the kernel ("spread"), or row, channel, column,
whatever the tile. Padding is multiplied too, so weights have to be finite. Pieces of the pool's work: (sample, strip of rows,
chunk), or (part of the samples, chunk) for the weights.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._conditions import MOST_CELLS
from tdt._kernels._layout import bordered, transposed
from tdt._kernels._native import NativeKernel, linked, vector_width
from tdt._kernels._plane_taps import BUFFER, PIXEL_BUFFER, TOGETHER, WORDS, PixelKind, taps
from tdt._kernels._planes import GRAIN, NEAR, PARTS
from tdt._kernels._pool import parallel
from tdt._kernels._turn import turner

CHUNKS = (64, 32, 16, 8)  # floats of a pixel in the buffer, the first with which enough rows fit
ENOUGH = 4  # rows of targets
SUMMED = 10  # vectors of sums in a tile, at most, where there are 16 registers
WRITTEN_OUT = 12  # products of a weight gradient with one vector of y, at most


@functools.cache
def function(kind: PixelKind) -> NativeKernel:
    """The machine code of a kind, from the cache or compiled."""
    name = "pixel_weights" if kind.what == "weights" else "pixel_values"

    def write() -> Any:
        from tdt._kernels._pixels_emit import Values, Weights

        return (Weights if kind.what == "weights" else Values)(kind, name).module

    pairs = "-".join("x".join(map(str, part)) for part in (*kind[1:5], kind.tile))
    parts = (
        f"pixels-{kind.what}-{pairs}-{kind.form}-{kind.per}-{kind.pixel}-{kind.out}-{kind.vector}{'p' * kind.planes}"
    )
    [address] = linked(parts, [name], write)
    return NativeKernel(parts, address, "q" * len(WORDS[name]))


def result(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
           groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv` with a channels-last result, groups > 1; None where this code cannot compute it."""
    size = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    how = "result", w.shape[2:], stride, dilation, (0, 0)
    outer, inner = len(w) // groups, w.shape[1]
    plan = _values_plan(how, size, inner, outer, groups)
    if plan is None or not np.isfinite(w).all():
        return None
    weights = w.reshape(groups, outer, inner, -1).transpose(0, 2, 3, 1)
    return _values(plan, x, weights, b, (len(x), *size, len(w)), size, padding)


def input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, size: tuple, stride: tuple, padding: tuple,
               dilation: tuple, groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_input_grad`, as `result`."""
    how = "input", w.shape[2:], stride, dilation, padding
    outer, inner = w.shape[1], len(w) // groups
    targets = tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
    plan = _values_plan(how, targets, inner, outer, groups)
    if plan is None or not np.isfinite(w).all():
        return None
    low = taps(*how).low
    weights = w.reshape(groups, inner, outer, -1).transpose(0, 1, 3, 2)
    return _values(plan, y, weights, b, (len(y), *size, outer * groups), targets, (-low[0], -low[1]))


def channels_last(x: np.ndarray) -> np.ndarray:
    """(N, C, H, W) as contiguous (N, H, W, C)."""
    ordered = to_last(x)
    return ordered if ordered.flags.c_contiguous else bordered(x, x.shape[2:], (0,) * (x.ndim - 2))


class _Plan(NamedTuple):
    """How the work is cut: the code's kind; chunks of channels and groups in each; rows of a strip; floats and columns of a
    row of the buffer; vectors of a group."""

    kind: PixelKind
    chunks: int
    chunk_groups: int
    tile_rows: int
    line: int
    columns: int
    group_vectors: int


def _values(plan: _Plan, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, shape: tuple, targets: tuple,
            start: tuple) -> np.ndarray:  # fmt: skip
    """Result or input gradient (N, H, W, C) of `shape`. w: (groups, inner, cells, outer); start: padding before x."""
    kind, chunks, of_chunk, tile_rows, line, columns, group_vectors = plan
    groups, inner, cells, outer = w.shape
    image = channels_last(x)
    out = np.empty(shape, np.float32)
    if kind.per == 1 and of_chunk * outer == kind.out and groups % of_chunk == 0 and inner == outer == 1:
        packed = w.reshape(chunks, of_chunk, cells)
        packed = transposed(packed, of_chunk, cells)
    else:
        packed = np.zeros((chunks, inner, cells, kind.out), np.float32)
        for chunk in range(chunks):
            some = w[chunk * of_chunk : (chunk + 1) * of_chunk]
            packed[chunk, :, :, : len(some) * outer].reshape(inner, cells, len(some), outer)[...] = some.transpose(
                1, 2, 0, 3
            )
    bias = np.zeros(chunks * kind.out + kind.vector, np.float32)
    if b is not None:
        bias[: b.size] = b
    strips = -(-targets[0] // tile_rows)
    work = tile_rows * targets[1] * inner * cells * kind.out
    parallel(
        function(kind), shape[0] * strips * chunks, image, packed, bias, out, chunks, strips, inner, group_vectors,
        image.shape[3], shape[3], of_chunk * inner, of_chunk * outer, *image.shape[1:3], *shape[1:3], *targets, tile_rows,
        *start, line, columns, grain=-(-GRAIN // work),
    )  # fmt: skip
    return to_front(out)


@functools.lru_cache(256)
def _values_plan(
    how: tuple, targets: tuple, inner: int, outer: int, groups: int, vector: int | None = None
) -> _Plan | None:
    """The plan of `_values`; None if there is none."""
    what, _, stride = how[:3]
    vector = vector or vector_width()
    phases = stride[1] if what == "input" else 1
    return _cut(how, targets, inner, outer, groups, _tile(targets, phases, vector), targets[0], vector)


def _cut(
    how: tuple, targets: tuple, inner: int, outer: int, groups: int, tile: tuple, most: int, vector: int
) -> _Plan | None:
    """The plan for these tiles. most: rows of a strip, at most."""
    what, kernel, stride = how[:3]
    form = _form(inner, outer, vector)
    if form is None and vector > 8:
        vector, form = 8, _form(inner, outer, 8)
    if form is None or math.prod(kernel) > MOST_CELLS:
        return None
    span, (down, across) = taps(*how).span, (1, 1) if what == "input" else stride
    wide = _multiple(targets[1], TOGETHER) if what == "weights" else targets[1]
    columns = (wide - 1) * across + _reach(how)
    per = inner if form == "mixed" else 1
    for floats in CHUNKS[what == "weights" :]:
        of_chunk = min(groups, max(1, floats // max(inner, outer)))
        pixel, out = _multiple(of_chunk * inner, vector), _multiple(of_chunk * outer, vector)
        line = columns * pixel
        rows = min((BUFFER // line - span[0]) // down + 1, most)
        if what == "weights":  # both operands stay in a level-one cache, if one row of them fits
            near = (NEAR - (span[0] - down) * line) // (down * line + wide * out)
            rows = min(rows, max(1, near), PIXEL_BUFFER // (wide * out))
        if rows >= min(most, ENOUGH):
            break
    if rows < tile[0]:
        return None
    kind = PixelKind(*how, form, per, tile, pixel, out, vector, False)
    strips = -(-targets[0] // rows)
    tile_rows = min(_multiple(-(-targets[0] // strips), tile[0]), rows // tile[0] * tile[0], targets[0])
    return _Plan(kind, -(-groups // of_chunk), of_chunk, tile_rows, line, columns, max(1, outer // vector))


def _reach(how: tuple) -> int:
    """Columns of the buffer that the taps of a target span."""
    found = taps(*how)
    across = 1 if how[0] == "input" else how[2][1]
    return max(tap.column * across + tap.phase for phase in found.phases for column in phase for tap in column) + 1


def _form(inner: int, outer: int, vector: int) -> str | None:
    """How vectors of targets meet their sources; None for groups that do not fit vectors."""
    if inner == outer == 1:
        return "own"
    if inner == outer < vector and vector % inner == 0:
        return "mixed"
    return "spread" if outer % vector == 0 else None


def _multiple(n: int, of: int) -> int:
    return -(-n // of) * of


def _even(n: int, most: int) -> int:
    """The least size of as few equal parts, at most `most` each, as cover n."""
    return -(-n // -(-n // most))


def _tile(targets: tuple, phases: int, vector: int) -> tuple[int, int]:
    """Rows and columns of a tile."""
    most = max(1, (2 * SUMMED if vector == 16 else SUMMED) // phases)
    wide = _even(targets[1], most)
    return _even(targets[0], max(1, most // wide)), wide


def weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_weight_grad`, as `result`; (O, C / groups, *kernel) in C order."""
    outer, inner, size = y.shape[1] // groups, x.shape[1] // groups, y.shape[2:]
    plan = _weights_plan(("weights", kernel, stride, dilation, (0, 0)), size, inner, outer, groups)
    if plan is None:
        return None
    kind, chunks, of_chunk, tile_rows, line, columns, group_vectors = plan
    planes = not output_is_channels_last(y, x)
    kind = kind._replace(planes=planes)
    image, gradient = (np.ascontiguousarray(a) if planes else channels_last(a) for a in (x, y))
    cells = math.prod(kernel)
    part = -(-len(y) // max(1, min(len(y), PARTS // chunks)))
    parts = -(-len(y) // part)
    sums = np.zeros((parts, chunks, inner * cells, kind.out), np.float32)
    work = gradient.size * inner * cells // (chunks * parts)
    parallel(
        function(kind), parts * chunks, image, gradient, sums, len(image), inner, group_vectors, x.shape[1], y.shape[1],
        of_chunk * inner, of_chunk * outer, *x.shape[2:], *size, tile_rows, *padding, line, columns, turner() if planes else 0,
        chunks, part, grain=-(-GRAIN // work),
    )  # fmt: skip
    sums = sums[0] if parts == 1 else sums.sum(0)
    out = transposed(sums, inner * cells, kind.out).reshape(chunks, kind.out, inner, *kernel)
    out = out[:, : of_chunk * outer].reshape(-1, inner, *kernel)[: y.shape[1]]
    return out if np.isfinite(out).all() else None


@functools.lru_cache(256)
def _weights_plan(
    how: tuple, size: tuple, inner: int, outer: int, groups: int, vector: int | None = None
) -> _Plan | None:
    """The plan of `weight_grad`; None if there is none."""
    plan = _cut(how, size, inner, outer, groups, (1, 1), size[0], vector or vector_width())
    if plan is not None and plan.kind.form == "spread":
        most = max(1, WRITTEN_OUT // math.prod(how[1]))
        together = max(n for n in range(1, most + 1) if inner % n == 0)
        plan = plan._replace(kind=plan.kind._replace(per=together))
    return plan
