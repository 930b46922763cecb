"""Layer normalisation and its gradients over rows of float32 on the CPU: a row stays in the cache.

Rows of bfloat16, with parameters in float32, are read and written by the same code (`half`).
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
from tdt._kernels._pool import get_num_threads, parallel
from tdt._kernels._registry import prepares
from tdt._kernels._rows import (
    LANES,
    across,
    by_length,
    contiguous,
    fma,
    for_each,
    load,
    row_function,
    store,
    summed,
)
from tdt._kernels._threads import PARALLEL

TWO = (2 * LANES, LANES)  # for two sums at a time
TOGETHER = 4  # rows whose columns are summed in one pass
MOST_ROWS, LEAST_ROWS = 64, 16  # of a block whose columns are summed in single precision
BLOCK = 1 << 16  # elements of a block, at most, where that is not fewer rows


def layer_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, dims: int, eps: float, centred: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The op `layer_norm`: the result, and mean and 1 / √(variance + eps) of every row."""
    if dims == 1:
        out, mean, rstd = _of_rows(x, w, b, eps, centred)
        shape = (*x.shape[:-1], 1)
        return out, np.asarray(mean).reshape(shape), np.asarray(rstd).reshape(shape)
    lead = x.shape[: x.ndim - dims]
    out, mean, rstd = layer_norm(_as_rows(x, dims), w, b, dims=1, eps=eps, centred=centred)
    shape = *lead, *(1,) * dims
    return out.reshape(x.shape), mean.reshape(shape), rstd.reshape(shape)


def normed(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, dims: int, eps: float, centred: bool = True
) -> np.ndarray:
    """The result of `layer_norm` alone."""
    if dims != 1:
        return layer_norm(x, w, b, dims=dims, eps=eps, centred=centred)[0]
    return _of_rows(x, w, b, eps, centred)[0]


@prepares(layer_norm)
def _(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, dims: int, eps: float, centred: bool,
      recorded: bool) -> Callable[..., Any] | None:  # fmt: skip
    if dims != 1 or x.dtype == BFLOAT16 or not (w is None or w.ndim == 1) or not (b is None or b.ndim == 1):
        return None
    rows, added, shape, n = _layer_norm(centred, False).ufunc, np.float64(eps), (*x.shape[:-1], 1), x.shape[-1]
    ones, zeros = _equal(n, 1), _equal(n, 0)

    def all_results(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> tuple:
        out, mean, rstd = rows(x, ones if w is None else w, zeros if b is None else b, added)
        return out, mean.reshape(shape), rstd.reshape(shape)

    def first_result(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
        return rows(x, ones if w is None else w, zeros if b is None else b, added)[0]

    return all_results if recorded else first_result


def _of_rows(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, eps: float, centred: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three results, for the last dimension."""
    n, half = x.shape[-1], x.dtype == BFLOAT16
    x = contiguous(x)
    out, mean, rstd = _layer_norm(centred, half)(
        x.view(np.uint16) if half else x, _flat(w, n, 1), _flat(b, n, 0), np.float64(eps)
    )
    return out.view(BFLOAT16) if half else out, mean, rstd


def layer_norm_vjp(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray,
                   g_mean: np.ndarray, g_rstd: np.ndarray, *, dims: int,
                   centred: bool = True) -> tuple[np.ndarray, ...]:  # fmt: skip
    """The gradients in x, w and b, from those of the three results."""
    shape = x.shape[x.ndim - dims :]
    n, blocks, sizes = _backward_sizes(x, dims)
    g, x, mean, rstd, g_mean, g_rstd = map(contiguous, (g, x, mean, rstd, g_mean, g_rstd))
    weights = _flat(w, n, 1)
    grad = np.empty(x.shape, x.dtype)
    sums = np.empty((2, blocks, n), np.float32)
    arrays = g, x, grad, mean, rstd, g_mean, g_rstd, weights, sums[0], sums[1]
    kernel = _backward(centred, x.dtype == BFLOAT16)
    if _on_one_thread(x):
        kernel.run(blocks, arrays, *sizes)
    else:
        parallel(kernel, blocks, *arrays, *sizes, grain=2)  # type: ignore[arg-type]
    gw, gb = sums[:, 0] if blocks == 1 else total(sums, 1)
    return grad, gw.reshape(shape), gb.reshape(shape)


@prepares(layer_norm_vjp)
def _(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, *, dims: int,
      centred: bool) -> Callable[..., tuple] | None:  # fmt: skip
    if not (_on_one_thread(x) and all(a is None or a.flags.c_contiguous for a in (g, x, w, mean, rstd))):
        return None
    n, blocks, sizes = _backward_sizes(x, dims)
    shape, rows, ones, zeros = x.shape, x.shape[x.ndim - dims :], _equal(n, 1), np.zeros(mean.shape, np.float32)
    run, dtype = _backward(centred, x.dtype == BFLOAT16).with_last(blocks, *sizes), x.dtype

    def gradients(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray) -> tuple:
        grad, sums = np.empty(shape, dtype), np.empty((2, blocks, n), np.float32)
        run(g, x, grad, mean, rstd, zeros, zeros, ones if w is None else w, sums[0], sums[1])
        gw, gb = sums[:, 0] if blocks == 1 else total(sums, 1)
        return grad, gw.reshape(rows), gb.reshape(rows)

    return gradients


def _on_one_thread(x: np.ndarray) -> bool:
    return x.size < PARALLEL or get_num_threads() == 1


def _backward_sizes(x: np.ndarray, dims: int) -> tuple[int, int, tuple[int, int, int]]:
    """Elements of a row, blocks of rows, and the last words of `_backward`."""
    n = math.prod(x.shape[x.ndim - dims :])
    each = max(LEAST_ROWS, min(MOST_ROWS, BLOCK // n))
    count = x.size // n
    return n, -(-count // each), (n, count, each)


def _as_rows(x: np.ndarray, dims: int) -> np.ndarray:
    return contiguous(x).reshape(*x.shape[: x.ndim - dims], math.prod(x.shape[x.ndim - dims :]))


def _flat(a: np.ndarray | None, n: int, value: int) -> np.ndarray:
    """Numbers of the elements of a row; where there are none, `value` for each."""
    if a is None:
        return _equal(n, value)
    return contiguous(a) if a.ndim == 1 else contiguous(a).reshape(-1)


@functools.lru_cache(64)
def _equal(n: int, value: int) -> np.ndarray:
    return np.full(n, value, np.float32)


def _inverse(code: Code, n: Value) -> Value:
    """1 / n in double precision: the compiler computes it once for all rows."""
    return code.value(1.0, "double") / code.cast(n, "double")


def _inverse_deviation(code: Code, square: Value, share: Value, eps: Value) -> Value:
    """1 / √(variance + eps), from the sum of squares about the mean; share: 1 / n."""
    square = code.select(square < 0.0, 0.0, square)  # of equal values it might round to less
    return code.cast(code.value(1.0, "double") / code.call("sqrt", square * share + eps), "float")


def _refined(code: Code, centre: Value, deviation: Value, square: Value, share: Value) -> tuple[Value, Value]:
    """The mean, and the sum of squares about it, from the sums about a `centre` that rounding has moved."""
    moved = deviation * share
    return code.cast(code.cast(centre, "double") + moved, "float"), square - deviation * moved


def _short(code: Code, pointers: list[Value], n: Value, mask: Value, centred: bool, half: bool) -> None:
    x, w, b, eps, out, *_ = pointers
    memory = _bfloat16 if half else _rows
    values, share = memory.load(code, x, 0, mask), _inverse(code, n)
    if centred:
        centre = code.cast(code.cast(across(code, values), "double") * share, "float")
        d = code.select(mask, values - code.splat(centre, LANES), 0.0)
        deviation, square = (code.cast(across(code, v), "double") for v in (d, d * d))
        mean, square = _refined(code, centre, deviation, square, share)
    else:
        mean, square = code.value(0.0, "float"), code.cast(across(code, values * values), "double")
    rstd = _inverse_deviation(code, square, share, code.load("double", eps))
    normed = (values - code.splat(mean, LANES)) * code.splat(rstd, LANES)
    memory.store(code, fma(code, normed, load(code, w, 0, mask), load(code, b, 0, mask)), out, 0, mask)
    _put_statistics(code, pointers, mean, rstd)


def _put_statistics(code: Code, pointers: list[Value], mean: Value, rstd: Value) -> None:
    code.store(mean, pointers[5])
    code.store(rstd, pointers[6])


@row_function("(n),(n),(n),()->(n),(),()", "fffdfff", half="EffdEff")
@by_length(_short)
def _layer_norm(code: Code, pointers: list[Value], n: Value, centred: bool, half: bool) -> None:
    x, w, b, eps, out, *_ = pointers
    memory = _bfloat16 if half else _rows
    share = _inverse(code, n)
    if centred:
        total_of_row = summed(code, n, 1, lambda i, width, mask: (memory.load(code, x, i, mask, width),))[0]
        centre = code.cast(total_of_row * share, "float")

        def about(i: Value, width: int, mask: Value | None) -> tuple[Value, Value]:
            d = memory.load(code, x, i, mask, width) - code.splat(centre, width)
            d = d if mask is None else code.select(mask, d, 0.0)
            return d, d * d

        deviation, square = summed(code, n, 2, about, TWO)
        mean, square = _refined(code, centre, deviation, square, share)
    else:

        def squares(i: Value, width: int, mask: Value | None) -> tuple[Value]:
            value = memory.load(code, x, i, mask, width)
            return (value * value,)

        mean, square = code.value(0.0, "float"), summed(code, n, 1, squares)[0]
    rstd = _inverse_deviation(code, square, share, code.load("double", eps))
    centres, scales = code.splat(mean, LANES), code.splat(rstd, LANES)

    def write(i: Value, mask: Value | None) -> None:
        normed = (memory.load(code, x, i, mask) - centres) * scales
        memory.store(code, fma(code, normed, load(code, w, i, mask), load(code, b, i, mask)), out, i, mask)

    for_each(code, n, write)
    _put_statistics(code, pointers, mean, rstd)


@native("ppppppppppqqq")
def _backward(code: Code, first: Value, last: Value, arguments: list[Value], centred: bool, half: bool) -> None:
    """g, x, grad, mean, rstd, g_mean, g_rstd, w, sums of columns for gw and for gb (blocks, n), n, rows, rows of a block."""
    *_, at_gw, at_gb, n, count, each = arguments
    numbers = [code.array("float", TOGETHER) for _ in range(4)]
    with code.loop(first, last) as number:
        gw, gb = (code.at("float", sums, number * n) for sums in (at_gw, at_gb))
        zeros = code.value(0.0, f"<{LANES} x float>")
        for sums in (gw, gb):
            for_each(code, n, lambda i, mask, sums=sums: store(code, zeros, sums, i, mask))
        end = code.minimum(number * each + each, count)
        with code.loop(number * each, end, TOGETHER) as top:
            bottom = code.minimum(top + TOGETHER, end)
            with code.loop(top, bottom) as row:
                found = _numbers_of_row(code, arguments, row, centred, half)
                for array, value in zip(numbers, found, strict=True):
                    code.store(value, array, row - top)

            def together(top: Value = top, gw: Value = gw, gb: Value = gb) -> None:
                _columns(code, arguments, top, TOGETHER, numbers, gw, gb, half)

            def singly(top: Value = top, bottom: Value = bottom, gw: Value = gw, gb: Value = gb) -> None:
                with code.loop(top, bottom) as row:
                    _columns(code, arguments, row, 1, [code.at("float", a, row - top) for a in numbers], gw, gb, half)

            code.choose(bottom - top == TOGETHER, together, singly)


def _numbers_of_row(code: Code, arguments: list[Value], row: Value, centred: bool, half: bool) -> list[Value]:
    """What a row's gradient is made of: its mean and 1 / deviation, and what is subtracted, once and times x - mean."""
    g, x, _, means, rstds, g_means, g_rstds, w, _, _, n, *_ = arguments
    memory = _bfloat16 if half else _rows
    g, x = (code.at("i16" if half else "float", a, row * n) for a in (g, x))
    mean, rstd, g_mean, g_rstd = (code.load("float", a, row) for a in (means, rstds, g_means, g_rstds))

    def terms(i: Value, width: int, mask: Value | None) -> tuple[Value, Value]:
        v = memory.load(code, g, i, mask, width) * load(code, w, i, mask, width)
        d = memory.load(code, x, i, mask, width) - code.splat(mean, width)
        product = v * d
        return v, product if mask is None else code.select(mask, product, 0.0)

    plain, product = summed(code, n, 2, terms, TWO)
    share, scale = _inverse(code, n), code.cast(rstd, "double")
    shift = (plain * scale - code.cast(g_mean, "double")) * share if centred else code.value(0.0, "double")
    # Of x - mean, not times 1 / √(variance + eps): so once more of that.
    slope = (product * scale + code.cast(g_rstd, "double") * scale) * scale * scale * share
    return [mean, rstd, code.cast(shift, "float"), code.cast(code.value(0.0, "double") - slope, "float")]


def _columns(
    code: Code, arguments: list[Value], row: Value, count: int, numbers: list[Value], gw: Value, gb: Value, half: bool
) -> None:
    """The gradient of `count` rows, and their part of the sums of columns."""
    all_g, all_x, all_grad, *_, w, _, _, n, _, _ = arguments
    memory = _bfloat16 if half else _rows
    rows = []
    for k in range(count):
        addresses = [code.at("i16" if half else "float", a, (row + k) * n) for a in (all_g, all_x, all_grad)]
        rows.append((addresses, [code.splat(code.load("float", a, k), LANES) for a in numbers]))

    def write(i: Value, mask: Value | None) -> None:
        weighted, plain, factor = load(code, gw, i, mask), load(code, gb, i, mask), load(code, w, i, mask)
        for (g_row, x_row, grad), (mean, rstd, shift, slope) in rows:
            g = memory.load(code, g_row, i, mask)
            d = memory.load(code, x_row, i, mask) - mean
            memory.store(code, fma(code, slope, d, g * factor * rstd - shift), grad, i, mask)
            weighted, plain = fma(code, g, d * rstd, weighted), plain + g
        store(code, weighted, gw, i, mask)
        store(code, plain, gb, i, mask)

    for_each(code, n, write)
