"""Pooling of contiguous images plane by plane, beside the portable form."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import adaptive_pool_cpu, plane_pool_cpu, pool_cpu
from tdt.nn import functional as F

pytestmark = pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")


def windows(rng: np.random.Generator) -> dict:
    """A window's numbers, such that one fits into images of 11 × 9 or more."""
    kernel = rng.integers(1, 6, 2)
    return {
        "kernel_size": tuple(map(int, kernel)),
        "stride": tuple(map(int, rng.integers(1, 5, 2))),
        "padding": tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel),
        "ceil_mode": bool(rng.integers(2)),
    }


def both_ways(function, x: np.ndarray) -> list[list[np.ndarray]]:
    """Value and gradient with kernels, and without."""
    found = []
    for kernels in (True, False):
        with tdt.backends.kernels(kernels):
            leaf = tdt.tensor(x, requires_grad=True)
            out = function(leaf)
            (out * tdt.arange(1.0, 1 + out.numel()).reshape(out.shape).sin()).sum().backward()
            found.append([out.detach().numpy(), leaf.grad.numpy(), function(tdt.tensor(x)).numpy()])
    return found


@pytest.mark.parametrize("seed", range(12))
def test_any_window_has_the_portable_values_and_gradients(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (2, 3, *rng.integers(11, 40, 2))).astype(np.float32)
    how = windows(rng)
    if seed % 4 == 0:
        x[rng.random(x.shape) < 0.05] = np.nan
    dilation = tuple(map(int, rng.integers(1, 3, 2)))
    for fast, portable in zip(*both_ways(lambda t: F.max_pool2d(t, **how, dilation=dilation), x), strict=True):
        np.testing.assert_allclose(fast, portable, rtol=1e-6, atol=1e-6)
    x = np.nan_to_num(x)
    for more in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
        for fast, portable in zip(*both_ways(lambda t, m=more: F.avg_pool2d(t, **how, **m), x), strict=True):
            np.testing.assert_allclose(fast, portable, rtol=1e-5, atol=1e-5)
    for fast, portable in zip(*both_ways(lambda t: F.avg_pool1d(t, 3, 2, 1), x[:, :, 0]), strict=True):
        np.testing.assert_allclose(fast, portable, rtol=1e-5, atol=1e-5)
    for fast, portable in zip(*both_ways(lambda t: F.adaptive_avg_pool2d(t, 1), x), strict=True):
        np.testing.assert_allclose(fast, portable, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(("size", "padding", "dilation"), [(2, 0, 1), (3, 1, 1), (3, 0, 2), (5, 2, 1)])
def test_windows_add_their_gradients_in_order_and_give_them_to_one_cell(step, size, padding, dilation):
    rng = np.random.default_rng(size)
    x = rng.integers(-2, 2, (2, 3, 21, 40)).astype(np.float32)
    x[0, 0] = -np.inf
    x[0, 1][rng.random(x[0, 1].shape) < 0.3] = np.nan
    how = {"kernel": (size, size), "stride": (step, step), "padding": (padding, padding), "dilation": (dilation, dilation),
           "ceil_mode": False}  # fmt: skip
    out = plane_pool_cpu.max_pool(x, **how)
    g = rng.standard_normal(out.shape).astype(np.float32)
    expected = pool_cpu.max_pool_any_vjp(g, out, x, **how)
    np.testing.assert_array_equal(plane_pool_cpu.max_pool_vjp(g, out, x, **how), expected)


@pytest.mark.parametrize("width", [9, 37, 150])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_a_window_has_one_value_whatever_the_stride(step, width):
    x = np.random.default_rng(step).standard_normal((3, 2, 7, width)).astype(np.float32)
    x[0, 0, 3, 4] = np.nan
    for size, padding, dilation in ((step, 0, 1), (3, 1, 2), (5, 2, 1)):
        how = {"kernel": (2, size), "padding": (0, padding)}
        every, some = (
            plane_pool_cpu.max_pool(x, stride=(1, s), dilation=(1, dilation), ceil_mode=False, **how) for s in (1, step)
        )
        assert some.tobytes() == every[..., ::step].tobytes()
        if dilation == 1:
            shapes = [(6, -(-every.shape[3] // s)) for s in (1, step)]
            counts = np.full(1, 2.0 * size, np.float32)
            every, some = (
                plane_pool_cpu.window_means(x, counts, stride=(1, s), out=out, **how)
                for s, out in zip((1, step), shapes, strict=True)
            )
            assert some.tobytes() == every[..., ::step].tobytes()


@pytest.mark.parametrize(("size", "out"), [((11,), 4), ((21, 40), (4, 7)), ((28, 28), 3), ((5, 9, 17), (3, 4, 5))])
def test_adaptive_maxima_have_the_portable_bits_on_all_threads(size, out, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (2, 5, *size)).astype(np.float32) * rng.choice([-1, 1], size).astype(np.float32)
    x[0][rng.random(x[0].shape) < 0.05] = np.nan
    found = []
    for kernels, grain in ((False, 0), (True, 1), (True, 1 << 15)):
        monkeypatch.setattr(adaptive_pool_cpu, "GRAIN", grain)
        with tdt.backends.kernels(kernels):
            leaf = tdt.tensor(x, requires_grad=True)
            result = getattr(F, f"adaptive_max_pool{len(size)}d")(leaf, out)
            result.backward(tdt.arange(1.0, 1 + result.numel()).reshape(result.shape) / 7)
            found.append(result.detach().numpy().tobytes() + leaf.grad.numpy().tobytes())
    assert found[0] == found[1] == found[2]


def test_planes_have_the_same_bits_on_all_threads(monkeypatch):
    x, found = np.random.default_rng(0).standard_normal((3, 5, 17, 19)).astype(np.float32), []
    for grain in (1, 1 << 15):
        monkeypatch.setattr(plane_pool_cpu, "GRAIN", grain)
        arrays = (
            both_ways(lambda t: F.max_pool2d(t, 3, 2, 1), x)[0] + both_ways(lambda t: F.avg_pool2d(t, 3, 1, 1), x)[0]
        )
        found.append(b"".join(a.tobytes() for a in arrays))
    assert found[0] == found[1]


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_windows_that_cannot_be_are_refused_after_one_that_can(pool):
    x = tdt.ones(1, 2, 6, 6)
    assert pool(x, 2).shape == pool(x, [2, 2], [2, 2]).shape == (1, 2, 3, 3)
    for wrong in (
        {"kernel_size": 0},
        {"kernel_size": 2, "stride": 0},
        {"kernel_size": 2, "padding": 2},
        {"kernel_size": 7},
    ):
        for _ in range(2):
            with pytest.raises(RuntimeError):
                pool(x, **wrong)
    with pytest.raises(TypeError):
        pool(x, True)
