"""Causal attention written by hand: compiled products leave out what the mask hides, to eager's bits."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import causal_cpu
from tdt._kernels._native import vector_width
from tdt._kernels.product_cpu import limited, product

pytestmark = pytest.mark.skipif(vector_width() < 8, reason="products are NumPy's on this processor")
T, E = 128, 80
HIDDEN = np.triu(np.ones((1, T, T), np.bool_), 1)


def attention(q, k, v, mask):
    scores = (q @ k.transpose(-2, -1)) * 0.125
    return tdt.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v


def draw(seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((2, T, E), np.float32) for _ in range(3)]


def bits(function, arrays, mask):
    """Those of a result and of its gradients."""
    leaves = [tdt.from_numpy(a.copy()).requires_grad_() for a in arrays]
    out = function(*leaves, tdt.from_numpy(mask))
    out.backward(tdt.from_numpy(arrays[0]))
    return [a.numpy().view(np.int32) for a in (out.detach(), *[leaf.grad for leaf in leaves])]


@pytest.fixture
def found(monkeypatch):
    """What the functions of the products gave: whether they left something out, in order."""
    calls = []
    for name in ("scores", "gradient_of_weights", "of_weights", "by_turned", "of_turned_weights", "by_weights"):

        def noted(*args, function=getattr(causal_cpu, name)):
            result = function(*args)
            calls.append(result is not None)
            return result

        monkeypatch.setattr(causal_cpu, name, noted)
    return calls


def same(compiled, arrays, mask):
    expected = bits(attention, arrays, mask)
    for a, b in zip(bits(compiled, arrays, mask), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_six_products_leave_out_what_a_causal_mask_hides(found):
    compiled = tdt.compile(attention, fullgraph=True)
    for seed in range(3):  # recorded, compared, and by the program alone
        same(compiled, draw(seed), HIDDEN)
    assert found[-6:] == [True] * 6


@pytest.mark.parametrize("value", [np.inf, np.nan, 3e38])
@pytest.mark.parametrize("which", range(3))
def test_what_is_not_finite_is_where_it_is_in_eager(found, value, which):
    compiled, arrays = tdt.compile(attention, fullgraph=True), draw(0)
    for _ in range(2):
        same(compiled, arrays, HIDDEN)
    arrays[which][1, 70, 3] = value
    same(compiled, arrays, HIDDEN)
    assert False in found[-6:]


def test_another_mask_of_a_later_call_is_noticed(found):
    compiled, mask = tdt.compile(attention, fullgraph=True), HIDDEN.copy()
    for _ in range(2):
        same(compiled, draw(0), mask)
    mask[0, 3, 4] = False
    same(compiled, draw(1), mask)
    assert found[-6:] == [False] * 6


def test_a_vector_among_the_factors_is_computed_whole():
    def loss(a, w, mask):
        return tdt.softmax((a @ w).masked_fill(mask, float("-inf")), -1) @ w[:T]

    compiled, draws, found = tdt.compile(loss, fullgraph=True), np.random.default_rng(0), []
    a, w = draws.standard_normal((T, T, T), np.float32), draws.standard_normal(T, np.float32)
    for function in (compiled, compiled, loss):
        leaves = [tdt.from_numpy(x.copy()).requires_grad_() for x in (a, w)]
        function(*leaves, tdt.from_numpy(HIDDEN[0])).sum().backward()
        found.append([leaf.grad.numpy() for leaf in leaves])
    np.testing.assert_array_equal(found[1][0], found[2][0])
    np.testing.assert_array_equal(found[1][1], found[2][1])


def test_sums_that_end_at_negative_zero_are_computed_whole():
    weights, values = np.tril(np.full((T, T), -1e-30, np.float32))[None], np.full((1, T, E), 1e-30, np.float32)
    assert causal_cpu.of_weights(weights, values, HIDDEN) is None
    assert causal_cpu.of_weights(weights, values * np.float32(1e30), HIDDEN) is not None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [(2, 130, 40), (1, 300, 64), (1, 600, 17)])
def test_limited_products_have_the_bits_of_whole_ones(size, threads):
    rng, before = np.random.default_rng(0), tdt.get_num_threads()
    a, b = (rng.standard_normal(size, np.float32) for _ in range(2))
    low, turned = np.tril(product(a, b.swapaxes(1, 2))), a.swapaxes(1, 2)
    cases = [(low, b, "to row"), (low.swapaxes(1, 2), b, "from row"), (turned, low, "from column")]
    tdt.set_num_threads(threads)
    try:
        for left, right, limit in cases:
            np.testing.assert_array_equal(limited(left, right, limit), product(left, right), limit)
        np.testing.assert_array_equal(np.tril(limited(a, b.swapaxes(1, 2), "columns")), low)
    finally:
        tdt.set_num_threads(before)
