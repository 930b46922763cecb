"""One step of a recurrence in float32 on the CPU, as of a cell: two products, and one pass over the gates.

Arrays of states, or of their gradients, (2 N, H) have first the N given ones, then the new ones. Nothing is packed, as weights
are used once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import _gates
from tdt._kernels._arrays import product
from tdt._kernels._code import Code, Value, native
from tdt._kernels._gates import Place
from tdt._kernels._launches import watched_copy
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._rows import for_each

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


def _each(code: Code, rows: tuple[Value, Value], arguments: list[Value], write: Callable[..., None]) -> None:
    """Call `write(place, *arrays)` for all vectors of the rows [first, last); arguments: the arrays, then their size."""
    *arrays, size = arguments
    with code.loop(*rows) as row:
        for_each(code, size, lambda i, mask: write(Place(code, row, size, i, mask), *arrays))


@native("pppppp" + "q", vectorize=False)
def _lstm(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    def write(at: Place, gates: Value, from_h: Value, b: Value, before: Value, cell: Value, out: Value) -> None:
        parts = zip(at.parts(gates, 4), at.bias(b, 4), at.parts(from_h, 4), strict=True)
        values, new, h = _gates.lstm(code, [z + d + e for z, d, e in parts], at.load(before))
        at.store(gates, *values)
        at.store(cell, new)
        at.store(out, h)

    _each(code, (first, last), arguments, write)


@native("ppppppp" + "q", vectorize=False)
def _lstm_grad(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Gradients come with the states' arrays; those of c before take in what comes from c after."""

    def write(
        at: Place, dh: Value, dc: Value, dcell: Value, gates: Value, before: Value, cell: Value, grads: Value
    ) -> None:
        to_sums, to_cell = _gates.lstm_grad(
            code, at.parts(gates, 4), at.load(before), at.load(cell), at.load(dh), at.load(dcell)
        )
        at.store(grads, *to_sums)
        at.store(dc, at.load(dc) + to_cell)

    _each(code, (first, last), arguments, write)


@native("pppppp" + "q", vectorize=False)
def _gru(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    def write(at: Place, gates: Value, from_h: Value, b: Value, h: Value, out: Value, passed: Value) -> None:
        (zr, zz, zn), (br, bz, bn), (hr, hz, hn) = at.parts(gates, 3), at.bias(b, 3), at.parts(from_h, 3)
        values, new = _gates.gru(code, [zr + br + hr, zz + bz + hz, zn + bn], hn, at.load(h))
        at.store(gates, *values)
        at.store(passed, hn)
        at.store(out, new)

    _each(code, (first, last), arguments, write)


@native("pppppp" + "q", vectorize=False)
def _gru_grad(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """The gradients of n, r, z and of the part of n from h."""

    def write(at: Place, dh: Value, dout: Value, gates: Value, passed: Value, h: Value, grads: Value) -> None:
        to_sums, to_h = _gates.gru_grad(at.parts(gates, 3), at.load(passed), at.load(h), at.load(dout))
        at.store(grads, *to_sums)
        at.store(dh, at.load(dh) + to_h)

    _each(code, (first, last), arguments, write)


@native("pppp" + "q", vectorize=False)
def _rnn(code: Code, first: Value, last: Value, arguments: list[Value], relu: bool) -> None:
    def write(at: Place, sums: Value, from_h: Value, b: Value, out: Value) -> None:
        at.store(out, _gates.rnn(code, at.load(sums) + at.bias(b, 1)[0] + at.load(from_h), relu))

    _each(code, (first, last), arguments, write)


@native("ppp" + "q", vectorize=False)
def _rnn_grad(code: Code, first: Value, last: Value, arguments: list[Value], relu: bool) -> None:
    def write(at: Place, dh: Value, out: Value, grads: Value) -> None:
        at.store(grads, _gates.rnn_grad(code, at.load(out), at.load(dh), relu))

    _each(code, (first, last), arguments, write)
