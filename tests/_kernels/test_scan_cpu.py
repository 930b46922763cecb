"""Running sums, products and extremes: NumPy's in double precision, bit for bit, for every number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import scan_cpu

SHAPES = [((30, 40, 5), 1), ((1, 50, 70), 1), ((3000,), 0), ((7, 300), 1), ((300, 9), 0)]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_running_sums_and_products_are_rounded_once(shape: tuple[int, ...], dim: int):
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    wide = x.astype("d")
    before = tdt.get_num_threads()
    try:
        for threads in (1, 3):
            tdt.set_num_threads(threads)
            np.testing.assert_array_equal(scan_cpu.scan("sum", x, dim, "f"), wide.cumsum(dim).astype("f"))
            backwards = np.flip(np.flip(wide, dim).cumsum(dim), dim).astype("f")
            np.testing.assert_array_equal(scan_cpu.scan("sum", x, dim, "f", True), backwards)
            np.testing.assert_array_equal(scan_cpu.scan("prod", x, dim, "f"), wide.cumprod(dim).astype("f"))
    finally:
        tdt.set_num_threads(before)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_running_extremes_keep_nan_and_the_last_of_equal_elements(shape: tuple[int, ...], dim: int):
    x = np.random.default_rng(1).integers(-9, 9, shape).astype("f")
    x[..., -1] = np.nan
    values, indices = scan_cpu.extremes("max", x, dim, "f")
    np.testing.assert_array_equal(values, np.maximum.accumulate(x, dim))
    moved, at = np.moveaxis(x, dim, 0), np.moveaxis(indices, dim, 0)
    best, place = moved[0].copy(), np.zeros(moved[0].shape, int)
    for k in range(1, len(moved)):
        replaces = (moved[k] >= best) | np.isnan(moved[k])
        best, place = np.where(replaces, moved[k], best), np.where(replaces, k, place)
        np.testing.assert_array_equal(at[k], place)


def test_the_gradient_of_logcumsumexp_does_not_overflow():
    x = tdt.tensor([1.0, 200.0, -300.0, 400.0] * 600, requires_grad=True)
    x.logcumsumexp(0).sum().backward()
    got = x.grad.numpy()
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.sum(), 2400, rtol=1e-4)
