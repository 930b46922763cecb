"""Cosines of rows by a kernel: against float64, for strides, small and special values; equal bits for all threads."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _pool
from tdt._kernels._threads import THREADS
from tests.helpers import require_torch

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")


def found(lib, x, y, g, dim=1, eps=1e-8):
    a, b = (lib.tensor(v, requires_grad=True) for v in (x, y))
    out = lib.cosine_similarity(a, b, dim=dim, eps=eps)
    out.backward(lib.tensor(g))
    return [v.detach().numpy() for v in (out, a.grad, b.grad)]


@pytest.mark.parametrize("n", [1, 7, 16, 17, 100, 1300])
@pytest.mark.parametrize("dim", [0, 1])
def test_results_and_gradients_are_as_near_to_float64_as_pytorchs(n, dim):
    torch = require_torch()
    rng = np.random.default_rng(n)
    shape = (n, 9) if dim == 0 else (9, n)
    x, y, g = 100 + rng.standard_normal(shape), rng.standard_normal(shape), rng.standard_normal(9)
    single = [v.astype(np.float32) for v in (x, y, g)]
    exact = found(torch, *[v.astype(np.float64) for v in single], dim)
    for ours, theirs, true in zip(found(tdt, *single, dim), found(torch, *single, dim), exact, strict=True):
        assert np.abs(ours - true).max() <= 3 * np.abs(theirs - true).max() + 1e-7 * np.abs(true).max()


def test_zeros_small_and_special_values_are_pytorchs():
    torch = require_torch()
    x = np.random.default_rng(0).standard_normal((8, 21)).astype(np.float32)
    y = x[::-1].copy()
    x[0], x[1, 3], x[2, 5], x[3] = 0, np.nan, np.inf, x[3] * 1e-9
    for eps in (1e-8, 0.5, 100.0):
        for ours, theirs in zip(
            *(found(lib, x, y, np.ones(8, np.float32), eps=eps) for lib in (tdt, torch)), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_bits_do_not_depend_on_strides_or_threads(monkeypatch):
    rng = np.random.default_rng(2)
    x, y, g = (rng.standard_normal(shape).astype(np.float32) for shape in ((900, 70), (900, 70), (900,)))
    before, bits = _pool.get_num_threads(), []
    for threads, elements in ((1, sys.maxsize), (1, 0), (3, 0)):
        _pool.set_num_threads(threads)
        monkeypatch.setattr(THREADS, "elementwise", elements)
        bits.append(b"".join([v.tobytes() for v in found(tdt, x, y, g)]))
        turned = found(tdt, x.T.copy(), y.T.copy(), g, 0)
        bits.append(turned[0].tobytes() + turned[1].T.tobytes() + turned[2].T.tobytes())
    _pool.set_num_threads(before)
    assert len(set(bits)) == 1
