"""Pooling of float32 images and its gradient on the CPU, by a vector of channels; largest of 2×2 windows in one pass.

Where windows tile the image, each element is read and written once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._backend.layout import empty_output, output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._gemm import tile_shape, vector_size
from tdt._kernels._jit import intrinsic, jit
from tdt._kernels._layout import transposed
from tdt._kernels._pool import parallel

GRAIN = 1 << 16  # elements that a thread should at least have: about 20 µs
ZERO, LOWEST = np.float32(0), np.float32(-np.inf)


def max_pool(
    x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> np.ndarray:
    """The op `max_pool` for x (N, C, H, W), contiguous or channels-last, in 2×2 windows; NaN wins over every number."""
    count, channels, height, width = x.shape
    out = empty_output(np, (count, channels, height // 2, width // 2), np.float32, x)
    if output_is_channels_last(x):
        parallel(_forward_last, count, to_last(x), to_last(out), grain=-(-GRAIN // x[0].size))
    else:
        parallel(_forward_planes, count * channels, _planes(x), _planes(out), grain=-(-GRAIN // (height * width)))
    return out


def max_pool_vjp(g: np.ndarray, out: np.ndarray, x: np.ndarray, **how: Any) -> np.ndarray:
    """The gradient in x, contiguous or channels-last, from `g` in any order, for 2×2 windows.

    Each window gives its own to the first cell that equals the largest, or to its last NaN. Worked out channels-last, where
    a vector holds channels; turning planes there and back is cheaper than picking every other cell.
    """
    g, out, ordered = (_channels_last(a) for a in (g, out, x))
    grad = np.empty_like(ordered)
    parallel(_backward, x.shape[0], g, ordered, out, grad, grain=-(-GRAIN // x[0].size))
    return _as(x, grad)


def max_pool_any(
    x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> np.ndarray:
    """The op `max_pool` for x (N, C, H, W), contiguous or channels-last, without `ceil_mode`."""
    size = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    out = np.empty((x.shape[0], *size, x.shape[1]), np.float32)
    grain = -(-GRAIN // (out[0].size * math.prod(kernel)))
    parallel(_forward_any, x.shape[0], _channels_last(x), out, *kernel, *stride, *padding, *dilation, grain=grain)
    return _as(x, out)


def max_pool_any_vjp(g: np.ndarray, out: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple,
                     dilation: tuple, ceil_mode: bool) -> np.ndarray:  # fmt: skip
    """As `max_pool_vjp`, for any windows; gradients of overlapping windows are added in the order of the windows."""
    g, out, ordered = (_channels_last(a) for a in (g, out, x))
    grad, cells = np.empty_like(ordered), np.empty((x.shape[0], math.prod(kernel)), np.int64)
    grain = -(-GRAIN // (out[0].size * math.prod(kernel)))
    flat = (a.reshape(-1) for a in (g, ordered, out, grad))
    sizes = *ordered.shape[1:], *out.shape[1:3]
    parallel(_backward_any, x.shape[0], *flat, cells, *sizes, *kernel, *stride, *padding, *dilation, grain=grain)
    return _as(x, grad)


def window_sums(x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, out: tuple) -> np.ndarray:
    """The sum of each window of x (N, C, H, W), channels-last."""
    sums = np.empty((x.shape[0], *out, x.shape[1]), np.float32)
    grain = -(-GRAIN // (sums[0].size * math.prod(kernel)))
    parallel(_window_sums, x.shape[0], to_last(x), sums, *kernel, *stride, *padding, grain=grain)
    return to_front(sums)


def window_spread(y: np.ndarray, *, size: tuple, kernel: tuple, stride: tuple, padding: tuple) -> np.ndarray:
    """For each pixel the sum of y (N, C, OH, OW), channels-last, over the windows that contain it."""
    spread = np.empty((y.shape[0], *size, y.shape[1]), np.float32)
    grain = -(-GRAIN // (y[0].size * math.prod(kernel)))
    parallel(_window_spread, y.shape[0], to_last(y), spread, *kernel, *stride, *padding, grain=grain)
    return to_front(spread)


def _as(x: np.ndarray, result: np.ndarray) -> np.ndarray:
    """`result` (N, H, W, C) as (N, C, H, W), in memory as `x` is."""
    if output_is_channels_last(x):
        return to_front(result)
    count, height, width, channels = result.shape
    return transposed(result, height * width, channels).reshape(count, channels, height, width)


def _channels_last(a: np.ndarray) -> np.ndarray:
    """(N, C, H, W) as contiguous (N, H, W, C)."""
    ordered = to_last(a)
    if a.flags.c_contiguous and not ordered.flags.c_contiguous:
        return transposed(a, a.shape[1], a[0, 0].size).reshape(ordered.shape)
    return np.ascontiguousarray(ordered)


def _planes(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1, *a.shape[2:])


@jit
def _larger(a, b):
    return b if b > a or b != b else a


@jit
def _forward_last(first, last, x, out):
    for n in range(first, last):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                a, b = x[n, 2 * i, 2 * j], x[n, 2 * i, 2 * j + 1]
                c, d = x[n, 2 * i + 1, 2 * j], x[n, 2 * i + 1, 2 * j + 1]
                target = out[n, i, j]
                for k in range(target.size):
                    target[k] = _larger(_larger(a[k], b[k]), _larger(c[k], d[k]))


@jit
def _forward_planes(first, last, x, out):
    for n in range(first, last):
        for i in range(out.shape[1]):
            top, low, target = x[n, 2 * i], x[n, 2 * i + 1], out[n, i]
            for j in range(target.size):
                target[j] = _larger(_larger(top[2 * j], top[2 * j + 1]), _larger(low[2 * j], low[2 * j + 1]))


@jit
def _backward(first, last, g, x, out, grad):
    rows, columns = out.shape[1], out.shape[2]
    for n in range(first, last):
        for i in range(rows):
            for j in range(columns):
                a, b = x[n, 2 * i, 2 * j], x[n, 2 * i, 2 * j + 1]
                c, d = x[n, 2 * i + 1, 2 * j], x[n, 2 * i + 1, 2 * j + 1]
                ga, gb = grad[n, 2 * i, 2 * j], grad[n, 2 * i, 2 * j + 1]
                gc, gd = grad[n, 2 * i + 1, 2 * j], grad[n, 2 * i + 1, 2 * j + 1]
                largest, g_cells = out[n, i, j], g[n, i, j]
                # One target a loop: with four, LLVM would give up telling them apart.
                for k in range(g_cells.size):
                    last = (a[k] != a[k]) & (b[k] == b[k]) & (c[k] == c[k]) & (d[k] == d[k])
                    ga[k] = g_cells[k] if last | (a[k] == largest[k]) else ZERO
                for k in range(g_cells.size):
                    m = largest[k]
                    last = (b[k] != b[k]) & (c[k] == c[k]) & (d[k] == d[k])
                    gb[k] = g_cells[k] if last | ((b[k] == m) & (a[k] != m)) else ZERO
                for k in range(g_cells.size):
                    m = largest[k]
                    last = (c[k] != c[k]) & (d[k] == d[k])
                    gc[k] = g_cells[k] if last | ((c[k] == m) & (a[k] != m) & (b[k] != m)) else ZERO
                for k in range(g_cells.size):
                    m = largest[k]
                    gd[k] = (
                        g_cells[k] if (d[k] != d[k]) | ((d[k] == m) & (a[k] != m) & (b[k] != m) & (c[k] != m)) else ZERO
                    )
        for i in range(x.shape[1]):
            for j in range(0 if i >= 2 * rows else 2 * columns, x.shape[2]):
                grad[n, i, j] = ZERO


@jit
def _window_sums(first, last, x, out, kh, kw, sh, sw, ph, pw):
    for n in range(first, last):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                target = out[n, i, j]
                for c in range(target.size):
                    target[c] = ZERO
                for h in range(max(0, i * sh - ph), min(x.shape[1], i * sh - ph + kh)):
                    for v in range(max(0, j * sw - pw), min(x.shape[2], j * sw - pw + kw)):
                        source = x[n, h, v]
                        for c in range(target.size):
                            target[c] += source[c]


@jit
def _window_spread(first, last, y, out, kh, kw, sh, sw, ph, pw):
    for n in range(first, last):
        for h in range(out.shape[1]):
            for v in range(out.shape[2]):
                target = out[n, h, v]
                for c in range(target.size):
                    target[c] = ZERO
                for i in range(max(0, (h + ph - kh + sh) // sh), min(y.shape[1], (h + ph) // sh + 1)):
                    for j in range(max(0, (v + pw - kw + sw) // sw), min(y.shape[2], (v + pw) // sw + 1)):
                        source = y[n, i, j]
                        for c in range(target.size):
                            target[c] += source[c]


@jit
def _forward_any(first, last, x, out, kh, kw, sh, sw, ph, pw, dh, dw):
    for n in range(first, last):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                target = out[n, i, j]
                begun = False  # a window has a cell in the image, but for dilated ones
                for a in range(kh):
                    h = i * sh - ph + a * dh
                    if h < 0 or h >= x.shape[1]:
                        continue
                    b, end = max(0, -((j * sw - pw) // dw)), min(kw, (x.shape[2] - 1 - j * sw + pw) // dw + 1)
                    v = j * sw - pw + b * dw
                    if end - b == 3:  # the usual width: its cells are read at once
                        p, q, r = x[n, h, v], x[n, h, v + dw], x[n, h, v + 2 * dw]
                        if begun:
                            for c in range(target.size):
                                target[c] = _larger(_larger(target[c], p[c]), _larger(q[c], r[c]))
                        else:
                            for c in range(target.size):
                                target[c] = _larger(_larger(p[c], q[c]), r[c])
                        begun = True
                    else:
                        for k in range(b, end):
                            p = x[n, h, v + (k - b) * dw]
                            if begun:
                                for c in range(target.size):
                                    target[c] = _larger(target[c], p[c])
                            else:
                                for c in range(target.size):
                                    target[c] = p[c]
                            begun = True
                if not begun:
                    for c in range(target.size):
                        target[c] = LOWEST


@intrinsic
def route(typingctx: Any, x: Any, out: Any, g: Any, grad: Any, cells: Any, place: Any, channel: Any, count: Any) -> Any:
    """For a vector of channels from `channel` on: add the window's gradient g[place] to one of its cells.

    Cell k lies at cells[k] in x and grad. It is the first that equals out[place], or the last NaN. In vectors by hand, as
    LLVM would ask for each cell anew whether the arrays overlap.
    """
    from llvmlite import ir
    from numba.core import cgutils, types

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        width = tile_shape()[2]
        floats, ints = ir.VectorType(ir.FloatType(), width), ir.VectorType(ir.IntType(32), width)
        arrays = [context.make_array(kind)(context, builder, args[i]).data for i, kind in enumerate(signature.args[:5])]
        x, out, g, grad, cells = arrays
        place, channel, count = args[5:]

        def vector(data: Any, at: Any) -> Any:
            return builder.bitcast(builder.gep(data, [builder.add(at, channel)]), floats.as_pointer())

        def load(pointer: Any) -> Any:
            value = builder.load(pointer)
            value.align = 4
            return value

        def spread(number: Any) -> Any:
            blank, first = ir.Constant(ints, ir.Undefined), ir.Constant(ir.IntType(32), 0)
            single = builder.insert_element(blank, builder.trunc(number, ir.IntType(32)), first)
            return builder.shuffle_vector(single, blank, ir.Constant(ints, [0] * width))

        largest, gradient = load(vector(out, place)), load(vector(g, place))
        winner = cgutils.alloca_once_value(builder, ir.Constant(ints, [-1] * width))

        def seek(k: Any, predicate: str, other: Any) -> None:
            value = load(vector(x, builder.load(builder.gep(cells, [k]))))
            compare = builder.fcmp_ordered if other else builder.fcmp_unordered
            hit = compare(predicate, value, other or value)
            builder.store(builder.select(hit, spread(k), builder.load(winner)), winner)

        with cgutils.for_range(builder, count) as loop:  # backwards: the first that is largest has the last word
            seek(builder.sub(builder.sub(count, loop.index), ir.Constant(count.type, 1)), "==", largest)
        nan = builder.bitcast(builder.fcmp_unordered("uno", largest, largest), ir.IntType(width))
        with (
            builder.if_then(builder.icmp_unsigned("!=", nan, ir.Constant(nan.type, 0)), likely=False),
            cgutils.for_range(builder, count) as loop,
        ):
            seek(loop.index, "uno", None)
        with cgutils.for_range(builder, count) as loop:
            target = vector(grad, builder.load(builder.gep(cells, [loop.index])))
            hit = builder.icmp_signed("==", builder.load(winner), spread(loop.index))
            share = builder.select(hit, gradient, ir.Constant(floats, [0.0] * width))
            builder.store(builder.fadd(load(target), share), target).align = 4
        return context.get_dummy_value()

    return types.void(x, out, g, grad, cells, types.intp, types.intp, types.intp), generate


@jit
def _backward_any(
    first, last, g, x, out, grad, cells, height, width, channels, rows, columns, kh, kw, sh, sw, ph, pw, dh, dw
):
    """Arrays are flat. cells: a row a sample, for where the cells of the window at hand lie."""
    for n in range(first, last):
        here, sample = cells[n], grad[n * height * width * channels : (n + 1) * height * width * channels]
        for k in range(sample.size):  # in a slice: an index from elsewhere may be negative, and then LLVM scatters
            sample[k] = ZERO
        for i in range(rows):
            for j in range(columns):
                count = 0
                for a in range(kh):
                    h = i * sh - ph + a * dh
                    if h >= 0 and h < height:
                        for b in range(kw):
                            v = j * sw - pw + b * dw
                            if v >= 0 and v < width:
                                here[count] = ((n * height + h) * width + v) * channels
                                count += 1
                place = ((n * rows + i) * columns + j) * channels
                whole = channels - channels % vector_size()
                for c in range(0, whole, vector_size()):
                    route(x, out, g, grad, here, place, c, count)
                for c in range(whole, channels):
                    winner = -1
                    for k in range(count):
                        value = x[here[k] + c]
                        if (value == out[place + c] and winner < 0) or value != value:
                            winner = k
                    if winner >= 0:  # dilated windows may reach from one border to the other, over the image
                        grad[here[winner] + c] += g[place + c]
