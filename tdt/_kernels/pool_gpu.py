"""Max pooling of images on a GPU: one launch forward, one backward, without atomic sums."""

from __future__ import annotations

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
"""


def _sizes(x: Any, out: tuple[int, ...], how: dict[str, Any]) -> Any:
    numbers = *x.shape[1:], *out, *how["kernel"], *how["stride"], *how["padding"], *how["dilation"]
    return _cuda.struct("sizes", numbers)


def _steps(a: Any) -> Any:
    return _cuda.struct("steps", [s // a.itemsize for s in a.strides])


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
