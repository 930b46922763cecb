"""Max pooling kernels beside the portable form."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tdt
from tdt._backend.layout import to_front, to_last
from tdt._kernels import KERNELS, _pool
from tdt._kernels.pool_cpu import max_pool, max_pool_any, max_pool_any_vjp, max_pool_vjp, window_spread, window_sums
from tdt._ops.nn.pool_average import _avg_pool as avg_pool
from tdt._ops.nn.pool_average import avg_pool_grad
from tdt._ops.nn.pool_max import _max_pool
from tests._kernels.watch import watch

HOW = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False}
# Windows that overlap, leave gaps, stick out, lie apart, and lie on both borders with nothing between.
OTHERS = [
    {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)},
    {"kernel": (2, 2), "stride": (1, 1)},
    {"kernel": (1, 4), "stride": (3, 2), "padding": (0, 2)},
    {"kernel": (3, 2), "stride": (1, 2), "dilation": (2, 3), "padding": (1, 0)},
    {"kernel": (2, 1), "dilation": (7, 1), "padding": (1, 0)},
]
SHAPES = [(1, 1, 2, 2), (2, 3, 9, 7), (5, 17, 6, 5), (3, 64, 8, 8), (70, 33, 8, 9)]


def image(shape: tuple, last: bool) -> np.ndarray:
    """Values with many ties, some of them not finite."""
    x = np.random.default_rng(sum(shape)).integers(-3, 3, shape).astype(np.float32)
    x.reshape(-1)[:: max(7, x.size // 9)] = np.nan
    x.reshape(-1)[1 :: max(11, x.size // 5)] = np.inf
    x.reshape(-1)[2 :: max(11, x.size // 5)] = -np.inf
    return to_front(np.ascontiguousarray(to_last(x))) if last else x


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_memory_order_are_the_portable_ones(shape, last):
    x = image(shape, last)
    value, expected = max_pool(x, **HOW), _max_pool.forward(np, x, **HOW)
    np.testing.assert_array_equal(value, expected)
    assert value.strides == expected.strides


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("ordered", [False, True], ids=["g contiguous", "g channels-last"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_go_where_the_portable_form_sends_them(shape, ordered, last):
    x = image(shape, last)
    out = _max_pool.forward(np, x, **HOW)
    g = np.random.default_rng(0).standard_normal(out.shape, np.float32)
    g = to_front(np.ascontiguousarray(to_last(g))) if ordered else g
    leaf = tdt.tensor(x.copy(), dtype=tdt.float64, requires_grad=True)  # float64: no kernel
    tdt.nn.functional.max_pool2d(leaf, 2).backward(tdt.tensor(g, dtype=tdt.float64))
    grad = max_pool_vjp(g, out, x)
    np.testing.assert_array_equal(grad, leaf.grad.numpy())
    assert grad.strides == x.strides


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("how", OTHERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_all_windows_have_the_portable_values_and_gradients(shape, how, last):
    x, how = image(shape, last), {**HOW, **how}
    value, expected = max_pool_any(x, **how), _max_pool.forward(np, x, **how)
    np.testing.assert_array_equal(value, expected)
    assert value.strides == expected.strides
    g = np.random.default_rng(0).integers(-9, 9, value.shape).astype(np.float32)  # sums of them are exact
    leaf = tdt.tensor(x.copy(), dtype=tdt.float64, requires_grad=True)  # float64: no kernel
    how_public = {("kernel_size" if name == "kernel" else name): n for name, n in how.items()}
    tdt.nn.functional.max_pool2d(leaf, **how_public).backward(tdt.tensor(g, dtype=tdt.float64))
    grad = max_pool_any_vjp(g, value, x, **how)
    np.testing.assert_array_equal(grad, leaf.grad.numpy())
    assert grad.strides == x.strides


def test_an_infinite_gradient_leaves_the_other_cells_of_its_window_zero():
    x = to_front(np.arange(16, dtype=np.float32).reshape(1, 2, 2, 4))
    grad = max_pool_vjp(np.full((1, 4, 1, 1), np.inf, np.float32), max_pool(x, **HOW), x)
    np.testing.assert_array_equal(grad[0, :, 1, 1], np.inf)
    np.testing.assert_array_equal(grad.reshape(4, 4)[:, :3], 0)


def test_bits_do_not_depend_on_the_number_of_threads():
    x = image((300, 33, 8, 8), True)
    before, results = _pool.get_num_threads(), []
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        out = max_pool(x, **HOW)
        how = {**HOW, **OTHERS[0]}
        pooled = max_pool_any(x, **how)
        arrays = out, max_pool_vjp(out, out, x), pooled, max_pool_any_vjp(pooled, pooled, x, **how)
        results.append(b"".join(a.tobytes() for a in arrays))
    _pool.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_a_layer_uses_the_kernels_and_what_they_do_not_take_is_portable(monkeypatch):
    x = tdt.tensor(np.ascontiguousarray(image((70, 33, 8, 8), False))).contiguous(memory_format=tdt.channels_last)
    tiles = ["pool_cpu:max_pool", "pool_cpu:max_pool_vjp"]
    windows = ["pool_cpu:max_pool_any", "pool_cpu:max_pool_any_vjp"]
    called = watch(monkeypatch, *tiles, *windows)
    for how, expected in (({}, tiles), ({"stride": 1}, windows), ({"padding": 1}, windows), ({"ceil_mode": True}, [])):
        called.clear()
        leaf = x.detach().requires_grad_()
        tdt.nn.functional.max_pool2d(leaf, 2, **how).sum().backward()
        assert called == expected
    called.clear()
    with tdt.backends.kernels(False):
        tdt.nn.functional.max_pool2d(x, 2)
    assert not called


@pytest.mark.parametrize("how", [{}, {"stride": (1,), "padding": (1,)}, {"kernel": (3,), "dilation": (2,)}], ids=str)
def test_lines_are_images_of_one_row(how):
    how = {"kernel": (2,), "stride": (2,), "padding": (0,), "dilation": (1,), "ceil_mode": False, **how}
    x = image((5, 33, 80, 9), False).reshape(5, 33, -1)
    forward, backward = KERNELS["pool_cpu:max_pool_any"], KERNELS["pool_cpu:max_pool_any_vjp"]
    expected = _max_pool.forward(np, x, **how)
    value = forward.function(x, **how)
    np.testing.assert_array_equal(value, expected)
    g = np.random.default_rng(0).integers(-9, 9, value.shape).astype(np.float32)
    leaf = tdt.tensor(x.copy(), dtype=tdt.float64, requires_grad=True)  # float64: no kernel
    how_public = {("kernel_size" if name == "kernel" else name): n for name, n in how.items()}
    tdt.nn.functional.max_pool1d(leaf, **how_public).backward(tdt.tensor(g, dtype=tdt.float64))
    np.testing.assert_array_equal(backward.function(g, value, x, **how), leaf.grad.numpy())
    if os.environ.get("TDT_KERNELS") != "reference":
        far = {**how, "stride": (3,)}  # nearer windows are folded plane by plane
        assert forward.when((x,), far) and backward.when((g, value, x), far)
        assert not backward.when((g, value, x), how)
        assert KERNELS["plane_pool_cpu:max_pool_vjp"].when((g, value, x), how)


AVERAGES = [
    {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "ceil_mode": False},
    {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil_mode": True},
    {"kernel": (1, 4), "stride": (3, 1), "padding": (0, 2), "ceil_mode": False},
    {"kernel": (3, 2), "stride": (1, 3), "padding": (1, 0), "ceil_mode": True},
    {"kernel": (2, 2), "stride": (3, 4), "padding": (0, 0), "ceil_mode": False},
]


@pytest.mark.parametrize("how", AVERAGES, ids=str)
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_sums_of_windows_and_their_spread_are_the_portable_ones(shape, how):
    x = np.nan_to_num(image(shape, True), posinf=5, neginf=-5)  # whole numbers: every order of adding is exact
    x = to_front(np.ascontiguousarray(to_last(x)))
    by_one = {**how, "include_pad": True, "divisor": 1}
    expected = avg_pool.forward(np, x.astype(np.float64), **by_one)  # float64: no kernel
    where = {name: how[name] for name in ("kernel", "stride", "padding")}
    sums = window_sums(x, out=expected.shape[2:], **where)
    np.testing.assert_array_equal(sums, expected)
    assert to_last(sums).flags.c_contiguous
    spread = window_spread(sums, size=x.shape[2:], **where)
    np.testing.assert_array_equal(spread, avg_pool_grad.forward(np, expected, size=x.shape[2:], **by_one))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e-42], ids=str)
def test_special_values_reach_the_windows_that_contain_them(special):
    x = to_front(np.zeros((2, 6, 7, 40), np.float32))
    x[1, 17, 2, 3] = special
    how = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    sums = window_sums(x, out=(3, 4), **how)
    expected = avg_pool.forward(np, x.astype(np.float64), ceil_mode=False, include_pad=True, divisor=1, **how)
    np.testing.assert_array_equal(sums, expected.astype(np.float32))


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
@pytest.mark.parametrize("size", [2, 5], ids=["windows", "one window"])
def test_averages_of_channels_last_images_agree_with_the_portable_form(size):
    results = []
    for dtype in (tdt.float32, tdt.float64):
        x = tdt.tensor(np.nan_to_num(image((70, 33, 5, 9), True), posinf=0, neginf=0), dtype=dtype)
        x = x.contiguous(memory_format=tdt.channels_last).requires_grad_()
        out = tdt.nn.functional.avg_pool2d(x, (size, 9 if size == 5 else 3))
        out.square().sum().backward()
        results.append((out.detach().numpy(), x.grad.numpy()))
    for value, expected in zip(*results, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)
