"""Taking and placing by indices: against NumPy, errors included; equal bits for every number of threads."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import index_cpu

SHAPES = [((30, 40, 5), 1), ((1, 100, 70), 1), ((3000,), 0), ((7, 300), 1)]


def grid(shape: tuple[int, ...], index: np.ndarray, dim: int) -> tuple:
    return tuple(index if k == dim else np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
                 for k, n in enumerate(shape))  # fmt: skip


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_take_and_put_equal_numpy(shape: tuple[int, ...], dim: int):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype("f")
    index = rng.integers(0, shape[dim], shape)
    np.testing.assert_array_equal(index_cpu.take(x, index, dim, False), np.take_along_axis(x, index, dim))
    if len(shape) > 1:
        rows = rng.integers(0, shape[dim], 50)
        np.testing.assert_array_equal(index_cpu.take(x, rows - shape[dim], dim, True), np.take(x, rows, dim))
    source = rng.standard_normal(shape).astype("f")
    for how, ufunc in (("sum", np.add), ("amax", np.maximum)):
        got, expected = x.copy(), x.copy()
        assert index_cpu.put(got, index, source, dim, how, False)
        ufunc.at(expected, grid(shape, index, dim), source)
        np.testing.assert_array_equal(got, expected)


def test_an_index_out_of_range_is_refused():
    x = tdt.zeros(50, 60)
    index = tdt.zeros((50, 60), dtype=tdt.int64)
    index[49, 59] = 60
    with pytest.raises(RuntimeError, match="index 60 is out of bounds for dimension 1 with size 60"):
        x.gather(1, index)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.scatter_add(1, index, x)
    with pytest.raises(IndexError, match="out of range"):
        x.index_add(0, tdt.arange(50) + 1, x)
    with pytest.raises(IndexError, match="out of range"):
        x.index_select(0, tdt.arange(51))
    assert index_cpu.take(x.numpy(), index.numpy(), 1, False) is None


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_placed_values_have_equal_bits_for_every_number_of_threads():
    rng = np.random.default_rng(1)
    index, source = rng.integers(0, 9, 4000), rng.standard_normal((4000, 200)).astype("f")
    before, results = tdt.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 4):
            tdt.set_num_threads(threads)
            out = np.zeros((9, 200), "f")
            assert _kernels.placed(out, index, source, 0, "sum")
            results.append((out.tobytes(), _kernels.taken(source, index, 0).tobytes()))
    finally:
        tdt.set_num_threads(before)
    assert len(set(results)) == 1
