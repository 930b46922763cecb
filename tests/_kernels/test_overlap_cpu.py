"""Input gradients of small images, whose windows' cells are added where they lay: PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest

from tdt import _kernels
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
    (70, 512, 512, (7, 5), (3, 3), (2, 3), (0, 1), (2, 1)),  # in several parts
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_pytorch(case):
    x, w, b, y, how = problem(case)
    gradient = expected(x, w, b, y, how, None)[1]
    found = overlap_cpu.conv_input_grad(y, w, size=x.shape[2:], **how)
    np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-4)
    bias = np.arange(x.shape[1], dtype=np.float32)
    with_bias = overlap_cpu.conv_input_grad(y, w, bias, size=x.shape[2:], **how)
    np.testing.assert_array_equal(with_bias, found + bias[:, None, None])


@pytest.mark.skipif(not _kernels.enabled(), reason="NumPy's products have other bits in other sizes")
@pytest.mark.parametrize("case", [CASES[1], CASES[-1]], ids=str)
def test_a_sample_has_the_same_bits_alone_and_in_a_batch_on_any_number_of_threads(case):
    x, w, _, y, how = problem(case)
    before, results = _pool.get_num_threads(), []
    for threads in (1, 3):
        _pool.set_num_threads(threads)
        results.append(overlap_cpu.conv_input_grad(y, w, size=x.shape[2:], **how))
    _pool.set_num_threads(before)
    np.testing.assert_array_equal(*results)
    for n in (0, 17, len(x) - 1):
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
    assert overlapping_windows((y, w, None), {"size": x.shape[2:], **how})
    last = np.ascontiguousarray(y.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert not overlapping_windows((last, w, None), {"size": x.shape[2:], **how})
    x, w, _, y, how = problem((2, 16, 120, (14, 14), (5, 5), (1, 1), (2, 2), (1, 1)))
    assert not overlapping_windows((y, w, None), {"size": x.shape[2:], **how}), "as many windows as pixels"
    np.testing.assert_allclose(
        overlap_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
        conv_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_few_windows_with_a_stride_and_many_weights_are_computed_so():
    how = {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    weights = np.zeros((512, 256, 4, 4), np.float32)
    for count, side, w, chosen in ((1, 8, weights, True), (9, 8, weights, True), (1, 9, weights, False),
                                   (1, 4, weights[:, :200], False)):  # fmt: skip
        y = np.zeros((count, len(w), side, side), np.float32)
        assert overlapping_windows((y, w, None), {"size": (2 * side, 2 * side), **how}) == chosen
