"""Convolutions with few windows as products of patches: PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest

from tdt import _kernels, backends
from tdt._backend.layout import output_is_channels_last, to_front, to_last
from tdt._kernels import _conv_conditions, few_windows, patches_cpu
from tests._kernels.test_few_channels import channels_last, expected, problem
from tests.helpers import require_torch

# (samples, channels in and out, size, kernel, stride, padding, dilation)
CASES = [
    (1, 40, 33, (5,), (3,), (1,), (1,), (1,)),
    (3, 30, 40, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 30, 40, (9, 8), (3, 2), (2, 1), (1, 1), (1, 2)),
    (2, 12, 35, (3, 4, 5), (3, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 1)),
    (40, 20, 40, (6, 6), (5, 5), (2, 2), (2, 2), (1, 1)),
    (9, 30, 40, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)),  # in several parts
    (2, 20, 40, (1, 1), (3, 3), (1, 1), (1, 1), (1, 1)),  # most cells are on the border
    (2, 20, 40, (12, 13), (3, 3), (1, 1), (0, 0), (4, 5)),
]


ORDERS = pytest.mark.parametrize("order", [np.ascontiguousarray, lambda a: to_front(np.ascontiguousarray(to_last(a)))])


@ORDERS
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_pytorch(case, order):
    x, w, b, y, how = problem(case)
    result, _, gradient = expected(x, w, b, y, how, None)
    x, w, y = map(order, (x, w, y))
    found = patches_cpu.conv(x, w, b, **how)
    np.testing.assert_allclose(found, result, rtol=1e-4, atol=1e-4)
    assert (to_last(found) if output_is_channels_last(x, w) else found).flags.c_contiguous
    found = patches_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how)
    np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not _kernels.enabled(), reason="NumPy's products have other bits in other sizes")
@ORDERS
def test_a_sample_has_the_same_bits_alone_and_in_a_batch(order):
    x, w, b, _, how = problem(CASES[5])
    x, w = order(x), order(w)
    whole = patches_cpu.conv(x, w, b, **how)
    for n in range(len(x)):
        np.testing.assert_array_equal(patches_cpu.conv(x[n : n + 1], w, b, **how)[0], whole[n])


def test_errors_are_at_most_three_times_pytorchs():
    torch = require_torch()
    x, w, b, y, how = problem((4, 64, 64, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1)))
    exact, theirs = (expected(x, w, b, y, how, dtype) for dtype in (torch.float64, torch.float32))
    ours = [patches_cpu.conv(x, w, b, **how), None, patches_cpu.conv_weight_grad(y, x, kernel=(3, 3), **how)]
    for k in (0, 2):
        assert np.abs(ours[k] - exact[k]).max() <= 3 * np.abs(theirs[k] - exact[k]).max()


@ORDERS
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_does_not_meet_the_border(value, order):
    x, w, b, y, how = problem(CASES[1])
    w[3, 2, 0, 0] = y[1, 4, 0, 0] = value
    result, _, gradient = expected(x, w, b, y, how, None)
    x, w, y = map(order, (x, w, y))
    np.testing.assert_allclose(patches_cpu.conv(x, w, b, **how), result, rtol=1e-4, atol=1e-4)
    found = patches_cpu.conv_weight_grad(y, x, kernel=(3, 3), **how)
    np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_small_images_with_many_weights_are_computed_so(monkeypatch):
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    weights = np.zeros((256, 256, 3, 3), np.float32)
    of = lambda count, channels, side: np.zeros((count, channels, side, side), np.float32)  # noqa: E731
    with backends.winograd(False):
        for count in (1, 100):
            assert few_windows((of(count, 256, 6), weights, None), how)
        assert not few_windows((of(1, 256, 7), weights, None), how), "too many windows"
        assert not few_windows((of(1, 256, 4), weights[:100], None), how), "too few weights"
        assert not few_windows((of(1, 256, 4).transpose(0, 1, 3, 2), weights, None), how)
        x, w = (to_front(np.zeros(shape, np.float32)) for shape in ((1, 4, 4, 256), (256, 3, 3, 256)))
        assert few_windows((x, w, None), how)
        assert not few_windows((of(1, 256, 4), w, None), how)
        assert not few_windows((to_front(np.zeros((1, 7, 7, 256), np.float32)), w, None), how), "too many windows"
        x, w = (to_front(np.zeros(shape, np.float32)) for shape in ((1, 7, 7, 512), (512, 3, 3, 512)))
        assert few_windows((x, w, None), how), "of so many weights more windows"
        gradient = {**how, "kernel": (3, 3)}
        assert few_windows((of(7, 256, 4), of(7, 128, 4)), gradient)
        for width, most in (
            (16, 7),
            (8, 18),
        ):  # of eight numbers, 16 registers hold few sums beside the cells of windows
            monkeypatch.setattr(_conv_conditions, "vector_width", lambda width=width: width)
            for count in (most, most + 1):
                assert few_windows((of(count, 256, 4), of(count, 128, 4)), gradient) == (count == most)
        last = [channels_last(of(8, channels, 4)) for channels in (256, 128)]
        assert not few_windows(last, gradient)
