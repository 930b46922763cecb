"""Layer norm and batch norm on a GPU: a block for a row, or for a channel, in one launch forward and one or two backward."""

from __future__ import annotations

import math
from typing import Any

from tdt import _backend
from tdt._kernels import _cuda

ROWS = 1024  # rows that a thread adds up in sums over rows

OF_ROWS = r"""
extern "C" __global__ void __launch_bounds__(1024) layer_norm(
    const real* x, const real* w, const real* b, real* out, real* mean, real* rstd, long long rows, long long n, double eps,
    long long centred) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        const real* row = x + r * n;
        real sum = 0, squares = 0;
        if (centred) {
            for (long long k = threadIdx.x; k < n; k += blockDim.x) sum += row[k];
            sum = block_sum(sum) / (real)n;
        }
        for (long long k = threadIdx.x; k < n; k += blockDim.x) {
            const real value = row[k] - sum;
            squares += value * value;
        }
        const real scale = 1 / sqrt(block_sum(squares) / (real)n + (real)eps);
        for (long long k = threadIdx.x; k < n; k += blockDim.x) {
            real value = (row[k] - sum) * scale;
            if (w) value *= w[k];
            if (b) value += b[k];
            out[r * n + k] = value;
        }
        if (threadIdx.x == 0) mean[r] = sum, rstd[r] = scale;
    }
}

extern "C" __global__ void __launch_bounds__(1024) layer_norm_vjp(
    const real* g, const real* x, const real* w, const real* mean, const real* rstd, const real* g_mean, const real* g_rstd,
    real* gx, long long rows, long long n, long long centred) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        const real middle = mean[r], scale = rstd[r];
        real plain = 0, weighted = 0;
        for (long long k = threadIdx.x; k < n; k += blockDim.x) {
            const real slope = w ? g[r * n + k] * w[k] : g[r * n + k];
            plain += slope;
            weighted += slope * ((x[r * n + k] - middle) * scale);
        }
        plain = block_sum(plain);
        weighted = block_sum(weighted) * scale;
        if (g_rstd) weighted += g_rstd[r] * scale * scale;
        weighted /= (real)n;
        plain = centred ? (plain * scale - (g_mean ? g_mean[r] : (real)0)) / (real)n : (real)0;
        for (long long k = threadIdx.x; k < n; k += blockDim.x) {
            const real slope = w ? g[r * n + k] * w[k] : g[r * n + k];
            gx[r * n + k] = slope * scale - plain - (x[r * n + k] - middle) * scale * weighted;
        }
    }
}

// Sums over rows of g times the normalised x, and of g: a block for 32 columns and a part of the rows.
extern "C" __global__ void layer_norm_sums(const real* g, const real* x, const real* mean, const real* rstd, real* gw, real* gb,
                                           long long rows, long long n, long long each) {
    __shared__ real products[32][33], plain[32][33];
    for (long long first = blockIdx.x * 32ll; first < n; first += gridDim.x * 32ll) {
        const long long from = blockIdx.y * each, to = from + each < rows ? from + each : rows;
        for (int lane = threadIdx.x; lane < 32; lane += blockDim.x)
            for (int line = threadIdx.y; line < 32; line += blockDim.y) {
                real product = 0, sum = 0;
                if (first + lane < n)
                    for (long long r = from + line; r < to; r += 32) {
                        const real slope = g[r * n + first + lane];
                        product += slope * ((x[r * n + first + lane] - mean[r]) * rstd[r]);
                        sum += slope;
                    }
                products[line][lane] = product;
                plain[line][lane] = sum;
            }
        __syncthreads();
        if (threadIdx.y == 0)
            for (int lane = threadIdx.x; lane < 32; lane += blockDim.x) {
                if (first + lane >= n) break;
                real product = 0, sum = 0;
                for (int line = 0; line < 32; line++) product += products[line][lane], sum += plain[line][lane];
                gw[blockIdx.y * n + first + lane] = product;
                gb[blockIdx.y * n + first + lane] = sum;
            }
        __syncthreads();
    }
}
"""

OF_CHANNELS = r"""
// Element (n, c, l) of x lies at n * xn + c * xc + l * xl, and likewise of g; results lie as x.
#define EACH(body) \
    for (long long k = threadIdx.x; k < count; k += blockDim.x) { const long long n = k / length, l = k % length; body }

extern "C" __global__ void __launch_bounds__(1024) batch_norm(
    const real* x, const real* w, const real* b, real* out, real* mean, real* rstd, real* var, real* running_mean,
    real* running_var, long long channels, long long count, long long length, long long xn, long long xc, long long xl,
    double eps, double momentum) {
    for (long long c = blockIdx.x; c < channels; c += gridDim.x) {
        const real* from = x + c * xc;
        long_sum<real> values, deviations;
        EACH(values += from[n * xn + l * xl];)
        const real sum = block_sum(values.value()) / (real)count;
        EACH(const real value = from[n * xn + l * xl] - sum; deviations += value * value;)
        const real squares = block_sum(deviations.value());
        const real root = 1 / sqrt(squares / (real)count + (real)eps), scale = w ? root * w[c] : root;
        const real shift = b ? b[c] : (real)0;
        EACH(out[c * xc + n * xn + l * xl] = (from[n * xn + l * xl] - sum) * scale + shift;)
        if (threadIdx.x) continue;
        mean[c] = sum;
        rstd[c] = root;
        var[c] = squares * (real)(1.0 / (count - 1));
        if (running_mean) running_mean[c] = (real)((double)running_mean[c] * (1 - momentum) + (double)mean[c] * momentum);
        if (running_var) running_var[c] = (real)((double)running_var[c] * (1 - momentum) + (double)var[c] * momentum);
    }
}

extern "C" __global__ void __launch_bounds__(1024) batch_norm_vjp(
    const real* g, const real* x, const real* w, const real* mean, const real* rstd, const real* g_mean, const real* g_rstd,
    real* gx, real* gw, real* gb, long long channels, long long count, long long length, long long xn, long long xc,
    long long xl, long long gn, long long gc, long long gl) {
    for (long long c = blockIdx.x; c < channels; c += gridDim.x) {
        const real middle = mean[c], root = rstd[c], scale = w ? root * w[c] : root;
        long_sum<real> slopes, products;
        EACH(const real slope = g[c * gc + n * gn + l * gl];
             slopes += slope;
             products += slope * (x[c * xc + n * xn + l * xl] - middle);)
        const real plain = block_sum(slopes.value()), weighted = block_sum(products.value()) * root;
        if (threadIdx.x == 0) gw[c] = weighted, gb[c] = plain;
        real slope_of_x = (w ? weighted * w[c] : weighted) * root * root;
        if (g_rstd) slope_of_x += g_rstd[c] * root * root * root;
        slope_of_x /= (real)count;
        const real shift = (plain * scale - (g_mean ? g_mean[c] : (real)0)) / (real)count;
        EACH(const long long at = c * xc + n * xn + l * xl;
             gx[at] = g[c * gc + n * gn + l * gl] * scale - (x[at] - middle) * slope_of_x - shift;)
    }
}
"""


def layer_norm(
    x: Any, w: Any = None, b: Any = None, *, dims: int, eps: float, centred: bool = True
) -> tuple[Any, Any, Any]:
    """`x` (contiguous) normalised over its last `dims` dimensions; each row's mean, and 1 / its deviation."""
    xp, n = _backend.gpu(), math.prod(x.shape[x.ndim - dims :])
    rows, of_rows = x.size // n, (*x.shape[: x.ndim - dims], *(1,) * dims)
    out, mean, rstd = xp.empty_like(x), xp.empty(of_rows, x.dtype), xp.empty(of_rows, x.dtype)
    kernel = _cuda.of_type(OF_ROWS, "layer_norm", x.dtype)
    blocks, threads = min(rows, _cuda.MOST_BLOCKS), _cuda.threads_for(n)
    kernel((blocks,), (threads,), (x, w, b, out, mean, rstd, rows, n, float(eps), int(centred)))
    return out, mean, rstd


def layer_norm_vjp(g: Any, x: Any, w: Any, mean: Any, rstd: Any, g_mean: Any, g_rstd: Any, *, needs: tuple, dims: int,
                   centred: bool) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of x, w and b that are needed. g_mean, g_rstd: None where they have none."""
    xp, n = _backend.gpu(), math.prod(x.shape[x.ndim - dims :])
    rows = x.size // n
    gx = gw = gb = None
    if needs[0]:
        gx = xp.empty_like(x)
        kernel = _cuda.of_type(OF_ROWS, "layer_norm_vjp", x.dtype)
        arrays = g, x, w, mean, rstd, g_mean, g_rstd, gx
        kernel((min(rows, _cuda.MOST_BLOCKS),), (_cuda.threads_for(n),), (*arrays, rows, n, int(centred)))
    if needs[1] or needs[2]:
        parts = min(-(-rows // ROWS), 1024)
        each = -(-rows // parts)
        shape = x.shape[x.ndim - dims :]  # a leaf adopts these arrays, where it would copy views
        gw, gb = (xp.empty(shape if parts == 1 else (parts, *shape), x.dtype) for _ in range(2))
        kernel = _cuda.of_type(OF_ROWS, "layer_norm_sums", x.dtype)
        kernel((-(-n // 32), parts), (32, 8), (g, x, mean, rstd, gw, gb, rows, n, each))
        if parts > 1:
            gw, gb = gw.sum(axis=0), gb.sum(axis=0)
    return gx, gw if needs[1] else None, gb if needs[2] else None


def _steps(x: Any) -> tuple[int, int, int]:
    """How many elements lie between samples, channels and places of dense (N, C, *)."""
    n, c, *rest = (s // x.itemsize for s in x.strides)
    return n, c, min(rest, default=0)


def batch_norm(x: Any, w: Any = None, b: Any = None, *, eps: float, running: tuple = (None, None),
               momentum: float = 0.0) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """`x` (N, C, *), contiguous or channels-last, normalised by the statistics of its channels: mean, 1 / √(variance + eps)
    and the unbiased variance. running: mean and variance that move towards these by `momentum`."""
    xp, channels = _backend.gpu(), x.shape[1]
    count, length = x.size // channels, math.prod(x.shape[2:])
    out = xp.empty_like(x)
    mean, rstd, var = (xp.empty(channels, x.dtype) for _ in range(3))
    kernel = _cuda.of_type(OF_CHANNELS, "batch_norm", x.dtype)
    sizes = channels, count, length, *_steps(x), float(eps), float(momentum)
    kernel((channels,), (_cuda.threads_for(count),), (x, w, b, out, mean, rstd, var, *running, *sizes))
    return out, mean, rstd, var


def batch_norm_vjp(g: Any, x: Any, w: Any, mean: Any, rstd: Any, g_mean: Any, g_rstd: Any) -> tuple[Any, Any, Any]:
    """The gradients of x, w and b. g_mean, g_rstd: None where they have none."""
    xp, channels = _backend.gpu(), x.shape[1]
    count, length = x.size // channels, math.prod(x.shape[2:])
    gx, gw, gb = xp.empty_like(x), xp.empty(channels, x.dtype), xp.empty(channels, x.dtype)
    kernel = _cuda.of_type(OF_CHANNELS, "batch_norm_vjp", x.dtype)
    arrays = g, x, w, mean, rstd, g_mean, g_rstd, gx, gw, gb
    kernel((channels,), (_cuda.threads_for(count),), (*arrays, channels, count, length, *_steps(x), *_steps(g)))
    return gx, gw, gb
