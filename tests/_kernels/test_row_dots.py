"""Sums of products of few rows with many: those of float64, for any shape, with the same bits on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from tdt._kernels import _pool, _row_dots
from tdt._kernels._native import vector_width
from tdt._kernels._row_dots import CHAIN, FEW, TOGETHER, sums_of_few
from tests._kernels.guarded import at_the_end

# (samples, few rows, rows, places)
CASES = [(1, 1, 1, 1), (3, 1, 2, 5), (2, 2, 8, 16), (1, 3, 17, 33), (4, 4, 9, 130), (2, 2, 21, 2 * CHAIN * 16 + 37)]


def operands(case: tuple) -> tuple[np.ndarray, np.ndarray]:
    count, few, rows, places = case
    rng = np.random.default_rng(0)
    return rng.standard_normal((count, few, places), np.float32), rng.standard_normal((count, rows, places), np.float32)


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_are_those_of_float64_and_nothing_behind_the_arrays_is_read(case, width, monkeypatch):
    if width > vector_width():
        pytest.skip("a processor without vectors of sixteen")
    monkeypatch.setattr(_row_dots, "vector_width", lambda: width)
    y, x = operands(case)
    expected = np.einsum("nop,ncp->oc", y.astype(np.float64), x)
    error = np.abs(sums_of_few(at_the_end(y), at_the_end(x)) - expected).max()
    assert error <= 1e-6 * np.sqrt(y.size * x.shape[1])


def test_bits_do_not_depend_on_the_number_of_threads():
    y, x = operands((40, 3, 50, 1000))
    before, results = _pool.get_num_threads(), []
    for threads in (1, 3):
        _pool.set_num_threads(threads)
        results.append(sums_of_few(y, x))
    _pool.set_num_threads(before)
    np.testing.assert_array_equal(*results)


def test_sums_and_what_is_multiplied_fit_in_registers():
    for width, registers in ((8, 16), (16, 32)):
        assert [*TOGETHER[width]] == [*range(1, FEW + 1)]
        assert all(few * rows + few + 1 <= registers for few, rows in TOGETHER[width].items())
