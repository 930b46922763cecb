"""Philox4x32-10 on a GPU: the words of `tdt/_random/_philox.py`, and dropout, which draws them itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import refuse_program
from tdt._kernels import _cuda
from tdt._kernels._cuda import LETTERS, STORED
from tdt._kernels.capture_gpu import signed
from tdt._kernels.programs_gpu import MEMORY

PHILOX = r"""
struct words { unsigned int a, b, c, d; };
__device__ __forceinline__ words philox(long long seed, long long place) {
    words w = {(unsigned int)place, (unsigned int)((unsigned long long)place >> 32), 0u, 0u};
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)((unsigned long long)seed >> 32);
    for (int round = 0; round < 10; round++) {
        const unsigned long long p = w.a * 0xD2511F53ull, q = w.c * 0xCD9E8D57ull;
        w = {(unsigned int)(q >> 32) ^ w.b ^ k0, (unsigned int)q, (unsigned int)(p >> 32) ^ w.d ^ k1, (unsigned int)p};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return w;
}
// In a CUDA graph, whose parameters do not change, the seed and the first block lie in memory.
#define FROM_PLACE if (place) seed = place[0], offset += place[1];
"""

WORDS = r"""
extern "C" __global__ void draw_words(unsigned long long* out, const long long* place, long long count, long long seed,
                                      long long offset) {
    FROM_PLACE
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; 4 * i < count; i += step) {
        const words w = philox(seed, offset + i);
        const unsigned int all[4] = {w.a, w.b, w.c, w.d};
        for (int k = 0; k < 4 && 4 * i + k < count; k++) out[4 * i + k] = all[k];
    }
}
"""

# Of 53-bit draws, each of two words, those below a bound are kept.
DROPOUT = r"""
extern "C" __global__ void dropout(const STORED* x, STORED* out, bool* mask, long long count, long long bound, double scale,
                                   long long seed, long long offset, const long long* place) {
    FROM_PLACE
    const REAL factor = (REAL)scale;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; 2 * i < count; i += step) {
        const words w = philox(seed, offset + i);
        const unsigned int high[2] = {w.a, w.c}, low[2] = {w.b, w.d};
        for (int k = 0; k < 2 && 2 * i + k < count; k++) {
            const long long draw = (long long)(((unsigned long long)high[k] << 32 | low[k]) & 0x1FFFFFFFFFFFFFull);
            const REAL value = load(x[2 * i + k]);
            mask[2 * i + k] = draw < bound;
            store(out + 2 * i + k, draw < bound ? value * factor : value * 0);
        }
    }
}
"""


def words(seed: int, offset: int, place: Any, count: int) -> Any:
    """32-bit words from block `offset` of four on, in uint64. place: as of `Philox.take`."""
    refuse_program()
    out = _backend.gpu().empty(count, np.uint64)
    if count:
        kernel = _cuda.compiled(WORDS, "draw_words", PHILOX)
        kernel((_cuda.blocks_for(-(-count // 4)),), (_cuda.THREADS,), (out, place, count, signed(seed), signed(offset)))
    return out


@functools.cache
def _dropout(dtype: Any) -> Callable[..., None]:
    letter = LETTERS[dtype]
    source = DROPOUT.replace("STORED", STORED[letter]).replace("REAL", "double" if letter == "d" else "float")
    return _cuda.compiled(PHILOX + source, "dropout")


def dropout(x: Any, *, p: float, scale: float, source: Callable[[], Any]) -> tuple[Any, Any]:
    """(x times `scale`, or 0 with probability p; which elements are kept), drawn in the order of the memory of dense `x`.

    source: gives the generator that draws.
    """
    out, mask, count = MEMORY.empty_like(x), MEMORY.empty_like(x, np.bool_), 2 * x.size

    def drawn() -> tuple[int, int, Any]:
        generator = source()
        with generator.lock:
            seed, offset, place = generator.engine.take(count)
        return signed(seed), signed(offset), place

    arguments = x, out, mask, x.size, math.ceil((1 - p) * 2.0**53), scale
    _dropout(x.dtype)((_cuda.blocks_for(-(-x.size // 2)),), (_cuda.THREADS,), arguments, drawn)
    return out, mask
