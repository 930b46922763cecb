"""Attention on a GPU without a mask but the causal one: products by cuBLAS, and a kernel for what lies between them."""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels._arrays import product

SOURCE = r"""
// Row r of the scores belongs to query r % queries, which sees `seen` keys.
__device__ __forceinline__ long long seen_by(long long r, long long queries, long long keys, long long causal) {
    const long long seen = r % queries + 1;
    return causal && seen < keys ? seen : keys;
}

// Scores become weights; norms: each row's largest score, and 1 over the sum of the exponentials.
extern "C" __global__ void __launch_bounds__(1024) attention_weights(
    real* scores, real* norms, long long rows, long long queries, long long keys, long long causal, double scale) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        real* row = scores + r * keys;
        const long long seen = seen_by(r, queries, keys, causal);
        real top = -INFINITE, sum = 0;
        for (long long k = threadIdx.x; k < seen; k += blockDim.x) {
            const real score = row[k] * (real)scale;
            if (score > top || score != score) top = score;
        }
        top = block_max(top);
        if (top == -INFINITE) top = 0;
        for (long long k = threadIdx.x; k < seen; k += blockDim.x) sum += row[k] = exp(row[k] * (real)scale - top);
        sum = block_sum(sum);
        const real inverse = sum == 0 ? (real)0 : 1 / sum;
        for (long long k = threadIdx.x; k < keys; k += blockDim.x) row[k] = k < seen ? row[k] * inverse : (real)0;
        if (threadIdx.x == 0) norms[2 * r] = top, norms[2 * r + 1] = inverse;
    }
}

// Scores become weights once more, and gradients of the weights those of the products of queries and keys.
extern "C" __global__ void __launch_bounds__(1024) attention_vjp(
    real* scores, real* slopes, const real* norms, long long rows, long long queries, long long keys, long long causal,
    double scale) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        real *row = scores + r * keys, *slope = slopes + r * keys;
        const long long seen = seen_by(r, queries, keys, causal);
        const real top = norms[2 * r], inverse = norms[2 * r + 1];
        real shared = 0;
        for (long long k = threadIdx.x; k < keys; k += blockDim.x) {
            row[k] = k < seen ? exp(row[k] * (real)scale - top) * inverse : (real)0;
            if (k < seen) shared += row[k] * slope[k];
        }
        shared = block_sum(shared);
        for (long long k = threadIdx.x; k < keys; k += blockDim.x)
            slope[k] = k < seen ? (slope[k] - shared) * row[k] * (real)scale : (real)0;
    }
}
""".replace("INFINITE", "(real)__int_as_float(0x7F800000)")


def _launch(name: str, arrays: tuple, causal: bool, scale: float) -> None:
    queries, keys = arrays[0].shape[-2:]
    rows = arrays[0].size // keys
    kernel = _cuda.of_type(SOURCE, name, arrays[0].dtype)
    sizes = rows, queries, keys, int(causal), float(scale)
    kernel((min(rows, _cuda.MOST_BLOCKS),), (_cuda.threads_for(keys),), (*arrays, *sizes))


def attention(q: Any, k: Any, v: Any, *, causal: bool, scale: float) -> tuple[Any, Any]:
    """(softmax(scale q kᵀ) v; the rows' largest scores and inverse sums, (*, L, 2))."""
    xp = _backend.gpu()
    scores = product(xp, q, k.swapaxes(-1, -2))
    norms = xp.empty((*q.shape[:-1], 2), q.dtype)
    _launch("attention_weights", (scores, norms), causal, scale)
    return product(xp, scores, v), norms


def attention_vjp(g: Any, q: Any, k: Any, v: Any, norms: Any, *, causal: bool, scale: float) -> tuple[Any, Any, Any]:
    """The gradients of q, k and v."""
    xp = _backend.gpu()
    scores, slopes = product(xp, q, k.swapaxes(-1, -2)), product(xp, g, v.swapaxes(-1, -2))
    _launch("attention_vjp", (scores, slopes, norms), causal, scale)
    return (
        product(xp, slopes, k),
        product(xp, slopes.swapaxes(-1, -2), q),
        product(xp, scores.swapaxes(-1, -2), g),
    )
