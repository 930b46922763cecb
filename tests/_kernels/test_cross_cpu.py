"""Cross products by a kernel: the bits of the portable form for every shape, layout and number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tests.helpers import require_torch

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")

SHAPES = [
    ((3,), 0),
    ((5, 3), 1),
    ((3, 4), 0),
    ((3, 8), 0),
    ((2, 3, 17), 1),
    ((1001, 3), 1),
    ((3, 25_001), 0),
    ((9000, 3, 3), 1),
]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64], ids=str)
def test_products_have_the_bits_of_the_portable_form_for_every_number_of_threads(shape, dim, dtype):
    x, y = tdt.randn(shape, dtype=dtype), tdt.randn(shape, dtype=dtype)
    layouts = [(x, y), (x.mT.contiguous().mT if x.ndim > 1 else x, y), (x, y[:1].expand(shape) if dim else y)]
    before = tdt.get_num_threads()
    try:
        for a, b in layouts:
            with tdt.backends.kernels(False):
                expected = tdt.linalg.cross(a, b, dim=dim)
            for threads in (1, 2, 3):
                tdt.set_num_threads(threads)
                found = tdt.linalg.cross(a, b, dim=dim)
                assert found.is_contiguous()
                np.testing.assert_array_equal(found.numpy(), expected.numpy())
    finally:
        tdt.set_num_threads(before)


@pytest.mark.parametrize(("shape", "dim"), SHAPES[:6])
def test_gradients_are_pytorchs(shape, dim):
    torch = require_torch()
    rng = np.random.default_rng(0)
    x, y, g = rng.standard_normal((3, *shape)).astype(np.float32)
    found = []
    for t in (torch, tdt):
        a, b = (t.tensor(v, requires_grad=True) for v in (x, y[:1] if dim else y))
        t.linalg.cross(a, b, dim=dim).backward(t.tensor(g))
        found.append([a.grad.numpy(), b.grad.numpy()])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
