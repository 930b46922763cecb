"""Poisson, binomial and gamma numbers by generated code beside the portable loops and PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt.distributions import _samples
from tests.helpers import require_torch

# Trials that are few and many, no whole numbers, none, fewer than none; up to where float32 rounds their products.
TRIALS = [0.0, 1.0, 2.5, 3.0, 10.0, 100.5, 1e3, 1e6, 1e9, -1.0]
PROBABILITIES = [0.0, 1.0, 0.5, -0.1, 1.2, float("nan")]


def operands(dtype: str, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    special = rng.random(n) < 0.1
    return rng.choice(TRIALS, n).astype(dtype), np.where(special, rng.choice(PROBABILITIES, n), rng.random(n)).astype(
        dtype
    )


def drawn(lib, seed: int, *arrays: np.ndarray) -> tuple:
    lib.manual_seed(seed)
    trials, prob = map(lib.from_numpy, arrays)
    counts = lib.binomial(trials, prob)
    poisson = lib.poisson(trials.abs() * prob.nan_to_num().abs())
    return counts.numpy(), poisson.numpy(), lib.rand(3).tolist(), lib.randn(3).tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counts_are_pytorchs_and_leave_its_stream(dtype, seed):
    arrays = operands(dtype, seed, 3000)
    for ours, theirs in zip(drawn(tdt, seed, *arrays), drawn(require_torch(), seed, *arrays), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counts_by_kernels_are_those_of_the_portable_loops(dtype):
    arrays = operands(dtype, 5, 300)
    fast = drawn(tdt, 7, *arrays)
    with tdt.backends.kernels(False):
        for ours, theirs in zip(fast, drawn(tdt, 7, *arrays), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def gammas(lib, dtype: str, seed: int, n: int, before: int) -> tuple:
    shapes = (
        np.random.default_rng(seed).choice([0.0, 1e-3, 0.1, 0.9999999, 1.0, 2.5, 30.0, 1e4, np.inf], n).astype(dtype)
    )
    lib.manual_seed(seed)
    lib.randn(before)
    shapes = lib.from_numpy(shapes)
    numbers = lib._standard_gamma(shapes) if lib is not tdt else _samples.StandardGamma.apply(shapes)
    shares = lib.distributions.Dirichlet(shapes[:-1].clamp(0.01, 50).reshape(-1, 3)).sample()
    return numbers.numpy(), shares.numpy(), lib.randn(3).tolist(), lib.get_rng_state().numpy()


@pytest.mark.parametrize("before", [1, 2])
@pytest.mark.parametrize("n", [4, 31, 32, 3001])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_numbers_have_pytorchs_bits_and_leave_its_stream(dtype, n, before):
    n -= (n - 1) % 3
    for seed in range(3):
        found = [gammas(lib, dtype, seed, n, before) for lib in (tdt, require_torch())]
        with tdt.backends.kernels(False):
            found.append(gammas(tdt, dtype, seed, n, before))
        for ours, theirs, portable in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            np.testing.assert_array_equal(portable, theirs)


def test_gamma_numbers_of_strided_shapes_and_of_none():
    shapes = np.random.default_rng(0).uniform(0.1, 3, (40, 6))
    found = []
    for values in (shapes.T, shapes.T.copy()):
        tdt.manual_seed(1)
        found.append(tdt._random.gamma(tdt._random.generator_for(None, tdt.device("cpu")), values))
    np.testing.assert_array_equal(*found)
    assert _samples.StandardGamma.apply(tdt.zeros(0, 3)).shape == (0, 3)
    assert _samples.StandardGamma.apply(tdt.full((40,), float("nan"))).isnan().all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_of_rrelu_are_the_portable_loops_and_leave_the_same_state(dtype):
    x = np.random.default_rng(3).standard_normal((40, 60)).astype(dtype)
    x[0, :4] = np.nan, 0, -0.0, -np.inf
    for values in (x, x.T, x[:, ::7]):
        found = []
        for fast in (True, False):
            with tdt.backends.kernels(fast):
                tdt.manual_seed(4)
                found.append((tdt.rrelu(tdt.from_numpy(values), training=True).numpy(), tdt.get_rng_state().numpy()))
        for ours, portable in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, portable)


def test_a_count_of_nan_gives_nan_and_not_an_endless_loop():
    counts = tdt.full((40,), float("nan"))
    assert tdt.binomial(counts, tdt.full((40,), 0.3)).isnan().all()
    assert tdt.binomial(counts[:2], tdt.full((2,), 0.7)).isnan().all()
