"""Pooling of contiguous float32 images (N, C, H, W) and its gradients on the CPU, of any size, plane by plane.

Lines (N, C, L) are images of one row.

A window is a rectangle: of each row of windows, the rows of cells are folded into one line, in vectors, and then its columns.
Sums have the order of the portable form, cells of a column first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from tdt._backend.windows import output_sizes
from tdt._kernels._code import Code, Value, native
from tdt._kernels._launches import zeros
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._registry import prepares
from tdt._kernels._rows import LANES, allocated, for_each, load, release, row_function, store, summed
from tdt._kernels._syntax import vector_length

GRAIN = 1 << 15  # elements that a thread should at least have
MOST_STEP = 4  # distance of windows across up to which results are computed a vector at a time
# Sizes of the image and of the result, then kernel, stride, padding and dilation, each down and across.
SIZES = "q" * 12


def max_pool(
    x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> np.ndarray:
    """The op `max_pool`: the largest element of each window; NaN wins over every number."""
    out = output_sizes(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    found = np.empty((*x.shape[:2], *out), np.float32)
    _run(_maxima(_read_step(stride)), found, (x, found), _sizes(x.shape[2:], out, kernel, stride, padding, dilation))
    return found


def max_pool_vjp(g: np.ndarray, found: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple,
                 dilation: tuple, ceil_mode: bool) -> np.ndarray:  # fmt: skip
    """The gradient in x: each window gives its own to the first cell that equals the largest, or to its last NaN."""
    grad = np.empty(x.shape, np.float32) if _step(stride) else zeros(x.shape)
    sizes = _sizes(x.shape[2:], found.shape[2:], kernel, stride, padding, dilation)
    gradient = _gradient_of_maxima(kernel, stride, dilation)
    _run(gradient, found, (np.ascontiguousarray(g), np.ascontiguousarray(found), x, grad), sizes)
    return grad


@prepares(max_pool_vjp)
def _(g: np.ndarray, found: np.ndarray, x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
      ceil_mode: bool) -> Callable[..., np.ndarray] | None:  # fmt: skip
    sizes = _sizes(x.shape[2:], found.shape[2:], kernel, stride, padding, dilation)
    planes = found.shape[0] * found.shape[1]
    contiguous = g.flags.c_contiguous and found.flags.c_contiguous and x.flags.c_contiguous
    if not contiguous or planes >= 2 * _grain(math.prod(found.shape[2:]), sizes):
        return None
    is_written, shape = _step(stride), x.shape
    run = _gradient_of_maxima(kernel, stride, dilation).with_last(planes, *sizes)

    def gradient(g: np.ndarray, found: np.ndarray, x: np.ndarray) -> np.ndarray:
        grad = np.empty(shape, np.float32) if is_written else zeros(shape)
        run(g, found, x, grad)
        return grad

    return gradient


def _gradient_of_maxima(kernel: tuple, stride: tuple, dilation: tuple) -> NativeKernel:
    usual = kernel[-1] if kernel[-1] in (2, 3) and dilation[-1] == 1 else 0
    return _maxima_grad(_step(stride), usual) if _step(stride) else _maxima_grad_of_any()


def window_means(
    x: np.ndarray, counts: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, out: tuple
) -> np.ndarray:
    """The sum of each window, divided by `counts`, (1,) or (OH, OW)."""
    if _is_whole(x.shape[2:], kernel, padding, out):
        means = _plane_means()(x.reshape(*x.shape[:2], -1), counts[:1].reshape(()))
        return means.reshape(*x.shape[:2], *out)
    found = np.empty((*x.shape[:2], *out), np.float32)
    sizes = _sizes(x.shape[2:], out, kernel, stride, padding)
    _run(_means(_read_step(stride)), found, (x, found, counts), (*sizes, int(counts.size > 1)))
    return found


def window_means_vjp(
    g: np.ndarray, counts: np.ndarray, *, size: tuple, kernel: tuple, stride: tuple, padding: tuple
) -> np.ndarray:
    """For each element of images of this size, the sum of g / counts over the windows that contain it."""
    grad = np.empty((*g.shape[:2], *size), np.float32)
    if _is_whole(size, kernel, padding, g.shape[2:]):
        planes, n = g.size, math.prod(size)
        parallel(_spread(), planes, g, grad, counts, n, grain=-(-GRAIN // n))  # type: ignore[arg-type]
        return grad
    sizes = _sizes(size, g.shape[2:], kernel, stride, padding)
    _run(_means_grad(), grad, (np.ascontiguousarray(g), grad, counts), (*sizes, int(counts.size > 1)))
    return grad


@prepares(window_means_vjp)
def _(g: np.ndarray, counts: np.ndarray, *, size: tuple, kernel: tuple, stride: tuple,
      padding: tuple) -> Callable[[np.ndarray], np.ndarray] | None:  # fmt: skip
    if not g.flags.c_contiguous or _is_whole(size, kernel, padding, g.shape[2:]):
        return None
    sizes = *_sizes(size, g.shape[2:], kernel, stride, padding), int(counts.size > 1)
    planes, shape = g.shape[0] * g.shape[1], (*g.shape[:2], *size)
    if planes >= 2 * _grain(math.prod(size), sizes):
        return None
    run = _means_grad().with_last(planes, counts, *sizes)

    def gradient(g: np.ndarray) -> np.ndarray:
        grad = np.empty(shape, np.float32)
        run(g, grad)
        return grad

    return gradient


def prepared_max_pool(x: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool,
                      recorded: bool) -> Callable[[np.ndarray], np.ndarray] | None:  # fmt: skip
    """`max_pool` for images of the shape of x; see `prepares`."""
    out = output_sizes(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    return _prepared(_maxima(_read_step(stride)), x, out, _sizes(x.shape[2:], out, kernel, stride, padding, dilation))


def prepared_means(x: np.ndarray, counts: np.ndarray, *, kernel: tuple, stride: tuple, padding: tuple,
                   out: tuple) -> Callable[[np.ndarray], np.ndarray] | None:  # fmt: skip
    """`window_means` for images of the shape of x; see `prepares`."""
    if _is_whole(x.shape[2:], kernel, padding, out):
        means, count = _plane_means().ufunc, counts[:1].reshape(())
        visible, shape = (*x.shape[:2], math.prod(kernel)), (*x.shape[:2], *out)
        return lambda x: means(x.reshape(visible), count).reshape(shape)
    sizes = *_sizes(x.shape[2:], out, kernel, stride, padding), int(counts.size > 1)
    return _prepared(_means(_read_step(stride)), x, out, sizes, counts)


def _prepared(kernel: NativeKernel, x: np.ndarray, out: tuple, sizes: tuple[int, ...],
              *tables: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:  # fmt: skip
    """What `_run` does on the calling thread, as a function of x; None where several threads would do it."""
    planes, shape = x.shape[0] * x.shape[1], (*x.shape[:2], *out)
    if planes >= 2 * _grain(math.prod(out), sizes):
        return None
    run = kernel.with_last(planes, *tables, *sizes)

    def pooled(x: np.ndarray) -> np.ndarray:
        found = np.empty(shape, np.float32)
        run(x, found)
        return found

    return pooled


def _grain(windows: int, sizes: tuple[int, ...]) -> int:
    """The planes that a thread should at least have."""
    return -(-GRAIN // max(windows * math.prod(sizes[4:6]), 1))


def _step(stride: tuple) -> int:
    """The distance of windows across for which the code is written; 0 for any."""
    return stride[-1] if stride[-1] < 3 else 0


def _read_step(stride: tuple) -> int:
    """The same for results, whose code loads whole vectors of windows and picks their cells."""
    return stride[-1] if stride[-1] <= MOST_STEP else 0


def _is_whole(size: tuple, kernel: tuple, padding: tuple, out: tuple) -> bool:
    """Whether there is one window, the whole plane."""
    return kernel == size and not any(padding) and out == (1,) * len(out)


def _sizes(size: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple = (1, 1)) -> tuple:
    """The kernel's sizes, `SIZES`."""
    if len(size) == 2:
        return *size, *out, *kernel, *stride, *padding, *dilation
    return 1, *size, 1, *out, 1, *kernel, 1, *stride, 0, *padding, 1, dilation[-1]


def _run(kernel: NativeKernel, found: np.ndarray, arrays: tuple[np.ndarray, ...], sizes: tuple[int, ...]) -> None:
    """Call the kernel on all planes."""
    planes = found.shape[0] * found.shape[1]
    grain = _grain(math.prod(found.shape[2:]), sizes)
    if planes < 2 * grain:
        kernel.run(planes, arrays, *sizes)
    else:
        parallel(kernel, planes, *arrays, *sizes, grain=grain)  # type: ignore[arg-type]


class _Windows:
    """The sizes of a call in the code."""

    def __init__(self, code: Code, sizes: list[Value]):
        self.code = code
        (self.height, self.width, self.rows, self.columns, self.down, self.across, self.stride, self.step, self.above,
         self.left, self.dilation, self.spread) = sizes  # fmt: skip

    def line(self) -> Value:
        """The elements of a row with its borders, as far as the last window reaches and a vector beyond."""
        reach = (self.columns - 1) * self.step + (self.across - 1) * self.spread + 1
        return self.code.maximum(reach, self.left + self.width) + LANES * MOST_STEP

    def cells(self, row: Value) -> tuple[Value, Value]:
        """The first and last kernel rows [first, last) of a row of windows that lie in the image."""
        code, top = self.code, row * self.stride - self.above
        zero = code.value(0, "i64")
        first = code.select(top < 0, (zero - top + (self.dilation - 1)) // self.dilation, 0)
        last = (self.height - top + (self.dilation - 1)) // self.dilation
        return first, code.minimum(self.down, last)


def _larger(code: Code, a: Value, b: Value) -> Value:
    return code.select((b > a) | (b != b), b, a)


def _added(code: Code, a: Value, b: Value) -> Value:
    return a + b


def _folded(code: Code, first: Value, last: Value, arguments: list[Value], windows: _Windows, step: int, start: float,
            how: str, divided: bool) -> None:  # fmt: skip
    """Fold every window of the planes [first, last) of x into out."""
    x, out = arguments[:2]
    combine = _larger if how == "max" else _added
    line = allocated(code, windows.line())[0]
    fill = code.value(start, f"<{LANES} x float>")
    for_each(code, windows.line(), lambda i, mask: store(code, fill, line, i, mask))
    inside = code.at("float", line, windows.left)
    with code.loop(first, last) as plane, code.loop(0, windows.rows) as row:
        image = code.at("float", x, plane * windows.height * windows.width)
        top = row * windows.stride - windows.above
        begin, end = windows.cells(row)

        def down(i: Value, mask: Value | None, image: Value = image, top: Value = top, begin: Value = begin,
                 end: Value = end) -> None:  # fmt: skip
            total = code.variable(f"<{LANES} x float>", start)
            with code.loop(begin, end) as k:
                cells = load(code, image, (top + k * windows.dilation) * windows.width + i, mask)
                total.set(combine(code, total.get(), cells))
            store(code, total.get(), inside, i, mask)

        for_each(code, windows.width, down)
        place = (plane * windows.rows + row) * windows.columns

        def put(value: Value, i: Value, mask: Value | None, place: Value = place, row: Value = row) -> None:
            if divided:
                single = not vector_length(value.kind)
                value = value / _count(code, arguments, row * windows.columns + i, mask, single)
            store(code, value, code.at("float", out, place), i, mask)

        def across(i: Value, mask: Value | None) -> None:
            total = code.variable(f"<{LANES} x float>", start)
            with code.loop(0, windows.across) as k:
                cells = code.load("float", line, i * step + k * windows.spread, LANES * step)
                cells = code.shuffle(cells, cells, range(0, LANES * step, step)) if step > 1 else cells
                total.set(combine(code, total.get(), cells))
            put(total.get(), i, mask)

        if step:
            for_each(code, windows.columns, across)
        else:
            with code.loop(0, windows.columns) as j:
                total = code.variable("float", start)
                with code.loop(0, windows.across) as k:
                    total.set(
                        combine(code, total.get(), code.load("float", line, j * windows.step + k * windows.spread))
                    )
                put(total.get(), j, None)
    release(code, line)


def _count(code: Code, arguments: list[Value], place: Value, mask: Value | None, single: bool = False) -> Value:
    """What the sums of windows from `place` on are divided by: one number for all, or an element of a table each."""
    counts, table = arguments[2], arguments[-1]
    many = code.variable("float" if single else f"<{LANES} x float>")

    def each() -> None:
        many.set(code.load("float", counts, place) if single else load(code, counts, place, mask, other=1.0))

    code.choose(table != 0, each, lambda: many.set(code.splat(code.load("float", counts), 0 if single else LANES)))
    return many.get()


@native("pp" + SIZES)
def _maxima(code: Code, first: Value, last: Value, arguments: list[Value], step: int) -> None:
    """x, out, sizes."""
    _folded(code, first, last, arguments, _Windows(code, arguments[2:]), step, -math.inf, "max", False)


@native("ppp" + SIZES + "q")
def _means(code: Code, first: Value, last: Value, arguments: list[Value], step: int) -> None:
    """x, out, counts, sizes, whether counts is a table."""
    _folded(code, first, last, arguments, _Windows(code, arguments[3:-1]), step, 0.0, "sum", True)


@row_function("(n),()->()", "fff")
def _plane_means(code: Code, pointers: list[Value], n: Value) -> None:
    x, count, out = pointers
    total = summed(code, n, 1, lambda i, width, mask: (load(code, x, i, mask, width),))[0]
    code.store(code.cast(total / code.cast(code.load("float", count), "double"), "float"), out)


@native("pppq")
def _spread(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """g (planes), grad (planes, n), count, n."""
    g, grad, count, n = arguments
    with code.loop(first, last) as plane:
        value = code.splat(code.load("float", g, plane) / code.load("float", count), LANES)
        image = code.at("float", grad, plane * n)
        for_each(code, n, lambda i, mask: store(code, value, image, i, mask))


@native("ppp" + SIZES + "q")
def _means_grad(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """g, grad, counts, sizes, whether counts is a table."""
    g, grad = arguments[:2]
    windows = _Windows(code, arguments[3:-1])
    line = allocated(code, windows.line())[0]
    inside, zeros = code.at("float", line, windows.left), code.value(0.0, f"<{LANES} x float>")
    with code.loop(first, last) as plane:
        image = code.at("float", grad, plane * windows.height * windows.width)
        for_each(code, windows.height * windows.width, lambda i, mask, image=image: store(code, zeros, image, i, mask))
        with code.loop(0, windows.rows) as row:
            for_each(code, windows.line(), lambda i, mask: store(code, zeros, line, i, mask))
            place = row * windows.columns
            with code.loop(0, windows.columns) as j:
                value = code.load("float", g, plane * windows.rows * windows.columns + place + j)
                value = value / _count(code, arguments, place + j, None, single=True)
                with code.loop(j * windows.step, j * windows.step + windows.across) as i:
                    code.store(code.load("float", line, i) + value, line, i)
            top = row * windows.stride - windows.above
            begin, end = windows.cells(row)
            with code.loop(top + begin, top + end) as i:
                target = code.at("float", image, i * windows.width)

                def add(k: Value, mask: Value | None, target: Value = target) -> None:
                    store(code, load(code, target, k, mask) + load(code, inside, k, mask), target, k, mask)

                for_each(code, windows.width, add)
    release(code, line)


@native("pppp" + SIZES)
def _maxima_grad(code: Code, first: Value, last: Value, arguments: list[Value], step: int, across: int) -> None:
    """g, out, x, grad, sizes; windows `step` apart across, of `across` columns, or of any number if that is 0.

    The winner of each window of a row, as the number of its cell, comes first. Then each pixel adds the gradients of the windows
    that it wins, in order, a vector of pixels at a time: so nothing is written twice in a row.
    """
    g, out, x, grad, *sizes = arguments
    windows = _Windows(code, sizes)
    if across:
        windows.across, windows.spread = code.value(across, "i64"), code.value(1, "i64")
    line, pad = windows.line(), windows.across * windows.spread + LANES
    image, slopes, winners, gains = allocated(
        code, windows.height * line, windows.height * line, pad + line, pad + line
    )
    nobody = code.bits(code.value(-1, f"<{LANES} x i32>"), "float")
    for_each(code, pad + line, lambda i, mask: store(code, nobody, winners, i, mask))
    winners, gains = (code.at("float", each, pad) for each in (winners, gains))
    zeros = code.value(0.0, f"<{LANES} x float>")
    with code.loop(first, last) as plane:
        pixels = plane * windows.height * windows.width
        for_each(code, windows.height * line, lambda i, mask: store(code, zeros, slopes, i, mask))
        _copy_lines(code, windows.height, windows.width, (x, pixels, windows.width), (image, windows.left, line))
        with code.loop(0, windows.rows) as row:
            place = (plane * windows.rows + row) * windows.columns

            def find(i: Value, mask: Value | None, place: Value = place, row: Value = row) -> None:
                largest = load(code, out, place + i, mask)
                winner = _winner(code, windows, (image, line), row, (i, step, across), largest)
                store(code, code.bits(winner, "float"), winners, i, mask)
                store(code, load(code, g, place + i, mask), gains, i, mask)

            for_each(code, windows.columns, find)
            begin, end = windows.cells(row)
            with code.loop(begin, end) as down:
                target = (row * windows.stride - windows.above + down * windows.dilation) * line
                _add_gains(code, windows, code.at("float", slopes, target), (winners, gains), down, (step, across))
        _copy_lines(code, windows.height, windows.width, (slopes, windows.left, line), (grad, pixels, windows.width))
    release(code, image)


def _copy_lines(code: Code, count: Value, width: Value, source: tuple[Value, Value, Value], out: tuple) -> None:
    """Copy lines. source, out: address, the place of the first element, and elements from a line to the next."""
    with code.loop(0, count) as row:
        start, target = (code.at("float", a, first + row * pitch) for a, first, pitch in (source, out))
        for_each(code, width, lambda i, mask: store(code, load(code, start, i, mask), target, i, mask))


def _columns(code: Code, windows: _Windows, known: int) -> Iterator[Value]:
    """The columns of a window from the last to the first, as code for each, or as a loop if their number is not known."""
    if known:
        yield from (code.value(known - 1 - c, "i64") for c in range(known))
        return
    with code.loop(0, windows.across) as c:
        yield windows.across - 1 - c


def _winner(code: Code, windows: _Windows, image: tuple[Value, Value], row: Value, place: tuple[Value, int, int],
            largest: Value) -> Value:  # fmt: skip
    """The cell that takes the gradient of each window of a row: the first that equals the largest, or the last NaN; -1 where
    there is none.

    Args:
        image: its address, with borders, and the elements of a line. place: the first of the windows, their distance, and the
            number of their columns if it is known. largest: elements of the windows.
    """
    first, step, known = place
    places = Value(code, f"<{', '.join(f'i32 {step * k}' for k in range(LANES))}>", f"<{LANES} x i32>")
    width = code.splat(code.cast(windows.width, "i32"), LANES)
    winner = code.variable(places.kind, -1)
    begin, end = windows.cells(row)
    with code.loop(begin, end) as k:
        down = end - 1 - (k - begin)
        line = (row * windows.stride - windows.above + down * windows.dilation) * image[1]
        for across in _columns(code, windows, known):
            at = first * step + across * windows.spread
            cells = code.load("float", image[0], line + at, LANES * step)
            cells = code.shuffle(cells, cells, range(0, LANES * step, step)) if step > 1 else cells
            column = places + code.splat(code.cast(at - windows.left, "i32"), LANES)
            inside = (column >= 0) & (column < width)
            unclaimed = (winner.get() < 0) | (largest == largest)
            hit = ((cells == largest) | (cells != cells)) & inside & unclaimed
            cell = code.splat(code.cast(down * windows.across + across, "i32"), LANES)
            winner.set(code.select(hit, cell, winner.get()))
    return winner.get()


def _add_gains(code: Code, windows: _Windows, target: Value, lines: tuple[Value, Value], down: Value,
               place: tuple[int, int]) -> None:  # fmt: skip
    """Add to the pixels of a line, at `target`, the gradients of the windows that they win as a cell of row `down`.

    Args:
        lines: addresses of the winners of a row of windows, and of their gradients. place: as of `_winner`, from the second on.
    """
    (winners, gains), (step, known) = lines, place
    with code.loop(0, (windows.left + windows.width + (step - 1)) // step, LANES) as i:
        there = code.load("float", target, i * step, LANES * step)
        sums = []
        for remainder in range(step):
            part = code.shuffle(there, there, range(remainder, LANES * step, step)) if step > 1 else there
            total = code.variable(part.kind, 0.0)
            total.set(part)
            for across in _columns(code, windows, known):  # so windows come in order
                back = remainder - across * windows.spread
                with code.when((back & (step - 1)) == 0):
                    j = i + (back >> (step - 1))
                    wins = code.bits(code.load("float", winners, j, LANES), "i32")
                    cell = code.splat(code.cast(down * windows.across + across, "i32"), LANES)
                    total.set(total.get() + code.select(wins == cell, code.load("float", gains, j, LANES), 0.0))
            sums.append(total.get())
        order = [k // step + LANES * (k % step) for k in range(LANES * step)]
        code.store(code.shuffle(*sums, order) if step > 1 else sums[0], target, i * step)


@native("pppp" + SIZES)
def _maxima_grad_of_any(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """As `_maxima_grad`, for windows at any distance, one by one; grad is zeros."""
    g, out, x, grad, *sizes = arguments
    windows = _Windows(code, sizes)
    winner, found = code.variable("i64"), code.variable("i64")
    with code.loop(first, last) as plane, code.loop(0, windows.rows) as row:
        begin, end = windows.cells(row)
        base = plane * windows.height * windows.width
        with code.loop(0, windows.columns) as j:
            place = (plane * windows.rows + row) * windows.columns + j
            largest = code.load("float", out, place)
            missing = code.cast(largest != largest, "i64", signed=False)
            found.set(0)
            with code.loop(begin, end) as down, code.loop(0, windows.across) as across:
                column = j * windows.step - windows.left + across * windows.spread
                with code.when((column >= 0) & (column < windows.width)):
                    at = (
                        base + (row * windows.stride - windows.above + down * windows.dilation) * windows.width + column
                    )
                    cell = code.load("float", x, at)
                    equal = code.cast((cell == largest) | (cell != cell), "i64", signed=False)
                    # The first of equal numbers, the last NaN.
                    with code.when(equal > found.get() * (1 - missing)):
                        winner.set(at)
                        found.set(1)
            with code.when(found.get() != 0):
                code.store(code.load("float", grad, winner.get()) + code.load("float", g, place), grad, winner.get())
