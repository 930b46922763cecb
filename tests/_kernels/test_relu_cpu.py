"""ReLU kernels beside the portable form."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _pool
from tdt._kernels.relu_cpu import BLOCK, relu, relu_vjp


def values(size: int) -> np.ndarray:
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45, 3e38], np.float32)
    x[: special.size] = special[:size]
    return x


@pytest.mark.parametrize("size", [1, 7, 16, 17, 97, BLOCK - 1, BLOCK, BLOCK + 1, 40 * BLOCK + 3])
def test_values_and_gradients_are_the_portable_ones(size):
    x, g = values(size), values(size)[::-1].copy()
    out = relu(x)
    np.testing.assert_array_equal(out, np.maximum(x, np.float32(0)))
    np.testing.assert_array_equal(relu_vjp(g, out), np.where(out == 0, np.float32(0), g))


def test_the_memory_order_is_preserved():
    x = to_front(np.ascontiguousarray(to_last(values(2 * 3 * 50 * 70).reshape(2, 3, 50, 70))))
    out = relu(x)
    assert out.strides == x.strides == relu_vjp(x, out).strides
    np.testing.assert_array_equal(out, np.maximum(x, 0))


@pytest.mark.parametrize("channels", [3, 8, 17])
def test_a_gradient_in_another_memory_order_is_converted_to_the_results(channels):
    x = values(2 * channels * 50 * 70).reshape(2, channels, 50, 70)
    g = values(x.size)[::-1].reshape(x.shape)
    last = to_front(np.ascontiguousarray(to_last(x)))
    spread = np.broadcast_to(g[:, :, :1, :1], x.shape)
    for upstream, out in (
        (g, last),
        (to_front(np.ascontiguousarray(to_last(g))), x),
        (spread, last),
        (spread, x),
        (g, x),
    ):
        grad = relu_vjp(upstream, relu(out))
        np.testing.assert_array_equal(grad, np.where(relu(out) == 0, np.float32(0), upstream))
        assert grad.strides == out.strides


def test_bits_do_not_depend_on_the_number_of_threads():
    x, before, found = values(100_003), _pool.get_num_threads(), []
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        found.append(relu(x).tobytes() + relu_vjp(x, relu(x)).tobytes())
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


def test_strided_and_broadcast_inputs_take_the_portable_form():
    square = tdt.tensor(values(1 << 18).reshape(512, 512))
    for x in (square[:, ::2], square[0].expand(512, 512), square.t()):
        leaf = x.detach().requires_grad_()
        out = tdt.relu(leaf)
        np.testing.assert_array_equal(out.detach().numpy(), np.maximum(x.numpy(), 0))
        grad = tdt.autograd.grad(out, leaf, tdt.ones(()).expand(out.shape))[0]
        np.testing.assert_array_equal(grad.numpy(), (out.detach().numpy() != 0).astype(np.float32))
