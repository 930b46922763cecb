"""Layer norm and batch norm on a GPU: a block for a row, or for a channel, in one launch each way."""

from __future__ import annotations

import math
from typing import Any

from tdt import _backend
from tdt._kernels import _cuda, capture_gpu

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

// The gradient of x, row by row.
__device__ void slopes(long long block, long long blocks, const real* g, const real* x, const real* w, const real* mean,
                       const real* rstd, const real* g_mean, const real* g_rstd, real* gx, long long rows, long long n,
                       long long centred) {
    for (long long r = block; r < rows; r += blocks) {
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

// Sums over rows of g times the normalised x, and of g: a block for 32 columns and a part of the rows. The last block of a
// column adds the parts.
__device__ void sums(long long block, const real* g, const real* x, const real* mean, const real* rstd, real* gw, real* gb,
                     real* parts, unsigned int* tickets, long long rows, long long n, long long count, long long each) {
    __shared__ real products[32][33], plain[32][33];
    const long long first = block / count * 32, part = block % count;
    const long long from = part * each, to = from + each < rows ? from + each : rows;
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) {
        const int lane = k % 32, line = k / 32;
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
    real* here = count > 1 ? parts + part * 2 * n : (real*)0;
    for (int lane = threadIdx.x; lane < 32 && first + lane < n; lane += blockDim.x) {
        real product = 0, sum = 0;
        for (int line = 0; line < 32; line++) product += products[line][lane], sum += plain[line][lane];
        (here ? here : gw)[first + lane] = product;
        (here ? here + n : gb)[first + lane] = sum;
    }
    if (!here || !is_last_of(tickets + block / count, (unsigned int)count)) return;
    for (int lane = threadIdx.x; lane < 32 && first + lane < n; lane += blockDim.x) {
        real product = 0, sum = 0;
        for (long long p = 0; p < count; p++) {
            const volatile real* of_part = parts + p * 2 * n + first + lane;
            product += of_part[0];
            sum += of_part[n];
        }
        gw[first + lane] = product;
        gb[first + lane] = sum;
    }
}

// The first `blocks` compute the gradient of x, the others those of the weights.
extern "C" __global__ void __launch_bounds__(1024) layer_norm_vjp(
    const real* g, const real* x, const real* w, const real* mean, const real* rstd, const real* g_mean, const real* g_rstd,
    real* gx, real* gw, real* gb, real* parts, unsigned int* tickets, long long blocks, long long rows, long long n,
    long long centred, long long count, long long each) {
    if (blockIdx.x < blocks) slopes(blockIdx.x, blocks, g, x, w, mean, rstd, g_mean, g_rstd, gx, rows, n, centred);
    else sums(blockIdx.x - blocks, g, x, mean, rstd, gw, gb, parts, tickets, rows, n, count, each);
}
"""

OF_CHANNELS = r"""
// Element (n, c, l) of x lies at n * xn + c * xc + l * xl, and likewise of g; results lie as x.
#define EACH(body) \
    for (long long k = threadIdx.x; k < count; k += blockDim.x) { const long long n = k / length, l = k % length; body }

extern "C" __global__ void __launch_bounds__(1024) batch_norm(
    const real* x, const real* w, const real* b, real* out, real* mean, real* rstd, real* var, real* running_mean,
    real* running_var, long long* batches, long long channels, long long count, long long length, long long xn, long long xc,
    long long xl, double eps, double momentum) {
    if (batches && blockIdx.x == 0 && threadIdx.x == 0) ++*batches;
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
    xp, shape = _backend.gpu(), x.shape[x.ndim - dims :]
    n = math.prod(shape)
    rows = x.size // n
    gx = gw = gb = memory = None
    blocks = columns = parts = 0
    if needs[0]:
        gx, blocks = xp.empty_like(x), min(rows, _cuda.MOST_BLOCKS)
    if needs[1] or needs[2]:
        gw, gb = xp.empty(shape, x.dtype), xp.empty(shape, x.dtype)
        columns = -(-n // 32)
        parts = min(-(-rows // ROWS), 1024) if columns <= capture_gpu.TICKETS else 1
    if parts > 1:
        memory = xp.empty((parts, 2, n), x.dtype), capture_gpu.tickets()
    arrays = g, x, w, mean, rstd, g_mean, g_rstd, gx, gw, gb, *(memory or (None, None))
    threads = _cuda.threads_for(max(n, 128) if columns else n)
    numbers = blocks, rows, n, int(centred), parts, -(-rows // max(parts, 1))
    _cuda.of_type(OF_ROWS, "layer_norm_vjp", x.dtype)((blocks + columns * parts,), (threads,), (*arrays, *numbers))
    return gx, gw if needs[1] else None, gb if needs[2] else None


def _steps(x: Any) -> tuple[int, int, int]:
    """How many elements lie between samples, channels and places of dense (N, C, *)."""
    n, c, *rest = (s // x.itemsize for s in x.strides)
    # A dimension of one place may have any step, such as 0 where it was inserted.
    return n, c, min((step for step, size in zip(rest, x.shape[2:], strict=True) if size != 1), default=0)


def batch_norm(x: Any, w: Any = None, b: Any = None, *, eps: float, running: tuple = (None, None), batches: Any = None,
               momentum: float = 0.0) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """`x` (N, C, *), contiguous or channels-last, normalised by the statistics of its channels: mean, 1 / √(variance + eps)
    and the unbiased variance. running: mean and variance that move towards these by `momentum`.
    batches: their number, an int64, to which 1 is added."""
    xp, channels = _backend.gpu(), x.shape[1]
    count, length = x.size // channels, math.prod(x.shape[2:])
    out = xp.empty_like(x)
    mean, rstd, var = (xp.empty(channels, x.dtype) for _ in range(3))
    kernel = _cuda.of_type(OF_CHANNELS, "batch_norm", x.dtype)
    sizes = channels, count, length, *_steps(x), float(eps), float(momentum)
    kernel((channels,), (_cuda.threads_for(count),), (x, w, b, out, mean, rstd, var, *running, batches, *sizes))
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
