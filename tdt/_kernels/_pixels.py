"""Convolution of channels-last images in groups, in float32: machine code for one kernel, stride and dilation.

Vectors lie along channels: the sums and taps are those of `_planes`, of images (N, H, W, C). A vector of targets meets

    "own"     a vector of sources: depthwise
    "mixed"   a vector of sources, in each group one of its channels for all: groups of 2, 4, …, fewer than a vector has
    "spread"  one number: groups of as many targets as a vector has, or a multiple

Results and input gradients of "own" and "mixed" read images where they lie, a pixel's channels one vector after the other, and
zeros around them; weight gradients of "own" with small kernels read them so, row by row, without these zeros. For the others a
chunk of the channels of some rows is copied to a buffer, padded with zeros, so that a tile of targets reads at fixed distances.
Padding is multiplied too, so weights have to be finite.

An element is summed with `fma` in the order channel, row and column of the kernel ("spread"), or row, channel, column,
whatever the tile. Pieces of the pool's work: (sample, rows of a tile); with a buffer (sample, strip of rows, chunk), or (part of
the samples, chunk) for the weights.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._conv_conditions import MOST_CELLS
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._launches import all_finite, sum_of, watched_contiguous, zeros
from tdt._kernels._layout import bordered, contiguous, transposed
from tdt._kernels._native import NativeKernel, linked, vector_width
from tdt._kernels._plane_taps import BUFFER, MOST_READ, PIXEL_BUFFER, PIXEL_SUMS, TOGETHER, WORDS, PixelKind, taps
from tdt._kernels._planes import GRAIN, NEAR
from tdt._kernels._pool import get_num_threads, parallel
from tdt._kernels._turn import turner

CHUNKS = (64, 32, 16, 8)  # floats of a pixel in the buffer, the first with which enough rows fit
ENOUGH, ENOUGH_SUMMED = 4, 2  # rows of targets; of a weight gradient's, which takes the widest chunks if none has them
# Of weight gradients of "own" channels: how many count as a piece, and pixels of the rows that are summed one after the other.
# Their bits do not depend on how the work is cut.
OWN, CHAIN = 16, 64
PIECES = 8  # of a weight gradient's work, where there are as many samples: threads have equal shares of them
SUMMED = 10  # vectors of sums in a tile, at most, where there are 16 registers
INDEPENDENT = 8  # vectors of sums that do not wait for each other: a "spread" tile has no more rows than they take
PAIRED = (
    12  # sums of a "spread" tile of a vector of targets up to which two vectors are summed together, with 32 registers
)
WRITTEN_OUT = 12  # products of a weight gradient with one vector of y, at most


@functools.cache
def function(kind: PixelKind) -> NativeKernel:
    """The machine code of a kind, from the cache or compiled."""
    if kind.what == "weights":
        name = "pixel_weights" if kind.pixel else "pixel_sums"
    else:
        name = "pixel_chunks" if kind.form == "spread" else "pixel_values"

    def write() -> Any:
        from tdt._kernels import _pixels_emit as emit
        from tdt._kernels import _pixels_weights as weights

        written = {"pixel_weights": weights.Weights, "pixel_sums": weights.WeightsInPlace, "pixel_chunks": emit.Buffered,
                   "pixel_values": emit.InPlace}[name]  # fmt: skip
        return written(kind, name).module

    pairs = "-".join("x".join(map(str, part)) for part in (*kind[1:5], kind.tile))
    parts = (
        f"pixels-{kind.what}-{pairs}-{kind.form}-{kind.per}-{kind.pixel}-{kind.out}-{kind.vector}"
        f"{'p' * kind.planes}{'h' * kind.half}{f'-{kind.together}' * (kind.together > 1)}"
    )
    [address] = linked(parts, [name], write)
    return NativeKernel(parts, address, "q" * len(WORDS[name]))


def result(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
           groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv` with a channels-last result, groups > 1; None where this code cannot compute it."""
    size = output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    how = "result", w.shape[2:], stride, dilation, (0, 0)
    return _values(how, x, w, b, groups, (len(x), *size, len(w)), size, padding)


def input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, size: tuple, stride: tuple, padding: tuple,
               dilation: tuple, groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_input_grad`, as `result`."""
    how = "input", w.shape[2:], stride, dilation, padding
    targets, low = tuple(-(-n // s) for n, s in zip(size, stride, strict=True)), taps(*how).low
    return _values(how, y, w, b, groups, (len(y), *size, w.shape[1] * groups), targets, (-low[0], -low[1]))


def channels_last(x: np.ndarray) -> np.ndarray:
    """(N, C, H, W) as contiguous (N, H, W, C)."""
    ordered = to_last(x)
    return ordered if ordered.flags.c_contiguous else bordered(x, x.shape[2:], (0,) * (x.ndim - 2))


class _Tiles(NamedTuple):
    """How results and input gradients are cut that read images where they lie: the code's kind, vectors of targets, tiles on top
    of each other."""

    kind: PixelKind
    vectors: int
    strips: int


class _Plan(NamedTuple):
    """How the work of others is cut: the code's kind; chunks of channels and groups in each; rows of a strip; floats and columns
    of a row of the buffer; vectors of a group; rows of a weight gradient's strip that are summed one after the other."""

    kind: PixelKind
    chunks: int
    chunk_groups: int
    tile_rows: int
    line: int
    columns: int
    group_vectors: int
    chain: int


def _values(how: tuple, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, groups: int, shape: tuple, targets: tuple,
            start: tuple) -> np.ndarray | None:  # fmt: skip
    """Result or input gradient (N, H, W, C) of `shape`. start: padding before x."""
    image, channels = channels_last(x), shape[3]
    inner, outer = image.shape[3] // groups, channels // groups
    plan = _values_plan(how, targets, inner, outer, groups)
    if plan is None or not (math.isfinite(w.sum()) or np.isfinite(w).all()):
        return None
    kind = plan.kind
    bias = np.zeros(channels, np.float32) if b is None else np.ascontiguousarray(b)
    if isinstance(plan, _Tiles):
        packed, steps = _weights_of_vectors(w, groups, kind)
        if channels < kind.vector:
            image, bias = (np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, kind.vector - channels)]) for a in (image, bias))
        group_vectors, pieces = 1, plan.strips
        words: tuple = _zeros(image.shape[3]), plan.strips, plan.vectors
    else:
        packed, steps, cell = _weights_of_groups(w, groups, kind)
        kind = kind._replace(out=cell)
        strips, of_chunk, group_vectors = -(-targets[0] // plan.tile_rows), plan.chunk_groups, plan.group_vectors
        pieces = strips * plan.chunks
        words = plan.chunks, strips, plan.tile_rows, of_chunk * inner, of_chunk * outer, plan.line, plan.columns
    out = np.empty((*shape[:3], max(channels, kind.vector)), np.float32)
    work = math.prod(targets) * w.size // pieces
    parallel(
        function(kind), len(image) * pieces, image, packed, bias, out, inner, group_vectors, *steps, image.shape[3],
        out.shape[3], *image.shape[1:3], *shape[1:3], *targets, *start, *words, grain=-(-GRAIN // max(1, work)),
    )  # fmt: skip
    return to_front(out if out.shape == shape else np.ascontiguousarray(out[..., :channels]))


# Both functions return weights in the order of the code, and the distances, in floats, of those of a group, of a vector of its
# targets, and of a channel that is summed over.


def _weights_of_vectors(w: np.ndarray, groups: int, kind: PixelKind) -> tuple[np.ndarray, tuple[int, int, int]]:
    """(vectors, per, cells, vector). The last vector overlaps the one before, or is filled up with zeros."""
    per, vector, cells = kind.per, kind.vector, math.prod(kind.kernel)
    rows = contiguous(w)
    if kind.what == "input":
        rows = rows.reshape(groups, per, per, cells).swapaxes(1, 2)
    rows = rows.reshape(groups * per, per * cells)
    if len(rows) < vector:
        rows = np.pad(rows, ((0, vector - len(rows)), (0, 0)))
    elif len(rows) % vector:
        rows = np.concatenate((rows[: len(rows) // vector * vector], rows[-vector:]))
    return transposed(rows, vector, per * cells), (per * cells * vector, 0, cells * vector)


def _weights_of_groups(w: np.ndarray, groups: int, kind: PixelKind) -> tuple[np.ndarray, tuple[int, int, int], int]:
    """(groups, inner, cells, outer), or (groups, cells, inner, outer); and the distance of cells."""
    cells, last = math.prod(kind.kernel), not w.flags.c_contiguous and to_last(w).flags.c_contiguous
    group = w.size // groups
    if kind.what == "input":
        outer = w.shape[1]
        packed = to_last(w) if last else transposed(w, outer, cells)
    else:
        outer = len(w) // groups
        packed = transposed(to_last(w) if last else w, outer, group // outer)
        if last:
            return packed, (group, kind.vector, outer), group // cells
    return packed, (group, kind.vector, outer * cells), outer


@functools.lru_cache(64)
def _zeros(count: int) -> np.ndarray:
    """What is read around an image: never written to."""
    return np.zeros(count, np.float32)


@functools.lru_cache(256)
def _values_plan(
    how: tuple, targets: tuple, inner: int, outer: int, groups: int, vector: int | None = None
) -> _Tiles | _Plan | None:
    """The plan of `_values`; None if there is none."""
    what, kernel, stride = how[:3]
    vector = vector or vector_width()
    form = _form(inner, outer, vector)
    if vector > 8 and (form is None or groups * outer < vector):
        vector, form = 8, _form(inner, outer, 8)
    down, across = (1, 1) if what == "input" else stride
    tile = _tile(targets, stride[1] if what == "input" else 1, vector, form == "spread")
    if form == "spread":
        plan = _cut(how, targets, inner, outer, groups, tile, targets[0], vector)
        phases = stride[1] if what == "input" else 1
        if plan is None or plan.kind.vector < 16 or plan.group_vectors % 2:
            return plan
        if math.prod(plan.kind.tile) * phases <= PAIRED:
            plan = plan._replace(kind=plan.kind._replace(together=2))
        return plan
    lines, columns = (tile[0] - 1) * down + taps(*how).span[0], (tile[1] - 1) * across + _reach(how)
    if form is None or math.prod(kernel) > MOST_CELLS or lines * columns > MOST_READ:
        return None
    kind = PixelKind(*how, form, inner if form == "mixed" else 1, tile, 0, vector, vector, False)
    return _Tiles(kind, -(-max(groups * outer, vector) // vector), -(-targets[0] // tile[0]))


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
    summed = what == "weights"
    own = summed and form == "own"
    chain = max(1, CHAIN // targets[1]) if own else 1
    chunks = tuple(floats for floats in CHUNKS if floats >= vector) if own else CHUNKS
    chunks = CHUNKS[1:] if summed and form == "spread" else chunks  # few groups as wide as vectors are enough

    def cut(floats: int) -> tuple[int, ...]:
        """Rows of a strip, groups of a chunk, floats of a pixel of it and of one of the result, and of a row of the buffer."""
        of_chunk = min(groups, max(1, floats // max(inner, outer)))
        pixel, out = _multiple(of_chunk * inner, vector), _multiple(of_chunk * outer, vector)
        line = columns * pixel
        rows = min((BUFFER // line - span[0]) // down + 1, most)
        if summed:  # both operands stay in a level-one cache, if one row of them fits
            near = (NEAR - (span[0] - down) * line) // (down * line + wide * out)
            rows = min(rows, max(chain if floats == chunks[-1] else 1, near), PIXEL_BUFFER // (wide * out))
        return rows if rows == most else rows // chain * chain, of_chunk, pixel, out, line

    cuts = [each for each in map(cut, chunks) if each[0] >= tile[0]]
    if not cuts:
        return None
    enough = min(most, ENOUGH_SUMMED if summed else ENOUGH)
    rows, of_chunk, pixel, out, line = next(
        (each for each in cuts if each[0] >= enough), cuts[0 if summed and not own else -1]
    )
    kind = PixelKind(*how, form, per, tile, pixel, out, vector, False)
    strips = -(-targets[0] // rows)
    unit = chain if own else tile[0]
    tile_rows = min(_multiple(-(-targets[0] // strips), unit), rows // tile[0] * tile[0], targets[0])
    chain = chain if own else tile_rows
    return _Plan(kind, -(-groups // of_chunk), of_chunk, tile_rows, line, columns, max(1, outer // vector), chain)


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


def _tile(targets: tuple, phases: int, vector: int, spread: bool) -> tuple[int, int]:
    """Rows and columns of a tile."""
    most = max(1, (2 * SUMMED if vector == 16 else SUMMED) // phases)
    wide = _even(targets[1], most)
    return _even(targets[0], max(1, (INDEPENDENT // phases if spread else most) // wide)), wide


def weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                groups: int) -> np.ndarray | None:  # fmt: skip
    """The op `conv_weight_grad`, as `result`, or of contiguous images of bfloat16; (O, C / groups, *kernel) in C order."""
    outer, inner, size = y.shape[1] // groups, x.shape[1] // groups, y.shape[2:]
    plan = _weights_plan(("weights", kernel, stride, dilation, (0, 0)), size, inner, outer, groups)
    if plan is None:
        return None
    kind, chunks, of_chunk, tile_rows, line, columns, group_vectors, chain = plan
    planes = not output_is_channels_last(y, x)
    image, gradient = (watched_contiguous(a) if planes else channels_last(a) for a in (x, y))
    cells = math.prod(kernel)
    part = -(-len(y) // min(len(y), -(-PIECES // (-(-groups // OWN) if kind.form == "own" else chunks))))
    parts = -(-len(y) // part)
    in_place = None if planes else _kind_in_place(kind, groups, x.shape[3], size[1], padding[1])
    if in_place is not None:
        vectors = -(-groups // in_place.vector)
        together = -(-vectors // max(1, PIECES // parts)) if get_num_threads() > 1 else vectors
        chunks = -(-vectors // together)
        sums = zeros((parts, cells, groups))
        kind, words = in_place, (groups, *x.shape[2:], *size, padding[0], chunks, part, chain, vectors, together)
    else:
        half = x.dtype == BFLOAT16
        kind = kind._replace(planes=planes, half=half)
        sums = zeros((parts, chunks, inner * cells, kind.out))
        words = (
            inner, group_vectors, x.shape[1], y.shape[1], of_chunk * inner, of_chunk * outer, *x.shape[2:], *size, tile_rows,
            *padding, line, columns, turner(half=half) if planes else 0, chunks, part, chain,
        )  # fmt: skip
    work = gradient.size * inner * cells // (chunks * parts)
    parallel(function(kind), parts * chunks, image, gradient, sums, len(image), *words, grain=-(-GRAIN // work))
    sums = sum_of(sums)
    if kind.form == "mixed":
        sums = _by_target(sums.reshape(chunks, inner, cells, -1, inner)).reshape(chunks, inner * cells, kind.out)
    if in_place is not None:
        out = transposed(sums, cells, groups).reshape(groups, 1, *kernel)
    else:
        out = transposed(sums, inner * cells, kind.out).reshape(chunks, kind.out, inner, *kernel)
        out = out[:, : of_chunk * outer].reshape(-1, inner, *kernel)[: y.shape[1]]
    return out if all_finite(out) else None


def _kind_in_place(kind: PixelKind, channels: int, width: int, columns: int, left: int) -> PixelKind | None:
    """The kind of a weight gradient that reads channels-last images where they lie.

    None where registers have no room for all sums, so that images would be read several times, and for few channels or columns.

    Args:
        width, columns: of the images, and of the result. left: padding.
    """
    vector, across = kind.vector if channels >= kind.vector else 8, kind.stride[1]
    right = max(0, (columns - 1) * across + _reach(kind[:5]) - width - left)
    if kind.form != "own" or math.prod(kind.kernel) > PIXEL_SUMS or channels < vector:
        return None
    if -(-left // across) + -(-right // across) > columns:
        return None
    return kind._replace(padding=(left, right), pixel=0, out=vector, vector=vector)


def _by_target(sums: np.ndarray) -> np.ndarray:
    """(chunks, t, cells, groups, channels), of targets t places on from a channel, as (…, channels, cells, groups, targets)."""
    per = sums.shape[1]
    channels, targets = np.ogrid[:per, :per]
    found = sums[:, (targets - channels) % per, :, :, channels]  # (channels, targets, chunks, cells, groups)
    return np.ascontiguousarray(found.transpose(2, 0, 3, 4, 1))


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
