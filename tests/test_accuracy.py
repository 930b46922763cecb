"""Float32 results and gradients are about as close to float64 as PyTorch's: a few cases of `scripts/compare_accuracy`."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import tdt
from tdt._backend import total
from tests.helpers import require_torch

WORST = [
    "var dim=0 of rows, mean 100",
    "std dim=0 of rows, mean 0",
    "sum dim=0 of rows, mean 1",
    "logsumexp dim=0 of rows, mean 0",
    "norm dim=0 of wide, mean 1",
    "mean dim=(0, 2, 3) of planes, mean 100",
    "linear of 100,000 rows, mean 1",
    "cumsum dim=0 of (100000, 8), mean 1",
]


@pytest.mark.parametrize("name", WORST)
def test_errors_are_at_most_three_times_those_of_pytorch(name):
    require_torch()
    from tests.parity.accuracy import compare

    found = list(compare(name, seed=0))
    assert found
    assert not [str(each) for each in found if each.far]


TYPES = {"float32": 1e-6, "float64": 1e-12, "complex64": 1e-6, "float16": 1e-3, ml_dtypes.bfloat16: 1e-2}  # tolerances


@pytest.mark.parametrize("shape", [(300, 7), (9000, 3), (200, 30, 6), (3, 400, 50), (140, 1, 300), (20, 13, 1, 150)])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_sum_over_any_axes_of_any_memory_order_is_that_of_float64(shape, dtype):
    x = (np.random.default_rng(0).standard_normal(shape) * 10).astype(dtype)
    for a in (x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, -1)[..., ::2], np.broadcast_to(x, (2, *shape))):
        exact = a.astype("complex128" if dtype == "complex64" else "float64")
        for count, keepdims in itertools.product(range(a.ndim + 1), (False, True)):
            for axes in itertools.combinations(range(a.ndim), count):
                got, expected = total(a, axes, None, keepdims), exact.sum(axes, keepdims=keepdims)
                assert got.dtype == a.dtype
                assert np.shape(got) == expected.shape
                error = abs(np.asarray(got, exact.dtype) - expected)
                assert (error <= TYPES[dtype] * abs(exact).sum(axes, keepdims=keepdims)).all()


def test_half_precision_is_summed_in_float32():
    ones = tdt.ones(5000, 3, dtype=tdt.float16)
    assert ones.sum(0).tolist() == [5000.0] * 3
    assert ones.bfloat16().cumsum(0)[-1].tolist() == [4992.0] * 3


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (0, 2, 3), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 32, 1, 1), (2, 1, 1, 31), (1, 1, 31, 31)], ids=str)
def test_sums_of_a_repeated_array_are_numpys(shape, axis):
    x = np.broadcast_to(np.random.default_rng(0).integers(0, 9, shape).astype(np.float32), (2, 32, 31, 31))
    np.testing.assert_array_equal(total(x, axis), x.sum(axis, np.float64))


def test_the_gradient_of_a_sum_of_a_large_convolution_reaches_its_bias():
    layer = tdt.nn.Conv2d(1, 3, 2)
    layer(tdt.ones(20, 1, 40, 41)).sum().backward()
    np.testing.assert_array_equal(layer.bias.grad.numpy(), np.full(3, 20 * 39 * 40, np.float32))


def test_means_beside_deviations_and_traces_are_rounded_once():
    x = np.random.default_rng(0).standard_normal((90, 90)).astype(np.float32)
    for call in (tdt.std_mean, tdt.var_mean):
        assert call(tdt.from_numpy(x))[1].item() == np.float32(x.mean(dtype=np.float64))
    assert tdt.trace(tdt.from_numpy(x)).item() == np.float32(x.trace(dtype=np.float64))
