"""Special functions of the top level: Bessel, incomplete gamma and multivariate gamma functions."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from tdt import _dtype
from tdt._dtype import FLOATING
from tdt._node_names import shown_as
from tdt._ops._common import store_into
from tdt._ops.elementwise._front import binary, special, special_functions, tensor_argument, unary
from tdt._tensor import Tensor

__all__ = ["i0", "igamma", "igammac", "mvlgamma"]

i0 = unary(
    "i0",
    special("i0"),
    lambda g, x: g * i1(x),
    "The modified Bessel function of the first kind of order 0.",
    ("0., 1.", "1.0000, 1.2661"),
    dtypes=FLOATING,
)


def _i1_rule(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return g * (i0(x) - out / x).masked_fill(x == 0, 0.5)


i1 = unary(
    "i1",
    special("i1"),
    _i1_rule,
    "The modified Bessel function of the first kind of order 1.",
    ("0., 1.", "0.0000, 0.5652"),
    dtypes=FLOATING,
)


def _incomplete(name: str) -> Any:
    def forward(xp: ModuleType, x: Any, y: Any) -> Any:
        return getattr(special_functions(xp), name)(x, y).astype(x.dtype)

    return forward


def _no_rule(g: Tensor) -> Tensor:
    raise RuntimeError("the derivative for 'igamma: input' is not implemented.")


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
