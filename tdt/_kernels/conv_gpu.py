"""Convolutions of images and lines on a GPU, and their gradients: products of matrices that are read where they lie.

Forward, the weights (O, C KH KW) are multiplied by the cells under the windows (C KH KW, N H W), which no workspace holds: a
tile of the product is 64 x 64, and each of 256 threads sums 4 x 4 of its elements. The gradients are such products too. That of
the weights is cut into parts of its long sum, so that it fills a GPU; the block that ends last adds the parts in order, so that
a result has the same bits each time. One launch computes both gradients: some blocks one, the others the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.layout import empty_output
from tdt._backend.windows import output_sizes
from tdt._kernels import _cuda, capture_gpu

TILE, BLOCKS, SHORTEST = 64, 512, 256  # of a product; blocks that fill a GPU; terms of a part of a sum

SOURCE = r"""
struct geometry {
    long long batch, channels, height, width, out_channels, rows, columns;  // channels: of a group
    long long kh, kw, sh, sw, ph, pw, dh, dw;
    long long xn, xc, xh, xw, wo, wc, wh, ww, yn, yc, yh, yw;               // steps in memory
    long long groups, parts, each;                                         // of the long sum
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

struct spot { long long n, h, w; bool inside; };

// Where a pixel (n, h, w), counted row by row, lies among `count`.
__device__ __forceinline__ spot pixel(long long i, long long count, long long height, long long width) {
    return {i / (height * width), i / width % height, i % width, i < count};
}

// The cell of a window at one of the result's pixels, and the reverse.
__device__ __forceinline__ bool cell(const geometry& z, const spot& at, long long i, long long j, long long& h, long long& w) {
    h = at.h * z.sh - z.ph + i * z.dh;
    w = at.w * z.sw - z.pw + j * z.dw;
    return h >= 0 && h < z.height && w >= 0 && w < z.width;
}
__device__ __forceinline__ bool window(const geometry& z, const spot& at, long long i, long long j, long long& h, long long& w) {
    h = at.h + z.ph - i * z.dh;
    w = at.w + z.pw - j * z.dw;
    if (h < 0 || w < 0 || h % z.sh || w % z.sw) return false;
    h /= z.sh;
    w /= z.sw;
    return h < z.rows && w < z.columns;
}

// Operands of a product: `row` says what is the same for all k, `at` is the element. `ALONG` is true where neighbours in k
// lie side by side in memory.
struct weights_by_output {
    enum { ALONG = 1 };
    typedef long long row_type;
    const real* w; const geometry& z; long long first;
    __device__ row_type row(long long m) const { return m < z.out_channels ? (first + m) * z.wo : -1; }
    __device__ real at(row_type row, long long k) const {
        const long long area = z.kh * z.kw;
        return row < 0 ? (real)0 : w[row + k / area * z.wc + k % area / z.kw * z.wh + k % z.kw * z.ww];
    }
};
struct weights_by_input {
    enum { ALONG = 0 };
    typedef long long row_type;
    const real* w; const geometry& z; long long first;
    __device__ row_type row(long long m) const { return m < z.channels ? m * z.wc : -1; }
    __device__ real at(row_type row, long long k) const {
        const long long area = z.kh * z.kw;
        return row < 0 ? (real)0 : w[row + (first + k / area) * z.wo + k % area / z.kw * z.wh + k % z.kw * z.ww];
    }
};
struct cells_by_pixel {
    enum { ALONG = 0 };
    typedef spot row_type;
    const real* x; const geometry& z; long long first;
    __device__ row_type row(long long n) const { return pixel(n, z.batch * z.rows * z.columns, z.rows, z.columns); }
    __device__ real at(const row_type& at, long long k) const {
        const long long area = z.kh * z.kw;
        long long h, w;
        if (!at.inside || !cell(z, at, k % area / z.kw, k % z.kw, h, w)) return 0;
        return x[at.n * z.xn + (first + k / area) * z.xc + h * z.xh + w * z.xw];
    }
};
struct windows_by_pixel {
    enum { ALONG = 0 };
    typedef spot row_type;
    const real* y; const geometry& z; long long first;
    __device__ row_type row(long long n) const { return pixel(n, z.batch * z.height * z.width, z.height, z.width); }
    __device__ real at(const row_type& at, long long k) const {
        const long long area = z.kh * z.kw;
        long long h, w;
        if (!at.inside || !window(z, at, k % area / z.kw, k % z.kw, h, w)) return 0;
        return y[at.n * z.yn + (first + k / area) * z.yc + h * z.yh + w * z.yw];
    }
};
struct pixels_by_output {
    enum { ALONG = 1 };
    typedef long long row_type;
    const real* y; const geometry& z; long long first;
    __device__ row_type row(long long m) const { return m < z.out_channels ? (first + m) * z.yc : -1; }
    __device__ real at(row_type row, long long k) const {
        const spot at = pixel(k, k + 1, z.rows, z.columns);
        return row < 0 ? (real)0 : y[row + at.n * z.yn + at.h * z.yh + at.w * z.yw];
    }
};
struct pixels_by_cell {
    enum { ALONG = 1 };
    typedef spot row_type;  // n: the channel; h, w: the cell
    const real* x; const geometry& z; long long first;
    __device__ row_type row(long long n) const { return pixel(n, z.channels * z.kh * z.kw, z.kh, z.kw); }
    __device__ real at(const row_type& row, long long k) const {
        const spot at = pixel(k, k + 1, z.rows, z.columns);
        long long h, w;
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
    long long m0, n0, number, across, down;
    __device__ tile_of(long long index, long long rows, long long columns) {
        across = (columns + TILE - 1) / TILE;
        down = (rows + TILE - 1) / TILE;
        n0 = index % across * TILE;
        m0 = index / across % down * TILE;
        number = index / across / down;
    }
    __device__ long long all(long long products) const { return products * down * across; }
};

template <class A, class B, class Put>
__device__ void product(const A& a, const B& b, const Put& put, const tile_of& tile, long long from, long long to) {
    __shared__ real left[DEPTH][TILE + 4], right[DEPTH][TILE + 4];
    const long long m0 = tile.m0, n0 = tile.n0;
    real sums[ITEMS][4][4];
    typename A::row_type rows[ITEMS][4];
    typename B::row_type columns[ITEMS][4];
    EACH_THREAD for (int e = 0; e < 4; e++) {
        rows[item][e] = a.row(m0 + row_of<A>(thread, e));
        columns[item][e] = b.row(n0 + row_of<B>(thread, e));
        for (int j = 0; j < 4; j++) sums[item][e][j] = 0;
    }
    for (long long k0 = from; k0 < to; k0 += DEPTH) {
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
    real* y; const real* bias; const geometry& z; long long first;
    __device__ void operator()(long long m, long long n, real value) const {
        const spot at = pixel(n, z.batch * z.rows * z.columns, z.rows, z.columns);
        if (m < z.out_channels && at.inside)
            y[at.n * z.yn + (first + m) * z.yc + at.h * z.yh + at.w * z.yw] = bias ? value + bias[first + m] : value;
    }
};
struct to_input {
    real* x; const real* bias; const geometry& z; long long first;
    __device__ void operator()(long long m, long long n, real value) const {
        const spot at = pixel(n, z.batch * z.height * z.width, z.height, z.width);
        if (m < z.channels && at.inside)
            x[at.n * z.xn + (first + m) * z.xc + at.h * z.xh + at.w * z.xw] = bias ? value + bias[first + m] : value;
    }
};
struct to_weights {
    real* w; const geometry& z; long long first;
    __device__ void operator()(long long m, long long n, real value) const {
        const long long length = z.channels * z.kh * z.kw;
        if (m < z.out_channels && n < length) w[(first + m) * length + n] = value;
    }
};

extern "C" __global__ void __launch_bounds__(256) conv(const real* x, const real* w, const real* bias, real* y, geometry z) {
    const tile_of tile(blockIdx.x, z.out_channels, z.batch * z.rows * z.columns);
    const long long in = tile.number * z.channels, out = tile.number * z.out_channels;
    product(weights_by_output{w, z, out}, cells_by_pixel{x, z, in}, to_output{y, bias, z, out}, tile, 0,
            z.channels * z.kh * z.kw);
}

__device__ void input_grad(long long block, const real* y, const real* w, const real* bias, real* x, const geometry& z) {
    const tile_of tile(block, z.channels, z.batch * z.height * z.width);
    const long long in = tile.number * z.channels, out = tile.number * z.out_channels;
    product(weights_by_input{w, z, out}, windows_by_pixel{y, z, out}, to_input{x, bias, z, in}, tile, 0,
            z.out_channels * z.kh * z.kw);
}

// The tiles of a part are neighbours: they read the same pixels.
__device__ void weight_grad(long long block, const real* y, const real* x, real* w, real* sums, unsigned int* tickets,
                            const geometry& z) {
    const long long length = z.channels * z.kh * z.kw, size = z.groups * z.out_channels * length;
    const tile_of tile(block, z.out_channels, length);
    const long long group = tile.number % z.groups, part = tile.number / z.groups, count = z.batch * z.rows * z.columns;
    const long long in = group * z.channels, out = group * z.out_channels, from = part * z.each;
    real* own = z.parts == 1 ? w : sums + part * size;
    product(pixels_by_output{y, z, out}, pixels_by_cell{x, z, in}, to_weights{own, z, out}, tile, from,
            min(from + z.each, count));
    if (z.parts == 1 || !is_last_of(tickets + block % tile.all(z.groups), (unsigned int)z.parts)) return;
    for (int k = threadIdx.x; k < TILE * TILE; k += blockDim.x) {
        const long long m = tile.m0 + k / TILE, n = tile.n0 + k % TILE, at = (out + m) * length + n;
        if (m >= z.out_channels || n >= length) continue;
        real sum = 0;
        for (long long p = 0; p < z.parts; p++) sum += ((const volatile real*)sums)[p * size + at];
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


def _geometry(x: Any, w: Any, y: Any, how: dict[str, Any], parts: int = 1, each: int = 0) -> Any:
    """What `SOURCE` reads of images x (N, C, H, W), weights w (O, C / groups, KH, KW) and results y (N, O, H, W)."""
    x, w, y = _as_images(x), _as_images(w), _as_images(y)
    stride, padding, dilation = _pairs(how)
    groups = how["groups"]
    steps = [s // a.itemsize for a in (x, w, y) for s in a.strides]
    sizes = (
        x.shape[0], x.shape[1] // groups, *x.shape[2:], y.shape[1] // groups, *y.shape[2:], *w.shape[2:], *stride, *padding,
        *dilation, *steps, groups, parts, each,
    )  # fmt: skip
    return _cuda.struct("geometry", sizes)


def _tiles(rows: int, columns: int) -> int:
    return -(-rows // TILE) * -(-columns // TILE)


def conv(x: Any, w: Any, b: Any = None, **how: Any) -> Any:
    """The convolution of images (N, C, H, W) or lines (N, C, L), with a bias of each channel."""
    sizes = output_sizes(x.shape[2:], w.shape[2:], how["stride"], how["padding"], how["dilation"])
    out = empty_output(_backend.gpu(), (x.shape[0], w.shape[0], *sizes), x.dtype, x, w)
    blocks = how["groups"] * _tiles(w.shape[0] // how["groups"], out.size // out.shape[1])
    _cuda.of_type(SOURCE, "conv", x.dtype)((blocks,), (256,), (x, w, b, out, _geometry(x, w, out, how)))
    return out


def conv_input_grad(y: Any, w: Any, b: Any = None, *, size: tuple[int, ...], **how: Any) -> Any:
    """The gradient of images of a spatial size; or a transposed convolution, with a bias of each channel."""
    out, blocks = _of_input(y, w, size, how)
    _cuda.of_type(SOURCE, "conv_input_grad", y.dtype)((blocks,), (256,), (y, w, b, out, _geometry(out, w, y, how)))
    return out


def conv_weight_grad(y: Any, x: Any, *, kernel: tuple[int, ...], **how: Any) -> Any:
    """The gradient of weights whose kernels have a size."""
    like = np.broadcast_to(y.dtype.type(0), (y.shape[1], x.shape[1] // how["groups"], *kernel))
    out, sums, tickets, blocks, geometry = _of_weights(y, x, like, how)
    _cuda.of_type(SOURCE, "conv_weight_grad", y.dtype)((blocks,), (256,), (y, x, out, sums, tickets, geometry))
    return out


def conv_grads(y: Any, x: Any, w: Any, **how: Any) -> tuple[Any, Any]:
    """The gradients of images x and of weights w, for that of the result, y."""
    gx, first = _of_input(y, w, x.shape[2:], how)
    gw, sums, tickets, blocks, geometry = _of_weights(y, x, w, how)
    arrays = y, x, w, gx, gw, sums, tickets, first, _geometry(gx, w, y, how), geometry
    _cuda.of_type(SOURCE, "conv_grads", y.dtype)((first + blocks,), (256,), arrays)
    return gx, gw


def _of_input(y: Any, w: Any, size: tuple[int, ...], how: dict[str, Any]) -> tuple[Any, int]:
    """(Memory for the gradient of images of a size, blocks that compute it)."""
    groups = how["groups"]
    out = empty_output(_backend.gpu(), (y.shape[0], w.shape[1] * groups, *size), y.dtype, y, w)
    return out, groups * _tiles(w.shape[1], out.size // out.shape[1])


def _of_weights(y: Any, x: Any, w: Any, how: dict[str, Any]) -> tuple[Any, Any, Any, int, Any]:
    """(Memory for the gradient of weights, for the parts of its sums, their counters, blocks, what the kernel reads)."""
    xp, groups = _backend.gpu(), how["groups"]
    out = xp.empty(w.shape, y.dtype)
    count, tiles = y.size // y.shape[1], groups * _tiles(y.shape[1] // groups, out.size // out.shape[0])
    parts = max(1, min(BLOCKS // tiles, count // SHORTEST))
    sums = xp.empty((parts, *out.shape), y.dtype) if parts > 1 else None
    geometry = _geometry(x, w, y, how, parts, -(-count // parts))
    return out, sums, capture_gpu.tickets() if parts > 1 else None, tiles * parts, geometry
