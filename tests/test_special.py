"""The namespace `tdt.special`: PyTorch's names, and values beside SciPy's."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.special

import tdt
from tests.helpers import require_torch


def test_the_names_are_pytorchs():
    torch = require_torch()
    assert {name for name in tdt.special.__all__ if not callable(getattr(torch.special, name, None))} == set()


def test_aliases_are_the_same_function():
    for name, other in (("expit", "sigmoid"), ("gammaln", "lgamma"), ("psi", "digamma"), ("gammainc", "igamma"),
                        ("gammaincc", "igammac"), ("multigammaln", "mvlgamma"), ("erf", "erf")):  # fmt: skip
        # Each namespace has a function of its own, whose errors name it.
        assert inspect.unwrap(getattr(tdt.special, name)) is inspect.unwrap(getattr(tdt, other))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_far_out_are_those_of_scipy(dtype: str):
    x = np.array([-300.0, -40.0, -1e-8, 0.0, 1e-8, 5.0, 40.0, 300.0], dtype)
    for name in ("erfcx", "log_ndtr", "ndtr", "i0e", "i1e", "entr"):
        actual = getattr(tdt.special, name)(tdt.from_numpy(x)).numpy()
        assert actual.dtype == x.dtype
        np.testing.assert_allclose(actual, getattr(scipy.special, name)(x), rtol=1e-6, atol=0)


def test_a_derivative_that_is_not_known_is_refused_and_the_other_is_right():
    x, q = tdt.tensor([2.0, 3.0], requires_grad=True), tdt.tensor([1.0, 2.0], requires_grad=True)
    tdt.special.zeta(x.detach(), q).sum().backward()
    np.testing.assert_allclose(
        q.grad.numpy(), [-2 * scipy.special.zeta(3, 1), -3 * scipy.special.zeta(4, 2)], rtol=1e-6
    )
    for function, name in ((tdt.special.zeta, "zeta"), (tdt.special.gammainc, "igamma: input")):
        with pytest.raises(RuntimeError, match=f"the derivative for '{name}' is not implemented"):
            function(x, q).sum().backward()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_at_the_ends_are_pytorchs(dtype: str):
    torch = require_torch()
    x = np.array([-np.inf, -1.0, -0.0, 0.0, 103.0, 1e10, 1e30, np.inf, np.nan], dtype)
    for name in ("gammaln", "airy_ai"):
        ours, theirs = (getattr(lib.special, name)(lib.from_numpy(x.copy())).numpy() for lib in (tdt, torch))
        np.testing.assert_allclose(ours[1:], theirs[1:], rtol=1e-3, atol=1e-30)
        assert np.isnan(theirs[0]) or ours[0] == theirs[0]
