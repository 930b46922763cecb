"""The margin loss of many classes in float32, in one short call for all samples."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from tdt._kernels._code import Code, Value
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._rows import LANES, load, store, summed
from tdt._kernels.class_loss_cpu import _check, _class_of, _rows_of, _sum, _weights


def prepared_losses(
    n: int, *, p: int, margin: float, reduction: str
) -> Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]:
    """A function of scores (N, n) or (n,), classes (N,) or () and weights (n,) or None: the losses, their mean or their sum.

    It raises IndexError where a class is out of range.
    """
    code, limit = _losses("flffffl", p, reduction == "mean"), _float(margin)
    part = int(reduction != "none")

    def losses(x: np.ndarray, t: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        results = code(x.reshape(-1, n), t.reshape(-1), _weights(weight, n), limit)
        if results[2]:
            raise IndexError("a class is out of range")
        return results[part] if part else results[0].reshape(t.shape)

    return losses


def margin_loss_vjp(
    g: np.ndarray, x: np.ndarray, t: np.ndarray, weight: np.ndarray | None, *, p: int, margin: float, mean: bool
) -> np.ndarray:
    """The gradient in the scores x from those in the losses, one for each sample, or one for all.

    Raises:
        IndexError: when a class is out of range.
    """
    n = x.shape[-1]
    rows = np.ascontiguousarray(x).reshape(-1, n)
    code = _gradient("flffffl", p, mean)
    grad, wrong = code(g.reshape(-1), t.reshape(-1), _weights(weight, n), rows, _float(margin))
    _check(wrong, t, n, 0)
    return grad.reshape(x.shape)


@functools.lru_cache(64)
def _float(number: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(number, np.float32)


def _excess(code: Code, line: Value, base: Value, t: Value, i: Value, width: int, mask: Value | None) -> Value:
    """By how much scores, but for the right class's, exceed it less the margin; 0 where they do not."""
    z = code.splat(base, width) + load(code, line, i, mask, width)
    elsewhere = code.cast(code.counting(width), "i32") != code.splat(code.cast(t - i, "i32"), width)
    z = code.select((z > 0.0) & elsewhere, z, 0.0)
    return z if mask is None else code.select(mask, z, 0.0)


def _base(code: Code, line: Value, margin: Operand, t: Value) -> Value:
    return code.load("float", margin.address) - code.load("float", line, t)


@generalized("(m,n),(m),(n),()->(m),(),()", vectorize=False)
def _losses(code: Code, operands: list[Operand], sizes: list[Value], p: int, mean: bool) -> None:
    x, t, w, margin, losses, reduced, wrong = operands
    count, n = sizes
    outside = code.variable("i64", 0)
    for line, place, out in _rows_of(code, (x, t, losses), count):
        own = _class_of(code, place, n, outside)
        base = _base(code, line, margin, own)

        def terms(i: Value, width: int, mask: Value | None, line: Value = line, base: Value = base,
                  own: Value = own) -> tuple[Value]:  # fmt: skip
            z = _excess(code, line, base, own, i, width, mask)
            return (z if p == 1 else z * z,)

        loss = summed(code, n, 1, terms)[0] / code.cast(n, "double")
        code.store(code.cast(loss, "float") * code.load("float", w.place(code, own)), out)
    total = _sum(code, losses.address, count)
    code.store(code.cast(total / code.cast(count, "double") if mean else total, "float"), reduced.address)
    code.store(outside.get(), wrong.address)


@generalized("(k),(m),(n),(m,n),()->(m,n),()", vectorize=False)
def _gradient(code: Code, operands: list[Operand], sizes: list[Value], p: int, mean: bool) -> None:
    """From the gradients in the losses, or one for all."""
    g, t, w, x, margin, grad, wrong = operands
    slopes, count, n = sizes
    each = code.cast(n * count if mean else n, "float")
    outside = code.variable("i64", 0)
    with code.loop(0, count) as row:
        line, out = (code.at("i8", a.address, a.strides[0] * row) for a in (x, grad))
        own = _class_of(code, t.place(code, row), n, outside)
        base = _base(code, line, margin, own)
        slope = code.load("float", g.place(code, code.select(slopes == 1, 0, row))) / each
        slope = slope * code.load("float", w.place(code, own))

        def terms(i: Value, width: int, mask: Value | None, line: Value = line, out: Value = out, base: Value = base,
                  own: Value = own, slope: Value = slope) -> tuple[Value]:  # fmt: skip
            z = _excess(code, line, base, own, i, width, mask)
            value = code.splat(slope, width)
            value = code.select(z > 0.0, value if p == 1 else value * (z + z), 0.0)
            store(code, value, out, i, mask)
            return (value,)

        total = summed(code, n, 1, terms, widths=(LANES,))[0]
        code.store(code.cast(-1.0 * total, "float"), out, own)
    code.store(outside.get(), wrong.address)
