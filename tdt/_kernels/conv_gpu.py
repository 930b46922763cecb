"""Convolutions of images and lines on a GPU, and their gradients: products of matrices that are read where they lie.

Forward, the weights (O, C KH KW) are multiplied by the cells under the windows (C KH KW, N H W), which no workspace holds: a
tile of the product is 64 x 64, and each of 256 threads sums 4 x 4 of its elements. The gradients are such products too. That of
the weights is cut into parts of its long sum, so that it fills a GPU; the parts are added in order, so that a result has the
same bits each time.
"""

from __future__ import annotations

import math
from typing import Any

from tdt import _backend
from tdt._backend.layout import empty_output
from tdt._backend.windows import output_sizes
from tdt._kernels import _cuda

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

template <class A, class B, class Put>
__device__ void product(const A& a, const B& b, const Put& put, long long from, long long to) {
    __shared__ real left[DEPTH][TILE + 4], right[DEPTH][TILE + 4];
    const long long m0 = blockIdx.y * (long long)TILE, n0 = blockIdx.x * (long long)TILE;
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
    const long long group = blockIdx.z, in = group * z.channels, out = group * z.out_channels;
    product(weights_by_output{w, z, out}, cells_by_pixel{x, z, in}, to_output{y, bias, z, out}, 0, z.channels * z.kh * z.kw);
}

extern "C" __global__ void __launch_bounds__(256) conv_input_grad(const real* y, const real* w, const real* bias, real* x,
                                                                  geometry z) {
    const long long group = blockIdx.z, in = group * z.channels, out = group * z.out_channels;
    product(weights_by_input{w, z, out}, windows_by_pixel{y, z, out}, to_input{x, bias, z, in}, 0, z.out_channels * z.kh * z.kw);
}

extern "C" __global__ void __launch_bounds__(256) conv_weight_grad(const real* y, const real* x, real* w, geometry z) {
    const long long group = blockIdx.z % z.groups, part = blockIdx.z / z.groups, count = z.batch * z.rows * z.columns;
    const long long in = group * z.channels, out = group * z.out_channels, from = part * z.each;
    real* own = w + part * z.groups * z.out_channels * z.channels * z.kh * z.kw;
    product(pixels_by_output{y, z, out}, pixels_by_cell{x, z, in}, to_weights{own, z, out}, from, min(from + z.each, count));
}
"""


def _as_images(a: Any) -> Any:
    """(N, C, L) as images of one row."""
    return a[:, :, None] if a.ndim == 3 else a


def _pairs(how: dict[str, Any]) -> list[tuple[int, int]]:
    """Stride, padding and dilation of images, also where they are those of lines."""
    return [(fill, *how[name])[-2:] for name, fill in (("stride", 1), ("padding", 0), ("dilation", 1))]


def _launch(name: str, arrays: tuple, x: Any, w: Any, y: Any, how: dict[str, Any], tiles: tuple[int, int],
            parts: int = 1, each: int = 0) -> None:  # fmt: skip
    """A kernel of `SOURCE` for images x (N, C, H, W), weights w (O, C / groups, KH, KW) and results y (N, O, H, W)."""
    stride, padding, dilation = _pairs(how)
    groups = how["groups"]
    steps = [s // a.itemsize for a in (x, w, y) for s in a.strides]
    sizes = (
        x.shape[0], x.shape[1] // groups, *x.shape[2:], y.shape[1] // groups, *y.shape[2:], *w.shape[2:], *stride, *padding,
        *dilation, *steps, groups, parts, each,
    )  # fmt: skip
    blocks = -(-tiles[1] // TILE), -(-tiles[0] // TILE), groups * parts
    kernel = _cuda.of_type(SOURCE, name, x.dtype)
    kernel(blocks, (256,), (*arrays, _cuda.struct("geometry", sizes)))


def conv(x: Any, w: Any, b: Any = None, **how: Any) -> Any:
    """The convolution of images (N, C, H, W) or lines (N, C, L), with a bias of each channel."""
    sizes = output_sizes(x.shape[2:], w.shape[2:], how["stride"], how["padding"], how["dilation"])
    out = empty_output(_backend.gpu(), (x.shape[0], w.shape[0], *sizes), x.dtype, x, w)
    y = _as_images(out)
    tiles = w.shape[0] // how["groups"], out.size // out.shape[1]
    _launch("conv", (x, w, b, out), _as_images(x), _as_images(w), y, how, tiles)
    return out


def conv_input_grad(y: Any, w: Any, b: Any = None, *, size: tuple[int, ...], **how: Any) -> Any:
    """The gradient of images of a spatial size; or a transposed convolution, with a bias of each channel."""
    shape = (y.shape[0], w.shape[1] * how["groups"], *size)
    out = empty_output(_backend.gpu(), shape, y.dtype, y, w)
    _launch("conv_input_grad", (y, w, b, out), _as_images(out), _as_images(w), _as_images(y), how,
            (w.shape[1], out.size // out.shape[1]))  # fmt: skip
    return out


def conv_weight_grad(y: Any, x: Any, *, kernel: tuple[int, ...], **how: Any) -> Any:
    """The gradient of weights whose kernels have a size."""
    xp, groups = _backend.gpu(), how["groups"]
    shape = (y.shape[1], x.shape[1] // groups, *kernel)
    tiles = y.shape[1] // groups, math.prod(shape[1:])
    count, blocks = y.size // y.shape[1], groups * -(-tiles[0] // TILE) * -(-tiles[1] // TILE)
    parts = max(1, min(BLOCKS // blocks, count // SHORTEST))
    each = -(-count // parts)
    out = xp.empty((parts, *shape), y.dtype)
    _launch("conv_weight_grad", (y, x, out), _as_images(x), _as_images(out[0]), _as_images(y), how, tiles, parts, each)
    return out[0] if parts == 1 else out.sum(axis=0)
