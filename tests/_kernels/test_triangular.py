"""Triangular systems and Cholesky decompositions of small matrices by machine code."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from tdt import _kernels
from tdt._kernels import small_cholesky, small_triangular

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rows", [1, 2, 7, 16])
def test_triangular_systems_are_those_of_scipy(dtype, rows):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, rows, rows)) + rows * np.eye(rows), rng.normal(size=(3, rows, 11))
    a, b = a.astype(dtype), b.astype(dtype)
    for upper in (False, True):
        for unit in (False, True):
            found = small_triangular(a / (rows if unit else 1), b, upper, unit)
            for at in range(3):
                matrix = a[at] / (rows if unit else 1)
                expected = scipy.linalg.solve_triangular(
                    matrix.astype("f8"), b[at], lower=not upper, unit_diagonal=unit
                )
                np.testing.assert_allclose(
                    found[at], expected, rtol=0, atol=30 * np.finfo(dtype).eps * abs(expected).max()
                )
                assert found[at].flags.f_contiguous
                turned = np.asfortranarray(matrix)
                for each in (b[at][:, :3], np.ascontiguousarray(b[at][:, :3])):
                    np.testing.assert_array_equal(small_triangular(turned, each, upper, unit), found[at][:, :3])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rows", [1, 2, 7, 16])
def test_cholesky_factors_are_those_of_numpy(dtype, rows):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(3, rows, rows))
    x = (half @ half.swapaxes(1, 2) + np.eye(rows)).astype(dtype)
    expected = np.linalg.cholesky(x.astype("f8"))
    found = small_cholesky(x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * np.finfo(dtype).eps * abs(expected).max())
    np.testing.assert_array_equal(small_cholesky(np.tril(x)[1].T.copy().T), found[1])
    x[1, -1, -1] = -1
    assert np.isnan(small_cholesky(x)[:, 0, 0]).tolist() == [False, True, False]
    x[0, 0, 0] = np.nan
    assert np.isnan(small_cholesky(x)[:, 0, 0]).tolist() == [True, True, False]


def test_batches_are_in_order_whatever_that_of_the_operands():
    x = np.ones((3, 2, 1, 1)).swapaxes(0, 1) * np.eye(2)
    assert not x.flags.c_contiguous and small_cholesky(x).flags.c_contiguous
    assert small_triangular(x, x, True, False).swapaxes(-1, -2).flags.c_contiguous


def test_other_matrices_are_left_to_blas_and_lapack():
    large, complex_numbers = np.eye(17), np.eye(2, dtype="D")
    assert (
        small_triangular(large, large, True, False)
        is small_triangular(complex_numbers, complex_numbers, True, False)
        is None
    )
    assert small_cholesky(large) is small_cholesky(complex_numbers) is None
