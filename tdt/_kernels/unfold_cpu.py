"""Windows of images as columns, and columns added up to images, by generated code: a plane in one pass.

The columns of a plane are (KH, KW, OH, OW). Those that meet at a pixel are added in this order, as the portable code does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._threads import THREADS

MOVED = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
ADDED = {"f": "float", "d": "double"}
WIDTHS = (8, 4)  # pixels side by side
UNITS = 1 << 14  # cells a thread should at least copy or add
Pair = tuple[int, int]


def unfold(x: np.ndarray, out: Pair, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> np.ndarray:
    """The columns (N, C, KH, KW, OH, OW) of contiguous images; out: the number of windows, (OH, OW)."""
    columns, planes = np.empty((*x.shape[:2], *kernel, *out), x.dtype), x.shape[0] * x.shape[1]
    sizes = x.shape[2:], out, kernel, stride, padding, dilation
    if columns.size < THREADS.rows:
        _unfolding(MOVED[x.itemsize], planes, *sizes)(x, columns)
    else:
        _by_pool(_unfold(MOVED[x.itemsize]), planes, x, columns, sizes)
    return columns


def prepared_unfold(
    x: np.ndarray, out: Pair, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Callable[[np.ndarray], np.ndarray] | None:
    """`unfold` as a function of contiguous images like x; None where several threads compute it."""
    shape, dtype = (*x.shape[:2], *kernel, *out), x.dtype
    if math.prod(shape) >= THREADS.rows:
        return None
    run = _unfolding(MOVED[x.itemsize], x.shape[0] * x.shape[1], x.shape[2:], out, kernel, stride, padding, dilation)

    def compute(x: np.ndarray) -> np.ndarray:
        columns = np.empty(shape, dtype)
        run(x, columns)
        return columns

    return compute


def fold(cells: np.ndarray, size: Pair, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair,
         images: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
    """The images (N, C, H, W), in `images` if given, of contiguous columns (N, C, KH, KW, OH, OW); size: (H, W)."""
    count, channels, out = *cells.shape[:2], cells.shape[4:]
    sizes = size, out, kernel, stride, padding, dilation
    images = np.empty((count, channels, *size), cells.dtype) if images is None else images
    if cells.size < THREADS.rows:
        _folding(ADDED[cells.dtype.char], count * channels, *sizes)(images, cells)
    else:
        _by_pool(_fold(ADDED[cells.dtype.char]), count * channels, images, cells, sizes)
    return images


def fold_pixels(cells: np.ndarray, size: Pair, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair,
                images: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
    """As `fold`, for channels-last images (N, H, W, C) of contiguous (N, OH, OW, KH, KW, C) in float32."""
    (count, *out), channels = cells.shape[:3], cells.shape[-1]
    images = np.empty((count, *size, channels), np.float32) if images is None else images
    pairs = size, out, kernel, stride, padding, dilation
    grain = max(1, UNITS * count // cells.size)
    parallel(_fold_pixels(), count, images, cells, *[n for pair in pairs for n in pair], channels, grain=grain)
    return images


def _by_pool(
    kernel: NativeKernel, planes: int, images: np.ndarray, columns: np.ndarray, sizes: tuple[Pair, ...]
) -> None:
    grain = max(1, UNITS * planes // columns.size)
    parallel(kernel, planes, images, columns, *[n for pair in sizes for n in pair], grain=grain)


@functools.lru_cache(256)
def _unfolding(kind: str, planes: int, *sizes: Pair) -> Callable[..., None]:
    return _unfold(kind).with_last(planes, *[n for pair in sizes for n in pair])


@functools.lru_cache(256)
def _folding(kind: str, planes: int, *sizes: Pair) -> Callable[..., None]:
    return _fold(kind).with_last(planes, *[n for pair in sizes for n in pair])


@native("pp" + "q" * 12)
def _unfold(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """Images, columns, then pairs of numbers: (H, W), (OH, OW), (KH, KW), stride, padding, dilation."""
    images, columns, *sizes = arguments
    with code.loop(first, last) as plane:
        image, cells = _plane(code, kind, plane, images, columns, sizes)
        reach = [
            (out - 1) * step + (cells - 1) * apart
            for out, cells, step, apart in zip(sizes[2:4], sizes[4:6], sizes[6:8], sizes[10:], strict=True)
        ]
        whole = (sizes[8] == 0) & (sizes[9] == 0) & (reach[0] < sizes[0]) & (reach[1] < sizes[1])
        with code.when(~whole):
            code.clear(cells, _columns(sizes) * SIZES[kind])

        def copy(pixel: Value, cell: Value, count: int) -> None:
            code.store(code.load(kind, image, pixel, count), cells, cell)

        def copy_pairs(pixel: Value, cell: Value, count: int) -> None:
            """Every other one of twice as many pixels."""
            low, high = (code.load(kind, image, pixel + k, count) for k in (0, count))
            code.store(code.shuffle(low, high, range(0, 2 * count, 2)), cells, cell)

        _each(code, sizes, copy, copy_pairs)


@native("pp" + "q" * 12)
def _fold(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """As `_unfold`."""
    images, columns, *sizes = arguments
    with code.loop(first, last) as plane:
        image, cells = _plane(code, kind, plane, images, columns, sizes)
        code.clear(image, sizes[0] * sizes[1] * SIZES[kind])
        _each(code, sizes, lambda pixel, cell, count: code.store(
            code.load(kind, image, pixel, count) + code.load(kind, cells, cell, count), image, pixel))  # fmt: skip


@native("pp" + "q" * 13)
def _fold_pixels(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """As `_fold`; the last number is of channels. Cells that lie side by side are added together."""
    images, columns, *sizes, channels = arguments
    (height, width), (out_y, out_x), (rows, across) = sizes[:2], sizes[2:4], sizes[4:6]
    (step_y, step_x), (before_y, before_x), (apart_y, apart_x) = sizes[6:8], sizes[8:10], sizes[10:]
    together = code.select(apart_x == 1, across, 1)
    with code.loop(first, last) as n:
        image = code.at("float", images, n * height * width * channels)
        cells = code.at("float", columns, n * _columns(sizes) * channels)
        code.clear(image, height * width * channels * SIZES["float"])
        with code.loop(0, rows) as i, code.loop(*_inside(code, i * apart_y - before_y, step_y, out_y, height)) as y:
            line = (y * step_y + i * apart_y - before_y) * width
            with code.loop(0, out_x) as k:
                x = out_x - 1 - k  # from the last window to the first, so that a pixel's cells are added in order
                part = ((y * out_x + x) * rows + i) * across
                with code.loop(0, across, together) as j:
                    at = x * step_x + j * apart_x - before_x
                    begin, end = code.maximum(0 - at, 0), code.minimum(width - at, together)
                    pixel, cell = (line + at) * channels, (part + j) * channels
                    _side_by_side(code, begin * channels, end * channels,
                                  functools.partial(_add, code, "float", image, pixel, cells, cell))  # fmt: skip


def _add(code: Code, kind: str, image: Value, pixel: Value, cells: Value, cell: Value, x: Value, count: int) -> None:
    """Add `count` cells to the pixels on which they lie, `x` behind both places."""
    total = code.load(kind, image, pixel + x, count) + code.load(kind, cells, cell + x, count)
    code.store(total, image, pixel + x)


def _columns(sizes: list[Value]) -> Value:
    """The elements of a plane's columns."""
    return sizes[2] * sizes[3] * sizes[4] * sizes[5]


def _plane(
    code: Code, kind: str, plane: Value, images: Value, columns: Value, sizes: list[Value]
) -> tuple[Value, Value]:
    """The addresses of a plane's image and columns."""
    return code.at(kind, images, plane * sizes[0] * sizes[1]), code.at(kind, columns, plane * _columns(sizes))


def _each(code: Code, sizes: list[Value], use: Callable[[Value, Value, int], None],
          use_pairs: Callable[[Value, Value, int], None] | None = None) -> None:  # fmt: skip
    """Call `use(pixel, cell, count)` with the places of all pixels that windows cover and of their cells in the columns.

    count: of pixels that lie side by side, and so do their cells; 0 for one.
    use_pairs: as `use`, where the cells are those of every other pixel, and as many pixels again may be read.
    """
    (height, width), (out_y, out_x), (rows, across) = sizes[:2], sizes[2:4], sizes[4:6]
    (step_y, step_x), (before_y, before_x), (apart_y, apart_x) = sizes[6:8], sizes[8:10], sizes[10:]

    with code.loop(0, rows) as i, code.loop(0, across) as j:
        down, right = i * apart_y - before_y, j * apart_x - before_x
        begin, end = _inside(code, right, step_x, out_x, width)
        with code.loop(*_inside(code, down, step_y, out_y, height)) as y:
            pixels, cells = (y * step_y + down) * width + right, ((i * across + j) * out_y + y) * out_x

            def side_by_side(pixels: Value = pixels, cells: Value = cells) -> None:
                _side_by_side(code, begin, end, lambda x, count: use(pixels + x, cells + x, count))

            def apart(pixels: Value = pixels, cells: Value = cells) -> None:
                at = code.variable("i64", begin)
                for count in WIDTHS if use_pairs else ():
                    with code.when(step_x == 2):
                        stop = code.minimum(end - (count - 1), (width - right - 2 * (count - 1)) // 2)
                        with code.loop(at.get(), stop, count) as x:
                            use_pairs(pixels + 2 * x, cells + x, count)
                            at.set(x + count)
                with code.loop(at.get(), end) as x:
                    use(pixels + x * step_x, cells + x, 0)

            code.choose(step_x == 1, side_by_side, apart)


def _inside(code: Code, offset: Value, step: Value, count: Value, size: Value) -> tuple[Value, Value]:
    """The first window whose cell, at `offset` from the window's place, lies in the image, and the end of these."""
    reach = step - 1 - offset
    return code.maximum(reach // step, 0), code.minimum((reach + size) // step, count)


def _side_by_side(code: Code, begin: Value, end: Value, use: Callable[[Value, int], None]) -> None:
    """Call `use(place, count)` for all places, `count` at a time, and for single ones, whose count is 0, behind them."""
    at = code.variable("i64", begin)
    for count in WIDTHS:
        with code.loop(at.get(), end - (count - 1), count) as x:
            use(x, count)
            at.set(x + count)
    with code.loop(at.get(), end) as x:
        use(x, 0)
