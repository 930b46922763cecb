"""Connectionist temporal classification in float32 on the CPU: the recursions over frames, a sample after the other.

All places of a frame are computed in vectors. See `tdt._ops.nn.loss.ctc` for what places, steps and sums are.
"""

from __future__ import annotations

import numpy as np

from tdt._kernels import functions
from tdt._kernels._code import Code, Value, native
from tdt._kernels._exponential import exp_of_negative, log_from_1
from tdt._kernels._inline import inline
from tdt._kernels._pool import parallel
from tdt._kernels._rows import LANES, allocated, contiguous, for_each, load, mask_of, release, store

GRAIN = 1 << 12  # places at all frames that a thread should at least have
NEVER = -1e30
SIZES = "q" * 5  # frames, samples, classes, labels of a sample, and the blank

Arrays = tuple[np.ndarray, ...]


def ctc_loss(x: np.ndarray, labels: np.ndarray, frames: np.ndarray, lengths: np.ndarray, *, blank: int) -> Arrays:
    """The op `ctc_loss`: the losses, the steps and the sums."""
    (count, n, _), places = x.shape, 2 * labels.shape[1] + 1
    out, steps, sums = (np.empty(s, np.float32) for s in ((n,), (count, n, places), (count, n, places + 2)))
    arrays = tuple(contiguous(a) for a in (x, labels, frames, lengths))
    sizes = (*x.shape, labels.shape[1], blank)
    parallel(_losses(), n, *arrays, out, steps, sums, *sizes, grain=-(-GRAIN // (count * places)))  # type: ignore[arg-type]
    return out, steps, sums


def ctc_loss_vjp(g: np.ndarray, x: np.ndarray, labels: np.ndarray, frames: np.ndarray, lengths: np.ndarray, out: np.ndarray,
                 steps: np.ndarray, sums: np.ndarray, *, blank: int) -> np.ndarray:  # fmt: skip
    """The gradient in the logits under the log_softmax x."""
    grad = np.empty(x.shape, np.float32)
    arrays = tuple(contiguous(a) for a in (g, x, labels, frames, lengths, out, steps, sums))
    sizes = (*x.shape, labels.shape[1], blank)
    grain = -(-GRAIN // (len(x) * steps.shape[2]))
    parallel(_gradient(), len(labels), *arrays, grad, *sizes, grain=grain)  # type: ignore[arg-type]
    return grad


def _log_sum(code: Code, *terms: Value) -> Value:
    """log(Σ exp(term)) of finite numbers."""
    top = terms[0]
    for term in terms[1:]:
        top = code.select(term > top, term, top)
    total = None
    for term in terms:
        e = inline(code, exp_of_negative, term - top)
        total = e if total is None else total + e
    assert total is not None
    return top + inline(code, log_from_1, total)


def _write_walk(code: Code, labels: Value, count: Value, blank: Value, walk: Value, leap: Value, end: Value) -> None:
    """The classes along a path, as integers, and where a leap may land, 0 or NEVER; up to `end`, a multiple of LANES."""
    with code.loop(0, end) as place:
        code.store(code.cast(blank, "i32"), walk, place)
        code.store(code.value(NEVER, "float"), leap, place)
    with code.loop(0, count) as k:
        label = code.load("i64", labels, k)
        code.store(code.cast(label, "i32"), walk, k * 2 + 1)
        with code.when(k > 0):
            differs = label != code.load("i64", labels, k - 1)
            code.store(code.select(differs, code.value(0.0, "float"), NEVER), leap, k * 2 + 1)


@native("ppppppp" + SIZES, vectorize=False)
def _losses(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    x, labels, frames, lengths, out, steps, sums, _, samples, classes, count, blank = arguments
    places = count * 2 + 1
    end = (places + (LANES - 1)) & -LANES
    walk, leap = allocated(code, end, end)
    with code.loop(first, last) as n:
        _write_walk(code, code.at("i64", labels, n * count), count, blank, walk, leap, end)

        def of_frame(t: Value, n: Value = n) -> tuple[Value, Value, Value]:
            row = t * samples + n
            sum_of = code.at("float", sums, row * (places + 2))
            for k in range(2):
                code.store(code.value(NEVER, "float"), sum_of, k)
            return code.at("float", x, row * classes), code.at("float", steps, row * places), sum_of

        def step_at(i: Value, mask: Value | None, row: Value, step_of: Value) -> Value:
            step = code.gather_at("float", row, code.load("i32", walk, i, LANES))
            step = code.select(step < NEVER, NEVER, step)
            store(code, step, step_of, i, mask)
            return step

        row, step_of, start_of = of_frame(code.value(0, "i64"))

        def start(
            i: Value, mask: Value | None, row: Value = row, step_of: Value = step_of, start_of: Value = start_of
        ) -> None:
            step = step_at(i, mask, row, step_of)
            starts = mask_of(code, code.value(2, "i64") - i)
            store(
                code,
                step + code.select(starts, code.splat(code.value(0.0, "float"), LANES), NEVER),
                start_of,
                i + 2,
                mask,
            )

        for_each(code, places, start)
        with code.loop(1, code.load("i64", frames, n)) as t:
            before = code.at("float", sums, ((t - 1) * samples + n) * (places + 2))
            row, step_of, sum_of = of_frame(t)

            def advance(i: Value, mask: Value | None, row: Value = row, step_of: Value = step_of, sum_of: Value = sum_of,
                        before: Value = before) -> None:  # fmt: skip
                step = step_at(i, mask, row, step_of)
                leaping = load(code, before, i, mask) + code.load("float", leap, i, LANES)
                total = _log_sum(code, load(code, before, i + 2, mask), load(code, before, i + 1, mask), leaping)
                store(code, total + step, sum_of, i + 2, mask)

            for_each(code, places, advance)
        used, length = code.load("i64", frames, n), code.load("i64", lengths, n)
        ends = code.at("float", sums, (code.maximum(used - 1, 0) * samples + n) * (places + 2) + length * 2 + 1)
        loss = 0.0 - _log_sum(code, code.load("float", ends), code.load("float", ends, 1))
        without_frames = code.select(length == 0, code.value(0.0, "float"), -NEVER)
        code.store(code.select(used == 0, without_frames, loss), out, n)
    release(code, walk)


@native("ppppppppp" + SIZES, vectorize=False)
def _gradient(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    g, x, labels, frames, lengths, out, steps, sums, grad, length, samples, classes, count, blank = arguments
    places = count * 2 + 1
    end = (places + (LANES - 1)) & -LANES
    # later: the sums over the paths from each place on, behind the frame; two places behind the last, where no path is.
    walk, leap, later, posterior, by_class = allocated(code, end, end + 2, end + 2, end, classes)
    with code.loop(first, last) as n:
        _write_walk(code, code.at("i64", labels, n * count), count, blank, walk, leap, end)
        for line, start in ((leap, end), (later, code.value(0, "i64"))):
            with code.loop(start, end + 2) as k:
                code.store(code.value(NEVER, "float"), line, k)
        used, stop = code.load("i64", frames, n), code.load("i64", lengths, n) * 2
        loss, slope = (code.splat(code.load("float", a, n), LANES) for a in (out, g))
        with code.loop(used, length) as t:
            code.clear(code.at("float", grad, (t * samples + n) * classes), classes * 4)
        with code.loop(0, used) as back:
            row = (used - 1 - back) * samples + n
            step_of = code.at("float", steps, row * places)
            sum_of = code.at("float", sums, row * (places + 2))

            def advance(i: Value, mask: Value | None, back: Value = back, step_of: Value = step_of, sum_of: Value = sum_of,
                        stop: Value = stop, loss: Value = loss) -> None:  # fmt: skip
                leaping = code.load("float", later, i + 2, LANES) + code.load("float", leap, i + 2, LANES)
                ahead = _log_sum(
                    code, code.load("float", later, i, LANES), code.load("float", later, i + 1, LANES), leaping
                )
                left = code.splat(code.cast(stop - i, "i32"), LANES) - code.cast(code.counting(LANES), "i32")
                ends = code.select((left == 0) | (left == 1), code.splat(code.value(0.0, "float"), LANES), NEVER)
                ahead = code.select(code.splat(back == 0, LANES), ends, ahead)
                log = load(code, sum_of, i + 2, mask) + ahead + loss
                # At most 0, except for rounding errors, and for targets that have no path.
                code.store(inline(code, exp_of_negative, code.select(log > 0.0, 0.0, log)), posterior, i)
                store(code, ahead + load(code, step_of, i, mask), later, i, mask)

            for_each(code, places, advance)
            code.clear(by_class, classes * 4)
            with code.loop(0, places) as place:
                label = code.cast(code.load("i32", walk, place), "i64")
                code.store(code.load("float", by_class, label) + code.load("float", posterior, place), by_class, label)
            source, target = (code.at("float", a, row * classes) for a in (x, grad))

            def write(i: Value, mask: Value | None, source: Value = source, target: Value = target,
                      slope: Value = slope) -> None:  # fmt: skip
                share = inline(code, functions.exp, load(code, source, i, mask)) - load(code, by_class, i, mask)
                store(code, share * slope, target, i, mask)

            for_each(code, classes, write)
    release(code, walk)
