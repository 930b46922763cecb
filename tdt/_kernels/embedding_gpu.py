"""Lookups in a table of embeddings on a GPU, and their gradient: a block for each row, which adds in the order of the indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels.programs_gpu import MEMORY, depending

PIECE = 1024  # indices that a block looks at before it adds

LOOKUP = r"""
extern "C" __global__ void embedding(const word* table, const long long* indices, word* out, unsigned long long* largest,
                                     long long count, long long rows, long long width, long long from_end) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const long long index = indices[(whole)i / (whole)width];
        const unsigned long long row = (unsigned long long)(from_end && index < 0 ? index + rows : index);
        const bool known = row < (unsigned long long)rows;
        out[i] = known ? table[row * width + (whole)i % (whole)width] : (word)0;
        if (!known) atomicMax(largest, (unsigned long long)index);
    }
}
"""

# Where a row of a large table first and last occurs among the indices: `count` less the first place, and one more than the last.
ENDS = r"""
extern "C" __global__ void clear(unsigned long long* ends, long long count) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) ends[i] = 0;
}
extern "C" __global__ void mark_ends(const long long* indices, unsigned long long* ends, long long count, long long rows) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const long long row = indices[i] < 0 ? indices[i] + rows : indices[i];
        if (row < 0 || row >= rows) continue;
        atomicMax(ends + row, (unsigned long long)(count - i));
        atomicMax(ends + rows + row, (unsigned long long)(i + 1));
    }
}
"""

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(1024) embedding_grad(
    const real* g, const long long* indices, const unsigned long long* ends, real* grad, long long all, long long rows,
    long long width, long long padding) {
    __shared__ unsigned char is_here[1024];
    __shared__ unsigned short found[1024];
    __shared__ int counts[1024];
    __shared__ unsigned int many;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        for (long long k = threadIdx.x; k < width; k += blockDim.x) grad[row * width + k] = 0;
        if (row == padding) continue;
        const long long begins = ends ? all - (long long)ends[row] : 0, count = ends ? (long long)ends[rows + row] : all;
        for (long long first = begins; first < count; first += 1024) {
            const int here = count - first < 1024 ? (int)(count - first) : 1024;
            if (threadIdx.x == 0) many = 0;
            __syncthreads();
            for (int k = threadIdx.x; k < here; k += blockDim.x) {
                long long index = indices[first + k];
                if (index < 0) index += rows;
                is_here[k] = index == row;
                if (index == row) atomicAdd(&many, 1u);
            }
            __syncthreads();
            const bool none = many == 0;
            __syncthreads();
            if (none) continue;
            // Where they are, in their order: each thread has a piece, and begins where those before it end.
            const int piece = (here + (int)blockDim.x - 1) / (int)blockDim.x, begin = (int)threadIdx.x * piece;
            int own = 0;
            for (int k = begin; k < begin + piece && k < here; k++) own += is_here[k];
            counts[threadIdx.x] = own;
            __syncthreads();
            for (int step = 1; step < (int)blockDim.x; step <<= 1) {
                const int before = (int)threadIdx.x >= step ? counts[threadIdx.x - step] : 0;
                __syncthreads();
                counts[threadIdx.x] += before;
                __syncthreads();
            }
            int at = counts[threadIdx.x] - own;
            for (int k = begin; k < begin + piece && k < here; k++)
                if (is_here[k]) found[at++] = (unsigned short)k;
            __syncthreads();
            for (long long k = threadIdx.x; k < width; k += blockDim.x) {
                real sum = grad[row * width + k];
                for (unsigned int j = 0; j < many; j++) sum += g[(first + found[j]) * width + k];
                grad[row * width + k] = sum;
            }
            __syncthreads();
        }
    }
}
"""


def embedding(table: Any, indices: Any, *, message: str, from_end: bool = False) -> Any:
    """The rows of a table at indices.

    Args:
        message: of the IndexError for an index outside of it.
        from_end: whether negative indices count from the end.
    """
    xp, (rows, *shape) = _backend.gpu(), table.shape
    kind, name = _cuda.WORDS[table.itemsize]
    out = MEMORY.empty((*indices.shape, *shape), table.dtype)
    largest = depending(_backend.largest_index, xp, rows, message)
    places = xp.ascontiguousarray(indices, "q").reshape(-1)
    arrays = table.view(kind), places, out.view(kind), largest
    kernel = _cuda.compiled(LOOKUP, "embedding", f"{_cuda.whole(out)[0]}typedef {name} word;\n")
    kernel((_cuda.blocks_for(out.size),), (_cuda.THREADS,), (*arrays, out.size, rows, math.prod(shape), int(from_end)))
    return out


def embedding_grad(y: Any, indices: Any, *, rows: int, padding_idx: int | None, by_frequency: bool) -> Any:
    """The gradient of a table (rows, *): the sums of `y` (*indices, *) over the places of each row."""
    xp, shape = _backend.gpu(), y.shape[indices.ndim :]
    grad, width = MEMORY.empty((rows, *shape), y.dtype), math.prod(shape)
    y, places = xp.ascontiguousarray(y), xp.ascontiguousarray(indices, "q")
    padding = -1 if padding_idx is None else padding_idx % rows
    ends = _ends(places, rows) if rows > PIECE and rows * places.size > PIECE * PIECE else None
    kernel = _cuda.of_type(SOURCE, "embedding_grad", y.dtype)
    kernel((min(rows, _cuda.MOST_BLOCKS),), (_cuda.threads_for(width),),
           (y, places, ends, grad, places.size, rows, width, padding))  # fmt: skip
    return grad


def _ends(places: Any, rows: int) -> Any:
    """Between which indices each row looks for its own: all rows that look at all of them read rows x indices numbers."""
    ends = MEMORY.empty(2 * rows, np.uint64)
    threads = (_cuda.THREADS,)
    _cuda.compiled(ENDS, "clear")((_cuda.blocks_for(ends.size),), threads, (ends, ends.size))
    _cuda.compiled(ENDS, "mark_ends")((_cuda.blocks_for(places.size),), threads, (places, ends, places.size, rows))
    return ends
