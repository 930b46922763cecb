"""What the recurrent sequences share: a whole packed sequence, one layer in one direction, is one op.

What the input adds to the gates is one product for all steps, and so are the gradients of the weights; only h W is
computed step by step. Backward goes through the steps once more; second derivatives record the unrolled steps anew.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._backend import total as sum_over
from tdt._core.mode import enable_grad, state
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import Kernel, chosen, product
from tdt._ops.nn.rnn._steps import Steps
from tdt._ops.shape.join import cat
from tdt.autograd import _engine


def products(x: tuple, *operands: Any) -> int:
    """Multiply-adds: every row of x is multiplied by all weights."""
    return math.prod(x[:-1]) * sum(math.prod(w) for w in operands if w is not None and len(w) == 2)


def rows(x: Any) -> Any:
    """(T, N, F), an array or a tensor, as (rows, F); a packed batch is that already."""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def place(xp: Any, index: Any) -> Any:
    """An index of `Steps` for arrays of `xp`."""
    if xp is np or isinstance(index, slice):
        return index
    return _uploaded(xp, xp.cuda.Device().id, index.tobytes(), index.dtype)


@functools.lru_cache(256)
def _uploaded(xp: Any, gpu: int, content: bytes, dtype: Any) -> Any:
    """An index on a GPU, which batches of one shape share; it is complete there: any stream may read it."""
    found = xp.asarray(np.frombuffer(content, dtype))
    xp.cuda.get_current_stream().synchronize()
    return found


def kernel_for_steps(kernels: Sequence[Kernel], xp: Any, sizes: tuple[int, ...], *arrays: Any) -> Callable | None:
    """The kernel for the steps of a batch."""
    return chosen(kernels, xp, *arrays, steps=len(sizes))


def states_from(xp: Any, first: Any, count: int) -> Any:
    """The states of a packed batch of so many rows: first ones given, those of the rows yet to be written."""
    states = xp.empty((len(first) + count, first.shape[1]), first.dtype)
    states[: len(first)] = first
    return states


def state_grads(xp: Any, steps: Steps, g_last: Any, g_out: Any = None) -> Any:
    """The gradients of all states, as far as they come from the results."""
    batch, size = g_last.shape
    grads = xp.zeros((batch + len(steps.before), size), g_last.dtype)
    if g_out is not None:
        grads[batch:] = rows(g_out)
    grads[place(xp, steps.last)] += g_last
    return grads


def bias_of(xp: Any, like: Any, *parts: Any) -> Any:
    """The sum of the biases that are not None, or zeros for the rows of `like`; must not be written to."""
    biases = [b for b in parts if b is not None]
    return functools.reduce(operator.add, biases) if biases else xp.zeros(len(like), like.dtype)


@functools.lru_cache(64)
def lstm_scales(xp: Any, device: Any, size: int, dtype: Any) -> tuple[Any, Any]:
    """s and 1 - s for `squash` of an LSTM's gates: a tanh for the third, sigmoids for the others."""
    scale = xp.full(4 * size, 0.5, dtype)
    scale[2 * size : 3 * size] = 1
    found = scale, 1 - scale
    if xp is not np:
        xp.cuda.get_current_stream().synchronize()  # any stream may read them
    return found


def squash(xp: Any, z: Any, scale: Any, shift: Any) -> None:
    """z becomes tanh(z s) s + 1 - s: its sigmoid for s = 1/2, which never overflows so, and its tanh for s = 1."""
    z *= scale
    xp.tanh(z, out=z)
    z *= scale
    z += shift


def back_through_time(
    xp: Any, steps: Steps, dh: Any, factors: Any, w_hh: Any, passed: slice, carried: Any = None
) -> Any:
    """The gradients (rows, gates · H) of the gates, `factors` times those of the states, which are completed in `dh`.

    Columns `passed` of the gates came from h W; `carried` is the factor of h in the next state that it enters unchanged.
    """
    grads = xp.empty((len(factors), factors.shape[1] * factors.shape[2]), dh.dtype)
    by_gate = grads.reshape(factors.shape)
    for part, after, before in reversed(steps.each):
        total, before = dh[after], place(xp, before)
        xp.multiply(total[:, None], factors[part], out=by_gate[part])
        dh[before] += product(xp, grads[part, passed], w_hh)
        if carried is not None:
            dh[before] += total * carried[part]
    return grads


def weight_grads(xp: Any, needs: Sequence[bool], g_input: Any, passed: Any, x: Any, h: Any, out: Any, steps: Steps,
                 w_ih: Any) -> tuple:  # fmt: skip
    """The gradients of x, w_ih, w_hh, b_ih, b_hh, from those of x W + b (`g_input`) and of h W + b (`passed`)."""
    before = xp.concatenate([h, rows(out)])[place(xp, steps.before)] if needs[2] else None  # what every row began from
    bias = sum_over(g_input, 0) if needs[3] else None
    return (
        product(xp, g_input, w_ih).reshape(x.shape) if needs[0] else None,
        product(xp, g_input.T, rows(x)) if needs[1] else None,
        product(xp, passed.T, before) if needs[2] else None,
        bias,
        None if not needs[4] else sum_over(passed, 0) if bias is None or passed is not g_input else bias.copy(),
    )


def unrolled(step: Callable[..., tuple], projected: Tensor, states: tuple, sizes: tuple, reverse: bool) -> tuple:
    """Every h, and every sample's last states, as tensors; `step` computes the next states of the samples that still run."""
    gates = rows(projected)
    spans = [(end - n, end) for n, end in zip(sizes, itertools.accumulate(sizes), strict=True)]
    outs = []
    for start, end in spans[::-1] if reverse else spans:
        n = end - start
        results = step(gates[start:end], *[s[:n] for s in states])
        outs.append(results[0])
        states = tuple(new if n == len(s) else cat([new, s[n:]]) for new, s in zip(results, states, strict=True))
    out = cat(outs[::-1] if reverse else outs)
    return (out.reshape(*projected.shape[:-1], out.shape[1]), *states)


def recorded(forward: Callable[..., tuple], needs: tuple, operands: tuple, grads: tuple) -> tuple:
    """The gradients of the operands that are needed, by recording `forward` and going back through the record.

    The first operand may be of half precision beside others in float32, as autocast leaves them; so are the results then.
    """
    graph, low = state.grad, operands[0].dtype
    mixed = any(t is not None and t.dtype is not low for t in operands)
    with enable_grad():
        inputs: list[Any] = [None if t is None else t.view_as(t) for t in operands]
        outs = forward(*[t.float() if mixed and t is not None else t for t in inputs])
        outs = tuple([out.to(low) for out in outs]) if mixed else outs
    edges = [t._edge for t, need in zip(inputs, needs, strict=True) if need]
    roots = [(i, g) for i, g in zip(outs, grads, strict=True) if i._edge is not None]
    grad_outputs = [g if graph else g._a for _, g in roots]
    found = iter(_engine.execute([t._edge for t, _ in roots], grad_outputs, True, graph, edges))
    values = [next(found) if need else None for need in needs]
    return tuple(v if v is None or isinstance(v, Tensor) else wrap(v) for v in values)
