"""Special functions of the top level: Bessel, incomplete gamma and multivariate gamma functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tdt._backend import to_device
from tdt._backend.device import CPU
from tdt._core import dtype as _dtype
from tdt._core.calls import fronts
from tdt._core.dtype import FLOATING
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._node_names import shown_as
from tdt._ops._common import store_into
from tdt._ops.elementwise._front import binary, named, special, special_functions, tensor_argument, unary

__all__ = ["i0", "igamma", "igammac", "mvlgamma"]

i0 = unary(
    "i0",
    special("i0"),
    lambda g, x: g * i1(x),
    "The modified Bessel function of the first kind of order 0.",
    ("0., 1.", "1.0000, 1.2661"),
    dtypes=FLOATING,
)


SPECIAL: dict[str, Any] = {"home": "tdt.special", "dtypes": FLOATING}
WIDE: dict[str, Any] = {"home": "tdt.special", "dtypes": frozenset((_dtype.float32, _dtype.float64))}
SQRT_2PI = math.sqrt(2 * math.pi)


def _quotient(out: Tensor, x: Tensor) -> Tensor:
    """out / x for i1 and i1e, and at 0 their derivative there."""
    return (out / x.masked_fill(x == 0, 1)).masked_fill(x == 0, 0.5)


i1 = unary(
    "i1",
    special("i1"),
    lambda g, x, out: g * (i0(x) - _quotient(out, x)),
    "The modified Bessel function of the first kind of order 1.",
    ("0., 1.", "0.0000, 0.5652"),
    **SPECIAL,
)
i0e = unary(
    "i0e",
    special("i0e"),
    lambda g, x, out: g * (i1e(x) - x.sgn() * out),
    "i0(x) · exp(-|x|).",
    ("0., 1.", "1.0000, 0.4658"),
    **SPECIAL,
)
i1e = unary(
    "i1e",
    special("i1e"),
    lambda g, x, out: g * (i0e(x) - out * x.sgn() - _quotient(out, x)),
    "i1(x) · exp(-|x|).",
    ("0., 1.", "0.0000, 0.2079"),
    **SPECIAL,
)
ndtr = unary(
    "ndtr",
    special("ndtr"),
    lambda g, x: g * (-0.5 * x * x).exp() / SQRT_2PI,
    "The share of the standard normal distribution below x.",
    ("0., 1.", "0.5000, 0.8413"),
    **SPECIAL,
)
ndtri = unary(
    "ndtri",
    special("ndtri"),
    lambda g, out: g * (0.5 * out * out).exp() * SQRT_2PI,
    "The inverse of ndtr.",
    ("0.5000", "0."),
    **WIDE,
)
erfcx = unary(
    "erfcx",
    special("erfcx"),
    lambda g, x, out: g * (2 * x * out - 2 / math.sqrt(math.pi)),
    "erfc(x) · exp(x²), without underflow.",
    ("0., 1.", "1.0000, 0.4276"),
    **WIDE,
)
log_ndtr = unary(
    "log_ndtr",
    special("log_ndtr"),
    lambda g, x: g / erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
    "The logarithm of ndtr, also far below 0.",
    ("0., -1.", "-0.6931, -1.8410"),
    **WIDE,
)
entr = unary(
    "entr",
    special("entr"),
    lambda g, x: g * -(1 + x.log()),
    "-x · log(x), 0 at 0, -inf below.",
    ("0.5000, 0.", "0.3466, 0.0000"),
    **SPECIAL,
)


def _spherical(xp: ModuleType, x: Any) -> Any:
    return xp.where(xp.isinf(x), 0, xp.where(x == 0, 1, xp.sin(x) / x)).astype(x.dtype)


def _airy(xp: ModuleType, x: Any) -> Any:
    found = xp.asarray(special_functions(np).airy(to_device(x, CPU))[0])  # CuPy has none
    return xp.where((x > 104) & (x < xp.inf), 0, found)  # below the smallest float64; SciPy says NaN of large numbers


def outside_the_graph(function: Callable[..., Tensor], *rest: str) -> Callable[..., Tensor]:
    """A function that has no derivative, in PyTorch either: its `out=` may even want a gradient.

    rest: names of the operands after `input`.
    """

    def outside(input: Any, *operands: Any, out: Tensor | None = None, **named_operands: Any) -> Tensor:
        with no_grad():
            return function(input, *operands, *[named_operands.pop(n) for n in rest if n in named_operands], out=out)

    return named(outside, function.__name__, function.__doc__ or "")


def _by_bessel(name: str, forward: Any, doc: str, at_one: str) -> Any:
    return outside_the_graph(unary(name, forward, None, doc, ("1.", at_one), **WIDE))


airy_ai = _by_bessel("airy_ai", _airy, "The Airy function Ai.", "0.1353")
bessel_j0, bessel_j1, bessel_y0, bessel_y1 = (
    _by_bessel(f"bessel_{kind}{order}", special(f"{kind}{order}"),
               f"The Bessel function of the {which} kind of order {order}.", at_one)
    for kind, order, which, at_one in (("j", 0, "first", "0.7652"), ("j", 1, "first", "0.4401"),
                                       ("y", 0, "second", "0.0883"), ("y", 1, "second", "-0.7812"))
)  # fmt: skip
modified_bessel_i0, modified_bessel_i1, modified_bessel_k0, modified_bessel_k1 = (
    _by_bessel(f"modified_bessel_{name}", special(name),
               f"The modified Bessel function of the {which} kind of order {name[1]}.", at_one)
    for name, which, at_one in (("i0", "first", "1.2661"), ("i1", "first", "0.5652"),
                                ("k0", "second", "0.4210"), ("k1", "second", "0.6019"))
)  # fmt: skip
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = (
    _by_bessel(
        f"scaled_modified_bessel_k{order}", special(f"k{order}e"), f"modified_bessel_k{order}(x) · exp(x).", at_one
    )
    for order, at_one in ((0, "1.1445"), (1, "1.6362"))
)
spherical_bessel_j0 = _by_bessel(
    "spherical_bessel_j0", _spherical, "The spherical Bessel function of the first kind of order 0.", "0.8415"
)


def _of_one_type(xp: ModuleType, x: Any, y: Any) -> tuple[Any, Any]:
    """Both as arrays of the type of the array among them: a number's function would be double precision."""
    dtype = (x if hasattr(x, "dtype") else y).dtype
    return xp.asarray(x, dtype), xp.asarray(y, dtype)


def _two(name: str) -> Any:
    def forward(xp: ModuleType, x: Any, y: Any) -> Any:
        return getattr(special_functions(xp), name)(*_of_one_type(xp, x, y))

    return forward


def _no_zeta_rule(g: Tensor) -> Tensor:
    raise NotImplementedError("the derivative for 'zeta' is not implemented.")


xlog1py = binary(
    "xlog1py",
    _two("xlog1py"),
    {"x": lambda g, x, y: (g * _log1p(y)).masked_fill((x == 0) & (y <= -1), 0), "y": lambda g, x, y: g * x / (y + 1)},
    "input · log(1 + other), and 0 where input is 0.",
    ("2., 0.", "0., -1.", "0., 0."),
    dtypes=FLOATING,
    to_float=True,
    numbers="any",
    home="tdt.special",
)
zeta = binary(
    "zeta",
    _two("zeta"),
    {"x": _no_zeta_rule, "y": lambda g, x, y: g * -x * zeta(x + 1, y)},
    "The Hurwitz zeta function Σ (k + other)^-input over k ≥ 0. It has no derivative by input.",
    ("2.", "1.", "1.6449"),
    to_float=True,
    numbers="any",
    **WIDE,
)


def _log1p(y: Any) -> Any:
    return y.log1p() if isinstance(y, Tensor) else math.log1p(y) if y > -1 else -math.inf if y == -1 else math.nan


def _incomplete(name: str) -> Any:
    def forward(xp: ModuleType, x: Any, y: Any) -> Any:
        return getattr(special_functions(xp), name)(x, y).astype(x.dtype)

    return forward


def _no_rule(g: Tensor) -> Tensor:
    raise NotImplementedError("the derivative for 'igamma: input' is not implemented.")


def _density(x: Tensor, y: Tensor) -> Tensor:
    """The derivative of the lower function by its limit."""
    return ((x - 1) * y.log() - y - x.lgamma()).exp()


igamma, igammac = (
    binary(
        name,
        _incomplete(scipy_name),
        {"x": _no_rule, "y": rule},
        f"The regularised {which} incomplete gamma function: {integral} / Γ(input). It has no derivative by input.",
        ("1.", "2.", result),
        dtypes=FLOATING,
        numbers="none",
    )
    for name, scipy_name, which, integral, rule, result in (
        ("igamma", "gammainc", "lower", "∫₀^other t^(input - 1) e^-t dt", lambda g, x, y: g * _density(x, y), "0.8647"),
        ("igammac", "gammaincc", "upper", "∫_other^∞ t^(input - 1) e^-t dt", lambda g, x, y: -g * _density(x, y), "0.1353"),
    )
)  # fmt: skip


@shown_as("MvlgammaBackward0")
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`, but for numbers ≤ (p - 1) / 2 meaningless.

    RuntimeError for p < 1.

    >>> import tdt
    >>> tdt.mvlgamma(tdt.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    tensor_argument("mvlgamma", input)
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype is _dtype.bool:
        raise NotImplementedError("\"mvlgamma\" not implemented for 'Bool'")
    steps = [i / 2 for i in range(1 - p, 1)]
    dtype = input.dtype if input.is_floating_point() else _dtype.get_default_dtype()
    shifted = input.unsqueeze(-1) + input.new_tensor(steps, dtype=dtype)  # (…, p)
    result = shifted.lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)
    return result if out is None else store_into(out, result)


fronts(globals(), __all__)
