"""Functions of expressions: their error in units in the last place over all float32 numbers, against float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tdt
from tdt import _kernels
from tdt._kernels import _exponential, functions
from tdt._kernels.expression import Expression
from tdt._kernels.generated import Elementwise
from tests.helpers import require_torch

# The largest error of each in ulp: the figures of the docstrings.
BOUNDS = {
    "exp": 1.0, "expm1": 1.4, "exp2": 1.0, "tanh": 1.5, "log": 0.9, "log1p": 1.5, "erf": 1.0, "sqrt": 0.5, "log2": 1.1,
    "log10": 1.3, "sinh": 1.2, "cosh": 1.2, "arcsinh": 0.6, "arccosh": 0.6, "arctanh": 0.6, "sin": 0.9, "cos": 0.9, "tan": 1.5,
    "arcsin": 1.2, "arccos": 1.0, "arctan": 1.2, "erfc": 1.6, "erfcx": 0.6, "erfinv": 1.5, "ndtr": 0.6, "log_ndtr": 1.8,
    "gammaln": 0.6, "i0": 0.6, "i0e": 0.6, "i1": 0.6, "i1e": 0.6, "k0": 0.6, "k0e": 0.6, "k1": 0.6, "k1e": 0.6,
}  # fmt: skip
STEP = 30_011  # every so many of the 2^32 float32 numbers
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.17549435e-38, 88.72284, 88.8, -87.4, -103.9, -104.2,
           1, -1, 2, 0.5, 89.4, -89.4, 89.5, 16384, -16385,
           3.4e38, 12742.3, 102573.0, 5.0, 0.625, -0.625, 127.9, 128, -149, -150, -1.0000001, -0.99999994]  # fmt: skip

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")


@pytest.mark.parametrize("name", BOUNDS)
def test_the_error_is_within_the_bound_and_special_values_are_exact(name):
    x = np.concatenate([np.arange(0, 1 << 32, STEP, dtype=np.uint64).astype(np.uint32).view(np.float32),
                        np.array(SPECIAL, np.float32)])  # fmt: skip
    with np.errstate(all="ignore"):
        exact = getattr(np, name, getattr(scipy.special, name, None))(x.astype(np.float64))
        found = Elementwise(name, lambda xp, x: getattr(xp, name)(x))((x,))
        rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))
    zero = (rounded == 0) & ((name != "erfinv") | (x != 0))  # SciPy's inverse error function of -0 is 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(rounded[zero]))
    finite = np.isfinite(rounded)
    ulp = np.maximum(np.spacing(np.abs(rounded[finite])), np.float32(1e-45)).astype(np.float64)
    assert np.max(np.abs(found[finite] - exact[finite]) / ulp) <= BOUNDS[name]


def test_square_roots_are_rounded_to_the_nearest():
    """Of all fractions, for an even and an odd exponent, and of every exponent, where one is computed in another way."""
    root = Elementwise("root", lambda xp, x: xp.sqrt(x))
    fractions = np.arange(1 << 24, dtype=np.uint32) + np.float32(1).view(np.uint32)
    exponents = np.random.default_rng(0).integers(0, 1 << 31, 1 << 18, dtype=np.uint32)
    for bits in (fractions, exponents):
        x = bits.view(np.float32)
        np.testing.assert_array_equal(root((x,)), np.sqrt(x))


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1", "airy_ai"])
def test_functions_that_oscillate_are_rounded_once_near_and_far(name):
    exact_of = getattr(scipy.special, name, lambda x: scipy.special.airy(x)[0])
    far = 150 if name == "airy_ai" else 1e4
    sizes = np.concatenate([np.arange(1, 30, 0.0037), np.geomspace(1e-30, far, 5000)]).astype(np.float32)
    x = sizes if name[0] == "y" else np.concatenate([sizes, -sizes])
    with np.errstate(all="ignore"):
        found = Elementwise(name, lambda xp, x: getattr(xp, name)(x))((x,))
        exact = exact_of(x.astype(np.float64))
        exact[np.isnan(exact)] = 0  # SciPy's Airy function from 104 on
        rounded = exact.astype(np.float32)
    ulp = np.maximum(np.spacing(np.abs(rounded)), np.float32(1e-45)).astype(np.float64)
    assert np.max(np.abs(found - exact)[np.isfinite(rounded)] / ulp[np.isfinite(rounded)]) <= 1.0
    np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))


# Of 1e10, 16385.3 and 3e38 as float32 numbers, by mpmath with 120 digits.
LARGE_BESSEL = {
    "j0": (2.175591750246892e-06, -0.00277342303665539, 1.2723538528194067e-20),
    "j1": (-7.676508175684158e-06, -0.0055823088538722995, 4.427389153129226e-20),
    "y0": (-7.676508175792937e-06, -0.0055822242198383465, 4.427389153129226e-20),
    "y1": (-2.175591750630717e-06, 0.0027732526955071427, -1.2723538528194067e-20),
}


@pytest.mark.parametrize("name", LARGE_BESSEL)
def test_bessel_functions_of_large_numbers_are_exact(name):
    x = np.array([1e10, 16385.3, 3e38], np.float32)
    found = Elementwise(name, lambda xp, x: getattr(xp, name)(x))((x,))
    np.testing.assert_allclose(found, LARGE_BESSEL[name], rtol=1.2e-7)


@pytest.mark.parametrize(
    ("name", "exact"), [("digamma", scipy.special.psi), ("trigamma", lambda x: scipy.special.zeta(2, x))]
)
def test_derivatives_of_lgamma_are_within_the_bound(name, exact):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 12, 20_000), 10.0 ** rng.uniform(-30, 30, 20_000)]).astype(np.float32)
    expected, found = exact(x.astype(np.float64)), Elementwise(name, lambda xp, x: getattr(xp, name)(x))((x,))
    with np.errstate(over="ignore"):
        finite = np.isfinite(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isfinite(found), finite)
    ulp = np.maximum(np.spacing(np.abs(expected[finite].astype(np.float32))), np.float32(1e-45)).astype(np.float64)
    assert np.max(np.abs(found[finite] - expected[finite]) / ulp) <= 0.6
    mirrored = -rng.uniform(0, 30, 20_000)[:, None]  # of x and 1 - x
    near = np.abs(mirrored - np.rint(mirrored)) > 0.1
    both = np.where(near, np.concatenate([mirrored, 1 - mirrored], 1), 0.5).astype(np.float32)
    left, right = tdt.tensor(both).unbind(1)
    function = tdt.digamma if name == "digamma" else lambda x: tdt.polygamma(1, x)
    angle = np.pi * (both[:, 0].astype(np.float64) % 1)
    cotangent = np.pi / np.tan(angle) if name == "digamma" else np.pi**2 / np.sin(angle) ** 2
    sign = 1 if name == "digamma" else -1
    difference = sign * function(right).numpy().astype(np.float64) - function(left).numpy()
    np.testing.assert_allclose(difference if sign == 1 else -difference, cotangent, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name, part", [("exp", "exp_of_negative"), ("log", "log_from_1")])
def test_functions_of_a_part_of_all_numbers_have_the_bits_of_the_whole_there(name, part):
    x = np.concatenate([np.arange(0, 1 << 32, 3 * STEP, dtype=np.uint64).astype(np.uint32).view(np.float32), SPECIAL])
    x = np.append(x[(x <= 0) if name == "exp" else (x >= 1) & (x < np.inf)].astype(np.float32), np.float32(np.nan))
    found = Elementwise(part, lambda xp, x: getattr(_exponential, part)(x))((x,))
    np.testing.assert_array_equal(found, Elementwise(name, lambda xp, x: getattr(xp, name)(x))((x,)))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint", "sign", "abs", "square", "reciprocal", "negative"])
def test_exact_functions_have_numpys_bits(name):
    x = np.concatenate([np.linspace(-5, 5, 4001), SPECIAL, [2.5, 3.5, -2.5, 0.5, 1e10]]).astype(np.float32)
    with np.errstate(all="ignore"):
        found, numpys = Elementwise(name, lambda xp, x: getattr(xp, name)(x))((x,)), getattr(np, name)(x)
    if name == "sign":  # PyTorch's sign of NaN is 0
        numpys[np.isnan(x)] = 0
    np.testing.assert_array_equal(found, numpys)
    if name not in ("sign", "trunc"):
        np.testing.assert_array_equal(np.signbit(found[~np.isnan(x)]), np.signbit(numpys[~np.isnan(x)]))


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_nan_of_either_operand_passes(name):
    a, b = (m.ravel().astype(np.float32) for m in np.meshgrid(SPECIAL, SPECIAL))
    np.testing.assert_array_equal(
        Elementwise(name, lambda xp, a, b: getattr(xp, name)(a, b))((a, b)), getattr(np, name)(a, b)
    )


def test_hypot_neither_overflows_nor_underflows_and_is_within_the_bound():
    bits = np.random.default_rng(0).integers(0, 1 << 32, (2, 100_000), dtype=np.uint64).astype(np.uint32)
    special = [m.ravel().astype(np.float32) for m in np.meshgrid(SPECIAL, SPECIAL)]
    with np.errstate(all="ignore"):
        near = bits[0].view(np.float32) * np.float32(0.7)
    for x, y in (bits.view(np.float32), special, (bits[0].view(np.float32), near)):
        with np.errstate(all="ignore"):
            found = Elementwise("hypot", lambda xp, x, y: xp.hypot(x, y))((x, y))
            exact = np.hypot(x.astype(np.float64), y.astype(np.float64))
            rounded = exact.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
        finite = np.isfinite(rounded) & np.isfinite(found)
        assert np.all(finite | (found >= 3.4e38) | np.isnan(found))
        ulp = np.spacing(rounded[finite]).astype(np.float64)
        assert np.max(np.abs(found[finite] - exact[finite]) / ulp) <= 1.1


@pytest.mark.skipif(np.finfo(np.longdouble).eps == np.finfo(np.float64).eps, reason="no extended precision")
@pytest.mark.parametrize("name", ["exp", "log"])
def test_float64_functions_are_within_the_bound(name):
    rng = np.random.default_rng(0)
    drawn = {"exp": rng.uniform(-750, 715, 50_000), "log": rng.integers(0, 0x7FF << 52, 50_000).view(np.float64)}[name]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 709.78, 709.79, -745.1, -745.2, 1, -1, 2.3e-308]
    x = np.concatenate([drawn, rng.uniform(0.5, 2, 50_000), 1 + rng.normal(0, 1e-5, 50_000), special])
    with np.errstate(all="ignore"):
        found = Elementwise(name, lambda xp, x: getattr(xp, name)(x))((x,))
        exact = getattr(np, name)(x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~finite], rounded[~finite])
    ulp = np.maximum(np.spacing(np.abs(rounded[finite])), 5e-324).astype(np.longdouble)
    assert np.max(np.abs(found[finite] - exact[finite]) / ulp) <= 1.1


def test_powers_are_within_the_bound():
    rng = np.random.default_rng(0)
    near_1 = 1 + rng.normal(0, 1e-3, 50_000)
    for x, y in ((rng.uniform(0, 50, 50_000), rng.normal(0, 8, 50_000)), (near_1, rng.normal(0, 20_000, 50_000)),
                 (-rng.uniform(0, 9, 50_000), rng.integers(-50, 50, 50_000)),
                 (rng.uniform(0, 1e-38, 50_000), near_1)):  # fmt: skip
        x, y = x.astype(np.float32), y.astype(np.float32)
        with np.errstate(all="ignore"):
            found = Elementwise("power", lambda xp, x, y: xp.power(x, y))((x, y))
            exact = x.astype(np.float64) ** y
            rounded = exact.astype(np.float32)
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(np.isfinite(found), finite)
        ulp = np.maximum(np.spacing(np.abs(rounded[finite])), np.float32(1e-45)).astype(np.float64)
        assert np.max(np.abs(found[finite] - exact[finite]) / ulp) <= 0.6


@pytest.mark.parametrize(
    "name", ["pow", "atan2", "floor_divide", "logaddexp", "logaddexp2", "xlogy", "copysign", "logical_xor", "fmod"]
)
def test_functions_of_two_operands_have_pytorchs_special_values(name):
    torch = require_torch()
    special = [0, -0.0, 1, -1, 2.5, -7.25, 3, np.inf, -np.inf, np.nan, 1e-38, 3e38, 16777216, 5]
    a, b = (m.ravel().astype(np.float32) for m in np.meshgrid(special, special))
    if name == "fmod":  # PyTorch's is NaN where the quotient is large
        keep = np.isnan(a) | np.isnan(b) | ~(np.abs(a) > 1e30) | np.isinf(a)
        keep &= ~(np.abs(b) < 1e-30) | (b == 0)
        a, b = a[keep], b[keep]
    found = getattr(tdt, name)(tdt.from_numpy(a), tdt.from_numpy(b)).numpy()
    expected = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-6 if name.startswith("log") else 0)
    if found.dtype != bool and not name.startswith("log"):
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


REMAINDERS = {"fmod": np.fmod, "remainder": np.remainder, "floor_divide": np.floor_divide}


@pytest.mark.parametrize("name", REMAINDERS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_quotient_of_any_size_leaves_an_exact_remainder(name, kind):
    rng, word = np.random.default_rng(0), f"u{np.dtype(kind).itemsize}"
    x, y = rng.integers(0, 256, (2, 100_000 * np.dtype(kind).itemsize), dtype=np.uint8).view(kind)
    near = (y.view(word) + rng.integers(-(40 << 10), 40 << 10, y.size).astype(word)).view(kind)
    divide = Elementwise(name, lambda xp, x, y: getattr(xp, name)(x, y))
    with np.errstate(all="ignore"):
        for a, b in ((x, y), (y, near), (y * 5, near)):
            np.testing.assert_array_equal(divide((a, b)), REMAINDERS[name](a, b))


@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders_of_float64_are_pytorchs_and_the_same_alone_and_in_vectors(name):
    torch = require_torch()
    special = [
        0,
        -0.0,
        1,
        -1,
        2.5,
        -7.25,
        3,
        np.inf,
        -np.inf,
        np.nan,
        5e-324,
        -1e-310,
        1e308,
        2.0**53,
        2.0**53 + 2,
        0.1,
    ]
    x, y = (m.ravel() for m in np.meshgrid(special, special))
    found = getattr(tdt, name)(tdt.from_numpy(x), tdt.from_numpy(y)).numpy()
    expected = getattr(torch, name)(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    if name != "floor_divide":  # PyTorch's are NaN where the quotient is too large for float64
        with np.errstate(all="ignore"):
            overflows = np.isinf(x / y) & np.isfinite(x) & (y != 0)
        assert np.isnan(expected[overflows]).all() and (np.abs(found[overflows]) < np.abs(y[overflows])).all()
        expected[overflows] = found[overflows]
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
    alone = [
        getattr(tdt, name)(tdt.from_numpy(x[k : k + 1]), tdt.from_numpy(y[k : k + 1])).item() for k in range(x.size)
    ]
    np.testing.assert_array_equal(alone, found)


def test_conditions_are_one_or_zero_in_arithmetic_and_combine():
    x, y = np.array([1, -1, np.nan, 2], np.float32), np.array([0, -2, 1, 2], np.float32)
    formula = Elementwise("conditions", lambda xp, x, y: (x > y) - y * ~((x == y) | (x != x)) + ((x >= 0) & (y >= 1)))
    np.testing.assert_array_equal(formula((x, y)), (x > y) - y * ~((x == y) | np.isnan(x)) + ((x >= 0) & (y >= 1)))


def test_an_expression_is_shown_as_what_it_computes():
    x = Expression("input", 0)
    assert repr(functions.fma(x, 2, -x)) == "fma(x0, 2.0, negative(x0))"
