"""All steps of an LSTM on a GPU in one launch each way: a block for each sample, which goes through its steps.

Samples do not meet, so blocks need not wait for each other. A block reads all weights in each step, from the second-level cache:
beyond `LARGEST` units a product of matrices for each step reads them once for all samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels._gpu_conditions import gpu_floats

LARGEST = 512  # units

SOURCE = r"""
__device__ __forceinline__ real sigmoid(real z) { return tanh(z * (real)0.5) * (real)0.5 + (real)0.5; }

// Step s of a sample, counted in computing order: whether it has one; its row, and the states before and after it.
struct step { bool exists; long long row, before, after; };
__device__ __forceinline__ step step_of(const long long* offsets, long long count, long long s, long long sample, long long batch,
                                        long long reverse) {
    const long long t = reverse ? count - 1 - s : s, other = reverse ? t + 1 : t - 1;
    const bool began = other >= 0 && other < count && sample < offsets[other + 1] - offsets[other];
    return {sample < offsets[t + 1] - offsets[t], offsets[t] + sample, began ? batch + offsets[other] + sample : sample,
            batch + offsets[t] + sample};
}

// weights: (size, 4 size), the transpose of w_hh.
extern "C" __global__ void __launch_bounds__(1024) lstm(
    real* gates, real* hs, real* cs, const real* weights, const real* bias, const long long* offsets, long long count,
    long long batch, long long size, long long reverse) {
    for (long long sample = blockIdx.x; sample < batch; sample += gridDim.x)
        for (long long s = 0; s < count; s++) {
            const step now = step_of(offsets, count, s, sample, batch, reverse);
            if (!now.exists) continue;
            const real* earlier = hs + now.before * size;
            real* row = gates + now.row * 4 * size;
            for (long long j = threadIdx.x; j < size; j += blockDim.x) {
                real z[4];
                for (int g = 0; g < 4; g++) z[g] = 0;
                for (long long k = 0; k < size; k++)
                    for (int g = 0; g < 4; g++) z[g] += earlier[k] * weights[k * 4 * size + g * size + j];
                for (int g = 0; g < 4; g++) z[g] += row[g * size + j] + bias[g * size + j];
                const real i = sigmoid(z[0]), f = sigmoid(z[1]), a = tanh(z[2]), o = sigmoid(z[3]);
                const real cell = f * cs[now.before * size + j] + i * a;
                row[j] = i, row[size + j] = f, row[2 * size + j] = a, row[3 * size + j] = o;
                cs[now.after * size + j] = cell;
                hs[now.after * size + j] = o * tanh(cell);
            }
            __syncthreads();
        }
}

// weights: (4 size, size), w_hh.
extern "C" __global__ void __launch_bounds__(1024) lstm_vjp(
    real* dh, real* dc, const real* weights, const real* gates, const real* cells, real* grads, const long long* offsets,
    long long count, long long batch, long long size, long long reverse) {
    for (long long sample = blockIdx.x; sample < batch; sample += gridDim.x)
        for (long long s = count - 1; s >= 0; s--) {
            const step now = step_of(offsets, count, s, sample, batch, reverse);
            if (!now.exists) continue;
            const real* row = gates + now.row * 4 * size;
            real* out = grads + now.row * 4 * size;
            for (long long j = threadIdx.x; j < size; j += blockDim.x) {
                const real i = row[j], f = row[size + j], a = row[2 * size + j], o = row[3 * size + j];
                const real squashed = tanh(cells[now.after * size + j]), total = dh[now.after * size + j];
                const real cell = dc[now.after * size + j] + total * o * (1 - squashed * squashed);
                out[j] = cell * a * i * (1 - i);
                out[size + j] = cell * cells[now.before * size + j] * f * (1 - f);
                out[2 * size + j] = cell * i * (1 - a * a);
                out[3 * size + j] = total * squashed * o * (1 - o);
                dc[now.before * size + j] += cell * f;
            }
            __syncthreads();
            for (long long k = threadIdx.x; k < size; k += blockDim.x) {
                real sum = 0;
                for (long long r = 0; r < 4 * size; r++) sum += out[r] * weights[r * size + k];
                dh[now.before * size + k] += sum;
            }
            __syncthreads();
        }
}
"""


def fits(arrays: Sequence[Any], attributes: dict) -> bool:
    """Arrays of float32 or of float64, contiguous and not empty, of a layer that is not too large; the last size is its own."""
    return gpu_floats(arrays, attributes) and arrays[1].shape[-1] <= LARGEST


def _launch(name: str, arrays: tuple, steps: Any, batch: int, size: int, offsets: Any) -> None:
    kernel = _cuda.of_type(SOURCE, name, arrays[0].dtype)
    numbers = len(steps.offsets) - 1, batch, size, int(steps.reverse)
    kernel((min(batch, _cuda.MOST_BLOCKS),), (_cuda.threads_for(size),), (*arrays, offsets, *numbers))


def lstm(steps: Any, gates: Any, hs: Any, cs: Any, w_hh: Any, bias: Any, offsets: Any) -> None:
    """Fill in every h and c (N + rows, H), from what the input adds to the gates (rows, 4H), which become their values.

    steps: the `Steps` of the batch. bias: (4H,). offsets: those of `steps`, on the GPU.
    """
    weights = _backend.gpu().ascontiguousarray(w_hh.T)
    _launch("lstm", (gates, hs, cs, weights, bias), steps, len(hs) - len(gates), hs.shape[1], offsets)


def lstm_vjp(steps: Any, dh: Any, dc: Any, w_hh: Any, gates: Any, cells: Any, offsets: Any) -> Any:
    """The gradients (rows, 4H) of the gates before their functions; those of the states are completed in dh and dc."""
    grads = _backend.gpu().empty_like(gates)
    _launch("lstm_vjp", (dh, dc, w_hh, gates, cells, grads), steps, len(dh) - len(gates), dh.shape[1], offsets)
    return grads
