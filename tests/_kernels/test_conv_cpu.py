"""Convolution kernels beside the portable forms, PyTorch and the eight loops of the oracle."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt._backend.layout import empty_as, to_front, to_last
from tdt._kernels import KERNELS, _pool, conv_cpu, depthwise_cpu
from tdt._kernels._conv_pieces import piece_of_windows
from tdt._kernels._tile import Shape
from tdt._ops.nn import conv as portable
from tests._kernels.watch import watch
from tests.helpers import require_torch

ROOT = Path(__file__).parents[2]
PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}

# (batch, in, out, size, kernel, what differs from PLAIN): channels off every vector, sizes off every tile.
CASES = [
    (2, 1, 32, (8, 8), (3, 3), {"padding": (1, 1)}),
    (1, 3, 16, (5, 9), (5, 5), {"padding": (2, 2)}),
    (9, 7, 17, (6, 5), (3, 3), {"padding": (1, 0)}),
    (1, 16, 33, (7, 7), (1, 1), {}),
    (2, 17, 3, (13, 17), (3, 2), {"padding": (2, 1)}),
    (3, 32, 64, (8, 8), (3, 3), {"padding": (1, 1)}),
    (2, 33, 1, (9, 4), (1, 3), {"padding": (0, 2)}),
    (1, 64, 7, (3, 3), (3, 3), {}),
    (5, 64, 65, (2, 3), (2, 1), {}),
    (300, 2, 3, (1, 1), (1, 1), {}),
    (1, 5, 20, (40, 31), (5, 3), {"padding": (2, 1)}),
    (2, 4, 6, (11, 12), (3, 3), {"stride": (2, 2), "padding": (1, 1)}),
    (2, 4, 6, (11, 12), (3, 5), {"stride": (3, 1), "padding": (0, 2), "dilation": (1, 2)}),
    (2, 6, 18, (9, 9), (1, 1), {"stride": (2, 2)}),
    (2, 3, 5, (10, 10), (2, 2), {"stride": (3, 3), "padding": (1, 1)}),
    (1, 3, 5, (12, 9), (3, 3), {"dilation": (3, 2), "padding": (4, 3)}),  # more border than the gradient needs
    (2, 6, 8, (7, 9), (3, 3), {"groups": 2, "padding": (1, 1)}),
    (3, 48, 51, (8, 8), (3, 2), {"groups": 3, "stride": (2, 1), "padding": (0, 1)}),
    (2, 34, 36, (5, 5), (1, 1), {"groups": 2}),
    (2, 5, 15, (9, 9), (3, 3), {"groups": 5, "dilation": (2, 1)}),  # three filters a channel
]
DEPTHWISE = [
    (2, 5, 5, (9, 11), (3, 3), {"padding": (1, 1)}),
    (1, 67, 67, (6, 35), (5, 3), {"padding": (0, 4), "dilation": (1, 2)}),
    (3, 16, 16, (13, 10), (3, 3), {"stride": (2, 2), "padding": (1, 0)}),
    (2, 33, 33, (8, 8), (2, 4), {"stride": (3, 1), "padding": (1, 3), "dilation": (2, 2)}),
    (1, 3, 3, (1, 1), (3, 3), {"padding": (1, 1)}),
    (9, 83, 83, (7, 12), (3, 3), {"padding": (1, 1), "dilation": (1, 2)}),
    (2, 2, 2, (40, 1), (7, 1), {"stride": (5, 4), "padding": (3, 0)}),
]
DEPTHWISE = [(*case[:5], {**case[5], "groups": case[1]}) for case in DEPTHWISE]
FEW = [  # as many channels in a group on both sides
    (2, 6, 6, (9, 11), (3, 3), {"padding": (1, 1), "groups": 3}),
    (3, 36, 36, (7, 8), (3, 3), {"padding": (1, 1), "groups": 9}),
    (1, 40, 40, (10, 7), (5, 2), {"padding": (2, 3), "stride": (2, 1), "dilation": (1, 2), "groups": 5}),
    (17, 68, 68, (4, 5), (1, 3), {"padding": (0, 1), "groups": 34}),
]
ALL = CASES + DEPTHWISE + FEW
LARGE = (40, 16, 40, (9, 9), (3, 3), {"padding": (1, 1)})


def problem(case: tuple, last: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
    """x, w, b, a gradient of the result, and how it is convolved."""
    batch, channels, out, size, kernel, how = case
    how = {**PLAIN, **how}
    rng = np.random.default_rng(sum(size) + channels)
    per = channels // how["groups"]
    x, w = (rng.standard_normal(s, np.float32) for s in ((batch, channels, *size), (out, per, *kernel)))
    g = rng.standard_normal(portable.conv_shape(x.shape, w.shape, **how), np.float32)
    x, g = (to_front(np.ascontiguousarray(to_last(a))) if last else a for a in (x, g))
    return x, w, rng.standard_normal(out, np.float32), g, how


def all_three(x, w, b, g, how) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Result and gradients by the kernels."""
    kernels = depthwise_cpu if how["groups"] > 1 and w.shape[1] in (1, 2, 4, 8) and x.shape[1] == len(w) else conv_cpu
    return (
        kernels.conv(x, w, b, **how),
        kernels.conv_input_grad(g, w, size=x.shape[2:], **how),
        kernels.conv_weight_grad(g, x, kernel=w.shape[2:], **how),
    )


def close(value: np.ndarray, expected: np.ndarray) -> None:
    assert value.shape == expected.shape
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("case", ALL, ids=str)
def test_kernels_compute_the_portable_values_in_the_portable_memory_order(case, last):
    x, w, b, g, how = problem(case, last)
    expected = (
        portable.conv.forward(np, x, w, b, **how),
        portable.conv_input_grad.forward(np, g, w, None, size=x.shape[2:], **how),
        portable.conv_weight_grad.forward(np, g, x, kernel=w.shape[2:], **how),
    )
    for i, (value, reference) in enumerate(zip(all_three(x, w, b, g, how), expected, strict=True)):
        close(value, reference)
        if i == 2:  # the portable form leaves the order to the layer, which puts gradients in its weights' order
            reference = empty_as(np, value.shape, value.dtype, last)
        strides = [[s for s, n in zip(a.strides, a.shape, strict=True) if n > 1] for a in (value, reference)]
        assert strides[0] == strides[1]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_kernels_agree_with_pytorch_in_double_precision(case):
    torch = require_torch()
    x, w, b, g, how = problem(case, True)
    theirs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w, b)]
    result = torch.nn.functional.conv2d(*theirs, **how)
    result.backward(torch.tensor(g, dtype=torch.float64))
    expected = result.detach(), theirs[0].grad, theirs[1].grad
    for value, reference in zip(all_three(x, w, b, g, how), expected, strict=True):
        close(value, reference.numpy())


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("case", [CASES[2], DEPTHWISE[2], FEW[1]], ids=str)
def test_nan_and_infinities_reach_the_same_places(case, last):
    x, w, b, g, how = problem(case, last)
    special_values = np.array([np.nan, np.inf, -np.inf], np.float32)
    x[0, :3, 2, 2], g[-1, 4:7, 2, 2] = special_values, special_values[::-1]  # no window there meets the border
    results = (
        portable.conv.forward(np, x, w, b, **how),
        portable.conv_input_grad.forward(np, g, w, None, size=x.shape[2:], **how),
        portable.conv_weight_grad.forward(np, g, x, kernel=w.shape[2:], **how),
    )
    for i, (value, expected) in enumerate(zip(all_three(x, w, b, g, how), results, strict=True)):
        assert np.isnan(expected).any() and not np.isnan(expected).all()
        np.testing.assert_array_equal(np.isnan(value), np.isnan(expected))
        if i == 0:
            np.testing.assert_array_equal(value[np.isinf(expected)], expected[np.isinf(expected)])


@pytest.mark.parametrize(
    "size, kernel, padding, dilation",
    [((4, 12, 12), (3, 3, 3), (1, 1, 1), (1, 1, 1)), ((13, 15), (5, 3), (4, 2), (2, 2)), ((200,), (7,), (24,), (8,))],
)
def test_infinities_at_the_border_are_in_the_weight_gradients_of_cells_inside_alone(size, kernel, padding, dilation):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 8, *size), np.float32), rng.standard_normal((3, 16, *size), np.float32)
    y[1, 2, *(0,) * len(size)], y[2, 5, *(-1,) * len(size)] = np.inf, np.nan
    how = {"stride": (1,) * len(size), "padding": padding, "dilation": dilation, "groups": 1}
    found = conv_cpu.conv_weight_grad(y, x, kernel=kernel, **how)
    for cell in np.ndindex(*kernel):
        at = [k * d - p for k, d, p in zip(cell, dilation, padding, strict=True)]
        inside = tuple(slice(max(0, -a), min(n, n - a)) for a, n in zip(at, size, strict=True))
        pixels = tuple(slice(each.start + a, each.stop + a) for each, a in zip(inside, at, strict=True))
        of_y, of_x = (a[:, :, *part].reshape(3, a.shape[1], -1) for a, part in ((y, inside), (x, pixels)))
        expected = np.einsum("nop,ncp->oc", of_y.astype(np.float64), of_x.astype(np.float64))
        np.testing.assert_allclose(found[:, :, *cell], expected, rtol=1e-5, atol=1e-4)


def test_strided_expanded_and_reversed_arrays():
    x, w, b, g, how = problem(CASES[0], False)
    strided = np.repeat(np.repeat(x, 2, 2), 3, 3)[:, :, ::2, ::3]
    flipped = np.ascontiguousarray(g[:, :, ::-1])[:, :, ::-1]
    for a, e in zip(all_three(strided, w[::-1], b[::-1], flipped, how), all_three(x, w[::-1].copy(), b[::-1].copy(), g, how),
                    strict=True):  # fmt: skip
        np.testing.assert_array_equal(a, e)
    ones = np.broadcast_to(np.float32(1), g.shape)
    how["size"] = x.shape[2:]
    grads = [conv_cpu.conv_input_grad(a, w, **how) for a in (ones, ones.copy())]
    np.testing.assert_array_equal(*grads)


def test_threads_have_all_channels_of_windows_where_that_shares_the_work_as_evenly():
    tile = Shape(6, 2, 8)
    assert piece_of_windows(16, 2, 8, 1, 2, tile, 2)[:2] == (
        16,
        1,
    )  # runs of 2 × 16 numbers; each has a panel of columns
    assert piece_of_windows(32, 2, 8, 1, 1, tile, 2)[0] == 16  # one panel: each has half of the channels


@pytest.mark.parametrize("case", [CASES[5], CASES[10], CASES[17], DEPTHWISE[1], FEW[1], LARGE], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
def test_bits_do_not_depend_on_the_number_of_threads(case, last):
    x, w, b, g, how = problem(case, last)
    x, g = np.tile(x, (30, 1, 1, 1)), np.tile(g, (30, 1, 1, 1))  # enough work for several threads
    before, results = _pool.get_num_threads(), []
    for threads in (1, 2, 3, 5):
        _pool.set_num_threads(threads)
        results.append(b"".join(a.tobytes() for a in all_three(x, w, b, g, how)))
    _pool.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
@pytest.mark.parametrize(("per", "out"), [(1, 1), (1, 2), (2, 1), (4, 4), (8, 8), (16, 16), (3, 5)])
def test_groups_have_kernels_of_their_own(per, out):
    x, y = np.zeros((2, 8 * per, 8, 8), np.float32), np.zeros((2, 8 * out, 8, 8), np.float32)
    w = np.zeros((8 * out, per, 3, 3), np.float32)
    for name, arrays, more in (
        ("conv", (x, w, None), {}),
        ("conv", (x, w, np.zeros(8 * out, np.float32)), {}),
        ("conv_input_grad", (y, w, None), {"size": (8, 8)}),
        ("conv_weight_grad", (y, x), {"kernel": (3, 3)}),
    ):
        how = {**PLAIN, "padding": (1, 1), "groups": 8, **more}
        kernel = KERNELS[f"depthwise_cpu:{name}"]
        when, function = kernel.when, kernel.function
        assert when(arrays, how) and function.__name__ == name
        assert not when(tuple(a if a is None else a.astype(np.float64) for a in arrays), how)
        assert not when((arrays[0][:0], *arrays[1:]), how), "nothing to do"


@pytest.mark.parametrize("channels", [(64, 32), (32, 64), (32, 32)], ids=str)
def test_layers_with_a_group_for_each_channel_of_one_side_are_right(channels):
    channels_in, channels_out = channels
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((8, channels_in, 9, 9)), rng.standard_normal((channels_out, channels_in // 32, 3, 3))
    found = []
    for dtype in (tdt.float32, tdt.float64):  # float64: no kernel
        leaves = [tdt.tensor(a, dtype=dtype, requires_grad=True) for a in (x, w)]
        out = tdt.nn.functional.conv2d(*leaves, padding=1, groups=32)
        out.square().sum().backward()
        found.append([out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)])
    for value, expected in zip(*found, strict=True):
        close(value, expected)


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_kernels_are_chosen_by_shape_and_dtype_alone():
    x, w = np.zeros((64, 16, 8, 8), np.float32), np.zeros((32, 16, 3, 3), np.float32)
    y, how = np.zeros((64, 32, 8, 8), np.float32), {**PLAIN, "padding": (1, 1)}
    for name, arrays, more in (
        ("conv", (x, w, None), {}),
        ("conv_input_grad", (y, w, None), {"size": (8, 8)}),
        ("conv_weight_grad", (y, x), {"kernel": (3, 3)}),
    ):
        depthwise, when = KERNELS[f"depthwise_cpu:{name}"].when, KERNELS[f"conv_cpu:{name}"].when
        assert not depthwise(arrays, {**how, **more})
        assert when(arrays, {**how, **more}), name
        assert not when(tuple(a if a is None else a.astype(np.float64) for a in arrays), {**how, **more})
        assert not when((arrays[0][:0], *arrays[1:]), {**how, **more}), "nothing to do"


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_a_layer_uses_the_kernels_and_without_them_the_portable_forms(monkeypatch):
    x, w, b, g, how = problem((64, 16, 24, (8, 8), (3, 3), {"padding": (1, 1)}), False)
    three = ["conv_cpu:conv", "conv_cpu:conv_input_grad", "conv_cpu:conv_weight_grad"]
    called = watch(monkeypatch, *three)

    def gradients() -> list[np.ndarray]:
        leaves = [tdt.tensor(a, requires_grad=True) for a in (x, w, b)]
        out = tdt.nn.functional.conv2d(*leaves, padding=1)
        out.backward(tdt.tensor(g))
        return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]

    fast = gradients()
    assert called == three
    with tdt.backends.kernels(False):
        for value, reference in zip(fast, gradients(), strict=True):
            close(value, reference)
    assert len(called) == 3


LINES = [  # channels in and out, and how
    (8, 24, {"padding": 2}),
    (24, 24, {"stride": 2, "padding": 1, "groups": 24}),
    (24, 24, {"dilation": 2, "groups": 6}),
    (24, 8, {"groups": 4}),
]


@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "turned"])
@pytest.mark.parametrize("transposed", [False, True], ids=["conv1d", "conv_transpose1d"])
@pytest.mark.parametrize("case", LINES, ids=str)
def test_lines_are_images_of_one_row(case, transposed, turned):
    channels_in, channels_out, how = case
    groups = how.get("groups", 1)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 300, channels_in)).transpose(0, 2, 1)
    w = rng.standard_normal(
        (channels_in, channels_out // groups, 5) if transposed else (channels_out, channels_in // groups, 5)
    )
    found = []
    for dtype in (tdt.float32, tdt.float64):  # float64: no kernel
        leaves = [tdt.tensor(a, dtype=dtype) for a in (x, w, np.linspace(-1, 1, channels_out))]
        leaves[0] = leaves[0] if turned else leaves[0].contiguous()
        leaves = [leaf.requires_grad_() for leaf in leaves]
        out = (tdt.nn.functional.conv_transpose1d if transposed else tdt.nn.functional.conv1d)(*leaves, **how)
        assert out.is_contiguous()
        out.square().sum().backward()
        found.append([out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)])
    for value, expected in zip(*found, strict=True):
        close(value, expected)


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_lines_use_the_kernels():
    x, w = np.zeros((64, 24, 300), np.float32), np.zeros((24, 1, 5), np.float32)
    how = {"stride": (1,), "padding": (2,), "dilation": (1,), "groups": 24}
    for name, arrays, more in (
        ("conv", (x, w, None), {}),
        ("conv_input_grad", (x, w, None), {"size": (300,)}),
        ("conv_weight_grad", (x, x), {"kernel": (5,)}),
    ):
        when = KERNELS[f"depthwise_cpu:{name}"].when
        assert when(arrays, {**how, **more}), name


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("channels", [20, 40, 72, 80])
def test_channels_that_a_narrower_tile_computes_have_the_bits_of_others(channels, last):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 5, 9, 7), np.float32), rng.standard_normal((channels, 5, 3, 3), np.float32)
    b = rng.standard_normal(channels, np.float32)
    x = to_front(np.ascontiguousarray(to_last(x))) if last else x
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    parts = [conv_cpu.conv(x, w[k : k + 1], b[k : k + 1], **how) for k in range(channels)]
    np.testing.assert_array_equal(conv_cpu.conv(x, w, b, **how), np.concatenate(parts, 1))
    back = [conv_cpu.conv_input_grad(x, w.swapaxes(0, 1)[:, [k]], size=(9, 7), **how) for k in range(channels)]
    whole = conv_cpu.conv_input_grad(x, np.ascontiguousarray(w.swapaxes(0, 1)), size=(9, 7), **how)
    np.testing.assert_array_equal(whole, np.concatenate(back, 1))
