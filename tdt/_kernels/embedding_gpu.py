"""The gradient of a table of embeddings on a GPU: a block for each row of the table, which adds in the order of the indices."""

from __future__ import annotations

import math
from typing import Any

from tdt import _backend
from tdt._kernels import _cuda

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(1024) embedding_grad(
    const real* g, const long long* indices, real* grad, long long count, long long rows, long long width, long long padding) {
    __shared__ int found[1024];
    __shared__ int many;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        for (long long k = threadIdx.x; k < width; k += blockDim.x) grad[row * width + k] = 0;
        if (row == padding) continue;
        for (long long first = 0; first < count; first += 1024) {
            const int here = count - first < 1024 ? (int)(count - first) : 1024;
            for (int k = threadIdx.x; k < here; k += blockDim.x) {
                long long index = indices[first + k];
                if (index < 0) index += rows;
                found[k] = index == row;
            }
            __syncthreads();
            if (threadIdx.x == 0) {  // where they are, in their order
                many = 0;
                for (int k = 0; k < here; k++)
                    if (found[k]) found[many++] = k;
            }
            __syncthreads();
            for (long long k = threadIdx.x; k < width; k += blockDim.x) {
                real sum = grad[row * width + k];
                for (int j = 0; j < many; j++) sum += g[(first + found[j]) * width + k];
                grad[row * width + k] = sum;
            }
            __syncthreads();
        }
    }
}
"""


def embedding_grad(y: Any, indices: Any, *, rows: int, padding_idx: int | None, by_frequency: bool) -> Any:
    """The gradient of a table (rows, *): the sums of `y` (*indices, *) over the places of each row."""
    xp, shape = _backend.gpu(), y.shape[indices.ndim :]
    grad, width = xp.empty((rows, *shape), y.dtype), math.prod(shape)
    places = xp.ascontiguousarray(indices, "q")
    padding = -1 if padding_idx is None else padding_idx % rows
    kernel = _cuda.of_type(SOURCE, "embedding_grad", y.dtype)
    kernel((min(rows, _cuda.MOST_BLOCKS),), (_cuda.threads_for(width),),
           (y, places, grad, indices.size, rows, width, padding))  # fmt: skip
    return grad
