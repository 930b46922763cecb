"""Input gradients of small images, whose windows' cells are added where they lay: PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest

from tdt import _kernels
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _pool, conv_cpu, overlap_cpu, overlapping_windows
from tests._kernels.test_few_channels import expected, problem
from tests.helpers import require_torch

# (samples, channels in and out, size, kernel, stride, padding, dilation)
CASES = [
    (3, 16, 120, (14, 14), (5, 5), (1, 1), (0, 0), (1, 1)),
    (60, 20, 50, (12, 9), (5, 3), (1, 1), (0, 1), (1, 1)),  # in several parts
    (2, 17, 33, (13, 11), (3, 3), (1, 1), (1, 0), (2, 3)),
    (1, 5, 7, (5, 5), (5, 5), (1, 1), (0, 0), (1, 1)),  # one window
    (2, 24, 30, (8, 8), (7, 7), (1, 1), (3, 1), (1, 1)),
    (3, 260, 520, (9, 8), (4, 4), (2, 2), (1, 1), (1, 1)),  # few windows of many weights
    (3, 512, 512, (7, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 3, 64, (33, 29), (11, 11), (4, 4), (5, 5), (1, 1)),  # few channels
    (70, 512, 512, (7, 5), (3, 3), (2, 3), (0, 1), (2, 1)),  # in several parts
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_pytorch(case):
    x, w, b, y, how = problem(case)
    gradient = expected(x, w, b, y, how, None)[1]
    found = overlap_cpu.conv_input_grad(y, w, size=x.shape[2:], **how)
    np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-4)
    channels_last = [to_front(np.ascontiguousarray(to_last(a))) for a in (y, w)]
    last = overlap_cpu.conv_input_grad(*channels_last, size=x.shape[2:], **how)
    assert to_last(last).flags.c_contiguous
    differ = 0 if _kernels.enabled() else 1e-4  # NumPy's products, by where matrices lie
    np.testing.assert_allclose(last, found, rtol=0, atol=differ)
    bias = np.arange(x.shape[1], dtype=np.float32)
    with_bias = overlap_cpu.conv_input_grad(y, w, bias, size=x.shape[2:], **how)
    np.testing.assert_allclose(with_bias, found + bias[:, None, None], rtol=0, atol=differ)


@pytest.mark.skipif(not _kernels.enabled(), reason="NumPy's products have other bits in other sizes")
@pytest.mark.parametrize("case", [CASES[1], *CASES[-3:]], ids=str)
def test_a_sample_has_the_same_bits_alone_and_in_a_batch_on_any_number_of_threads(case):
    x, w, _, y, how = problem(case)
    before, results = _pool.get_num_threads(), []
    for threads in (1, 3):
        _pool.set_num_threads(threads)
        results.append(overlap_cpu.conv_input_grad(y, w, size=x.shape[2:], **how))
    _pool.set_num_threads(before)
    np.testing.assert_array_equal(*results)
    for n in (0, len(x) // 2, len(x) - 1):
        alone = overlap_cpu.conv_input_grad(y[n : n + 1], w, size=x.shape[2:], **how)
        np.testing.assert_array_equal(alone[0], results[0][n])


def test_errors_are_at_most_three_times_pytorchs():
    torch = require_torch()
    x, w, b, y, how = problem((4, 32, 64, (14, 14), (5, 5), (1, 1), (0, 0), (1, 1)))
    exact, theirs = (expected(x, w, b, y, how, dtype)[1] for dtype in (torch.float64, torch.float32))
    ours = overlap_cpu.conv_input_grad(y, w, size=x.shape[2:], **how)
    assert np.abs(ours - exact).max() <= 3 * np.abs(theirs - exact).max()


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_small_images_without_padding_are_computed_so():
    x, w, _, y, how = problem(CASES[0])
    last = np.ascontiguousarray(y.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for each in (y, last):
        assert overlapping_windows((each, w, None), {"size": x.shape[2:], **how})
    x, w, _, y, how = problem((2, 16, 120, (14, 14), (5, 5), (1, 1), (2, 2), (1, 1)))
    assert not overlapping_windows((y, w, None), {"size": x.shape[2:], **how}), "as many windows as pixels"
    np.testing.assert_allclose(
        overlap_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
        conv_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_images_of_few_channels_are_computed_so():
    for channels, chosen in ((1, True), (4, True), (5, False)):
        _, w, _, y, how = problem((1, channels, 16, (40, 40), (11, 11), (4, 4), (5, 5), (1, 1)))
        last = np.ascontiguousarray(y.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        for each in (y, last):
            assert overlapping_windows((each, w, None), {"size": (40, 40), **how}) == chosen


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_few_windows_with_many_weights_are_computed_so():
    weights = np.zeros((512, 256, 4, 4), np.float32)
    for stride, count, side, w, chosen in (
        (1, 1, 8, weights, True), (1, 9, 8, weights, True), (1, 1, 12, weights, False),
        (2, 1, 8, weights, True), (2, 9, 8, weights, True), (2, 1, 12, weights, False),
        (2, 1, 8, weights[:, :100], False), (2, 1, 2, weights[:100, :100], False),
    ):  # fmt: skip
        how = {"stride": (stride, stride), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
        y, size = np.zeros((count, len(w), side, side), np.float32), (stride * side + 2 - stride,) * 2
        assert overlapping_windows((y, w, None), {"size": size, **how}) == chosen
    far = {"size": (8, 8), "stride": (1, 1), "padding": (6, 6), "dilation": (4, 4), "groups": 1}
    y = np.zeros((1, 512, 8, 8), np.float32)
    assert not overlapping_windows((y, weights, None), far), "most cells are outside of the image"


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize(
    ("case", "chosen"),
    [
        ((1, 512, 512, 64, 7), True),  # many weights
        ((2, 3, 16, 100, 16), True),  # few channels
        ((8, 64, 64, 64, 7), False),
    ],
    ids=str,
)
def test_lines_of_many_weights_or_few_channels_are_computed_so(case, chosen):
    count, channels, out, length, cells = case
    rng = np.random.default_rng(0)
    y = rng.standard_normal((count, out, length - cells + 3), np.float32)
    w = rng.standard_normal((out, channels, cells), np.float32)
    how = {"size": (length,), "stride": (1,), "padding": (1,), "dilation": (1,), "groups": 1}
    kernel = _kernels.KERNELS["overlap_cpu:conv_input_grad"]
    assert kernel.when((y, w, None), how) == chosen
    found = kernel.function(y, w, None, **how)
    assert found.flags.c_contiguous
    scale = np.abs(found).max()
    np.testing.assert_allclose(found, conv_cpu.conv_input_grad(y, w, **how), rtol=0, atol=1e-5 * scale)
