"""Gradients of convolutions of volumes with few channels, as those of images: PyTorch's values."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tdt.nn.functional  # noqa: F401  (its ops name the kernels)
from tdt._kernels import KERNELS, _pool, conv_cpu, depth_cpu
from tests.helpers import require_torch

# (samples, channels in and out, size, kernel, stride, padding, dilation)
CASES = [
    (2, 1, 16, (6, 7, 16), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    (3, 3, 20, (4, 9, 14), (3, 7, 7), (1, 2, 2), (1, 3, 3), (1, 1, 1)),
    (1, 4, 5, (9, 6, 23), (4, 2, 3), (1, 1, 2), (3, 0, 1), (2, 1, 1)),
    (2, 2, 9, (5, 8, 8), (5, 1, 3), (1, 1, 1), (1, 2, 2), (1, 2, 1)),
]


def problem(case: tuple) -> tuple:
    """x, w, how they are convolved, a gradient of the result; in float64 the result's gradients."""
    torch = require_torch()
    count, channels, out, size, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s, np.float32) for s in ((count, channels, *size), (out, channels, *kernel)))
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 1}
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w)]
    result = torch.nn.functional.conv3d(*leaves, None, **how)
    y = rng.standard_normal(result.shape).astype(np.float32)
    result.backward(torch.tensor(y, dtype=torch.float64))
    return x, w, how, y, [leaf.grad.numpy() for leaf in leaves]


def both(x, w, how, y) -> list[np.ndarray]:
    return [
        depth_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
        depth_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how),
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_pytorch(case, monkeypatch):
    x, w, how, y, references = problem(case)
    results = both(x, w, how, y)
    for value, reference in zip(results, references, strict=True):
        np.testing.assert_allclose(value, reference, rtol=0, atol=1e-5 * np.abs(reference).max())
        assert value.flags.c_contiguous
    monkeypatch.setattr(depth_cpu, "COPIED", 1)  # sample by sample
    monkeypatch.setattr(depth_cpu, "SUMMED", 1)
    again = both(x, w, how, y)
    np.testing.assert_array_equal(again[0], results[0])
    np.testing.assert_allclose(again[1], results[1], rtol=0, atol=1e-5 * np.abs(results[1]).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_strided_weight_gradients_are_right(case):
    count, channels, out, size, kernel, _, padding, dilation = case
    x, w, how, y, (_, reference) = problem((count, channels, out, size, kernel, (3, 1, 2), padding, dilation))
    found = depth_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how)
    np.testing.assert_allclose(found, reference, rtol=0, atol=1e-5 * np.abs(reference).max())


def test_an_input_gradient_adds_its_bias():
    x, w, how, y, _ = problem(CASES[1])
    plain, added = (
        depth_cpu.conv_input_grad(y, w, b, size=x.shape[2:], **how) for b in (None, np.arange(3, dtype=np.float32))
    )
    np.testing.assert_allclose(added, plain + np.arange(3)[:, None, None, None], rtol=0, atol=1e-4)


def test_bits_do_not_depend_on_the_number_of_threads():
    x, w, how, y, _ = problem(CASES[0])
    before, found = _pool.get_num_threads(), set()
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        found.add(b"".join(a.tobytes() for a in both(x, w, how, y)))
    _pool.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_does_not_meet_the_border(value):
    x, w, how, y, _ = problem(CASES[0])
    w[3, 0, 0, 1, 1], y[0, 2, 0, 0, 0] = value, value
    with np.errstate(invalid="ignore"):
        for found, expected in zip(both(x, w, how, y), (
            conv_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
            conv_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how),
        ), strict=True):  # fmt: skip
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_they_are_chosen_for_few_channels():
    of_input, of_weights = (KERNELS[f"depth_cpu:conv_{name}_grad"].when for name in ("input", "weight"))
    for channels, width, chosen in ((1, 16, (True, True)), (3, 16, (True, False)), (5, 16, (False, False)),
                                    (1, 9, (False, False))):  # fmt: skip
        x, w = np.zeros((2, channels, 6, 7, width), np.float32), np.zeros((8, channels, 3, 3, 3), np.float32)
        y, how = np.zeros((2, 8, 6, 7, width), np.float32), {"stride": (1, 1, 1), "padding": (1, 1, 1), "dilation": (1, 1, 1),
                                                           "groups": 1}  # fmt: skip
        found = of_input((y, w, None), {"size": (6, 7, width), **how}), of_weights((y, x), {"kernel": (3, 3, 3), **how})
        assert found == chosen
