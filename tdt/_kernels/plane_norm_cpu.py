"""Batch and group normalisation of contiguous float32 images (N, C, *) on the CPU, in two passes over memory.

What shares its statistics is a unit: the channel of all samples, or the channels of a group of one sample. A unit's parts are
blocks of memory, planes of a channel or a whole group; their moments about their own means are joined in double precision
(T. F. Chan, G. H. Golub, R. J. LeVeque, 1983). A unit is computed by one thread, whatever its size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import _bfloat16, _rows
from tdt._kernels._arrays import total
from tdt._kernels._code import Code, Value, native
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._registry import prepares
from tdt._kernels._rows import LANES, across, contiguous, fma, for_each, load, row_function, store, summed
from tdt._kernels._syntax import vector
from tdt._kernels.layer_norm_cpu import TWO, _equal

GRAIN = 1 << 15  # elements that a thread should at least have
# Arrays, then: units, elements to the next unit, parts, elements of a part, elements to the next part; and as numbers of
# weights: those that are the same for all samples, to the next unit, planes of a part and their elements.
SIZES = "qqqqqqqqq"
_ONE, _ZERO = np.float32(1), np.float32(0)


def batch_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The op `batch_norm`: the result, mean, 1 / √(variance + eps) and unbiased variance."""
    out, mean, rstd, variance = _normed(x, w, b, _sizes(x, 0), (x.shape[1],), eps)
    return out, mean, rstd, variance


def group_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, groups: int, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The op `group_norm`: the result, and the groups' statistics (N, groups)."""
    return _normed(x, w, b, _sizes(x, groups), (x.shape[0], groups), eps)[:3]


@prepares(batch_norm)
def _(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, eps: float, recorded: bool) -> Any:
    return _prepared(x, _sizes(x, 0), (x.shape[1],), eps, 3 if recorded else 0)


@prepares(group_norm)
def _(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, groups: int, eps: float, recorded: bool) -> Any:
    return _prepared(x, _sizes(x, groups), (x.shape[0], groups), eps, 2 if recorded else 0)


def _prepared(
    x: np.ndarray, sizes: tuple[int, ...], shape: tuple[int, ...], eps: float, count: int
) -> Callable[..., Any] | None:
    """`_normed` with the first `count` statistics, for images of the shape of x; None where several threads would do it."""
    if sizes[0] >= 2 * _grain(sizes):
        return None
    like, kind, ones, zeros = x.shape, x.dtype, _equal(x.shape[1], 1), _equal(x.shape[1], 0)
    run = _forward(kind == BFLOAT16).with_last(sizes[0], *sizes, eps)

    def normed(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> Any:
        out, statistics = np.empty(like, kind), np.empty((3, *shape), np.float32)
        run(x, out, ones if w is None else w, zeros if b is None else b, statistics)
        return (out, *statistics[:count]) if count else out

    return normed


def batch_norm_eval(x: np.ndarray, mean: np.ndarray, var: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *,
                    eps: float) -> np.ndarray:  # fmt: skip
    """The op `batch_norm_eval`: the input normalised by statistics of its channels."""
    planes = x if x.ndim == 3 else x.reshape(*x.shape[:2], -1)
    numbers = mean, var, _ONE if w is None else w, _ZERO if b is None else b
    half = x.dtype == BFLOAT16
    out = _evaluated(half)(planes.view(np.uint16) if half else planes, *numbers, eps)
    return (out.view(BFLOAT16) if half else out).reshape(x.shape)


def batch_norm_eval_vjp(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """scale · g, and the sums of g and of g (x - mean) over each channel."""
    grad, sums = np.empty(x.shape, np.float32), np.empty((2, x.shape[1]), np.float32)
    _run(
        _evaluated_backward(),
        (contiguous(g), contiguous(x), grad, contiguous(mean), contiguous(scale), sums),
        _sizes(x, 0),
    )
    return grad, sums[0], sums[1]


def batch_norm_vjp(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, g_mean: np.ndarray, g_rstd: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients in x, w and b, from those of the result, the mean and 1 / √(variance + eps)."""
    sums = np.empty((2, x.shape[1]), np.float32)
    grad = _gradient(g, x, w, (mean, rstd, g_mean, g_rstd), sums, _sizes(x, 0))
    return grad, sums[1], sums[0]


def moving_average(running: np.ndarray, value: np.ndarray, *, momentum: float) -> np.ndarray:
    """running (1 - momentum) + value momentum, rounded once, written to `running`, which is contiguous."""
    _moving_average("ffdf")(running, contiguous(value), momentum, running)
    return running


def moving_averages(
    mean: np.ndarray, of_mean: np.ndarray, var: np.ndarray, of_var: np.ndarray, momentum: float
) -> None:
    """`moving_average` of the running `mean` and `var`, all contiguous."""
    _moving_averages().run(1, (mean, of_mean, var, of_var), mean.size, momentum)


def group_norm_vjp(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray,
                   g_mean: np.ndarray, g_rstd: np.ndarray) -> tuple[np.ndarray, ...]:  # fmt: skip
    """The gradients in x, w and b, from those of the three results."""
    sums = np.empty((2, *x.shape[:2]), np.float32)
    grad = _gradient(g, x, w, (mean, rstd, g_mean, g_rstd), sums, _sizes(x, mean.shape[1]))
    gb, gw = sums[:, 0] if len(x) == 1 else total(sums, 1)
    return grad, gw, gb


@prepares(batch_norm_vjp)
def _(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray
) -> Callable[..., tuple] | None:
    compute = _prepared_gradient((g, x, w, mean, rstd), (2, x.shape[1]), _sizes(x, 0))
    if compute is None:
        return None

    def gradients(*arrays: Any) -> tuple:
        grad, sums = compute(*arrays)
        return grad, sums[1], sums[0]

    return gradients


@prepares(group_norm_vjp)
def _(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, *,
      only_input: bool) -> Callable[..., tuple] | None:  # fmt: skip
    compute = _prepared_gradient((g, x, w, mean, rstd), (2, *x.shape[:2]), _sizes(x, mean.shape[1]))
    if compute is None:
        return None

    def gradients(*arrays: Any) -> tuple:
        grad, sums = compute(*arrays)
        if only_input:
            return grad, None, None
        gb, gw = sums[:, 0] if len(grad) == 1 else total(sums, 1)
        return grad, gw, gb

    return gradients


def _prepared_gradient(
    arrays: tuple[np.ndarray | None, ...], shape: tuple[int, ...], sizes: tuple[int, ...]
) -> Callable[..., tuple[np.ndarray, np.ndarray]] | None:
    """`_gradient` and its sums for g, x, w, mean and rstd like these; None where they are not contiguous or threads share it."""
    x, mean = arrays[1], arrays[3]
    assert x is not None and mean is not None
    if sizes[0] >= 2 * _grain(sizes) or not all(a is None or a.flags.c_contiguous for a in arrays):
        return None
    like, dtype, ones, zeros = x.shape, x.dtype, _equal(x.shape[1], 1), np.zeros(mean.shape, np.float32)
    run = _backward_on_one_thread(len(shape) == 3, dtype == BFLOAT16, sizes)

    def gradient(
        g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        grad, sums = np.empty(like, dtype), np.empty(shape, np.float32)
        run(g, x, grad, ones if w is None else w, mean, rstd, zeros, zeros, sums)
        return grad, sums

    return gradient


def _sizes(x: np.ndarray, groups: int) -> tuple[int, ...]:
    """The sizes of `SIZES`; groups: 0 for batch norm."""
    count, channels = x.shape[:2]
    pixels = math.prod(x.shape[2:])
    if not groups:
        return channels, pixels, count, pixels, channels * pixels, channels, 1, 1, pixels
    each = channels // groups
    size = each * pixels
    return count * groups, size, 1, size, size, groups, each, each, pixels


def _normed(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, sizes: tuple[int, ...], shape: tuple[int, ...],
            eps: float) -> tuple[np.ndarray, ...]:  # fmt: skip
    channels = x.shape[1]
    out, statistics = np.empty(x.shape, x.dtype), np.empty((3, *shape), np.float32)
    w, b = (_equal(channels, k) if v is None else contiguous(v) for v, k in ((w, 1), (b, 0)))
    _run(_forward(x.dtype == BFLOAT16), (contiguous(x), out, w, b, statistics), sizes, eps)
    return out, *statistics


def _gradient(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, statistics: tuple[np.ndarray, ...], sums: np.ndarray,
              sizes: tuple[int, ...]) -> np.ndarray:  # fmt: skip
    grad = np.empty(x.shape, x.dtype)
    w = _equal(x.shape[1], 1) if w is None else contiguous(w)
    by_plane, half = sums.ndim == 3, x.dtype == BFLOAT16
    arrays = contiguous(g), contiguous(x), grad, w, *map(contiguous, statistics), sums
    if sizes[0] < 2 * _grain(sizes):
        _backward_on_one_thread(by_plane, half, sizes)(*arrays)
    else:
        _run(_backward(by_plane, half), arrays, sizes)
    return grad


@functools.lru_cache(256)
def _backward_on_one_thread(by_plane: bool, half: bool, sizes: tuple[int, ...]) -> Callable[..., None]:
    return _backward(by_plane, half).with_last(sizes[0], *sizes)


def _run(kernel: NativeKernel, arrays: tuple[np.ndarray, ...], sizes: tuple[int, ...], *numbers: float) -> None:
    """Call the kernel on all units."""
    units, grain = sizes[0], _grain(sizes)
    if units < 2 * grain:
        kernel.run(units, arrays, *sizes, *numbers)
    else:
        parallel(kernel, units, *arrays, *sizes, *numbers, grain=grain)  # type: ignore[arg-type]


def _grain(sizes: tuple[int, ...]) -> int:
    """The units that a thread should at least have."""
    return -(-GRAIN // (sizes[2] * sizes[3]))


class _Parts:
    """The sizes of a call in the code, and loops over a unit's memory."""

    def __init__(self, code: Code, sizes: list[Value]):
        self.code = code
        (self.units, self.to_unit, self.parts, self.size, self.to_part, self.period, self.to_weight, self.planes,
         self.pixels) = sizes  # fmt: skip
        self.count = code.cast(self.parts * self.size, "double")

    def planes_of(self, unit: Value, part: Value) -> tuple[Value, Value]:
        """The first element of a part, and its first weight."""
        return unit * self.to_unit + part * self.to_part, (unit % self.period) * self.to_weight


@native("ppppp" + SIZES + "d")
def _forward(code: Code, first: Value, last: Value, arguments: list[Value], half: bool) -> None:
    """x, out, w, b, statistics (3, units), then the sizes and eps. half: x and out are of bfloat16."""
    memory, kind = (_bfloat16, "i16") if half else (_rows, "float")
    x, out, w, b, statistics, *sizes, eps = arguments
    parts = _Parts(code, sizes)
    share = code.value(1.0, "double") / code.cast(parts.size, "double")
    mean, means, squares, before = (code.variable("double") for _ in range(4))
    with code.loop(first, last) as unit:
        for variable in (mean, means, squares, before):
            variable.set(0.0)
        with code.loop(0, parts.parts) as part:
            start, _ = parts.planes_of(unit, part)
            part_mean, part_squares = _moments(code, code.at(kind, x, start), parts.size, share, memory)
            moved = part_mean - mean.get()
            together = before.get() + 1.0
            weight = code.select(before.get() == 0.0, code.value(1.0, "double"), code.value(1.0, "double") / together)
            mean.add(moved * weight)
            means.add(part_mean)
            between = moved * moved * before.get() * weight * code.cast(parts.size, "double")
            squares.set(code.select(before.get() == 0.0, part_squares, squares.get() + part_squares + between))
            before.set(together)
        with code.when(mean.get() != mean.get()):  # differences from an infinite mean are NaN
            mean.set(means.get())
        square = code.select(squares.get() < 0.0, 0.0, squares.get())  # of equal values it might round to less
        rstd = code.cast(code.value(1.0, "double") / code.call("sqrt", square / parts.count + eps), "float")
        centre = code.cast(mean.get(), "float")
        rest = code.cast(mean.get() - code.cast(centre, "double"), "float")  # what the mean loses by rounding
        for k, value in enumerate((centre, rstd, code.cast(square / (parts.count - 1.0), "float"))):
            code.store(value, statistics, unit + parts.units * k)
        with code.loop(0, parts.parts) as part:
            start, weight_at = parts.planes_of(unit, part)
            with code.loop(0, parts.planes) as plane:
                scale = code.splat(rstd * code.load("float", w, weight_at + plane), LANES)
                shift = code.splat(code.load("float", b, weight_at + plane), LANES)
                centres, rests = code.splat(centre, LANES), code.splat(rest, LANES)
                at = start + plane * parts.pixels
                source, target = (code.at(kind, a, at) for a in (x, out))

                def write(i: Value, mask: Value | None, source: Value = source, target: Value = target, scale: Value = scale,
                          shift: Value = shift, centres: Value = centres, rests: Value = rests) -> None:  # fmt: skip
                    value = memory.load(code, source, i, mask) - centres - rests
                    memory.store(code, fma(code, value, scale, shift), target, i, mask)

                for_each(code, parts.pixels, write)


@row_function("(n),(),(),(),(),()->(n)", "fffffdf", half="EffffdE")
def _evaluated(code: Code, pointers: list[Value], n: Value, half: bool) -> None:
    memory = _bfloat16 if half else _rows
    x, mean, var, w, b, eps, out = pointers
    deviation = code.call("sqrt", code.cast(code.load("float", var), "double") + code.load("double", eps))
    rstd = code.cast(code.value(1.0, "double") / deviation, "float")
    centre, scale, shift = (
        code.splat(value, LANES)
        for value in (code.load("float", mean), rstd * code.load("float", w), code.load("float", b))
    )

    def write(i: Value, mask: Value | None) -> None:
        memory.store(code, fma(code, memory.load(code, x, i, mask) - centre, scale, shift), out, i, mask)

    for_each(code, n, write)


def _moments(code: Code, x: Value, n: Value, share: Value, memory: Any) -> tuple[Value, Value]:
    """The mean of n elements, and the sum of squares about it; share: 1 / n; memory: `_rows` or `_bfloat16`."""
    load = memory.load
    plain = code.variable(vector("double", LANES), 0.0)  # a mean near 0 is the difference of large sums
    for_each(code, n, lambda i, mask: plain.add(code.cast(load(code, x, i, mask), "double")))
    mean = across(code, plain.get()) * share
    centre = code.cast(mean, "float")

    def squares(i: Value, width: int, mask: Value | None) -> tuple[Value]:
        d = load(code, x, i, mask, width) - code.splat(centre, width)
        d = d if mask is None else code.select(mask, d, 0.0)
        return (d * d,)

    moved = mean - code.cast(centre, "double")
    return mean, summed(code, n, 1, squares)[0] - moved * moved * code.cast(n, "double")


@native("ppppppppp" + SIZES)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value], by_plane: bool, half: bool) -> None:
    """g, x, grad, w, mean, rstd, g_mean, g_rstd (units), sums (2, weights), then the sizes.

    by_plane: whether each plane has sums of its own, as in group norm. half: g, x and grad are of bfloat16.
    """
    memory, kind = (_bfloat16, "i16") if half else (_rows, "float")
    g, x, grad, w, means, rstds, g_means, g_rstds, sums, *sizes = arguments
    parts = _Parts(code, sizes)
    plain, weighted, all_plain, all_weighted = (code.variable("double") for _ in range(4))
    with code.loop(first, last) as unit:
        mean, rstd = (code.load("float", a, unit) for a in (means, rstds))
        scale = code.cast(rstd, "double")
        for variable in (plain, weighted, all_plain, all_weighted):
            variable.set(0.0)

        def sum_plane(at: Value, mean: Value = mean) -> list[Value]:
            lines = [code.at(kind, a, at) for a in (g, x)]

            def terms(i: Value, width: int, mask: Value | None) -> tuple[Value, Value]:
                value = memory.load(code, lines[0], i, mask, width)
                product = value * (memory.load(code, lines[1], i, mask, width) - code.splat(mean, width))
                return value, product if mask is None else code.select(mask, product, 0.0)

            return summed(code, parts.pixels, 2, terms, TWO)

        with code.loop(0, parts.parts) as part:
            start, weight_at = parts.planes_of(unit, part)
            with code.loop(0, parts.planes) as plane:
                p, q = sum_plane(start + plane * parts.pixels)
                if by_plane:
                    place = unit * parts.planes + plane
                    code.store(code.cast(p, "float"), sums, place)
                    code.store(code.cast(q * scale, "float"), sums, parts.units * parts.planes + place)
                weight = code.cast(code.load("float", w, weight_at + plane), "double")
                plain.add(p)
                weighted.add(q)
                all_plain.add(p * weight)
                all_weighted.add(q * weight)
        if not by_plane:
            code.store(code.cast(plain.get(), "float"), sums, unit)
            code.store(code.cast(weighted.get() * scale, "float"), sums, parts.units + unit)
        g_mean, g_rstd = (code.cast(code.load("float", a, unit), "double") for a in (g_means, g_rstds))
        less = (all_plain.get() * scale - g_mean) / parts.count
        # d rstd / d x = - rstd³ (x - mean) / count
        steep = (all_weighted.get() * scale + g_rstd * scale) * scale * scale / parts.count
        shift = code.splat(code.cast(less, "float"), LANES)
        slope = code.splat(code.cast(code.value(0.0, "double") - steep, "float"), LANES)
        centres = code.splat(mean, LANES)
        with code.loop(0, parts.parts) as part:
            start, weight_at = parts.planes_of(unit, part)
            with code.loop(0, parts.planes) as plane:
                by = code.splat(rstd * code.load("float", w, weight_at + plane), LANES)
                lines = [code.at(kind, a, start + plane * parts.pixels) for a in (g, x, grad)]

                def write(i: Value, mask: Value | None, lines: list[Value] = lines, by: Value = by, slope: Value = slope,
                          shift: Value = shift, centres: Value = centres) -> None:  # fmt: skip
                    d = memory.load(code, lines[1], i, mask) - centres
                    value = fma(code, slope, d, memory.load(code, lines[0], i, mask) * by - shift)
                    memory.store(code, value, lines[2], i, mask)

                for_each(code, parts.pixels, write)


@native("pppppp" + SIZES, vectorize=False)
def _evaluated_backward(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """g, x, grad, mean, scale (units), sums (2, units), then the sizes."""
    g, x, grad, means, scales, sums, *sizes = arguments
    parts = _Parts(code, sizes)
    totals = [code.variable("double") for _ in range(2)]
    with code.loop(first, last) as unit:
        mean, scale = (code.load("float", a, unit) for a in (means, scales))
        for total in totals:
            total.set(0.0)
        with code.loop(0, parts.parts) as part:
            start, _ = parts.planes_of(unit, part)
            lines = [code.at("float", a, start) for a in (g, x, grad)]

            def terms(i: Value, width: int, mask: Value | None, lines: list[Value] = lines, mean: Value = mean,
                      scale: Value = scale) -> tuple[Value, Value]:  # fmt: skip
                value = load(code, lines[0], i, mask, width)
                store(code, value * code.splat(scale, width), lines[2], i, mask)
                product = value * (load(code, lines[1], i, mask, width) - code.splat(mean, width))
                return value, product if mask is None else code.select(mask, product, 0.0)

            for total, found in zip(totals, summed(code, parts.size, 2, terms, TWO), strict=True):
                total.add(found)
        for k, total in enumerate(totals):
            code.store(code.cast(total.get(), "float"), sums, unit + parts.units * k)


@generalized("(n),(n),()->(n)", vectorize=False)
def _moving_average(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    running, value, momentum, out = (operand.address for operand in operands)
    _move(code, running, value, out, sizes[0], code.load("double", momentum))


@native("ppppqd", vectorize=False)
def _moving_averages(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Running means, means, running variances, variances, their number and the momentum."""
    *arrays, n, momentum = arguments
    for running, value in (arrays[:2], arrays[2:]):
        _move(code, running, value, running, n, momentum)


def _move(code: Code, running: Value, value: Value, out: Value, n: Value, momentum: Value) -> None:
    weights = [code.splat(weight, LANES) for weight in (1.0 - momentum, momentum)]

    def move(i: Value, mask: Value | None) -> None:
        old, new = (code.cast(load(code, a, i, mask), "double") for a in (running, value))
        store(code, code.cast(old * weights[0] + new * weights[1], "float"), out, i, mask)

    for_each(code, n, move)
