"""Convolutions that are matrix products, in float32 on the CPU: kernels of 1 × 1, and patches that do not overlap.

Of contiguous images (N, C, P), P pixels, each sample is a product of its own, from operands as they lie (`_tile`):

    result            out[n] = w · x[n] + bias      (O, P)     left w, read by rows; right x[n], packed into panels
    input gradient    w' · y[n]                     (C, P)     left w', transposed first
    weight gradient   Σ_n y[n] · x[n]'              (O, C)     left y, read by rows of all samples; right x[n]' packed

Channels-last, all samples are one product of (N · P, C). A kernel as large as its stride, without padding, is a kernel of
1 × 1 on images whose channels are the cells of a patch; a larger stride than the kernel's 1 × 1 skips pixels.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._kernels import LARGE_CONV, product
from tdt._kernels._intrinsics import array_at, local_floats
from tdt._kernels._jit import jit
from tdt._kernels._layout import transposed
from tdt._kernels._pack import pack, packer
from tdt._kernels._pool import parallel
from tdt._kernels._tile import Shape, address, choose, place, tile

DEPTH = 256  # products that are summed in registers
COLUMNS = 192  # columns of a block: packed 196 KB, in a level-two cache; a multiple of every tile's
ROWS = 192  # rows of a block: with DEPTH of them, as much
SHALLOW = 64  # depth up to which writing the result counts most: it is written row by row then
NEAR = 6144  # floats of shallow panels that stay in a level-one cache
WASTE = 1.08  # columns of tiles for each pixel from which on samples share tiles
JOINED = 36864  # floats of panels then, of the whole depth
JOINED_ROWS = 96  # rows of a block then
GRAIN = 1 << 20  # multiply-adds that a thread should at least have
PARTS = 4  # pieces that a weight gradient is cut into where that is possible
CHUNK = 4096  # pixels, at least, that a part of a weight gradient's sum is of

_scratch = local_floats(DEPTH * COLUMNS)  # enough for panels of JOINED floats and a block of rows, too
assert JOINED + JOINED_ROWS * COLUMNS // 2 <= DEPTH * COLUMNS


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, H, W), w (O, C, KH, KW), b (O,) or None; without padding, kernel 1 × 1 or the stride."""
    kernel, out_channels = w.shape[2:], len(w)
    size = tuple((n - k) // s + 1 for n, k, s in zip(x.shape[2:], kernel, stride, strict=True))
    shape = x.shape[0], out_channels, *size
    if output_is_channels_last(x, w):
        rows = _patches_last(x, kernel, stride, size)
        flat = product(np, rows, to_last(w).reshape(out_channels, -1).T, b)
        return to_front(flat.reshape(shape[0], *size, out_channels))
    images = _patches(x, kernel, stride, size)
    w = w.reshape(out_channels, -1)
    if images.shape[2] == 1:
        return product(np, images[:, :, 0], w.T, b).reshape(shape)
    return _images(w, images, b).reshape(shape)


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C, KH, KW), b (C,) or None; as `conv`."""
    kernel, channels, count = w.shape[2:], w.shape[1], y.shape[0]
    if output_is_channels_last(y, w):
        flat = product(np, to_last(y).reshape(-1, len(w)), to_last(w).reshape(len(w), -1))
        patches = flat.reshape(count, *y.shape[2:], *kernel, channels).transpose(0, 5, 1, 2, 3, 4)
    else:
        images, w = y.reshape(*y.shape[:2], -1), w.reshape(len(w), -1)
        if images.shape[2] == 1:
            flat = product(np, images[:, :, 0], w)[:, :, None]
        else:
            flat = _images(w.T, images, None)
        patches = flat.reshape(count, channels, *kernel, *y.shape[2:]).transpose(0, 1, 4, 5, 2, 3)
    return _spread(patches, b, size, stride, output_is_channels_last(y, w))


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, OH, OW), x (N, C, H, W); as `conv`."""
    out_channels, size = y.shape[1], y.shape[2:]
    if output_is_channels_last(y, x):
        rows = _patches_last(x, kernel, stride, size)
        flat = product(np, to_last(y).reshape(-1, out_channels).T, rows)
        return to_front(flat.reshape(out_channels, *kernel, x.shape[1]))
    images, y = _patches(x, kernel, stride, size), np.ascontiguousarray(y.reshape(*y.shape[:2], -1))
    flat = product(np, y[:, :, 0].T, images[:, :, 0]) if y.shape[2] == 1 else _sums(y, images)
    return flat.reshape(out_channels, x.shape[1], *kernel)


def _patches(x: np.ndarray, kernel: tuple, stride: tuple, size: tuple) -> np.ndarray:
    """(N, C, H, W) as contiguous (N, cells of a patch, patches)."""
    if kernel == (1, 1):
        if stride != (1, 1):
            x = x[:, :, :: stride[0], :: stride[1]]
        return np.ascontiguousarray(x).reshape(*x.shape[:2], -1)
    x = x[:, :, : size[0] * kernel[0], : size[1] * kernel[1]]
    parts = x.reshape(*x.shape[:2], size[0], kernel[0], size[1], kernel[1]).transpose(0, 1, 3, 5, 2, 4)
    return np.ascontiguousarray(parts).reshape(x.shape[0], -1, math.prod(size))


def _patches_last(x: np.ndarray, kernel: tuple, stride: tuple, size: tuple) -> np.ndarray:
    """(N, C, H, W), channels-last, as (N · patches, cells of a patch)."""
    if kernel == (1, 1):
        return np.ascontiguousarray(to_last(x[:, :, :: stride[0], :: stride[1]])).reshape(-1, x.shape[1])
    x = x[:, :, : size[0] * kernel[0], : size[1] * kernel[1]]
    parts = x.reshape(*x.shape[:2], size[0], kernel[0], size[1], kernel[1]).transpose(0, 2, 4, 3, 5, 1)
    return np.ascontiguousarray(parts).reshape(x.shape[0] * math.prod(size), -1)


def _spread(patches: np.ndarray, b: np.ndarray | None, size: tuple, stride: tuple, last: bool) -> np.ndarray:
    """Patches (N, C, rows, columns, KH, KW) where they lie in images of `size`, zeros elsewhere, plus b for each channel."""
    count, channels, *windows, down, across = patches.shape
    shape = count, channels, *size
    covered = (windows[0] * stride[0], windows[1] * stride[1]) == size and (down, across) == stride
    if covered and stride == (1, 1):
        out = patches[:, :, :, :, 0, 0]
    else:
        ordered = (count, *size, channels) if last else shape
        out = (np.empty if covered else np.zeros)(ordered, np.float32)
        out = to_front(out) if last else out
        for i in range(down):
            for j in range(across):
                out[:, :, i :: stride[0], j :: stride[1]][:, :, : windows[0], : windows[1]] = patches[..., i, j]
    return out if b is None else np.add(out, b[:, None, None], out=out)


def _images(w: np.ndarray, x: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """w · x[n] for each sample of x (N, K, P), plus b for each row."""
    (count, depth, pixels), rows = x.shape, len(w)
    if x.size * rows < LARGE_CONV:
        out = np.matmul(w, x)
        return out if b is None else np.add(out, b[:, None], out=out)
    x = np.ascontiguousarray(x)
    if not w.flags.c_contiguous:  # w', whose rows are copied as they are read many times
        w = transposed(w.T[None], depth, rows) if w.T.flags.c_contiguous else np.ascontiguousarray(w)
    out = np.empty((count, rows, pixels), np.float32)
    shape = choose(pixels)
    widest = choose(COLUMNS)
    if count > 1 and -(-pixels // shape.columns) * shape.columns > WASTE * pixels and depth * widest.columns <= JOINED:
        return _joined(w, x, b, out, widest)
    shallow = depth <= SHALLOW
    most = max(COLUMNS, NEAR // depth) if shallow else COLUMNS
    step = shape.columns * max(1, min(most // shape.columns, -(-pixels // shape.columns)))
    blocks = -(-pixels // step)
    bias = out.reshape(-1)[:0] if b is None else np.ascontiguousarray(b)
    parallel(
        _products, count * blocks, address("rows", shape), packer("lines", shape.columns, shape.width),
        shape.rows, shape.columns, w.reshape(-1), _table(shape.rows, depth),
        _table(1, 0), x.reshape(-1), out.reshape(-1), bias, rows, depth, pixels, blocks, step,
        shape.rows if shallow else ROWS,
        grain=-(-GRAIN // (rows * depth * min(step, pixels))),
    )  # fmt: skip
    return out


def _joined(w: np.ndarray, x: np.ndarray, b: np.ndarray | None, out: np.ndarray,
            shape: Shape) -> np.ndarray:  # fmt: skip
    """`_images` for few pixels: columns of a tile are pixels of several samples."""
    (count, depth, pixels), rows = x.shape, out.shape[1]
    step = shape.columns * (min(COLUMNS // 2, JOINED // depth) // shape.columns)
    assert step, "the panels of one tile fit"
    bias = np.zeros(rows, np.float32) if b is None else np.ascontiguousarray(b)
    parallel(
        _joined_products, -(-count * pixels // step), address("rows", shape), shape.rows,
        shape.columns, w.reshape(-1),
        _table(shape.rows, depth), _table(1, 0),
        x.reshape(-1), out.reshape(-1), bias, b is None, rows, depth, pixels, count * pixels, step,
        grain=-(-GRAIN // (rows * depth * step)),
    )  # fmt: skip
    return out


def _sums(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Σ_n y[n] · x[n]' for y (N, O, P), x (N, K, P)."""
    (count, rows, pixels), columns = y.shape, x.shape[1]
    if y.size * columns < LARGE_CONV:
        return np.tensordot(y, x, ((0, 2), (0, 2)))
    shape = choose(columns)
    step, blocks, chunk = _cut(count, rows, columns, pixels, shape.columns)
    chunks = -(-count // chunk)
    out = np.empty((chunks, rows, columns), np.float32)
    together = max(1, min(chunk, DEPTH // pixels))
    parallel(
        _summed, chunks * blocks, address("rows", shape), packer("columns", shape.columns, shape.width), shape.rows,
        shape.columns, y.reshape(-1), _table(shape.rows, pixels), _table(together, rows * pixels), x.reshape(-1),
        out.reshape(-1), count, chunk, together, rows, columns, pixels, blocks, step,
        grain=-(-GRAIN * blocks // (chunk * pixels * rows * columns)),
    )  # fmt: skip
    return out[0] if chunks == 1 else out.sum(0)


def _cut(count: int, rows: int, columns: int, pixels: int, panel: int) -> tuple[int, int, int]:
    """Columns of a block of a weight gradient, how many blocks, and samples that a part of its sum is of."""
    high, wide = -(-rows // ROWS), -(-columns // panel)
    step = panel * min(COLUMNS // panel, max(4, -(-wide * high // PARTS)))
    blocks = high * -(-columns // step)
    chunks = max(1, min(count, PARTS // blocks, count * pixels // CHUNK))
    return step, blocks, -(-count // chunks)


@functools.lru_cache(256)
def _table(count: int, step: int) -> np.ndarray:
    return np.arange(count) * step


@jit
def _products(first, last, function, packing, tile_rows, tile_columns, w, table, zero, x, out, bias, rows, depth,
              pixels, blocks, step, together):  # fmt: skip
    """Blocks of `step` columns of the samples' products, `together` rows at a time."""
    panels = _scratch()
    for number in range(first, last):
        n = number // blocks
        start = (number - n * blocks) * step
        wide = min(step, pixels - start)
        for k in range(0, depth, DEPTH):
            some = min(DEPTH, depth - k)
            pack(packing, place(x, (n * depth + k) * pixels + start), pixels, some, panels, 0, wide)
            begins = k == 0 and bias.size == 0
            for low in range(0, rows, together):
                high = min(low + together, rows)
                if k == 0 and bias.size:
                    for i in range(low, high):
                        line = out[(n * rows + i) * pixels + start : (n * rows + i) * pixels + start + wide]
                        for q in range(wide):
                            line[q] = bias[i]
                for j in range(0, wide, tile_columns):
                    here = min(tile_columns, wide - j)
                    for i in range(low, high, tile_rows):
                        target = (n * rows + i) * pixels + start + j
                        many = min(tile_rows, high - i)
                        tile(function, place(w, i * depth + k), place(table, 0), place(zero, 0), 1, some,
                             panels + 4 * j * some, 0, place(out, target), pixels, 0, many, here, begins)  # fmt: skip


@jit
def _joined_products(first, last, function, tile_rows, tile_columns, w, table, zero, x, out, bias, begins, rows,
                     depth, pixels, columns, step):  # fmt: skip
    """Blocks of `step` columns of the products of all samples, one after the other."""
    panels = _scratch()
    sums = panels + 4 * depth * step
    packed, block = array_at(panels, depth * step, x), array_at(sums, JOINED_ROWS * step, x)
    for number in range(first, last):
        start = number * step
        wide = min(step, columns - start)
        for j in range(0, wide, tile_columns):
            q, here = 0, min(tile_columns, wide - j)
            while q < here:
                n = (start + j + q) // pixels
                i = start + j + q - n * pixels
                run = min(here - q, pixels - i)
                for k in range(depth):
                    source = x[(n * depth + k) * pixels + i : (n * depth + k) * pixels + i + run]
                    target = packed[j * depth + k * tile_columns + q : j * depth + k * tile_columns + q + run]
                    for t in range(run):
                        target[t] = source[t]
                q += run
        for low in range(0, rows, JOINED_ROWS):
            high = min(low + JOINED_ROWS, rows)
            if not begins:
                for i in range(low, high):
                    line = block[(i - low) * step : (i - low) * step + wide]
                    for t in range(wide):
                        line[t] = bias[i]
            for j in range(0, wide, tile_columns):
                for i in range(low, high, tile_rows):
                    for k in range(0, depth, DEPTH):
                        some = min(DEPTH, depth - k)
                        lines = panels + 4 * (j * depth + k * tile_columns)
                        target = sums + 4 * ((i - low) * step + j)
                        many, here = min(tile_rows, high - i), min(tile_columns, wide - j)
                        tile(function, place(w, i * depth + k), place(table, 0), place(zero, 0), 1, some, lines, 0, target,
                             step, 0, many, here, begins and k == 0)  # fmt: skip
            q = 0
            while q < wide:
                n = (start + q) // pixels
                p = start + q - n * pixels
                run = min(wide - q, pixels - p)
                for i in range(low, high):
                    line = block[(i - low) * step + q : (i - low) * step + q + run]
                    target = out[(n * rows + i) * pixels + p : (n * rows + i) * pixels + p + run]
                    for t in range(run):
                        target[t] = line[t]
                q += run


@jit
def _summed(first, last, function, packing, tile_rows, tile_columns, y, table, cells, x, out, count, chunk, together, rows,
            columns, pixels, blocks, step):  # fmt: skip
    """Blocks of the weight gradient, ROWS × step, of the sum over `chunk` samples; `together` of them are summed at a time."""
    panels = _scratch()
    across = (columns + step - 1) // step
    for number in range(first, last):
        part = number // blocks
        block = number - part * blocks
        low, left = block // across * ROWS, block % across * step
        high, wide = min(low + ROWS, rows), min(step, columns - left)
        begin, end = part * chunk, min((part + 1) * chunk, count)
        for n in range(begin, end, together):
            samples = min(together, end - n)
            for k in range(0, pixels, DEPTH):
                some = min(DEPTH, pixels - k)
                for j in range(0, wide, tile_columns):
                    for s in range(samples):
                        pack(packing, place(x, ((n + s) * columns + left + j) * pixels + k), pixels, some,
                             panels + 4 * tile_columns * some * (j // tile_columns * samples + s), 0,
                             min(tile_columns, wide - j))  # fmt: skip
                    for i in range(low, high, tile_rows):
                        tile(function, place(y, (n * rows + i) * pixels + k), place(table, 0), place(cells, 0), samples, some,
                             panels + 4 * some * samples * j, 0, place(out, (part * rows + i) * columns + left + j), columns,
                             0, min(tile_rows, high - i), min(tile_columns, wide - j), n == begin and k == 0)  # fmt: skip
