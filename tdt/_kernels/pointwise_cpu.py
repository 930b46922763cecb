"""Convolutions that are matrix products, in float32 on the CPU: kernels of 1 × 1, and gradients of patches.

Of contiguous images (N, C, P), P pixels, each sample is a product of its own, from operands as they lie (`_tile`):

    result            out[n] = w · x[n] + bias      (O, P)     left w, read by rows; right x[n], packed into panels
    input gradient    w' · y[n]                     (C, P)     left w', transposed first
    weight gradient   Σ_n y[n] · x[n]'              (O, C)     left y, read by rows of all samples; right x[n]' packed

Channels-last, all samples are one product of (N · P, C). The gradients of a kernel as large as its stride, without padding,
are those of a kernel of 1 × 1 whose channels are the cells of a patch; a larger stride than the kernel's 1 × 1 skips pixels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels import product, unfold_cpu
from tdt._kernels._addresses import address_of
from tdt._kernels._conv_pieces import PACKED, blocks_of_products
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._launches import copy_to, sum_of, watched_contiguous, words_for
from tdt._kernels._layout import prepared_transposition, transposed
from tdt._kernels._native import NativeKernel, vector_width
from tdt._kernels._pack import packer
from tdt._kernels._pointwise_code import (
    COLUMNS,
    DEPTH,
    JOINED,
    JOINED_ROWS,
    ROUNDED,
    ROWS,
    WIDENED,
    joined_products,
    products,
    products_in_place,
    summed,
)
from tdt._kernels._pool import get_num_threads, parallel, stays_on_caller
from tdt._kernels._registry import prepares
from tdt._kernels._row_dots import BLOCK, FEW, products_of_few, sums_of_few
from tdt._kernels._tile import Shape, address, choose, choose_for, rates
from tdt._kernels.moves_cpu import copy_into

FEW_ROWS = 8  # fewer than a tile usually has
CACHED = 5 << 16  # floats of a sample that stay in a level-two cache, where they are read as they lie
# Floats of a page of memory: lines as far apart are read faster as they are packed. So are samples that together lie in no
# level-two cache by wide vectors, whose products do not hide how long it takes to load them.
PAGE = 1024
FAR = 1 << 20  # floats of all samples that lie in no level-two cache
FEW_TIMES = 64  # rows up to which vectors of eight read lines where they lie, and others those of shallow products too
# Floats so many of which, and multiples, are between numbers in the same set of a level-one cache, and how many lines it has:
# more lines that several tiles of rows read are packed for vectors of eight, of which a tile reads one cache line of each.
SET, WAYS = 1024, 8
SHALLOW = 64  # depth up to which writing the result counts most: it is written row by row then
NEAR = 6144  # floats of shallow panels that stay in a level-one cache
WASTE = 1.08  # columns of tiles for each pixel from which on samples share tiles
# Pixels of all samples up to which they are turned, and the result, for transposed weights, from so many on, which are not.
FEW_PIXELS, MANY_WEIGHTS = 512, 1 << 18
TURNED = 1.1  # by how much the transposed weight gradient has to be faster, as it is turned
GRAIN = 1 << 20  # multiply-adds that a thread should at least have
PARTS = 4  # pieces that a weight gradient is cut into where that is possible
CHUNK = 4096  # pixels, at least, that a part of a weight gradient's sum is of

ONE_PIXEL = ONE_CELL = (1, 1)
LARGE = 1 << 14  # multiply-adds from which on a kernel takes no longer than NumPy


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, H, W), w (O, C, 1, 1), b (O,) or None; without padding, one group.

    Or for w (O, C, KH, KW), a kernel as large as the stride, if the result is channels-last.
    """
    if x.shape[2:] == ONE_PIXEL:
        return product(np, _row(x), _row(w).T, b).reshape(len(x), len(w), 1, 1)
    out_channels, size = len(w), output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    shape = x.shape[0], out_channels, *size
    if output_is_channels_last(x, w):
        rows = _of_windows(x, w.shape[2:], stride, size)
        flat = product(np, rows, to_last(w).reshape(out_channels, -1).T, b)
        return to_front(flat.reshape(shape[0], *size, out_channels))
    images = _cells(x, w.shape[2:], stride, size)
    w = w.reshape(out_channels, -1)
    if images.shape[2] == 1:
        return product(np, images[:, :, 0], w.T, b).reshape(shape)
    return _images(w, images, b).reshape(shape)


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C, KH, KW), b (C,) or None; kernel 1 × 1 or the stride."""
    kernel, channels, count = w.shape[2:], w.shape[1], y.shape[0]
    if size == ONE_PIXEL:
        return product(np, _row(y), _row(w), b).reshape(count, channels, 1, 1)
    apart = kernel != ONE_CELL or y.shape[2:] != tuple(size)
    if output_is_channels_last(y, w):
        covers = (y.shape[2] * stride[0], y.shape[3] * stride[1]) == tuple(size) and kernel == stride
        bias = np.tile(b, math.prod(kernel)) if b is not None and covers else None
        flat = product(np, to_last(y).reshape(-1, len(w)), to_last(w).reshape(len(w), -1), bias)
        b = None if covers else b
        cells = flat.reshape(count, *y.shape[2:], *kernel, channels)
        if apart:
            cells = unfold_cpu.fold_pixels(cells, size, **_apart(kernel, stride))
        out = to_front(cells.reshape(count, *size, channels))
    else:
        images, w = y.reshape(*y.shape[:2], -1), w.reshape(len(w), -1)
        if images.shape[2] == 1:
            cells = product(np, images[:, :, 0], w)
        else:
            cells = _images(w.T, images, None)
        if apart:
            cells = unfold_cpu.fold(
                cells.reshape(count, channels, *kernel, *y.shape[2:]), size, **_apart(kernel, stride)
            )
        out = cells.reshape(count, channels, *size)
    return out if b is None else np.add(out, b[:, None, None], out=out)


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, OH, OW), x (N, C, H, W); as `conv`."""
    out_channels, size = y.shape[1], y.shape[2:]
    if x.shape[2:] == ONE_PIXEL:
        return product(np, _row(y).T, _row(x)).reshape(out_channels, x.shape[1], 1, 1)
    if output_is_channels_last(y, x):
        rows = _of_windows(x, kernel, stride, size)
        flat = product(np, to_last(y).reshape(-1, out_channels).T, rows)
        return to_front(flat.reshape(out_channels, *kernel, x.shape[1]))
    images = _cells(x, kernel, stride, size)
    y = watched_contiguous(y.reshape(*y.shape[:2], -1))
    flat = product(np, y[:, :, 0].T, images[:, :, 0]) if y.shape[2] == 1 else _sums(y, images)
    return flat.reshape(out_channels, x.shape[1], *kernel)


def _of_windows(x: np.ndarray, kernel: tuple, stride: tuple, size: tuple) -> np.ndarray:
    """Channels-last (N, C, H, W) as (N · windows, cells of a window): pixels that windows lie on, or patches."""
    x = x[:, :, : size[0] * stride[0], : size[1] * stride[1]]  # an output padding adds pixels that no window lies on
    if kernel == ONE_CELL:
        parts = to_last(x[:, :, :: stride[0], :: stride[1]])
    else:
        parts = x.reshape(*x.shape[:2], size[0], kernel[0], size[1], kernel[1]).transpose(0, 2, 4, 3, 5, 1)
    if not parts.flags.c_contiguous:
        lines = np.empty(parts.shape, np.float32)
        if not copy_into(lines, parts):
            copy_to(lines, parts)
        parts = lines
    return parts.reshape(len(x) * math.prod(size), -1)


def _cells(x: np.ndarray, kernel: tuple, stride: tuple, size: tuple) -> np.ndarray:
    """The pixels of (N, C, H, W) under the cells of each of `size` windows, contiguous (N, C · cells, windows)."""
    x = watched_contiguous(x)
    if kernel != ONE_CELL or x.shape[2:] != size:
        x = unfold_cpu.unfold(x, size, **_apart(kernel, stride))
    return x.reshape(len(x), -1, math.prod(size))


def _apart(kernel: tuple, stride: tuple) -> dict[str, tuple]:
    """The settings of windows that do not overlap."""
    return {"kernel": kernel, "stride": stride, "padding": (0, 0), "dilation": (1, 1)}


def _row(x: np.ndarray) -> np.ndarray:
    """Images of one pixel, or weights of one cell, as a matrix (N, C)."""
    return x.reshape(x.shape[:2])


def _images(w: np.ndarray, x: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """w · x[n] for each sample of x (N, K, P), plus b for each row."""
    (count, depth, pixels), rows = x.shape, len(w)
    if x.size * rows < LARGE:
        out = product(np, w, x)
        return out if b is None else np.add(out, b[:, None], out=out)
    if not w.flags.c_contiguous and _reads_turned(count * pixels, w.size):
        lines = transposed(x, depth, pixels).reshape(-1, depth)
        return transposed(product(np, lines, w.T, b), pixels, rows).reshape(count, rows, pixels)
    x = watched_contiguous(x)
    if not w.flags.c_contiguous:  # w', whose rows are copied as they are read many times
        w = transposed(w.T[None], depth, rows) if w.T.flags.c_contiguous else watched_contiguous(w)
    out = np.empty((count, rows, pixels), np.float32)
    kernel, blocks, grain, words = _plan(count, rows, depth, pixels, b is not None)
    bias = 0 if b is None else np.ascontiguousarray(b)
    parallel(kernel, blocks, w, x, bias, out, words, grain=grain)
    return out


def _reads_turned(pixels: int, weights: int) -> bool:
    """Whether for so many pixels of all samples these are turned, and not the transposed weights."""
    return pixels <= FEW_PIXELS and weights >= MANY_WEIGHTS


def prepared_images(
    w: np.ndarray, x: np.ndarray, b: np.ndarray | None, turned: bool = False
) -> Callable[..., np.ndarray] | None:
    """`_images` as a function of contiguous w, x and b, or of w' for w if `turned`; None where several threads compute it."""
    (count, depth, pixels), rows, half = x.shape, w.size // x.shape[1], x.dtype == BFLOAT16
    if x.size * rows < LARGE:

        def product_of(w: np.ndarray, x: np.ndarray, b: np.ndarray | None) -> np.ndarray:
            out: np.ndarray = product(np, w.T if turned else w, x)
            return out if b is None else np.add(out, b[:, None], out=out)

        return None if half else product_of
    kernel, blocks, grain, words = _plan(count, rows, depth, pixels, b is not None, half)
    turn = prepared_transposition(w, depth, rows, (rows, depth)) if turned else lambda w: w
    if turn is None or not (half or stays_on_caller(blocks, grain)):
        return None
    run, dtype = _on_all_threads(kernel, blocks, grain, words), x.dtype

    def compute(w: np.ndarray, x: np.ndarray, b: np.ndarray | None) -> np.ndarray:
        out = np.empty((count, rows, pixels), dtype)
        run(turn(w), x, b, out)
        return out

    return compute


def _on_all_threads(kernel: NativeKernel, blocks: int, grain: int, words: np.ndarray) -> Callable[..., None]:
    """A kernel as a function of its arrays."""
    if stays_on_caller(blocks, grain):
        return kernel.with_last(blocks, words)
    return lambda *arrays: parallel(kernel, blocks, *arrays, words, grain=grain)


@prepares(conv, half=True)
def _(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    size = x.shape[2:]
    if w.shape[2:] != ONE_CELL or not all(a is None or a.flags.c_contiguous for a in (x, w, b)):
        return None
    if size == ONE_PIXEL:
        if x.dtype == BFLOAT16:
            return None
        rows, columns, pixel = x.shape[:2], w.shape[:2], (len(x), len(w), 1, 1)
        return lambda x, w, b: product(np, x.reshape(rows), w.reshape(columns).T, b).reshape(pixel)
    if stride != (1, 1) or output_is_channels_last(x, w):
        return None
    matrix, planes, shape = w.shape[:2], (*x.shape[:2], math.prod(size)), (len(x), len(w), *size)
    images = prepared_images(w.reshape(matrix), x.reshape(planes), b)
    return images and (lambda x, w, b: images(w.reshape(matrix), x.reshape(planes), b).reshape(shape))


@prepares(conv_input_grad, half=True)
def _(y: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, size: tuple, stride: tuple, padding: tuple, dilation: tuple,
      groups: int, recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    if w.shape[2:] != ONE_CELL or b is not None or not (y.flags.c_contiguous and w.flags.c_contiguous):
        return None
    if stride != (1, 1) or tuple(size) != y.shape[2:] or size == ONE_PIXEL or output_is_channels_last(y, w):
        return None
    matrix, planes, shape = w.shape[:2], (*y.shape[:2], math.prod(size)), (len(y), w.shape[1], *size)
    if _reads_turned(len(y) * planes[2], w.size):
        return None
    images = prepared_images(w.reshape(matrix), y.reshape(planes), None, turned=True)
    return images and (lambda y, w, b: images(w.reshape(matrix), y.reshape(planes), None).reshape(shape))


@prepares(conv_weight_grad, half=True)
def _(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int,
      recorded: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    pixels = math.prod(x.shape[2:])
    if kernel != ONE_CELL or stride != (1, 1) or pixels == 1 or not (y.flags.c_contiguous and x.flags.c_contiguous):
        return None
    if y.shape[2:] != x.shape[2:] or output_is_channels_last(y, x):
        return None
    rows, columns, shape = (*y.shape[:2], pixels), (*x.shape[:2], pixels), (y.shape[1], x.shape[1], 1, 1)
    sums = prepared_sums(rows, columns, y.dtype == BFLOAT16)
    return sums and (lambda y, x: sums(y.reshape(rows), x.reshape(columns)).reshape(shape))


def _plan(count: int, rows: int, depth: int, pixels: int, biased: bool, half: bool = False) -> tuple:
    """The kernel of `_images`; how many blocks it computes, and a thread should at least have; its words."""
    work = count * rows * depth * pixels
    threads = max(1, min(get_num_threads(), work // GRAIN))
    return _plan_of_threads(count, rows, depth, pixels, biased, threads, half)


@functools.lru_cache(256)
def _plan_of_threads(
    count: int, rows: int, depth: int, pixels: int, biased: bool, threads: int, half: bool = False
) -> tuple:
    if not half and rows <= FEW and depth <= DEPTH and pixels >= BLOCK:
        pieces, words = -(-pixels // BLOCK), words_for([depth, pixels, -(-pixels // BLOCK)], [])
        return products_of_few(rows, vector_width()), count * pieces, _grain(rows * depth * BLOCK), words
    shape, widest = _tile(rows, pixels), choose(COLUMNS)
    if not half and _read_in_place(count, rows, depth, pixels, shape):
        if plan := _plan_in_place(count, rows, depth, pixels, biased, threads):
            return plan
    tiles = -(-pixels // shape.columns)
    # Columns of a tile are pixels of several samples.
    joins = count > 1 and tiles * shape.columns > WASTE * pixels and depth * widest.columns <= JOINED
    if joins:
        shape, tiles = widest, -(-count * pixels // widest.columns)
        most, together = min(COLUMNS // 2, JOINED // depth) // shape.columns, JOINED_ROWS
        assert most, "the panels of one tile fit"
        kernel, pack = joined_products(shape.columns, shape.width, half), 0
    else:
        shallow = depth <= SHALLOW
        together = shape.rows if shallow else ROWS
        most = max(COLUMNS, NEAR // depth) if shallow else COLUMNS
        most = max(1, min((min(most, ROUNDED // together) if half else most) // shape.columns, tiles))
        kernel, pack = products(half), packer("lines", shape.columns, shape.width, half)
    samples = 1 if joins else count
    band, each = blocks_of_products(samples, rows, tiles, most, shape.rows, threads)
    blocks, step, table = -(-tiles // each), shape.columns * each, np.arange(shape.rows) * depth
    words = [address("rows", shape, by_row=biased), pack, address_of(table), shape.rows, shape.columns, rows, depth, pixels,
             blocks, step, together, count, band, samples * blocks]  # fmt: skip
    grain = _grain(band * depth * min(step, count * pixels if joins else pixels))
    return kernel, samples * blocks * -(-rows // band), grain, words_for(words, [table])


def _read_in_place(count: int, rows: int, depth: int, pixels: int, shape: Shape) -> bool:
    """Whether lines of x are read where they lie: for few rows packing takes longer than it saves."""
    narrow = shape.width < 16
    if depth * pixels > CACHED or (narrow and pixels % SET == 0 and rows > shape.rows and depth > WAYS):
        return False
    if rows < FEW_ROWS:
        return True
    if pixels >= PAGE:
        return False
    if narrow:
        return rows <= FEW_TIMES and depth > SHALLOW
    return (rows <= FEW_TIMES or depth > SHALLOW) and count * depth * pixels <= CACHED


def _plan_in_place(count: int, rows: int, depth: int, pixels: int, biased: bool, threads: int) -> tuple | None:
    """As `_plan`, for x that is read where it lies; None if too many pixels are left beside whole tiles."""
    shape = choose_for(rows, COLUMNS) if rows < FEW_ROWS else choose(COLUMNS)
    whole, rest = divmod(pixels, shape.columns)
    narrow = shape if not rest else shape._replace(vectors=-(-rest // shape.width)) if rows < FEW_ROWS else choose(rest)
    assert narrow.columns >= rest, "one tile computes the last pixels"
    if not whole or whole * shape.columns + -(-rest // narrow.columns) * narrow.columns > WASTE * pixels:
        return None
    tables = [np.arange(each.rows) * depth for each in (shape, narrow)]
    tiles = -(-pixels // shape.columns)
    most = max(1, min(COLUMNS // shape.columns, tiles))
    band, each = blocks_of_products(count, rows, tiles, most, shape.rows, threads)
    blocks, step = -(-tiles // each), shape.columns * each
    words = [address("rows", shape, panels=False, by_row=biased), address_of(tables[0]), shape.rows, shape.columns,
             address("rows", narrow, by_row=biased), address_of(tables[1]), narrow.rows,
             packer("lines", narrow.columns, narrow.width), rows, depth, pixels, blocks, step,
             count * depth * pixels >= FAR, band, count * blocks]  # fmt: skip
    grain = _grain(band * depth * min(step, pixels))
    return products_in_place(), count * blocks * -(-rows // band), grain, words_for(words, tables)


def _tile(rows: int, columns: int) -> Shape:
    """The tile for so many rows, which lie apart, and columns: of few rows, one that has no more."""
    return choose_for(rows, columns) if rows < FEW_ROWS else choose(columns)


def _grain(work: int) -> int:
    """How many blocks of so many multiply-adds a thread should at least have."""
    return -(-GRAIN // work)


def _sums(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Σ_n y[n] · x[n]' for y (N, O, P), x (N, K, P)."""
    (count, rows, pixels), columns = y.shape, x.shape[1]
    if y.size * columns < LARGE:
        return np.tensordot(y, x, ((0, 2), (0, 2)))
    if min(rows, columns) <= FEW:
        return sums_of_few(y, x) if rows <= columns else sums_of_few(x, y).T
    if _turned(rows, columns):
        return transposed(_sums(x, y), columns, rows).reshape(rows, columns)
    parts, blocks, grain, words = _plan_of_sums(count, rows, columns, pixels)
    out = np.empty((parts, rows, columns), np.float32)
    parallel(summed(False), blocks, y, x, out, words, grain=grain)
    return sum_of(out)


def prepared_sums(y: tuple, x: tuple, half: bool = False) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """`_sums` as a function of contiguous arrays of these shapes; None where several threads compute it.

    half: of arrays of bfloat16; None where there is no kernel.
    """
    (count, rows, pixels), columns = y, x[1]
    if math.prod(y) * columns < LARGE or min(rows, columns) <= FEW:
        return None if half else _sums
    if _turned(rows, columns):
        of_columns = prepared_sums(x, y, True) if half else _sums
        return of_columns and (lambda y, x: transposed(of_columns(x, y), columns, rows).reshape(rows, columns))
    parts, blocks, grain, words = _plan_of_sums(count, rows, columns, pixels, half)
    if not (half or stays_on_caller(blocks, grain)):
        return None
    run = _on_all_threads(summed(half), blocks, grain, words)

    def compute(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        out = np.empty((parts, rows, columns), np.float32)
        run(y, x, out)
        return sum_of(out)

    return compute


def _turned(rows: int, columns: int) -> bool:
    """Whether a weight gradient of so many rows is computed transposed."""
    return rows >= FEW_ROWS and TURNED * _time(columns, rows) < _time(rows, columns)


@functools.lru_cache(256)
def _time(rows: int, columns: int) -> float:
    """Multiply-adds that take as long as a pixel of a weight gradient: those of whole tiles, and packing of its columns."""
    shape = choose(columns)
    products = -(-rows // shape.rows) * shape.rows * -(-columns // shape.columns) * shape.columns
    return products / rates()[shape] + PACKED * columns * -(-rows // ROWS)


def _plan_of_sums(count: int, rows: int, columns: int, pixels: int, half: bool = False) -> tuple:
    """Parts of the sum, all its blocks, and how many of these a thread should at least have; words of `summed`."""
    work = count * rows * columns * pixels
    return _plan_of_sums_for(count, rows, columns, pixels, max(1, min(get_num_threads(), work // GRAIN)), half)


@functools.lru_cache(256)
def _plan_of_sums_for(count: int, rows: int, columns: int, pixels: int, threads: int, half: bool) -> tuple:
    shape = _tile(rows, columns)
    high, wide = -(-rows // ROWS), -(-columns // shape.columns)
    most = min(COLUMNS // shape.columns, max(4, -(-wide * high // PARTS)))
    # The parts depend on shapes alone, as sums do on them.
    chunks = max(1, min(count, PARTS // (high * -(-wide // most)), count * pixels // CHUNK))
    chunk = -(-count // chunks)
    parts = -(-count // chunk)
    band, each = blocks_of_products(parts, rows, wide, most, shape.rows, threads, ROWS)
    across, together = -(-wide // each), max(1, min(chunk, DEPTH // pixels))
    pitch, between = (
        (min(pixels, DEPTH), band) if half else (pixels, rows)
    )  # of rows that are converted, or as they lie
    assert not half or together * band * pitch <= WIDENED, "the rows of a block fit"
    table, cells = np.arange(shape.rows) * pitch, np.arange(together) * (between * pitch)
    words = [address("rows", shape), packer("columns", shape.columns, shape.width, half), address_of(table), address_of(cells),
             shape.rows, shape.columns, count, chunk, together, rows, columns, pixels, across, shape.columns * each,
             band, parts * across, pitch]  # fmt: skip
    blocks = parts * across * -(-rows // band)
    grain = -(-GRAIN * blocks // (count * pixels * rows * columns))
    return parts, blocks, grain, words_for(words, [table, cells])
