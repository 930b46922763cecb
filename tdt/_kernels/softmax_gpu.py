"""Softmax, its logarithm and their gradients along a dimension on a GPU: one launch each way.

A block has a row of neighbours in memory; of short rows, and of those whose elements lie apart, a thread has each.
"""

from __future__ import annotations

import math
from typing import Any

from tdt._kernels import _cuda
from tdt._kernels.programs_gpu import MEMORY

SHORT = 32  # elements of a row that a thread takes alone

# Row r begins at `row_of`, and its elements are `inner` apart. LOGARITHM: of the result.
SOURCE = r"""
__device__ __forceinline__ long long row_of(long long r, long long n, long long inner) {
    return r / inner * n * inner + r % inner;
}
__device__ __forceinline__ real value(real x, real top, real sum) {
    return LOGARITHM ? x - top - sum : exp(x - top) / sum;
}
__device__ __forceinline__ real slope(real g, real out, real sum) {
    return LOGARITHM ? g - exp(out) * sum : out * (g - sum);
}

extern "C" __global__ void __launch_bounds__(1024) softmax(const real* x, real* out, long long rows, long long n) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        const real* row = x + r * n;
        real top = row[0], sum = 0;
        for (long long k = threadIdx.x; k < n; k += blockDim.x) top = row[k] > top || row[k] != row[k] ? row[k] : top;
        top = block_max(top);
        for (long long k = threadIdx.x; k < n; k += blockDim.x) sum += exp(row[k] - top);
        sum = block_sum(sum);
        if (LOGARITHM) sum = log(sum);
        for (long long k = threadIdx.x; k < n; k += blockDim.x) out[r * n + k] = value(row[k], top, sum);
    }
}

extern "C" __global__ void __launch_bounds__(1024) softmax_vjp(const real* g, const real* out, real* gx, long long rows,
                                                               long long n) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        real sum = 0;
        for (long long k = threadIdx.x; k < n; k += blockDim.x) sum += LOGARITHM ? g[r * n + k] : g[r * n + k] * out[r * n + k];
        sum = block_sum(sum);
        for (long long k = threadIdx.x; k < n; k += blockDim.x) gx[r * n + k] = slope(g[r * n + k], out[r * n + k], sum);
    }
}

extern "C" __global__ void softmax_apart(const real* x, real* out, long long rows, long long n, long long inner) {
    const long long step = (long long)gridDim.x * blockDim.x, end = n * inner;
    for (long long r = (long long)blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += step) {
        const long long from = row_of(r, n, inner);
        const real* row = x + from;
        real top = row[0];
        for (long long k = inner; k < end; k += inner) top = row[k] > top || row[k] != row[k] ? row[k] : top;
        long_sum<real> all;
        for (long long k = 0; k < end; k += inner) all += exp(row[k] - top);
        const real sum = LOGARITHM ? log(all.value()) : all.value();
        for (long long k = 0; k < end; k += inner) out[from + k] = value(row[k], top, sum);
    }
}

extern "C" __global__ void softmax_apart_vjp(const real* g, const real* out, real* gx, long long rows, long long n,
                                             long long inner) {
    const long long step = (long long)gridDim.x * blockDim.x, end = n * inner;
    for (long long r = (long long)blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += step) {
        const long long from = row_of(r, n, inner);
        long_sum<real> all;
        for (long long k = from; k < from + end; k += inner) all += LOGARITHM ? g[k] : g[k] * out[k];
        const real sum = all.value();
        for (long long k = from; k < from + end; k += inner) gx[k] = slope(g[k], out[k], sum);
    }
}
"""


def _launched(end: str, logarithm: bool, arrays: tuple, dim: int) -> Any:
    """What the kernel computes of contiguous arrays."""
    like = arrays[0]
    result, n = MEMORY.empty(like.shape, like.dtype), like.shape[dim]
    rows, inner = like.size // n, math.prod(like.shape[dim % like.ndim + 1 :])
    by_block = inner == 1 and n > SHORT
    name = f"softmax{'' if by_block else '_apart'}{end}"
    kernel = _cuda.of_type(SOURCE, name, like.dtype, f"enum {{ LOGARITHM = {int(logarithm)} }};\n")
    if by_block:
        kernel((min(rows, _cuda.MOST_BLOCKS),), (_cuda.threads_for(n),), (*arrays, result, rows, n))
    else:
        kernel((_cuda.blocks_for(rows),), (_cuda.THREADS,), (*arrays, result, rows, n, inner))
    return result


def softmax(x: Any, *, dim: int) -> Any:
    """exp(x) / Σ exp(x) along a dimension."""
    return _launched("", False, (x,), dim)


def log_softmax(x: Any, *, dim: int) -> Any:
    """The logarithm of `softmax`."""
    return _launched("", True, (x,), dim)


def softmax_vjp(g: Any, out: Any, *, dim: int) -> Any:
    """The gradient of x, of a result `out`."""
    return _launched("_vjp", False, (g, out), dim)


def log_softmax_vjp(g: Any, out: Any, *, dim: int) -> Any:
    """As `softmax_vjp`."""
    return _launched("_vjp", True, (g, out), dim)
