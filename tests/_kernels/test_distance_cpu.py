"""Distances of pairs of rows, and their gradients, beside PyTorch's and the portable form."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

ORDERS = [0, 0.5, 1, 2, 3, math.inf]
SHAPES = [(5, 3), (7, 33), (50, 32), (30, 77), (6, 2100)]
PAIRS = [((2, 3, 5), (4, 5)), ((4, 33), (6, 33)), ((2, 1, 3, 40), (5, 2, 40)), ((30, 9), (3, 9))]


def results(lib, name: str, p: float, *arrays: np.ndarray) -> list[np.ndarray]:
    """The distances, and the gradients of their weighted sum."""
    tensors = [lib.from_numpy(a.copy()).requires_grad_() for a in arrays]
    out = getattr(lib, name)(*tensors, p)
    (out * lib.arange(out.numel()).to(out.dtype).reshape(out.shape)).sum().backward()
    return [out.detach().numpy(), *[t.grad.numpy() for t in tensors]]


def check(name: str, p: float, dtype: str, *arrays: np.ndarray) -> None:
    arrays = tuple(a.astype(dtype) for a in arrays)
    ours, theirs = (results(lib, name, p, *arrays) for lib in (tdt, require_torch()))
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b[np.isfinite(b)]).max(initial=0))


@pytest.mark.parametrize(("p", "dtype"), [*((p, "float32") for p in ORDERS), (2, "float64"), (3, "float64")])
def test_distances_of_pairs_and_their_gradients_are_pytorchs(p, dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = rng.standard_normal(shape)
        x[1] = x[0]
        check("pdist", p, dtype, x)
    for a, b in PAIRS:
        check("cdist", p, dtype, rng.standard_normal(a), rng.standard_normal(b))


@pytest.mark.parametrize("p", [0, 1, 2, math.inf])
def test_kernels_give_the_portable_distances_of_nan_infinity_and_empty_matrices(p):
    x = np.array([[1.0, np.nan, 2.0], [0.0, 1.0, np.inf], [0.0, 3.0, 4.0], [0.0, 1.0, 4.0]])
    for a in (x, x[:0], x[:1], x[:, :0]):
        t = tdt.from_numpy(a)
        fast = tdt.pdist(t, p).tolist(), tdt.cdist(t, t, p).tolist()
        with tdt.backends.kernels(False):
            portable = tdt.pdist(t, p).tolist(), tdt.cdist(t, t, p).tolist()
        np.testing.assert_equal(fast, portable)


@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("p", [0, 1, 2, math.inf])
def test_gradients_of_infinite_and_nan_distances_are_pytorchs(p, columns):
    for value in (np.inf, -np.inf, np.nan):
        x, y = np.ones((3, columns)), np.zeros((2, columns))
        x[1, 1] = value
        check("cdist", p, "float32", x, y)
        check("cdist", p, "float32", y, x)
        check("pdist", p, "float32", x[:2])


@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_largest_difference_is_that_of_the_numbers_alone(columns, kind):
    x, y = np.ones((3, columns), kind), np.zeros((2, columns), kind)
    x[1, 1], x[2], y[1, 0] = np.nan, np.nan, np.nan
    found = tdt.cdist(tdt.tensor(x), tdt.tensor(y), p=math.inf)
    torch = require_torch()
    expected = torch.cdist(torch.tensor(x), torch.tensor(y), p=math.inf)
    assert found.tolist() == expected.tolist()


def test_each_of_the_largest_differences_has_the_whole_gradient():
    x, y = np.array([[2.0, 1.0, 2.0], [0.0, 3.0, 3.0]]), np.zeros((2, 3))
    check("cdist", math.inf, "float32", x, y)
    check("pdist", math.inf, "float32", np.concatenate([x, y]))


def test_gradients_of_distances_have_gradients():
    x, y = (tdt.rand(n, 4, dtype=tdt.float64, requires_grad=True) for n in (3, 5))
    for p in (1.0, 2.0, 3.0):
        assert tdt.autograd.gradgradcheck(lambda x, p=p: tdt.pdist(x, p), (x,))
        assert tdt.autograd.gradgradcheck(lambda x, y, p=p: tdt.cdist(x, y, p), (x, y))


def test_a_pairs_distance_does_not_depend_on_the_number_of_pairs():
    x = tdt.rand(45, 20)
    whole = tdt.pdist(x)
    for n in (2, 9, 12, 40):
        assert tdt.equal(
            tdt.pdist(x[:n]),
            tdt.cat(
                [
                    whole[start : start + n - 1 - i]
                    for i, start in enumerate(np.cumsum([0, *range(44, 44 - n + 1, -1)]).tolist())
                    if i < n - 1
                ]
            ),
        )
