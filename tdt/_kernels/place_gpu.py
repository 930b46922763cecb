"""Parts of arrays put into new ones on a GPU: borders, gradients of slices and of selected elements, arrays after each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import empty_output
from tdt._kernels import _cuda
from tdt._kernels._gpu_conditions import MOST_DIMENSIONS as MOST
from tdt._kernels._gpu_conditions import MOST_JOINED as PARTS
from tdt._kernels.programs_gpu import MEMORY

SOURCE = f"""
struct places {{ whole size[{MOST}], start[{MOST}], step[{MOST}], count[{MOST}], to[{MOST}], from[{MOST}]; }};
extern "C" __global__ void place(const word* x, word* out, long long count, long long rank, long long value, places z) {{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {{
        whole rest = (whole)i, at = 0, source = 0;
        bool inside = true;
        for (int d = (int)rank - 1; d >= 0; d--) {{
            const whole k = rest % z.size[d], offset = k - z.start[d], j = z.step[d] == 1 ? offset : offset / z.step[d];
            rest /= z.size[d];
            at += k * z.to[d];
            inside = inside && j >= 0 && j < z.count[d] && j * z.step[d] == offset;
            source += j * z.from[d];
        }}
        out[at] = inside ? x[source] : (word)value;
    }}
}}
"""


def place(x: Any, out: Any, places: Sequence[tuple[int, int]], value: Any = 0) -> Any:
    """Write `x` to `out`, and `value` to what it leaves; `out`.

    Args:
        places: for each dimension the place of the first entry, and the distance to the next.
    """
    kind, name = _cuda.WORDS[out.dtype.itemsize]
    whole, kind_of_whole = _cuda.whole(x, out)
    z = np.zeros((6, MOST), kind_of_whole)
    order = sorted(range(out.ndim), key=lambda d: -out.strides[d])  # neighbours in memory are written by neighbours
    for k, d in enumerate(order):
        start, step = places[d]
        z[:, k] = out.shape[d], start, step, x.shape[d], out.strides[d] // out.itemsize, x.strides[d] // x.itemsize
    kernel = _cuda.compiled(SOURCE, "place", f"{whole}typedef {name} word;\n")
    word = int(np.array(value, out.dtype).view(kind))
    blocks = _cuda.blocks_for(out.size)
    kernel(
        (blocks,),
        (_cuda.THREADS,),
        (x.view(kind), out.view(kind), out.size, out.ndim, _signed(word), _cuda.opaque(z.reshape(-1))),
    )
    return out


def padded(x: Any, shape: tuple[int, ...], places: Sequence[tuple[int, int]], value: Any, like: Any) -> Any:
    """As `place`, in new memory of a shape, channels-last if `like` is."""
    return place(x, empty_output(MEMORY, shape, x.dtype, like), places, value)


def placed(x: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """Zeros of a shape, with `x` at an index of integers, slices and at most one Ellipsis; None for other indices."""
    if Ellipsis in index:
        at = index.index(Ellipsis)
        index = *index[:at], *(slice(None),) * (len(shape) + 1 - len(index)), *index[at + 1 :]
    if len(index) != len(shape) or len(shape) > MOST:
        return None
    places, sizes = [], []
    for n, part in zip(shape, index, strict=True):
        if part.__class__ not in (int, slice):
            return None
        start, stop, step = part.indices(n) if part.__class__ is slice else (part % n, part % n + 1, 1)
        places.append((start, step))
        sizes.append(len(range(start, stop, step)))
    return place(x.reshape(sizes), MEMORY.empty(shape, x.dtype), places)


SELECTED = f"""
struct steps {{ whole size[{MOST}], from[{MOST}], at[{MOST}]; }};
extern "C" __global__ void place_selected(const word* x, const long long* index, word* out, long long count, long long rank,
                                          long long dim, const __grid_constant__ steps z) {{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {{
        whole rest = (whole)i, from = 0, at = 0, along = 0;
        for (int d = (int)rank - 1; d >= 0; d--) {{
            const whole k = rest % z.size[d];
            rest /= z.size[d];
            if (d == dim) along = k;
            from += k * z.from[d];
            at += k * z.at[d];
        }}
        out[i] = index[at] == along ? x[from] : (word)0;
    }}
}}
"""


def selected(x: Any, indices: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Zeros of a shape, with the elements of `x` at `indices` along `dim`, along which both have size 1."""
    out = MEMORY.empty(shape, x.dtype)
    kind, name = _cuda.WORDS[x.itemsize]
    whole, kind_of_whole = _cuda.whole(out, x, indices)
    z = np.zeros((3, MOST), kind_of_whole)
    z[0, : out.ndim] = shape
    for row, array in zip(z[1:], (x, indices), strict=True):
        row[: out.ndim] = [s // array.itemsize for s in array.strides]
        row[dim] = 0
    kernel = _cuda.compiled(SELECTED, "place_selected", f"{whole}typedef {name} word;\n")
    numbers = out.size, out.ndim, dim, _cuda.opaque(z.reshape(-1))
    kernel((_cuda.blocks_for(out.size),), (_cuda.THREADS,), (x.view(kind), indices, out.view(kind), *numbers))
    return out


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


JOIN = f"""
enum {{ PARTS = {PARTS} }};
struct pieces {{ whole size[{MOST}], begin[PARTS + 1], from[PARTS][{MOST}]; }};
extern "C" __global__ void join({", ".join(f"const word* a{k}" for k in range(PARTS))}, word* out, long long count,
                                long long rank, long long dim, long long inner, pieces z) {{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {{
        const whole along = (whole)i / (whole)inner % z.size[dim];
        int part = 0;
        while (z.begin[part + 1] <= along) part++;
        const word* from = {" : ".join(f"part == {k} ? a{k}" for k in range(PARTS - 1))} : a{PARTS - 1};
        whole rest = (whole)i, at = -z.begin[part] * z.from[part][dim];
        for (int d = (int)rank - 1; d >= 0; d--) {{
            at += rest % z.size[d] * z.from[part][d];
            rest /= z.size[d];
        }}
        out[i] = from ? from[at] : (word)0;
    }}
}}
"""


def join(*parts: Any, dim: int, sizes: Sequence[int] = ()) -> Any:
    """Arrays one after another along `dim`, in the order of their indices.

    Args:
        sizes: of the parts along `dim`, where some are None: zeros.
    """
    first = next(x for x in parts if x is not None)
    sizes = sizes or [x.shape[dim] for x in parts]
    kind, name = _cuda.WORDS[first.itemsize]
    shape = *first.shape[:dim], sum(sizes), *first.shape[dim + 1 :]
    out = MEMORY.empty(shape, first.dtype)
    whole, kind_of_whole = _cuda.whole(out, *(x for x in parts if x is not None))
    z = np.zeros(MOST + PARTS + 1 + PARTS * MOST, kind_of_whole)
    begin, steps = z[MOST : MOST + PARTS + 1], z[MOST + PARTS + 1 :].reshape(PARTS, MOST)
    z[: out.ndim], begin[:] = shape, shape[dim]
    begin[: len(parts)] = np.cumsum([0, *sizes[:-1]])
    for k, x in enumerate(parts):
        if x is not None:
            steps[k, : out.ndim] = [s // x.itemsize for s in x.strides]
    kernel = _cuda.compiled(JOIN, "join", f"{whole}typedef {name} word;\n")
    views = [None if x is None else x.view(kind) for x in parts]
    arrays = *views, *(None,) * (PARTS - len(parts)), out.view(kind)
    numbers = out.size, out.ndim, dim, out.strides[dim] // out.itemsize
    kernel((_cuda.blocks_for(out.size),), (_cuda.THREADS,), (*arrays, *numbers, _cuda.opaque(z)))
    return out
