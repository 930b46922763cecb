"""Group norm on a GPU: a block for each group of a sample, in one launch each way.

Parts of a group's sum are added up in `slots`: each has some channels and some of their places, the same ones however the images
lie, so that the sums have the same bits. Threads that are neighbours take slots that are neighbours in memory. Statistics and
parameters of images in half precision are float32.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from tdt._kernels import _cuda, capture_gpu
from tdt._kernels.norm_gpu import channel_kernel, steps_of, wide
from tdt._kernels.programs_gpu import MEMORY

SLOTS = 1024  # of a block, at most

SOURCE = (
    f"enum {{ SLOTS = {SLOTS} }};\n"
    + r"""
struct steps { long long n, c, l; };
// A slot has the channels c, c + lines, ... of a group, and of each the places j, j + across, ...; slots = lines * across.
struct sizes { long long samples, groups, channels, length, lines, across, last; };

// Each slot of a thread: a group's channels lie side by side in memory if `last`, else the places of a channel do.
#define EACH_SLOT for (int t = threadIdx.x; t < z.lines * z.across; t += blockDim.x)
#define LINE (z.last ? t % z.lines : t / z.across)
#define ACROSS (z.last ? t / z.lines : t % z.across)
#define EACH_CHANNEL for (long long c = LINE; c < z.channels; c += z.lines)
#define EACH_PLACE for (long long l = ACROSS; l < z.length; l += z.across)

// Sums of what slots have found, by halves: over the places of each channel, into the slot of place 0; then over the channels.
__device__ void add_places(real* found, const sizes& z) {
    __syncthreads();
    for (long long half = z.across / 2; half; half /= 2) {
        for (long long t = threadIdx.x; t < z.lines * half; t += blockDim.x) {
            const long long at = t / half * z.across + t % half;
            found[at] = found[at] + found[at + half];
        }
        __syncthreads();
    }
}
__device__ real add_lines(real* found, const sizes& z) {
    __syncthreads();
    for (long long half = z.lines / 2; half; half /= 2) {
        for (long long t = threadIdx.x; t < half; t += blockDim.x)
            found[t * z.across] = found[t * z.across] + found[(t + half) * z.across];
        __syncthreads();
    }
    const real sum = found[0];
    __syncthreads();
    return sum;
}
__device__ real add_up(real* found, const sizes& z) {
    add_places(found, z);
    return add_lines(found, z);
}

extern "C" __global__ void __launch_bounds__(1024) group_norm(
    const stored* x, const real* w, const real* b, stored* out, real* mean, real* rstd, sizes z, steps at, double eps) {
    __shared__ real found[SLOTS];
    const real count = (real)(z.channels * z.length);
    for (long long block = blockIdx.x; block < z.samples * z.groups; block += gridDim.x) {
        const long long first = block % z.groups * z.channels, begin = block / z.groups * at.n + first * at.c;
        EACH_SLOT {
            long_sum<real> values;
            EACH_CHANNEL EACH_PLACE values += load(x[begin + c * at.c + l * at.l]);
            found[LINE * z.across + ACROSS] = values.value();
        }
        const real middle = add_up(found, z) / count;
        EACH_SLOT {
            long_sum<real> around;
            EACH_CHANNEL EACH_PLACE { const real value = load(x[begin + c * at.c + l * at.l]) - middle; around += value * value; }
            found[LINE * z.across + ACROSS] = around.value();
        }
        const real root = 1 / sqrt(add_up(found, z) / count + (real)eps);
        EACH_SLOT EACH_CHANNEL {
            const real scale = w ? w[first + c] : (real)1, shift = b ? b[first + c] : (real)0;
            EACH_PLACE {
                const long long place = begin + c * at.c + l * at.l;
                store(out + place, (load(x[place]) - middle) * root * scale + shift);
            }
        }
        if (threadIdx.x == 0) mean[block] = middle, rstd[block] = root;
        __syncthreads();
    }
}

// Each block leaves the sums of its channels in `parts`; the last one of a group adds up those of all samples. The groups from
// `group` on, of which the launch has `here`.
extern "C" __global__ void __launch_bounds__(1024) group_norm_vjp(
    const stored* g, const stored* x, const real* w, const real* mean, const real* rstd, const real* g_mean, const real* g_rstd,
    stored* gx, real* gw, real* gb, real* parts, unsigned int* tickets, sizes z, steps at, steps of_g, long long group,
    long long here) {
    __shared__ real plain[SLOTS], weighted[SLOTS];
    const long long own = group + blockIdx.x % here, sample = blockIdx.x / here, block = sample * z.groups + own;
    const long long first = own * z.channels, all = z.groups * z.channels;
    const long long begin = sample * at.n + first * at.c, begin_of_g = sample * of_g.n + first * of_g.c;
    const real middle = mean[block], root = rstd[block], count = (real)(z.channels * z.length);
    real slopes = 0, products = 0;  // of the group, weighted
    for (long long from = 0; from < z.channels; from += z.lines) {  // so many channels at a time
        EACH_SLOT {
            const long long c = from + LINE, slot = LINE * z.across + ACROSS;
            long_sum<real> slope, product;
            if (c < z.channels)
                EACH_PLACE {
                    const real value = load(g[begin_of_g + c * of_g.c + l * of_g.l]);
                    slope += value;
                    product += value * (load(x[begin + c * at.c + l * at.l]) - middle);
                }
            plain[slot] = slope.value(), weighted[slot] = product.value();
        }
        add_places(plain, z);
        add_places(weighted, z);
        for (long long line = threadIdx.x; line < z.lines; line += blockDim.x) {
            const long long c = from + line, slot = line * z.across;
            if (c >= z.channels) continue;
            real* of_channel = parts + 2 * (sample * all + first + c);
            of_channel[0] = weighted[slot] * root, of_channel[1] = plain[slot];
            if (w) plain[slot] *= w[first + c], weighted[slot] *= w[first + c];
        }
        slopes += add_lines(plain, z);
        products += add_lines(weighted, z);
    }
    const real slope = (products * root + (g_rstd ? g_rstd[block] * root : (real)0)) * root * root / count;
    const real shift = (slopes * root - (g_mean ? g_mean[block] : (real)0)) / count;
    EACH_SLOT EACH_CHANNEL {
        const real scale = w ? w[first + c] * root : root;
        EACH_PLACE {
            const long long place = begin + c * at.c + l * at.l;
            const real value = load(g[begin_of_g + c * of_g.c + l * of_g.l]);
            store(gx + place, value * scale - (load(x[place]) - middle) * slope - shift);
        }
    }
    if (!is_last_of(tickets + blockIdx.x % here, (unsigned int)z.samples)) return;
    for (long long from = 0; from < z.channels; from += z.lines) {
        EACH_SLOT {
            const long long c = from + LINE, slot = LINE * z.across + ACROSS;
            double slope = 0, product = 0;
            if (c < z.channels)
                for (long long n = ACROSS; n < z.samples; n += z.across) {
                    const volatile real* of_channel = parts + 2 * (n * all + first + c);
                    product += of_channel[0], slope += of_channel[1];
                }
            weighted[slot] = (real)product, plain[slot] = (real)slope;
        }
        add_places(plain, z);
        add_places(weighted, z);
        for (long long line = threadIdx.x; line < z.lines && from + line < z.channels; line += blockDim.x)
            gw[first + from + line] = weighted[line * z.across], gb[first + from + line] = plain[line * z.across];
        __syncthreads();
    }
}
"""
)


class _Groups(NamedTuple):
    """How groups are gone over: blocks, threads of a block, sizes as kernels take them, channels of a group."""

    samples: int
    groups: int
    threads: int
    sizes: Any


@functools.lru_cache(_cuda.MOST_STRUCTS)
def _groups(shape: tuple[int, ...], groups: int, last: bool) -> _Groups:
    channels, length = shape[1] // groups, math.prod(shape[2:])
    slots = min(_cuda.threads_for(channels * length), SLOTS)
    lines = min(1 << (channels - 1).bit_length(), slots)
    sizes = _cuda.struct((shape[0], groups, channels, length, lines, slots // lines, int(last)))
    return _Groups(shape[0], groups, slots, sizes)


def _plan(x: Any, groups: int) -> tuple[_Groups, Any]:
    """How the groups of `x` are gone over, and how its elements lie."""
    return _groups(x.shape, groups, not x.flags.c_contiguous), steps_of(x)


def group_norm(x: Any, w: Any = None, b: Any = None, *, groups: int, eps: float) -> tuple[Any, Any, Any]:
    """`x` (N, C, *), contiguous or channels-last, normalised over groups of channels; mean and 1 / deviation of each group."""
    (of, at), dtype = _plan(x, groups), wide(x.dtype)
    out, mean, rstd = MEMORY.empty_like(x), *(MEMORY.empty((of.samples, groups), dtype) for _ in range(2))
    blocks = min(of.samples * groups, _cuda.MOST_BLOCKS)
    kernel = channel_kernel(SOURCE, "group_norm", x.dtype)
    kernel((blocks,), (of.threads,), (x, w, b, out, mean, rstd, of.sizes, at, float(eps)))
    return out, mean, rstd


def group_norm_vjp(g: Any, x: Any, w: Any, mean: Any, rstd: Any, g_mean: Any, g_rstd: Any) -> tuple[Any, Any, Any]:
    """The gradients of x, w and b. g_mean, g_rstd: None where they have none."""
    groups, channels, dtype = mean.shape[1], x.shape[1], wide(x.dtype)
    of, at = _plan(x, groups)
    gx, gw, gb = MEMORY.empty_like(x), *(MEMORY.empty(channels, dtype) for _ in range(2))
    parts = MEMORY.empty((of.samples, channels, 2), dtype)
    kernel = channel_kernel(SOURCE, "group_norm_vjp", x.dtype)
    arrays = g, x, w, mean, rstd, g_mean, g_rstd, gx, gw, gb, parts, capture_gpu.tickets()
    for group in range(0, groups, capture_gpu.TICKETS):
        here = min(groups - group, capture_gpu.TICKETS)
        kernel((of.samples * here,), (of.threads,), (*arrays, of.sizes, at, steps_of(g), group, here))
    return gx, gw, gb
