"""Our own products: one value for an element, whatever the layout, the size, the path and the number of threads."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _pool, product_cpu
from tdt._kernels._tile import choose
from tdt._kernels.product_cpu import COLUMNS, DEPTH, ROWS, product
from tests.helpers import require_torch

# Around the blocks, tiles and paths: few rows, few columns, a shallow and a deep sum, transposed products.
SIZES = [
    (1, 1, 1), (1, 300, 7), (300, 1, 7), (2, 100, DEPTH), (3, 100, DEPTH + 1), (5, 33, 2 * DEPTH + 9), (13, 70, 40),
    (7, 260, 300), (64, 130, 100), (ROWS + 7, 24, DEPTH + 3), (50, COLUMNS + 17, 20), (130, 129, 131),
]  # fmt: skip


@pytest.fixture(autouse=True)
def restored():
    before = _pool.get_num_threads()
    yield
    _pool.set_num_threads(before)


def matrices(rows: int, columns: int, depth: int, batch: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows * 7 + columns)
    return (
        rng.normal(size=(*batch, rows, depth)).astype(np.float32),
        rng.normal(size=(*batch, depth, columns)).astype(np.float32),
    )


def orders(x: np.ndarray) -> list[np.ndarray]:
    """x in row, column, strided, reversed and padded order."""
    repeated = np.repeat(x, 2, axis=-1)
    return [
        x, np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2), repeated[..., ::2], x[..., ::-1].copy()[..., ::-1],
        np.concatenate([x, x], axis=-1)[..., : x.shape[-1]], x[..., ::-1, :].copy()[..., ::-1, :],
    ]  # fmt: skip


def close(found: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Within what blocks of DEPTH products, rounded once each, can be off."""
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) * 2.0**-24 * (DEPTH / 8 + 8)
    assert np.all(np.abs(found - a.astype(np.float64) @ b.astype(np.float64)) <= bound)


@pytest.mark.parametrize("size", SIZES)
def test_every_memory_order_and_number_of_threads_has_the_same_bits(size, monkeypatch):
    monkeypatch.setattr(product_cpu, "GRAIN", 1 << 10)
    a, b = matrices(*size)
    expected = product(a, b)
    close(expected, a, b)
    for left in orders(a):
        for threads, right in zip((1, 2, 3, 4, 1, 2), orders(b), strict=True):
            _pool.set_num_threads(threads)
            np.testing.assert_array_equal(product(left, right), expected)
    product_cpu._plan.cache_clear()


@pytest.mark.parametrize("size", [(2, 200, 70), (60, 100, DEPTH + 9), (30, 250, 80)])
def test_vectors_of_sixteen_have_the_bits_of_vectors_of_eight(size, monkeypatch):
    a, b = matrices(*size)
    operands = list(zip(orders(a)[:2], orders(b)[:2], strict=True))
    found = []
    for width in (8, 16):
        monkeypatch.setattr(product_cpu, "choose", functools.partial(choose, width=width))
        product_cpu._plan.cache_clear()
        found.append([product(*each) for each in operands])
    product_cpu._plan.cache_clear()
    np.testing.assert_array_equal(*found)


def test_an_element_is_the_same_alone_in_a_row_a_column_a_larger_matrix_and_a_stack():
    a, b = matrices(40, 70, DEPTH + 60)
    whole = product(a, b)
    for rows, columns in ((1, 1), (1, 70), (3, 20), (9, 70), (40, 5), (17, 33)):
        np.testing.assert_array_equal(product(a[:rows], b[:, :columns]), whole[:rows, :columns])
        right = np.ascontiguousarray(b.T).T[:, :columns]
        np.testing.assert_array_equal(product(a[:rows], right), whole[:rows, :columns])
    stacked = product(np.stack([a[:9], a[9:18]]), np.stack([b, b]))
    np.testing.assert_array_equal(stacked.reshape(18, -1), whole[:18])


@pytest.mark.parametrize("batch", [(3,), (2, 5), (4, 1, 2), (2, 3, 2)])
def test_stacks_in_every_order_and_of_transposed_leading_sizes(batch):
    a, b = matrices(20, 30, 25, batch)
    expected = product(a, b)
    close(expected, a, b)
    for left, right in zip(orders(a), orders(b), strict=True):
        np.testing.assert_array_equal(product(left, right), expected)
    turned = np.ascontiguousarray(np.moveaxis(a, 0, -2)), np.ascontiguousarray(np.moveaxis(b, 0, -2))
    np.testing.assert_array_equal(product(*(np.moveaxis(x, -2, 0) for x in turned)), expected)


def test_broadcast_stacks_and_rows():
    a, b = matrices(24, 30, 20)
    for found in product(np.broadcast_to(a, (3, 24, 20)), np.broadcast_to(b, (3, 20, 30))):
        np.testing.assert_array_equal(found, product(a, b))
    rows = np.broadcast_to(a[:1], a.shape)
    np.testing.assert_array_equal(product(rows, b), np.broadcast_to(product(a, b)[:1], (24, 30)))


@pytest.mark.parametrize("size", SIZES)
def test_a_bias_is_added_to_every_row(size):
    a, b = matrices(*size)
    bias = np.random.default_rng(3).normal(size=2 * size[1]).astype(np.float32)
    for each in (bias[: size[1]], bias[::2]):
        for right in (b, np.ascontiguousarray(b.T).T):
            np.testing.assert_array_equal(product(a, right, each), product(a, b) + each)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty_matrices_and_sums(rows, columns, depth):
    a, b = matrices(rows, columns, depth, (2,))
    np.testing.assert_array_equal(product(a, b), np.zeros((2, rows, columns), np.float32))
    bias = np.arange(columns, dtype=np.float32)
    np.testing.assert_array_equal(product(a, b, bias), np.zeros((2, rows, columns), np.float32) + bias)


def test_non_finite_values_reach_their_own_rows_and_columns_alone():
    for rows, columns, depth in ((3, 40, 20), (40, 45, 30), (20, 300, 60)):
        a, b = matrices(rows, columns, depth)
        a[1, 5], a[2, 0], b[0, columns - 1] = np.nan, np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            expected = a.astype(np.float64) @ b.astype(np.float64)
        for right in (b, np.ascontiguousarray(b.T).T):
            found = product(a, right)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


def test_errors_are_at_most_three_times_pytorchs():
    torch = require_torch()
    rng = np.random.default_rng(11)
    for rows, columns, depth, mean in ((40, 50, 3000, 0), (60, 40, 1000, 5), (3, 200, 4000, 0), (100, 30, 500, -1)):
        a, b = (rng.normal(mean, 1, shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
        exact = a.astype(np.float64) @ b.astype(np.float64)
        ours, theirs = (
            np.abs(c - exact).max() for c in (product(a, b), torch.from_numpy(a).mm(torch.from_numpy(b)).numpy())
        )
        assert ours <= 3 * theirs


def test_linear_and_matmul_use_it_for_large_products_alone(monkeypatch):
    calls = []
    spy = lambda *args: calls.append((args[0].shape, args[1].shape)) or product(*args)  # noqa: E731
    if not _kernels.enabled() or not _kernels.PRODUCT[0].when((np.ones((128, 128), np.float32),) * 2, {}):
        pytest.skip("kernels are off, or the processor has no vectors of eight")
    monkeypatch.setattr(_kernels.KERNELS["product_cpu:product"], "function", spy)
    x, w = tdt.randn(128, 256, requires_grad=True), tdt.randn(128, 256, requires_grad=True)
    y = tdt.nn.functional.linear(x, w)
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy() @ w.detach().numpy().T, rtol=1e-4, atol=1e-4)
    y.backward(tdt.ones_like(y))
    assert calls == [((128, 256), (256, 128)), ((128, 128), (128, 256)), ((128, 128), (128, 256))]
    calls.clear()
    tdt.randn(16, 16) @ tdt.randn(16, 16)
    assert calls == []
    tdt.randn(8, 64, 128) @ tdt.randn(8, 128, 64)
    assert calls == [((8, 64, 128), (8, 128, 64))]
