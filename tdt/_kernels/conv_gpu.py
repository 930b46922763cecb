"""Convolutions of images and lines on a GPU, and their gradients: products of matrices that are read where they lie.

Forward, the weights (O, C KH KW) are multiplied by the cells under the windows (C KH KW, N H W), which no workspace holds: a
tile of the product is 64 x 64, or 32 x 128 or 16 x 256 for few rows, and each of 256 threads sums 4 x 4 of its elements,
while it reads what the next terms need. The gradients are such products too. That of the weights is cut into parts of its long
sum, so that it fills a GPU; the block that ends last adds the parts in order, so that a result has the same bits each time.
One launch computes both gradients: some blocks one, the others the other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tdt import _backend
from tdt._backend.layout import empty_output
from tdt._backend.windows import output_sizes
from tdt._kernels import _cuda, capture_gpu
from tdt._kernels.programs_gpu import MEMORY

CELLS = 4096  # elements of a product's tile
BLOCKS, SHORTEST = (
    264,
    256,
)  # blocks that fill a GPU: two for each of an H200's 132 multiprocessors; terms of a part of a sum

# Sizes of kernels and strides are constants of the code (KH, KW, SH, SW), as divisions by unknown numbers take most of the time;
# and so are rows of the tiles of images and weights (IMAGE_M, WEIGHT_M), whether images have borders (PADDED), and whether
# numbers are of 32 bits (`whole`). Each kernel is compiled alone: all of them take four times as long.
SOURCES = _cuda.each_alone(r"""
struct geometry {
    whole batch, channels, height, width, out_channels, rows, columns;  // channels: of a group
    whole ph, pw, dh, dw;
    whole xn, xc, xh, xw, wo, wc, wh, ww, yn, yc, yh, yw;               // steps in memory
    whole groups, parts, each;                                         // of the long sum
};
enum { CELLS = 4096, DEPTH = 16, GAP = 4 };  // of a tile: elements, terms that are read at a time, space between its rows
enum { LESS = IMAGE_M < WEIGHT_M ? IMAGE_M : WEIGHT_M };
enum { MEMORY = 2 * DEPTH * (LESS + CELLS / LESS + 2 * GAP) };  // of a block, for two such readings
const whole OUTSIDE = -(1 << 28);  // a row or column of an image that no step leads back from

// A block has 256 threads on a GPU; on a host as many as there are, which do the work of 256.
#ifdef __CUDACC__
enum { ITEMS = 1 };
#define EACH_THREAD if (const int thread = threadIdx.x, item = 0; true)
#else
enum { ITEMS = 256 };
#define EACH_THREAD for (int thread = threadIdx.x, item = 0; thread < 256; thread += blockDim.x, item++)
#endif

struct spot { whole n, h, w; };
struct place { whole offset, h, w; };  // in memory; and in an image, if that has borders

__device__ __forceinline__ bool inside(whole i, whole size) {
    return sizeof(whole) == 4 ? (unsigned int)i < (unsigned int)size : (unsigned long long)i < (unsigned long long)size;
}

// A pixel, counted row by row.
__device__ __forceinline__ spot pixel(whole i, whole height, whole width) {
    return {i / (height * width), i / width % height, i % width};
}

// Operands of a product: `row` says what is the same for all terms k, `depth` what is the same for all rows, `at` is the element.
// `ALONG` is true where neighbours in k lie side by side in memory.
struct weights_by_output {
    enum { ALONG = 1 };
    typedef place depth_type;
    const real* w; const geometry& z; whole first;
    __device__ place row(whole m) const { return {(first + m) * z.wo, m < z.out_channels ? 0 : OUTSIDE, 0}; }
    __device__ place depth(whole k) const {
        const whole area = KH * KW;
        return {k / area * z.wc + k % area / KW * z.wh + k % KW * z.ww, 0, 0};
    }
    __device__ void advance(place& at, whole k) const { at = depth(k); }
    __device__ real at(const place& row, const place& k) const { return row.h < 0 ? (real)0 : w[row.offset + k.offset]; }
};
struct weights_by_input {
    enum { ALONG = 0 };
    typedef place depth_type;
    const real* w; const geometry& z; whole first;
    __device__ place row(whole m) const { return {m * z.wc, m < z.channels ? 0 : OUTSIDE, 0}; }
    __device__ place depth(whole k) const {
        const whole area = KH * KW;
        return {(first + k / area) * z.wo + k % area / KW * z.wh + k % KW * z.ww, 0, 0};
    }
    __device__ void advance(place& at, whole k) const { at = depth(k); }
    __device__ real at(const place& row, const place& k) const { return row.h < 0 ? (real)0 : w[row.offset + k.offset]; }
};
struct cells {  // under the windows
    const real* x; const geometry& z; whole first;
    // The cell of a channel in each window, and the first cell of the window at a pixel.
    __device__ place cell(whole k) const {
        const whole area = KH * KW, i = k % area / KW * z.dh, j = k % KW * z.dw;
        return {(first + k / area) * z.xc + i * z.xh + j * z.xw, i, j};
    }
    __device__ place window(const spot& at) const {
        const whole h = at.h * SH - z.ph, w = at.w * SW - z.pw;
        return {at.n * z.xn + h * z.xh + w * z.xw, h, w};
    }
    __device__ real value(const place& a, const place& b) const {
        if (PADDED ? !inside(a.h + b.h, z.height) || !inside(a.w + b.w, z.width) : a.h < 0) return 0;
        return x[a.offset + b.offset];
    }
};
struct cells_by_pixel : cells {
    enum { ALONG = 0 };
    typedef place depth_type;
    __device__ cells_by_pixel(const real* x, const geometry& z, whole first) : cells{x, z, first} {}
    __device__ place row(whole n) const {
        return n < z.batch * z.rows * z.columns ? window(pixel(n, z.rows, z.columns)) : place{0, OUTSIDE, 0};
    }
    __device__ place depth(whole k) const { return cell(k); }
    __device__ void advance(place& at, whole k) const { at = depth(k); }
    __device__ real at(const place& row, const place& k) const { return value(row, k); }
};
struct windows_by_pixel {
    enum { ALONG = 0 };
    typedef place depth_type;
    const real* y; const geometry& z; whole first;
    __device__ place row(whole n) const {
        const spot at = pixel(n, z.height, z.width);
        return {at.n * z.yn, n < z.batch * z.height * z.width ? at.h + z.ph : OUTSIDE, at.w + z.pw};
    }
    __device__ place depth(whole k) const {
        const whole area = KH * KW;
        return {(first + k / area) * z.yc, k % area / KW * z.dh, k % KW * z.dw};
    }
    __device__ void advance(place& at, whole k) const { at = depth(k); }
    __device__ real at(const place& row, const place& k) const {
        whole h = row.h - k.h, w = row.w - k.w;
        if ((SH > 1 || SW > 1) && (h < 0 || w < 0 || h % SH || w % SW)) return 0;
        if (SH > 1) h /= SH;
        if (SW > 1) w /= SW;
        return inside(h, z.rows) && inside(w, z.columns) ? y[row.offset + k.offset + h * z.yh + w * z.yw] : (real)0;
    }
};

// Pixels are terms: the next ones that a thread reads are found without divisions.
struct pixels {
    spot step;
    __device__ pixels(const geometry& z) : step(pixel(DEPTH, z.rows, z.columns)) {}
    __device__ void advance(const geometry& z, spot& at) const {
        at.w += step.w;
        at.h += step.h;
        at.n += step.n;
        if (at.w >= z.columns) at.w -= z.columns, at.h++;
        if (at.h >= z.rows) at.h -= z.rows, at.n++;
    }
};
struct pixels_by_output : pixels {
    enum { ALONG = 1 };
    typedef spot depth_type;
    const real* y; const geometry& z; whole first;
    __device__ pixels_by_output(const real* y, const geometry& z, whole first) : pixels(z), y(y), z(z), first(first) {}
    __device__ place row(whole m) const { return {(first + m) * z.yc, m < z.out_channels ? 0 : OUTSIDE, 0}; }
    __device__ spot depth(whole k) const { return pixel(k, z.rows, z.columns); }
    __device__ void advance(spot& at, whole k) const { pixels::advance(z, at); }
    __device__ real at(const place& row, const spot& k) const {
        return row.h < 0 ? (real)0 : y[row.offset + (k.n * z.yn + k.h * z.yh + k.w * z.yw)];
    }
};
struct pixels_by_cell : cells, pixels {
    enum { ALONG = 1 };
    typedef spot depth_type;
    __device__ pixels_by_cell(const real* x, const geometry& z, whole first) : cells{x, z, first}, pixels(z) {}
    __device__ place row(whole n) const { return n < z.channels * KH * KW ? cell(n) : place{0, OUTSIDE, 0}; }
    __device__ spot depth(whole k) const { return pixel(k, z.rows, z.columns); }
    __device__ void advance(spot& at, whole k) const { pixels::advance(z, at); }
    __device__ real at(const place& row, const spot& k) const { return value(row, window(k)); }
};

// What a thread reads of an operand's tile of `SIZE` rows: before the sums of some terms are computed, those of the next ones.
template <class Operand, int SIZE> struct reader {
    enum { ALONG = Operand::ALONG, COUNT = SIZE * DEPTH / 256, ROWS = ALONG ? COUNT : 1, DEPTHS = ALONG ? 1 : COUNT };
    place rows[ROWS];
    typename Operand::depth_type depths[DEPTHS];
    real values[COUNT];
    whole k0;
    static __device__ __forceinline__ int depth_of(int thread, int e) {
        return ALONG ? thread % DEPTH : thread / SIZE + 256 / SIZE * e;
    }
    static __device__ __forceinline__ int row_of(int thread, int e) {
        return ALONG ? thread / DEPTH + 256 / DEPTH * e : thread % SIZE;
    }
    __device__ __forceinline__ void begin(const Operand& o, int thread, whole first, whole from) {
        k0 = from;
        for (int e = 0; e < ROWS; e++) rows[e] = o.row(first + row_of(thread, e));
        for (int e = 0; e < DEPTHS; e++) depths[e] = o.depth(k0 + depth_of(thread, e));
    }
    __device__ __forceinline__ void advance(const Operand& o, int thread) {
        k0 += DEPTH;
        for (int e = 0; e < DEPTHS; e++) o.advance(depths[e], k0 + depth_of(thread, e));
    }
    __device__ __forceinline__ void read(const Operand& o, int thread, whole to) {
        for (int e = 0; e < COUNT; e++)
            values[e] = k0 + depth_of(thread, e) < to ? o.at(rows[ALONG ? e : 0], depths[ALONG ? 0 : e]) : (real)0;
    }
    __device__ __forceinline__ void write(real* tile, int thread) const {
        for (int e = 0; e < COUNT; e++) tile[depth_of(thread, e) * (SIZE + GAP) + row_of(thread, e)] = values[e];
    }
};

// The tile of a product (rows x columns) that a block computes, of M x CELLS / M elements, and of which of several products.
template <int M> struct tile_of {
    enum { N = CELLS / M };
    whole m0, n0, number, across, down;
    __device__ tile_of(whole index, whole rows, whole columns) {
        across = (columns + N - 1) / N;
        down = (rows + M - 1) / M;
        n0 = index % across * N;
        m0 = index / across % down * M;
        number = index / across / down;
    }
    __device__ whole all(whole products) const { return products * down * across; }
    // The first of the 4 x 4 elements that a thread computes; a warp has 16 x 32.
    static __device__ __forceinline__ int row(int thread) { return (thread / 32 / (N / 32) * 4 + thread % 32 / 8) * 4; }
    static __device__ __forceinline__ int column(int thread) { return (thread / 32 % (N / 32) * 8 + thread % 8) * 4; }
};

struct alignas(16) four { real of[4]; };

template <class A, class B, class Put, int M>
__device__ void product(real* memory, const A& a, const B& b, const Put& put, const tile_of<M>& tile, whole from, whole to) {
    enum { N = CELLS / M, LEFT = DEPTH * (M + GAP), RIGHT = DEPTH * (N + GAP) };
    real *left = memory, *right = memory + 2 * LEFT;
    real sums[ITEMS][4][4];
    reader<A, M> as[ITEMS];
    reader<B, N> bs[ITEMS];
    EACH_THREAD {
        for (int i = 0; i < 16; i++) sums[item][i / 4][i % 4] = 0;
        as[item].begin(a, thread, tile.m0, from), bs[item].begin(b, thread, tile.n0, from);
        as[item].read(a, thread, to), bs[item].read(b, thread, to);
        as[item].write(left, thread), bs[item].write(right, thread);
    }
    __syncthreads();
    int now = 0;
    for (whole k0 = from; k0 < to; k0 += DEPTH, now = 1 - now) {
        EACH_THREAD if (k0 + DEPTH < to) {
            as[item].advance(a, thread), bs[item].advance(b, thread);
            as[item].read(a, thread, to), bs[item].read(b, thread, to);
        }
        EACH_THREAD {
            const real* l = left + now * LEFT + tile.row(thread);
            const real* r = right + now * RIGHT + tile.column(thread);
            for (int k = 0; k < DEPTH; k++, l += M + GAP, r += N + GAP) {
                const four x = *(const four*)l, y = *(const four*)r;
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) sums[item][i][j] = fma(x.of[i], y.of[j], sums[item][i][j]);
            }
            if (k0 + DEPTH < to)
                as[item].write(left + (1 - now) * LEFT, thread), bs[item].write(right + (1 - now) * RIGHT, thread);
        }
        __syncthreads();
    }
    EACH_THREAD for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) put(tile.m0 + tile.row(thread) + i, tile.n0 + tile.column(thread) + j, sums[item][i][j]);
}

struct to_output {
    real* y; const real* bias; const geometry& z; whole first;
    __device__ void operator()(whole m, whole n, real value) const {
        const spot at = pixel(n, z.rows, z.columns);
        if (m < z.out_channels && n < z.batch * z.rows * z.columns)
            y[at.n * z.yn + (first + m) * z.yc + at.h * z.yh + at.w * z.yw] = bias ? value + bias[first + m] : value;
    }
};
struct to_input {
    real* x; const real* bias; const geometry& z; whole first;
    __device__ void operator()(whole m, whole n, real value) const {
        const spot at = pixel(n, z.height, z.width);
        if (m < z.channels && n < z.batch * z.height * z.width)
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
    __shared__ four memory[MEMORY / 4];
    const tile_of<IMAGE_M> tile(blockIdx.x, z.out_channels, z.batch * z.rows * z.columns);
    const whole in = tile.number * z.channels, out = tile.number * z.out_channels;
    product((real*)memory, weights_by_output{w, z, out}, cells_by_pixel(x, z, in), to_output{y, bias, z, out}, tile, 0,
            z.channels * KH * KW);
}

static __device__ void input_grad(real* memory, whole block, const real* y, const real* w, const real* bias, real* x,
                                  const geometry& z) {
    const tile_of<IMAGE_M> tile(block, z.channels, z.batch * z.height * z.width);
    const whole in = tile.number * z.channels, out = tile.number * z.out_channels;
    product(memory, weights_by_input{w, z, out}, windows_by_pixel{y, z, out}, to_input{x, bias, z, in}, tile, 0,
            z.out_channels * KH * KW);
}

// The tiles of a part are neighbours: they read the same pixels.
static __device__ void weight_grad(real* memory, whole block, const real* y, const real* x, real* w, real* sums,
                                   unsigned int* tickets, const geometry& z) {
    const whole length = z.channels * KH * KW, size = z.groups * z.out_channels * length;
    const tile_of<WEIGHT_M> tile(block, z.out_channels, length);
    const whole group = tile.number % z.groups, part = tile.number / z.groups, count = z.batch * z.rows * z.columns;
    const whole in = group * z.channels, out = group * z.out_channels, from = part * z.each;
    real* own = z.parts == 1 ? w : sums + part * size;
    product(memory, pixels_by_output(y, z, out), pixels_by_cell(x, z, in), to_weights{own, z, out}, tile, from,
            min(from + z.each, count));
    if (z.parts == 1 || !is_last_of(tickets + block % tile.all(z.groups), (unsigned int)z.parts)) return;
    const whole across = tile.N, last = min((whole)CELLS, (z.out_channels - tile.m0) * across);
    EACH_THREAD for (whole k = thread; k < last; k += 4 * 256) {  // four of a thread's elements at a time
        real of[4] = {0, 0, 0, 0}, next[4];
        for (whole p = 0; p < z.parts; p++) {
            for (int e = 0; e < 4; e++) {
                const whole m = tile.m0 + (k + e * 256) / across, n = tile.n0 + (k + e * 256) % across;
                const bool is_there = k + e * 256 < last && n < length;
                next[e] = is_there ? ((const volatile real*)sums)[p * size + (out + m) * length + n] : (real)0;
            }
            for (int e = 0; e < 4; e++) of[e] += next[e];
        }
        for (int e = 0; e < 4; e++) {
            const whole m = tile.m0 + (k + e * 256) / across, n = tile.n0 + (k + e * 256) % across;
            if (k + e * 256 < last && n < length) w[(out + m) * length + n] = of[e];
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) conv_input_grad(const real* y, const real* w, const real* bias, real* x,
                                                                  geometry z) {
    __shared__ four memory[MEMORY / 4];
    input_grad((real*)memory, blockIdx.x, y, w, bias, x, z);
}

extern "C" __global__ void __launch_bounds__(256) conv_weight_grad(const real* y, const real* x, real* gw, real* sums,
                                                                   unsigned int* tickets, geometry z) {
    __shared__ four memory[MEMORY / 4];
    weight_grad((real*)memory, blockIdx.x, y, x, gw, sums, tickets, z);
}

// The first `blocks` compute the gradient of the input.
extern "C" __global__ void __launch_bounds__(256) conv_grads(
    const real* y, const real* x, const real* w, real* gx, real* gw, real* sums, unsigned int* tickets, long long blocks,
    geometry of_input, geometry of_weights) {
    __shared__ four memory[MEMORY / 4];
    if (blockIdx.x < blocks) input_grad((real*)memory, blockIdx.x, y, w, (const real*)0, gx, of_input);
    else weight_grad((real*)memory, blockIdx.x - blocks, y, x, gw, sums, tickets, of_weights);
}
""")


def _as_images(a: Any) -> Any:
    """(N, C, L) as images of one row."""
    return a[:, :, None] if a.ndim == 3 else a


def _pairs(how: dict[str, Any]) -> list[tuple[int, int]]:
    """Stride, padding and dilation of images, also where they are those of lines."""
    return [(fill, *how[name])[-2:] for name, fill in (("stride", 1), ("padding", 0), ("dilation", 1))]


class _Geometry(NamedTuple):
    """What `SOURCES` read of images, weights and results. largest: of what it computes with."""

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


def _launch(
    name: str, blocks: int, arrays: tuple, w: Any, how: dict[str, Any], tiles: Any, *geometries: _Geometry
) -> None:
    """Launch a kernel. tiles: rows of the tiles of images and weights, None where it has none."""
    whole, kind = ("int", np.int32) if max(g.largest for g in geometries) < _cuda.MOST_INT else ("long long", np.int64)
    ((sh, sw), padding, _), (kh, kw) = _pairs(how), _as_images(w).shape[2:]
    images, weights = [64 if rows is None else rows for rows in tiles]
    before = (
        f"typedef {whole} whole;\nenum {{ KH = {kh}, KW = {kw}, SH = {sh}, SW = {sw}, PADDED = {int(any(padding))} }};\n"
        f"enum {{ IMAGE_M = {images}, WEIGHT_M = {weights} }};\n"
    )
    structs = [_cuda.struct(g.numbers, kind) for g in geometries]
    _cuda.of_type(SOURCES[name], name, arrays[0].dtype, before)((blocks,), (256,), (*arrays, *structs))


def _in_row(b: Any) -> Any:
    """A bias whose elements are neighbours, or None."""
    return None if b is None else _backend.gpu().ascontiguousarray(b)


def _tiled(rows: int, columns: int, dtype: np.dtype) -> tuple[int, int]:
    """(Rows of a tile, tiles) for a product: as few tiles as possible; those of 16 rows in double precision have no room."""
    least = 32 if dtype == np.float64 else 16
    found = {m: -(-rows // m) * -(-columns // (CELLS // m)) for m in (64, 32, 16) if m >= least}
    m = min(found, key=found.__getitem__)
    return m, found[m]


def conv(x: Any, w: Any, b: Any = None, **how: Any) -> Any:
    """The convolution of images (N, C, H, W) or lines (N, C, L), with a bias of each channel."""
    sizes = output_sizes(x.shape[2:], w.shape[2:], how["stride"], how["padding"], how["dilation"])
    out, groups = empty_output(MEMORY, (x.shape[0], w.shape[0], *sizes), x.dtype, x, w), how["groups"]
    m, tiles = _tiled(w.shape[0] // groups, out.size // out.shape[1], x.dtype)
    _launch("conv", groups * tiles, (x, w, _in_row(b), out), w, how, (m, None), _geometry(x, w, out, how))
    return out


def conv_input_grad(y: Any, w: Any, b: Any = None, *, size: tuple[int, ...], **how: Any) -> Any:
    """The gradient of images of a spatial size; or a transposed convolution, with a bias of each channel."""
    out, m, blocks = _of_input(y, w, size, how)
    _launch("conv_input_grad", blocks, (y, w, _in_row(b), out), w, how, (m, None), _geometry(out, w, y, how))
    return out


def conv_weight_grad(y: Any, x: Any, *, kernel: tuple[int, ...], **how: Any) -> Any:
    """The gradient of weights whose kernels have a size."""
    like = np.broadcast_to(y.dtype.type(0), (y.shape[1], x.shape[1] // how["groups"], *kernel))
    out, sums, tickets, m, blocks, geometry = _of_weights(y, x, like, how)
    _launch("conv_weight_grad", blocks, (y, x, out, sums, tickets), like, how, (None, m), geometry)
    return out


def conv_grads(y: Any, x: Any, w: Any, **how: Any) -> tuple[Any, Any]:
    """The gradients of images x and of weights w, for that of the result, y."""
    gx, of_images, first = _of_input(y, w, x.shape[2:], how)
    gw, sums, tickets, of_weights, blocks, geometry = _of_weights(y, x, w, how)
    arrays, tiles = (y, x, w, gx, gw, sums, tickets, first), (of_images, of_weights)
    _launch("conv_grads", first + blocks, arrays, w, how, tiles, _geometry(gx, w, y, how), geometry)
    return gx, gw


def _of_input(y: Any, w: Any, size: tuple[int, ...], how: dict[str, Any]) -> tuple[Any, int, int]:
    """(Memory for the gradient of images of a size, rows of a tile, blocks that compute it)."""
    groups = how["groups"]
    out = empty_output(MEMORY, (y.shape[0], w.shape[1] * groups, *size), y.dtype, y, w)
    m, tiles = _tiled(w.shape[1], out.size // out.shape[1], y.dtype)
    return out, m, groups * tiles


def cut(w: tuple[int, ...], count: int, groups: int, dtype: np.dtype) -> tuple[int, int, int]:
    """(Rows of a tile, tiles, parts of the sum over `count` pixels) for the gradient of weights of a shape."""
    m, tiles = _tiled(w[0] // groups, math.prod(w[1:]), dtype)
    return m, groups * tiles, max(1, min(BLOCKS // (groups * tiles), count // SHORTEST))


def _of_weights(y: Any, x: Any, w: Any, how: dict[str, Any]) -> tuple[Any, Any, Any, int, int, _Geometry]:
    """(Memory for the gradient of weights, for the parts of its sums, their counters, rows of a tile, blocks, what is read)."""
    xp, count = MEMORY, y.size // y.shape[1]
    out = xp.empty(w.shape, y.dtype)
    m, tiles, parts = cut(w.shape, count, how["groups"], y.dtype)
    sums = xp.empty((parts, *out.shape), y.dtype) if parts > 1 else None
    geometry = _geometry(x, w, y, how, parts, -(-count // parts))
    return out, sums, capture_gpu.tickets() if parts > 1 else None, m, tiles * parts, geometry
