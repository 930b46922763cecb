"""Borders by a kernel: the bits of NumPy's assignments, for any mode, dimension and number of threads."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tdt import _kernels
from tdt._kernels import _pool, border_cpu
from tdt._kernels._registry import SWITCHES
from tdt._kernels._threads import THREADS
from tdt._ops.nn.pad import _INDEX, pad_border, pad_border_grad, pad_constant

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
SIZES = [  # shape, cells before and after each dimension
    ((2, 3, 9, 11), (0, 0, 2, 1), (0, 0, 1, 3)), ((3, 5, 4), (0, 2, 0), (0, 2, 0)), ((4, 7), (0, 3), (0, 2)), ((9,), (4,), (0,)),
    ((2, 40, 33), (0, 1, 0), (0, 0, 32)), ((300, 6, 5), (0, 1, 1), (0, 1, 1)), ((2, 3, 4, 5), (0, 1, 1, 1), (0, 2, 2, 1)),
]  # fmt: skip
CROPS = [
    ((2, 3, 9, 11), (0, 0, -2, 1), (0, 0, 1, -3)),
    ((5, 8), (-1, -2), (-1, -2)),
    ((4, 6, 5), (-1, 0, 2), (3, 0, -1)),
]


def both(op, monkeypatch, x, **how) -> list[np.ndarray]:
    """The result of an op's forward: on one thread, by blocks for the pool, and without kernels."""
    found = []
    for elements in (sys.maxsize, 0):
        monkeypatch.setattr(THREADS, "elementwise", elements)
        found.append(op.forward(np, x, **how))
    monkeypatch.setattr(SWITCHES, "kernels", False)
    found.append(op.forward(np, x, **how))
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("letter", "fdil")
@pytest.mark.parametrize(("shape", "before", "after"), SIZES + CROPS)
def test_constant_borders_and_crops_are_numpys(shape, before, after, letter, monkeypatch):
    x = (9 * np.random.default_rng(0).standard_normal(shape)).astype(letter)
    assert border_cpu.prepared(x, before, after, _INDEX["constant"], 7) is not None
    ours, pooled, plain = both(pad_constant, monkeypatch, x, before=before, after=after, value=7)
    sides = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    remaining = tuple(slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(shape, before, after, strict=True))
    expected = np.pad(x[remaining], sides, constant_values=7)
    for found in (ours, pooled, plain):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("letter", "fd")
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("shape", "before", "after"), SIZES)
def test_repeated_borders_and_their_gradients_have_the_bits_without_kernels(
    shape, before, after, mode, letter, monkeypatch
):
    if mode == "reflect" and any(max(b, a) >= n for n, b, a in zip(shape, before, after, strict=True)):
        before, after = (tuple(min(b, n - 1) for n, b in zip(shape, side, strict=True)) for side in (before, after))
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(letter)
    ours, pooled, plain = both(pad_border, monkeypatch, x, before=before, after=after, mode=mode)
    kind = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    for found in (ours, pooled, plain):
        np.testing.assert_array_equal(found, np.pad(x, list(zip(before, after, strict=True)), kind), strict=True)
    g = rng.standard_normal(ours.shape).astype(letter)
    ours, pooled, plain = both(pad_border_grad, monkeypatch, g, size=shape, before=before, after=after, mode=mode)
    np.testing.assert_array_equal(ours, plain, strict=True)
    np.testing.assert_array_equal(pooled, plain, strict=True)


def test_gradients_of_two_dimensions_are_computed_by_the_kernel():
    g = np.zeros((2, 9, 9), np.float32)
    assert border_cpu.prepared_gradient(g, (2, 6, 7), (0, 1, 1), (0, 2, 1), _INDEX["reflect"]) is not None
    assert border_cpu.prepared_gradient(g, (1, 6, 7), (1, 1, 1), (0, 2, 1), _INDEX["replicate"]) is None


def test_bits_do_not_depend_on_the_number_of_threads():
    x = np.random.default_rng(1).standard_normal((7, 61, 83)).astype(np.float32)
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        out = pad_border.forward(np, x, before=(0, 2, 3), after=(0, 1, 2), mode="reflect")
        grad = pad_border_grad.forward(np, out, size=x.shape, before=(0, 2, 3), after=(0, 1, 2), mode="reflect")
        found.append(out.tobytes() + grad.tobytes())
    _pool.set_num_threads(before)
    assert len(set(found)) == 1
