"""GELU kernels beside their reference, computed in float64 by SciPy."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from tdt._kernels import KERNELS, _pool
from tdt._kernels.gelu_cpu import BLOCK, gelu, gelu_vjp

special = pytest.importorskip("scipy.special")

SIZES = [0, 1, 2, 7, 15, 16, 17, 31, 127, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 13, 65537]
SPECIAL_VALUES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-45, 3e38, -3e38, -20.0, 20.0], np.float32
)


def reference(x: np.ndarray, approximate: str) -> tuple[np.ndarray, np.ndarray]:
    """GELU and its derivative, in float64."""
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if approximate == "none":
            share = special.ndtr(x)
            return x * share, share + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        root = math.sqrt(2 / math.pi)
        t = np.tanh(root * (x + 0.044715 * x**3))
        return 0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_at_sizes_off_every_vector_width(size, approximate):
    x = np.random.default_rng(size).normal(0, 3, size).astype(np.float32)
    g = np.random.default_rng(size + 1).normal(0, 1, size).astype(np.float32)
    value, slope = reference(x, approximate)
    np.testing.assert_allclose(gelu(x, approximate=approximate), value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gelu_vjp(g, x, approximate=approximate), g * slope, rtol=1e-5, atol=4e-6)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_zeros_infinities_nan_and_subnormals_are_as_in_the_reference(approximate):
    for place in (0, 1, 17):  # in a vector's body and in its tail
        x = np.concatenate([np.full(place, 0.5, np.float32), SPECIAL_VALUES])
        value, slope = reference(x, approximate)
        out, grad = gelu(x, approximate=approximate), gelu_vjp(np.ones_like(x), x, approximate=approximate)
        np.testing.assert_allclose(out, value.astype(np.float32), rtol=2e-6, atol=1e-38)
        np.testing.assert_array_equal(np.signbit(out[place : place + 2]), [False, True])
        finite = np.isfinite(slope)
        np.testing.assert_allclose(grad[finite & (abs(x) < 100)], slope[finite & (abs(x) < 100)], rtol=1e-5, atol=1e-6)
        assert np.isnan(grad[place + 4])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_tail_keeps_its_relative_accuracy(approximate):
    x = np.linspace(-5, 5, 100_001, dtype=np.float32)
    value, _ = reference(x, approximate)
    assert np.nanmax(abs(gelu(x, approximate=approximate) - value)[x != 0] / abs(value[x != 0])) < 4e-6


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_bits_do_not_depend_on_the_number_of_threads(approximate):
    x = np.random.default_rng(0).normal(0, 2, 100_003).astype(np.float32)
    before, results = _pool.get_num_threads(), []
    for threads in (1, 2, 3, 5):
        _pool.set_num_threads(threads)
        results.append(gelu(x, approximate=approximate).tobytes())
    _pool.set_num_threads(before)
    assert len(set(results)) == 1


def test_the_kernel_is_chosen_by_size_dtype_and_strides_alone():
    when = KERNELS["gelu_cpu:gelu"].when
    large = np.zeros(1 << 16, np.float32)
    assert when((large,), {"approximate": "none"}) is (os.environ.get("TDT_KERNELS") != "reference")
    assert not when((large[:100],), {})
    assert not when((large.astype(np.float64),), {})
    assert not when((np.zeros((1 << 16, 2), np.float32)[:, 0],), {})
