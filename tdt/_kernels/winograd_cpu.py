"""Convolution with kernels of 3 × 3 in float32 by Winograd's F(2×2, 3×3), and its two gradients; of volumes with 1 × 3 × 3.

Sixteen products for each 2 × 2 piece of a result, instead of 36 (A. Lavin, S. Gray, Fast Algorithms for Convolutional
Neural Networks, 2016). Images lie channels-last; `_winograd` has the transforms and the loops, `_tile` the products. Work is
cut by shapes alone, and every sum belongs to one thread, so bits do not depend on the number of threads; nor on the memory
format. Contiguous images of bfloat16 are read, and written, as they are laid out channels-last and back; weight gradients are
float32.

The transforms only add and halve, but results are differences of larger numbers. So channels are summed in short runs, and
results are as close to float64 as those of a direct sum, for any mean and deviation. A NaN reaches just the results that it
reaches in a direct sum, but differences of infinities, and sums that overflow, would be NaN: where a result is not finite,
`conv_cpu` computes it again.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._kernels import _tile, conv_cpu
from tdt._kernels._formulas import widen
from tdt._kernels._launches import all_finite, zeros
from tdt._kernels._layout import bordered, contiguous, transposed
from tdt._kernels._native import NativeKernel, linked, vector_width
from tdt._kernels._pack import packer, turner
from tdt._kernels._pool import most_threads, parallel
from tdt._kernels._winograd import CELLS, DEPTH, GROUP, KERNELS, PAD, PIECE, PLACES, TileOfRuns, module

WORKSPACE = 1 << 18  # bytes of transformed images and products of a block: about half of a level-two cache
LEAST = 48  # tiles in a block: fewer read the transformed weights too often
RUN = 32  # channels whose products are summed without a break, at most
SHARES = 4  # blocks for two threads or four come in such numbers
SHARED = 1 << 20  # bytes of both transforms of the weight gradient at a time
SUMMED = 128  # tiles in a block of the weight gradient, at least: fewer read its sums too often
CONVERTED = 1 << 21  # bytes of images, and results, that are in channels-last order at a time


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv` for x (N, C, H, W), w (O, C, 3, 3), b (O,) or None; float32, stride 1, dilation 1, one group.

    Or x (N, C, D, H, W), w (O, C, 1, 3, 3), not padded in depth; so are the gradients.
    """
    if x.ndim == 5:
        how = _of_planes(stride=stride, padding=padding, dilation=dilation)
        images = conv(_planes(x), _planes(w), b, **how, groups=groups)
        return _volumes(images, len(x), output_is_channels_last(x, w))
    size = x.shape[2] + 2 * padding[0] - 2, x.shape[3] + 2 * padding[1] - 2
    result = _convolved(x, w, b, padding, size, False)
    if result is None:
        return conv_cpu.conv(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return result


def conv_input_grad(y: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, size: tuple, stride: tuple, padding: tuple,
                    dilation: tuple, groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_input_grad` for y (N, O, OH, OW), w (O, C, 3, 3), b (C,) or None: `conv` with turned weights."""
    if y.ndim == 5:
        how = _of_planes(size=size, stride=stride, padding=padding, dilation=dilation)
        images = conv_input_grad(_planes(y), _planes(w), b, **how, groups=groups)
        return _volumes(images, len(y), output_is_channels_last(y, w))
    result = _convolved(y, w, b, (2 - padding[0], 2 - padding[1]), size, True)
    if result is None:
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return conv_cpu.conv_input_grad(y, w, b, size=size, **how)
    return result


def conv_weight_grad(y: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                     groups: int) -> np.ndarray:  # fmt: skip
    """The op `conv_weight_grad` for y (N, O, OH, OW), x (N, C, H, W); float32, stride 1, dilation 1, one group."""
    last = output_is_channels_last(y, x)
    if y.ndim == 5:
        how = _of_planes(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
        return _volumes(conv_weight_grad(_planes(y), _planes(x), **how, groups=groups), y.shape[1], last)
    plan = _gradient_plan(x.shape, y.shape, padding, last, vector_width())
    channels, out_channels, step = x.shape[1], y.shape[1], plan.step
    v_plane, z_plane, s_plane = (n + PAD for n in (step * channels, step * out_channels, channels * out_channels))
    v, z = np.empty(PLACES * v_plane + PAD, np.float32), np.empty(PLACES * z_plane, np.float32)
    sums = np.empty(PLACES * s_plane, np.float32)
    kernels = plan.kernels
    scratch = _scratch(-(-step // GROUP), PLACES * max(channels, out_channels))
    image = right = None
    first = behind = 0  # images that are in channels-last order
    for start in range(0, plan.tiles, step):
        count = min(step, plan.tiles - start)
        at, end = start // plan.tiles_of_image, -(-(start + count) // plan.tiles_of_image)
        if end > behind:
            image = right = None
            first, behind = at, min(len(x), max(end, at + _at_a_time(x[0].size + y[0].size)))
            image, right = _channels_last(x[first:behind]), _channels_last(y[first:behind])
        parallel(
            kernels["transform"], -(-count // GROUP), image, *plan.image, right, *plan.right, *scratch, plan.columns,
            start - first * plan.tiles_of_image, count, step, v, 4 * v_plane, z, 4 * z_plane, grain=plan.transform_grain,
        )  # fmt: skip
        parallel(
            kernels["products"], PLACES * (out_channels // plan.columns), *plan.tile, count, channels, out_channels, step,
            v, 4 * v_plane, z, 4 * z_plane, sums, 4 * s_plane, int(start == 0),
            grain=_grain(count * channels * plan.columns),
        )  # fmt: skip
    del image, right, v, z
    blocks = out_channels // plan.columns * (channels // PIECE)
    flags = zeros((blocks, plan.width))
    result = np.empty(out_channels * channels * CELLS, np.float32)
    parallel(
        kernels["gradient"], blocks, *_scratch(blocks, CELLS * PIECE * plan.columns), sums, 4 * s_plane, channels,
        out_channels, plan.columns, result, *plan.order, flags, grain=_grain(64 * PIECE * plan.columns),
    )  # fmt: skip
    if not all_finite(flags):
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return conv_cpu.conv_weight_grad(y, x, kernel=kernel, **how)
    if last:
        return to_front(result.reshape(out_channels, 3, 3, channels))
    return result.reshape(out_channels, channels, 3, 3)


def _of_planes(**how: tuple) -> dict[str, Any]:
    """The settings of a volume's convolution for its planes."""
    return {name: numbers[1:] for name, numbers in how.items()}


def _planes(x: np.ndarray) -> np.ndarray:
    """Volumes, or weights with one cell along the depth, as channels-last images."""
    ordered = _channels_last(x)
    return to_front(ordered.reshape(-1, *ordered.shape[2:]))


def _volumes(images: np.ndarray, count: int, last: bool) -> np.ndarray:
    """Channels-last images as so many volumes, contiguous or channels-last; or as weights with one cell along the depth."""
    ordered = to_last(images)
    volumes = to_front(ordered.reshape(count, -1, *ordered.shape[1:]))
    return volumes if last else contiguous(volumes)


class _GradientPlan(NamedTuple):
    """How a weight gradient of certain shapes is computed; words as in `_winograd.KERNELS`.

    Attributes:
        tiles: in all, of which `step` are transformed at a time, and `tiles_of_image` belong to one image.
        columns, width: of the register tile, of its vectors.
        image, right, tile, order: words of the image and of the result's gradient, of `products`, of `gradient`.
        transform_grain: groups of tiles that a thread should at least transform.
    """

    kernels: dict[str, NativeKernel]
    tiles: int
    tiles_of_image: int
    step: int
    columns: int
    width: int
    image: tuple
    right: tuple
    tile: tuple
    order: tuple
    transform_grain: int


@functools.lru_cache(256)
def _gradient_plan(x: tuple, y: tuple, padding: tuple, last: bool, width: int) -> _GradientPlan:
    """The plan for an image and a result of these shapes."""
    channels, out_channels = x[1], y[1]
    down, across = -(-y[2] // 2), -(-y[3] // 2)
    tiles = x[0] * down * across
    shape = _register_tile(out_channels, width)
    step = min(tiles, max(SUMMED, SHARED // (4 * PLACES * (channels + out_channels))))
    cells = np.arange(step) * channels
    tile = _tile.address("cells", shape), cells, cells, shape.rows, shape.columns
    order = (CELLS, channels, PIECE, PIECE, 1, PIECE) if last else (1, 0, CELLS * PIECE, CELLS * PIECE, CELLS, 1)
    return _GradientPlan(
        _kernels(width), tiles, down * across, step, shape.columns, width, (*x[2:], channels, *padding, down, across),
        (*y[2:], out_channels), tile, (turner(), *order), _grain(16 * PLACES * GROUP * (channels + out_channels)),
    )  # fmt: skip


def _convolved(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None, padding: tuple, size: tuple, turned: bool
) -> np.ndarray | None:
    """The convolution of `x` with `w`; None if not all of it is finite.

    turned: the weights are turned by 180° and lead from their output channels to their input channels.
    """
    last, width, count = output_is_channels_last(x, w), vector_width(), len(x)
    out_channels = w.shape[1] if turned else w.shape[0]
    u = _transformed_weights(w, turned, width)
    bias = np.zeros(out_channels, np.float32) if b is None else np.ascontiguousarray(b)
    if last:
        out = np.empty((count, *size, out_channels), np.float32)
        return to_front(out) if _convolve(x, u, bias, padding, out, width) else None
    result = np.empty((count, out_channels, *size), x.dtype)
    each = min(count, _at_a_time(x[0].size + result[0].size))
    memory = np.empty((each, *size, out_channels), np.float32)
    for first in range(0, count, each):
        part = slice(first, min(first + each, count))
        out = memory[: part.stop - first]
        if not _convolve(x[part], u, bias, padding, out, width):
            return None
        transposed(out, size[0] * size[1], out_channels, result[part])
    return result


def _convolve(
    x: np.ndarray, weights: tuple[np.ndarray, int], bias: np.ndarray, padding: tuple, out: np.ndarray, width: int
) -> bool:
    """Write the convolution of `x` with transformed weights to `out` (N, H, W, O); whether all of it is finite."""
    plan = _plan(x.shape, out.shape[-1], padding, out.shape[1:3], width)
    u, u_plane = weights
    flags = zeros((plan.blocks, width))
    parallel(
        plan.kernel, plan.blocks, _channels_last(x), *plan.image, out, *plan.result, *_scratch(plan.blocks, plan.scratch),
        *plan.tile, u, 4 * u_plane, *plan.planes, bias, flags, grain=plan.grain,
    )  # fmt: skip
    return all_finite(flags)


def _at_a_time(size: int) -> int:
    """How many images, of so many numbers with their results, are converted at a time."""
    return max(1, CONVERTED // (4 * size))


class _Plan(NamedTuple):
    """How results, or input gradients, of certain shapes are computed.

    Attributes:
        blocks: of tiles, and grain: how many of them a thread should at least have; scratch: floats of a thread's memory.
        image, result, tile, planes: words of the kernel, as in `_winograd.KERNELS`.
    """

    kernel: NativeKernel
    blocks: int
    grain: int
    scratch: int
    image: tuple
    result: tuple
    tile: tuple
    planes: tuple


@functools.lru_cache(256)
def _plan(x: tuple, out_channels: int, padding: tuple, size: tuple, width: int) -> _Plan:
    """The plan for images of shape x and results of `size`."""
    count, channels = x[:2]
    down, across = -(-size[0] // 2), -(-size[1] // 2)
    tiles, shape = count * down * across, _register_tile(out_channels, width)
    block = _block(tiles, channels + out_channels, shape.rows)
    v_plane, m_plane = block * channels + PAD, block * out_channels + PAD
    run = _run(channels)
    rows, cells = np.arange(shape.rows) * channels, np.arange(DEPTH // run) * run
    tile = (_tile_of_runs(shape), rows, cells, shape.rows, shape.columns, tiles, block, run)
    return _Plan(
        _kernels(width)["forward"], -(-tiles // block), _grain(PLACES * block * channels * out_channels),
        PLACES * (v_plane + m_plane + max(channels, out_channels)), (*x[2:], channels, *padding, down, across),
        (*size, out_channels), tile, (4 * v_plane, 4 * m_plane),
    )  # fmt: skip


def _transformed_weights(w: np.ndarray, turned: bool, width: int) -> tuple[np.ndarray, int]:
    """G g Gᵀ of the weights (O, C, 3, 3), and the elements of a plane."""
    cells = to_last(w)
    last = cells.flags.c_contiguous
    source = cells if last else np.ascontiguousarray(w)
    kernel, blocks, grain, scratch, words, plane = _weights_plan(*w.shape[:2], turned, last, width)
    u = np.empty(PLACES * plane, np.float32)
    parallel(kernel, blocks, *_scratch(blocks, scratch), source, *words, u, 4 * plane, grain=grain)
    return u, plane


@functools.lru_cache(256)
def _weights_plan(rows: int, columns: int, turned: bool, last: bool, width: int) -> tuple:
    """How weights (rows, columns, 3, 3) are transformed: the kernel, how many blocks it has, and how many of them a thread should
    at least have; floats of a thread's memory; words of the kernel; elements of a plane of the result."""
    channels, out_channels = (rows, columns) if turned else (columns, rows)
    shape = _register_tile(out_channels, width)
    size, columns = CELLS * channels, shape.columns
    # From a piece of input channels, a panel of output channels, to the next; then calls of the packer, from one to the next,
    # the lines or columns that it packs, how many; then the order of the packed lines, from which one.
    if not turned:
        steps = (PIECE, columns * size, CELLS, channels, size, PIECE) if last else (
            CELLS * PIECE, columns * size, 1, 0, size, CELLS * PIECE)  # fmt: skip
        order = (1, PIECE, 0) if last else (CELLS, 1, 0)
    else:  # from the last cell to the first
        size = CELLS * out_channels
        steps = (PIECE * size, columns, 1, 0, out_channels, CELLS * PIECE) if last else (
            PIECE * size, CELLS * columns, PIECE, size, CELLS, CELLS)  # fmt: skip
        order = CELLS, -1, CELLS - 1
    pack = packer("lines" if turned and last else "columns", columns, shape.width)
    words = (*steps[:2], pack, *steps[2:], *order, channels, out_channels, columns)
    blocks, scratch = out_channels // columns * (channels // PIECE), CELLS * PIECE * columns
    plane = channels * out_channels + PAD
    return _kernels(width)["weights"], blocks, _grain(64 * PIECE * columns), scratch, words, plane


def _register_tile(columns: int, width: int) -> _tile.Shape:
    """The first of the register's tiles that needs no padding for so many columns, a multiple of 16."""
    sizes = _tile.OF_32_REGISTERS if width == 16 else _tile.OF_16_REGISTERS
    return next(_tile.Shape(rows, n, width) for rows, n in sizes if columns % (n * width) == 0)


def _tile_of_runs(shape: _tile.Shape) -> int:
    """The address of the register tile that sums runs of channels."""
    name = f"tile-runs-{'x'.join(map(str, shape))}"
    return linked(name, [_tile.FUNCTION], lambda: TileOfRuns("rows", shape, True, False).module)[0]


@functools.cache
def _run(channels: int) -> int:
    """The most channels, up to RUN, that divide a number of channels, a multiple of 16."""
    return next(run for run in range(RUN, 0, -4) if channels % run == 0)


def _block(tiles: int, channels: int, rows: int) -> int:
    """How many tiles a block has: blocks of about one size, and whole register tiles, whose workspace stays in a cache."""
    blocks = -(-tiles // max(LEAST, WORKSPACE // (4 * PLACES * channels)))
    size = -(-tiles // (blocks + -blocks % SHARES))
    return size + -size % rows


def _grain(work: int) -> int:
    """How many blocks of so many multiply-adds a thread should at least have."""
    return -(-_tile.GRAIN // work)


def _scratch(blocks: int, size: int) -> tuple[np.ndarray, int, np.ndarray, int]:
    """A part of `size` floats for each thread: which of them are in use, how many, their memory, the bytes of each."""
    threads = min(most_threads(), blocks)
    return np.zeros(threads, np.int64), threads, np.empty(threads * size, np.float32), 4 * size


@functools.cache
def _kernels(width: int) -> dict[str, NativeKernel]:
    addresses = linked(f"winograd-{width}", list(KERNELS), lambda: module(width))
    return {
        name: NativeKernel(f"winograd.{name}", address, "q" * len(words))
        for (name, words), address in zip(KERNELS.items(), addresses, strict=True)
    }


def _channels_last(x: np.ndarray) -> np.ndarray:
    """(N, C, *spatial), of float32 or bfloat16, as contiguous (N, *spatial, C) of float32."""
    ordered = to_last(x)
    return widen((ordered,))[0] if ordered.flags.c_contiguous else bordered(x, x.shape[2:], (0,) * (x.ndim - 2))
