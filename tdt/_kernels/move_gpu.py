"""Elements moved on a GPU in one launch: copies of views, triangles of matrices, elements at indices, one-hot."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels._gpu_conditions import MOST_DIMENSIONS as MOST
from tdt._kernels.capture_gpu import signed
from tdt._kernels.programs_gpu import MEMORY, depending

# Results are contiguous. `from`: of an element's index in the result to its place in the operand.
SOURCE = (
    f"""
struct steps {{ whole size[{MOST}], from[{MOST}], at[{MOST}]; }};
"""
    + r"""
extern "C" __global__ void copy_view(const word* x, word* out, long long count, long long rank, long long first,
                                     const __grid_constant__ steps z) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        whole rest = (whole)i, from = (whole)first;
        for (int d = (int)rank - 1; d >= 0; d--) {
            from += rest % z.size[d] * z.from[d];
            rest /= z.size[d];
        }
        out[i] = x[from];
    }
}

extern "C" __global__ void fill(word* out, long long count, long long rank, long long value,
                                const __grid_constant__ steps z) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        whole rest = (whole)i, at = 0;
        for (int d = (int)rank - 1; d >= 0; d--) {
            at += rest % z.size[d] * z.at[d];
            rest /= z.size[d];
        }
        out[at] = (word)value;
    }
}

extern "C" __global__ void triangle(const word* x, word* out, long long count, long long rank, long long edge, long long lower,
                                    const __grid_constant__ steps z) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        whole rest = (whole)i, from = 0, row = 0, column = 0;
        for (int d = (int)rank - 1; d >= 0; d--) {
            const whole k = rest % z.size[d];
            rest /= z.size[d];
            from += k * z.from[d];
            row = d == rank - 2 ? k : row;
            column = d == rank - 1 ? k : column;
        }
        out[i] = (column - row <= edge) == (lower != 0) ? x[from] : (word)0;
    }
}

extern "C" __global__ void gather(const word* x, const index_type* index, word* out, unsigned long long* largest, long long count,
                                  long long rank, long long dim, long long n, long long along,
                                  const __grid_constant__ steps z) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        whole rest = (whole)i, from = 0, at = 0;
        for (int d = (int)rank - 1; d >= 0; d--) {
            const whole k = rest % z.size[d];
            rest /= z.size[d];
            from += d == dim ? 0 : k * z.from[d];
            at += k * z.at[d];
        }
        const unsigned long long place = (unsigned long long)(long long)index[at];
        out[i] = place < (unsigned long long)n ? x[from + (long long)place * along] : (word)0;
        if (place >= (unsigned long long)n) atomicMax(largest, place);
    }
}
"""
)
# Each sum in the order of the indices. `count`: sizes of `index`, beyond which nothing is added.
ADDED = (
    f"""
struct places {{ whole size[{MOST}], from[{MOST}], at[{MOST}], count[{MOST}]; }};
"""
    + r"""
extern "C" __global__ void add_gathered(const STORED* g, const index_type* index, STORED* out, long long count, long long rank,
                                        long long dim, const __grid_constant__ places z) {
    const long long step = (long long)gridDim.x * blockDim.x;
    const whole n = z.count[dim], along = z.at[dim], apart = z.from[dim];
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        whole rest = (whole)i, from = 0, at = 0, own = 0;
        bool inside = true;
        for (int d = (int)rank - 1; d >= 0; d--) {
            const whole k = rest % z.size[d];
            rest /= z.size[d];
            if (d == dim) own = k;
            else {
                inside = inside && k < z.count[d];
                from += k * z.from[d];
                at += k * z.at[d];
            }
        }
        REAL sum = 0;
        for (whole j = 0; inside && j < n; j++)
            if (index[at + j * along] == own) sum += load(g[from + j * apart]);
        store(out + i, sum);
    }
}
"""
)
ONE_HOT = r"""
extern "C" __global__ void one_hot(const long long* classes, long long* out, unsigned long long* largest, long long count,
                                   long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const long long own = classes[i / n];
        out[i] = own == i % n;
        if ((unsigned long long)own >= (unsigned long long)n) atomicMax(largest, (unsigned long long)own);
    }
}
"""
INDEX = {np.dtype(np.int64): "long long", np.dtype(np.int32): "int"}


def _launch(
    name: str, out: Any, arrays: tuple, numbers: tuple, views: tuple, index: Any = None, end: tuple = ()
) -> Any:
    """`out`, computed by a kernel of SOURCE from arrays.

    Args:
        numbers: that follow the count and the rank.
        views: arrays of the result's shape, whose strides are `from` and `at`.
        index: whose type is `index_type`.
    """
    kind, word = _cuda.WORDS[out.itemsize]
    whole, kind_of_whole = _cuda.whole(out, *views)
    z = np.zeros((3, MOST), kind_of_whole)
    z[0, : out.ndim] = out.shape
    for row, view in zip(z[1:], views, strict=False):
        row[: out.ndim] = _steps(view)
    types = f"{whole}typedef {word} word;\ntypedef {'int' if index is None else INDEX[index.dtype]} index_type;\n"
    x, *others = arrays
    arguments = (x.view(kind), *others, out.view(kind), *end, out.size, out.ndim, *numbers, _cuda.opaque(z.reshape(-1)))
    kernel: Callable[..., None] = _cuda.compiled(SOURCE, name, types)
    kernel((_cuda.blocks_for(out.size),), (_cuda.THREADS,), arguments)
    return out


def filled(out: Any, value: Any) -> Any:
    """`out`, each element of which is set to a number of its dtype."""
    kernel, kind, blocks, steps = _filling(out.shape, out.strides, out.itemsize)
    bits = signed(int(np.asarray(value).view(kind)))
    kernel((blocks,), (_cuda.THREADS,), (out.view(kind), out.size, out.ndim, bits, steps))
    return out


@functools.lru_cache(_cuda.MOST_STRUCTS)
def _filling(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple:
    """The kernel that fills arrays which lie so, the type of its words, blocks, and its last argument."""
    kind, word = _cuda.WORDS[itemsize]
    like = np.lib.stride_tricks.as_strided(np.empty(1, kind), shape, strides)
    whole, kind_of_whole = _cuda.whole(like)
    z = np.zeros((3, MOST), kind_of_whole)
    z[0, : len(shape)], z[2, : len(shape)] = shape, [s // itemsize for s in strides]
    kernel = _cuda.compiled(SOURCE, "fill", f"{whole}typedef {word} word;\ntypedef int index_type;\n")
    return kernel, kind, _cuda.blocks_for(like.size), _cuda.opaque(z.reshape(-1))


def copied_view(x: Any, view: Any) -> Any:
    """A contiguous copy of a view of x."""
    first = (view.data.ptr - x.data.ptr) // x.itemsize
    return _launch("copy_view", MEMORY.empty(view.shape, x.dtype), (x,), (first,), (view,))


def triangle(x: Any, *, edge: int, lower: bool) -> Any:
    """A contiguous copy of matrices, with zeros above diagonal `edge`; or up to it, if not `lower`."""
    return _launch("triangle", MEMORY.empty(x.shape, x.dtype), (x,), (edge, int(lower)), (x,))


def gather(x: Any, index: Any, *, dim: int, message: str = "") -> Any:
    """The elements of x at `index` along `dim`, which has as many dimensions; one out of range is reported at the next read.

    Args:
        message: of the IndexError, for another than that of `gather`.
    """
    n = x.shape[dim]
    message = message or f"index {{value}} is out of bounds for dimension {dim} with size {{limit}}"
    largest = depending(_backend.largest_index, _backend.gpu(), n, message)
    along = x.strides[dim] // x.itemsize
    out = MEMORY.empty(index.shape, x.dtype)
    return _launch("gather", out, (x, index), (dim, n, along), (x, index), index, (largest,))


def gather_grad(g: Any, index: Any, *, shape: tuple[int, ...], dim: int) -> Any:
    """The gradient of `gather` of an array of a shape: the sums of `g` over the places of `index` that name an element."""
    out = MEMORY.empty(shape, g.dtype)
    whole, kind = _cuda.whole(out, g, index)
    z = np.zeros((4, MOST), kind)
    for row, numbers in zip(z, (shape, _steps(g), _steps(index), index.shape), strict=True):
        row[: out.ndim] = numbers
    letter = _cuda.LETTERS[g.dtype]
    types = f"{whole}typedef {INDEX[index.dtype]} index_type;\n"
    kernel = _cuda.compiled(_of_type(letter), "add_gathered", types)
    arguments = g, index, out, out.size, out.ndim, dim, _cuda.opaque(z.reshape(-1))
    kernel((_cuda.blocks_for(out.size),), (_cuda.THREADS,), arguments)
    return out


@functools.cache
def _of_type(letter: str) -> str:
    real = "double" if letter == "d" else "float"
    return ADDED.replace("STORED", _cuda.STORED[letter]).replace("REAL", real)


def _steps(x: Any) -> list[int]:
    """The strides of an array in elements."""
    return [s // x.itemsize for s in x.strides]


def one_hot(classes: Any, *, count: int, message: str) -> Any:
    """(*, count) of int64: 1 at the class of each of contiguous `classes` (*). message: of the error for one out of range."""
    out = MEMORY.empty((*classes.shape, count), np.dtype(np.int64))
    largest = depending(_backend.largest_index, _backend.gpu(), count, message)
    kernel = _cuda.compiled(ONE_HOT, "one_hot")
    kernel((_cuda.blocks_for(out.size),), (_cuda.THREADS,), (classes, out, largest, out.size, count))
    return out
