"""One axis resampled on a GPU: each place of the result is a weighted sum of its taps, in their order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels.programs_gpu import MEMORY, depending

SOURCE = r"""
// Taps of row r: from places[r] to before places[r + 1]; places[rows + 1 + t] is where tap t reads.
extern "C" __global__ void resample(const real* x, const long long* places, const real* weights, real* out, long long count,
                                    long long n, long long rows, long long inner) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const whole row = (whole)i / (whole)inner % (whole)rows, outer = (whole)i / (whole)inner / (whole)rows;
        const real* from = x + (long long)outer * n * inner + (whole)i % (whole)inner;
        real sum = 0;
        for (long long t = places[row]; t < places[row + 1]; t++) {
            const real value = from[places[rows + 1 + t] * inner], part = weights ? value * weights[t] : value;
            sum = t == places[row] ? part : sum + part;
        }
        out[i] = sum;
    }
}
"""


@functools.lru_cache(256)
def _uploaded(table: Any, gpu: int, weights: bool) -> Any:
    """A part of a table on a GPU, where it is complete: any stream may read it."""
    xp = _backend.gpu()
    found = xp.asarray(table.weight if weights else np.concatenate([table.start, table.index]))
    xp.cuda.get_current_stream().synchronize()
    return found


def _places(table: Any) -> Any:
    return _uploaded(table, _backend.gpu().cuda.runtime.getDevice(), False)


def _weights(table: Any) -> Any:
    return _uploaded(table, _backend.gpu().cuda.runtime.getDevice(), True)


def resample(x: Any, table: Any) -> Any:
    """(A, n, B), contiguous, as (A, rows of the table, B)."""
    out = MEMORY.empty((x.shape[0], table.count, x.shape[2]), x.dtype)
    places, weights = depending(_places, table), None if table.weight is None else depending(_weights, table)
    kernel = _cuda.of_type(SOURCE, "resample", x.dtype, _cuda.whole(out)[0])
    numbers = out.size, x.shape[1], table.count, x.shape[2]
    kernel((_cuda.blocks_for(out.size),), (_cuda.THREADS,), (x, places, weights, out, *numbers))
    return out
