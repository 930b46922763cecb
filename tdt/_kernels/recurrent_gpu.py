"""All steps of an LSTM or GRU on a GPU in one launch each way: a block for each sample, which goes through its steps.

Samples do not meet, so blocks need not wait for each other. A block reads all weights in each step, from the second-level cache:
beyond `LARGEST` units a product of matrices for each step reads them once for all samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels._arrays import product
from tdt._kernels._gpu_conditions import FLOATS
from tdt._kernels._registry import chosen, gpu_kernel, lazy

LARGEST = 512  # units

SOURCE = r"""
// Step t of sample n has row offsets[t] + n of a packed batch, or t * by_step + n * by_sample of one whose samples are equally
// long; they are those of samples in memory.
struct batch { long long count, samples, size, reverse, by_step, by_sample; };
struct steps { long long t, n, j; };  // of (T, N, H) in memory
__device__ __forceinline__ bool exists(const long long* offsets, const batch& z, long long t, long long n) {
    return t >= 0 && t < z.count && (!offsets || n < offsets[t + 1] - offsets[t]);
}
__device__ __forceinline__ long long row_of(const long long* offsets, const batch& z, long long t, long long n) {
    return offsets ? offsets[t] + n : t * z.by_step + n * z.by_sample;
}
__device__ __forceinline__ real sigmoid(real z) { return tanh(z * (real)0.5) * (real)0.5 + (real)0.5; }

// Gates come as what the input adds to them, and become their values. weights: (size, 4 size), the transpose of w_hh.
extern "C" __global__ void __launch_bounds__(1024) lstm(
    real* gates, const real* h, const real* c, const real* weights, const real* b_ih, const real* b_hh, const long long* offsets,
    real* out, real* cells, real* last, real* cell_of_last, batch z) {
    const long long size = z.size;
    for (long long n = blockIdx.x; n < z.samples; n += gridDim.x) {
        const real *earlier = h + n * size, *earlier_cell = c + n * size;
        for (long long s = 0; s < z.count; s++) {
            const long long t = z.reverse ? z.count - 1 - s : s;
            if (!exists(offsets, z, t, n)) continue;
            const long long row = row_of(offsets, z, t, n);
            real* gate = gates + row * 4 * size;
            for (long long j = threadIdx.x; j < size; j += blockDim.x) {
                real sums[4];
                for (int g = 0; g < 4; g++) sums[g] = 0;
                for (long long k = 0; k < size; k++)
                    for (int g = 0; g < 4; g++) sums[g] += earlier[k] * weights[k * 4 * size + g * size + j];
                for (int g = 0; g < 4; g++) {
                    const long long at = g * size + j;
                    sums[g] += gate[at] + (b_hh ? b_ih[at] + b_hh[at] : b_ih ? b_ih[at] : (real)0);
                }
                const real i = sigmoid(sums[0]), f = sigmoid(sums[1]), a = tanh(sums[2]), o = sigmoid(sums[3]);
                const real cell = f * earlier_cell[j] + i * a;
                gate[j] = i, gate[size + j] = f, gate[2 * size + j] = a, gate[3 * size + j] = o;
                cells[row * size + j] = cell;
                out[row * size + j] = o * tanh(cell);
            }
            __syncthreads();
            earlier = out + row * size, earlier_cell = cells + row * size;
        }
        for (long long j = threadIdx.x; j < size; j += blockDim.x) {
            last[n * size + j] = earlier[j];
            cell_of_last[n * size + j] = earlier_cell[j];
        }
    }
}

// grads: of the gates before their functions; before: the h that each row began from; gh, gc: of the first states.
// g_out, g_last and g_cell may be absent. weights: (4 size, size), w_hh.
extern "C" __global__ void __launch_bounds__(1024) lstm_vjp(
    const real* g_out, const real* g_last, const real* g_cell, const real* gates, const real* h, const real* c,
    const real* weights, const real* out, const real* cells, const long long* offsets, real* grads, real* before, real* gh,
    real* gc, batch z, steps of_g) {
    const long long size = z.size;
    for (long long n = blockIdx.x; n < z.samples; n += gridDim.x) {
        real *dh = gh + n * size, *dc = gc + n * size;
        for (long long j = threadIdx.x; j < size; j += blockDim.x) {
            dh[j] = g_last ? g_last[n * size + j] : (real)0;
            dc[j] = g_cell ? g_cell[n * size + j] : (real)0;
        }
        __syncthreads();
        for (long long s = z.count - 1; s >= 0; s--) {
            const long long t = z.reverse ? z.count - 1 - s : s, other = z.reverse ? t + 1 : t - 1;
            if (!exists(offsets, z, t, n)) continue;
            const bool began = exists(offsets, z, other, n);
            const long long row = row_of(offsets, z, t, n), place = began ? row_of(offsets, z, other, n) * size : n * size;
            const real *gate = gates + row * 4 * size, *earlier = (began ? out : h) + place;
            const real* earlier_cell = (began ? cells : c) + place;
            real* grad = grads + row * 4 * size;
            for (long long j = threadIdx.x; j < size; j += blockDim.x) {
                const real i = gate[j], f = gate[size + j], a = gate[2 * size + j], o = gate[3 * size + j];
                const long long at = offsets ? row * of_g.t : t * of_g.t + n * of_g.n;
                const real total = dh[j] + (g_out ? g_out[at + j * of_g.j] : (real)0);
                const real squashed = tanh(cells[row * size + j]);
                const real cell = dc[j] + total * o * (1 - squashed * squashed);
                grad[j] = cell * a * i * (1 - i);
                grad[size + j] = cell * earlier_cell[j] * f * (1 - f);
                grad[2 * size + j] = cell * i * (1 - a * a);
                grad[3 * size + j] = total * squashed * o * (1 - o);
                dc[j] = cell * f;
                before[row * size + j] = earlier[j];
            }
            __syncthreads();
            for (long long k = threadIdx.x; k < size; k += blockDim.x) {
                real sum = 0;
                for (long long r = 0; r < 4 * size; r++) sum += grad[r] * weights[r * size + k];
                dh[k] = sum;
            }
            __syncthreads();
        }
    }
}

// Gates come as what the input adds to them, and become their values: r, z and n. weights: (size, 3 size), the transpose of w_hh.
// passed: what the product with h adds to n, before r; before: the h that each row began from.
extern "C" __global__ void __launch_bounds__(1024) gru(
    real* gates, const real* h, const real* weights, real* out, real* passed, real* before, real* last, const real* b_ih,
    const real* b_hh, const long long* offsets, batch z) {
    const long long size = z.size;
    for (long long n = blockIdx.x; n < z.samples; n += gridDim.x) {
        const real* earlier = h + n * size;
        for (long long s = 0; s < z.count; s++) {
            const long long t = z.reverse ? z.count - 1 - s : s;
            if (!exists(offsets, z, t, n)) continue;
            const long long row = row_of(offsets, z, t, n);
            real* gate = gates + row * 3 * size;
            for (long long j = threadIdx.x; j < size; j += blockDim.x) {
                real sums[3], values[3];
                for (int g = 0; g < 3; g++) sums[g] = 0;
                for (long long k = 0; k < size; k++)
                    for (int g = 0; g < 3; g++) sums[g] += earlier[k] * weights[k * 3 * size + g * size + j];
                for (int g = 0; g < 3; g++) {
                    const long long at = g * size + j;
                    sums[g] += b_hh ? b_hh[at] : (real)0;
                    values[g] = gate[at] + (b_ih ? b_ih[at] : (real)0);
                }
                const real reset = sigmoid(values[0] + sums[0]), kept = sigmoid(values[1] + sums[1]);
                const real fresh = tanh(values[2] + reset * sums[2]);
                gate[j] = reset, gate[size + j] = kept, gate[2 * size + j] = fresh;
                passed[row * size + j] = sums[2];
                before[row * size + j] = earlier[j];
                out[row * size + j] = fresh + kept * (earlier[j] - fresh);
            }
            __syncthreads();
            earlier = out + row * size;
        }
        for (long long j = threadIdx.x; j < size; j += blockDim.x) last[n * size + j] = earlier[j];
    }
}

// of_input, of_h: the gradients of what the input and h add to the gates; gh: of the first h. weights: (3 size, size), w_hh.
extern "C" __global__ void __launch_bounds__(1024) gru_vjp(
    const real* g_out, const real* g_last, const real* gates, const real* passed, const real* before, const real* weights,
    const long long* offsets, real* of_input, real* of_h, real* gh, batch z, steps of_g) {
    const long long size = z.size;
    for (long long n = blockIdx.x; n < z.samples; n += gridDim.x) {
        real* dh = gh + n * size;
        for (long long j = threadIdx.x; j < size; j += blockDim.x) dh[j] = g_last ? g_last[n * size + j] : (real)0;
        __syncthreads();
        for (long long s = z.count - 1; s >= 0; s--) {
            const long long t = z.reverse ? z.count - 1 - s : s;
            if (!exists(offsets, z, t, n)) continue;
            const long long row = row_of(offsets, z, t, n);
            const real* gate = gates + row * 3 * size;
            real *to_input = of_input + row * 3 * size, *to_h = of_h + row * 3 * size;
            for (long long j = threadIdx.x; j < size; j += blockDim.x) {
                const real reset = gate[j], kept = gate[size + j], fresh = gate[2 * size + j];
                const long long at = offsets ? row * of_g.t : t * of_g.t + n * of_g.n;
                const real total = dh[j] + (g_out ? g_out[at + j * of_g.j] : (real)0);
                const real to_fresh = total * (1 - kept) * (1 - fresh * fresh);
                to_input[j] = to_h[j] = to_fresh * passed[row * size + j] * reset * (1 - reset);
                to_input[size + j] = to_h[size + j] = total * (before[row * size + j] - fresh) * kept * (1 - kept);
                to_input[2 * size + j] = to_fresh;
                to_h[2 * size + j] = to_fresh * reset;
                dh[j] = total * kept;
            }
            __syncthreads();
            for (long long k = threadIdx.x; k < size; k += blockDim.x) {
                real sum = 0;
                for (long long r = 0; r < 3 * size; r++) sum += to_h[r] * weights[r * size + k];
                dh[k] += sum;
            }
            __syncthreads();
        }
    }
}
"""
_WEIGHT_GRADIENTS = (gpu_kernel("product_gpu:weight_gradients", lazy("product_gpu:fits")),)


def fits(arrays: Sequence[Any], attributes: dict) -> bool:
    """Arrays of float32 or of float64, some absent, none empty; the last is w_hh, of a layer that is not too large."""
    kind = arrays[0].dtype
    return (
        kind in FLOATS
        and all(a is None or (a.dtype == kind and a.size > 0) for a in arrays)
        and arrays[-1].shape[-1] <= LARGEST
    )


def _in_memory(x: Any) -> tuple[Any, bool]:
    """(The rows of (T, N, F) or of a packed batch, as they follow each other in memory; whether samples come first)."""
    xp = _backend.gpu()
    if x.ndim == 2 or x.flags.c_contiguous:
        return xp.ascontiguousarray(x).reshape(-1, x.shape[-1]), False
    return xp.ascontiguousarray(x.transpose(1, 0, 2)).reshape(-1, x.shape[-1]), True


def _lie_as(rows: Any, x: Any, samples_first: bool) -> Any:
    """Rows as a tensor with the leading sizes of x."""
    if x.ndim == 2:
        return rows
    steps, samples = x.shape[:2]
    if samples_first:
        return rows.reshape(samples, steps, -1).transpose(1, 0, 2)
    return rows.reshape(steps, samples, -1)


def _batch(x: Any, steps: Any, size: int, samples: int, samples_first: bool) -> Any:
    count = len(steps.offsets) - 1
    by_step, by_sample = (1, count) if samples_first else (samples, 1)
    return _cuda.struct((count, samples, size, int(steps.reverse), by_step, by_sample))


def _steps_in_memory(g: Any) -> Any:
    """Elements between steps, samples and units of a gradient (T, N, H) or (rows, H), or of none."""
    step = (0, 0, 0) if g is None else tuple(s // g.itemsize for s in g.strides)
    return _cuda.struct(step if len(step) == 3 else (step[0], 0, step[1]))


def _launch(name: str, arrays: tuple, samples: int, size: int) -> None:
    kernel = _cuda.of_type(SOURCE, name, arrays[3].dtype)
    kernel((min(samples, _cuda.MOST_BLOCKS),), (_cuda.threads_for(size),), arrays)


def lstm(x: Any, h: Any, c: Any, w_ih: Any, b_ih: Any, b_hh: Any, w_hh: Any, *, steps: Any, offsets: Any) -> tuple:
    """Every h, as x lies, the last h and c; the gates and every c, in the order of x in memory.

    steps: the `Steps` of the batch. offsets: those of `steps` on the GPU, of a packed batch.
    """
    xp, (samples, size) = _backend.gpu(), h.shape
    rows, samples_first = _in_memory(x)
    gates = product(xp, rows, w_ih.T)
    h, c, weights = (xp.ascontiguousarray(a) for a in (h, c, w_hh.T))
    out, cells = (xp.empty((len(rows), size), x.dtype) for _ in range(2))
    last, cell = xp.empty_like(h), xp.empty_like(c)
    biases = [xp.ascontiguousarray(b) for b in (b_ih, b_hh) if b is not None]
    arrays = gates, h, c, weights, *biases, *(None,) * (2 - len(biases)), offsets, out, cells, last, cell
    z = _batch(x, steps, size, samples, samples_first)
    _launch("lstm", (*arrays, z), samples, size)
    return (_lie_as(out, x, samples_first), last, cell), gates, cells


def lstm_vjp(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, out: Any, gates: Any, cells: Any, g_out: Any, g_last: Any,
             g_cell: Any, *, needs: tuple, steps: Any, offsets: Any) -> tuple:  # fmt: skip
    """The gradients of x, h, c, w_ih, w_hh, b_ih and b_hh that are needed. Those of the results may be None."""
    xp, (samples, size) = _backend.gpu(), h.shape
    rows, samples_first = _in_memory(x)
    h, c, w_hh = (xp.ascontiguousarray(a) for a in (h, c, w_hh))
    g_last, g_cell = (None if g is None else xp.ascontiguousarray(g) for g in (g_last, g_cell))
    grads, before = xp.empty_like(gates), xp.empty_like(cells)
    gh, gc = xp.empty_like(h), xp.empty_like(c)
    of_g = _steps_in_memory(g_out)
    z = _batch(x, steps, size, samples, samples_first)
    arrays = gates, h, c, w_hh, _in_memory(out)[0], cells, offsets, grads, before, gh, gc, z, of_g
    _launch("lstm_vjp", (g_out, g_last, g_cell, *arrays), samples, size)
    g_ih, gb_ih = _of_weights(xp, grads, rows, needs[3], needs[5])
    g_hh, gb_hh = _of_weights(xp, grads, before, needs[4], needs[6])
    gx = _lie_as(product(xp, grads, w_ih), x, samples_first) if needs[0] else None
    return gx, gh if needs[1] else None, gc if needs[2] else None, g_ih, g_hh, gb_ih, gb_hh


def gru(x: Any, h: Any, w_ih: Any, b_ih: Any, b_hh: Any, w_hh: Any, *, steps: Any, offsets: Any) -> tuple:
    """Every h, as x lies, and the last h; the gates, and (2, rows, H): what h W + b gave to n, and the h before each row.

    The gates and these are in the order of x in memory. steps, offsets: as for `lstm`.
    """
    xp, (samples, size) = _backend.gpu(), h.shape
    rows, samples_first = _in_memory(x)
    gates = product(xp, rows, w_ih.T)
    h, weights = xp.ascontiguousarray(h), xp.ascontiguousarray(w_hh.T)
    out, passed, last = xp.empty((len(rows), size), x.dtype), xp.empty((2, len(rows), size), x.dtype), xp.empty_like(h)
    biases = [None if b is None else xp.ascontiguousarray(b) for b in (b_ih, b_hh)]
    arrays = gates, h, weights, out, *passed, last, *biases, offsets, _batch(x, steps, size, samples, samples_first)
    _launch("gru", arrays, samples, size)
    return (_lie_as(out, x, samples_first), last), gates, passed


def gru_vjp(x: Any, h: Any, w_ih: Any, w_hh: Any, gates: Any, passed: Any, g_out: Any, g_last: Any, *, needs: tuple,
            steps: Any, offsets: Any) -> tuple:  # fmt: skip
    """The gradients of x, h, w_ih, w_hh, b_ih and b_hh that are needed. Those of the results may be None."""
    xp, (samples, size) = _backend.gpu(), h.shape
    rows, samples_first = _in_memory(x)
    w_hh, g_last = xp.ascontiguousarray(w_hh), None if g_last is None else xp.ascontiguousarray(g_last)
    of_input, of_h, gh = xp.empty_like(gates), xp.empty_like(gates), xp.empty(h.shape, h.dtype)
    z = _batch(x, steps, size, samples, samples_first)
    arrays = gates, *passed, w_hh, offsets, of_input, of_h, gh, z, _steps_in_memory(g_out)
    _launch("gru_vjp", (g_out, g_last, *arrays), samples, size)
    g_ih, gb_ih = _of_weights(xp, of_input, rows, needs[2], needs[4])
    g_hh, gb_hh = _of_weights(xp, of_h, passed[1], needs[3], needs[5])
    gx = _lie_as(product(xp, of_input, w_ih), x, samples_first) if needs[0] else None
    return gx, gh if needs[1] else None, g_ih, g_hh, gb_ih, gb_hh


def _of_weights(xp: Any, grads: Any, rows: Any, of_weights: bool, of_bias: bool) -> tuple[Any, Any]:
    """The gradients of weights that `rows` were multiplied by, and of a bias, where they are needed."""
    if of_weights and of_bias and (fast := chosen(_WEIGHT_GRADIENTS, xp, grads, rows)):
        both: tuple[Any, Any] = fast(grads, rows)
        return both
    return product(xp, grads.T, rows) if of_weights else None, _backend.total(grads, 0) if of_bias else None
