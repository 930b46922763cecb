"""The sum of two large arrays beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _pool
from tdt._kernels.sum_cpu import BLOCK, add


def values(size: int) -> np.ndarray:
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45, 3e38], np.float32)
    x[: special.size] = special[:size]
    return x


@pytest.mark.parametrize("size", [1, 7, 16, 17, 97, BLOCK - 1, BLOCK, BLOCK + 1, 40 * BLOCK + 3])
def test_values_are_numpys(size):
    a, b = values(size), values(size)[::-1].copy()
    np.testing.assert_array_equal(add(a, b), a + b)


def test_bits_do_not_depend_on_the_number_of_threads():
    a, before, found = values(100_003), _pool.get_num_threads(), []
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        found.append(add(a, a[::-1].copy()).tobytes())
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.fixture
def calls(monkeypatch):
    """The shapes that the kernel was called for."""
    shapes = []
    spy = lambda a, b: shapes.append(a.shape) or add(a, b)  # noqa: E731
    monkeypatch.setattr(_kernels.KERNELS["sum_cpu:add"], "function", spy)
    return shapes


def test_large_sums_and_gradients_that_meet_take_it_and_keep_their_memory_order(calls):
    image = to_front(np.ascontiguousarray(to_last(values(1 << 18).reshape(4, 16, 64, 64))))
    x = tdt.from_numpy(image).requires_grad_()
    y = x * 1
    out = y * 2 + y * 3
    out.sum().backward()
    assert calls == [image.shape] * 2 * _kernels.enabled()
    assert out.stride() == x.stride()
    np.testing.assert_array_equal(out.detach().numpy(), image * 2 + image * 3)
    np.testing.assert_array_equal(x.grad.numpy(), np.full(image.shape, 5, np.float32))


def test_other_sums_are_numpys(calls):
    values = np.arange(1 << 19, dtype=np.float32).reshape(512, 1024)
    a = tdt.from_numpy(values)
    for x, y in (
        (a[:, ::2], a[:, 1::2]),
        (a, a[0]),
        (a, a.double()),
        (a, 2.0),
        (a.t(), a.reshape(1024, 512)),
        (a.int(), a.int()),
    ):
        np.testing.assert_array_equal(
            (x + y).numpy(), x.numpy() + (y.numpy() if isinstance(y, tdt.Tensor) else np.float32(y))
        )
    assert not calls
