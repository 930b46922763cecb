"""Philox4x32-10 on a GPU: the words of `tdt/_random/_philox.py`, and what draws by them itself: uniform and normal numbers."""

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
from tdt._kernels._registry import UFUNCS
from tdt._kernels.capture_gpu import signed
from tdt._kernels.programs_gpu import MEMORY, Programs

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

# PER uniform numbers of as many bits as `real` holds are made of a block of four words, by the formulas of `tdt/_random`.
NUMBERS = r"""
__device__ __forceinline__ real unit(words w, int k) {
    const unsigned int all[4] = {w.a, w.b, w.c, w.d};
    if (PER == 4) return (real)(all[k] & 0xFFFFFFu) * (real)5.9604644775390625e-8;
    return (real)(((unsigned long long)all[2 * k] << 32 | all[2 * k + 1]) & 0x1FFFFFFFFFFFFFull) * (real)1.1102230246251565e-16;
}

extern "C" __global__ void uniform(real* out, long long count, double low, double high, long long seed, long long offset,
                                   const long long* place) {
    FROM_PLACE
    const real first = (real)low, last = (real)high, width = last - first;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; PER * i < count; i += step) {
        const words w = philox(seed, offset + i);
        for (int k = 0; k < PER && PER * i + k < count; k++) {
            const real value = fma(unit(w, k), width, first);
            out[PER * i + k] = value >= last ? first : value;
        }
    }
}

// By G. Box and M. Muller (1958), of each 16 numbers 8 radii and 8 angles.
extern "C" __global__ void normal(real* out, long long count, double mean, double std, long long seed, long long offset,
                                  const long long* place) {
    FROM_PLACE
    enum { HALF = 8 / PER };
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i / HALF * 16 < count; i += step) {
        const long long from = i / HALF * 2 * HALF + i % HALF, first = i / HALF * 16 + i % HALF * PER;
        const words radii = philox(seed, offset + from), angles = philox(seed, offset + from + HALF);
        for (int k = 0; k < PER; k++) {
            const real radius = sqrt((real)-2 * log((real)1 - unit(radii, k)));
            const real angle = (real)6.283185307179586 * unit(angles, k);
            const real pair[2] = {radius * cos(angle), radius * sin(angle)};
            for (int half = 0; half < 2; half++)
                if (first + k + 8 * half < count) out[first + k + 8 * half] = pair[half] * (real)std + (real)mean;
        }
    }
}
"""

INTEGERS = r"""
extern "C" __global__ void integers(long long* out, long long count, long long low, long long span, long long seed,
                                    long long offset, const long long* place) {
    FROM_PLACE
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; PER * i < count; i += step) {
        const words w = philox(seed, offset + i);
        const unsigned int all[4] = {w.a, w.b, w.c, w.d};
        for (int k = 0; k < PER && PER * i + k < count; k++) {
            const unsigned long long word = PER == 4 ? all[k] : (unsigned long long)all[2 * k] << 32 | all[2 * k + 1];
            out[PER * i + k] = (long long)((unsigned long long)low + word % (unsigned long long)span);
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


_drawn = Programs()
UFUNCS.append(_drawn)


def _filled(
    kernel: Callable[..., None],
    engine: Any,
    shape: tuple[int, ...],
    dtype: Any,
    per: int,
    drawn: int,
    numbers: tuple,
    each: int,
) -> Any:
    """An array, filled by a kernel that makes `per` numbers of a block of four words.

    Args:
        drawn: how many numbers are drawn.
        numbers: arguments of the kernel.
        each: how many of the array's elements a thread fills.
    """

    def new() -> Any:
        out = MEMORY.empty(shape, dtype)
        if out.size:
            blocks = (_cuda.blocks_for(-(-out.size // each)),)
            kernel(blocks, (_cuda.THREADS,), (out, out.size, *numbers), _taking(engine, 4 // per * drawn))
        return out

    found = _drawn.of((kernel, engine, shape, *(x or repr(x) for x in numbers)), ())
    if found is None:
        refuse_program()
        return new()
    return found(new, ())


def _taking(engine: Any, count: int) -> Callable[[], tuple[int, int, Any]]:
    """What gives a launch its last arguments: seed, offset and place of the next `count` words, as of `Philox.take`."""

    def take() -> tuple[int, int, Any]:
        seed, offset, place = engine.take(count)
        return signed(seed), signed(offset), place

    return take


@functools.cache
def _of_floats(name: str, dtype: Any) -> tuple[Callable[..., None], int]:
    """A kernel of NUMBERS, and how many numbers it makes of a block."""
    per = 16 // dtype.itemsize
    return _cuda.of_type(NUMBERS, name, dtype, f"{PHILOX}enum {{ PER = {per} }};\n"), per


def uniform(engine: Any, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
    """As `draws.uniform`, of float32 or float64."""
    kernel, per = _of_floats("uniform", dtype)
    return _filled(kernel, engine, shape, dtype, per, math.prod(shape), (float(low), float(high)), per)


def normal(engine: Any, shape: tuple[int, ...], dtype: Any, mean: float, std: float) -> Any:
    """As `continuous.normal`, of float32 or float64."""
    kernel, per = _of_floats("normal", dtype)
    drawn = -(-math.prod(shape) // 16) * 16
    return _filled(kernel, engine, shape, dtype, per, drawn, (float(mean), float(std)), 2 * per)


@functools.cache
def _of_integers(per: int) -> Callable[..., None]:
    return _cuda.compiled(INTEGERS, "integers", f"{PHILOX}enum {{ PER = {per} }};\n")


def integers(engine: Any, shape: tuple[int, ...], dtype: Any, low: int, high: int, wide: bool) -> Any:
    """Numbers of int64 from `low` on, below `high`: remainders of words, or of two words if `wide`. None: of all numbers."""
    if high - low == 1 << 64:
        return None
    per = 2 if wide else 4
    return _filled(_of_integers(per), engine, shape, dtype, per, math.prod(shape), (low, signed(high - low)), per)


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
            return _taking(generator.engine, count)()

    arguments = x, out, mask, x.size, math.ceil((1 - p) * 2.0**53), scale
    _dropout(x.dtype)((_cuda.blocks_for(-(-x.size // 2)),), (_cuda.THREADS,), arguments, drawn)
    return out, mask
