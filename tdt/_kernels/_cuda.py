"""CUDA C for CuPy's arrays: what all kernels begin with, and their launch.

Kernels are compiled by NVRTC when they are first called, for the GPU that calls them, and kept by CuPy in its cache on the
disk. `-fmad=false` keeps a product and a sum from being rounded once instead of twice: `fma` stands only where a formula has
it. No header is included, so that neither a compiler nor CUDA's headers need be installed.

Every kernel is correct for any number of threads in a block and of blocks: its loops advance by `blockDim` and `gridDim`.
So the tests compile it for the host, once with one thread a block and once with all of them (tests/gpu/standin/cupy/_raw.py).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tdt import _backend
from tdt._backend.waiting import CURRENT, launch_waiting

# CuPy appends -ftz=true, by which float32's subnormal numbers would become zero. Here -I takes it as the name of a folder.
OPTIONS = ("-fmad=false", "--std=c++17", "-I")
THREADS = 256  # of a block, for elementwise work
MOST_BLOCKS = 1 << 16  # beyond, a thread computes several elements
LONGEST_BLOCK = 1024  # threads
MOST_STRUCTS = 1 << 14  # that are saved for other launches
MOST_INT = 1 << 30  # elements that are counted in 32 bits: divisions of longer integers take most of a kernel's time

# The type in which memory holds elements, by NumPy's letter ("E": bfloat16), and that in which they are computed.
STORED = {"f": "float", "d": "double", "e": "half_bits", "E": "bfloat_bits", "?": "bool"}
LETTERS = {np.dtype(letter): letter for letter in "fde?"} | {np.dtype(ml_dtypes.bfloat16): "E"}
# Unsigned integers of so many bytes, for kernels that copy elements of any type.
WORDS = {1: (np.uint8, "unsigned char"), 2: (np.uint16, "unsigned short"), 4: (np.uint32, "unsigned int"),
         8: (np.uint64, "unsigned long long")}  # fmt: skip

PRELUDE = r"""
struct half_bits { unsigned short bits; };    // float16
struct bfloat_bits { unsigned short bits; };  // bfloat16

__device__ __forceinline__ float load(float x) { return x; }
__device__ __forceinline__ double load(double x) { return x; }
__device__ __forceinline__ bool load(bool x) { return x; }
__device__ __forceinline__ float load(bfloat_bits x) { return __int_as_float((int)x.bits << 16); }
__device__ __forceinline__ void store(float* at, float x) { *at = x; }
__device__ __forceinline__ void store(double* at, double x) { *at = x; }
__device__ __forceinline__ void store(bool* at, bool x) { *at = x; }
__device__ __forceinline__ void store(bfloat_bits* at, float x) {  // to the nearest, ties to even; NaN keeps its sign
    unsigned int bits = (unsigned int)__float_as_int(x);
    bits = x != x ? (bits & 0x80000000u) | 0x7FC00000u : bits + 0x7FFFu + (bits >> 16 & 1u);
    at->bits = (unsigned short)(bits >> 16);
}
#ifdef __CUDACC__
__device__ __forceinline__ float load(half_bits x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
}
__device__ __forceinline__ void store(half_bits* at, float x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(at->bits) : "f"(x));
}
#endif

// A thread's sum of many values, with what rounding loses kept beside it (A. Neumaier, 1974).
template <class T> struct long_sum {
    T total = 0, lost = 0;
    __device__ void operator+=(T x) {
        const T next = total + x;
        lost += fabs(total) >= fabs(x) ? (total - next) + x : (x - next) + total;
        total = next;
    }
    __device__ T value() const { return lost == lost ? total + lost : total; }  // infinite sums lose NaN
};

// The sum of all threads' values, which every thread gets. At most 1,024 threads, in whole warps or fewer than one.
template <class T> __device__ T block_sum(T x) {
    __shared__ T parts[33];
    const int lanes = blockDim.x < 32 ? blockDim.x : 32;
    for (int step = 16; step; step >>= 1) {
        const T other = __shfl_down_sync(0xFFFFFFFFu, x, step);
        if ((int)(threadIdx.x & 31) + step < lanes) x += other;
    }
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = x;
    __syncthreads();
    if (threadIdx.x == 0) {
        T total = parts[0];
        for (int k = 1; k < (int)(blockDim.x + 31) / 32; k++) total += parts[k];
        parts[32] = total;
    }
    __syncthreads();
    const T total = parts[32];
    __syncthreads();
    return total;
}

// The largest of all threads' values; NaN if one is NaN.
template <class T> __device__ T block_max(T x) {
    __shared__ T parts[33];
    const int lanes = blockDim.x < 32 ? blockDim.x : 32;
    for (int step = 16; step; step >>= 1) {
        const T other = __shfl_down_sync(0xFFFFFFFFu, x, step);
        if ((int)(threadIdx.x & 31) + step < lanes && (other > x || other != other)) x = other;
    }
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = x;
    __syncthreads();
    if (threadIdx.x == 0) {
        T largest = parts[0];
        for (int k = 1; k < (int)(blockDim.x + 31) / 32; k++)
            if (parts[k] > largest || parts[k] != parts[k]) largest = parts[k];
        parts[32] = largest;
    }
    __syncthreads();
    const T largest = parts[32];
    __syncthreads();
    return largest;
}

// Whether this block is the last of `count` that ask, each once; it then sees what the others have written before. *ticket
// (capture_gpu.tickets) is 0 before the launch and after it. Such memory must be read as volatile: a block may have older copies.
static __device__ bool is_last_of(unsigned int* ticket, unsigned int count) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        last = atomicAdd(ticket, 1u) == count - 1;
        if (last) *ticket = 0;
    }
    __syncthreads();
    const bool found = last;
    __threadfence();
    __syncthreads();
    return found;
}
"""


@functools.cache
def compiled(source: str, name: str, before: str = "") -> Callable[..., None]:
    """The kernel `name` of CUDA C, which follows `PRELUDE` and `before`: a function of (blocks), (threads), (arguments).

    A fourth argument is a function that gives the last arguments, and is called anew where a program repeats the launch.

    A call finds it by a constant `source` at once: a text that is put together anew would be read from end to end.
    Arguments: CuPy's arrays for pointers; int for long long, float for double; what `opaque` gives for a struct.
    """
    kernel = bare(source, name, before)

    def launch(
        blocks: tuple[int, ...], threads: tuple[int, ...], arguments: tuple, further: Callable[[], tuple] | None = None
    ) -> None:
        launch_waiting()
        kernel(blocks, threads, arguments if further is None else (*arguments, *further()))
        if CURRENT.notes is not None:
            CURRENT.notes.launch(kernel, blocks, threads, arguments, further)

    return launch


@functools.cache
def bare(source: str, name: str, before: str = "") -> Callable[..., None]:
    """As `compiled`; elementwise kernels that wait to be launched (`chains_gpu`) go on waiting."""
    kernel: Callable[..., None] = _backend.gpu().RawKernel(PRELUDE + before + source, name, OPTIONS)
    return kernel


@functools.cache
def of_type(source: str, name: str, dtype: Any, before: str = "") -> Callable[..., None]:
    """The kernel `name` of CUDA C in which `real` stands for float32 or float64."""
    return compiled(source, name, f"typedef {STORED[LETTERS[dtype]]} real;\n{before}")


def each_alone(source: str) -> dict[str, str]:
    """For each kernel of CUDA C by name, the source in which it is the only one: the others are functions that nothing calls."""
    kernels = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(')

    def only(name: str) -> str:
        return kernels.sub(
            lambda found: found[0] if found[1] == name else f"static __device__ void {found[1]}(", source
        )

    return {name: only(name) for name in kernels.findall(source)}


def blocks_for(count: int, threads: int = THREADS) -> int:
    """Blocks for `count` elements, one for each thread as far as possible."""
    return min(-(-count // threads), MOST_BLOCKS)


def threads_for(length: int) -> int:
    """Threads of a block that goes over a row of so many elements: whole warps.

    Such a kernel has `__launch_bounds__(1024)`: else the compiler may give it more registers than so many threads can have.
    """
    return min(max(32, 1 << math.ceil(math.log2(max(length, 1)))), LONGEST_BLOCK) if length > 32 else 32


def whole(*arrays: Any) -> tuple[str, type]:
    """What counts the elements of arrays: the type `whole` in CUDA C, of 32 bits where their memory allows, and NumPy's."""
    # A kernel gets the stride of a dimension of size 1, too.
    ends = [sum(max(n - 1, 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True)) // a.itemsize for a in arrays]
    long = max(*ends, *(a.size for a in arrays)) >= MOST_INT
    return ("typedef long long whole;\n", np.int64) if long else ("typedef int whole;\n", np.int32)


@functools.lru_cache(MOST_STRUCTS)
def struct(numbers: tuple[int, ...], kind: type = np.int64) -> np.ndarray:
    """A struct of so many `long long`, or integers of another kind, to be passed by value."""
    return opaque(np.array(numbers, kind))


def opaque(numbers: np.ndarray) -> np.ndarray:
    """The memory of an array as one element without a type: to pass a struct, CuPy describes its fields one by one, in 10 µs."""
    return numbers.view(_bytes_of(numbers.nbytes))


def as_constant(argument: Any) -> Any:
    """An argument for many launches: a number or a struct as the address of its bytes, which CuPy would pack in each launch."""
    if argument.__class__ is int or argument.__class__ is float:
        argument = np.array([argument])
    if argument.__class__ is not np.ndarray:
        return argument
    return _constant(_backend.gpu().cuda.function.CPointer)(argument)


@functools.cache
def _constant(base: Any) -> Any:
    class Constant(base):  # type: ignore[misc]
        """A parameter of kernels, and its memory."""

        def __init__(self, value: np.ndarray):
            super().__init__(value.ctypes.data)
            self.value = value

    return Constant


@functools.cache
def _bytes_of(count: int) -> np.dtype:
    return np.dtype(f"V{count}")
