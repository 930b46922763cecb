"""The embedding's gradient kernel beside the portable form, of which it is a copy bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import KERNELS, _pool
from tdt._kernels.embedding_cpu import BLOCK, embedding_grad
from tdt._ops.nn.embedding import embedding_grad as op
from tests._kernels.watch import watch

HOW = {"rows": 11, "padding_idx": None, "by_frequency": False}


def problem(shape: tuple[int, ...], columns: int, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(columns)
    return rng.standard_normal((*shape, columns)).astype(dtype), rng.integers(0, HOW["rows"], shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("columns", [1, 2, 7, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_the_sums_are_the_portable_ones(columns, padding, dtype):
    how = {**HOW, "padding_idx": padding}
    for shape in ((1,), (13, 4), (500,)):
        y, indices = problem(shape, columns, dtype)
        y.flat[: min(5, y.size)] = [np.nan, np.inf, -np.inf, 1e-45, -0.0][: y.size]
        for which in (indices, indices.astype(np.int32), indices.T.copy().T):
            expected = op.forward(np, y, which, **how)
            for grad in (y, np.asfortranarray(y)):
                np.testing.assert_array_equal(embedding_grad(grad, which, **how), expected)


def test_bits_do_not_depend_on_the_number_of_threads():
    y, indices = problem((3000,), 5 * BLOCK + 7)
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        found.append(embedding_grad(y, indices, **HOW).tobytes())
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_the_kernel_is_chosen_by_dtype_alone():
    when = KERNELS["embedding_cpu:embedding_grad"].when
    y, indices = problem((1,), 1)
    assert when((y, indices), HOW)
    assert when((y.astype(np.float64), indices), HOW)
    assert not when((y[:0], indices[:0]), HOW), "nothing to add"
    assert not when((y.astype(np.float16), indices), HOW)
    assert not when((y, indices), {**HOW, "by_frequency": True})


@pytest.mark.parametrize("how", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}, {"sparse": True}], ids=str)
def test_a_layer_computes_the_portable_gradient(how, monkeypatch):
    called = watch(monkeypatch, "embedding_cpu:embedding_grad")
    rng, found = np.random.default_rng(0), []
    indices, weights = tdt.tensor(rng.integers(0, 50, (32, 20))), rng.standard_normal((50, 24)).astype(np.float32)
    for kernels in (True, False):
        with tdt.backends.kernels(kernels):
            layer = tdt.nn.Embedding(50, 24, **how)
            layer.weight.data.copy_(tdt.from_numpy(weights))
            (layer(indices) ** 3).sum().backward()
            grad = layer.weight.grad
            found.append((grad.to_dense() if how.get("sparse") else grad).numpy())
    np.testing.assert_array_equal(*found)
    assert called == ["embedding_cpu:embedding_grad"] * (not how.keys() & {"sparse", "scale_grad_by_freq"})


@pytest.mark.parametrize("bad", [-1, 100, 10**9, -(10**6)])
def test_indices_that_changed_since_the_lookup_are_refused(bad):
    indices = np.zeros(1000, np.int64)
    indices[3] = bad
    with pytest.raises(IndexError, match="out of range"):
        embedding_grad(np.ones((1000, 64), np.float32), indices, rows=100, padding_idx=None, by_frequency=False)
