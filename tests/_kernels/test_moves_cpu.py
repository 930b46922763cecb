"""Copies in another order and triangles: NumPy's, for any strides and types."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels.moves_cpu import copy_into, triangle


@pytest.mark.parametrize("letter", "fdBh")
def test_copies_of_any_strides_equal_numpys(letter: str):
    rng = np.random.default_rng(0)
    copied = 0
    for _ in range(100):
        shape = tuple(int(n) for n in rng.integers(1, 20, rng.integers(1, 5)))
        base = rng.integers(0, 100, [2 * n for n in shape]).astype(letter)
        cut = base[tuple(slice(None, None, -1) if rng.random() < 0.4 else slice(1, None) for _ in shape)]
        source = cut[tuple(slice(0, n) for n in shape)]
        if rng.random() < 0.3:
            source = np.broadcast_to(source[..., :1], shape)
        target = np.zeros(shape, letter)
        if copy_into(target, source):
            copied += 1
            np.testing.assert_array_equal(target, source)
        matrices = np.ascontiguousarray(np.broadcast_to(source, (2, 3, *shape)).reshape(2, 3, -1))
        edge = int(rng.integers(-5, 9))
        lower = np.tri(3, matrices.shape[-1], edge, bool)
        np.testing.assert_array_equal(triangle(matrices, edge, True), np.where(lower, matrices, 0))
        np.testing.assert_array_equal(triangle(matrices, edge, False), np.where(lower, 0, matrices))
    assert copied > 80


def test_large_copies_equal_numpys_for_every_number_of_threads():
    x = np.arange(420_000, dtype="f").reshape(600, 700)
    before = tdt.get_num_threads()
    try:
        for threads in (1, 2, 3):
            tdt.set_num_threads(threads)
            t = tdt.from_numpy(x)
            np.testing.assert_array_equal(t.flip(1).numpy(), x[:, ::-1])
            np.testing.assert_array_equal(t.flip(0, 1).numpy(), x[::-1, ::-1])
            np.testing.assert_array_equal(t.roll((2, 3), (0, 1)).numpy(), np.roll(x, (2, 3), (0, 1)))
            np.testing.assert_array_equal(tdt.cat([t, t[:9]]).numpy(), np.concatenate([x, x[:9]]))
            np.testing.assert_array_equal(tdt.cat([t, t], 1).numpy(), np.concatenate([x, x], 1))
    finally:
        tdt.set_num_threads(before)
