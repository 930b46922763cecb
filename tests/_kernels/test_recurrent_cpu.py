"""Recurrent kernels beside the portable form in float64."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

import tdt
from tdt import _kernels, nn
from tdt._kernels import _pool, _recurrent
from tdt._kernels._conditions import vectors_of_eight
from tdt._kernels._recurrent import BLOCK
from tdt._kernels._tile import rates
from tdt._ops.nn.rnn.sequences import gru_sequence, lstm_sequence, rnn_sequence
from tests._kernels.watch import watch

# The samples at each step, and the hidden size.
PADDED = [((n,) * steps, size) for steps, n, size in (
    (1, 1, 1), (1, 5, 37), (1, 600, 16), (3, 2, 7), (2, BLOCK + 1, 5), (5, 2 * BLOCK + 3, 17), (4, BLOCK, 32), (2, 9, 33),
    (3, 7, 100),
)]  # fmt: skip
PACKED = [((BLOCK + 3, BLOCK + 3, BLOCK, 5, 1, 1), 13), ((3, 2, 1), 40), ((2 * BLOCK + 1, 1), 16)]
# The op, its gates, its settings.
KINDS = {"lstm": (lstm_sequence, 4, {}), "gru": (gru_sequence, 3, {}), "tanh": (rnn_sequence, 1, {"relu": False}),
         "relu": (rnn_sequence, 1, {"relu": True})}  # fmt: skip


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def problem(kind: str, sizes: tuple[int, ...], size: int, inside: int = 6) -> list[np.ndarray | None]:
    """The op's operands."""
    gates, batch = KINDS[kind][1] * size, sizes[0]
    states = [random(batch, size, seed=k) for k in range(2 if kind == "lstm" else 1)]
    return [random(sum(sizes), inside, seed=3), *states, random(gates, inside, seed=4, scale=2 * inside**-0.5),
            random(gates, size, seed=5, scale=size**-0.5), random(gates, seed=6), random(gates, seed=7),
            *[None] * (kind == "lstm")]  # fmt: skip


def results(kind: str, operands: list, sizes: tuple[int, ...], reverse: bool) -> list[np.ndarray]:
    """What the op gives, and the gradients of its operands for fixed random ones of its results."""
    leaves = [None if a is None else tdt.from_numpy(a.copy()).requires_grad_() for a in operands]
    op, _, settings = KINDS[kind]
    outs = op(*leaves, sizes=sizes, reverse=reverse, **settings)
    weights = [tdt.from_numpy(random(*t.shape, seed=9 + k)).to(t.dtype) for k, t in enumerate(outs)]
    tdt.autograd.backward(outs, weights)
    return [t.detach().numpy() for t in outs] + [t.grad.numpy() for t in leaves if t is not None]


def kernels_of(kind: str, steps: int = 2) -> list[str]:
    name = KINDS[kind][0].name.replace("_sequence", "")
    if steps == 1:
        return [f"recurrent_cell_cpu:{name}", f"recurrent_cell_cpu:{name}_grad"]
    return [f"{name}_cpu:forward", f"{name}_cpu:backward"]


def compare(kind: str, sizes: tuple[int, ...], size: int, reverse: bool = False) -> None:
    operands = problem(kind, sizes, size)
    both = kernels_of(kind, len(sizes))
    with pytest.MonkeyPatch.context() as patch:
        called = watch(patch, *kernels_of(kind), *kernels_of(kind, 1))
        fast = results(kind, operands, sizes, reverse)
    assert called == both
    promoted = [None if a is None else a.astype(np.float64) for a in operands]
    for k, (found, expected) in enumerate(zip(fast, results(kind, promoted, sizes, reverse), strict=True)):
        largest = np.abs(expected).max(initial=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=4e-6 * max(1.0, largest), err_msg=str(k))


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("width", [8, 16])
def test_tiles_of_any_vector_width(width):
    with patch.object(_recurrent, "rates", lambda: rates(width)):
        compare("gru", *PADDED[-1])
        compare("lstm", *PACKED[0])


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_more_samples_for_large_weights(kind):
    with patch.object(_recurrent, "LARGE", 0):
        compare(kind, *PACKED[0])
        compare(kind, *PADDED[3], reverse=True)


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sizes", "size"), PADDED + PACKED, ids=str)
def test_steps_and_their_gradients(kind, sizes, size):
    for reverse in (False, True):
        compare(kind, sizes, size, reverse)


def kernel_forward(
    kind: str, gates: np.ndarray, h: np.ndarray, c: np.ndarray, w_hh: np.ndarray, b: np.ndarray
) -> tuple:
    """Every h and the array behind it, c or what h passed on, from gates (T, N, gates · H)."""
    from tdt._kernels import gru_cpu, lstm_cpu
    from tdt._ops.nn.rnn._steps import steps_of

    steps, batch, _ = gates.shape
    rows = steps * batch
    hs, cs = (np.concatenate([first, np.empty((rows, first.shape[1]), np.float32)]) for first in (h, c))
    plan = steps_of((batch,) * steps, False)
    if kind == "lstm":
        lstm_cpu.forward(plan, gates.reshape(rows, -1), hs, cs, w_hh, b)
    else:
        cs = cs[batch:]
        gru_cpu.forward(plan, gates.reshape(rows, -1), hs, cs, w_hh, b, np.zeros_like(b))
    return hs[batch:].reshape(steps, batch, -1), cs[-rows:].reshape(steps, batch, -1)


@pytest.mark.parametrize("kind", KINDS)
def test_non_finite_values_stay_in_their_sample(kind):
    op, _, settings = KINDS[kind]
    sizes = (2 * BLOCK,) * 8
    operands = [None if a is None else a.copy() for a in problem(kind, sizes, 20)]
    operands[0][3, 2], operands[1][BLOCK + 5, 7], operands[1][9, 1] = np.nan, np.inf, -np.inf
    inputs = [None if a is None else tdt.from_numpy(a) for a in operands]
    out = op(*inputs, sizes=sizes, **settings)[0].numpy().reshape(len(sizes), 2 * BLOCK, -1)
    touched = [3, BLOCK + 5, 9]
    assert np.isnan(out[:, 3]).all(axis=-1)[1:].all()
    assert np.isfinite(np.delete(out, touched, axis=1)).all()
    with tdt.backends.kernels(False):
        portable = op(*inputs, sizes=sizes, **settings)[0].numpy().reshape(out.shape)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(portable))
    np.testing.assert_array_equal(np.isinf(out), np.isinf(portable))


def test_large_and_subnormal_gates_saturate():
    gates = np.array([[-200, 200, 1e-45, 200], [200, -200, 20, 1e-40]], np.float32).reshape(1, 2, 4)
    zeros = np.zeros((2, 1), np.float32)
    out, cells = kernel_forward("lstm", gates, zeros, zeros + 3, np.zeros((4, 1), np.float32), np.zeros(4, np.float32))
    np.testing.assert_allclose(cells[0, :, 0], [3, 1])
    np.testing.assert_allclose(out[0, :, 0], [np.tanh(3), np.tanh(1) / 2], rtol=1e-6)
    assert gates[0, 0].tolist() == [0, 1, pytest.approx(0, abs=2e-45), 1]
    gates = np.array([[-200, 200, 1e-45], [200, -200, 20]], np.float32).reshape(1, 2, 3)
    out, _ = kernel_forward("gru", gates, zeros + 3, zeros, np.zeros((3, 1), np.float32), np.zeros(3, np.float32))
    np.testing.assert_allclose(out[0, :, 0], [3, 1])


@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_the_number_of_threads(kind):
    before, found = _pool.get_num_threads(), []
    sizes = (5 * BLOCK,) * 10 + (2 * BLOCK,) * 10
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        found.append(b"".join(a.tobytes() for a in results(kind, problem(kind, sizes, 64), sizes, False)))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not (_kernels.enabled() and vectors_of_eight()), reason="products are NumPy's")
@pytest.mark.parametrize(
    ("layer", "options"),
    [(nn.RNN, {}), (nn.LSTM, {"proj_size": 5}), (nn.GRU, {"dtype": tdt.float64}), (nn.RNN, {"dtype": tdt.float64})],
    ids=str,
)
def test_a_sample_alone_has_the_bits_that_it_has_in_a_batch(layer, options):
    module, x = layer(3, 37, **options), tdt.randn(2, 11, 3, dtype=options.get("dtype"))
    whole = module(x)[0].detach()
    for k in (0, 10):
        np.testing.assert_array_equal(module(x[:, k : k + 1])[0].detach(), whole[:, k : k + 1])


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("kind", KINDS)
def test_the_op_uses_the_kernels_for_several_steps_and_else_the_portable_form(kind, monkeypatch):
    called = watch(monkeypatch, *kernels_of(kind))
    n, size = 24, 40
    steps = 2
    many = problem(kind, (n,) * steps, size)
    biases = slice(-3, -1) if kind == "lstm" else slice(-2, None)
    bare = [*many]
    bare[biases] = None, None
    for name, inputs, count in (
        ("all", many, steps), ("no bias", bare, steps), ("few", [many[0][:n], *many[1:]], 1),
        ("wide", [None if a is None else a.astype(np.float64) for a in many], steps), ("long", problem(kind, (1,) * 8, 3), 8),
        ("two steps", problem(kind, (1,) * 2, 3), 2),
    ):  # fmt: skip
        called.clear()
        results(kind, inputs, (len(inputs[1]),) * count, False)
        assert len(called) == (0 if name in ("few", "wide") else 2), name


@pytest.mark.parametrize(("which", "shape"), [
    ("h", (1, 1, 64)), ("c", (1, 64, 67)), ("c", (1, 2, 64)), ("w_ih", (256, 31)), ("w_hh", (256, 114)),
    ("w_hh", (248, 64)), ("b_ih", (255,)), ("b_hh", (1,)),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(which, shape):
    shapes = {"h": (1, 64, 64), "c": (1, 64, 64), "w_ih": (256, 32), "w_hh": (256, 64), "b_ih": (256,), "b_hh": (256,)}
    h, c, *params = (tdt.randn(*s) for s in ({**shapes, which: shape}).values())
    with pytest.raises(RuntimeError, match=r"Expected .* size|incorrect number"):
        tdt.lstm(tdt.randn(20, 64, 32), (h, c), params, True, 1, 0.0, False, False, False)
