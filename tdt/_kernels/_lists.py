"""Many of CuPy's arrays in one launch: their addresses and sizes are a parameter of the kernel.

To put them in memory of the GPU would be an upload in each step, since gradients have new addresses each time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tdt._backend.waiting import refuse_program
from tdt._kernels import _cuda

MOST = 100  # arrays of a launch: a kernel's parameters have 4 KB
CHUNK = 4096  # elements that a block goes over at a time

# `LOOP` runs its body for each element that a thread has: `array` is the array's place, `k` that in the array.
SOURCE = f"""
enum {{ CHUNK = {CHUNK} }};
struct arrays {{
    unsigned long long at[COLUMNS][{MOST}];
    long long start[{MOST}];      // where the elements of each lie in arrays that hold those of all
    long long size[{MOST}];
    int first[{MOST + 1}];        // the first chunk of each; at the end, how many there are
    int count;
}};
__device__ __forceinline__ int array_of(const arrays& all, int chunk) {{
    int low = 0, high = all.count;
    while (high - low > 1) {{
        const int middle = (low + high) / 2;
        if (all.first[middle] <= chunk) low = middle; else high = middle;
    }}
    return low;
}}
#define LOOP(all) \\
    for (int chunk = blockIdx.x; chunk < all.first[all.count]; chunk += gridDim.x) \\
        for (long long array = array_of(all, chunk), base = (long long)(chunk - all.first[array]) * CHUNK, \\
             end = base + CHUNK < all.size[array] ? base + CHUNK : all.size[array], k = base + threadIdx.x; \\
             k < end; k += blockDim.x)
"""


def source(columns: int) -> str:
    """The CUDA C of a parameter `arrays` with so many lists of arrays of equal sizes."""
    return SOURCE.replace("COLUMNS", str(columns))


@functools.cache
def fields(columns: int) -> np.dtype:
    """The fields of a parameter `arrays` with so many lists."""
    return np.dtype(
        [("at", np.uint64, (columns, MOST)), ("start", np.int64, MOST), ("size", np.int64, MOST),
         ("first", np.int32, MOST + 1), ("count", np.int32)]
    )  # fmt: skip


def parameters(columns: Sequence[Sequence[Any]], start: int = 0) -> Iterator[tuple[np.ndarray, int]]:
    """For each launch, the parameter `arrays` and how many blocks it takes. columns: lists of dense arrays of equal sizes.

    start: where the first element lies in arrays that hold those of all.
    """
    return of_launches(launches(columns[0], len(columns), start), columns[1:])


def launches(column: Sequence[Any], columns: int, start: int = 0) -> list[tuple[np.ndarray, int]]:
    """As `parameters` of so many lists of which the first is known: the others' addresses are not filled in."""
    refuse_program()  # the addresses are a number for it
    found, kind = [], fields(columns)
    for lo in range(0, len(column), MOST):
        part = column[lo : lo + MOST]
        sizes = [a.size for a in part]
        count, one = len(sizes), np.zeros(1, kind)
        one["at"][0, 0, :count] = [a.data.ptr for a in part]
        ends = np.cumsum(sizes)
        one["start"][0, :count] = start + ends - sizes
        one["size"][0, :count] = sizes
        one["first"][0, 1 : count + 1] = np.cumsum([-(-size // CHUNK) for size in sizes])
        one["count"] = count
        start += int(ends[-1])
        found.append((one, int(one["first"][0, count])))
    return found


def of_launches(
    known: list[tuple[np.ndarray, int]], columns: Sequence[Sequence[Any]]
) -> Iterator[tuple[np.ndarray, int]]:
    """What `parameters` gives of these launches and the lists of arrays that are not the first."""
    for k, (one, blocks) in enumerate(known):
        if blocks:
            for place, column in enumerate(columns, 1):
                part = [a.data.ptr for a in column[k * MOST : (k + 1) * MOST]]
                one["at"][0, place, : len(part)] = part
            yield _cuda.opaque(one), blocks
