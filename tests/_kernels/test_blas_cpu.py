"""Products by NumPy's BLAS on the pool: shapes around the blocks, every memory order, any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _pool
from tdt._kernels.blas_cpu import MOST, SHORTEST, product

SIZES = [
    (1, 1, 1), (1, 300, 7), (300, 1, 7), (SHORTEST, SHORTEST + 1, 3), (2 * SHORTEST, 129, 131), (32, 128, 1024),
    (128, 1024, 32), (257, 65, 190), (MOST * SHORTEST + 5, 33, 40),
]  # fmt: skip


@pytest.fixture(autouse=True)
def restored():
    before = _pool.get_num_threads()
    yield
    _pool.set_num_threads(before)


def matrices(rows: int, columns: int, depth: int, dtype: type, batch: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows * 7 + columns)
    return rng.normal(size=(*batch, rows, depth)).astype(dtype), rng.normal(size=(*batch, depth, columns)).astype(dtype)


def orders(x: np.ndarray) -> list[np.ndarray]:
    """x in row, column, strided, reversed and padded order."""
    repeated = np.repeat(x, 2, axis=-1)
    return [
        x, np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2), repeated[..., ::2], x[..., ::-1].copy()[..., ::-1],
        np.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
    ]  # fmt: skip


def close(found: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    bound = np.abs(a) @ np.abs(b) * np.finfo(a.dtype).eps * 4 * max(1, np.log2(a.shape[-1] + 1))
    assert np.all(np.abs(found - a.astype(np.longdouble) @ b.astype(np.longdouble)) <= bound)


@pytest.mark.parametrize(("size", "dtype"), [*((size, np.float64) for size in SIZES), (SIZES[5], np.float32)])
def test_equals_numpy_with_the_same_bits_for_every_number_of_threads(size, dtype):
    a, b = matrices(*size, dtype)
    found = []
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        found.append(product(a, b))
    close(found[0], a, b)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("batch", [(), (3,), (2, 5), (4, 1, 2)])
def test_every_memory_order_and_stacks_of_matrices(batch):
    a, b = matrices(70, 90, 50, np.float64, batch)
    for left in orders(a):
        for right in orders(b):
            found = product(left, right)
            assert found.shape == (*batch, 70, 90)
            close(found, a, b)


def test_broadcast_and_transposed_stacks():
    a, b = matrices(64, 80, 60, np.float64)
    left, right = np.broadcast_to(a, (3, 64, 60)), np.broadcast_to(b, (3, 60, 80))
    for found in product(left, right):
        close(found, a, b)
    close(product(b.T, a.T), np.ascontiguousarray(b.T), np.ascontiguousarray(a.T))


@pytest.mark.parametrize("size", SIZES)
def test_a_bias_is_added_to_every_row(size):
    dtype = np.float64
    a, b = matrices(*size, dtype)
    bias = np.random.default_rng(3).normal(size=2 * size[1]).astype(dtype)
    for each in (bias[: size[1]], bias[::2]):
        np.testing.assert_array_equal(product(a, b, each), product(a, b) + each)


def test_non_finite_values_spread_as_in_numpy():
    a, b = matrices(130, 140, 120, np.float64)
    a[3, 5], a[70, 0], b[0, 77] = np.nan, np.inf, -np.inf
    found, expected = product(a, b), a @ b
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


def test_matmul_uses_it_for_large_products_alone_where_there_are_no_vectors_of_eight(monkeypatch):
    monkeypatch.setattr("tdt._kernels._arrays.vectors_of_eight", lambda: False)
    monkeypatch.setattr("tdt._kernels._arrays._small_products", {})  # what is loaded
    calls = []
    spy = lambda *args: calls.append((args[0].shape, args[1].shape)) or product(*args)  # noqa: E731
    monkeypatch.setattr(_kernels.KERNELS["blas_cpu:product"], "function", spy)
    if not _kernels.enabled():
        pytest.skip("kernels are off")
    x = tdt.randn(128, 256, dtype=tdt.float64)
    x @ x.T
    assert calls == [((128, 256), (256, 128))]
    calls.clear()
    x[:16] @ x[:16].T
    assert calls == []
