"""Layer norm and batch norm on a GPU: a block for a row, or for a channel, in one launch each way.

Of a channel of more than `PART` values each block has a part: a launch finds the sums, in which the block of a channel that ends
last joins its parts in order, and a second one uses them. So does a convolution's bias get its gradient, in one launch. For
channels-last images these launches are of `norm_last_gpu`. Statistics and parameters of arrays in half precision are float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdt._backend.layout import to_last
from tdt._kernels import _cuda, capture_gpu, norm_last_gpu
from tdt._kernels.programs_gpu import MEMORY

ROWS = 128  # of which a block adds up 32 columns, in sums over rows
PART = 8192  # values of a channel: a block goes over so many

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
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) {
        const int lane = k % 32, line = k / 32;
        real product = 0, sum = 0;
        if (first + lane < n)
            for (long long p = line; p < count; p += 32) {
                const volatile real* of_part = parts + p * 2 * n + first + lane;
                product += of_part[0];
                sum += of_part[n];
            }
        products[line][lane] = product;
        plain[line][lane] = sum;
    }
    __syncthreads();
    for (int lane = threadIdx.x; lane < 32 && first + lane < n; lane += blockDim.x) {
        real product = 0, sum = 0;
        for (int line = 0; line < 32; line++) product += products[line][lane], sum += plain[line][lane];
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

OF_CHANNELS = (
    f"enum {{ PART = {PART} }};\n"
    + r"""
// Memory of x, of g and of what lies as they do holds `stored`, which may have half the precision.
// Element (n, c, l) of x lies at n * x.n + c * x.c + l * x.l, and likewise of g; results lie as x.
struct steps { long long n, c, l; };
struct sizes { long long channels, count, length, parts; };  // count: values of a channel; parts: blocks for each

// The values of a channel that a thread of a block has, from `from` on: where they lie in x and in g, without a division each.
#define EACH(from, to, body) \
    for (long long k = (from) + threadIdx.x, l = k % z.length, at = k / z.length * x_at.n + l * x_at.l, \
                   of_g = k / z.length * g_at.n + l * g_at.l, across = blockDim.x / z.length, along = blockDim.x % z.length; \
         k < (to); k += blockDim.x) { \
        body \
        l += along; \
        at += across * x_at.n + along * x_at.l; \
        of_g += across * g_at.n + along * g_at.l; \
        if (l >= z.length) { \
            l -= z.length; \
            at += x_at.n - z.length * x_at.l; \
            of_g += g_at.n - z.length * g_at.l; \
        } \
    }
#define EACH_VALUE(body) EACH(0, z.count, body)
// Blocks of the same part are neighbours: in channels-last memory they read the same lines.
#define EACH_OF_PART(body) EACH(part * PART, min((part + 1) * (long long)PART, z.count), body)

struct statistics {
    real *mean, *rstd, *var, *running_mean, *running_var;
    long long* batches;
    __device__ void put(long long c, real sum, real squares, real root, long long count, double momentum) const {
        mean[c] = sum;
        rstd[c] = root;
        var[c] = squares * (real)(1.0 / (count - 1));
        if (running_mean) running_mean[c] = (real)((double)running_mean[c] * (1 - momentum) + (double)mean[c] * momentum);
        if (running_var) running_var[c] = (real)((double)running_var[c] * (1 - momentum) + (double)var[c] * momentum);
    }
    __device__ void put_joined(long long c, double sum, double squares, long long count, double eps, double momentum) const {
        const real root = 1 / sqrt((real)(squares / (double)count) + (real)eps);
        put(c, (real)sum, (real)squares, root, count, momentum);
        if (batches && c == 0) ++*batches;
    }
};

// What the blocks of a channel have found of its parts, two numbers each; `threads` of one block join them.
struct found_in_parts {
    const volatile real* all;
    long long count, parts;
    int threads;
    __device__ double size(long long p) const { return (double)min(count - p * PART, (long long)PART); }
    // Of mean and squared deviations (T. Chan, G. Golub, R. LeVeque, 1979): the thread's share of the values' sum, and, with
    // their mean, of the squared deviations.
    __device__ double sum(int thread) const {
        double total = 0;
        for (long long p = thread; p < parts; p += threads) total += (double)all[2 * p] * size(p);
        return total;
    }
    __device__ double deviations(int thread, double mean) const {
        double total = 0;
        for (long long p = thread; p < parts; p += threads) {
            const double apart = all[2 * p] - mean;
            total += all[2 * p + 1] + apart * apart * size(p);
        }
        return total;
    }
    // Of two sums: the thread's share of the first ones, k = 0, or the second ones.
    __device__ double sums(int thread, int k) const {
        double total = 0;
        for (long long p = thread; p < parts; p += threads) total += all[2 * p + k];
        return total;
    }
};

extern "C" __global__ void __launch_bounds__(1024) batch_norm(
    const stored* x, const real* w, const real* b, stored* out, real* mean, real* rstd, real* var, real* running_mean,
    real* running_var, long long* batches, sizes z, steps x_at, double eps, double momentum) {
    const statistics found = {mean, rstd, var, running_mean, running_var, batches};
    const steps g_at = {0, 0, 0};
    if (batches && blockIdx.x == 0 && threadIdx.x == 0) ++*batches;
    for (long long c = blockIdx.x; c < z.channels; c += gridDim.x) {
        const stored* from = x + c * x_at.c;
        long_sum<real> values, deviations;
        EACH_VALUE(values += load(from[at]);)
        const real sum = block_sum(values.value()) / (real)z.count;
        EACH_VALUE(const real value = load(from[at]) - sum; deviations += value * value;)
        const real squares = block_sum(deviations.value());
        const real root = 1 / sqrt(squares / (real)z.count + (real)eps), scale = w ? root * w[c] : root;
        const real shift = b ? b[c] : (real)0;
        EACH_VALUE(store(out + c * x_at.c + at, (load(from[at]) - sum) * scale + shift);)
        if (threadIdx.x == 0) found.put(c, sum, squares, root, z.count, momentum);
    }
}

// Mean and squared deviations of each part of the channels from `first` on; the last block of a channel joins them.
extern "C" __global__ void __launch_bounds__(1024) batch_statistics(
    const stored* x, real* mean, real* rstd, real* var, real* running_mean, real* running_var, long long* batches, real* parts,
    unsigned int* tickets, sizes z, steps x_at, double eps, double momentum, long long first) {
    const long long here = gridDim.x / z.parts, part = blockIdx.x / here, c = first + blockIdx.x % here;
    const long long size = min(z.count - part * PART, (long long)PART);
    const stored* from = x + c * x_at.c;
    real* own = parts + c * z.parts * 2;
    const steps g_at = {0, 0, 0};
    long_sum<real> values, around;
    EACH_OF_PART(values += load(from[at]);)
    const real sum = block_sum(values.value()) / (real)size;
    EACH_OF_PART(const real value = load(from[at]) - sum; around += value * value;)
    const real squares = block_sum(around.value());
    if (threadIdx.x == 0) own[2 * part] = sum, own[2 * part + 1] = squares;
    if (!is_last_of(tickets + c - first, (unsigned int)z.parts)) return;
    const found_in_parts all = {own, z.count, z.parts, (int)blockDim.x};
    const double total = block_sum(all.sum(threadIdx.x)) / (double)z.count;
    const double deviations = block_sum(all.deviations(threadIdx.x, total));
    const statistics found = {mean, rstd, var, running_mean, running_var, batches};
    if (threadIdx.x == 0) found.put_joined(c, total, deviations, z.count, eps, momentum);
}

extern "C" __global__ void __launch_bounds__(1024) batch_normalised(
    const stored* x, const real* w, const real* b, stored* out, const real* mean, const real* rstd, sizes z, steps x_at) {
    const long long part = blockIdx.x / z.channels, c = blockIdx.x % z.channels;
    const real sum = mean[c], scale = w ? rstd[c] * w[c] : rstd[c], shift = b ? b[c] : (real)0;
    const steps g_at = {0, 0, 0};
    EACH_OF_PART(store(out + c * x_at.c + at, (load(x[c * x_at.c + at]) - sum) * scale + shift);)
}

// The gradient of x at a value of a channel, of whose gradients the sum and the weighted sum are known.
struct slope_of {
    real scale, middle, slope, shift;
    __device__ slope_of(long long c, const real* w, const real* mean, const real* rstd, real weighted, real plain,
                        const real* g_mean, const real* g_rstd, long long count) {
        const real root = rstd[c];
        scale = w ? root * w[c] : root;
        middle = mean[c];
        slope = (w ? weighted * w[c] : weighted) * root * root;
        if (g_rstd) slope += g_rstd[c] * root * root * root;
        slope /= (real)count;
        shift = (plain * scale - (g_mean ? g_mean[c] : (real)0)) / (real)count;
    }
    __device__ real operator()(real g, real x) const { return g * scale - (x - middle) * slope - shift; }
};

extern "C" __global__ void __launch_bounds__(1024) batch_norm_vjp(
    const stored* g, const stored* x, const real* w, const real* mean, const real* rstd, const real* g_mean, const real* g_rstd,
    stored* gx, real* gw, real* gb, sizes z, steps x_at, steps g_at) {
    for (long long c = blockIdx.x; c < z.channels; c += gridDim.x) {
        const stored *from = x + c * x_at.c, *grads = g + c * g_at.c;
        const real middle = mean[c];
        long_sum<real> slopes, products;
        EACH_VALUE(const real slope = load(grads[of_g]); slopes += slope; products += slope * (load(from[at]) - middle);)
        const real plain = block_sum(slopes.value()), weighted = block_sum(products.value()) * rstd[c];
        if (threadIdx.x == 0) gw[c] = weighted, gb[c] = plain;
        const slope_of slope(c, w, mean, rstd, weighted, plain, g_mean, g_rstd, z.count);
        EACH_VALUE(store(gx + c * x_at.c + at, slope(load(grads[of_g]), load(from[at])));)
    }
}

// Sums of the gradients of each channel, and of their products with the normalised x: by parts, as `batch_statistics`.
extern "C" __global__ void __launch_bounds__(1024) batch_norm_sums(
    const stored* g, const stored* x, const real* mean, const real* rstd, real* gw, real* gb, real* parts, unsigned int* tickets,
    sizes z, steps x_at, steps g_at, long long first) {
    const long long here = gridDim.x / z.parts, part = blockIdx.x / here, c = first + blockIdx.x % here;
    const stored *from = x + c * x_at.c, *grads = g + c * g_at.c;
    const real middle = mean[c];
    real* own = parts + c * z.parts * 2;
    long_sum<real> slopes, products;
    EACH_OF_PART(const real slope = load(grads[of_g]); slopes += slope; products += slope * (load(from[at]) - middle);)
    const real of_slopes = block_sum(slopes.value()), of_products = block_sum(products.value());
    if (threadIdx.x == 0) own[2 * part] = of_slopes, own[2 * part + 1] = of_products;
    if (!is_last_of(tickets + c - first, (unsigned int)z.parts)) return;
    const found_in_parts all = {own, z.count, z.parts, (int)blockDim.x};
    const double plain = block_sum(all.sums(threadIdx.x, 0)), weighted = block_sum(all.sums(threadIdx.x, 1));
    if (threadIdx.x == 0) gw[c] = (real)weighted * rstd[c], gb[c] = (real)plain;
}

extern "C" __global__ void __launch_bounds__(1024) batch_norm_slopes(
    const stored* g, const stored* x, const real* w, const real* mean, const real* rstd, const real* g_mean, const real* g_rstd,
    stored* gx, const real* gw, const real* gb, sizes z, steps x_at, steps g_at) {
    const long long part = blockIdx.x / z.channels, c = blockIdx.x % z.channels;
    const slope_of slope(c, w, mean, rstd, gw[c], gb[c], g_mean, g_rstd, z.count);
    EACH_OF_PART(store(gx + c * x_at.c + at, slope(load(g[c * g_at.c + of_g]), load(x[c * x_at.c + at])));)
}
"""
)

OF_COLUMNS = OF_CHANNELS + norm_last_gpu.SOURCE

# Sums over all dimensions but the channels, in float32 or float64; memory holds `stored`.
SUMS = (
    OF_CHANNELS[: OF_CHANNELS.index("struct statistics")]
    + r"""
extern "C" __global__ void __launch_bounds__(1024) channel_sums(const stored* g, real* out, real* parts, unsigned int* tickets,
                                                                sizes z, steps g_at, long long first) {
    const long long here = gridDim.x / z.parts, part = blockIdx.x / here, c = first + blockIdx.x % here;
    const stored* grads = g + c * g_at.c;
    real* own = parts + c * z.parts;
    const steps x_at = {0, 0, 0};
    long_sum<real> values;
    EACH_OF_PART(values += load(grads[of_g]);)
    const real sum = block_sum(values.value());
    if (threadIdx.x == 0) (z.parts > 1 ? own[part] : out[c]) = sum;
    if (z.parts == 1 || !is_last_of(tickets + c - first, (unsigned int)z.parts)) return;
    double total = 0;
    for (long long p = threadIdx.x; p < z.parts; p += blockDim.x) total += ((const volatile real*)own)[p];
    total = block_sum(total);
    if (threadIdx.x == 0) out[c] = (real)total;
}
"""
)


def layer_norm(
    x: Any, w: Any = None, b: Any = None, *, dims: int, eps: float, centred: bool = True
) -> tuple[Any, Any, Any]:
    """`x` (contiguous) normalised over its last `dims` dimensions; each row's mean, and 1 / its deviation."""
    xp, n = MEMORY, math.prod(x.shape[x.ndim - dims :])
    rows, of_rows = x.size // n, (*x.shape[: x.ndim - dims], *(1,) * dims)
    out, mean, rstd = xp.empty_like(x), xp.empty(of_rows, x.dtype), xp.empty(of_rows, x.dtype)
    kernel = _cuda.of_type(OF_ROWS, "layer_norm", x.dtype)
    blocks, threads = min(rows, _cuda.MOST_BLOCKS), _cuda.threads_for(n)
    kernel((blocks,), (threads,), (x, w, b, out, mean, rstd, rows, n, float(eps), int(centred)))
    return out, mean, rstd


def layer_norm_vjp(g: Any, x: Any, w: Any, mean: Any, rstd: Any, g_mean: Any, g_rstd: Any, *, needs: tuple, dims: int,
                   centred: bool) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of x, w and b that are needed. g_mean, g_rstd: None where they have none."""
    xp, shape = MEMORY, x.shape[x.ndim - dims :]
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


class _Channels(NamedTuple):
    """How the channels of dense (N, C, *) are gone over: blocks for each, threads of a block, sizes as kernels take them."""

    channels: int
    parts: int
    threads: int
    sizes: Any

    def by_part(self, kernel: Callable[..., None], arrays: tuple, numbers: tuple, columns: int = 1) -> None:
        """Launch a kernel whose blocks, each of some channels, join the parts of as many as there are tickets for."""
        of_part = -(-self.channels // columns)
        for first in range(0, of_part, capture_gpu.TICKETS):
            blocks = min(of_part - first, capture_gpu.TICKETS) * self.parts
            kernel((blocks,), (self.threads,), (*arrays, capture_gpu.tickets(), self.sizes, *numbers, first))

    def columns(self, *arrays: Any) -> int:
        """Channels that a block has of arrays of many values a channel."""
        last = self.channels >= norm_last_gpu.FEWEST and all(to_last(a).flags.c_contiguous for a in arrays)
        return norm_last_gpu.COLUMNS if last else 1


@functools.lru_cache(_cuda.MOST_STRUCTS)
def _channels(shape: tuple[int, ...]) -> _Channels:
    count = math.prod(shape) // shape[1]
    parts = -(-count // PART)
    sizes = _cuda.struct((shape[1], count, math.prod(shape[2:]), parts))
    return _Channels(shape[1], parts, _cuda.threads_for(min(count, PART)), sizes)


@functools.lru_cache(_cuda.MOST_STRUCTS)
def _steps(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Any:
    """How many elements lie between samples, channels and places of dense (N, C, *)."""
    n, c, *rest = (s // itemsize for s in strides)
    # A dimension of one place may have any step, such as 0 where it was inserted.
    return _cuda.struct((n, c, min((step for step, size in zip(rest, shape[2:], strict=True) if size != 1), default=0)))


def steps_of(a: Any) -> Any:
    """`_steps` of an array."""
    return _steps(a.shape, a.strides, a.itemsize)


def _kernel(name: str, dtype: Any, columns: int) -> Callable[..., None]:
    """A kernel whose blocks have so many channels."""
    return (
        channel_kernel(OF_CHANNELS, name, dtype) if columns == 1 else channel_kernel(OF_COLUMNS, f"{name}_last", dtype)
    )


def wide(dtype: Any) -> Any:
    """The type of statistics and parameters: float32, or float64 for arrays of that."""
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def channel_kernel(source: str, name: str, dtype: Any) -> Callable[..., None]:
    """A kernel of arrays that hold `dtype`, which computes in `wide` of that."""
    return _cuda.of_type(source, name, wide(dtype), f"typedef {_cuda.STORED[_cuda.LETTERS[dtype]]} stored;\n")


def batch_norm(x: Any, w: Any = None, b: Any = None, *, eps: float, running: tuple = (None, None), batches: Any = None,
               momentum: float = 0.0) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """`x` (N, C, *), contiguous or channels-last, normalised by the statistics of its channels: mean, 1 / √(variance + eps)
    and the unbiased variance. running: mean and variance that move towards these by `momentum`.
    batches: their number, an int64, to which 1 is added. Long channels take two launches, in which many blocks share each."""
    xp, of, at = MEMORY, _channels(x.shape), steps_of(x)
    out, dtype = xp.empty_like(x), wide(x.dtype)
    mean, rstd, var = (xp.empty(of.channels, dtype) for _ in range(3))
    numbers, found = (at, float(eps), float(momentum)), (mean, rstd, var, *running, batches)
    if of.parts == 1:
        kernel = _kernel("batch_norm", x.dtype, 1)
        kernel((of.channels,), (of.threads,), (x, w, b, out, *found, of.sizes, *numbers))
        return out, mean, rstd, var
    memory, columns = xp.empty(2 * of.channels * of.parts, dtype), of.columns(x)
    of.by_part(_kernel("batch_statistics", x.dtype, columns), (x, *found, memory), numbers, columns)
    kernel = _kernel("batch_normalised", x.dtype, columns)
    kernel((-(-of.channels // columns) * of.parts,), (of.threads,), (x, w, b, out, mean, rstd, of.sizes, at))
    return out, mean, rstd, var


def batch_norm_vjp(g: Any, x: Any, w: Any, mean: Any, rstd: Any, g_mean: Any, g_rstd: Any) -> tuple[Any, Any, Any]:
    """The gradients of x, w and b. g_mean, g_rstd: None where they have none."""
    xp, of, dtype = MEMORY, _channels(x.shape), wide(x.dtype)
    gx, gw, gb = xp.empty_like(x), xp.empty(of.channels, dtype), xp.empty(of.channels, dtype)
    steps = steps_of(x), steps_of(g)
    name, columns = "batch_norm_vjp", 1
    if of.parts > 1:
        memory, columns, name = xp.empty(2 * of.channels * of.parts, dtype), of.columns(x, g), "batch_norm_slopes"
        of.by_part(_kernel("batch_norm_sums", x.dtype, columns), (g, x, mean, rstd, gw, gb, memory), steps, columns)
    arrays = g, x, w, mean, rstd, g_mean, g_rstd, gx, gw, gb
    kernel = _kernel(name, x.dtype, columns)
    kernel((-(-of.channels // columns) * of.parts,), (of.threads,), (*arrays, of.sizes, *steps))
    return gx, gw, gb


def channel_sums(g: Any) -> Any:
    """The sums of (N, C, *), contiguous or channels-last, over all dimensions but the channels; of half precision in float32."""
    xp, of, dtype = MEMORY, _channels(g.shape), wide(g.dtype)
    out, memory = (xp.empty(size, dtype) for size in (of.channels, of.channels * of.parts))
    kernel = channel_kernel(SUMS, "channel_sums", g.dtype)
    of.by_part(kernel, (g, out, memory), (steps_of(g),))
    return out
