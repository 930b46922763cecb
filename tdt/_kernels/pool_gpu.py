"""Maximum and mean of windows of images on a GPU: one launch forward, one backward, without atomic sums."""

from __future__ import annotations

import math
from typing import Any

from tdt._backend.layout import empty_output
from tdt._backend.windows import output_sizes
from tdt._kernels import _cuda
from tdt._kernels.programs_gpu import MEMORY

# Sizes and strides of small windows are constants of the code, KH, KW, SH and SW; `whole` counts elements.
SOURCES = _cuda.each_alone(r"""
struct sizes {  // of (N, C, H, W), of the result's (H, W), and of windows
    whole channels, height, width, rows, columns, kh, kw, sh, sw, ph, pw, dh, dw;
};
struct steps { whole n, c, h, w; };

// Element i of images as they lie in memory, contiguous or channels-last.
__device__ __forceinline__ steps place_of(whole i, whole channels, whole height, whole width) {
    const whole c = LAST ? i % channels : 0, pixel = LAST ? i / channels : i, row = pixel / width, plane = row / height;
    if (LAST) return {plane, c, row % height, pixel % width};
    return {plane / channels, plane % channels, row % height, pixel % width};
}
__device__ __forceinline__ whole at(const steps& s, whole n, whole c, whole h, whole w) {
    return n * s.n + c * s.c + h * s.h + w * s.w;
}

// The largest cell of a window, or the last NaN; and which cell that is.
__device__ real largest(const real* x, const steps& s, const sizes& z, whole n, whole c, whole row, whole column,
                        whole& winner) {
    real top = 0;
    winner = -1;
    for (whole i = 0; i < KH; i++)
        for (whole j = 0; j < KW; j++) {
            const whole h = row * SH - z.ph + i * z.dh, w = column * SW - z.pw + j * z.dw;
            if (h < 0 || h >= z.height || w < 0 || w >= z.width) continue;
            const real value = x[at(s, n, c, h, w)];
            if (winner < 0 || value > top || value != value) top = value, winner = h * z.width + w;
        }
    return top;
}

extern "C" __global__ void max_pool(const real* x, real* out, long long count, sizes z, steps from, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of((whole)i, z.channels, z.rows, z.columns);
        whole winner;
        out[at(to, o.n, o.c, o.h, o.w)] = largest(x, from, z, o.n, o.c, o.h, o.w, winner);
    }
}

// Each cell adds up the gradients of the windows in which it is the largest.
extern "C" __global__ void max_pool_vjp(const real* g, const real* x, real* gx, long long count, sizes z, steps of_g,
                                        steps from, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of((whole)i, z.channels, z.height, z.width);
        real sum = 0;
        for (whole p = 0; p < KH; p++) {
            const whole down = o.h + z.ph - p * z.dh;
            if (down < 0 || down % SH || down / SH >= z.rows) continue;
            for (whole q = 0; q < KW; q++) {
                const whole right = o.w + z.pw - q * z.dw;
                if (right < 0 || right % SW || right / SW >= z.columns) continue;
                whole winner;
                largest(x, from, z, o.n, o.c, down / SH, right / SW, winner);
                if (winner == o.h * z.width + o.w) sum += g[at(of_g, o.n, o.c, down / SH, right / SW)];
            }
        }
        gx[at(to, o.n, o.c, o.h, o.w)] = sum;
    }
}

// The same of windows that do not overlap, without borders: a thread for each, also for those that images end within.
extern "C" __global__ void max_pool_vjp_apart(const real* g, const real* x, real* gx, long long count, sizes z, steps of_g,
                                              steps from, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    const whole rows = (z.height + KH - 1) / KH, columns = (z.width + KW - 1) / KW;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of((whole)i, z.channels, rows, columns);
        whole winner = -1;
        real slope = 0;
        if (o.h < z.rows && o.w < z.columns) {
            largest(x, from, z, o.n, o.c, o.h, o.w, winner);
            slope += g[at(of_g, o.n, o.c, o.h, o.w)];
        }
        for (whole p = 0; p < KH; p++)
            for (whole q = 0; q < KW; q++) {
                const whole h = o.h * KH + p, w = o.w * KW + q;
                if (h < z.height && w < z.width) gx[at(to, o.n, o.c, h, w)] = h * z.width + w == winner ? slope : (real)0;
            }
    }
}

// What the sum of a window is divided by: `divisor`, or the number of its cells, with those of the padding or without.
__device__ real cells_of(const sizes& z, whole row, whole column, long long padding, long long divisor) {
    if (divisor) return (real)divisor;
    whole top = row * SH - z.ph, left = column * SW - z.pw;
    whole bottom = min(top + KH, z.height + z.ph), right = min(left + KW, z.width + z.pw);
    if (!padding) {
        top = max(top, (whole)0), left = max(left, (whole)0);
        bottom = min(bottom, z.height), right = min(right, z.width);
    }
    return (real)((bottom - top) * (right - left));
}

// A block for each window: its threads share the cells.
extern "C" __global__ void __launch_bounds__(1024) mean_pool(const real* x, real* out, long long count, long long padding,
                                                             long long divisor, sizes z, steps from, steps to) {
    for (long long i = blockIdx.x; i < count; i += gridDim.x) {
        const steps o = place_of((whole)i, z.channels, z.rows, z.columns);
        long_sum<real> sum;
        for (whole k = threadIdx.x; k < KH * KW; k += blockDim.x) {
            const whole h = o.h * SH - z.ph + k / KW, w = o.w * SW - z.pw + k % KW;
            if (h >= 0 && h < z.height && w >= 0 && w < z.width) sum += x[at(from, o.n, o.c, h, w)];
        }
        const real total = block_sum(sum.value());
        if (threadIdx.x == 0) out[at(to, o.n, o.c, o.h, o.w)] = total / cells_of(z, o.h, o.w, padding, divisor);
    }
}

// A thread for each window: it adds columns, then their sums, as the CPU does.
extern "C" __global__ void mean_pool_small(const real* x, real* out, long long count, long long padding, long long divisor,
                                           sizes z, steps from, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of((whole)i, z.channels, z.rows, z.columns);
        real sum = 0;
        for (whole q = 0; q < KW; q++) {
            const whole w = o.w * SW - z.pw + q;
            real column = 0;
            for (whole p = 0; p < KH; p++) {
                const whole h = o.h * SH - z.ph + p;
                if (h >= 0 && h < z.height && w >= 0 && w < z.width) column += x[at(from, o.n, o.c, h, w)];
            }
            sum += column;
        }
        out[at(to, o.n, o.c, o.h, o.w)] = sum / cells_of(z, o.h, o.w, padding, divisor);
    }
}

extern "C" __global__ void mean_pool_vjp(const real* g, real* gx, long long count, long long padding, long long divisor,
                                         sizes z, steps of_g, steps to) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const steps o = place_of((whole)i, z.channels, z.height, z.width);
        const whole down = o.h + z.ph, right = o.w + z.pw;  // windows from (down - kh) / s + 1 to down / s have the cell
        const whole first = down < KH ? 0 : (down - KH) / SH + 1, left = right < KW ? 0 : (right - KW) / SW + 1;
        real sum = 0;
        for (whole p = first; p <= down / SH && p < z.rows; p++)
            for (whole q = left; q <= right / SW && q < z.columns; q++)
                sum += g[at(of_g, o.n, o.c, p, q)] / cells_of(z, p, q, padding, divisor);
        gx[at(to, o.n, o.c, o.h, o.w)] = sum;
    }
}
""")
FEW = 32  # cells of a window that a thread adds up alone


def _launch(name: str, blocks: int, threads: int, images: Any, windows: Any, how: dict[str, Any], arrays: tuple,
            numbers: tuple) -> None:  # fmt: skip
    """Launch a kernel for images (N, C, H, W) and their windows, of whose arrays it gets the steps in memory.

    Args:
        numbers: come before sizes and steps.
    """
    whole, kind = _cuda.whole(images, windows, *arrays)
    (kh, kw), (sh, sw) = kernel, stride = how["kernel"], how["stride"]
    last = arrays[-1].strides[1] < arrays[-1].strides[3]  # of what is written
    names = zip(("KH", "KW", "SH", "SW"), ("z.kh", "z.kw", "z.sh", "z.sw"), (*kernel, *stride), strict=True)
    constant = kh * kw <= FEW
    window = f"enum {{ LAST = {int(last)} }};\n"
    window += "".join(
        f"#define {name} {f'((whole){value})' if constant else member}\n" for name, member, value in names
    )
    sizes = *images.shape[1:], *windows.shape[2:], kh, kw, sh, sw, *how["padding"], *how.get("dilation", (1, 1))
    structs = [_cuda.struct(sizes, kind)]
    structs += [_cuda.struct(tuple([s // a.itemsize for s in a.strides]), kind) for a in arrays]
    _cuda.of_type(SOURCES[name], name, images.dtype, whole + window)(
        (blocks,), (threads,), (*arrays, *numbers, *structs)
    )


def max_pool(x: Any, *, ceil_mode: bool, **how: Any) -> Any:
    """The largest cell of each window of images (N, C, H, W); NaN where one is NaN."""
    out = output_sizes(x.shape[2:], how["kernel"], how["stride"], how["padding"], how["dilation"], ceil_mode)
    result = empty_output(MEMORY, (*x.shape[:2], *out), x.dtype, x)
    blocks = _cuda.blocks_for(result.size)
    _launch("max_pool", blocks, _cuda.THREADS, x, result, how, (x, result), (result.size,))
    return result


def max_pool_vjp(g: Any, out: Any, x: Any, *, ceil_mode: bool, **how: Any) -> Any:
    """The gradient of x: of each window's first largest cell, or of its last NaN."""
    gx, kernel = MEMORY.empty_like(x), how["kernel"]
    name, count = "max_pool_vjp", x.size
    if (
        how["stride"] == kernel
        and math.prod(kernel) <= FEW
        and set(how["padding"]) == {0}
        and set(how["dilation"]) == {1}
    ):
        windows = [-(-n // k) for n, k in zip(x.shape[2:], kernel, strict=True)]
        name, count = "max_pool_vjp_apart", math.prod((*x.shape[:2], *windows))
    _launch(name, _cuda.blocks_for(count), _cuda.THREADS, x, g, how, (g, x, gx), (count,))
    return gx


def mean_pool(x: Any, out: tuple[int, ...], include_pad: bool, divisor: int | None, **how: Any) -> Any:
    """The mean of each window of images (N, C, H, W). out: how many windows there are each way."""
    result = empty_output(MEMORY, (*x.shape[:2], *out), x.dtype, x)
    cells = math.prod(how["kernel"])
    few = cells <= FEW
    blocks, threads = (_cuda.blocks_for(result.size), _cuda.THREADS) if few else (
        min(result.size, _cuda.MOST_BLOCKS), min(_cuda.threads_for(cells), _cuda.THREADS)
    )  # fmt: skip
    name, numbers = "mean_pool_small" if few else "mean_pool", (result.size, int(include_pad), divisor or 0)
    _launch(name, blocks, threads, x, result, how, (x, result), numbers)
    return result


def mean_pool_vjp(g: Any, size: tuple[int, ...], include_pad: bool, divisor: int | None, **how: Any) -> Any:
    """The gradient of images of a size."""
    gx = empty_output(MEMORY, (*g.shape[:2], *size), g.dtype, g)
    numbers = gx.size, int(include_pad), divisor or 0
    _launch("mean_pool_vjp", _cuda.blocks_for(gx.size), _cuda.THREADS, gx, g, how, (g, gx), numbers)
    return gx
