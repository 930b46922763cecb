"""Functions of complex numbers by generated formulas, against NumPy's."""

from __future__ import annotations

import itertools

import numpy as np

import tdt

INF, NAN = float("inf"), float("nan")


def test_exponentials_are_as_accurate_as_float32_allows_and_one_value_whatever_the_layout():
    draw = np.random.default_rng(0)
    values = (draw.standard_normal(3000) * 20 + 1j * draw.standard_normal(3000) * 1000).astype(np.complex64)
    found = tdt.exp(tdt.from_numpy(values)).numpy()
    expected = np.exp(values.astype(np.complex128))
    assert (np.abs(found - expected) <= 2 * np.finfo(np.float32).eps * np.abs(expected)).all()
    turned = tdt.exp(tdt.from_numpy(values).view(30, 100).t().contiguous().t())
    assert turned.stride() == (1, 30) and turned.numpy().tobytes() == found.tobytes()
    for part in (slice(None, None, 3), slice(7, 8), slice(0, 0)):
        assert tdt.exp(tdt.from_numpy(values[part].copy())).numpy().tobytes() == found[part].tobytes()


def test_exponentials_of_large_and_infinite_numbers_are_those_of_the_c_standard():
    real = [0.0, -0.0, 87.5, 89.0, 100.0, 150.0, -100.0, -200.0, INF, -INF, NAN]
    imaginary = [0.0, -0.0, 1.0, -2.0, 1.5707964, 1e30, INF, -INF, NAN]
    values = np.array([complex(a, b) for a, b in itertools.product(real, imaginary)], np.complex64)
    found = tdt.exp(tdt.from_numpy(values)).numpy().view(np.float32)
    with np.errstate(all="ignore"):
        expected = np.exp(values).view(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-44)
    finite = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[finite].all()


def test_sums_of_many_are_those_of_the_parts_over_any_dimensions():
    draw = np.random.default_rng(1)
    values = (draw.standard_normal((70, 80)) + 5 + 1j * draw.standard_normal((70, 80))).astype(np.complex64)
    x = tdt.from_numpy(values)
    exact = 3e-7 if tdt.backends.kernels.enabled() else 3e-6  # NumPy adds up to 128 rows one by one
    for dim, keepdim in itertools.product((None, 0, -1, (0, 1)), (False, True)):
        how = {} if dim is None else {"dim": dim, "keepdim": keepdim}
        expected = np.sum(values.astype(np.complex128), axis=dim, keepdims=keepdim if how else False)
        for found in (x.sum(**how), x.t().contiguous().t().sum(**how)):
            assert found.dtype == tdt.complex64 and found.shape == expected.shape
            np.testing.assert_allclose(found.numpy(), expected, rtol=exact)


def test_quotients_have_numpys_bits_in_every_form():
    parts = [0.0, -0.0, 1.0, -2.5, 1e-40, 3e38, INF, -INF, NAN]
    few = [complex(a, b) for a, b in itertools.product(parts, parts)]
    for kind in (np.complex64, np.complex128):
        y = np.tile(np.array(few, kind), len(few))
        x = y.reshape(len(few), -1).T.copy().reshape(-1)
        with np.errstate(all="ignore"):
            pairs = [
                (tdt.from_numpy(x) / tdt.from_numpy(y), x / y),
                (tdt.from_numpy(x[:37]) / tdt.from_numpy(y[:37]), x[:37] / y[:37]),
                (tdt.reciprocal(tdt.from_numpy(y)), kind(1) / y),
                ((2 - 3j) / tdt.from_numpy(y), kind(2 - 3j) / y),
                (tdt.from_numpy(x.copy()).div_(1 - 2j), x / kind(1 - 2j)),
            ]
        for found, expected in pairs:
            numbers = found.numpy().view(kind(0).real.dtype), expected.view(kind(0).real.dtype)
            np.testing.assert_array_equal(*numbers)
            assert (np.signbit(numbers[0]) == np.signbit(numbers[1]))[~np.isnan(numbers[1])].all()


def test_means_products_and_running_sums_are_rounded_once():
    draw = np.random.default_rng(2)
    values = np.exp(1j * draw.uniform(0, 7, (70, 83))).astype(np.complex64)
    wide, x = values.astype(np.complex128), tdt.from_numpy(values)
    for dim in (0, 1):
        np.testing.assert_allclose(x.prod(dim).numpy(), wide.prod(dim), rtol=1e-6)
        np.testing.assert_allclose(x.mean(dim, True).numpy(), wide.mean(dim, keepdims=True), rtol=1e-5)
        for y in (x, x.t().contiguous().t()):
            np.testing.assert_array_equal(y.cumsum(dim).numpy(), wide.cumsum(dim).astype(np.complex64))
    np.testing.assert_allclose(x.prod().numpy(), wide.prod(), rtol=1e-6)
    assert x.prod(0, keepdim=True).shape == (1, 83) and x[:0].prod(0).tolist() == [1] * 83
