"""Pooling of float32 images and its gradient on the CPU, by a vector of channels; largest of 2×2 windows in one pass.

Where windows tile the image, each element is read and written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._backend.layout import empty_output, output_is_channels_last, to_front, to_last
from tdt._backend.windows import output_sizes
from tdt._kernels._code import Code, Value, native
from tdt._kernels._jit import intrinsic, jit
from tdt._kernels._layout import transposed
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel
from tdt._kernels._registry import prepares

GRAIN = 1 << 16  # elements that a thread should at least have: about 20 µs
VECTOR = vector_width()
ZERO, LOWEST = np.float32(0), np.float32(-np.inf)


def max_pool(
    x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> np.ndarray:
    """The op `max_pool` for x (N, C, H, W), contiguous or channels-last, in 2×2 windows; NaN wins over every number."""
    count, channels, height, width = x.shape
    out = empty_output(np, (count, channels, height // 2, width // 2), np.float32, x)
    if output_is_channels_last(x):
        parallel(_forward_last(vector_width()), count, to_last(x), to_last(out), height, width, channels,
                 grain=-(-GRAIN // x[0].size))  # fmt: skip
    else:
        parallel(
            _forward_planes(vector_width()),
            count * channels,
            x,
            out,
            height,
            width,
            grain=-(-GRAIN // (height * width)),
        )
    return out


def prepared_max_pool(x: np.ndarray, *, recorded: bool) -> Callable[[np.ndarray], np.ndarray] | None:
    """`max_pool` for contiguous images of the shape of x, on the calling thread; see `prepares`."""
    count, channels, height, width = x.shape
    if x.size >= 2 * GRAIN:
        return None
    shape = count, channels, height // 2, width // 2
    run = _forward_planes(vector_width()).with_last(count * channels, height, width)

    def pooled(x: np.ndarray) -> np.ndarray:
        found = np.empty(shape, np.float32)
        run(x, found)
        return found

    return pooled


def max_pool_vjp(g: np.ndarray, out: np.ndarray, x: np.ndarray, **how: Any) -> np.ndarray:
    """The gradient in x, contiguous or channels-last, from `g` in any order, for 2×2 windows.

    Each window gives its own to the first cell that equals the largest, or to its last NaN.
    """
    if not output_is_channels_last(x):
        g, out, x = (np.ascontiguousarray(a) for a in (g, out, x))
        grad, planes, sizes = np.empty(x.shape, np.float32), x.shape[0] * x.shape[1], x.shape[2:]
        kernel = _backward_planes(vector_width())
        parallel(kernel, planes, g, x, out, grad, *sizes, grain=-(-GRAIN // math.prod(sizes)))  # type: ignore[arg-type]
        return grad
    g, out, ordered = (_channels_last(a) for a in (g, out, x))
    grad = np.empty_like(ordered)
    parallel(
        _backward(vector_width()), x.shape[0], g, ordered, out, grad, *ordered.shape[1:], grain=-(-GRAIN // x[0].size)
    )
    return to_front(grad)


@prepares(max_pool_vjp)
def _(g: np.ndarray, out: np.ndarray, x: np.ndarray, **how: Any) -> Callable[..., np.ndarray] | None:
    if x.size >= 2 * GRAIN or not (g.flags.c_contiguous and out.flags.c_contiguous and x.flags.c_contiguous):
        return None
    shape = x.shape
    run = _backward_planes(vector_width()).with_last(shape[0] * shape[1], *shape[2:])

    def gradient(g: np.ndarray, out: np.ndarray, x: np.ndarray) -> np.ndarray:
        grad = np.empty(shape, np.float32)
        run(g, x, out, grad)
        return grad

    return gradient


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


@jit
def _larger(a, b):
    return b if b > a or b != b else a


def of_vectors(code: Code, count: Value, width: int, write: Callable[[Value, int], None]) -> None:
    """Write `write(k, lanes)` for k < count: for vectors of `width` lanes, then of half as many, down to single elements (0)."""
    whole = count - count % width
    with code.loop(0, whole, width) as k:
        write(k, width)
    while width > 2:
        width //= 2
        with code.when((count & width) != 0):
            write(whole, width)
        whole = whole + (count & width)
    with code.when((count & 1) != 0):
        write(whole, 0)


def maximum(code: Code, a: Value, b: Value) -> Value:
    """The larger one; b where it is NaN, a where both are equal."""
    return code.select((b > a) | (b != b), b, a)


@native("ppqqq", vectorize=False)
def _forward_last(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """Samples [first, last) of x (N, H, W, C), to out (N, H // 2, W // 2, C)."""
    x, out, rows, columns, channels = arguments
    down, across = rows // 2, columns // 2
    with code.loop(first * down, last * down) as line:
        n = line // down
        top = (n * rows + 2 * (line - n * down)) * columns * channels
        with code.loop(0, across) as j:
            start, target = top + 2 * j * channels, (line * across + j) * channels

            def largest(k: Value, lanes: int) -> None:
                places = (start, start + channels, start + columns * channels, start + (columns + 1) * channels)
                a, b, c, d = (code.load("float", x, place + k, lanes) for place in places)
                code.store(maximum(code, maximum(code, a, b), maximum(code, c, d)), out, target + k)

            of_vectors(code, channels, width, largest)


@native("ppqq", vectorize=False)
def _forward_planes(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """Planes [first, last) of x (N · C, H, W), to out (N · C, H // 2, W // 2)."""
    x, out, rows, columns = arguments
    down, across = rows // 2, columns // 2
    with code.loop(first, last) as n, code.loop(0, down) as i:
        top, target = (n * rows + 2 * i) * columns, (n * down + i) * across

        def largest(k: Value, lanes: int) -> None:
            cells = cells_of_tiles(code, x, top + 2 * k, columns, lanes)
            code.store(maximum(code, maximum(code, *cells[:2]), maximum(code, *cells[2:])), out, target + k)

        of_vectors(code, across, width, largest)


def cells_of_tiles(code: Code, x: Value, start: Value, columns: Value, lanes: int) -> list[Value]:
    """The four cells of 2×2 windows next to each other in a plane, row by row, from the first window's first cell on."""
    cells = []
    for row in (start, start + columns):
        halves = [code.load("float", x, row + max(lanes, 1) * half, lanes) for half in (0, 1)]
        orders = [range(half, 2 * lanes, 2) for half in (0, 1)]
        cells += [code.shuffle(*halves, order) for order in orders] if lanes else halves
    return cells


def shares(code: Code, gradient: Value, largest: Value, cells: list[Value]) -> list[Value]:
    """What the cells of windows have of their gradient: the first one that equals the largest, or the last NaN, all of it."""
    nan, hit = [c != c for c in cells], [c == largest for c in cells]
    values = []
    for number in range(len(cells)):
        chosen, last_nan = hit[number], nan[number]
        for before in hit[:number]:
            chosen = chosen & (before ^ code.value(1, before.kind))
        for after in nan[number + 1 :]:
            last_nan = last_nan & (after ^ code.value(1, after.kind))
        values.append(code.select(chosen | last_nan, gradient, 0.0))
    return values


@native("ppppqq", vectorize=False)
def _backward_planes(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """Planes [first, last) of the gradient of x (N · C, H, W), from those of the result."""
    g, x, out, grad, rows, columns = arguments
    down, across = rows // 2, columns // 2
    with code.loop(first, last) as n:
        with code.loop(0, down) as i:
            top, source = (n * rows + 2 * i) * columns, (n * down + i) * across

            def share(k: Value, lanes: int) -> None:
                gradient, largest = code.load("float", g, source + k, lanes), code.load("float", out, source + k, lanes)
                above = top + 2 * k
                values = shares(code, gradient, largest, cells_of_tiles(code, x, above, columns, lanes))
                pairs = [place for k in range(lanes) for place in (k, lanes + k)]
                for start, two in ((above, values[:2]), (above + columns, values[2:])):
                    if lanes:
                        code.store(code.shuffle(*two, pairs), grad, start)
                    else:
                        code.store(two[0], grad, start)
                        code.store(two[1], grad, start + 1)

            of_vectors(code, across, width, share)
            with code.when(columns > 2 * across), code.loop(0, 2) as extra:  # a column that no window has
                code.store(code.value(0.0, "float"), grad, top + extra * columns + columns - 1)
        with code.when(rows > 2 * down):
            code.clear(code.at("float", grad, (n * rows + rows - 1) * columns), 4 * columns)


@native("ppppqqq", vectorize=False)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """Samples [first, last) of the gradient of x (N, H, W, C), from those of the result."""
    g, x, out, grad, rows, columns, channels = arguments
    down, across = rows // 2, columns // 2
    with code.loop(first, last) as n, code.loop(0, down) as i:
        with code.loop(0, across) as j:
            start, source = ((n * rows + 2 * i) * columns + 2 * j) * channels, ((n * down + i) * across + j) * channels
            places = (start, start + channels, start + columns * channels, start + (columns + 1) * channels)

            def share(k: Value, lanes: int) -> None:
                gradient, largest = code.load("float", g, source + k, lanes), code.load("float", out, source + k, lanes)
                cells = [code.load("float", x, place + k, lanes) for place in places]
                for place, value in zip(places, shares(code, gradient, largest, cells), strict=True):
                    code.store(value, grad, place + k)

            of_vectors(code, channels, width, share)
        with code.when(columns > 2 * across), code.loop(0, 2) as extra:  # a column that no window has
            place = ((n * rows + 2 * i + extra) * columns + columns - 1) * channels
            code.clear(code.at("float", grad, place), 4 * channels)
    with code.when(rows > 2 * down), code.loop(first, last) as n:
        code.clear(code.at("float", grad, (n * rows + rows - 1) * columns * channels), 4 * columns * channels)


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
        width = VECTOR
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
                whole = channels - channels % VECTOR
                for c in range(0, whole, VECTOR):
                    route(x, out, g, grad, here, place, c, count)
                for c in range(whole, channels):
                    winner = -1
                    for k in range(count):
                        value = x[here[k] + c]
                        if (value == out[place + c] and winner < 0) or value != value:
                            winner = k
                    if winner >= 0:  # dilated windows may reach from one border to the other, over the image
                        grad[here[winner] + c] += g[place + c]
