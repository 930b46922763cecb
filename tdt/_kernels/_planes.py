"""Convolution of contiguous images (N, C, H, W) in groups, in float32: machine code for one kernel, stride and dilation.

Vectors lie along rows. A group's planes are copied to a buffer, padded with zeros, a block of rows at a time; with a stride
of s along the row, its columns are separated into s phases, so that every vector is contiguous. Narrow planes of depthwise
convolutions, of whose rows a vector holds a whole one, are read where they lie, with masks. Then

    result           d[m, i, j] = bias[m] + Σ_k Σ_taps w[m, k, tap] · s[k, i · stride + row of tap, j · stride + column of tap]
    input gradient   the same of the result's gradient, with a set of taps for each phase of the pixel (i, j)
    weight gradient  g[m, k, tap] = Σ_samples Σ_ij y[m, i, j] · x[k, i · stride + row of tap, j · stride + column of tap]

for the channels k and m of one group: depthwise has one of each, and a tile of several rows instead of channels. Images in one
group are computed so where one side has few channels (`few_channels`). Padding is multiplied too, so weights have
to be finite (the caller asks). An element is summed with `fma` in the order k, column of the kernel, row of the kernel, whatever
the tile, and these sums of 16 channels k each are added. Blocks of the pool's work: (sample, group), or (part of the samples,
group, k, or all k) for the weights.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._backend.windows import output_sizes
from tdt._kernels._conv_conditions import MOST_CELLS
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._half_blocks import half_blocks
from tdt._kernels._launches import all_finite, sum_of, watched_contiguous
from tdt._kernels._native import NativeKernel, linked, vector_width
from tdt._kernels._plane_taps import BUFFER, SUMS, WORDS, Kind, most_sums, taps
from tdt._kernels._pool import parallel, stays_on_caller


@functools.cache
def function(kind: Kind) -> NativeKernel:
    """The machine code of a kind, from the cache or compiled."""
    name = "weights" if kind.what == "weights" else "values"

    def write() -> Any:
        from tdt._kernels._planes_values import Values
        from tdt._kernels._planes_weights import Weights

        return (Weights if name == "weights" else Values)(kind).module

    pairs = "-".join("x".join(map(str, part)) for part in kind[1:6])
    parts = f"planes-{kind.what}-{pairs}-{kind.vector}{'s' * kind.single}{'p' * kind.in_place}"
    [address] = linked(parts, [name], write)
    return NativeKernel(parts, address, "q" * len(WORDS[name]))


# How the work is cut: by shapes alone.

GRAIN = 1 << 20  # multiply-adds that a thread should at least have
FEW, CHANNELS = 4, range(3, 9)  # channels of a tile: where there are at most FEW all, else as many as waste least
NEAR = 6144  # floats of a buffer that is read once or twice: they stay in the L1 cache
# Vectors of a row of targets up to which planes are read where they lie, with masks, for up to SOME targets with AVX-512.
IN_PLACE, SOME = 2, 16
FEWEST_ROWS = 4  # of targets in a block, if the buffer has room for what they read: fewer read most of it again
CHAIN = 512  # vectors that the weight gradient sums one after another
FAR = 1 << 20  # floats of both operands of a weight gradient that lie in no level-two cache: they are loaded ahead
PARTS = 4  # pieces, at least, that a weight gradient is cut into where there are as many samples


def result(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
           groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv` for contiguous x, groups > 1; None where this code cannot compute it."""
    return _values(x, w, b, *_of_result(x, w, stride, padding, dilation, groups))


def prepared_result(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
                    groups: int) -> Callable[..., np.ndarray | None] | None:  # fmt: skip
    """`result` as a function of contiguous x, w and b; None where it cannot compute it, or several threads do.

    Of x in bfloat16, to which it is rounded, on any number of threads.
    """
    return _prepared(x, w, *_of_result(x, w, stride, padding, dilation, groups))


def _prepared(
    x: np.ndarray, w: np.ndarray, how: tuple, shape: tuple, *numbers: Any
) -> Callable[..., np.ndarray | None] | None:
    """`_values` as a function of contiguous x, w and b, as `prepared_result`."""
    call = _call(x, w, how, shape, *numbers)
    if call is None:
        return None
    (kernel, blocks, grain, words), dtype = call, x.dtype
    if dtype == BFLOAT16:
        run = half_blocks(kernel, blocks, grain, (x.size // blocks, math.prod(shape) // blocks), words)
    else:
        run = kernel.with_last(blocks, *words) if stays_on_caller(blocks, grain) else None
    if run is None:
        return None
    zeros = np.zeros(shape[1], np.float32)

    def compute(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray | None:
        if not all_finite(w):
            return None
        out = np.empty(shape, dtype)
        run(x, w, zeros if b is None else b, out)
        return out

    return compute


def _of_result(x: np.ndarray, w: np.ndarray, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> tuple:
    """What `_values` takes after the arrays."""
    size = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    how = "result", w.shape[2:], stride, dilation, (0, 0)
    outer, inner = len(w) // groups, w.shape[1]
    steps = inner * w[0, 0].size, w[0, 0].size
    return how, (x.shape[0], len(w), *size), size, outer, inner, steps, padding


def input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, size: tuple, stride: tuple, padding: tuple,
               dilation: tuple, groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_input_grad`, as `result`."""
    if max(stride) > 2:
        return None
    return _values(y, w, b, *_of_input_grad(y, w, size, stride, padding, dilation, groups))


def prepared_input_grad(y: np.ndarray, w: np.ndarray, *, size: tuple, stride: tuple, padding: tuple, dilation: tuple,
                        groups: int) -> Callable[..., np.ndarray | None] | None:  # fmt: skip
    """`input_grad`, as `prepared_result`."""
    return None if max(stride) > 2 else _prepared(y, w, *_of_input_grad(y, w, size, stride, padding, dilation, groups))


def _of_input_grad(y: np.ndarray, w: np.ndarray, size: tuple, stride: tuple, padding: tuple, dilation: tuple,
                   groups: int) -> tuple:  # fmt: skip
    """What `_values` takes after the arrays."""
    how = "input", w.shape[2:], stride, dilation, padding
    outer, inner = w.shape[1], len(w) // groups
    targets = tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
    low = taps(*how).low if w[0, 0].size <= MOST_CELLS else (0, 0)
    steps = w[0, 0].size, outer * w[0, 0].size
    return how, (y.shape[0], outer * groups, *size), targets, outer, inner, steps, (-low[0], -low[1])


def _values(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, how: tuple, shape: tuple, targets: tuple, outer: int, inner: int,
            steps: tuple, start: tuple) -> np.ndarray | None:  # fmt: skip
    """Result or input gradient of `shape`. targets: rows and columns of it, of one phase; start: padding before x."""
    call = _call(x, w, how, shape, targets, outer, inner, steps, start)
    if call is None or not all_finite(w):
        return None
    kernel, blocks, grain, words = call
    out = np.empty(shape, np.float32)
    bias = np.zeros(shape[1], np.float32) if b is None else np.ascontiguousarray(b)
    parallel(kernel, blocks, watched_contiguous(x), watched_contiguous(w), bias, out, *words, grain=grain)
    return out


def _call(x: np.ndarray, w: np.ndarray, how: tuple, shape: tuple, targets: tuple, outer: int, inner: int, steps: tuple,
          start: tuple) -> tuple[NativeKernel, int, int, tuple[int, ...]] | None:  # fmt: skip
    """The kernel of `_values`, its pieces of work, how many a thread should at least have, and what follows the arrays; None
    where this code cannot compute it."""
    plan = _plan(how, targets, outer, inner)
    if plan is None:
        return None
    kind, tile_rows, tile_columns, pitch = plan
    groups = shape[1] // outer
    work = targets[0] * targets[1] * inner * outer * w[0, 0].size
    outer_step, inner_step = steps
    sizes = *x.shape[2:], *shape[2:], *targets, tile_rows, tile_columns, *start, pitch
    words = groups, inner, outer, inner_step, outer_step, *sizes
    return function(kind), shape[0] * groups, -(-GRAIN // work), words


@functools.lru_cache(256)
def _plan(how: tuple, targets: tuple, outer: int, inner: int, vector: int | None = None) -> tuple | None:
    """(kind, rows and columns of a block, columns of the buffer) of `_values`; None if the buffer is too small."""
    what, kernel, stride = how[:3]
    if math.prod(kernel) > MOST_CELLS:
        return None
    vector = vector or vector_width()
    if vector > 8 and targets[1] <= 8:
        vector = 8
    span, (down, across) = taps(*how).span, (1, 1) if what == "input" else stride
    phases = stride[1] if what == "input" else 1
    channels, rows, vectors = tile = _tile(targets, outer, phases, vector, what == "input" and stride[0] > 1)
    # What the buffer holds is read by few tiles; masks of many columns do not stay in registers of AVX2.
    few = SOME if vector == 16 else FEW if kernel[1] <= 3 else 1
    once = (inner == 1 or outer <= few) and across <= 2 and vector >= 8
    kind = Kind(*how, tile, vector, inner == 1, once and targets[1] <= IN_PLACE * vector)
    if kind.in_place:
        return kind, *targets, 0
    wide = vectors * vector
    spare = vector if across == 2 else 0

    def pitch(columns: int) -> int:
        return _multiple(_multiple(columns, wide) + span[1] - 1 + spare, 8)

    def height(columns: int, most: int) -> int:
        """Rows of a block."""
        return (most // (inner * pitch(columns) * across) - span[0]) // down + 1

    columns = targets[1]
    while height(columns, BUFFER) < rows:
        if columns <= wide:
            return (kind._replace(in_place=True), *targets, 0) if once else None
        columns = _multiple(-(-columns // 2), wide)
    most = max(rows, height(columns, NEAR if outer <= channels else BUFFER), min(FEWEST_ROWS, height(columns, BUFFER)))
    strips = -(-targets[0] // most)
    return (
        kind,
        min(_multiple(-(-targets[0] // strips), rows), most // rows * rows, targets[0]),
        columns,
        pitch(columns),
    )


def _multiple(n: int, of: int) -> int:
    return -(-n // of) * of


def _tile(targets: tuple, outer: int, phases: int, vector: int, one_row: bool) -> tuple[int, int, int]:
    """Channels, rows and vectors of the tile that computes the least beyond the result.

    one_row: rows of a tile would not be next to each other, and what is written beyond a row's end would stay there.
    """
    height, vectors = targets[0], -(-targets[1] // vector)
    enough = 10 if vector == 16 else 8  # sums: fewer wait for each other
    some = [outer] if outer <= FEW else [n for n in CHANNELS if n <= outer]
    shapes = [(n, *each) for n in some for each in _shapes(n, height, phases, vector, one_row)]

    def cost(shape: tuple[int, int, int]) -> float:
        channels, rows, wide = shape
        sums = channels * phases * rows * wide
        targets = _multiple(outer, channels) * _multiple(height, rows) * _multiple(vectors, wide)
        return targets * (1 + max(0, enough - sums) / 20)

    return min(shapes, key=cost)


def _shapes(channels: int, height: int, phases: int, vector: int, one_row: bool) -> list[tuple[int, int]]:
    """Rows and vectors of the tiles of so many channels whose sums, and what a weight meets, stay in registers."""
    registers, sums = (28, (24, 20)) if vector == 16 else (13, (12, 10))
    most = min(sums[channels > FEW] // (channels * phases), registers // (channels * phases + 1))
    if channels == 1:
        most = (16 if vector == 16 else 8) // phases
    if channels <= FEW:
        most = max(1, most)
    if one_row:
        return [(1, wide) for wide in range(most, 0, -1)]
    if channels == 1 and height >= 4:
        return [(rows, 1) for rows in range(min(most, height), min(most, height) // 2, -1)]
    return [(rows, wide) for rows in range(min(most, height), 0, -1) for wide in range(most // rows, 0, -1)]


def weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_weight_grad`, as `result`."""
    outer, inner, size = y.shape[1] // groups, x.shape[1] // groups, y.shape[2:]
    plan = _weights_plan(("weights", kernel, stride, dilation, (0, 0)), y.shape[0], size, outer)
    if plan is None:
        return None
    kind, *blocks, pitch, together = plan
    # Channels that a piece computes: all, so that it reads the gradient once, where samples are pieces enough.
    fit = inner * outer * math.prod(kernel) * kind.vector <= SUMS
    some = inner if fit and len(y) * groups >= PARTS else 1
    part = -(-len(y) // min(len(y), -(-PARTS // (groups * (inner // some)))))
    parts = -(-len(y) // part)
    out = np.empty((parts, y.shape[1], inner, *kernel), np.float32)
    work = y.size // groups * math.prod(kernel) // parts
    parallel(
        function(kind), parts * groups * (inner // some), watched_contiguous(x), watched_contiguous(y), out, len(y), inner,
        outer, groups, *x.shape[2:], *size, *blocks, *padding, pitch, together, part, some,
        y.size + x.size >= FAR, grain=-(-GRAIN // (work * some)),
    )  # fmt: skip
    total = sum_of(out)
    return total if all_finite(total) else None


@functools.lru_cache(256)
def _weights_plan(how: tuple, samples: int, size: tuple, outer: int, vector: int | None = None) -> tuple | None:
    """(kind, rows and columns of a block, columns of the buffer, samples in it); None if the buffer is too small."""
    kernel, stride = how[1:3]
    vector = vector or vector_width()
    if vector > 8 and size[1] <= 8:
        vector = 8
    if math.prod(kernel) > MOST_CELLS or outer * math.prod(kernel) * vector > SUMS:
        return None
    most = most_sums(vector)
    channels = min(outer, most // 6 if kernel[1] > 1 else 10, max(1, most // kernel[1]))
    kind = Kind(*how, (channels, 1, 1), vector, False)
    span, (down, across) = taps(*how).span, stride
    columns = size[1]

    def pitch() -> int:
        return _multiple(_multiple(columns, vector) + span[1] - 1 + (vector if across == 2 else 0), 8)

    def height(most: int) -> int:
        return min((most // (pitch() * across) - span[0]) // down + 1, max(1, CHAIN // -(-columns // vector)))

    while height(BUFFER) < 1:
        if columns <= vector:
            return None
        columns = _multiple(-(-columns // 2), vector)
    rows = min(size[0], max(1, height(NEAR)))
    together = 1
    if rows == size[0] and columns == size[1]:
        own = ((rows - 1) * down + span[0]) * pitch() * across
        together = max(1, min(samples, NEAR // own, CHAIN // (rows * -(-columns // vector))))
    return kind, rows, columns, pitch(), together
