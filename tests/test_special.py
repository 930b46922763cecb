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


ENDS = [-np.inf, -2.0, -1.5, -0.0, 0.0, 1e-45, 0.5, 1.0, 1.5, 2.0, 3.0, 30.0, np.inf, np.nan]


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"])
def test_bessel_functions_of_special_values_are_pytorchs(name: str):
    x = np.array(ENDS, np.float32)
    ours, theirs = (getattr(lib.special, name)(lib.from_numpy(x)).numpy() for lib in (tdt, require_torch()))
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    np.testing.assert_array_equal(np.signbit(ours[theirs == 0]), np.signbit(theirs[theirs == 0]))


def test_zeta_of_special_values_is_pytorchs():
    x, q = (np.ascontiguousarray(a) for a in np.meshgrid(np.array(ENDS, np.float32), np.array(ENDS, np.float32)))
    ours, theirs = (lib.special.zeta(lib.from_numpy(x), lib.from_numpy(q)).numpy() for lib in (tdt, require_torch()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=2e-45)


def test_zeta_of_float32_is_rounded_once():
    rng = np.random.default_rng(0)
    n = 5000
    whole = rng.integers(2, 12, n)
    for x, q in (
        (1 + 10 ** rng.uniform(-6, 1, n), 10 ** rng.uniform(-3, 2, n)),
        (10 ** rng.uniform(0.01, 2.5, n), 10 ** rng.uniform(-1, 30, n)),
        (whole, -rng.uniform(0, 60, n)),
        (whole, rng.integers(1, 50, n)),
    ):
        x, q = x.astype(np.float32), q.astype(np.float32)
        exact = scipy.special.zeta(x.astype(np.float64), q.astype(np.float64))
        found = tdt.special.zeta(tdt.from_numpy(x), tdt.from_numpy(q)).numpy()
        normal = (abs(exact) > 1.2e-38) & (abs(exact) < 3e38)
        assert np.max(abs(found - exact)[normal] / np.spacing(abs(exact[normal].astype(np.float32)))) <= 0.51


def test_nextafter_is_the_processors_for_every_exponent():
    rng = np.random.default_rng(0)
    bits = np.concatenate(
        [rng.integers(0, 1 << 32, 20_000), np.arange(0, 1 << 32, 1 << 23), np.arange(0, 1 << 32, 1 << 23) - 1]
    )
    x = np.concatenate([(bits % (1 << 32)).astype(np.uint32).view(np.float32), np.array(ENDS, np.float32)])
    for y in (x[::-1], np.float32(np.inf), np.float32(-np.inf), np.float32(0.0), np.float32(-0.0), x):
        y = np.ascontiguousarray(np.broadcast_to(y, x.shape))
        found = tdt.nextafter(tdt.from_numpy(x), tdt.from_numpy(y)).numpy()
        with np.errstate(all="ignore"):
            exact = np.nextafter(x, y)
        np.testing.assert_array_equal(found, exact)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(exact[found == 0]))


POLYNOMIALS = sorted(name for name in tdt.special.__all__ if "polynomial" in name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (7,), (37, 27), (2, 333)])
def test_polynomials_have_the_same_bits_with_kernels_and_without(shape: tuple, dtype: str):
    rng = np.random.default_rng(0)
    x, n = np.asarray(rng.uniform(-1.2, 1.2, shape), dtype), np.asarray(rng.integers(-2, 12, shape), dtype)
    for name in POLYNOMIALS:
        for degrees in (n, n[:1] if shape else n):
            operands = tdt.from_numpy(x), tdt.from_numpy(degrees)
            fast = getattr(tdt.special, name)(*operands).numpy()
            with tdt.backends.kernels(False):
                np.testing.assert_array_equal(fast, getattr(tdt.special, name)(*operands).numpy())
            turned = getattr(tdt.special, name)(operands[0].T, operands[1].T).numpy()
            np.testing.assert_array_equal(turned, fast.T)


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_slope_of_sinc_is_0_where_a_square_underflows(create_graph: bool):
    x = tdt.tensor([0.0, 1e-25, -1e-40], requires_grad=True)
    [slope] = tdt.autograd.grad(tdt.sinc(x).sum(), x, create_graph=create_graph)
    assert slope.tolist() == [0, 0, 0]
