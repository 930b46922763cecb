"""Losses of classes on a GPU: softmax, cross-entropy and its mean in one launch, the gradient in another.

Where no memory for the rows' maxima and sums is given, x are logarithms of probabilities.
"""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._kernels import _cuda, capture_gpu
from tdt._kernels.programs_gpu import MEMORY, depending

MOST_PARTS = 4096  # blocks whose sums the last one adds up

SOURCE = r"""
// Row r of logits (N, C, *d) begins at `row_of`, and its classes are `inner` apart.
__device__ __forceinline__ long long row_of(long long r, long long classes, long long inner) {
    return r / inner * classes * inner + r % inner;
}

__device__ real sum_of_weights(const real* weight, long long classes) {
    if (!weight) return (real)classes;
    real sum = 0;
    for (long long c = threadIdx.x; c < classes; c += blockDim.x) sum += weight[c];
    return block_sum(sum);
}

// The losses of all rows; or their sum, which is divided by the sum of the shares for a mean. parts: two numbers a block.
extern "C" __global__ void __launch_bounds__(1024) cross_entropy(
    const real* x, const long long* target, const real* weight, real* losses, real* shares, real* tops, real* sums,
    unsigned long long* largest, real* loss_of_all, real* norm, double* parts, unsigned int* tickets, long long rows,
    long long classes, long long inner, long long ignore, double smoothing) {
    const real whole = smoothing != 0 ? sum_of_weights(weight, classes) : (real)0;
    double loss_here = 0, share_here = 0;
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        const real* row = x + row_of(r, classes, inner);
        real top = tops ? -INFINITE : (real)0, sum = tops ? (real)0 : (real)1, every = 0;
        if (tops) {
            for (long long c = threadIdx.x; c < classes; c += blockDim.x) {
                const real value = row[c * inner];
                if (value > top || value != value) top = value;
            }
            top = block_max(top);
            for (long long c = threadIdx.x; c < classes; c += blockDim.x) {
                const real shifted = row[c * inner] - top;
                sum += exp(shifted);
                if (smoothing != 0) every += weight ? shifted * weight[c] : shifted;
            }
            sum = block_sum(sum);
            if (smoothing != 0) every = block_sum(every);
        }
        if (threadIdx.x) continue;
        const long long t = target[r];
        const bool ignored = t == ignore, known = t >= 0 && t < classes;
        if (!ignored) atomicMax(largest, (unsigned long long)t);
        const real share = ignored || !known ? (real)0 : weight ? weight[t] : (real)1;
        real loss = 0;
        if (!ignored && known) {
            loss = (log(sum) - (row[t * inner] - top)) * share;
            if (smoothing != 0)
                loss = loss * (real)(1 - smoothing) + (log(sum) * whole - every) * (real)(smoothing / classes);
        }
        if (losses) losses[r] = loss;
        shares[r] = share;
        if (tops) tops[r] = top, sums[r] = sum;
        loss_here += loss;
        share_here += share;
    }
    if (losses) return;
    if (threadIdx.x == 0) parts[2 * blockIdx.x] = loss_here, parts[2 * blockIdx.x + 1] = share_here;
    if (!is_last_of(tickets, gridDim.x)) return;
    const volatile double* all = parts;
    double total = 0, divisor = 0;
    for (long long k = threadIdx.x; k < gridDim.x; k += blockDim.x) total += all[2 * k], divisor += all[2 * k + 1];
    total = block_sum(total);
    divisor = block_sum(divisor);
    if (threadIdx.x) return;
    *loss_of_all = (real)(!norm ? total : smoothing != 0 && divisor == 0 ? 0.0 / divisor : total / divisor);
    if (norm) *norm = (real)divisor;
}

// g: of each row if `each`, else of the loss.
extern "C" __global__ void __launch_bounds__(1024) cross_entropy_vjp(
    const real* g, const real* x, const long long* target, const real* weight, const real* shares, const real* tops,
    const real* sums, const real* norm, real* grad, long long rows, long long classes, long long inner, long long ignore,
    double smoothing, long long each) {
    const real whole = smoothing != 0 ? sum_of_weights(weight, classes) : (real)0;
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        const long long first = row_of(r, classes, inner), t = target[r];
        const bool ignored = t == ignore;
        const real slope = each ? g[r] : norm ? *g / *norm : *g, top = tops ? tops[r] : (real)0;
        const real own = slope * shares[r] * (real)(1 - smoothing), every = slope * (real)(smoothing / classes);
        const real factor = (smoothing != 0 ? own + every * whole : own) / (tops ? sums[r] : (real)1);
        for (long long c = threadIdx.x; c < classes; c += blockDim.x) {
            const long long at = first + c * inner;
            real value = tops ? exp(x[at] - top) * factor : (real)0;
            if (smoothing != 0) value -= weight ? every * weight[c] : every;
            if (c == t) value -= own;
            grad[at] = ignored ? (real)0 : value;
        }
    }
}
""".replace("INFINITE", "(real)__int_as_float(0x7F800000)")


def cross_entropy(x: Any, target: Any, weight: Any, *, reduction: str, ignore_index: int, smoothing: float,
                  message: str, logits: bool = True) -> tuple[Any, tuple]:  # fmt: skip
    """(The loss; what its gradient requires).

    Args:
        target: int64, contiguous.
        message: of the IndexError for an unknown class.
        logits: whether `x` are logits; else logarithms of probabilities, without smoothing.
    """
    xp, dtype = MEMORY, x.dtype
    classes = x.shape[1] if x.ndim > 1 else x.shape[0]
    rows = target.size
    inner = rows // (x.shape[0] if x.ndim > 1 else 1)
    shares, tops, sums = (xp.empty(rows, dtype) if logits or not k else None for k in range(3))
    reduced = reduction != "none"
    blocks = min(rows, MOST_PARTS if reduced else _cuda.MOST_BLOCKS)
    losses = None if reduced else xp.empty(rows, dtype)
    loss, norm = xp.empty((), dtype) if reduced else None, xp.empty((), dtype) if reduction == "mean" else None
    parts, tickets = (xp.empty(2 * blocks, "d"), capture_gpu.tickets()) if reduced else (None, None)
    largest = depending(_backend.largest_index, _backend.gpu(), classes, message)
    sizes = rows, classes, inner, ignore_index, smoothing
    kernel = _cuda.of_type(SOURCE, "cross_entropy", dtype)
    kernel((blocks,), (_cuda.threads_for(classes),),
           (x, target, weight, losses, shares, tops, sums, largest, loss, norm, parts, tickets, *sizes))  # fmt: skip
    known = shares, tops, sums
    return (loss, (known, norm)) if losses is None else (losses.reshape(target.shape), (known, None))


def cross_entropy_vjp(g: Any, x: Any, target: Any, weight: Any, known: tuple, norm: Any, *, ignore_index: int,
                      smoothing: float) -> Any:  # fmt: skip
    """The gradient of the logits. known, norm: of `cross_entropy`."""
    g, grad = _backend.gpu().ascontiguousarray(g), MEMORY.empty_like(x)
    classes = x.shape[1] if x.ndim > 1 else x.shape[0]
    rows = target.size
    each = int(g.size == rows and norm is None and g.size > 1)
    sizes = rows, classes, rows // (x.shape[0] if x.ndim > 1 else 1), ignore_index, smoothing, each
    kernel = _cuda.of_type(SOURCE, "cross_entropy_vjp", x.dtype)
    kernel((min(rows, _cuda.MOST_BLOCKS),), (_cuda.threads_for(classes),),
           (g, x, target, weight, *known, norm, grad, *sizes))  # fmt: skip
    return grad
