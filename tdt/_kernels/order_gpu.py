"""Sorting along a dimension on a GPU, in one launch: a block sorts a row in its shared memory.

Each element becomes an unsigned integer in the order of the elements. Equal ones are ordered by their indices, so that the
sorting network of K. Batcher (1968) keeps their order; NaN is larger than all numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import _cuda
from tdt._kernels._gpu_conditions import MOST_DIMENSIONS as MOST
from tdt._kernels.programs_gpu import MEMORY

INTEGERS = {"b": "signed char", "h": "short", "i": "int", "l": "long long", "q": "long long", "B": "unsigned char",
            "H": "unsigned short", "I": "unsigned int", "L": "unsigned long long", "Q": "unsigned long long"}  # fmt: skip
SIGN = "0x8000000000000000ull"
# What `key_of` gives of x, by the kind of a NumPy dtype. x + 0: -0.0 and 0.0 are equal.
KEYS = {
    "f": f"""const double value = (double)load(x) + 0.0;
    const unsigned long long bits = (unsigned long long)__double_as_longlong(value);
    return value != value ? ~0ull : bits & {SIGN} ? ~bits : bits | {SIGN};""",
    "i": f"return (unsigned long long)(long long)x ^ {SIGN};",
    "u": "return (unsigned long long)x;",
}
SOURCE = (
    f"""
struct rows {{ whole size[{MOST}], from[{MOST}], to[{MOST}]; }};
"""
    + r"""
__device__ __forceinline__ unsigned long long key_of(stored x) {
    KEY
}

extern "C" __global__ void __launch_bounds__(1024) sort_rows(
    const stored* x, stored* values, long long* indices, long long count, long long n, long long remaining, long long step,
    long long to_step, long long rank, long long descending, const __grid_constant__ rows z) {
    __shared__ unsigned long long keys[SIZE];
    __shared__ int places[SIZE];
    for (long long row = blockIdx.x; row < count; row += gridDim.x) {
        whole rest = (whole)row, from = 0, to = 0;
        for (int d = (int)rank - 1; d >= 0; d--) {
            const whole k = rest % z.size[d];
            rest /= z.size[d];
            from += k * z.from[d];
            to += k * z.to[d];
        }
        for (int k = threadIdx.x; k < SIZE; k += blockDim.x) {
            const unsigned long long key = k < n ? key_of(x[from + k * step]) : 0;
            keys[k] = k >= n ? ~0ull : descending ? ~key : key;
            places[k] = k;  // beyond the row, behind all of its elements
        }
        __syncthreads();
        for (int size = 2; size <= SIZE; size *= 2) {
            for (int apart = size / 2; apart; apart /= 2) {
                for (int t = threadIdx.x; t < SIZE / 2; t += blockDim.x) {
                    const int a = 2 * t - (t & (apart - 1)), b = a + apart;
                    const bool later = keys[a] > keys[b] || (keys[a] == keys[b] && places[a] > places[b]);
                    if (later == ((a & size) == 0)) {
                        const unsigned long long key = keys[a];
                        const int place = places[a];
                        keys[a] = keys[b], places[a] = places[b];
                        keys[b] = key, places[b] = place;
                    }
                }
                __syncthreads();
            }
        }
        for (int k = threadIdx.x; k < remaining; k += blockDim.x) {
            values[to + k * to_step] = x[from + places[k] * step];
            indices[to + k * to_step] = places[k];
        }
        __syncthreads();
    }
}
"""
)


@functools.cache
def _kernel(dtype: Any, size: int, whole: str) -> Callable[..., None]:
    stored = _cuda.STORED[_cuda.LETTERS[dtype]] if dtype in _cuda.LETTERS else INTEGERS[dtype.char]
    source = SOURCE.replace("KEY", KEYS["u" if dtype.kind == "b" else "f" if dtype in _cuda.LETTERS else dtype.kind], 1)
    return _cuda.compiled(source, "sort_rows", f"typedef {stored} stored;\n{whole}enum {{ SIZE = {size} }};\n")


def rows_along(x: Any, out: Any, dim: int) -> tuple[str, tuple, np.ndarray]:
    """How the rows of an array along `dim` lie, and those of a result with as many: the type `whole` of CUDA C; the steps along
    them and the number of other dimensions; a struct of the sizes and steps of these."""
    whole, kind = _cuda.whole(x, out)
    others = [d for d in range(x.ndim) if d != dim]
    z = np.zeros((3, MOST), kind)
    for k, d in enumerate(others):
        z[:, k] = x.shape[d], x.strides[d] // x.itemsize, out.strides[d] // out.itemsize
    steps = x.strides[dim] // x.itemsize, out.strides[dim] // out.itemsize
    return whole, (*steps, len(others)), _cuda.opaque(z.reshape(-1))


def _sorted(x: Any, dim: int, descending: bool, values: Any, indices: Any) -> tuple[Any, Any]:
    """The arrays, filled with as many elements along `dim` as they have, and their indices."""
    n, remaining = x.shape[dim], values.shape[dim]
    size = max(32, 1 << (n - 1).bit_length())
    count, (whole, steps, others) = x.size // n, rows_along(x, values, dim)
    numbers = count, n, remaining, *steps, int(descending), others
    kernel = _kernel(x.dtype, size, whole)
    kernel((min(count, _cuda.MOST_BLOCKS),), (min(size // 2, _cuda.LONGEST_BLOCK),), (x, values, indices, *numbers))
    return values, indices


def sort(x: Any, *, dim: int, descending: bool = False, keepdim: bool = True) -> tuple[Any, Any]:
    """The elements in order along `dim`, and their indices; both lie as x does."""
    return _sorted(x, dim, descending, MEMORY.empty_like(x), MEMORY.empty_like(x, np.dtype(np.int64)))


def topk(x: Any, *, k: int, dim: int, largest: bool = True, keepdim: bool = True) -> tuple[Any, Any]:
    """The first k of all elements in order along `dim`, and their indices."""
    shape = *x.shape[:dim], k, *x.shape[dim + 1 :]
    return _sorted(x, dim, largest, MEMORY.empty(shape, x.dtype), MEMORY.empty(shape, np.dtype(np.int64)))
