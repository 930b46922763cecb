"""The steps of an LSTM in float32 on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels import _gates
from tdt._kernels._code import Code, Value, native
from tdt._kernels._gates import Place
from tdt._kernels._recurrent import LETTERS, Recurrence, run


def forward(steps: Any, gates: np.ndarray, hs: np.ndarray, cs: np.ndarray, w_hh: np.ndarray, b: np.ndarray) -> None:
    """Fill in every h and c (N + rows, H), from what the input adds to the gates (rows, 4H), which become their values.

    steps: the `Steps` of the batch. b: (4H,).
    """
    run(_forward(), steps, (hs, cs, gates, b), (w_hh.T,), gates.shape[1])


def backward(
    steps: Any, dh: np.ndarray, dc: np.ndarray, w_hh: np.ndarray, gates: np.ndarray, cells: np.ndarray
) -> np.ndarray:
    """The gradients (rows, 4H) of the gates before their functions; those of the states are completed in dh and dc."""
    grads = np.empty_like(gates)
    run(_backward(), steps, (dh, dc, gates, cells, grads), (w_hh,), gates.shape[1])
    return grads


@native(LETTERS + "ppppp", vectorize=False)
def _forward(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    run = Recurrence(code, arguments)
    hs, cs, gates, b, w = arguments[len(LETTERS) :]

    def write(at: Place, now: Place, before: Place) -> None:
        sums = [z + d for z, d in zip(at.parts(gates, 4), at.bias(b, 4), strict=True)]
        values, cell, h = _gates.lstm(code, sums, before.load(cs))
        at.store(gates, *values)
        now.store(cs, cell)
        now.store(hs, h)

    with run.steps(first, last) as (low, high):
        run.multiply(hs, run.earlier, low, high, run.size, w, run.size * 4, gates, run.sums)
        run.each(low, high, write)


@native(LETTERS + "pppppp", vectorize=False)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    run = Recurrence(code, arguments)
    dh, dc, gates, cells, grads, w = arguments[len(LETTERS) :]

    def write(at: Place, now: Place, before: Place) -> None:
        to_sums, to_cell = _gates.lstm_grad(
            code, at.parts(gates, 4), before.load(cells), now.load(cells), now.load(dh), now.load(dc)
        )
        at.store(grads, *to_sums)
        before.store(dc, before.load(dc) + to_cell)

    with run.steps(first, last, backward=True) as (low, high):
        run.each(low, high, write)
        run.multiply(grads, run.sums, low, high, run.size * 4, w, run.size, dh, run.earlier)
