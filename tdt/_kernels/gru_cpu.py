"""The steps of a GRU in float32 on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels import _gates
from tdt._kernels._code import Code, Value, native
from tdt._kernels._gates import Place
from tdt._kernels._recurrent import LETTERS, Recurrence, run


def forward(
    steps: Any,
    gates: np.ndarray,
    hs: np.ndarray,
    passed: np.ndarray,
    w_hh: np.ndarray,
    b_ih: np.ndarray,
    b_hh: np.ndarray,
) -> None:
    """Fill in every h (N + rows, H) and what h W + b passes on to n (rows, H); the gates (rows, 3H) get their values.

    steps: the `Steps` of the batch. b_ih, b_hh: the biases (3H,) of the input and of h.
    """
    size = hs.shape[1]
    b = b_ih.copy()
    b[: 2 * size] += b_hh[: 2 * size]
    arrays = hs, passed, gates, b, np.ascontiguousarray(b_hh[2 * size :])
    run(_forward(), steps, arrays, (w_hh[: 2 * size].T, w_hh[2 * size :].T), gates.shape[1])


def backward(
    steps: Any, dh: np.ndarray, w_hh: np.ndarray, gates: np.ndarray, passed: np.ndarray, h: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """The gradients (rows, 4H) of n, r, z and of the part of n from h; those of the states are completed in dh."""
    rows, size = passed.shape
    grads = np.empty((rows, 4 * size), np.float32)
    run(_backward(), steps, (dh, np.concatenate([h, out]), gates, passed, grads), (w_hh,), grads.shape[1])
    return grads


@native(LETTERS + "ppppppp", vectorize=False)
def _forward(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    run = Recurrence(code, arguments)
    hs, passed, gates, b, b_n, w_rz, w_n = arguments[len(LETTERS) :]

    def write(at: Place, now: Place, before: Place) -> None:
        sums = [z + d for z, d in zip(at.parts(gates, 3), at.bias(b, 3), strict=True)]
        values, h = _gates.gru(code, sums, at.load(passed), before.load(hs))
        at.store(gates, *values)
        now.store(hs, h)

    with run.steps(first, last) as (low, high):
        run.multiply(hs, run.earlier, low, high, run.size, w_rz, run.size * 2, gates, run.sums)
        run.multiply(hs, run.earlier, low, high, run.size, w_n, run.size, passed, run.own, b_n)
        run.each(low, high, write)


@native(LETTERS + "pppppp", vectorize=False)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    run = Recurrence(code, arguments)
    dh, hs, gates, passed, grads, w = arguments[len(LETTERS) :]

    def write(at: Place, now: Place, before: Place) -> None:
        to_sums, to_h = _gates.gru_grad(at.parts(gates, 3), at.load(passed), before.load(hs), now.load(dh))
        at.store(grads, *to_sums)
        before.store(dh, before.load(dh) + to_h)

    with run.steps(first, last, backward=True) as (low, high):
        run.each(low, high, write)
        from_h = code.at("float", grads, run.size)  # n's own part comes first
        run.multiply(from_h, run.sums, low, high, run.size * 3, w, run.size, dh, run.earlier)
