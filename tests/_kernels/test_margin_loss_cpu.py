"""The margin loss of many classes in one call beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()
SHAPES = [(1, 1), (3, 5), (7, 33), (64, 256), (5, 1500)]


def found(lib, x, t, weight, g, **how):
    """The loss and its gradient, of the call after those that are remembered."""
    x = lib.from_numpy(x).requires_grad_()
    weight = weight if weight is None else lib.from_numpy(weight)
    for _ in range(3):
        loss = lib.nn.functional.multi_margin_loss(x, lib.from_numpy(t), weight=weight, **how)
        (grad,) = lib.autograd.grad(loss, x, lib.from_numpy(g))
    return loss.detach().numpy(), grad.numpy()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_and_gradients_are_as_near_to_float64_as_pytorchs(shape, p, reduction, weighted):
    rng = np.random.default_rng(3)
    x, t = rng.standard_normal(shape, np.float32), rng.integers(0, shape[1], shape[0])
    weight = rng.random(shape[1], np.float32) if weighted else None
    g = np.asarray(rng.random(shape[0] if reduction == "none" else ()), np.float32)
    how = {"p": p, "margin": 0.7, "reduction": reduction}
    truth = found(torch, x.astype(float), t, weight if weight is None else weight.astype(float), g.astype(float), **how)
    with tdt.backends.kernels(False):
        portable = found(tdt, x, t, weight, g, **how)
    for exact, own, without, theirs in zip(
        truth, found(tdt, x, t, weight, g, **how), portable, found(torch, x, t, weight, g, **how), strict=True
    ):
        allowed = 3 * np.abs(theirs - exact).max() + np.finfo(np.float32).eps * np.abs(exact).max()
        for each in (own, without):
            assert each.dtype == theirs.dtype and each.shape == theirs.shape
            assert np.abs(each - exact).max() <= allowed


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("p", [1, 2])
def test_nan_infinity_and_a_score_at_the_margin_count_as_in_pytorch(kernels, p):
    x = np.array([[1, np.nan, 2, np.inf, 0]] * 5, np.float32)
    t, g = np.arange(5), np.ones(5, np.float32)
    with tdt.backends.kernels(kernels):
        result = found(tdt, x, t, None, g, p=p, reduction="none")
    for own, theirs in zip(result, found(torch, x, t, None, g, p=p, reduction="none"), strict=True):
        np.testing.assert_array_equal(own, theirs)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("bad", [-1, 5])
def test_a_class_out_of_range_is_refused_by_a_remembered_call_too(kernels, bad):
    with tdt.backends.kernels(kernels):
        for x in (tdt.randn(3, 5), tdt.randn(5, 3).T, tdt.randn(3, 5, requires_grad=True)):
            for _ in range(3):
                tdt.nn.functional.multi_margin_loss(x, tdt.tensor([0, 4, 2]))
            with pytest.raises(RuntimeError, match="target out of range: there are 5 classes, 0 to 4"):
                tdt.nn.functional.multi_margin_loss(x, tdt.tensor([0, bad, 2]))


def test_second_gradients_are_those_of_finite_differences():
    x, t = tdt.randn(3, 5, dtype=tdt.float64, requires_grad=True), tdt.tensor([0, 1, 2])
    weight = tdt.rand(5, dtype=tdt.float64)
    for p in (1, 2):
        loss = lambda x, p=p: tdt.nn.functional.multi_margin_loss(x, t, p, weight=weight)  # noqa: E731
        assert tdt.autograd.gradcheck(loss, (x,)) and tdt.autograd.gradgradcheck(loss, (x,))


@pytest.mark.parametrize("bad", [-1, 7])
def test_a_class_that_changed_since_the_loss_is_refused(bad):
    t = np.zeros(3, np.int64)
    loss = tdt.nn.functional.multi_margin_loss(tdt.randn(3, 7, requires_grad=True), tdt.from_numpy(t))
    t[1] = bad
    with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
        loss.backward()
