"""Softmax over dimensions that are not the last: the values of rows."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tdt._kernels import _pool, column_softmax_cpu, softmax_cpu
from tdt._kernels._threads import THREADS

SHAPES = [(2, 3, 5), (3, 16, 17), (2, 19, 70), (1, 65, 3), (2, 130, 2), (1, 1, 9), (1, 1025, 7), (1, 2100, 70)]
NAMES = ["softmax", "log_softmax"]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(np.float32)


def turned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.swapaxes(1, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_column_has_the_bits_of_a_row(name, shape):
    x, g = numbers(shape), numbers(shape, 1)
    x[0, -1, 0] = -np.inf
    out = getattr(column_softmax_cpu, name)(x, dim=1)
    np.testing.assert_array_equal(turned(out), getattr(softmax_cpu, name)(turned(x), dim=2))
    grad = getattr(column_softmax_cpu, f"{name}_vjp")(g, out, dim=1)
    np.testing.assert_array_equal(turned(grad), getattr(softmax_cpu, f"{name}_vjp")(turned(g), turned(out), dim=2))


def test_any_dimension_and_memory_order():
    x = numbers((4, 5, 6, 7))
    for dim in range(3):
        expected = np.moveaxis(softmax_cpu.softmax(np.moveaxis(x, dim, 3), dim=3), 3, dim)
        for array in (x, np.asfortranarray(x)):
            np.testing.assert_array_equal(column_softmax_cpu.softmax(array, dim=dim), expected)
    ones = numbers((4, 5, 1, 1))
    np.testing.assert_array_equal(
        column_softmax_cpu.softmax(ones, dim=1)[..., 0, 0], softmax_cpu.softmax(ones[..., 0, 0], dim=1)
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_thread_and_several_have_the_same_bits(name, monkeypatch):
    for shape in SHAPES:
        x, g, found = numbers(shape), numbers(shape, 1), []
        for elements in (0, sys.maxsize):  # from which an array is left to the pool
            monkeypatch.setattr(THREADS, "elementwise", elements)
            out = getattr(column_softmax_cpu, name)(x, dim=1)
            found.append(out.tobytes() + getattr(column_softmax_cpu, f"{name}_vjp")(g, out, dim=1).tobytes())
        np.testing.assert_array_equal(column_softmax_cpu.at_once(name)(x), getattr(column_softmax_cpu, name)(x, dim=1))
        assert found[0] == found[1]


def test_special_values():
    x = numbers((2, 11, 21))
    x[0, 3, :8] = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -0.0]
    x[1, :, 20] = -np.inf
    for name in NAMES:
        out = getattr(column_softmax_cpu, name)(x, dim=1)
        np.testing.assert_array_equal(turned(out), getattr(softmax_cpu, name)(turned(x), dim=2))
    assert np.isnan(out[0, :, [0, 1, 2]]).all() and np.isnan(out[1, :, 20]).all()


def test_bits_do_not_depend_on_the_number_of_threads():
    x, g = numbers((3, 21, 5003)), numbers((3, 21, 5003), 1)
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        out = column_softmax_cpu.log_softmax(x, dim=1)
        found.append(out.tobytes() + column_softmax_cpu.log_softmax_vjp(g, out, dim=1).tobytes())
    _pool.set_num_threads(before)
    assert len(set(found)) == 1
