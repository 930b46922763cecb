"""One step of a recurrence in float32 on the CPU, as of a cell: two products, and one pass over the gates.

Arrays of states, or of their gradients, (2 N, H) have first the N given ones, then the new ones. Nothing is packed, as weights
are used once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._arrays import product
from tdt._kernels._code import Code, Value, native
from tdt._kernels._exponential import exp, tanh
from tdt._kernels._inline import inline
from tdt._kernels._launches import watched_copy
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._rows import for_each, load, store
from tdt._kernels.expression import Expression

GRAIN = 1 << 13  # gates that a thread should at least have


def lstm(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray | None,
    b_hh: np.ndarray | None, w_hr: None, *, sizes: tuple, reverse: bool,
) -> tuple[tuple, np.ndarray, np.ndarray]:  # fmt: skip
    """The op `lstm_sequence`: h twice, and c; the four gates; c before and after."""
    count, size = c.shape
    gates, from_h = _rows(x, w_ih), product(np, h, w_hh.T, _bias(b_hh, 4 * size))
    out, cells = np.empty((count, size), np.float32), np.empty((2 * count, size), np.float32)
    cells[:count] = c
    cell = cells[count:]
    _run(_lstm(), (gates, from_h, _bias(b_ih, 4 * size), cells, cell, out), count, size, 4)
    return (out.reshape(*x.shape[:-1], size), watched_copy(out), cell.copy()), gates, cells


def lstm_grad(
    steps: Any, dh: np.ndarray, dc: np.ndarray, w_hh: np.ndarray, gates: np.ndarray, cells: np.ndarray
) -> np.ndarray:
    """As `lstm_cpu.backward`."""
    grads, count = np.empty(gates.shape, np.float32), len(gates)
    _run(_lstm_grad(), (dh[count:], dc, dc[count:], gates, cells, cells[count:], grads), count, dc.shape[1], 4)
    dh[:count] += product(np, grads, w_hh)
    return grads


def gru(
    x: np.ndarray, h: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray | None = None,
    b_hh: np.ndarray | None = None, *, sizes: tuple, reverse: bool,
) -> tuple[tuple, np.ndarray, np.ndarray]:  # fmt: skip
    """The op `gru_sequence`: h twice; the three gates; what h W + b gave to n."""
    count, size = h.shape
    gates, from_h = _rows(x, w_ih), product(np, h, w_hh.T, _bias(b_hh, 3 * size))
    out, passed = np.empty((count, size), np.float32), np.empty((count, size), np.float32)
    arrays = gates, from_h, _bias(b_ih, 3 * size), np.ascontiguousarray(h), out, passed
    _run(_gru(), arrays, count, size, 3)
    return (out.reshape(*x.shape[:-1], size), watched_copy(out)), gates, passed


def gru_grad(
    steps: Any, dh: np.ndarray, w_hh: np.ndarray, gates: np.ndarray, passed: np.ndarray, h: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """As `gru_cpu.backward`."""
    count, size = passed.shape
    grads = np.empty((count, 4 * size), np.float32)
    _run(_gru_grad(), (dh, dh[count:], gates, passed, np.ascontiguousarray(h), grads), count, size, 4)
    dh[:count] += product(np, grads[:, size:], w_hh)
    return grads


def rnn(
    x: np.ndarray, h: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray | None = None,
    b_hh: np.ndarray | None = None, *, relu: bool, sizes: tuple, reverse: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The op `rnn_sequence`: h twice."""
    count, size = h.shape
    sums, from_h = _rows(x, w_ih), product(np, h, w_hh.T, _bias(b_hh, size))
    out = np.empty((count, size), np.float32)
    _run(_rnn(relu), (sums, from_h, _bias(b_ih, size), out), count, size, 1)
    return out.reshape(*x.shape[:-1], size), watched_copy(out)


def rnn_grad(steps: Any, dh: np.ndarray, w_hh: np.ndarray, out: np.ndarray, relu: bool) -> np.ndarray:
    """As `rnn_cpu.backward`."""
    grads, count = np.empty(out.shape, np.float32), len(out)
    _run(_rnn_grad(relu), (dh[count:], np.ascontiguousarray(out), grads), count, out.shape[1], 1)
    dh[:count] += product(np, grads, w_hh)
    return grads


def _rows(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return product(np, x if x.ndim == 2 else x.reshape(-1, x.shape[-1]), w.T)


def _bias(b: np.ndarray | None, count: int) -> np.ndarray:
    return np.zeros(count, np.float32) if b is None else np.ascontiguousarray(b)


def _run(kernel: NativeKernel, arrays: tuple[np.ndarray, ...], count: int, size: int, gates: int) -> None:
    grain = -(-GRAIN // (gates * size))
    if count < 2 * grain:
        kernel.run(count, arrays, size)
    else:
        parallel(kernel, count, *arrays, size, grain=grain)  # type: ignore[arg-type]


def _sigmoid(x: Expression) -> Expression:
    return 1 / (1 + exp(-x))


class _Place(NamedTuple):
    """Where a vector of a sample's state is: from element i on, in each part of a row; a part has `size` elements."""

    code: Code
    row: Value
    size: Value
    i: Value
    mask: Value | None

    def load(self, array: Value) -> Value:
        """The vector in an array whose rows have one part."""
        return self.parts(array, 1)[0]

    def parts(self, array: Value, parts: int) -> list[Value]:
        """The vectors of all parts."""
        return [load(self.code, array, self._at(part, parts), self.mask) for part in range(parts)]

    def store(self, array: Value, *values: Value) -> None:
        """Write the vectors of all parts."""
        for part, value in enumerate(values):
            store(self.code, value, array, self._at(part, len(values)), self.mask)

    def bias(self, array: Value, parts: int) -> list[Value]:
        """The vectors of an array that is the same for all samples."""
        return self._replace(row=self.code.value(0, "i64")).parts(array, parts)

    def _at(self, part: int, parts: int) -> Value:
        return (self.row * parts + part) * self.size + self.i


def _each(code: Code, rows: tuple[Value, Value], arguments: list[Value], write: Callable[..., None]) -> None:
    """Call `write(place, *arrays)` for all vectors of the rows [first, last); arguments: the arrays, then their size."""
    *arrays, size = arguments
    with code.loop(*rows) as row:
        for_each(code, size, lambda i, mask: write(_Place(code, row, size, i, mask), *arrays))


@native("pppppp" + "q", vectorize=False)
def _lstm(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    def write(at: _Place, gates: Value, from_h: Value, b: Value, before: Value, cell: Value, out: Value) -> None:
        parts = zip(at.parts(gates, 4), at.bias(b, 4), at.parts(from_h, 4), strict=True)
        i, f, a, o = (inline(code, tanh if k == 2 else _sigmoid, z + d + e) for k, (z, d, e) in enumerate(parts))
        new = f * at.load(before) + i * a
        at.store(gates, i, f, a, o)
        at.store(cell, new)
        at.store(out, o * inline(code, tanh, new))

    _each(code, (first, last), arguments, write)


@native("ppppppp" + "q", vectorize=False)
def _lstm_grad(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Gradients come with the states' arrays; those of c before take in what comes from c after."""

    def write(
        at: _Place, dh: Value, dc: Value, dcell: Value, gates: Value, before: Value, cell: Value, grads: Value
    ) -> None:
        i, f, a, o = at.parts(gates, 4)
        g, squashed = at.load(dh), inline(code, tanh, at.load(cell))
        through = at.load(dcell) + g * (o * (1.0 - squashed * squashed))
        to_i, to_f = through * (a * i * (1.0 - i)), through * (at.load(before) * f * (1.0 - f))
        at.store(grads, to_i, to_f, through * (i * (1.0 - a * a)), g * (squashed * o * (1.0 - o)))
        at.store(dc, at.load(dc) + through * f)

    _each(code, (first, last), arguments, write)


@native("pppppp" + "q", vectorize=False)
def _gru(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    def write(at: _Place, gates: Value, from_h: Value, b: Value, h: Value, out: Value, passed: Value) -> None:
        (zr, zz, zn), (br, bz, bn), (hr, hz, hn) = at.parts(gates, 3), at.bias(b, 3), at.parts(from_h, 3)
        r, z = (inline(code, _sigmoid, total) for total in (zr + br + hr, zz + bz + hz))
        n, old = inline(code, tanh, zn + bn + r * hn), at.load(h)
        at.store(gates, r, z, n)
        at.store(passed, hn)
        at.store(out, n + z * (old - n))

    _each(code, (first, last), arguments, write)


@native("pppppp" + "q", vectorize=False)
def _gru_grad(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """The gradients of n, r, z and of the part of n from h."""

    def write(at: _Place, dh: Value, dout: Value, gates: Value, passed: Value, h: Value, grads: Value) -> None:
        (r, z, n), g = at.parts(gates, 3), at.load(dout)
        to_n = g * (1.0 - z) * (1.0 - n * n)
        from_h = to_n * r
        to_r = from_h * at.load(passed) * (1.0 - r)
        at.store(grads, to_n, to_r, g * (at.load(h) - n) * z * (1.0 - z), from_h)
        at.store(dh, at.load(dh) + g * z)

    _each(code, (first, last), arguments, write)


@native("pppp" + "q", vectorize=False)
def _rnn(code: Code, first: Value, last: Value, arguments: list[Value], relu: bool) -> None:
    def write(at: _Place, sums: Value, from_h: Value, b: Value, out: Value) -> None:
        z = at.load(sums) + at.bias(b, 1)[0] + at.load(from_h)
        at.store(out, code.select(z <= 0.0, 0.0, z) if relu else inline(code, tanh, z))

    _each(code, (first, last), arguments, write)


@native("ppp" + "q", vectorize=False)
def _rnn_grad(code: Code, first: Value, last: Value, arguments: list[Value], relu: bool) -> None:
    def write(at: _Place, dh: Value, out: Value, grads: Value) -> None:
        g, h = at.load(dh), at.load(out)
        at.store(grads, code.select(h <= 0.0, 0.0, g) if relu else g * (1.0 - h * h))

    _each(code, (first, last), arguments, write)
