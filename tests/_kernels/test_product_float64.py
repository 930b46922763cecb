"""Our own products of float64: one value for an element, whatever the size, the layout and the number of threads."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _pool, product_cpu
from tdt._kernels._conditions import vectors_of_eight
from tdt._kernels._tile import choose_with_edge
from tdt._kernels.product_cpu import DEPTH, product
from tests._kernels.guarded import at_the_end
from tests._kernels.test_product_cpu import SIZES, direct, orders
from tests.helpers import require_torch

in_tiles = pytest.mark.skipif(not _kernels.enabled() or not vectors_of_eight(), reason="NumPy multiplies")


@pytest.fixture(autouse=True)
def restored():
    before = _pool.get_num_threads()
    yield
    _pool.set_num_threads(before)
    product_cpu._plan.cache_clear()


def matrices(rows: int, columns: int, depth: int, batch: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows * 7 + columns)
    return rng.normal(size=(*batch, rows, depth)), rng.normal(size=(*batch, depth, columns))


def close(found: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Within what blocks of DEPTH products, rounded once each, can be off."""
    assert found.dtype == np.float64
    bound = np.abs(a) @ np.abs(b) * 2.0**-53 * (DEPTH / 8 + 8)
    assert np.all(np.abs(found - a.astype(np.longdouble) @ b.astype(np.longdouble)) <= bound)


@pytest.mark.parametrize("size", SIZES)
def test_every_memory_order_number_of_threads_and_form_has_the_same_bits(size, monkeypatch):
    monkeypatch.setattr(product_cpu, "GRAIN", 1 << 10)
    a, b = matrices(*size)
    bias = np.random.default_rng(3).normal(size=2 * size[1])[::2]
    expected = product(a, b)
    close(expected, a, b)
    small, biased = direct(item=8)
    for form in ("direct", "packed"):
        if form == "packed":
            monkeypatch.setattr(product_cpu, "is_direct", lambda *sizes: False)
        for left in orders(a):
            for threads, right in zip((1, 2, 3, 4, 1, 2), orders(b), strict=True):
                _pool.set_num_threads(threads)
                np.testing.assert_array_equal(product(left, right), expected)
                np.testing.assert_array_equal(product(left, right, bias), expected + bias)
                np.testing.assert_array_equal(small(left, right), expected)
        product_cpu._plan.cache_clear()
    np.testing.assert_array_equal(biased(a, b, bias), expected + bias)


@pytest.mark.parametrize(
    "size", [(1, 1100, 520), (2, 2100, DEPTH + 1), (4, 600, 40), (3, 13, 300), (5, 22, 2 * DEPTH + 9), (12, 40, 70)]
)
def test_few_rows_have_the_same_bits_in_vectors_of_four_and_eight(size, monkeypatch):
    a, b = matrices(*size)
    expected = product(a, b)
    for width, right in itertools.product((8, 16), (b, np.ascontiguousarray(b.T).T)):
        np.testing.assert_array_equal(direct(width, 8)[0](at_the_end(a), right), expected)
    np.testing.assert_array_equal(direct(item=8)[0](a, at_the_end(b.T.copy()).T), expected)


@pytest.mark.parametrize("size", [(40, 70, DEPTH + 9), (60, 100, 20), (30, 250, 80), (8, 300, 2 * DEPTH)])
def test_vectors_of_four_and_eight_and_a_part_of_a_matrix_have_the_same_bits(size, monkeypatch):
    a, b = matrices(*size)
    operands = list(itertools.product(orders(a)[:2], orders(b)[:2]))
    found = []
    for width in (4, 8):
        monkeypatch.setattr(product_cpu, "choose_with_edge", functools.partial(choose_with_edge, width=width))
        product_cpu._plan.cache_clear()
        found.append([product(*each) for each in operands])
        np.testing.assert_array_equal(product(a[3:8], b[:, 1:7]), found[0][0][3:8, 1:7])
    for each in itertools.chain(*found):
        np.testing.assert_array_equal(each, found[0][0])


def test_stacks_in_every_order_broadcast_stacks_and_vectors():
    a, b = matrices(20, 30, 25, (2, 3))
    expected = product(a, b)
    close(expected, a, b)
    for left, right in zip(orders(a), orders(b), strict=True):
        np.testing.assert_array_equal(product(left, right), expected)
    for found in (product(a[0], b[:1]), product(np.broadcast_to(a[0], (2, 3, 20, 25)), b)):
        np.testing.assert_array_equal(found[0], product(a[0], b[0]))
    np.testing.assert_array_equal(product(a, b[1, 1])[1, 1], expected[1, 1])
    np.testing.assert_array_equal(product(a[0, 0, 4], b[0, 0]), expected[0, 0, 4])
    np.testing.assert_array_equal(product(a[0, 0], b[0, 0, :, 7]), expected[0, 0, :, 7])


@pytest.mark.parametrize(("rows", "columns", "depth"), [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty_matrices_and_sums(rows, columns, depth):
    a, b = matrices(rows, columns, depth, (2,))
    bias = np.arange(columns, dtype=np.float64)
    for found, expected in ((product(a, b), 0), (product(a, b, bias), bias)):
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, np.zeros((2, rows, columns)) + expected)


def test_nothing_is_read_behind_the_operands():
    for rows, columns, depth in ((70, 130, 40), (7, 49, DEPTH + 3), (33, 5, 21)):
        a, b = matrices(rows, columns, depth)
        expected = product(a, b)
        np.testing.assert_array_equal(product(at_the_end(a), at_the_end(b)), expected)
        np.testing.assert_array_equal(product(at_the_end(a.T.copy()).T, at_the_end(b.T.copy()).T), expected)


def test_non_finite_values_reach_their_own_rows_and_columns_alone():
    a, b = matrices(130, 140, 120)
    a[3, 5], a[70, 0], b[0, 77] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    for right in (b, np.ascontiguousarray(b.T).T):
        found = product(a, right)
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


def test_errors_are_at_most_three_times_pytorchs():
    torch = require_torch()
    rng = np.random.default_rng(11)
    for rows, columns, depth, mean in ((40, 50, 3000, 0), (60, 40, 1000, 5), (3, 200, 4000, 0), (100, 30, 500, -1)):
        a, b = (rng.normal(mean, 1, shape) for shape in ((rows, depth), (depth, columns)))
        exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
        theirs = torch.from_numpy(a).mm(torch.from_numpy(b)).numpy()
        assert np.abs(product(a, b) - exact).max() <= 3 * np.abs(theirs - exact).max()


@in_tiles
def test_a_part_of_a_matrix_and_a_vector_have_the_same_bits_through_every_call():
    a, b = (tdt.from_numpy(x) for x in matrices(130, 140, 120))
    whole = a @ b
    with tdt.no_grad():
        for rows, columns in ((1, 140), (3, 7), (130, 1), (40, 50)):
            for x in (a, a.clone().requires_grad_()):
                assert tdt.equal(x[:rows] @ b[:, :columns], whole[:rows, :columns])
                assert tdt.equal(tdt.nn.functional.linear(x[:rows], b.T[:columns]), whole[:rows, :columns])
        assert tdt.equal(a @ b[:, 3], whole[:, 3]) and tdt.equal(a[5] @ b, whole[5])
        assert tdt.equal(tdt.bmm(a[None, :9], b[None])[0], whole[:9])


@in_tiles
def test_linear_layers_and_their_gradients_have_the_same_bits_on_any_number_of_threads():
    tdt.manual_seed(0)
    x, w, b, g = (tdt.randn(*size, dtype=tdt.float64) for size in ((4, 75, 200), (150, 200), (150,), (4, 75, 150)))
    found = []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        inputs = [t.clone().requires_grad_() for t in (x, w, b)]
        y = tdt.nn.functional.linear(*inputs)
        y.backward(g)
        with tdt.no_grad():
            found.append([tdt.nn.functional.linear(*inputs), y.detach(), *(t.grad for t in inputs)])
    for others in zip(*found, strict=True):
        assert all(tdt.equal(others[0], other) for other in others)
    assert tdt.equal(found[0][0], found[0][1])
    rows, out = x.numpy().reshape(300, 200), g.numpy().reshape(300, 150)
    close(found[0][2].numpy().reshape(300, 200), out, w.numpy())
    close(found[0][3].numpy(), out.T, rows)
