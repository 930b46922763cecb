"""Cumulative sums and products along a dimension on a GPU, in one launch, or two for long rows.

A block has a row, or a part of a long one: each thread adds up neighbours, the threads' totals are added up in shared memory, and
each thread writes its own. Of a long row a launch before adds up the parts. Floating-point numbers are added and multiplied in
double precision, and rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import _cuda
from tdt._kernels._gpu_conditions import MOST_DIMENSIONS as MOST
from tdt._kernels.order_gpu import INTEGERS, rows_along
from tdt._kernels.programs_gpu import MEMORY

SHORT = 8  # elements that a thread adds up, where a block has enough threads
PART = SHORT * _cuda.LONGEST_BLOCK  # elements of a part of a row
MOST_PARTS = 256  # of longer rows parts have more elements
SOURCE = (
    f"""
struct rows {{ whole size[{MOST}], from[{MOST}], to[{MOST}]; }};
"""
    + r"""
__device__ __forceinline__ wide joined(wide a, wide b) { return PRODUCT ? a * b : a + b; }

extern "C" __global__ void __launch_bounds__(1024) scan_rows(
    const stored* x, stored* out, wide* of_parts, long long count, long long n, long long step, long long to_step, long long rank,
    long long reverse, long long parts, long long length, const __grid_constant__ rows z) {
    __shared__ wide totals[1024];
    const int own = (int)threadIdx.x;
    const long long each = (length + blockDim.x - 1) / blockDim.x;
    for (long long b = blockIdx.x; b < count * parts; b += gridDim.x) {
        const long long first = b % parts * length, last = min(first + length, n);
        const long long begin = min(first + own * each, last), end = min(begin + each, last);
        whole rest = (whole)(b / parts), from = 0, to = 0;
        for (int d = (int)rank - 1; d >= 0; d--) {
            const whole k = rest % z.size[d];
            rest /= z.size[d];
            from += k * z.from[d];
            to += k * z.to[d];
        }
        wide total = PRODUCT;
        for (long long k = begin; k < end; k++) total = joined(total, (wide)load(x[from + (reverse ? n - 1 - k : k) * step]));
        totals[own] = total;
        __syncthreads();
        for (int apart = 1; apart < (int)blockDim.x; apart *= 2) {
            const wide before = own >= apart ? totals[own - apart] : (wide)PRODUCT;
            __syncthreads();
            totals[own] = joined(before, totals[own]);
            __syncthreads();
        }
        if (!out) {
            if (own == 0) of_parts[b] = totals[blockDim.x - 1];
            __syncthreads();
            continue;
        }
        wide running = PRODUCT;
        for (long long k = b - b % parts; k < b; k++) running = joined(running, of_parts[k]);
        if (own) running = joined(running, totals[own - 1]);
        for (long long k = begin; k < end; k++) {
            const long long at = reverse ? n - 1 - k : k;
            running = joined(running, (wide)load(x[from + at * step]));
            STORED_AT
        }
        __syncthreads();
    }
}
"""
)


@functools.cache
def _kernel(dtype: Any, product: bool, whole: str) -> Callable[..., None]:
    if dtype in _cuda.LETTERS:
        letter = _cuda.LETTERS[dtype]
        kinds, real = (
            f"typedef {_cuda.STORED[letter]} stored;\ntypedef double wide;\n",
            "double" if letter == "d" else "float",
        )
        store = f"store(out + to + at * to_step, ({real})running);"
    else:
        name = INTEGERS[dtype.char]
        kinds = f"typedef {name} stored;\ntypedef long long wide;\n__device__ {name} load({name} x) {{ return x; }}\n"
        store = "out[to + at * to_step] = (stored)running;"
    source = SOURCE.replace("STORED_AT", store).replace("PRODUCT", str(int(product)))
    return _cuda.compiled(source, "scan_rows", kinds + whole)


def _scanned(x: Any, dim: int, reverse: bool, product: bool) -> Any:
    out, n = MEMORY.empty(x.shape, x.dtype), x.shape[dim]
    whole, steps, others = rows_along(x, out, dim)
    length = -(-n // min(-(-n // PART), MOST_PARTS))
    parts, rows = -(-n // length), x.size // n  # that depend on the length alone, as the last bits of sums do
    numbers = rows, n, *steps, int(reverse), parts, length, others
    sizes = (min(rows * parts, _cuda.MOST_BLOCKS),), (_cuda.threads_for(-(-length // SHORT)),)
    kernel, of_parts = _kernel(x.dtype, product, whole), None
    if parts > 1:
        of_parts = MEMORY.empty(rows * parts, np.dtype("d" if x.dtype in _cuda.LETTERS else "q"))
        kernel(*sizes, (x, None, of_parts, *numbers))
    kernel(*sizes, (x, out, of_parts, *numbers))
    return out


def cumsum(x: Any, *, dim: int, reverse: bool = False) -> Any:
    """The sums of the elements up to each one along a dimension; from it on, if `reverse`."""
    return _scanned(x, dim, reverse, False)


def cumprod(x: Any, *, dim: int) -> Any:
    """The products of the elements up to each one along a dimension."""
    return _scanned(x, dim, False, True)
