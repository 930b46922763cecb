"""Resampling kernels beside the portable form in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import LARGE_RESAMPLE, _pool
from tdt._kernels.resample_cpu import resample, resample_few, resample_pixels
from tdt._ops.nn._resampling import Axis, taps
from tdt._ops.nn.resample import along
from tests._kernels.watch import watch
from tests.helpers import require_torch

AXES = [
    Axis(5, 10, "nearest"), Axis(7, 3, "nearest"), Axis(7, 3, "nearest", turned=True), Axis(5, 10, "nearest", turned=True),
    Axis(31, 67, "linear"), Axis(31, 67, "linear", turned=True), Axis(1, 9, "linear"), Axis(9, 1, "linear", turned=True),
    Axis(17, 5, "cubic"), Axis(5, 17, "cubic", turned=True), Axis(67, 12, "linear antialias"), Axis(17, 5, "mean"),
    Axis(67, 12, "lanczos antialias", turned=True),
]  # fmt: skip


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("inner", [1, 2, 3, 16, 33])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_one_axis(axis, inner):
    places = axis.outside if axis.turned else axis.inside
    for outer in (1, 5, 8, 21):
        x = array(outer, places, inner)
        expected = along(np, x.astype(np.float64), taps(axis, "d"))
        found = resample(x, taps(axis, "f"))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4 if axis.inside > 20 else 2e-5)
        few = resample_few(x, taps(axis, "f"))
        np.testing.assert_array_equal(few, along(np, x, taps(axis, "f")))
        assert few.tobytes() == resample_few(x[:5], taps(axis, "f")).tobytes()[: few[:5].nbytes] + few[5:].tobytes()


@pytest.mark.parametrize("channels", [1, 3, 16, 67])
@pytest.mark.parametrize(("down", "across"), [
    (Axis(5, 10, "nearest"), Axis(4, 7, "nearest-exact")), (Axis(5, 10, "linear"), Axis(4, 3, "linear")),
    (Axis(5, 10, "nearest", turned=True), Axis(3, 6, "nearest", turned=True))], ids=["one", "two", "turned"])  # fmt: skip
def test_pixels_in_one_pass_are_those_of_two(down, across, channels):
    tables = taps(down, "f"), taps(across, "f")
    x = array(3, *(axis.outside if axis.turned else axis.inside for axis in (down, across)), channels)
    x[1, 2, 0, 0] = np.inf
    found = resample_pixels(x, *tables)
    rows = along(np, x.reshape(-1, *x.shape[2:]), tables[1]).reshape(*x.shape[:2], -1)
    expected = along(np, rows, tables[0]).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_non_finite_and_subnormal_values_reach_only_what_depends_on_them():
    x = np.zeros((3, 40, 7), np.float32)
    x[0, 3, 1], x[1, 5, 0], x[2, 7, 2] = np.nan, np.inf, 1e-45
    for inner in (7, 1):
        part = np.ascontiguousarray(x[..., :inner]) if inner > 1 else np.ascontiguousarray(x.sum(axis=2, keepdims=True))
        found = resample(part, taps(Axis(40, 80, "linear"), "f"))
        expected = along(np, part, taps(Axis(40, 80, "linear"), "f"))
        np.testing.assert_array_equal(found, expected)
        assert np.isnan(found).sum() == np.isnan(expected).sum() > 0


def test_bits_do_not_depend_on_the_number_of_threads():
    x, before, found = array(67, 31, 33), _pool.get_num_threads(), []
    pixels = array(5, 31, 17, 33)
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        table = taps(Axis(31, 67, "linear"), "f")
        parts = (
            resample(x, table),
            resample(x[:, :, :1].copy(), table),
            resample_pixels(pixels, table, taps(Axis(17, 40, "linear"), "f")),
        )
        found.append(b"".join(a.tobytes() for a in parts))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_interpolate_computes_the_portable_results(mode, last, monkeypatch):
    axis, pixels = "resample_cpu:resample", "resample_cpu:resample_pixels"
    called = watch(monkeypatch, axis, pixels)
    x = tdt.from_numpy(array(4, 16, -(-LARGE_RESAMPLE // (4 * 16 * 30)), 30))
    x = x.contiguous(memory_format=tdt.channels_last) if last else x
    found = []
    for kernels in (True, False):
        with tdt.backends.kernels(kernels):
            leaf = x.detach().requires_grad_()
            out = tdt.nn.functional.interpolate(leaf, scale_factor=2, mode=mode)
            (grad,) = tdt.autograd.grad(out, leaf, out.detach())
            found.append([t.detach().numpy() for t in (out, grad)])
        if kernels:
            expected = [pixels] if last and mode != "bicubic" else [axis] * 2
            assert called[: len(expected)] == expected
            called.clear()
    assert not called
    for fast, portable in zip(*found, strict=True):
        np.testing.assert_allclose(fast, portable, rtol=1e-5, atol=1e-5)
        assert fast.strides == portable.strides


@pytest.mark.parametrize(
    ("size", "out"), [((11,), 4), ((28, 28), 3), ((9, 37), (4, 50)), ((5, 9, 17), (3, 4, 5))], ids=str
)
def test_adaptive_means_have_the_portable_bits_and_pytorchs_accuracy(size, out):
    torch, x, found = require_torch(), np.random.default_rng(0).standard_normal((3, 4, *size)).astype(np.float32), []
    for lib, dtype, kernels in (
        (tdt, "float32", True),
        (tdt, "float32", False),
        (torch, "float32", True),
        (torch, "float64", True),
    ):
        with tdt.backends.kernels(kernels):
            leaf = lib.from_numpy(x).to(getattr(lib, dtype)).requires_grad_()
            for _ in range(2):
                means = getattr(lib.nn.functional, f"adaptive_avg_pool{len(size)}d")(leaf, out)
            g = (lib.arange(means.numel()) % 7 + 1).to(means.dtype).reshape(means.shape)
            found.append([means.detach().numpy(), lib.autograd.grad(means, leaf, g)[0].numpy()])
    assert found[0][0].tobytes() == found[1][0].tobytes()
    for ours, _, theirs, exact in zip(*found, strict=True):
        np.testing.assert_array_less(abs(ours - exact).max(), 3 * abs(theirs - exact).max() + 1e-7)
