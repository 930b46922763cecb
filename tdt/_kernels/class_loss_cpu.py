"""Cross-entropy with weights of classes, label smoothing and ignored samples, and the negative log-likelihood, in float32.

A kernel reads the logits once, as rows (N, C) or as columns of (N, C, *d), and writes each sample's loss, the share that it has
in a mean, its maximum and its sum of exponentials; another one computes the exponentials again for the gradient, so that nothing
as large as the logits is kept between them. The losses of rows and columns are equal.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels._columns import TILE, Columns, column_sums, columns_of
from tdt._kernels._exponential import exp_of_negative
from tdt._kernels._gufunc import Operand, for_arrays, generalized
from tdt._kernels._inline import inline
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._registry import prepares
from tdt._kernels._rows import LANES, MANY, for_each, load, store, summed
from tdt._kernels.column_softmax_cpu import exponentials
from tdt._kernels.layer_norm_cpu import _equal
from tdt._kernels.softmax_cpu import log_of, row_exponentials

GRAIN = 1 << 14  # elements that a thread should at least have
_ONE = np.ones((), np.float32)


class Layout(NamedTuple):
    """Logits as (outer, n, inner), contiguous; inner is 1 for rows."""

    outer: int
    n: int
    inner: int


def layout(x: np.ndarray) -> tuple[np.ndarray, Layout]:
    """(N, C, *d), or (C,), as contiguous rows (N, C), where the classes lie side by side, or columns (N, C, d)."""
    if x.ndim < 3:
        rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
        return rows, Layout(len(rows), rows.shape[1], 1)
    count, n, inner = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    if inner != 1 and not x.flags.c_contiguous:
        last = x.transpose(0, *range(2, x.ndim), 1)
        if last.flags.c_contiguous:
            return last.reshape(-1, n), Layout(count * inner, n, 1)
    if inner == 1:
        return np.ascontiguousarray(x).reshape(count, n), Layout(count, n, 1)
    return np.ascontiguousarray(x).reshape(count, n, inner), Layout(count, n, inner)


def cross_entropy(
    x: np.ndarray, t: np.ndarray, weight: np.ndarray | None, *, ignore_index: int, smoothing: float
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]] | None:
    """For logits (N, C, *d) or (C,) and classes t, contiguous, of N · d samples: the losses, each sample's share in a mean, and
    for the gradient the samples' maxima and sums of exp(x - maximum).

    None where a class is out of range.
    """
    x, form = layout(x)
    samples = form.outer * form.inner
    losses, shares, tops, sums = np.empty((4, samples), np.float32)
    wrong = np.zeros((), np.int64)
    _run(_losses(form.inner == 1, bool(smoothing)), form,
         (x, t, _weights(weight, form.n), losses, shares, tops, sums, wrong), ignore_index, smoothing,
         _whole(weight, form.n))  # fmt: skip
    return None if wrong else (losses, shares, (tops, sums))


def cross_entropy_vjp(
    g: np.ndarray, x: np.ndarray, t: np.ndarray, weight: np.ndarray | None, sums: tuple[np.ndarray, np.ndarray], *,
    ignore_index: int, smoothing: float,
) -> np.ndarray:  # fmt: skip
    """The gradient in the logits x, from those in the samples' losses, (N · d,) or one for all.

    It is (N · d, C) if the classes lie side by side in memory, else (N, C, d).

    Args:
        sums: the maxima and sums that `cross_entropy` returned.
    Raises:
        IndexError: when a class is out of range.
    """
    x, form = layout(x)
    grad, wrong = np.empty(x.shape, np.float32), np.zeros((), np.int64)
    _run(_gradient(form.inner == 1, bool(smoothing)), form,
         (np.ascontiguousarray(g), t, _weights(weight, form.n), x, *sums, grad, wrong), ignore_index, smoothing,
         _whole(weight, form.n), int(g.ndim > 0))  # fmt: skip
    _check(wrong, t, form.n, ignore_index)
    return grad


def prepared_nll_loss(
    shape: tuple[int, ...], of_target: tuple[int, ...], *, reduction: str, ignore_index: int
) -> Callable[[np.ndarray, np.ndarray, np.ndarray | None], tuple]:
    """A function of logarithms of probabilities, classes of int64 and weights, of these shapes: their negative log-likelihood,
    reduced, then the classes side by side, the share of each in a mean, None, and in a mean the sum of the shares.

    It raises IndexError where a class is out of range.
    """
    lead = shape if len(shape) > 1 else (1, *shape)
    form = *lead[:2], math.prod(lead[2:])
    code, ignored, ones = _picked("flflfffffl"), _integer(ignore_index), _equal(lead[1], 1)
    x, t = np.zeros(form, np.float32), np.zeros((form[0], form[2]), np.int64)
    call = for_arrays(
        lambda x, t, *rest: code(x.reshape(form), t.reshape(form[0], form[2]), *rest),
        code,
        [x, t, ones, ignored],
        tables=1,
    )

    def loss(x: np.ndarray, t: np.ndarray, weight: np.ndarray | None = None) -> tuple:
        flat, weights = t.reshape(-1), ones if weight is None else np.ascontiguousarray(weight)
        losses, shares, mean, total, norm, wrong = call(np.ascontiguousarray(x), flat, weights, ignored)
        if wrong:
            raise IndexError("a class is out of range")
        if reduction == "mean":
            return mean, flat, shares, None, norm
        return total if reduction == "sum" else losses.reshape(of_target), flat, shares, None, None

    return loss


def nll_loss_vjp(
    g: np.ndarray, norm: np.ndarray | None, t: np.ndarray, weight: np.ndarray | None, shape: tuple[int, ...], *, ignore_index: int
) -> np.ndarray:  # fmt: skip
    """The gradient in log-probabilities of this shape, from those in the samples' losses, (N · d,) or one for all, by `norm`.

    Raises:
        IndexError: when a class is out of range.
    """
    return _prepared_nll_gradient(shape, ignore_index=ignore_index)(g, norm, t, weight)


@prepares(nll_loss_vjp)
def _prepared_nll_gradient(shape: tuple[int, ...], *, ignore_index: int) -> Callable[..., np.ndarray]:
    """A function of the first four arguments of `nll_loss_vjp`."""
    lead = shape if len(shape) > 1 else (1, *shape)
    code, ignored, ones = _put("fflflfl"), _integer(ignore_index), _equal(lead[1], 1)

    def gradient(g: np.ndarray, norm: np.ndarray | None, t: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        weights = ones if weight is None else np.ascontiguousarray(weight)
        grad, wrong = code(g.reshape(-1), _ONE if norm is None else norm, t.reshape(lead[0], -1), weights, ignored)
        if wrong:
            _check(wrong, t, lead[1], ignore_index)
        return grad.reshape(shape)

    return gradient


def mean_cross_entropy(
    x: np.ndarray, t: np.ndarray, *, mean: bool, ignore_index: int
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray] | None:
    """The sum or the mean of the losses of rows (N, C) and classes (N,), on one thread and in one short call, the rows' maxima
    and sums, as of `cross_entropy`, and what the sum is divided by. None where a class is out of range.
    """
    try:
        return prepared_mean(mean=mean, ignore_index=ignore_index)(np.ascontiguousarray(x), np.ascontiguousarray(t))
    except IndexError:
        return None


def prepared_mean(*, mean: bool, ignore_index: int) -> Callable[[np.ndarray, np.ndarray], tuple]:
    """`mean_cross_entropy` of contiguous arrays; IndexError where a class is out of range. See `prepares`."""
    code, left_out = _small_cross_entropy("fllfffffl", mean), _integer(ignore_index)

    def loss(x: np.ndarray, t: np.ndarray) -> tuple:
        _, tops, sums, loss, norm, wrong = code(x, t, left_out)
        if wrong:
            raise IndexError("a class is out of range")
        return loss, (tops, sums), norm

    return loss


def mean_cross_entropy_vjp(
    x: np.ndarray, t: np.ndarray, sums: tuple[np.ndarray, np.ndarray], g: np.ndarray, norm: np.ndarray, *, ignore_index: int
) -> np.ndarray:  # fmt: skip
    """The gradient in x, from the gradient `g` of the sum of the losses by `norm`.

    Raises:
        IndexError: when a class is out of range.
    """
    rows, classes = np.ascontiguousarray(x), np.ascontiguousarray(t)
    grad, wrong = _small_cross_entropy_grad("flfffflfl")(rows, classes, *sums, g, norm, _integer(ignore_index))
    _check(wrong, t, x.shape[1], ignore_index)
    return grad


def total(values: np.ndarray) -> np.float32:
    """The sum of an array's elements."""
    return _total("ff")(values)


def mean(losses: np.ndarray, shares: np.ndarray) -> tuple[np.float32, np.float32]:
    """The sum of the losses by that of the shares, and that of the shares."""
    return _mean("ffff")(losses, shares)


def _check(wrong: np.ndarray, t: np.ndarray, n: int, ignore_index: int) -> None:
    if wrong:
        bad = t[((t < 0) | (t >= n)) & (t != ignore_index)]
        raise IndexError(f"Target {int(bad[0])} is out of bounds; there are {n} classes, 0 to {n - 1}.")


def _weights(weight: np.ndarray | None, n: int) -> np.ndarray:
    return _equal(n, 1) if weight is None else np.ascontiguousarray(weight)


def _whole(weight: np.ndarray | None, n: int) -> float:
    """The sum of the weights."""
    return float(n) if weight is None else float(weight.sum(dtype=np.float64))


def _run(kernel: NativeKernel, form: Layout, arrays: tuple, ignore_index: int, smoothing: float, whole: float,
         *step: int) -> None:  # fmt: skip
    units = form.outer if form.inner == 1 else form.outer * -(-form.inner // TILE)
    _call(kernel, units, form, arrays, ignore_index, smoothing / form.n, 1.0 - smoothing, whole, *step)


def _call(kernel: NativeKernel, units: int, form: Layout, arrays: tuple, *numbers: Any) -> None:
    grain = -(-GRAIN * units // (form.outer * form.n * form.inner))
    if units < 2 * grain:
        kernel.run(units, arrays, *form, *numbers)
    else:
        parallel(kernel, units, *arrays, *form, *numbers, grain=grain)  # type: ignore[arg-type]


class _Sample(NamedTuple):
    """What a sample's class says.

    Attributes:
        t: the class; 0 for ignored ones and those out of range.
        ignored: whether it is left out.
        share: its weight, 0 if it is left out.
    """

    t: Value
    ignored: Value
    share: Value


def _sample(code: Code, t: Value, n: Value, ignore_index: Value, weight: Value | Operand, wrong: Value) -> _Sample:
    ignored, outside = t == ignore_index, (t < 0) | (t >= n)
    with code.when(outside & (ignored ^ code.value(1, "i1"))):
        code.store(code.value(1, "i64"), wrong)
    t = code.select(outside, 0, t)
    share = code.load("float", weight, t) if isinstance(weight, Value) else code.load("float", weight.place(code, t))
    return _Sample(t, ignored, code.select(ignored, 0.0, share))


def _finish(code: Code, sample: _Sample, log: Value, right: Value, every: Value | None, numbers: list[Value], losses: Value,
            shares: Value, place: Value) -> None:  # fmt: skip
    """Write a sample's loss: log - right for its own class, and (with smoothing) log · whole - every for all."""
    of_all, of_own, whole = (code.cast(v, "float") for v in numbers)
    loss = (log - right) * sample.share
    if every is not None:
        loss = loss * of_own + (log * whole - every) * of_all
    code.store(code.select(sample.ignored, 0.0, loss), losses, place)
    code.store(sample.share, shares, place)


@native("pppppppp" + "qqqq" + "ddd", vectorize=False)
def _losses(code: Code, first: Value, last: Value, arguments: list[Value], rows: bool, smooth: bool) -> None:
    x, t, w, losses, shares, tops, sums, wrong, _, n, inner, ignore_index, *numbers = arguments
    sample_at = lambda place: _sample(code, code.load("i64", t, place), n, ignore_index, w, wrong)  # noqa: E731
    if rows:
        with code.loop(first, last) as row:
            line = code.at("float", x, row * n)
            top, together = row_exponentials(code, line, n)
            every, shift = None, top
            if smooth:

                def terms(
                    i: Value, count: int, mask: Value | None, line: Value = line, top: Value = shift
                ) -> tuple[Value]:
                    d = load(code, line, i, mask, count) - code.splat(top, count)
                    d = d if mask is None else code.select(mask, d, 0.0)
                    return (d * load(code, w, i, mask, count),)

                every = code.cast(summed(code, n, 1, terms)[0], "float")
            sample = sample_at(row)
            right = code.load("float", line, sample.t) - top
            _finish(code, sample, log_of(code, together), right, every, numbers, losses, shares, row)
            code.store(top, tops, row)
            code.store(code.cast(together, "float"), sums, row)
        return
    top, logs, total = code.array("float", TILE), code.array("float", TILE), code.array("double", TILE)
    every_sums = code.array("double", TILE)
    with code.loop(first, last) as unit:
        columns = columns_of(code, unit, n, inner)
        exponentials(code, columns, x, top, total, None)
        if smooth:

            def term(c: Value, i: Value, mask: Value | None, columns: Columns = columns) -> Value:
                d = load(code, columns.line(code, x, c), i, mask) - code.load("float", top, i, LANES)
                return d * code.splat(code.load("float", w, c), LANES)

            column_sums(code, columns, term, every_sums, (MANY, LANES))

        def finish_vector(i: Value, mask: Value | None, columns: Columns = columns) -> None:
            together = code.load("double", total, i, LANES)
            code.store(log_of(code, together), logs, i)
            store(code, code.load("float", top, i, LANES), code.at("float", tops, columns.first), i, mask)
            store(code, code.cast(together, "float"), code.at("float", sums, columns.first), i, mask)

        columns.each(code, finish_vector)
        with code.loop(0, columns.count) as j:
            place = columns.first + j
            sample = sample_at(place)
            right = code.load("float", x, columns.at + sample.t * inner + j) - code.load("float", top, j)
            every = code.cast(code.load("double", every_sums, j), "float") if smooth else None
            _finish(code, sample, code.load("float", logs, j), right, every, numbers, losses, shares, place)


@native("pppppppp" + "qqqq" + "ddd" + "q", vectorize=False)
def _gradient(code: Code, first: Value, last: Value, arguments: list[Value], rows: bool, smooth: bool) -> None:
    """step: 1 if every sample has a gradient of its own, else 0."""
    g, t, w, x, tops, sums, grad, wrong, _, n, inner, ignore_index, *numbers, step = arguments
    of_all, of_own, whole = (code.cast(v, "float") for v in numbers)

    def factors(place: Value) -> tuple[Value, Value, Value, Value]:
        """A sample's class, what is subtracted there, the factor of its exponentials, and that of the weights of classes."""
        sample = _sample(code, code.load("i64", t, place), n, ignore_index, w, wrong)
        slope = code.load("float", g, place * step)
        own, every = slope * sample.share, code.value(0.0, "float")
        if smooth:
            own, every = own * of_own, code.select(sample.ignored, 0.0, slope * of_all)
        own = code.select(sample.ignored, 0.0, own)
        return sample.t, own, (own + every * whole if smooth else own) / code.load("float", sums, place), every

    if rows:
        with code.loop(first, last) as row:
            place, own, by, every = factors(row)
            source, target = (code.at("float", a, row * n) for a in (x, grad))
            shift, many, all_classes = (code.splat(v, LANES) for v in (code.load("float", tops, row), by, every))

            def write(i: Value, mask: Value | None, source: Value = source, target: Value = target, shift: Value = shift,
                      many: Value = many, all_classes: Value = all_classes) -> None:  # fmt: skip
                value = inline(code, exp_of_negative, load(code, source, i, mask) - shift) * many
                if smooth:
                    value = value - all_classes * load(code, w, i, mask)
                store(code, value, target, i, mask)

            for_each(code, n, write)
            code.store(code.load("float", target, place) - own, target, place)
        return
    own_of, by_of, every_of = (code.array("float", TILE) for _ in range(3))
    class_of = code.array("i64", TILE)
    with code.loop(first, last) as unit:
        columns = columns_of(code, unit, n, inner)
        tops_here = code.at("float", tops, columns.first)
        with code.loop(0, columns.count) as j:
            found = factors(columns.first + j)
            for value, array in zip(found, (class_of, own_of, by_of, every_of), strict=True):
                code.store(value, array, j)
        with code.loop(0, n) as c:
            source, target = columns.line(code, x, c), columns.line(code, grad, c)
            here = code.splat(code.load("float", w, c), LANES)

            def write_line(i: Value, mask: Value | None, source: Value = source, target: Value = target, here: Value = here,
                           tops_here: Value = tops_here) -> None:  # fmt: skip
                shifted = load(code, source, i, mask) - load(code, tops_here, i, mask)
                value = inline(code, exp_of_negative, shifted) * code.load("float", by_of, i, LANES)
                if smooth:
                    value = value - code.load("float", every_of, i, LANES) * here
                store(code, value, target, i, mask)

            columns.each(code, write_line)
        with code.loop(0, columns.count) as j:
            at = columns.at + code.load("i64", class_of, j) * inner + j
            code.store(code.load("float", grad, at) - code.load("float", own_of, j), grad, at)


@generalized("(o,n,i),(o,i),(n),()->(o,i),(o,i),(),(),(),()", vectorize=False)
def _picked(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    x, t, w, ignore_index, losses, shares, mean, total, norm, wrong = operands
    outer, n, inner = sizes
    ignored = code.load("i64", ignore_index.address)
    code.store(code.value(0, "i64"), wrong.address)
    with code.loop(0, outer) as k, code.loop(0, inner) as j:
        sample = _sample(code, code.load("i64", t.place(code, k, j)), n, ignored, w, wrong.address)
        loss = (code.value(0.0, "float") - code.load("float", x.place(code, k, sample.t, j))) * sample.share
        code.store(code.select(sample.ignored, 0.0, loss), losses.address, k * inner + j)
        code.store(sample.share, shares.address, k * inner + j)
    together, share = (_sum(code, a.address, outer * inner) for a in (losses, shares))
    for value, out in ((together / share, mean), (together, total), (share, norm)):
        code.store(code.cast(value, "float"), out.address)


@functools.lru_cache(64)
def _integer(number: int) -> np.ndarray:
    return np.asarray(number, np.int64)


@generalized("(k),(),(o,i),(n),()->(o,n,i),()", vectorize=False)
def _put(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    """From the gradients in the losses, or one for all, and what they are divided by."""
    g, norm, t, w, ignore_index, grad, wrong = operands
    slopes, outer, inner, n = sizes
    ignored = code.load("i64", ignore_index.address)
    code.store(code.value(0, "i64"), wrong.address)
    code.clear(grad.address, outer * n * inner * 4)
    with code.loop(0, outer) as k, code.loop(0, inner) as j:
        place = k * inner + j
        sample = _sample(code, code.load("i64", t.place(code, k, j)), n, ignored, w, wrong.address)
        slope = code.load("float", g.place(code, code.select(slopes == 1, 0, place))) / code.load("float", norm.address)
        value = (code.value(0.0, "float") - slope) * sample.share
        code.store(code.select(sample.ignored, 0.0, value), grad.address, (k * n + sample.t) * inner + j)


def _sum(code: Code, x: Value, count: Value) -> Value:
    """The sum of an array in double precision."""
    return summed(code, count, 1, lambda i, width, mask: (load(code, x, i, mask, width),))[0]


@generalized("(n)->()", vectorize=False)
def _total(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    code.store(code.cast(_sum(code, operands[0].address, sizes[0]), "float"), operands[1].address)


@generalized("(n),(n)->(),()", vectorize=False)
def _mean(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    losses, shares, result, share = operands
    together = _sum(code, shares.address, sizes[0])
    code.store(code.cast(_sum(code, losses.address, sizes[0]) / together, "float"), result.address)
    code.store(code.cast(together, "float"), share.address)


def _rows_of(code: Code, operands: Sequence[Operand], count: Value) -> Iterator[list[Value]]:
    """The addresses of a row in each operand, in a loop over rows."""
    with code.loop(0, count) as row:
        yield [code.at("i8", o.address, row * o.strides[0]) for o in operands]


def _class_of(code: Code, place: Value, n: Value, wrong: Variable) -> Value:
    """A row's class; 0 where it is out of range, which is counted."""
    t = code.load("i64", place)
    outside = (t < 0) | (t >= n)
    wrong.add(code.cast(outside, "i64", signed=False))
    return code.select(outside, 0, t)


def _class_unless_ignored(
    code: Code, place: Value, n: Value, wrong: Variable, ignore_index: Value
) -> tuple[Value, Value]:
    """`_class_of` of a row that may be left out, and whether it is."""
    t = code.load("i64", place)
    skipped, outside = t == ignore_index, (t < 0) | (t >= n)
    wrong.add(code.cast(outside & (skipped ^ code.value(1, "i1")), "i64", signed=False))
    return code.select(outside, 0, t), skipped


@generalized("(m,n),(m),()->(m),(m),(m),(),(),()", vectorize=False)
def _small_cross_entropy(code: Code, operands: list[Operand], sizes: list[Value], mean: bool) -> None:
    x, t, ignore_index, losses, tops, sums, loss, norm, wrong = operands
    count, n = sizes
    ignored, outside, counted = code.load("i64", ignore_index.address), code.variable("i64", 0), code.variable("i64", 0)
    for line, place, at_loss, at_top, at_sum in _rows_of(code, (x, t, losses, tops, sums), count):
        top, together = row_exponentials(code, line, n)
        class_, skipped = _class_unless_ignored(code, place, n, outside, ignored)
        right = code.load("float", line, class_) - top
        code.store(code.select(skipped, 0.0, log_of(code, together) - right), at_loss)
        code.store(top, at_top)
        code.store(code.cast(together, "float"), at_sum)
        counted.add(code.select(skipped, 0, code.value(1, "i64")))
    divisor = code.cast(counted.get(), "double") if mean else code.value(1.0, "double")
    code.store(code.cast(_sum(code, losses.address, count) / divisor, "float"), loss.address)
    code.store(code.cast(divisor, "float"), norm.address)
    code.store(outside.get(), wrong.address)


@generalized("(m,n),(m),(m),(m),(),(),()->(m,n),()", vectorize=False)
def _small_cross_entropy_grad(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    x, t, tops, sums, g, norm, ignore_index, grad, wrong = operands
    count, n = sizes
    ignored, outside = code.load("i64", ignore_index.address), code.variable("i64", 0)
    slope = code.load("float", g.address) / code.load("float", norm.address)
    for line, place, at_top, at_sum, out in _rows_of(code, (x, t, tops, sums, grad), count):
        at, skipped = _class_unless_ignored(code, place, n, outside, ignored)
        own = code.select(skipped, 0.0, slope)
        by, shift = (code.splat(v, LANES) for v in (own / code.load("float", at_sum), code.load("float", at_top)))

        def write(i: Value, mask: Value | None, line: Value = line, out: Value = out, by: Value = by,
                  shift: Value = shift) -> None:  # fmt: skip
            store(code, inline(code, exp_of_negative, load(code, line, i, mask) - shift) * by, out, i, mask)

        for_each(code, n, write)
        code.store(code.load("float", out, at) - own, out, at)
    code.store(outside.get(), wrong.address)
