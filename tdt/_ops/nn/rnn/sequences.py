"""LSTM, GRU and plain recurrence, each as one op: a whole packed sequence, one layer in one direction.

LSTM: Hochreiter and Schmidhuber, 1997; with projections, Sak, Senior and Beaufays, 2014. GRU: Cho et al., 2014, where the
reset gate acts behind the product. Plain recurrence: Elman, 1990.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import FLOATING
from tdt._core.tensor import Tensor
from tdt._kernels import (
    Kernel,
    chosen,
    chosen_for,
    float_operands,
    gpu_kernel,
    kernel,
    lazy,
    one_step,
    prepares,
    product,
    several_steps,
)
from tdt._ops.nn.linear import linear
from tdt._ops.nn.rnn._shared import (
    back_through_time,
    bias_of,
    kernel_for_steps,
    lstm_scales,
    place,
    products,
    recorded,
    rows,
    squash,
    state_grads,
    states_from,
    unrolled,
    weight_grads,
)
from tdt._ops.nn.rnn._steps import Steps, steps_of
from tdt.autograd._op import op

OPERANDS = ("x", "h", "w_ih", "w_hh", "b_ih", "b_hh")
LSTM_OPERANDS = ("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr")


def _kernels(path: str) -> tuple[Kernel, ...]:
    return (kernel(path, several_steps),)


def _gradient_kernels(name: str) -> tuple[Kernel, ...]:
    of_cell = kernel(
        f"recurrent_cell_cpu:{name}_grad", lambda arrays, how: how["steps"] == 1 and float_operands(arrays)
    )
    return (*_kernels(f"{name}_cpu:backward"), of_cell)


_LSTM_ON_GPU = (gpu_kernel("recurrent_gpu:lstm", lazy("recurrent_gpu:fits")),)
_LSTM_GRAD_ON_GPU = lazy("recurrent_gpu:lstm_vjp")
_GRU_ON_GPU = (gpu_kernel("recurrent_gpu:gru", lazy("recurrent_gpu:fits")),)
_GRU_GRAD_ON_GPU = lazy("recurrent_gpu:gru_vjp")
_LSTM, _LSTM_GRAD = _kernels("lstm_cpu:forward"), _gradient_kernels("lstm")
_GRU, _GRU_GRAD = _kernels("gru_cpu:forward"), _gradient_kernels("gru")
_RNN, _RNN_GRAD = _kernels("rnn_cpu:forward"), _gradient_kernels("rnn")


def _offsets(xp: Any, steps: Steps, x: Any) -> Any:
    """The first row of each step, on the GPU, of a packed batch; None of a padded one."""
    return place(xp, steps.offsets) if x.ndim == 2 else None


def _shaped(out: Any, x: Any) -> Any:
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], out.shape[1])


@op(
    dtypes=FLOATING, promote=(), broadcasts=False, outputs=("out", "last", "cell"), aux=("gates", "cells"),
    absent=("last", "cell"),
    shape=lambda x, h, c, *rest, **how: ((*x[:-1], h[1]), h, c), flops=lambda x, h, c, *weights, **how: products(x, *weights),
    autocast="lower", float32_weights="converted", kernels=(kernel("recurrent_cell_cpu:lstm", one_step),),
)  # fmt: skip
def lstm_sequence(xp, x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, w_hr=None, *, sizes, reverse=False):
    """x (rows, I) or (T, N, I), h (N, P), c (N, H): every h, as x lies, the last h and c. aux: the four gates and every c.

    A kernel for a GPU keeps no first c among these.
    """
    steps, size = steps_of(sizes, reverse), c.shape[1]
    if w_hr is None and xp is not np and (on_gpu := chosen(_LSTM_ON_GPU, xp, x, h, c, w_ih, b_ih, b_hh, w_hh)):
        return on_gpu(x, h, c, w_ih, b_ih, b_hh, w_hh, steps=steps, offsets=_offsets(xp, steps, x))
    gates = product(xp, rows(x), w_ih.T)
    hs, cs = states_from(xp, h, len(gates)), states_from(xp, c, len(gates))
    bias = bias_of(xp, w_ih, b_ih, b_hh)
    if w_hr is None and (fast := kernel_for_steps(_LSTM, xp, sizes, gates, h, c, w_hh)):
        fast(steps, gates, hs, cs, w_hh, bias)
    else:
        gates += bias
        scales = lstm_scales(xp, _backend.device_of(x), size, x.dtype)
        for part, after, before in steps.each:
            z, before = gates[part], place(xp, before)
            z += product(xp, hs[before], w_hh.T)
            squash(xp, z, *scales)
            i, f, a, o = (z[:, k * size : (k + 1) * size] for k in range(4))
            cell = xp.add(f * cs[before], i * a, out=cs[after])
            y = o * xp.tanh(cell)
            hs[after] = y if w_hr is None else product(xp, y, w_hr.T)
    last = place(xp, steps.last)
    return (_shaped(hs[len(h) :], x), xp.array(hs[last]), xp.array(cs[last])), gates, cs


@lstm_sequence.vjp(*LSTM_OPERANDS)
def _(needs, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, sizes, reverse, g_out, g_last, g_cell):
    def forward(x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr):
        def step(z, h, c):
            i, f, a, o = (z + linear(h, w_hh, b_hh)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * a.tanh()
            y = o.sigmoid() * c.tanh()
            return y if w_hr is None else linear(y, w_hr), c

        return unrolled(step, linear(x, w_ih, b_ih), (h, c), sizes, reverse)

    return recorded(forward, needs, (x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr), (g_out, g_last, g_cell))


@lstm_sequence.fast_vjp(*LSTM_OPERANDS)
def _(xp, needs, x, h, c, w_ih, w_hh, w_hr, sizes, reverse, out, gates, cells, g_out, g_last, g_cell):
    steps, batch = steps_of(sizes, reverse), len(h)
    if batch and len(cells) == len(gates):
        how = {"needs": needs, "steps": steps, "offsets": _offsets(xp, steps, x)}
        return *_LSTM_GRAD_ON_GPU(x, h, c, w_ih, w_hh, out, gates, cells, g_out, g_last, g_cell, **how), None
    g_last, g_cell = (xp.zeros(a.shape, a.dtype) if g is None else g for g, a in ((g_last, h), (g_cell, c)))
    dh, dc = state_grads(xp, steps, g_last, g_out), state_grads(xp, steps, g_cell)
    if w_hr is None and (fast := kernel_for_steps(_LSTM_GRAD, xp, sizes, gates, w_hh, dh, dc)):
        grads = fast(steps, dh, dc, w_hh, gates, cells)
    else:
        grads = _lstm_through_time(xp, steps, dh, dc, w_hh, w_hr, gates, cells)
    gx, *of_weights = weight_grads(xp, (needs[0], *needs[3:7]), grads, grads, x, h, out, steps, w_ih)
    g_projection = None
    if needs[7]:
        y = gates[:, 3 * c.shape[1] :] * xp.tanh(cells[batch:])
        g_projection = product(xp, dh[batch:].T, y)
    return gx, dh[:batch] if needs[1] else None, dc[:batch] if needs[2] else None, *of_weights, g_projection


def _lstm_through_time(xp: Any, steps: Steps, dh: Any, dc: Any, w_hh: Any, w_hr: Any, gates: Any, cells: Any) -> Any:
    """The gradients of the gates; those of the states, h and c, are completed in dh and dc."""
    batch, size = dc.shape[0] - len(gates), dc.shape[1]
    i, f, a, o = (gates[:, k * size : (k + 1) * size] for k in range(4))
    squashed = xp.tanh(cells[batch:])
    to_cell, to_out = o * (1 - squashed * squashed), squashed * o * (1 - o)
    earlier = cells[place(xp, steps.before)]
    factors = xp.stack([a * i * (1 - i), earlier * f * (1 - f), i * (1 - a * a)], 1)  # (rows, 3, H)
    grads = xp.empty_like(gates)
    for part, after, before in reversed(steps.each):
        before, z = place(xp, before), grads[part]
        total = dh[after] if w_hr is None else product(xp, dh[after], w_hr)
        cell = dc[after]
        cell += total * to_cell[part]
        xp.multiply(cell[:, None], factors[part], out=z.reshape(-1, 4, size)[:, :3])
        xp.multiply(total, to_out[part], out=z[:, 3 * size :])
        dc[before] += cell * f[part]
        dh[before] += product(xp, z, w_hh)
    return grads


def _shape(x: tuple, h: tuple, *rest: Any, **how: Any) -> tuple:
    return (*x[:-1], h[1]), h


def _flops(x: tuple, h: tuple, *weights: Any, **how: Any) -> int:
    return products(x, *weights)


@op(
    dtypes=FLOATING, promote=(), broadcasts=False, outputs=("out", "last"), aux=("gates", "passed"), absent=("last",),
    shape=_shape, flops=_flops, kernels=(kernel("recurrent_cell_cpu:gru", one_step),),
)  # fmt: skip
def gru_sequence(xp, x, h, w_ih, w_hh, b_ih=None, b_hh=None, *, sizes, reverse=False):
    """x (rows, I) or (T, N, I), h (N, H): every h, as x lies, the last h. aux: the gates, and what h W + b gave to n.

    A kernel for a GPU keeps with the latter the h that each row began from.
    """
    steps, size = steps_of(sizes, reverse), h.shape[1]
    if xp is not np and (on_gpu := chosen(_GRU_ON_GPU, xp, x, h, w_ih, b_ih, b_hh, w_hh)):
        return on_gpu(x, h, w_ih, b_ih, b_hh, w_hh, steps=steps, offsets=_offsets(xp, steps, x))
    gates = product(xp, rows(x), w_ih.T)
    hs, passed = states_from(xp, h, len(gates)), xp.empty((len(gates), size), x.dtype)
    input_bias, hidden_bias = bias_of(xp, w_ih, b_ih), bias_of(xp, w_hh, b_hh)
    if fast := kernel_for_steps(_GRU, xp, sizes, gates, h, w_hh):
        fast(steps, gates, hs, passed, w_hh, input_bias, hidden_bias)
    else:
        gates += input_bias
        half = x.dtype.type(0.5)
        for part, after, before in steps.each:
            now, earlier = gates[part], hs[place(xp, before)]
            from_h = product(xp, earlier, w_hh.T)
            from_h += hidden_bias
            passed[part] = from_h[:, 2 * size :]
            both, n = now[:, : 2 * size], now[:, 2 * size :]
            both += from_h[:, : 2 * size]
            squash(xp, both, half, half)
            n += both[:, :size] * passed[part]
            xp.tanh(n, out=n)
            hs[after] = n + both[:, size:] * (earlier - n)
    return (_shaped(hs[len(h) :], x), xp.array(hs[place(xp, steps.last)])), gates, passed


@prepares(gru_sequence.forward, strided=True)
def _(*arrays, recorded, **how):
    function = chosen_for(gru_sequence.kernels, arrays, how) or functools.partial(gru_sequence.forward, np)

    def cell(*arrays):
        (out, last), *aux = function(*arrays, **how)
        return (out, last, *aux) if recorded else out

    return cell


@gru_sequence.vjp(*OPERANDS)
def _(needs, x, h, w_ih, w_hh, b_ih, b_hh, sizes, reverse, g_out, g_last):
    def forward(x, h, w_ih, w_hh, b_ih, b_hh):
        def step(projected, h):
            (r, z, n), (hr, hz, hn) = projected.chunk(3, 1), linear(h, w_hh, b_hh).chunk(3, 1)
            n = (n + (r + hr).sigmoid() * hn).tanh()
            return (n + (z + hz).sigmoid() * (h - n),)

        return unrolled(step, linear(x, w_ih, b_ih), (h,), sizes, reverse)

    return recorded(forward, needs, (x, h, w_ih, w_hh, b_ih, b_hh), (g_out, g_last))


@gru_sequence.fast_vjp(*OPERANDS)
def _(xp, needs, x, h, w_ih, w_hh, sizes, reverse, out, gates, passed, g_out, g_last):
    steps, size = steps_of(sizes, reverse), h.shape[1]
    if passed.ndim == 3:
        how = {"needs": needs, "steps": steps, "offsets": _offsets(xp, steps, x)}
        return _GRU_GRAD_ON_GPU(x, h, w_ih, w_hh, gates, passed, g_out, g_last, **how)
    dh = state_grads(xp, steps, xp.zeros(h.shape, h.dtype) if g_last is None else g_last, g_out)
    if fast := kernel_for_steps(_GRU_GRAD, xp, sizes, gates, w_hh, dh, passed):
        grads = fast(steps, dh, w_hh, gates, passed, h, rows(out))
    else:
        grads = _gru_through_time(xp, steps, dh, w_hh, gates, passed, h, rows(out))
    # The order of the gates is n, r, z and the part of n from h: the first three depend on x, the last three on h.
    turned = _turned(xp, w_ih, 2 * size)
    gx, g_ih, g_hh, gb_ih, gb_hh = weight_grads(
        xp, (needs[0], *needs[2:]), grads[:, : 3 * size], grads[:, size:], x, h, out, steps, turned
    )
    g_ih, gb_ih = (None if g is None else _turned(xp, g, size) for g in (g_ih, gb_ih))
    return gx, dh[: len(h)] if needs[1] else None, g_ih, g_hh, gb_ih, gb_hh


def _turned(xp: Any, a: Any, count: int) -> Any:
    """The first rows moved to the end."""
    return xp.concatenate([a[count:], a[:count]])


def _gru_through_time(xp: Any, steps: Steps, dh: Any, w_hh: Any, gates: Any, passed: Any, h: Any, out: Any) -> Any:
    """The gradients of n, r, z and of the part of n from h; those of the states are completed in `dh`."""
    size = dh.shape[1]
    r, z, n = (gates[:, k * size : (k + 1) * size] for k in range(3))
    earlier = xp.concatenate([h, out])[place(xp, steps.before)]
    to_n = (1 - z) * (1 - n * n)
    factors = xp.stack([to_n, to_n * passed * r * (1 - r), (earlier - n) * z * (1 - z), to_n * r], 1)
    return back_through_time(xp, steps, dh, factors, w_hh, slice(size, None), z)


@op(
    dtypes=FLOATING, promote=(), broadcasts=False, outputs=("out", "last"), shape=_shape, flops=_flops, autocast="lower",
    float32_weights="converted", kernels=(kernel("recurrent_cell_cpu:rnn", one_step),),
)  # fmt: skip
def rnn_sequence(xp, x, h, w_ih, w_hh, b_ih=None, b_hh=None, *, relu, sizes, reverse=False):
    """x (rows, I) or (T, N, I), h (N, H): every h, as x lies, tanh or relu of the sums, and the last h."""
    steps = steps_of(sizes, reverse)
    sums = product(xp, rows(x), w_ih.T)
    hs = states_from(xp, h, len(sums))
    sums += bias_of(xp, w_ih, b_ih, b_hh)
    if fast := kernel_for_steps(_RNN, xp, sizes, sums, h, w_hh):
        fast(steps, sums, hs, w_hh, relu)
    else:
        for part, after, before in steps.each:
            z = xp.add(sums[part], product(xp, hs[place(xp, before)], w_hh.T), out=hs[after])
            if relu:
                xp.maximum(z, 0, out=z)
            else:  # in double precision: NumPy's float32 tanh is off by 1.4 ulp, PyTorch's by half a one, and steps add up
                z[...] = xp.tanh(z.astype(xp.float64))
    return _shaped(hs[len(h) :], x), xp.array(hs[place(xp, steps.last)])


@prepares(rnn_sequence.forward, strided=True)
def _(*arrays, recorded, **how):
    function = chosen_for(rnn_sequence.kernels, arrays, how) or functools.partial(rnn_sequence.forward, np)

    def cell(*arrays):
        results = function(*arrays, **how)
        return results if recorded else results[0]

    return cell


@rnn_sequence.vjp(*OPERANDS)
def _(needs, x, h, w_ih, w_hh, b_ih, b_hh, relu, sizes, reverse, g_out, g_last):
    def forward(x, h, w_ih, w_hh, b_ih, b_hh):
        activation = Tensor.relu if relu else Tensor.tanh
        return unrolled(
            lambda z, h: (activation(z + linear(h, w_hh, b_hh)),), linear(x, w_ih, b_ih), (h,), sizes, reverse
        )

    return recorded(forward, needs, (x, h, w_ih, w_hh, b_ih, b_hh), (g_out, g_last))


@rnn_sequence.fast_vjp(*OPERANDS)
def _(xp, needs, x, h, w_ih, w_hh, relu, sizes, reverse, out, g_out, g_last):
    steps = steps_of(sizes, reverse)
    dh = state_grads(xp, steps, g_last, g_out)
    if fast := kernel_for_steps(_RNN_GRAD, xp, sizes, out, w_hh, dh):
        grads = fast(steps, dh, w_hh, rows(out), relu)
    else:
        factors = (~(out <= 0)).astype(out.dtype) if relu else 1 - out * out
        grads = back_through_time(xp, steps, dh, rows(factors)[:, None], w_hh, slice(None))
    gx, *of_weights = weight_grads(xp, (needs[0], *needs[2:]), grads, grads, x, h, out, steps, w_ih)
    return gx, dh[: len(h)] if needs[1] else None, *of_weights
