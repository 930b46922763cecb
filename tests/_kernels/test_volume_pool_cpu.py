"""Pooling of volumes in 2×2×2 windows: bits of the portable form, values and gradients of PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import volume_pool_cpu
from tdt.nn import functional as F
from tests._kernels.watch import watch
from tests.helpers import require_torch

SIZES = [(2, 2, 3), (3, 5, 7), (4, 4, 66), (5, 2, 33), (14, 14, 14)]


def volumes(size: tuple) -> np.ndarray:
    """Values with ties, zeros of both signs, NaN, and windows of -inf."""
    rng = np.random.default_rng(sum(size))
    x = rng.integers(-2, 3, (3, 4, *size)).astype(np.float32) * rng.choice([-1, 1], size).astype(np.float32)
    x[0][rng.random(x[0].shape) < 0.1] = np.nan
    x[1, 0], x[1, 1] = -np.inf, -0.0
    return x


def pooled(lib, pool, x, change=lambda t: t) -> list[np.ndarray]:
    """Values and gradients of calls that are found, remembered, and not recorded."""
    found = []
    leaf = lib.from_numpy(x).requires_grad_()
    for _ in range(3):
        out = pool(lib.nn.functional, change(leaf))
        g = (lib.arange(out.numel()) % 7 - 3).to(out.dtype).reshape(out.shape) / 4
        found += [out.detach().numpy(), lib.autograd.grad(out, leaf, g)[0].numpy()]
        found.append(pool(lib.nn.functional, change(leaf.detach())).numpy())
    return found


POOLS = {
    "max": lambda f, x: f.max_pool3d(x, 2),
    "mean": lambda f, x: f.avg_pool3d(x, 2),
    "sum": lambda f, x: f.avg_pool3d(x, 2, divisor_override=1),
    "third": lambda f, x: f.avg_pool3d(x, 2, divisor_override=3),
    "rounded up": lambda f, x: f.max_pool3d(x, 2, ceil_mode=True),
    "mean rounded up": lambda f, x: f.avg_pool3d(x, 2, ceil_mode=True),
}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_volumes_have_pytorchs_values_and_gradients_at_every_call(size, pool):
    def last(t):
        return t.transpose(1, -1).contiguous().transpose(1, -1)

    torch, x = require_torch(), volumes(size)
    if pool is POOLS["rounded up"]:
        x[1, 0] = -1  # of windows of -inf that stick out PyTorch names cells of others
    for change in (lambda t: t, lambda t: t[0], lambda t: t[::2, 1:], last):
        for ours, theirs in zip(pooled(tdt, pool, x, change), pooled(torch, pool, x, change), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("pool", ["max", "mean", "sum", "third"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_volumes_have_the_portable_bits_on_all_threads(size, pool, monkeypatch):
    x, found = volumes(size), []
    if pool != "max":
        x = np.nan_to_num(x)  # NaN of two signs in a sum: the processor takes either
    for kernels, grain in ((False, 0), (True, 1), (True, 1 << 15)):
        monkeypatch.setattr(volume_pool_cpu, "GRAIN", grain)
        with tdt.backends.kernels(kernels):
            arrays = pooled(tdt, POOLS[pool], x)
        found.append([a + 0.0 if pool == "max" else a for a in arrays])  # the maximum of zeros may have either sign
    for others in found[1:]:
        for fast, portable in zip(others, found[0], strict=True):
            assert fast.tobytes() == portable.tobytes()


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_other_windows_and_volumes_without_elements_are_portable(monkeypatch):
    called = watch(monkeypatch, "volume_pool_cpu:max_pool", "volume_pool_cpu:window_means")
    x = tdt.rand(2, 3, 4, 5, 6)
    for how in ({"stride": 1}, {"padding": 1}, {"ceil_mode": True}):
        F.max_pool3d(x, 2, **how), F.avg_pool3d(x, 2, **how)
    F.max_pool3d(x, 2, dilation=2), F.max_pool3d(x.double(), 2), F.avg_pool3d(x[:0], 2), F.adaptive_avg_pool3d(x, 1)
    assert not called
    F.max_pool3d(x, 2), F.avg_pool3d(x, 2)
    assert called == ["volume_pool_cpu:max_pool", "volume_pool_cpu:window_means"]
