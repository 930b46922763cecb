"""Convolutions of images and lines on a GPU, and their gradients: products of matrices that are read where they lie.

Forward, the weights (O, C KH KW) are multiplied by the cells under the windows (C KH KW, N H W), which no workspace holds: a
tile of the product is 64 x 64, and each of 256 threads sums 4 x 4 of its elements. The gradients are such products too. That of
the weights is cut into parts of its long sum, so that it fills a GPU; the block that ends last adds the parts in order, so that
a result has the same bits each time. One launch computes both gradients: some blocks one, the others the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tdt import _backend
from tdt._backend.layout import empty_output
from tdt._backend.windows import output_sizes
from tdt._kernels import _cuda, capture_gpu
from tdt._kernels.programs_gpu import MEMORY

TILE, BLOCKS, SHORTEST = 64, 512, 256  # of a product; blocks that fill a GPU; terms of a part of a sum

# Sizes of kernels and strides are constants of the code (KH, KW, SH, SW), as divisions by unknown numbers take most of the time;
# and so does whether the numbers are of 32 bits (`whole`).
SOURCE = r"""
struct geometry {
    whole batch, channels, height, width, out_channels, rows, columns;  // channels: of a group
    whole ph, pw, dh, dw;
    whole xn, xc, xh, xw, wo, wc, wh, ww, yn, yc, yh, yw;               // steps in memory
    whole groups, parts, each;                                         // of the long sum
};
enum { TILE = 64, DEPTH = 16 };

// A block has 256 threads on a GPU; on a host as many as there are, which do the work of 256.
#ifdef __CUDACC__
enum { ITEMS = 1 };
#define EACH_THREAD if (const int thread = threadIdx.x, item = 0; true)
#else
enum { ITEMS = 256 };
#define EACH_THREAD for (int thread = threadIdx.x, item = 0; thread < 256; thread += blockDim.x, item++)
#endif

struct spot { whole n, h, w; bool inside; };

// Where a pixel (n, h, w), counted row by row, lies among `count`.
__device__ __forceinline__ spot pixel(whole i, whole count, whole height, whole width) {
    return {i / (height * width), i / width % height, i % width, i < count};
}

// The cell of a window at one of the result's pixels, and the reverse.
__device__ __forceinline__ bool cell(const geometry& z, const spot& at, whole i, whole j, whole& h, whole& w) {
    h = at.h * SH - z.ph + i * z.dh;
    w = at.w * SW - z.pw + j * z.dw;
    return h >= 0 && h < z.height && w >= 0 && w < z.width;
}
__device__ __forceinline__ bool window(const geometry& z, const spot& at, whole i, whole j, whole& h, whole& w) {
    h = at.h + z.ph - i * z.dh;
    w = at.w + z.pw - j * z.dw;
    if (h < 0 || w < 0 || h % SH || w % SW) return false;
    h /= SH;
    w /= SW;
    return h < z.rows && w < z.columns;
}

// Operands of a product: `row` says what is the same for all k, `at` is the element. `ALONG` is true where neighbours in k
// lie side by side in memory.
struct weights_by_output {
    enum { ALONG = 1 };
    typedef whole row_type;
    const real* w; const geometry& z; whole first;
    __device__ row_type row(whole m) const { return m < z.out_channels ? (first + m) * z.wo : -1; }
    __device__ real at(row_type row, whole k) const {
        const whole area = KH * KW;
        return row < 0 ? (real)0 : w[row + k / area * z.wc + k % area / KW * z.wh + k % KW * z.ww];
    }
};
struct weights_by_input {
    enum { ALONG = 0 };
    typedef whole row_type;
    const real* w; const geometry& z; whole first;
    __device__ row_type row(whole m) const { return m < z.channels ? m * z.wc : -1; }
    __device__ real at(row_type row, whole k) const {
        const whole area = KH * KW;
        return row < 0 ? (real)0 : w[row + (first + k / area) * z.wo + k % area / KW * z.wh + k % KW * z.ww];
    }
};
struct cells_by_pixel {
    enum { ALONG = 0 };
    typedef spot row_type;
    const real* x; const geometry& z; whole first;
    __device__ row_type row(whole n) const { return pixel(n, z.batch * z.rows * z.columns, z.rows, z.columns); }
    __device__ real at(const row_type& at, whole k) const {
        const whole area = KH * KW;
        whole h, w;
        if (!at.inside || !cell(z, at, k % area / KW, k % KW, h, w)) return 0;
        return x[at.n * z.xn + (first + k / area) * z.xc + h * z.xh + w * z.xw];
    }
};
struct windows_by_pixel {
    enum { ALONG = 0 };
    typedef spot row_type;
    const real* y; const geometry& z; whole first;
    __device__ row_type row(whole n) const { return pixel(n, z.batch * z.height * z.width, z.height, z.width); }
    __device__ real at(const row_type& at, whole k) const {
        const whole area = KH * KW;
        whole h, w;
        if (!at.inside || !window(z, at, k % area / KW, k % KW, h, w)) return 0;
        return y[at.n * z.yn + (first + k / area) * z.yc + h * z.yh + w * z.yw];
    }
};
struct pixels_by_output {
    enum { ALONG = 1 };
    typedef whole row_type;
    const real* y; const geometry& z; whole first;
    __device__ row_type row(whole m) const { return m < z.out_channels ? (first + m) * z.yc : -1; }
    __device__ real at(row_type row, whole k) const {
        const spot at = pixel(k, k + 1, z.rows, z.columns);
        return row < 0 ? (real)0 : y[row + at.n * z.yn + at.h * z.yh + at.w * z.yw];
    }
};
struct pixels_by_cell {
    enum { ALONG = 1 };
    typedef spot row_type;  // n: the channel; h, w: the cell
    const real* x; const geometry& z; whole first;
    __device__ row_type row(whole n) const { return pixel(n, z.channels * KH * KW, KH, KW); }
    __device__ real at(const row_type& row, whole k) const {
        const spot at = pixel(k, k + 1, z.rows, z.columns);
        whole h, w;
        if (!row.inside || !cell(z, at, row.h, row.w, h, w)) return 0;
        return x[at.n * z.xn + (first + row.n) * z.xc + h * z.xh + w * z.xw];
    }
};

// Which element of a tile of an operand a thread copies: its k, and its row.
template <class Operand> __device__ __forceinline__ int depth_of(int thread, int e) {
    return Operand::ALONG ? thread % DEPTH : thread / TILE + 4 * e;
}
template <class Operand> __device__ __forceinline__ int row_of(int thread, int e) {
    return Operand::ALONG ? thread / DEPTH + 16 * e : thread % TILE;
}

// The tile of a product (rows x columns) that a block computes, and of which of several products.
struct tile_of {
    whole m0, n0, number, across, down;
    __device__ tile_of(whole index, whole rows, whole columns) {
        across = (columns + TILE - 1) / TILE;
        down = (rows + TILE - 1) / TILE;
        n0 = index % across * TILE;
        m0 = index / across % down * TILE;
        number = index / across / down;
    }
    __device__ whole all(whole products) const { return products * down * across; }
};

template <class A, class B, class Put>
__device__ void product(const A& a, const B& b, const Put& put, const tile_of& tile, whole from, whole to) {
    __shared__ real left[DEPTH][TILE + 4], right[DEPTH][TILE + 4];
    const whole m0 = tile.m0, n0 = tile.n0;
    real sums[ITEMS][4][4];
    typename A::row_type rows[ITEMS][4];
    typename B::row_type columns[ITEMS][4];
    EACH_THREAD for (int e = 0; e < 4; e++) {
        rows[item][e] = a.row(m0 + row_of<A>(thread, e));
        columns[item][e] = b.row(n0 + row_of<B>(thread, e));
        for (int j = 0; j < 4; j++) sums[item][e][j] = 0;
    }
    for (whole k0 = from; k0 < to; k0 += DEPTH) {
        EACH_THREAD for (int e = 0; e < 4; e++) {
            const int ak = depth_of<A>(thread, e), bk = depth_of<B>(thread, e);
            left[ak][row_of<A>(thread, e)] = k0 + ak < to ? a.at(rows[item][e], k0 + ak) : (real)0;
            right[bk][row_of<B>(thread, e)] = k0 + bk < to ? b.at(columns[item][e], k0 + bk) : (real)0;
        }
        __syncthreads();
        EACH_THREAD for (int k = 0; k < DEPTH; k++) {
            const real* l = &left[k][thread / 16 * 4];
            const real* r = &right[k][thread % 16 * 4];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sums[item][i][j] = fma(l[i], r[j], sums[item][i][j]);
        }
        __syncthreads();
    }
    EACH_THREAD for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) put(m0 + thread / 16 * 4 + i, n0 + thread % 16 * 4 + j, sums[item][i][j]);
}

struct to_output {
    real* y; const real* bias; const geometry& z; whole first;
    __device__ void operator()(whole m, whole n, real value) const {
        const spot at = pixel(n, z.batch * z.rows * z.columns, z.rows, z.columns);
        if (m < z.out_channels && at.inside)
            y[at.n * z.yn + (first + m) * z.yc + at.h * z.yh + at.w * z.yw] = bias ? value + bias[first + m] : value;
    }
};
struct to_input {
    real* x; const real* bias; const geometry& z; whole first;
    __device__ void operator()(whole m, whole n, real value) const {
        const spot at = pixel(n, z.batch * z.height * z.width, z.height, z.width);
        if (m < z.channels && at.inside)
            x[at.n * z.xn + (first + m) * z.xc + at.h * z.xh + at.w * z.xw] = bias ? value + bias[first + m] : value;
    }
};
struct to_weights {
    real* w; const geometry& z; whole first;
    __device__ void operator()(whole m, whole n, real value) const {
        const whole length = z.channels * KH * KW;
        if (m < z.out_channels && n < length) w[(first + m) * length + n] = value;
    }
};

extern "C" __global__ void __launch_bounds__(256) conv(const real* x, const real* w, const real* bias, real* y, geometry z) {
    const tile_of tile(blockIdx.x, z.out_channels, z.batch * z.rows * z.columns);
    const whole in = tile.number * z.channels, out = tile.number * z.out_channels;
    product(weights_by_output{w, z, out}, cells_by_pixel{x, z, in}, to_output{y, bias, z, out}, tile, 0,
            z.channels * KH * KW);
}

__device__ void input_grad(whole block, const real* y, const real* w, const real* bias, real* x, const geometry& z) {
    const tile_of tile(block, z.channels, z.batch * z.height * z.width);
    const whole in = tile.number * z.channels, out = tile.number * z.out_channels;
    product(weights_by_input{w, z, out}, windows_by_pixel{y, z, out}, to_input{x, bias, z, in}, tile, 0,
            z.out_channels * KH * KW);
}

// The tiles of a part are neighbours: they read the same pixels.
__device__ void weight_grad(whole block, const real* y, const real* x, real* w, real* sums, unsigned int* tickets,
                            const geometry& z) {
    const whole length = z.channels * KH * KW, size = z.groups * z.out_channels * length;
    const tile_of tile(block, z.out_channels, length);
    const whole group = tile.number % z.groups, part = tile.number / z.groups, count = z.batch * z.rows * z.columns;
    const whole in = group * z.channels, out = group * z.out_channels, from = part * z.each;
    real* own = z.parts == 1 ? w : sums + part * size;
    product(pixels_by_output{y, z, out}, pixels_by_cell{x, z, in}, to_weights{own, z, out}, tile, from,
            min(from + z.each, count));
    if (z.parts == 1 || !is_last_of(tickets + block % tile.all(z.groups), (unsigned int)z.parts)) return;
    for (int k = threadIdx.x; k < TILE * TILE; k += blockDim.x) {
        const whole m = tile.m0 + k / TILE, n = tile.n0 + k % TILE, at = (out + m) * length + n;
        if (m >= z.out_channels || n >= length) continue;
        real sum = 0;
        for (whole p = 0; p < z.parts; p++) sum += ((const volatile real*)sums)[p * size + at];
        w[at] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256) conv_input_grad(const real* y, const real* w, const real* bias, real* x,
                                                                  geometry z) {
    input_grad(blockIdx.x, y, w, bias, x, z);
}

extern "C" __global__ void __launch_bounds__(256) conv_weight_grad(const real* y, const real* x, real* gw, real* sums,
                                                                   unsigned int* tickets, geometry z) {
    weight_grad(blockIdx.x, y, x, gw, sums, tickets, z);
}

// The first `blocks` compute the gradient of the input.
extern "C" __global__ void __launch_bounds__(256) conv_grads(
    const real* y, const real* x, const real* w, real* gx, real* gw, real* sums, unsigned int* tickets, long long blocks,
    geometry of_input, geometry of_weights) {
    if (blockIdx.x < blocks) input_grad(blockIdx.x, y, w, (const real*)0, gx, of_input);
    else weight_grad(blockIdx.x - blocks, y, x, gw, sums, tickets, of_weights);
}
"""


def _as_images(a: Any) -> Any:
    """(N, C, L) as images of one row."""
    return a[:, :, None] if a.ndim == 3 else a


def _pairs(how: dict[str, Any]) -> list[tuple[int, int]]:
    """Stride, padding and dilation of images, also where they are those of lines."""
    return [(fill, *how[name])[-2:] for name, fill in (("stride", 1), ("padding", 0), ("dilation", 1))]


class _Geometry(NamedTuple):
    """What `SOURCE` reads of images, weights and results. largest: of what it computes with."""

    numbers: tuple[int, ...]
    largest: int


def _geometry(x: Any, w: Any, y: Any, how: dict[str, Any], parts: int = 1, each: int = 0) -> _Geometry:
    """For images x (N, C, H, W), weights w (O, C / groups, KH, KW) and results y (N, O, H, W)."""
    x, w, y = _as_images(x), _as_images(w), _as_images(y)
    _, padding, dilation = _pairs(how)
    groups = how["groups"]
    steps = [s // a.itemsize for a in (x, w, y) for s in a.strides]
    numbers = (
        x.shape[0], x.shape[1] // groups, *x.shape[2:], y.shape[1] // groups, *y.shape[2:], *padding, *dilation, *steps, groups,
        parts, each,
    )  # fmt: skip
    ends = [sum((n - 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True)) // a.itemsize for a in (x, w, y)]
    return _Geometry(numbers, max(*ends, *numbers, x.size, y.size, parts * w.size))


def _launch(name: str, blocks: int, arrays: tuple, w: Any, how: dict[str, Any], *geometries: _Geometry) -> None:
    whole, kind = ("int", np.int32) if max(g.largest for g in geometries) < _cuda.MOST_INT else ("long long", np.int64)
    (sh, sw), (kh, kw) = _pairs(how)[0], _as_images(w).shape[2:]
    before = f"typedef {whole} whole;\nenum {{ KH = {kh}, KW = {kw}, SH = {sh}, SW = {sw} }};\n"
    structs = [_cuda.struct(g.numbers, kind) for g in geometries]
    _cuda.of_type(SOURCE, name, arrays[0].dtype, before)((blocks,), (256,), (*arrays, *structs))


def _in_row(b: Any) -> Any:
    """A bias whose elements are neighbours, or None."""
    return None if b is None else _backend.gpu().ascontiguousarray(b)


def _tiles(rows: int, columns: int) -> int:
    return -(-rows // TILE) * -(-columns // TILE)


def conv(x: Any, w: Any, b: Any = None, **how: Any) -> Any:
    """The convolution of images (N, C, H, W) or lines (N, C, L), with a bias of each channel."""
    sizes = output_sizes(x.shape[2:], w.shape[2:], how["stride"], how["padding"], how["dilation"])
    out = empty_output(MEMORY, (x.shape[0], w.shape[0], *sizes), x.dtype, x, w)
    blocks = how["groups"] * _tiles(w.shape[0] // how["groups"], out.size // out.shape[1])
    _launch("conv", blocks, (x, w, _in_row(b), out), w, how, _geometry(x, w, out, how))
    return out


def conv_input_grad(y: Any, w: Any, b: Any = None, *, size: tuple[int, ...], **how: Any) -> Any:
    """The gradient of images of a spatial size; or a transposed convolution, with a bias of each channel."""
    out, blocks = _of_input(y, w, size, how)
    _launch("conv_input_grad", blocks, (y, w, _in_row(b), out), w, how, _geometry(out, w, y, how))
    return out


def conv_weight_grad(y: Any, x: Any, *, kernel: tuple[int, ...], **how: Any) -> Any:
    """The gradient of weights whose kernels have a size."""
    like = np.broadcast_to(y.dtype.type(0), (y.shape[1], x.shape[1] // how["groups"], *kernel))
    out, sums, tickets, blocks, geometry = _of_weights(y, x, like, how)
    _launch("conv_weight_grad", blocks, (y, x, out, sums, tickets), like, how, geometry)
    return out


def conv_grads(y: Any, x: Any, w: Any, **how: Any) -> tuple[Any, Any]:
    """The gradients of images x and of weights w, for that of the result, y."""
    gx, first = _of_input(y, w, x.shape[2:], how)
    gw, sums, tickets, blocks, geometry = _of_weights(y, x, w, how)
    arrays = y, x, w, gx, gw, sums, tickets, first
    _launch("conv_grads", first + blocks, arrays, w, how, _geometry(gx, w, y, how), geometry)
    return gx, gw


def _of_input(y: Any, w: Any, size: tuple[int, ...], how: dict[str, Any]) -> tuple[Any, int]:
    """(Memory for the gradient of images of a size, blocks that compute it)."""
    groups = how["groups"]
    out = empty_output(MEMORY, (y.shape[0], w.shape[1] * groups, *size), y.dtype, y, w)
    return out, groups * _tiles(w.shape[1], out.size // out.shape[1])


def _of_weights(y: Any, x: Any, w: Any, how: dict[str, Any]) -> tuple[Any, Any, Any, int, _Geometry]:
    """(Memory for the gradient of weights, for the parts of its sums, their counters, blocks, what the kernel reads)."""
    xp, groups = MEMORY, how["groups"]
    out = xp.empty(w.shape, y.dtype)
    count, tiles = y.size // y.shape[1], groups * _tiles(y.shape[1] // groups, out.size // out.shape[0])
    parts = max(1, min(BLOCKS // tiles, count // SHORTEST))
    sums = xp.empty((parts, *out.shape), y.dtype) if parts > 1 else None
    geometry = _geometry(x, w, y, how, parts, -(-count // parts))
    return out, sums, capture_gpu.tickets() if parts > 1 else None, tiles * parts, geometry
