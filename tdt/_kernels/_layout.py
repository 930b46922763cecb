"""Conversion of images between memory formats, optionally with a border of zeros; of bfloat16 to float32 on the way."""

from __future__ import annotations

import functools
import math
import mmap
from collections.abc import Callable

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._kernels._addresses import address_of
from tdt._kernels._code import Code, Value, native
from tdt._kernels._formulas import BFLOAT16, widen
from tdt._kernels._intrinsics import transpose8
from tdt._kernels._jit import jit
from tdt._kernels._launches import WATCH, copy_to, words_for
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel, stays_on_caller
from tdt._kernels._tile import call
from tdt._kernels._turn import turner

COPY = 1 << 16  # elements that a thread should at least copy: about 20 µs
CHUNK = 32  # columns that are turned together: their lines stay in the level-one cache until they are full
PLANES = 8  # fewer to planes: lines at distances of powers of two meet in few sets of the cache
AHEAD = 1 << 15  # bytes of planes that are loaded into the caches while those before them are read
IMAGE = ("channels", "depth", "height", "width", "front", "top", "left", "out_depth", "out_height", "out_width", "last",
         "turn", "groups", "element")  # fmt: skip
# Of `_placed`: channels and pixels of an image, pixels that are turned together; addresses of their places in the bordered image,
# and of the first and the one behind the last place of each run of zeros, and how many runs; places; a function of `_turn`.
PLACED = ("channels", "pixels", "together", "places", "edges", "runs", "out_pixels", "turn", "element")
# Pixels of a row up to which rows are turned together, as a block of the turner has as many, and pixels of an image from which
# on. As many pixels at a time as have NEAR floats, which stay in a level-one cache, but at least MOST_LINES.
NARROW, LEAST_PLACED, NEAR, MOST_LINES = 8, 8, 12288, 20
TRANSPOSE = ("rows", "columns", "chunk", "turn", "element", "written")


def bordered(x: np.ndarray, size: tuple, start: tuple, groups: int = 1) -> np.ndarray:
    """(N, C, *spatial) as contiguous (N · groups, *size, C / groups), with element (0, …, 0) at `start`; zero-padded and
    cropped to `size`. Of float32 or bfloat16; the result is float32."""
    count, every, *shape = x.shape
    channels = every // groups
    last = every == 1 or not x.flags.c_contiguous
    if last:
        [x] = widen((x,))
    lines = np.ascontiguousarray(to_last(x)) if last else x
    if tuple(shape) == tuple(size) and not any(start) and not (last and groups > 1):
        if last:
            return lines
        return transposed(x, channels, math.prod(shape)).reshape(count * groups, *shape, channels)
    out = np.empty((count * groups, *size, channels), np.float32)
    kernel, blocks, words, grain = _border((count, channels, *shape), size, start, groups, last, lines.itemsize)
    parallel(kernel, blocks, lines, out, words, grain=grain)
    return out


def prepared_border(x: np.ndarray, size: tuple, start: tuple, groups: int) -> Callable[[np.ndarray], np.ndarray] | None:
    """`bordered` as a function of contiguous images of the shape of x; None where several threads compute it."""
    count, every, *spatial = x.shape
    channels, shape = every // groups, (count * groups, *size, every // groups)
    if every == 1 and x.dtype == BFLOAT16:  # which is converted first
        return None
    if tuple(spatial) != tuple(size) or any(start):
        kernel, blocks, words, grain = _border((count, channels, *spatial), size, start, groups, every == 1, x.itemsize)
    elif every == 1:
        return lambda x: x.reshape(shape)
    else:
        return prepared_transposition(x, channels, math.prod(spatial), shape)
    return _prepared(kernel, blocks, words, grain, shape)


def prepared_transposition(
    x: np.ndarray, rows: int, columns: int, shape: tuple
) -> Callable[[np.ndarray], np.ndarray] | None:
    """`transposed`, in this shape, as a function of contiguous arrays like x; None where several threads compute it."""
    return _prepared(*_transposition(x, rows, columns), shape)


def _prepared(
    kernel: NativeKernel, blocks: int, words: np.ndarray, grain: int, shape: tuple
) -> Callable[[np.ndarray], np.ndarray] | None:
    if not stays_on_caller(blocks, grain):
        return None
    run = kernel.with_last(blocks, words)

    def compute(x: np.ndarray) -> np.ndarray:
        out = np.empty(shape, np.float32)
        run(x, out)
        return out

    return compute


def readable_behind(a: np.ndarray, count: int) -> np.ndarray:
    """`a`, contiguous, where so many numbers behind its end lie in a page of memory that it has, else a copy that has them.

    While somebody watches, always a copy, since calls with arrays in other places must launch the same.
    """
    if WATCH.own() is None and -(address_of(a) + a.nbytes) % mmap.PAGESIZE >= count * a.itemsize:
        return a
    memory = np.empty(a.size + count, a.dtype)
    copy_to(memory[: a.size], a.reshape(-1))
    return memory[: a.size].reshape(a.shape)


def transposed(x: np.ndarray, rows: int, columns: int, out: np.ndarray | None = None) -> np.ndarray:
    """(N, rows, columns), of any shape, of float32 or bfloat16, as (N, columns, rows): in `out`, of one of these types too, or as
    a new flat array of float32."""
    if out is None:
        out = np.empty(x.size, np.float32)
    kernel, pieces, words, grain = _transposition(x, rows, columns, out.itemsize)
    parallel(kernel, pieces, np.ascontiguousarray(x), out, words, grain=grain)
    return out


def _transposition(
    x: np.ndarray, rows: int, columns: int, written: int = 4
) -> tuple[NativeKernel, int, np.ndarray, int]:
    """The kernel of `transposed`, its pieces of work, its words, and how many pieces a thread should at least have.

    written: bytes of an element of the result.
    """
    chunk = PLANES if columns < rows else CHUNK
    pieces = x.size // (rows * columns) * -(-columns // chunk)
    return _transpose(), pieces, _transpose_words(rows, columns, chunk, x.itemsize, written), -(-COPY // (rows * chunk))


def contiguous(x: np.ndarray) -> np.ndarray:
    """Images or weights of any memory order as contiguous ones, also by the strides of dimensions of size 1."""
    lines = to_last(x)
    if lines.flags.c_contiguous and x.size and not x.flags.c_contiguous:
        return transposed(lines, x[0, 0].size, x.shape[1]).reshape(x.shape)
    return np.ascontiguousarray(x).reshape(-1).reshape(x.shape)


@functools.lru_cache(256)
def _border(x: tuple, size: tuple, start: tuple, groups: int, last: bool, element: int) -> tuple:
    """The kernel of `bordered` for x (N, C / groups, *spatial), its pieces of work, its words, and how many of these a thread
    should at least have."""
    count, channels, *spatial = x
    shape, places = tuple(spatial), math.prod(size)
    inside = all(low >= 0 and low + n <= full for low, n, full in zip(start, shape, size, strict=True))
    if not last and inside and shape[-1] <= NARROW and math.prod(shape) >= LEAST_PLACED:
        return (_placed(), count * groups, *_placed_words(channels, shape, size, start, element))
    missing = 3 - len(size)
    ones, zeros = (1,) * missing, (0,) * missing
    turn = turner(half=element == BFLOAT16.itemsize)
    words = np.array([channels, *ones, *shape, *zeros, *start, *ones, *size, last, turn, groups, element])
    line = size[-1] * channels
    return _image(), count * groups * places * channels // line, words, -(-COPY // line)


def _placed_words(channels: int, shape: tuple, size: tuple, start: tuple, element: int) -> tuple[np.ndarray, int]:
    """The words of `_placed`, and how many samples a thread should at least have."""
    number = np.arange(math.prod(size)).reshape(size)
    inside = tuple(slice(low, low + n) for low, n in zip(start, shape, strict=True))
    places = number[inside].reshape(-1).copy()
    empty = np.ones(size, bool)
    empty[inside] = False
    edges = np.flatnonzero(np.diff(empty.reshape(-1), prepend=False, append=False))
    pixels = len(places)
    together = -(-pixels // -(-pixels // max(MOST_LINES, NEAR // channels)))
    turn = turner("scatter", element == BFLOAT16.itemsize)
    words = (
        channels,
        pixels,
        together,
        address_of(places),
        address_of(edges),
        len(edges) // 2,
        number.size,
        turn,
        element,
    )
    return words_for(words, (places, edges)), -(-COPY // (number.size * channels))


@functools.lru_cache(256)
def _transpose_words(rows: int, columns: int, chunk: int, element: int, written: int) -> np.ndarray:
    turn = turner(half=element == BFLOAT16.itemsize, rounds=written == BFLOAT16.itemsize)
    return np.array([rows, columns, chunk, turn, element, written])


def like(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`a`, of x's shape, in the memory order of x."""
    if a.strides == x.strides:
        return a
    if a.itemsize == BFLOAT16.itemsize:
        words: np.ndarray = np.empty_like(x.view(np.uint16))
        words[...] = a.view(np.uint16)
        return words.view(a.dtype)
    if x.ndim == 4 and output_is_channels_last(x):
        return to_front(bordered(a, a.shape[2:], (0, 0)))
    if x.flags.c_contiguous and a.ndim == 4 and to_last(a).flags.c_contiguous:
        return transposed(to_last(a), a[0, 0].size, a.shape[1]).reshape(a.shape)
    ordered = np.empty_like(x)
    ordered[...] = a
    return ordered


def check_indices(indices: np.ndarray, size: int) -> None:
    """IndexError unless all are in [0, size). Kernels do not check, and indices may have changed since the op checked."""
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise IndexError(f"indices from {indices.min()} to {indices.max()} are out of range for {size} rows or classes")


@native("qqp", vectorize=False)
def _image(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Lines [first, last) of a bordered image (N · groups, D', H', W', C), from (N, groups · C, D, H, W), or
    (N, D, H, W, groups · C) if `last`."""
    x, out, words = arguments
    p = code.words(words, IMAGE)
    size = p.out_width * p.channels
    low = code.minimum(code.maximum(p.left, 0), p.out_width)
    high = code.maximum(low, code.minimum(p.width + p.left, p.out_width))
    with code.loop(first, last) as line:
        rest = line // p.out_height
        n = rest // p.out_depth
        h, d = line - rest * p.out_height - p.top, rest - n * p.out_depth - p.front
        target = out + 4 * line * size
        inside = (h >= 0) & (h < p.height) & (d >= 0) & (d < p.depth)
        start, end = (code.select(inside, bound * p.channels, 0) for bound in (low, high))
        with code.when(start > 0):
            code.clear(target, 4 * start)
        with code.when(end < size):
            code.clear(target + 4 * end, 4 * (size - end))
        with code.when(inside):
            # A share of the next planes, which follow these ones, if they are few enough to stay in a cache.
            share = p.element * p.channels * p.width
            planes_size = share * p.height * p.depth
            ahead = x + (n + 1) * planes_size + (d * p.height + h) * share
            with code.loop(0, code.select((p.last == 0) & (planes_size <= AHEAD), share, 0), 64) as at:
                code.prefetch(ahead + at)
            lines, inner = p.depth * p.height * p.width, (d * p.height + h) * p.width + low - p.left
            flat, planes = (n * lines + inner) * p.channels, n * p.channels * lines + inner

            def pixels() -> None:
                sample = n // p.groups
                of_group = sample * lines * p.groups * p.channels + (n - sample * p.groups) * p.channels
                with code.loop(low, high) as k:
                    source = of_group + (inner + k - low) * p.groups * p.channels
                    code.copy(target + 4 * k * p.channels, x + 4 * source, 4 * p.channels)

            code.choose(
                p.last == 0,
                lambda: call(
                    code,
                    p.turn,
                    x + p.element * planes,
                    lines,
                    high - low,
                    target + 4 * start,
                    p.channels,
                    0,
                    p.channels,
                ),
                lambda: code.choose(
                    p.groups == 1,
                    lambda: code.copy(target + 4 * start, x + 4 * flat, 4 * (end - start)),
                    pixels,
                ),
            )


@native("qqp", vectorize=False)
def _placed(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Bordered images [first, last) of (N · groups, D', H', W', C), from (N · groups, C, D, H, W), whose pixels are inside."""
    x, out, words = arguments
    p = code.words(words, PLACED)
    edges = code.cast(p.edges, "ptr")
    with code.loop(first, last) as n:
        target = out + 4 * n * p.out_pixels * p.channels
        with code.loop(0, p.runs) as run:
            low, high = (code.load("i64", edges, 2 * run + k) for k in range(2))
            code.clear(target + 4 * low * p.channels, 4 * (high - low) * p.channels)
        with code.loop(0, p.pixels, p.together) as at:
            call(code, p.turn, x + p.element * (n * p.channels * p.pixels + at), p.pixels,
                 code.minimum(p.pixels - at, p.together), target, p.channels, p.places + 8 * at, p.channels)  # fmt: skip


@native("qqp", vectorize=False)
def _transpose(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Pieces of (N, rows, columns) to (N, columns, rows); a piece has `chunk` columns."""
    x, out, words = arguments
    p = code.words(words, TRANSPOSE)
    pieces = (p.columns + p.chunk - 1) // p.chunk
    with code.loop(first, last) as number:
        n = number // pieces
        low = (number - n * pieces) * p.chunk
        start = n * p.rows * p.columns
        call(code, p.turn, x + p.element * (start + low), p.columns, code.minimum(p.columns - low, p.chunk),
             out + p.written * (start + low * p.rows), p.rows, 0, p.rows)  # fmt: skip


@jit
def _turn(x, start, pitch, out, place_of, out_pitch, rows, columns):
    """Transpose rows × columns elements, in blocks of 8 × 8: inside of a kernel that has no `turner`."""
    whole_rows, whole_columns = rows - rows % 8, columns - columns % 8
    for i in range(0, whole_rows, 8):
        for j in range(0, whole_columns, 8):
            transpose8(x, start + i * pitch + j, pitch, out, place_of + j * out_pitch + i, out_pitch)
    for j in range(whole_columns, columns):
        for i in range(whole_rows):
            out[place_of + j * out_pitch + i] = x[start + i * pitch + j]
    for i in range(whole_rows, rows):
        for j in range(columns):
            out[place_of + j * out_pitch + i] = x[start + i * pitch + j]
