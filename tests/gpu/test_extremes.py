"""Extremes along a dimension on a GPU and their indices, in one launch each way."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import fold_gpu
from tests.gpu.test_kernels import launched, numbers

pytestmark = pytest.mark.usefixtures("all_threads")
LONG = fold_gpu.PART + 70  # elements that several blocks share
FUNCTIONS = {"max": tdt.max, "min": tdt.min}
CASES = [((7,), 0), ((5, 7), 1), ((4, 70), -1), ((70, 5), 0), ((2, 41, 33), 1), ((1, LONG), 1), ((LONG, 2), 0)]


def with_ties(*shape: int) -> np.ndarray:
    return np.round(numbers(*shape) * 2) / 2


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("shape", "dim"), CASES)
def test_extremes_and_the_indices_of_the_first(shape: tuple, dim: int, name: str, counted):
    function, places = FUNCTIONS[name], {"max": tdt.argmax, "min": tdt.argmin}[name]
    for dtype in (tdt.float32, tdt.float64):
        x = tdt.tensor(with_ties(*shape)).to(dtype)
        for here in (x, x.mT.contiguous().mT if x.ndim > 1 else x):
            there = here.cuda()
            for keepdim in (False, True):
                found, right = function(there, dim, keepdim), function(here, dim, keepdim)
                assert type(found) is type(right)
                for got, want in zip(found, right, strict=True):
                    assert got.stride() == want.stride()
                    assert tdt.equal(got.cpu(), want)
                assert tdt.equal(places(there, dim, keepdim).cpu(), right.indices)
            assert tdt.equal(places(there).cpu(), places(here))
            for _ in range(3):  # decided on, noted, repeated
                assert launched(counted, lambda: function(there, dim)) == ["fold_place"]  # noqa: B023
                assert launched(counted, lambda: places(there, dim)) == ["fold_place"]  # noqa: B023


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_comes_first_and_infinities_are_numbers(name: str):
    inf, nan = np.inf, np.nan
    x = tdt.tensor([[1.0, nan, 2.0, nan], [-inf, -inf, -inf, -inf], [inf, 0.0, inf, -inf], [-0.0, 0.0, 0.0, -0.0]])
    found, right = FUNCTIONS[name](x.cuda(), 1), FUNCTIONS[name](x, 1)
    assert tdt.equal(found.indices.cpu(), right.indices)
    np.testing.assert_array_equal(found.values.cpu().numpy(), right.values.numpy())
    assert tdt.equal(tdt.signbit(found.values).cpu(), tdt.signbit(right.values))


@pytest.mark.parametrize(("shape", "dim"), [((7,), 0), ((5, 7), 1), ((4, 3, 6), 1), ((3, 4), 0)])
def test_gradients_go_to_the_selected_elements_in_one_launch(shape: tuple, dim: int, counted):
    x = tdt.tensor(with_ties(*shape)).float()
    for function in (tdt.max, tdt.min, lambda x, dim, keepdim: tdt.kthvalue(x, 2, dim, keepdim), tdt.median):
        for keepdim in (False, True):
            results = []
            for device in ("cpu", "cuda"):
                leaf = x.to(device, copy=True).requires_grad_()
                for _ in range(4):  # decided on, noted, repeated
                    leaf.grad = None
                    values = function(leaf, dim, keepdim)[0]
                    (values * values).sum().backward()
                results.append(leaf.grad.cpu())
            assert tdt.equal(*results)
    leaf = x.cuda().requires_grad_()
    values = leaf.max(dim).values
    g = tdt.ones_like(values)
    assert launched(counted, lambda: tdt.autograd.grad(values, [leaf], g)) == ["place_selected"]
    assert tdt.equal(
        tdt.autograd.grad(leaf.max(dim).values.sum(), [leaf])[0].cpu(),
        (tdt.autograd.grad(leaf.max(dim)[0], [leaf], g)[0]).cpu(),
    )
