"""Lines of few channels as products of patches, images of few channels as volumes of one: PyTorch's values."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tdt._backend.layout import to_front, to_last
from tdt._kernels import KERNELS, _conv_conditions, conv_cpu, depthwise_cpu, lines_cpu, volume_cpu
from tdt._ops.nn import conv as portable
from tests.helpers import require_torch

# (samples, channels in and out, size, kernel, stride, padding, dilation)
LINES = [
    (2, 1, 64, (800,), (10,), (5,), (0,), (1,)),
    (3, 1, 16, (101,), (3,), (2,), (1,), (1,)),
    (2, 4, 40, (77,), (8,), (1,), (4,), (3,)),
    (1, 2, 9, (5,), (4,), (3,), (2,), (1,)),
    (3, 20, 70, (90,), (3,), (1,), (4,), (4,)),
]
IMAGES = [
    (2, 3, 20, (33, 31), (7, 7), (2, 2), (3, 3), (1, 1)),
    (3, 4, 70, (33, 34), (4, 4), (4, 4), (0, 0), (1, 1)),
    (2, 6, 7, (6, 9), (2, 3), (2, 3), (0, 0), (1, 1)),
    (2, 1, 24, (17, 16), (11, 11), (4, 4), (5, 5), (1, 1)),
    (
        2,
        4,
        65,
        (64, 32),
        (32, 32),
        (32, 32),
        (0, 0),
        (1, 1),
    ),  # more cells than fit in the scratch array of a piece at a time
    (2, 700, 70, (4, 4), (2, 2), (2, 2), (0, 0), (1, 1)),
    (1, 2, 33, (60, 70), (60, 60), (4, 4), (0, 0), (1, 1)),  # more than fit in it at all
    (1, 200, 20, (9, 9), (9, 9), (9, 9), (0, 0), (1, 1)),
]


def problem(case: tuple) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
    count, channels, out, size, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    numbers = zip(size, kernel, stride, padding, dilation, strict=True)
    result = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in numbers)
    shapes = (count, channels, *size), (out, channels, *kernel), (out,), (count, out, *result)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    return *arrays, {"stride": stride, "padding": padding, "dilation": dilation, "groups": 1}


def computed(x, w, b, y, how) -> list[np.ndarray]:
    """Result, input gradient and weight gradient."""
    module = lines_cpu if x.ndim == 3 else volume_cpu
    gradient = lines_cpu if x.ndim == 3 else conv_cpu
    return [
        module.conv(x, w, b, **how),
        gradient.conv_input_grad(y, w, size=x.shape[2:], **how),
        module.conv_weight_grad(y, x, kernel=w.shape[2:], **how),
    ]


def expected(x, w, b, y, how, dtype) -> list[np.ndarray]:
    torch = require_torch()
    leaves = [torch.tensor(a, dtype=dtype, requires_grad=True) for a in (x, w)]
    function = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    out = function(*leaves, torch.tensor(b, dtype=dtype), **how)
    out.backward(torch.tensor(y, dtype=dtype))
    return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


def channels_last(a: np.ndarray) -> np.ndarray:
    return to_front(np.ascontiguousarray(to_last(a)))


@pytest.mark.parametrize("order", [np.ascontiguousarray, channels_last], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("case", LINES + IMAGES, ids=str)
def test_values_are_those_of_pytorch(case, order):
    x, w, b, y, how = problem(case)
    for value, reference in zip(
        computed(order(x), order(w), b, order(y), how), expected(x, w, b, y, how, require_torch().float64), strict=True
    ):
        assert value.shape == reference.shape
        np.testing.assert_allclose(value, reference, rtol=0, atol=1e-5 * np.abs(reference).max())


@pytest.mark.parametrize("case", [LINES[1], IMAGES[0]], ids=["line", "image"])
def test_weights_and_gradients_that_are_not_finite_do_not_meet_the_border(case):
    x, w, b, y, how = problem(case)
    w[3, 0, 0], y[1, 2, ..., 0] = np.inf, np.nan
    for value, reference in zip(
        computed(x, w, b, y, how), expected(x, w, b, y, how, require_torch().float32), strict=True
    ):
        assert np.isfinite(value).any()
        np.testing.assert_array_equal(np.isfinite(value), np.isfinite(reference))


def test_a_transposed_convolution_of_lines_adds_its_bias_where_no_window_lies():
    _, w, _, y, how = problem(LINES[3])
    plain, added = (
        lines_cpu.conv_input_grad(y, w, b, size=(7,), **how) for b in (None, np.array([1.0, 2.0], np.float32))
    )
    np.testing.assert_allclose(added, plain + [[1], [2]], rtol=1e-6)


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
@pytest.mark.parametrize(("out", "cells", "width", "chosen"), [(64, 3, 8, True), (64, 3, 16, False), (63, 3, 8, False),
                                                             (64, 4, 8, False)])  # fmt: skip
def test_weights_of_few_cells_are_summed_over_patches_in_vectors_of_eight(out, cells, width, chosen, monkeypatch):
    monkeypatch.setattr(_conv_conditions, "vector_width", lambda: width)
    x, y = np.zeros((2, 20, 100), np.float32), np.zeros((2, out, 101 - cells), np.float32)
    how = {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1, "kernel": (cells,)}
    assert KERNELS["lines_cpu:conv_weight_grad"].when((y, x), how) == chosen


@pytest.mark.parametrize(("value", "case"), [(1.0, (3, 3, 40, (33, 31), (3, 3), (1, 1), (1, 1), (1, 1))),
                                             (np.inf, (3, 3, 40, (33, 31), (3, 3), (1, 1), (1, 1), (1, 1))),
                                             (1.0, (2, 4, 33, (20, 18), (4, 2), (2, 2), (1, 0), (1, 2)))], ids=str)  # fmt: skip
def test_weights_of_images_of_few_channels_are_summed_over_patches(value, case):
    torch = require_torch()
    x, w, b, y, how = problem(case)
    y[0, 0, 0, 0] *= value
    found = lines_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how)
    np.testing.assert_allclose(found, expected(x, w, b, y, how, torch.float32)[2], rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_images_of_few_channels_are_chosen_for_it_in_vectors_of_eight(monkeypatch):
    how = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, "kernel": (3, 3)}
    for width, channels, out, last, chosen in ((8, 3, 32, False, True), (16, 3, 32, False, False), (8, 1, 32, False, False),
                                               (8, 5, 32, False, False), (8, 3, 31, False, False),
                                               (8, 3, 32, True, False)):  # fmt: skip
        monkeypatch.setattr(_conv_conditions, "vector_width", lambda width=width: width)
        y, x = (np.zeros((2, n, side, side), np.float32) for n, side in ((out, 30), (channels, 32)))
        y, x = (channels_last(a) if last else a for a in (y, x))
        assert KERNELS["lines_cpu:conv_weight_grad"].when((y, x), how) == chosen


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_they_are_chosen_for_few_channels_and_patches():
    x, w = np.zeros((2, 3, 100), np.float32), np.zeros((30, 3, 10), np.float32)
    how = {"stride": (5,), "padding": (0,), "dilation": (1,), "groups": 1}
    assert portable.conv.kernels, "stated"
    when = KERNELS["lines_cpu:conv"].when
    assert when((x, w, None), how)
    assert not when((x, w[:29], None), how), "the patches are larger than the result"
    assert not when((x[:, :0], w[:, :0], None), how), "nothing to do"
    image, how = (
        np.zeros((2, 8, 32, 32), np.float32),
        {name: value * 2 for name, value in how.items() if name != "groups"},
    )
    when, how["groups"] = KERNELS["volume_cpu:conv"].when, 1
    assert when((image, np.zeros((9, 8, 5, 5), np.float32), None), how), "patches"
    assert not when((image, np.zeros((9, 8, 7, 7), np.float32), None), how), "neither few channels nor patches"
    assert when((image[:, :3], np.zeros((9, 3, 7, 7), np.float32), None), how)
    assert not when((image, np.zeros((9, 8, 5, 5), np.float32), None), {**how, "dilation": (2, 2)})


def test_weights_of_one_channel_may_have_the_strides_of_channels_last():
    """They are contiguous as well, but count as channels-last, as in PyTorch."""
    torch = require_torch()
    rng = np.random.default_rng(0)
    x, w = (np.moveaxis(rng.standard_normal(s, np.float32), -1, 1) for s in ((2, 14, 32, 1), (64, 3, 3, 1)))
    how = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    y = depthwise_cpu.conv(x, w, None, **how)
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    result = torch.nn.functional.conv2d(*theirs)
    result.backward(torch.tensor(y))
    found = (
        depthwise_cpu.conv_input_grad(y, w, size=(14, 32), **how),
        depthwise_cpu.conv_weight_grad(y, x, kernel=(3, 3), **how),
    )
    for value, expected in zip((y, *found), (result.detach(), theirs[0].grad, theirs[1].grad), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-3)
