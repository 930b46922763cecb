"""Maximum and mean of windows of images on a GPU: one launch forward, one backward, without atomic sums."""

from __future__ import annotations

import math
from typing import Any

from tdt import _backend
from tdt._backend.layout import empty_output
from tdt._backend.windows import output_sizes
from tdt._kernels import _cuda

SOURCE = r"""
struct sizes {  // of (N, C, H, W), of the result's (H, W), and of windows
    long long channels, height, width, rows, columns, kh, kw, sh, sw, ph, pw, dh, dw;
};
struct steps { long long n, c, h, w; };

__device__ __forceinline__ steps place_of(long long i, long long channels, long long height, long long width) {
    return {i / (width * height * channels), i / (width * height) % channels, i / width % height, i % width};
}
__device__ __forceinline__ long long at(const steps& s, long long n, long long c, long long h, long long w) {
    return n * s.n + c * s.c + h * s.h + w * s.w;
}

// The largest cell of a window, or the last NaN; and which cell that is.
__device__ real largest(const real* x, const steps& s, const sizes& z, long long n, long long c, long long row, long long column,
                        long long& winner) {
    real top = 0;
    winner = -1;
    for (long long i = 0; i < z.kh; i++)
        for (long long j = 0; j < z.kw; j++) {
            const long long h = row * z.sh - z.ph + i * z.dh, w = column * z.sw - z.pw + j * z.dw;
            if (h < 0 || h >= z.height || w < 0 || w >= z.width) continue;
            const real value = x[at(s, n, c, h, w)];
            if (winner < 0 || value > top || value != value) top = value, winner = h * z.width + w;
        }
    return top;
}

extern "C" __global__ void max_pool(const real* x, real* out, long long count, sizes z, steps from, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of(i, z.channels, z.rows, z.columns);
        long long winner;
        out[at(to, o.n, o.c, o.h, o.w)] = largest(x, from, z, o.n, o.c, o.h, o.w, winner);
    }
}

// Each cell adds up the gradients of the windows in which it is the largest.
extern "C" __global__ void max_pool_vjp(const real* g, const real* x, real* gx, long long count, sizes z, steps of_g,
                                        steps from) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of(i, z.channels, z.height, z.width);
        real sum = 0;
        for (long long p = 0; p < z.kh; p++) {
            const long long down = o.h + z.ph - p * z.dh;
            if (down < 0 || down % z.sh || down / z.sh >= z.rows) continue;
            for (long long q = 0; q < z.kw; q++) {
                const long long right = o.w + z.pw - q * z.dw;
                if (right < 0 || right % z.sw || right / z.sw >= z.columns) continue;
                long long winner;
                largest(x, from, z, o.n, o.c, down / z.sh, right / z.sw, winner);
                if (winner == o.h * z.width + o.w) sum += g[at(of_g, o.n, o.c, down / z.sh, right / z.sw)];
            }
        }
        gx[at(from, o.n, o.c, o.h, o.w)] = sum;
    }
}

// What the sum of a window is divided by: `divisor`, or the number of its cells, with those of the padding or without.
__device__ real cells_of(const sizes& z, long long row, long long column, long long padding, long long divisor) {
    if (divisor) return (real)divisor;
    long long top = row * z.sh - z.ph, left = column * z.sw - z.pw;
    long long bottom = min(top + z.kh, z.height + z.ph), right = min(left + z.kw, z.width + z.pw);
    if (!padding) {
        top = max(top, 0ll), left = max(left, 0ll);
        bottom = min(bottom, z.height), right = min(right, z.width);
    }
    return (real)((bottom - top) * (right - left));
}

// A block for each window: its threads share the cells.
extern "C" __global__ void __launch_bounds__(1024) mean_pool(const real* x, real* out, long long count, long long padding,
                                                             long long divisor, sizes z, steps from, steps to) {
    for (long long i = blockIdx.x; i < count; i += gridDim.x) {
        const steps o = place_of(i, z.channels, z.rows, z.columns);
        long_sum<real> sum;
        for (long long k = threadIdx.x; k < z.kh * z.kw; k += blockDim.x) {
            const long long h = o.h * z.sh - z.ph + k / z.kw, w = o.w * z.sw - z.pw + k % z.kw;
            if (h >= 0 && h < z.height && w >= 0 && w < z.width) sum += x[at(from, o.n, o.c, h, w)];
        }
        const real total = block_sum(sum.value());
        if (threadIdx.x == 0) out[at(to, o.n, o.c, o.h, o.w)] = total / cells_of(z, o.h, o.w, padding, divisor);
    }
}

// A thread for each window: it adds columns, then their sums, as the CPU does.
extern "C" __global__ void mean_pool_small(const real* x, real* out, long long count, long long padding, long long divisor,
                                           sizes z, steps from, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of(i, z.channels, z.rows, z.columns);
        real sum = 0;
        for (long long q = 0; q < z.kw; q++) {
            const long long w = o.w * z.sw - z.pw + q;
            real column = 0;
            for (long long p = 0; p < z.kh; p++) {
                const long long h = o.h * z.sh - z.ph + p;
                if (h >= 0 && h < z.height && w >= 0 && w < z.width) column += x[at(from, o.n, o.c, h, w)];
            }
            sum += column;
        }
        out[at(to, o.n, o.c, o.h, o.w)] = sum / cells_of(z, o.h, o.w, padding, divisor);
    }
}

extern "C" __global__ void mean_pool_vjp(const real* g, real* gx, long long count, long long padding, long long divisor,
                                         sizes z, steps of_g, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of(i, z.channels, z.height, z.width);
        const long long down = o.h + z.ph, right = o.w + z.pw;  // windows from (down - kh) / s + 1 to down / s have the cell
        const long long first = down < z.kh ? 0 : (down - z.kh) / z.sh + 1, left = right < z.kw ? 0 : (right - z.kw) / z.sw + 1;
        real sum = 0;
        for (long long p = first; p <= down / z.sh && p < z.rows; p++)
            for (long long q = left; q <= right / z.sw && q < z.columns; q++)
                sum += g[at(of_g, o.n, o.c, p, q)] / cells_of(z, p, q, padding, divisor);
        gx[at(to, o.n, o.c, o.h, o.w)] = sum;
    }
}
"""
FEW = 32  # cells of a window that a thread adds up alone


def _sizes(x: Any, out: tuple[int, ...], how: dict[str, Any]) -> Any:
    numbers = *x.shape[1:], *out, *how["kernel"], *how["stride"], *how["padding"], *how.get("dilation", (1, 1))
    return _cuda.struct(numbers)


def _steps(a: Any) -> Any:
    return _cuda.struct([s // a.itemsize for s in a.strides])


def max_pool(x: Any, *, ceil_mode: bool, **how: Any) -> Any:
    """The largest cell of each window of images (N, C, H, W); NaN where one is NaN."""
    out = output_sizes(x.shape[2:], how["kernel"], how["stride"], how["padding"], how["dilation"], ceil_mode)
    result = empty_output(_backend.gpu(), (*x.shape[:2], *out), x.dtype, x)
    kernel = _cuda.of_type(SOURCE, "max_pool", x.dtype)
    sizes = result.size, _sizes(x, out, how), _steps(x), _steps(result)
    kernel((_cuda.blocks_for(result.size),), (_cuda.THREADS,), (x, result, *sizes))
    return result


def max_pool_vjp(g: Any, out: Any, x: Any, *, ceil_mode: bool, **how: Any) -> Any:
    """The gradient of x: of each window's first largest cell, or of its last NaN."""
    gx = _backend.gpu().empty_like(x)
    kernel = _cuda.of_type(SOURCE, "max_pool_vjp", x.dtype)
    sizes = x.size, _sizes(x, out.shape[2:], how), _steps(g), _steps(x)
    kernel((_cuda.blocks_for(x.size),), (_cuda.THREADS,), (g, x, gx, *sizes))
    return gx


def mean_pool(x: Any, out: tuple[int, ...], include_pad: bool, divisor: int | None, **how: Any) -> Any:
    """The mean of each window of images (N, C, H, W). out: how many windows there are each way."""
    result = empty_output(_backend.gpu(), (*x.shape[:2], *out), x.dtype, x)
    cells = math.prod(how["kernel"])
    few = cells <= FEW
    kernel = _cuda.of_type(SOURCE, "mean_pool_small" if few else "mean_pool", x.dtype)
    blocks, threads = (_cuda.blocks_for(result.size), _cuda.THREADS) if few else (
        min(result.size, _cuda.MOST_BLOCKS), min(_cuda.threads_for(cells), _cuda.THREADS)
    )  # fmt: skip
    numbers = result.size, int(include_pad), divisor or 0, _sizes(x, out, how), _steps(x), _steps(result)
    kernel((blocks,), (threads,), (x, result, *numbers))
    return result


def mean_pool_vjp(g: Any, size: tuple[int, ...], include_pad: bool, divisor: int | None, **how: Any) -> Any:
    """The gradient of images of a size."""
    gx = empty_output(_backend.gpu(), (*g.shape[:2], *size), g.dtype, g)
    kernel = _cuda.of_type(SOURCE, "mean_pool_vjp", g.dtype)
    numbers = gx.size, int(include_pad), divisor or 0, _sizes(gx, g.shape[2:], how), _steps(g), _steps(gx)
    kernel((_cuda.blocks_for(gx.size),), (_cuda.THREADS,), (g, gx, *numbers))
    return gx
