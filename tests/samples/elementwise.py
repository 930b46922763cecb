"""Samples of elementwise ops. Values avoid kinks and poles, which the op database tests."""

import numpy as np
import scipy.special as sp

import tdt
from tests.samples._sample import bools, call, distinct, ints, samples, x, z

POSITIVE = x(2, 3, low=0.3, high=2.0)
INSIDE = x(2, 3, low=-0.9, high=0.9)  # of (-1, 1)
ANY = x(2, 3)
FAR = distinct(2, 3)  # from 0 and from each other


def scaled(function):
    """`function(x, alpha · y)`."""
    return lambda a, b, alpha=1: function(a, alpha * b)


def trunc_div(a, b):
    return np.trunc(a / b).astype(np.result_type(a, b))


UNARY = {
    "exp": (np.exp, ANY), "exp2": (np.exp2, ANY), "expm1": (np.expm1, ANY), "log": (np.log, POSITIVE),
    "log2": (np.log2, POSITIVE), "log10": (np.log10, POSITIVE), "log1p": (np.log1p, INSIDE), "sqrt": (np.sqrt, POSITIVE),
    "rsqrt": (lambda a: 1 / np.sqrt(a), POSITIVE), "reciprocal": (lambda a: 1 / a, POSITIVE),
    "square": (lambda a: a * a, ANY), "sin": (np.sin, ANY), "cos": (np.cos, ANY), "tan": (np.tan, INSIDE),
    "asin": (np.arcsin, INSIDE), "acos": (np.arccos, INSIDE), "atan": (np.arctan, ANY), "sinh": (np.sinh, ANY),
    "cosh": (np.cosh, ANY), "tanh": (np.tanh, ANY), "asinh": (np.arcsinh, ANY), "acosh": (np.arccosh, POSITIVE + 1),
    "atanh": (np.arctanh, INSIDE), "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), ANY), "erf": (sp.erf, ANY),
    "erfc": (sp.erfc, ANY), "erfinv": (sp.erfinv, INSIDE), "lgamma": (sp.gammaln, POSITIVE), "digamma": (sp.psi, POSITIVE),
    "i0": (sp.i0, ANY), "i1": (sp.i1, ANY),
    "sinc": (np.sinc, FAR), "deg2rad": (np.deg2rad, ANY), "rad2deg": (np.rad2deg, ANY), "neg": (np.negative, ANY),
    "abs": (np.abs, FAR), "sgn": (np.sign, FAR), "sign": (np.sign, FAR), "floor": (np.floor, FAR), "ceil": (np.ceil, FAR),
    "trunc": (np.trunc, FAR), "frac": (lambda a: a - np.trunc(a), FAR), "angle": (np.angle, FAR),
    "relu": (lambda a: np.maximum(a, 0), FAR), "silu": (lambda a: a / (1 + np.exp(-a)), ANY),
    "conj_physical": (np.conj, ANY),
}  # fmt: skip
# Where a complex argument must keep away from a branch cut, the square of the samples does.
COMPLEX = ("exp", "exp2", "expm1", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "sinh", "cosh", "tanh", "asinh",
           "atan", "atanh", "sigmoid", "neg", "abs", "log", "log2", "log10", "log1p", "asin", "acos", "tan",
           "acosh", "conj_physical", "angle", "sgn", "silu", "sinc")  # fmt: skip

for _name, (_oracle, _values) in UNARY.items():
    _more = [call(z(2, 2))] if _name in COMPLEX else []
    samples(_name, _oracle, call(_values), *_more, elementwise=True)

for _name, _function in (("igamma", sp.gammainc), ("igammac", sp.gammaincc)):
    samples(_name, _function, call(ints(2, 3, low=1), POSITIVE), elementwise=True)  # no gradient by the first
SPECIAL = {
    "i0e": (sp.i0e, ANY), "i1e": (sp.i1e, ANY), "ndtr": (sp.ndtr, ANY), "ndtri": (sp.ndtri, x(2, 3, low=0.1, high=0.9)),
    "erfcx": (sp.erfcx, ANY), "log_ndtr": (sp.log_ndtr, ANY), "entr": (sp.entr, POSITIVE),
    "airy_ai": (lambda a: sp.airy(a)[0], ANY), "spherical_bessel_j0": (lambda a: sp.spherical_jn(0, a), POSITIVE),
    **{f"bessel_{name}": (getattr(sp, name), POSITIVE) for name in ("j0", "j1", "y0", "y1")},
    **{f"modified_bessel_{name}": (getattr(sp, name), POSITIVE) for name in ("i0", "i1", "k0", "k1")},
    **{f"scaled_modified_bessel_{name}": (getattr(sp, f"{name}e"), POSITIVE) for name in ("k0", "k1")},
}  # fmt: skip
for _name, (_oracle, _values) in SPECIAL.items():
    samples(_name, _oracle, call(_values), elementwise=True)
DEGREES = np.array([[0, 1, 2], [3, 4, 7]])
for _name, _function in (
    ("chebyshev_polynomial_t", sp.eval_chebyt), ("chebyshev_polynomial_u", sp.eval_chebyu),
    ("shifted_chebyshev_polynomial_t", sp.eval_sh_chebyt), ("shifted_chebyshev_polynomial_u", sp.eval_sh_chebyu),
    ("hermite_polynomial_h", sp.eval_hermite), ("hermite_polynomial_he", sp.eval_hermitenorm),
    ("laguerre_polynomial_l", sp.eval_laguerre), ("legendre_polynomial_p", sp.eval_legendre),
):  # fmt: skip
    samples(_name, lambda a, n, f=_function: f(np.asarray(n).astype(int), a), call(INSIDE, DEGREES), elementwise=True)
for _name, _function in (
    ("chebyshev_polynomial_v", lambda t, n: np.cos((n + 0.5) * t) / np.cos(t / 2)),
    ("chebyshev_polynomial_w", lambda t, n: np.sin((n + 0.5) * t) / np.sin(t / 2)),
):
    samples(_name, lambda a, n, f=_function: f(np.arccos(a), n), call(INSIDE, DEGREES), elementwise=True)
    _shift = lambda a, n, f=_function: f(np.arccos(2 * a - 1), n)  # noqa: E731
    samples(f"shifted_{_name}", _shift, call(x(2, 3, low=0.1, high=0.9), DEGREES), elementwise=True)
samples("xlog1py", sp.xlog1py, call(ANY, POSITIVE), call(ANY, 2.0), elementwise=True)
samples("zeta", sp.zeta, call(ints(2, 3, low=2, high=5), POSITIVE), elementwise=True)  # no gradient by the first

samples("scale", np.ldexp, call(ANY, ints(2, 3)), call(ANY, np.array(3)), elementwise=True)
samples("frexp", np.frexp, call(ANY), elementwise=True)
samples("polygamma", lambda a, n: sp.polygamma(n, a), call(POSITIVE, n=1), call(POSITIVE, n=2), elementwise=True)
samples(
    "logit",
    lambda a, eps: sp.logit(a if eps is None else np.clip(a, eps, 1 - eps)),
    call(x(2, 3, low=0.2, high=0.8), eps=None),
    call(x(4, low=0.1, high=0.9), eps=0.2),
    elementwise=True,
)
samples("round", lambda a, decimals: np.round(a, decimals), call(FAR, decimals=0), call(x(3) * 100, decimals=-1))
samples(
    "nan_to_num",
    lambda a, nan, posinf, neginf: np.nan_to_num(a, nan=nan, posinf=posinf, neginf=neginf),
    call(np.array([1.0, np.nan, np.inf, -np.inf]), nan=0.5, posinf=9.0, neginf=-7.0, grad=False),
    call(ANY, nan=0.0, posinf=9.0, neginf=-9.0),
)

BINARY = {
    "add": (scaled(np.add), ANY, x(2, 3, seed=1)), "sub": (scaled(np.subtract), ANY, x(2, 3, seed=1)),
    "mul": (np.multiply, ANY, x(2, 3, seed=1)), "div": (np.true_divide, ANY, POSITIVE),
    "div_floor": (np.floor_divide, FAR, POSITIVE), "div_trunc": (trunc_div, FAR, POSITIVE),
    "remainder": (np.remainder, FAR, POSITIVE), "fmod": (np.fmod, FAR, POSITIVE), "pow": (np.power, POSITIVE, ANY),
    "maximum": (np.maximum, FAR, ANY), "minimum": (np.minimum, FAR, ANY), "fmax": (np.fmax, FAR, ANY),
    "fmin": (np.fmin, FAR, ANY), "atan2": (np.arctan2, FAR, POSITIVE), "hypot": (np.hypot, FAR, POSITIVE),
    "copysign": (np.copysign, FAR, POSITIVE), "logaddexp": (lambda a, b: np.log(np.exp(a) + np.exp(b)), ANY, POSITIVE),
    "logaddexp2": (np.logaddexp2, ANY, POSITIVE), "xlogy": (sp.xlogy, ANY, POSITIVE),
    "heaviside": (np.heaviside, FAR, ANY), "nextafter": (np.nextafter, FAR, ANY),
    "gcd": (np.gcd, ints(2, 3), ints(2, 3, seed=1)), "lcm": (np.lcm, ints(2, 3), ints(2, 3, seed=1)),
    "eq": (np.equal, ints(2, 3), ints(2, 3, seed=1)), "ne": (np.not_equal, ints(2, 3), ints(2, 3, seed=1)),
    "lt": (np.less, ANY, FAR), "le": (np.less_equal, ANY, FAR), "gt": (np.greater, ANY, FAR),
    "ge": (np.greater_equal, ANY, FAR), "logical_and": (np.logical_and, bools(2, 3), bools(2, 3, seed=1)),
    "logical_or": (np.logical_or, bools(2, 3), bools(2, 3, seed=1)),
    "logical_xor": (np.logical_xor, bools(2, 3), bools(2, 3, seed=1)),
    "bitwise_and": (np.bitwise_and, ints(2, 3), ints(2, 3, seed=1)),
    "bitwise_or": (np.bitwise_or, ints(2, 3), ints(2, 3, seed=1)),
    "bitwise_xor": (np.bitwise_xor, ints(2, 3), ints(2, 3, seed=1)),
    "bitwise_left_shift": (np.left_shift, ints(2, 3), ints(2, 3, low=0, high=4)),
    "bitwise_right_shift": (np.right_shift, ints(2, 3), ints(2, 3, low=0, high=4)),
}  # fmt: skip
QUOTIENTS = [call(np.array([5.3, -7.1, 4.4]), np.array([2.0, 1.5, -3.0]))]  # none is whole, none rounds to 0
MORE = {
    "div_floor": QUOTIENTS,
    "div_trunc": QUOTIENTS,
    "remainder": QUOTIENTS,
    "fmod": QUOTIENTS,
    "add": [
        call(ANY, x(3), alpha=2.5),
        call(z(2, 2), z(2, seed=1)),
        call(z(2), z(2, seed=1), alpha=1 + 2j),
        call(ANY, 1.5),
    ],
    "sub": [
        call(ANY, x(3), alpha=-2),
        call(z(2, 2), z(2, seed=1)),
        call(z(2), z(2, seed=1), alpha=1 + 2j),
        call(2.0, ANY),
    ],
    "mul": [call(z(2, 2), z(2, seed=1)), call(ANY, 3.0), call(2.0, ANY)],
    "div": [call(z(2, 2), z(2, seed=1) + 3), call(1.0, POSITIVE), call(ANY, 4.0)],
    "pow": [
        call(z(2, 2), z(2, seed=1)),
        call(ANY, 3.0),
        call(ANY, 2.0),
        call(2.0, ANY),
        call(POSITIVE, -0.5),
        call(z(2, 2), 3.0),
        call(z(2, 2), 1.5 - 0.5j),
    ],
    "logaddexp": [call(z(2, 2), z(2, seed=1))],
}

for _name, (_oracle, _a, _b) in BINARY.items():
    samples(_name, _oracle, call(_a, _b), *MORE.get(_name, []), elementwise=True)
samples("floor_divide", np.floor_divide, call(FAR, POSITIVE, grad=False), elementwise=True)

samples("bitwise_not", np.invert, call(ints(2, 3)), call(bools(3)))
samples("logical_not", np.logical_not, call(bools(2, 3)), call(np.array([0.0, 2.0])))

SPECIAL_VALUES = np.array([1.0, -0.0, 0.0, np.nan, np.inf, -np.inf, -3.0])
for _name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit"):
    samples(_name, getattr(np, _name), call(SPECIAL_VALUES), elementwise=True)
samples(
    "isclose",
    np.isclose,
    call(SPECIAL_VALUES, SPECIAL_VALUES + 1e-9, rtol=1e-5, atol=1e-8, equal_nan=True),
    call(SPECIAL_VALUES, SPECIAL_VALUES * 1.01, rtol=1e-5, atol=1e-8, equal_nan=False),
)

samples(
    "where",
    np.where,
    call(bools(2, 3), ANY, x(2, 3, seed=1)),
    call(bools(2, 1), x(3), 0.5),
    call(bools(2, 2), z(2, 2), z(2, 2)),
    elementwise=True,
)
samples(
    "clamp",
    lambda a, low, high: np.clip(a, low, high),
    call(FAR, -0.3, 0.4),
    call(FAR, None, 0.1),
    call(FAR, x(2, 3, low=-0.5, high=-0.4), x(2, 3, low=0.3, high=0.4)),
    call(FAR, -0.3, None),
)
samples(
    "masked_fill",
    lambda a, mask, value: np.where(mask, value, a),
    call(ANY, bools(2, 3), 0.5),
    call(ANY, np.array([True, False, True]), np.array(2.0)),
    elementwise=True,
)
for name, sign in (("add_scaled", 1), ("sub_scaled", -1)):
    samples(
        name,
        lambda a, b, alpha, sign=sign: a + sign * alpha * b,
        call(ANY, x(2, 3, seed=1), alpha=0.3),
        call(x(2, 1), x(3), alpha=-2.5),
        call(ANY, x(3), alpha=0.0),
        elementwise=True,
    )
samples(
    "addcmul",
    lambda a, b, c, value: a + value * b * c,
    call(ANY, x(2, 3, seed=1), x(2, 3, seed=2), value=1),
    call(ANY, x(3), x(2, 1), value=-0.5),
    call(z(2), z(2, seed=1), z(2, seed=2), value=2 - 1j),
    elementwise=True,
)
samples(
    "addcdiv",
    lambda a, b, c, value: a + value * b / c,
    call(ANY, x(2, 3, seed=1), POSITIVE, value=1),
    call(ANY, x(3), POSITIVE[:, :1], value=-0.5),
    call(z(2), z(2, seed=1), z(2, seed=2) + 3, value=2 - 1j),
    elementwise=True,
)
samples(
    "lerp",
    lambda a, end, weight: a + weight * (end - a),
    call(ANY, x(2, 3, seed=1), x(2, 3, low=0.1, high=0.9)),
    call(ANY, x(3), 0.25),
    call(z(2), z(2, seed=1), 0.75),
    call(z(2), z(2, seed=1), z(2, seed=2)),
    elementwise=True,
)
samples("copy", lambda a, source: np.broadcast_to(source, a.shape), call(ANY, x(3)), call(ANY, x(2, 3, seed=1)))
samples("fill", lambda a, value: np.full_like(a, value), call(ANY, 2.5), call(ANY, np.array(1.5)))
samples(
    "convert",
    lambda a, dtype: a.astype(dtype.np),
    call(ANY, dtype=tdt.complex128),
    call(ANY, dtype=tdt.int64),
    call(ints(3), dtype=tdt.float32),
)

samples("real", np.real, call(z(2, 3)))
samples("imag", np.imag, call(z(2, 3)))
samples("view_as_real", lambda a: np.stack([a.real, a.imag], -1), call(z(2, 3)))
samples("view_as_complex", lambda a: a[..., 0] + 1j * a[..., 1], call(x(2, 3, 2)))
samples(
    "polar",
    lambda a, b: a * np.exp(1j * b),
    call(x(2, 3, low=0.2, high=2.0), x(2, 3, seed=1)),
    call(x(2, 3, low=0.2), x(3)),
)
samples("complex", lambda a, b: a + 1j * b, call(ANY, x(2, 3, seed=1)), call(ANY, x(3)))
samples("tanh_backward", lambda grad, y: grad * (1 - y * y), call(ANY, x(2, 3, seed=1)), elementwise=True)
samples("sigmoid_backward", lambda grad, y: grad * y * (1 - y), call(ANY, x(2, 3, seed=1)), elementwise=True)
