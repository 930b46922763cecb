"""Convolutions with few windows, in float32 on the CPU, as products of patches (`product`), without a copy of the weights.

    result            w (O, C · cells)     times the patches (C · cells, windows)
    weight gradient   y (O, windows)       times the patches, transposed

and of channels-last images and weights, whose patches consist of whole pixels,

    result            patches (windows, cells · C)     times w, transposed
    weight gradient   y, transposed (O, windows)       times the patches

Contiguous images may be of bfloat16, to which results are rounded as they are turned. Where images are small, a layer has more
weights than numbers: to pack them for `conv_cpu`'s tiles takes longer than to multiply.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels import conv_cpu, product, unfold_cpu
from tdt._kernels._addresses import address_of
from tdt._kernels._code import Code, Value, native
from tdt._kernels._formulas import narrow, widen
from tdt._kernels._layout import COPY, bordered, transposed
from tdt._kernels._phases import three
from tdt._kernels._pool import parallel

COLUMNS = 512  # windows of a product, about: its patches are some megabytes
LANES = 8  # floats that are copied at a time
WORDS = ("offsets", "starts", "rows", "wide")


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, *spatial), w (O, C, *kernel), b (O,) or None; one group; both contiguous, or channels-last."""
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    size = output_sizes(x.shape[2:], w.shape[2:], **how)
    some = -(-COLUMNS // math.prod(size))
    out = (_of_pixels if output_is_channels_last(x, w) else _of_planes)(x, w, b, size, some, how)
    if any(padding) and conv_cpu.border_counts(out, (0, slice(None), *(0,) * len(size)), w):
        return conv_cpu.conv(x, w, b, **how, groups=groups)
    return out


def _of_pixels(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, size: tuple, some: int, how: dict) -> np.ndarray:
    """The result for channels-last images and weights, so many samples at a time."""
    weights = to_last(w).reshape(len(w), -1).T
    out = np.empty((len(x), *size, len(w)), np.float32)
    for first in range(0, len(x), some):
        part = out[first : first + some]
        patches = _pixel_patches(x[first : first + some], w.shape[2:], size, **how)
        part[...] = product(np, patches, weights, b).reshape(part.shape)
    return to_front(out)


def _of_planes(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, size: tuple, some: int, how: dict) -> np.ndarray:
    """The result for contiguous images and weights."""
    weights = w.reshape(len(w), -1)
    out = np.empty((len(x), len(w), math.prod(size)), x.dtype)
    for first in range(0, len(x), some):
        part = out[first : first + some]
        patches = _patches(x[first : first + some], w.shape[2:], size, **how)
        result = product(np, weights, patches)
        if b is not None:
            result += b[:, None]
        if len(part) > 1:
            transposed(result, result.size // len(part), len(part), part)
        else:
            part[0] = result if x.dtype == np.float32 else narrow(result, x.dtype)
    return out.reshape(len(x), len(w), *size)


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, *spatial), x (N, C, *spatial); as `conv`."""
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    if output_is_channels_last(y, x):
        patches = _pixel_patches(x, kernel, y.shape[2:], **how)
        sums = product(np, to_last(y).reshape(-1, y.shape[1]).T, patches)
        out: np.ndarray = to_front(sums.reshape(y.shape[1], *kernel, x.shape[1]))
    else:
        patches = _patches(x, kernel, y.shape[2:], **how)
        flat = _samples_last(y).reshape(y.shape[1], -1)
        out = product(np, flat, patches.T).reshape(y.shape[1], x.shape[1], *kernel)
    if any(padding) and conv_cpu.border_counts(out, (slice(None), 0, *(0,) * len(kernel)), y):
        return conv_cpu.conv_weight_grad(y, x, kernel=kernel, **how, groups=groups)
    return out


def _pixel_patches(
    x: np.ndarray, kernel: tuple, size: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> np.ndarray:
    """The pixels under each window of a channels-last (N, C, *spatial), as (N · windows, cells · C)."""
    full = tuple((o - 1) * s + (k - 1) * d + 1 for o, k, s, d in zip(size, kernel, stride, dilation, strict=True))
    image = bordered(x, full, padding)
    count, *steps, pixel = image.strides
    steps = [
        *(n * s for n, s in zip(steps, stride, strict=True)),
        *(n * d for n, d in zip(steps, dilation, strict=True)),
    ]
    windows = np.lib.stride_tricks.as_strided(image, (len(x), *size, *kernel, x.shape[1]), (count, *steps, pixel))
    return windows.reshape(len(x) * math.prod(size), -1)


def _samples_last(x: np.ndarray) -> np.ndarray:
    """(N, C, *spatial) as contiguous (C, *spatial, N) of float32."""
    lines = widen((x,))[0] if len(x) == 1 else transposed(x, len(x), x.size // len(x))
    return lines.reshape(*x.shape[1:], len(x))


def _patches(x: np.ndarray, kernel: tuple, size: tuple, stride: tuple, padding: tuple, dilation: tuple) -> np.ndarray:
    """The cells under each window of (N, C, *spatial), as (C · cells, windows · N); `size`: windows in each dimension."""
    if max(stride) > 1 and x.ndim <= 4:
        pairs = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        pairs = {name: (int(name != "padding"), *value)[-2:] for name, value in pairs.items()}
        columns = unfold_cpu.unfold(x.reshape(*x.shape[:2], -1, x.shape[-1]), (1, *size)[-2:], **pairs)
        return _samples_last(columns).reshape(x.shape[1] * math.prod(kernel), -1)
    x = _samples_last(x)
    channels, *spatial, count = x.shape
    full = [
        max(n + p, (o - 1) * s + (k - 1) * d + 1)
        for n, o, k, s, p, d in zip(spatial, size, kernel, stride, padding, dilation, strict=True)
    ]
    full[-1] += -full[-1] % stride[-1]
    shape = channels, *full, count
    memory = np.zeros(math.prod(shape) + LANES, np.float32)  # lanes behind the last pixel are read too
    memory[:-LANES].reshape(shape)[:, *(slice(p, p + n) for n, p in zip(spatial, padding, strict=True))] = x
    if stride[-1] > 1:  # the pixels of a row that neighbouring windows have under a cell follow each other
        rows = memory[:-LANES].reshape(-1, full[-1] // stride[-1], stride[-1], count).swapaxes(1, 2)
        memory[:-LANES] = np.ascontiguousarray(rows).reshape(-1)
    words, _ = _words(shape, kernel, size, stride, dilation)
    out = np.empty((channels * math.prod(kernel), math.prod(size) * count), np.float32)
    parallel(_take(), len(out), memory, out, words, grain=-(-COPY // out.shape[1]))
    return out


@functools.lru_cache(256)
def _words(shape: tuple, kernel: tuple, size: tuple, stride: tuple, dilation: tuple) -> tuple:
    """The words of `_take` for a bordered image, and what they point into."""
    steps = [math.prod(shape[k:]) for k in range(1, len(shape))]  # of a channel, and of each dimension
    down, across, wide = three(size, 1)
    cells = [range(0, k * d, d) for k, d in zip(kernel, dilation, strict=True)]
    columns = [at % stride[-1] * (shape[-2] // stride[-1]) + at // stride[-1] for at in cells[-1]]
    offsets = [range(0, shape[0] * steps[0], steps[0])]
    offsets += [[at * step for at in each] for each, step in zip([*cells[:-1], columns], steps[1:], strict=True)]
    rows = [range(0, o * s * step, s * step) for o, s, step in zip(size[:-1], stride, steps[1:], strict=False)]
    tables = [np.array([sum(each) for each in itertools.product(*ranges)]) for ranges in (offsets, rows)]
    return np.array([*map(address_of, tables), down * across, wide * shape[-1]]), tables


@native("qqp")
def _take(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Cells [first, last) of all channels: for each window the pixels that lie under the cell."""
    image, out, words = arguments
    p = code.words(words, WORDS)
    offsets, starts = (code.cast(table, "ptr") for table in (p.offsets, p.starts))
    columns = p.rows * p.wide
    with code.loop(first, last) as cell:
        line, target = image + 4 * code.load("i64", offsets, cell), out + 4 * cell * columns
        with code.loop(0, p.rows) as row:
            source = code.cast(line + 4 * code.load("i64", starts, row), "ptr")
            to = code.cast(target + 4 * row * p.wide, "ptr")

            def together() -> None:
                """Whole vectors: what they write behind the row is written again, as part of the next one."""
                with code.loop(0, p.wide, LANES) as j:
                    code.store(code.load("float", source, j, LANES), to, j)

            def singly() -> None:
                with code.loop(0, p.wide) as j:
                    code.store(code.load("float", source, j), to, j)

            whole = row * p.wide + (p.wide + LANES - 1) // LANES * LANES <= columns
            code.choose(whole, together, singly)
