"""Orthogonal polynomials of degree n at x, by recurrence (Abramowitz, Stegun: Handbook of Mathematical Functions, 22.7)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tdt._core import dtype as _dtype
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import binary
from tdt._ops.elementwise.special import outside_the_graph

Step = Callable[[int, Any, Any, Any], Any]  # (k, x, degree k - 1, degree k) → degree k + 1


def _forward(start: Callable[[Any], Any], step: Step, closed: Any, limits: dict[str, int]) -> Callable[..., Any]:
    """A forward from the polynomial of degree 1 and the step from two degrees to the next.

    closed: a form that holds inside (-1, 1), which stands in for high degrees. limits: degrees, by dtype, above which the
    result is nan.
    """

    def forward(xp: ModuleType, x: Any, n: Any) -> Any:
        dtype = (x if hasattr(x, "dtype") else n).dtype
        x, degree = xp.broadcast_arrays(xp.asarray(x, dtype), xp.asarray(n).astype(xp.int64))
        out = xp.where(degree < 0, 0, xp.ones_like(x))
        asked = degree
        if closed is not None:
            by_form = (degree > HIGH) & (abs(x) < 1)
            inside = xp.where(by_form, x, 0)
            out = xp.where(by_form, closed(xp, inside, degree.astype(dtype)), out)
            asked = xp.where(by_form, 0, degree)
        limit = limits.get(dtype.name)
        if limit is not None:
            out, asked = xp.where(asked > limit, xp.nan, out), xp.where(asked > limit, 0, asked)
        before, last = xp.ones_like(x), start(x)
        for k in range(1, int(asked.max()) + 1 if asked.size else 0):
            out = xp.where(asked == k, last, out)
            before, last = last, step(k, x, before, last)
        return out.astype(dtype)

    return forward


HIGH = 8  # from the next degree on, PyTorch uses the closed forms


def _chebyshev(k: int, x: Any, before: Any, last: Any) -> Any:
    return 2 * x * last - before


def _third(xp: ModuleType, x: Any, n: Any) -> Any:
    return xp.cos((n + 0.5) * xp.arccos(x)) / xp.cos(xp.arccos(x) / 2)


def _fourth(xp: ModuleType, x: Any, n: Any) -> Any:
    return xp.sin((n + 0.5) * xp.arccos(x)) / xp.sin(xp.arccos(x) / 2)


CHEBYSHEV: dict[str, tuple[str, Callable[[Any], Any], Any]] = {
    "t": ("first", lambda x: x, lambda xp, x, n: xp.cos(n * xp.arccos(x))),
    "u": ("second", lambda x: 2 * x, lambda xp, x, n: xp.sin((n + 1) * xp.arccos(x)) / xp.sin(xp.arccos(x))),
    "v": ("third", lambda x: 2 * x - 1, _third),
    "w": ("fourth", lambda x: 2 * x + 1, _fourth),
}
HERMITE = {"float32": 128, "float64": 512}


def _shifted(forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda xp, x, n: forward(xp, 2 * x - 1, n)


def _function(name: str, forward: Callable[..., Any], doc: str, at_half: str) -> Callable[..., Tensor]:
    """PyTorch's function of (input, n); it has no derivative there."""
    function = binary(
        name, forward, {}, f"{doc}, of degree `n` (`other`) at input.", ("0.5", "3.", at_half),
        dtypes=frozenset((_dtype.float32, _dtype.float64)), to_float=True, numbers="any", home="tdt.special",
    )  # fmt: skip

    return outside_the_graph(function, "n")


_forms = {kind: _forward(start, _chebyshev, closed, {}) for kind, (_, start, closed) in CHEBYSHEV.items()}
(chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w) = (
    _function(
        f"chebyshev_polynomial_{kind}", form, f"The Chebyshev polynomial of the {CHEBYSHEV[kind][0]} kind", at_half
    )
    for (kind, form), at_half in zip(_forms.items(), ("-1.", "-1.", "-1.", "-1."), strict=True)
)
(shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
 shifted_chebyshev_polynomial_w) = (
    _function(f"shifted_chebyshev_polynomial_{kind}", _shifted(form),
              f"The Chebyshev polynomial of the {CHEBYSHEV[kind][0]} kind at 2 · input - 1", at_half)
    for (kind, form), at_half in zip(_forms.items(), ("-0.", "-0.", "1.", "-1."), strict=True)
)  # fmt: skip
hermite_polynomial_h = _function(
    "hermite_polynomial_h",
    _forward(lambda x: 2 * x, lambda k, x, before, last: 2 * x * last - 2 * k * before, None, HERMITE),
    "The physicists' Hermite polynomial",
    "-5.",
)
hermite_polynomial_he = _function(
    "hermite_polynomial_he",
    _forward(lambda x: x, lambda k, x, before, last: x * last - k * before, None, HERMITE),
    "The probabilists' Hermite polynomial",
    "-1.3750",
)
laguerre_polynomial_l = _function(
    "laguerre_polynomial_l",
    _forward(lambda x: 1 - x, lambda k, x, before, last: ((2 * k + 1 - x) * last - k * before) / (k + 1), None, {}),
    "The Laguerre polynomial",
    "-0.1458",
)
legendre_polynomial_p = _function(
    "legendre_polynomial_p",
    _forward(lambda x: x, lambda k, x, before, last: ((2 * k + 1) * x * last - k * before) / (k + 1), None, {}),
    "The Legendre polynomial",
    "-0.4375",
)
