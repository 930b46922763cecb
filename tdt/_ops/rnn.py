"""LSTM: a whole sequence in one op; layers and directions are stacked above it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tdt import _kernels
from tdt._dtype import FLOATING
from tdt._ops.dropout import functional_dropout as drop_out
from tdt._ops.join import cat, stack
from tdt._tensor import Tensor
from tdt.autograd._op import op


def _shape(x: tuple, h: tuple, *rest: Any) -> tuple:
    return (x[0], *h), h


def _flops(x: tuple, h: tuple, c: Any, w_ih: tuple, w_hh: tuple, *rest: Any) -> int:
    return math.prod(x[:2]) * (math.prod(w_ih) + math.prod(w_hh))


@op(
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    outputs=("out", "cell"),
    aux=("gates", "cells"),
    shape=_shape,
    flops=_flops,
)
def lstm_sequence(xp, x, h, c, w_ih, w_hh, b_ih, b_hh):
    """x (T, N, I), h and c (N, H): every h (T, N, H) and the last c. aux: the four gates and c at every step.

    What the input adds to the gates is one product for the whole sequence; only h W is computed step by step.
    """
    steps, batch, size = *x.shape[:2], h.shape[1]
    gates = _kernels.product(xp, x.reshape(-1, x.shape[2]), w_ih.T).reshape(steps, batch, 4 * size)
    if fast := _kernels.chosen("lstm_sequence.steps", xp, gates, h, c, w_hh):
        bias = sum((b for b in (b_ih, b_hh) if b is not None), xp.zeros(4 * size, x.dtype))
        out, cells = fast(gates, h, c, w_hh, bias)
        return (out, cells[-1].copy()), gates, cells
    for b in (b_ih, b_hh):
        if b is not None:
            gates += b
    out, cells = xp.empty((steps, batch, size), x.dtype), xp.empty((steps, batch, size), x.dtype)
    for t in range(steps):
        z = gates[t]
        z += h @ w_hh.T
        candidate = xp.tanh(z[:, 2 * size : 3 * size])
        # sigmoid(z) = (1 + tanh(z / 2)) / 2 never overflows.
        z *= x.dtype.type(0.5)
        xp.tanh(z, out=z)
        z += 1
        z *= x.dtype.type(0.5)
        z[:, 2 * size : 3 * size] = candidate
        i, f, _, o = (z[:, k * size : (k + 1) * size] for k in range(4))
        c = xp.add(f * c, i * candidate, out=cells[t])
        h = xp.multiply(o, xp.tanh(c), out=out[t])
    return (out, c.copy()), gates, cells


def _through_time(tanh: Callable, join: Callable, g_out: Any, g_cell: Any, c0: Any, w_hh: Any, gates: Sequence,
                  cells: Sequence) -> tuple:  # fmt: skip
    """Backpropagation through time, on arrays or on tensors: gradients of each step's gates (N, 4H), of h and c."""
    size, grads, dh, dc = w_hh.shape[1], [], None, g_cell
    for t in reversed(range(len(gates))):
        i, f, a, o = (gates[t][:, k * size : (k + 1) * size] for k in range(4))
        before = cells[t - 1] if t else c0
        squashed = tanh(cells[t])
        total = g_out[t] if dh is None else g_out[t] + dh
        dc = dc + total * o * (1 - squashed * squashed)
        grads.append(join([dc * a * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - a * a),
                           total * squashed * o * (1 - o)], 1))  # fmt: skip
        dh, dc = grads[-1] @ w_hh, dc * f
    return grads[::-1], dh, dc


def _from_gates(product: Callable, pile: Callable, needs: tuple, grads: Any, dh: Any, dc: Any, x: Any, h0: Any, w_ih: Any,
                w_hh: Any, hs: Sequence) -> tuple:  # fmt: skip
    """The gradients that are needed, of all operands, from those of the gates at every step."""
    if dh is None:
        found = x * 0, h0 * 0, dc, w_ih * 0, w_hh * 0, w_ih[:, 0] * 0, w_ih[:, 0] * 0
        return tuple(v if need else None for v, need in zip(found, needs, strict=True))
    flat = (pile(grads) if isinstance(grads, list) else grads).reshape(-1, w_ih.shape[0])
    across = flat.swapaxes(0, 1)
    return (
        product(flat, w_ih).reshape(x.shape) if needs[0] else None,
        dh if needs[1] else None,
        dc if needs[2] else None,
        product(across, x.reshape(-1, x.shape[2])) if needs[3] else None,
        product(across, pile([h0, *hs[:-1]]).reshape(-1, w_hh.shape[1])) if needs[4] else None,
        flat.sum(0) if needs[5] else None,
        flat.sum(0) if needs[6] else None,
    )


@lstm_sequence.vjp("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh")
def _(needs, x, h, c, w_ih, w_hh, b_ih, b_hh, g_out, g_cell):
    hs, gates, cells = [], [], []
    size, now, cell = h.shape[1], h, c
    for t in range(x.shape[0]):
        z = x[t] @ w_ih.T + now @ w_hh.T
        for b in (b_ih, b_hh):
            z = z if b is None else z + b
        i, f, a, o = (z[:, k * size : (k + 1) * size] for k in range(4))
        i, f, a, o = i.sigmoid(), f.sigmoid(), a.tanh(), o.sigmoid()
        cell = f * cell + i * a
        now = o * cell.tanh()
        hs.append(now)
        cells.append(cell)
        gates.append(cat([i, f, a, o], 1))
    found = _through_time(Tensor.tanh, cat, g_out, g_cell, c, w_hh, gates, cells)
    return _from_gates(Tensor.matmul, stack, needs, *found, x, h, w_ih, w_hh, hs)


@lstm_sequence.fast_vjp("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh")
def _(xp, needs, x, h, c, w_ih, w_hh, out, gates, cells, g_out, g_cell):
    fast = _kernels.chosen("lstm_sequence.steps_vjp", xp, gates, h, c, w_hh, g_out, g_cell)
    if fast:
        found = fast(g_out, g_cell, c, w_hh, gates, cells)
    else:
        found = _through_time(xp.tanh, xp.concatenate, g_out, g_cell, c, w_hh, gates, cells)
    product = functools.partial(_kernels.product, xp)
    return _from_gates(product, xp.stack, needs, *found, x, h, w_ih, w_hh, list(out))


def _expect(name: str, t: Tensor | None, shape: tuple[int, ...]) -> None:
    if t is not None and tuple(t.shape) != shape:
        raise RuntimeError(f"Expected {name} size {shape}, got {list(t.shape)}")


def lstm(input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
         train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """A stack of LSTM layers (Hochreiter and Schmidhuber, 1997): input (T, N, I), or (N, T, I) if `batch_first`.

    hx: h and c, each (layers · directions, N, H). params: per layer and direction w_ih (4H, I), w_hh (4H, H) and, with
    `has_biases`, b_ih and b_hh (4H,); the gates are input, forget, candidate, output. dropout: between layers, in training.
    Returns (every h of the last layer, the last h and the last c of every layer and direction). RuntimeError for shapes
    that do not fit.

    >>> import tdt
    >>> z = tdt.zeros(1, 1, 1)
    >>> lstm(z, (z, z), [tdt.ones(4, 1), tdt.ones(4, 1)], False, 1, 0.0, False, False, False)[0]
    tensor([[[0.]]])
    """
    x = input.transpose(0, 1) if batch_first else input
    each, sides = 4 if has_biases else 2, 2 if bidirectional else 1
    size, last_h, last_c = hx[0].shape[-1], [], []
    for i, state in enumerate(hx):
        _expect(f"hidden[{i}]", state, (num_layers * sides, x.shape[1], size))
    for layer in range(num_layers):
        made = []
        for side in range(sides):
            k = layer * sides + side
            weights = [*params[k * each : (k + 1) * each], None, None][:4]
            wanted = (4 * size, x.shape[2]), (4 * size, size), (4 * size,), (4 * size,)
            for name, w, shape in zip(("w_ih", "w_hh", "b_ih", "b_hh"), weights, wanted, strict=True):
                _expect(f"{name} of layer {layer}", w, shape)
            out, cell = lstm_sequence(x.flip(0) if side else x, hx[0][k], hx[1][k], *weights)
            last_h.append(out[-1])
            last_c.append(cell)
            made.append(out.flip(0) if side else out)
        x = made[0] if sides == 1 else cat(made, 2)
        if dropout and train and layer < num_layers - 1:
            x = drop_out(x, dropout)
    return x.transpose(0, 1) if batch_first else x, stack(last_h), stack(last_c)


__all__ = ["lstm"]
