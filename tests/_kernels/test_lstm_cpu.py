"""LSTM kernels beside the portable form in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import LARGE_LSTM, TABLE, _pool
from tdt._kernels.lstm_cpu import BLOCK, backward, forward
from tdt._ops.rnn import _through_time, lstm_sequence

# steps, samples, hidden size
SHAPES = [(1, 1, 1), (3, 2, 7), (2, BLOCK + 1, 5), (5, 2 * BLOCK + 3, 17), (4, BLOCK, 32), (2, 9, 33), (3, 7, 100)]


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def problem(shape: tuple[int, int, int]) -> tuple[np.ndarray, ...]:
    """gates, h, c, w_hh, bias."""
    t, n, size = shape
    return (random(t, n, 4 * size, scale=2), random(n, size, seed=1), random(n, size, seed=2),
            random(4 * size, size, seed=3, scale=size**-0.5), random(4 * size, seed=4))  # fmt: skip


def portable(arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Every h, gates and cells from the op's definition, whose input is the gates themselves, in float64."""
    gates, h, c, w_hh, bias = (a.astype(np.float64) for a in arrays)
    (out, _), gates, cells = lstm_sequence.forward(np, gates, h, c, np.eye(gates.shape[2]), w_hh, bias, None)
    return [out, gates, cells]


def compare(shape: tuple[int, int, int]) -> None:
    gates, h, c, w_hh, bias = problem(shape)
    expected = portable((gates, h, c, w_hh, bias))
    out, cells = forward(gates, h, c, w_hh, bias)
    for found, value in zip((out, gates, cells), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=2e-6)
    g_out, g_cell = random(*out.shape, seed=5), random(*c.shape, seed=6)
    grads, dh, dc = backward(g_out, g_cell, c, w_hh, gates, cells)
    wide = [a.astype(np.float64) for a in (g_out, g_cell, c, w_hh, gates, cells)]
    each, *ends = _through_time(np.tanh, np.concatenate, *wide)
    for found, value in zip((grads, dh, dc), (np.stack(each), *ends), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_steps_and_their_gradients(shape):
    compare(shape)


def test_non_finite_values_stay_in_their_sample():
    gates, h, c, w_hh, bias = problem((4, 2 * BLOCK, 20))
    c[3, 2], h[BLOCK + 5, 7], c[9, 1] = np.nan, np.inf, -np.inf
    expected, _, wide = portable((gates, h, c, w_hh, bias))
    out, cells = forward(gates, h, c, w_hh, bias)
    for found, value in ((out, expected), (cells, wide)):
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(value))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(value))
    assert np.isnan(out).any(axis=(0, 2)).tolist() == [n == 3 for n in range(2 * BLOCK)]


def test_large_and_subnormal_gates_saturate():
    gates = np.array([[-200, 200, 1e-45, 200], [200, -200, 20, 1e-40]], np.float32).reshape(1, 2, 4)
    zeros = np.zeros((2, 1), np.float32)
    out, cells = forward(gates, zeros, zeros + 3, np.zeros((4, 1), np.float32), np.zeros(4, np.float32))
    np.testing.assert_allclose(cells[0, :, 0], [3, 1])
    np.testing.assert_allclose(out[0, :, 0], [np.tanh(3), np.tanh(1) / 2], rtol=1e-6)
    assert gates[0, 0].tolist() == [0, 1, pytest.approx(0, abs=2e-45), 1]


def test_bits_do_not_depend_on_the_number_of_threads():
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        gates, h, c, w_hh, bias = problem((20, 5 * BLOCK, 64))
        out, cells = forward(gates, h, c, w_hh, bias)
        arrays = out, cells, *backward(out, c, c, w_hh, gates, cells)
        found.append(b"".join(a.tobytes() for a in arrays))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_the_op_uses_the_kernels_where_there_are_many_gates_and_else_the_portable_form(monkeypatch):
    called = []
    for row in ("lstm_sequence.steps", "lstm_sequence.steps_vjp"):
        ((device, when, function),) = TABLE[row]
        spy = lambda *a, _n=row, _f=function, **k: called.append(_n) or _f(*a, **k)  # noqa: E731
        monkeypatch.setitem(TABLE, row, [(device, when, spy)])
    n, size = 24, 40
    steps = -(-LARGE_LSTM // (n * 4 * size))
    values = (random(steps, 2 * n, 11)[:, ::2], random(n, size), random(n, size, seed=1), random(4 * size, 11, scale=0.3),
              random(4 * size, size, scale=0.2), random(4 * size), random(4 * size, seed=2))  # fmt: skip
    for kind, given in (
        ("all", values), ("no bias", (*values[:5], None, None)), ("one bias", (*values[:5], None, values[6])),
        ("few", (values[0][:1], *values[1:])), ("wide", [a.astype(np.float64) for a in values]),
    ):  # fmt: skip
        called.clear()
        found = []
        for kernels in (True, False):
            with tdt.backends.kernels(kernels):
                leaves = [None if a is None else tdt.tensor(a, requires_grad=i > 0) for i, a in enumerate(given)]
                out, cell = lstm_sequence(*leaves)
                ((out * out).sum() + cell.sum()).backward()
                tensors = out.detach(), cell.detach(), *(leaf.grad for leaf in leaves[1:] if leaf is not None)
                found.append([t.numpy() for t in tensors])
        assert len(called) == (0 if kind in ("few", "wide") else 2), kind
        for fast, reference in zip(*found, strict=True):
            np.testing.assert_allclose(fast, reference, rtol=1e-3, atol=1e-5 * np.abs(reference).max())


@pytest.mark.parametrize(("which", "shape"), [
    ("h", (1, 1, 64)), ("c", (1, 64, 67)), ("c", (1, 2, 64)), ("w_ih", (256, 31)), ("w_hh", (256, 114)),
    ("w_hh", (248, 64)), ("b_ih", (255,)), ("b_hh", (1,)),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(which, shape):
    shapes = {"h": (1, 64, 64), "c": (1, 64, 64), "w_ih": (256, 32), "w_hh": (256, 64), "b_ih": (256,), "b_hh": (256,)}
    h, c, *params = (tdt.randn(*s) for s in ({**shapes, which: shape}).values())
    with pytest.raises(RuntimeError, match="Expected .* size"):
        tdt.lstm(tdt.randn(20, 64, 32), (h, c), params, True, 1, 0.0, False, False, False)
