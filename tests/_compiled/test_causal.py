"""Causal attention written by hand: compiled products leave out what the mask hides, to eager's bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tdt
from tdt._kernels import causal_cpu
from tdt._kernels._native import vector_width
from tdt._kernels.matrix_chains import Chain, Product
from tdt._kernels.product_cpu import limited, product

pytestmark = pytest.mark.skipif(
    vector_width() < 8 or not tdt.backends.kernels.enabled(),
    reason="products are NumPy's on this processor, or in portable code",
)
T, E = 128, 128  # no less than `LEAST_WORK`; widths of one tile
HIDDEN = np.triu(np.ones((1, T, T), np.bool_), 1)


def attention(q, k, v, mask):
    scores = (q @ k.transpose(-2, -1)) * 0.125
    return tdt.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v


def draw(seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((2, T, E), np.float32) for _ in range(3)]


def bits(function, arrays, mask):
    """Those of a result and of its gradients."""
    tdt.manual_seed(0)
    leaves = [tdt.from_numpy(a.copy()).requires_grad_() for a in arrays]
    out = function(*leaves, tdt.from_numpy(mask))
    out.backward(tdt.from_numpy(arrays[0]))
    return [a.numpy().view(np.int32) for a in (out.detach(), *[leaf.grad for leaf in leaves])]


@pytest.fixture
def found(monkeypatch):
    """How many products each chain had that was computed a matrix at a time, 0 where that gave nothing, in order."""
    calls, computed = [], Chain.computed

    def noted(chain, arrays):
        results = computed(chain, arrays)
        calls.append(0 if results is None else sum(isinstance(each, Product) for each in chain.stages))
        return results

    monkeypatch.setattr(Chain, "computed", noted)
    return calls


def same(compiled, arrays, mask):
    expected = bits(attention, arrays, mask)
    for a, b in zip(bits(compiled, arrays, mask), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_six_products_leave_out_what_a_causal_mask_hides(found):
    compiled = tdt.compile(attention, fullgraph=True)
    for seed in range(3):  # recorded, compared, and by the program alone
        same(compiled, draw(seed), HIDDEN)
    assert {*found} == {2, 4}  # of the forward and the backward pass


def test_products_of_keys_that_are_the_values_too_are_computed_across(found):
    def function(q, v, unused, mask):
        return attention(q, v, v, mask) + unused * 0

    compiled = tdt.compile(function, fullgraph=True)
    for seed in range(3):
        arrays = draw(seed)
        for a, b in zip(bits(compiled, arrays, HIDDEN), bits(function, arrays, HIDDEN), strict=True):
            np.testing.assert_array_equal(a, b)
    assert {*found} == {2, 4}


def heads_and_numbers(q, k, v, mask):
    """With heads that lie side by side, and numbers before and after the scores."""
    q, k, v = (x.view(2, T, 2, E // 2).transpose(1, 2) for x in (q, k, v))
    scores = 3.0 * ((q * 0.5) @ k.mT / 7.0)
    return (scores.masked_fill(mask, float("-inf")).softmax(-1) @ v).transpose(1, 2).reshape(2, T, E)


def weights_elsewhere(q, k, v, mask):
    """Without a product of weights alone."""
    weights = ((q @ k.mT) * 0.125).masked_fill(mask, float("-inf")).softmax(-1)
    return weights @ v + (weights * weights) @ v


def rows_between(q, k, v, mask):
    """With other statements between those of a chain."""
    scores = (q @ k.mT) * 0.125
    more = v.cumsum(-1)
    weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
    return weights @ more + (q * v).softmax(-2)


def softmax_of_columns(q, k, v, mask):
    """Whose sums are of a key's weights."""
    return ((q @ k.mT) * 0.125).masked_fill(mask, float("-inf")).softmax(-2) @ v


def mask_of_more_dimensions(q, k, v, mask):
    """That gives its masked scores a dimension more, too."""
    return attention(q, k, v, mask[None])[0]


def masked_scores_alone(q, k, v, mask):
    return ((q + v) @ k.mT).masked_fill(mask, float("-inf"))


def scores_from_elsewhere(q, k, v, mask):
    """Whose gradient is a result."""
    return tdt.softmax(q.masked_fill(mask, float("-inf")), -1) @ v + k * 0


def sum_of_scores(q, k, v, mask):
    """More products, and arrays, than a chain has."""
    scores = sum(((q * n) @ (k / n).mT for n in range(2, 5)), q @ k.mT)
    return tdt.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v


def where_and_dropout(q, k, v, mask):
    """As in GPT-2, with numbers that are tensors."""
    scores = q @ k.mT / tdt.full([], 8.0)
    scores = tdt.where(~mask, scores, tdt.full([], tdt.finfo(tdt.float32).min))
    return tdt.nn.functional.dropout(scores.softmax(-1), 0.1) @ v


def numbers_filled_in(q, k, v, mask):
    return (q @ k.mT * 0.125).masked_fill((~mask).float() == 0, -1e9).softmax(-1) @ v


def number_for_hidden_scores(q, k, v, mask):
    return tdt.dropout(tdt.where(mask, -1e4, q @ k.mT).softmax(-1), 0.1, True) @ v


def sum_with_mask(q, k, v, mask):
    return (mask.float().masked_fill(mask, float("-inf")) + q @ k.mT / 8).softmax(-1) @ v


def sum_with_numbers(q, k, v, mask):
    return tdt.dropout((q @ k.mT * 0.125 + mask * -1e4).softmax(-1), 0.1, True) @ v


def queries_with_a_bound(q, k, v, mask):
    """Of an op whose other bound is left out."""
    return attention(q.clamp(min=-1.0), k, v, mask)


OTHER_FORMS = [(heads_and_numbers, {2, 4}), (weights_elsewhere, {2}), (rows_between, {2, 4}), (softmax_of_columns, set()),
               (mask_of_more_dimensions, set()), (masked_scores_alone, set()), (scores_from_elsewhere, set()),
               (sum_of_scores, {0}), (where_and_dropout, {2, 4}), (numbers_filled_in, {2, 4}),
               (number_for_hidden_scores, {2, 4}),
               # 0 where the statement is tried with other masks
               (sum_with_mask, {0, 2, 4}), (sum_with_numbers, {2, 4}), (queries_with_a_bound, {2, 4})]  # fmt: skip


@pytest.mark.parametrize("function, chains", OTHER_FORMS)
def test_chains_of_other_forms_have_the_bits_of_eager(found, function, chains):
    compiled = tdt.compile(function, fullgraph=True)
    for seed in range(3):
        arrays = draw(seed)
        for a, b in zip(bits(compiled, arrays, HIDDEN), bits(function, arrays, HIDDEN), strict=True):
            np.testing.assert_array_equal(a, b)
    assert {*found} == chains


def test_too_few_matrices_for_the_threads_are_not_shared_out(found):
    before, arrays = tdt.get_num_threads(), draw(0)
    tdt.set_num_threads(3)
    try:
        compiled = tdt.compile(attention, fullgraph=True)
        for _ in range(3):
            same(compiled, arrays, HIDDEN)
    finally:
        tdt.set_num_threads(before)
    assert set(found) == {0}


def test_what_is_not_finite_is_where_it_is_in_eager(found):
    compiled = tdt.compile(attention, fullgraph=True)
    for which, value in [(0, 0), (0, 0), *itertools.product(range(3), (np.inf, np.nan, 3e38))]:
        arrays = draw(0)
        arrays[which][1, 70, 3] = value
        same(compiled, arrays, HIDDEN)
        assert not value or 0 in found[-2:]


def test_gradients_of_weights_that_may_overflow_are_computed_whole():
    g, v = np.ones((2, 512, 68), np.float32), np.full((2, 512, 68), np.float32(1e18))
    weights = np.tril(np.ones((2, 512, 512), np.float32))
    assert causal_cpu.GRADIENT_OF_WEIGHTS(g, v, weights) is None  # as dropout may scale them
    assert causal_cpu.GRADIENT_OF_WEIGHTS(g, v / 4, weights) is not None


def test_another_mask_of_a_later_call_is_noticed(found):
    compiled, mask = tdt.compile(attention, fullgraph=True), HIDDEN.copy()
    for _ in range(2):
        same(compiled, draw(0), mask)
    mask[0, 3, 4] = False
    same(compiled, draw(1), mask)
    assert found[-2:] == [0, 0]


def test_gradients_of_values_alone_are_computed_without_the_mask(found):
    compiled, (q, k, v), gradients = tdt.compile(attention, fullgraph=True), draw(0), []
    for function in (compiled, compiled, compiled, attention):
        leaf = tdt.from_numpy(v).requires_grad_()
        function(tdt.from_numpy(q), tdt.from_numpy(k), leaf, tdt.from_numpy(HIDDEN)).sum().backward()
        gradients.append(leaf.grad.numpy())
    np.testing.assert_array_equal(gradients[2], gradients[3])
    assert found[-1] == 2


def test_a_mask_that_is_written_to_through_a_view_is_not_looked_at():
    def masked(q, k, v, mask):
        own = tdt.zeros_like(mask)
        weights = tdt.softmax((q @ k.mT).masked_fill(own[:], float("-inf")), -1)
        own |= mask
        return weights @ v

    compiled, arrays = tdt.compile(masked, fullgraph=True), [tdt.from_numpy(a) for a in draw(0)]
    for mask in (np.zeros_like(HIDDEN), np.zeros_like(HIDDEN), HIDDEN):
        mask = tdt.from_numpy(mask)
        np.testing.assert_array_equal(compiled(*arrays, mask).numpy(), masked(*arrays, mask).numpy())


def test_a_vector_among_the_factors_is_computed_whole():
    matrix, vector = np.tril(np.ones((T, T, T), np.float32)), np.ones(T, np.float32)
    for form in (causal_cpu.SCORES, causal_cpu.GRADIENT_OF_WEIGHTS, causal_cpu.OF_WEIGHTS, causal_cpu.BY_TURNED,
                 causal_cpu.OF_TURNED_WEIGHTS, causal_cpu.BY_WEIGHTS):  # fmt: skip
        for factors in ((matrix, vector), (vector, matrix), (vector, vector)):
            assert form(*factors, HIDDEN) is None, (form, [x.shape for x in factors])


@pytest.mark.parametrize("function", [numbers_filled_in, sum_with_numbers, number_for_hidden_scores])
def test_hidden_scores_that_have_weights_are_not_left_out(found, function):
    compiled = tdt.compile(function, fullgraph=True)
    for size in (1, 1, 1e3, 3e8):  # at last, scores are smaller than what is filled in or added
        arrays = draw(0)
        arrays[0] = -size * np.abs(arrays[0])
        arrays[1] = np.abs(arrays[1])
        for a, b in zip(bits(compiled, arrays, HIDDEN), bits(function, arrays, HIDDEN), strict=True):
            np.testing.assert_array_equal(a, b)
    assert found[-2:] == [0, 0]


def test_sums_that_end_at_negative_zero_are_computed_whole():
    weights, values = np.tril(np.full((2, T, T), -1e-30, np.float32)), np.full((2, T, E), 1e-30, np.float32)
    assert causal_cpu.OF_WEIGHTS(weights, values, weights) is None
    assert causal_cpu.OF_WEIGHTS(weights, values * np.float32(1e30), weights) is not None


@pytest.mark.parametrize("size", [(2, 130, 128), (1, 300, 64), (1, 600, 64)])
def test_limited_products_have_the_bits_of_whole_ones(size):
    rng, before = np.random.default_rng(0), tdt.get_num_threads()
    a, b = (rng.standard_normal(size, np.float32) for _ in range(2))
    low, turned = np.tril(product(a, b.swapaxes(1, 2))), a.swapaxes(1, 2)
    cases = [(low, b, "to row"), (low.swapaxes(1, 2), b, "from row"), (turned, low, "from column")]
    whole = [product(left, right) for left, right, _ in cases]
    for threads in (1, 2):
        tdt.set_num_threads(threads)
        try:
            for (left, right, limit), expected in zip(cases, whole, strict=True):
                np.testing.assert_array_equal(limited(left, right, limit), expected, limit)
            np.testing.assert_array_equal(np.tril(limited(a, b.swapaxes(1, 2), "columns")), low)
        finally:
            tdt.set_num_threads(before)
