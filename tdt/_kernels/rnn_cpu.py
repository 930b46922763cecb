"""The steps of a plain recurrence in float32 on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels import _gates
from tdt._kernels._code import Code, Value, native
from tdt._kernels._gates import Place
from tdt._kernels._recurrent import LETTERS, Recurrence, run


def forward(steps: Any, sums: np.ndarray, hs: np.ndarray, w_hh: np.ndarray, relu: bool) -> None:
    """Fill in every h (N + rows, H), tanh or relu of what the input gives (rows, H), overwritten, plus h W.

    steps: the `Steps` of the batch.
    """
    run(_forward(relu), steps, (hs, sums), (w_hh.T,), hs.shape[1])


def backward(steps: Any, dh: np.ndarray, w_hh: np.ndarray, out: np.ndarray, relu: bool) -> np.ndarray:
    """The gradients (rows, H) of the sums; those of the states are completed in dh."""
    grads = np.empty(out.shape, np.float32)
    run(_backward(relu), steps, (dh, np.ascontiguousarray(out), grads), (w_hh,), dh.shape[1])
    return grads


@native(LETTERS + "ppp", vectorize=False)
def _forward(code: Code, first: Value, last: Value, arguments: list[Value], relu: bool) -> None:
    run = Recurrence(code, arguments)
    hs, sums, w = arguments[len(LETTERS) :]

    def write(at: Place, now: Place, before: Place) -> None:
        now.store(hs, _gates.rnn(code, at.load(sums), relu))

    with run.steps(first, last) as (low, high):
        run.multiply(hs, run.earlier, low, high, run.size, w, run.size, sums, run.sums)
        run.each(low, high, write)


@native(LETTERS + "pppp", vectorize=False)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value], relu: bool) -> None:
    run = Recurrence(code, arguments)
    dh, out, grads, w = arguments[len(LETTERS) :]

    def write(at: Place, now: Place, before: Place) -> None:
        at.store(grads, _gates.rnn_grad(code, at.load(out), now.load(dh), relu))

    with run.steps(first, last, backward=True) as (low, high):
        run.each(low, high, write)
        run.multiply(grads, run.sums, low, high, run.size, w, run.size, dh, run.earlier)
