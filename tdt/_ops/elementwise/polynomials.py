"""Orthogonal polynomials of degree n at x, computed by their three-term recurrences."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._core.tensor import Tensor
from tdt._kernels._recurrence import RECURRENCES
from tdt._ops._common import Number
from tdt._ops.elementwise._front import binary_op
from tdt._ops.elementwise.special import FLOAT_OR_DOUBLE, without_gradient
from tdt.autograd._remembered import calls_by_shape


def _forward(name: str, closed: Any, limits: dict[str, int], shifted: bool = False) -> Callable[..., Any]:
    """A forward that computes a polynomial by recurrence.

    Args:
        name: of `RECURRENCES`.
        closed: closed form inside (-1, 1), used for degrees above HIGH; None for none.
        limits: by letter of dtype, the degree above which the result is nan.
        shifted: whether it is that of 2x - 1.
    """
    start, step = RECURRENCES[name]

    def forward(xp: ModuleType, x: Any, n: Any) -> Any:
        dtype = (x if hasattr(x, "dtype") else n).dtype
        if x.__class__ is n.__class__ is np.ndarray:
            fast = _kernels.polynomial(name, x, n, limits.get(dtype.char, 1000) if closed is None else HIGH, shifted)
            if fast is not None:
                return fast
        x = 2 * x - 1 if shifted else x
        x, degree = xp.asarray(x, dtype), xp.asarray(n).astype(xp.int64)
        if x.shape != degree.shape:
            x, degree = xp.broadcast_arrays(x, degree)
        one = dtype.type(1)
        out = xp.where(degree < 0, dtype.type(0), one)
        remaining, highest = degree, int(degree.max()) if degree.size else 0
        if closed is not None and highest > HIGH:
            use_closed = (degree > HIGH) & (abs(x) < 1)
            inside = xp.where(use_closed, x, 0)
            out = xp.where(use_closed, closed(xp, inside, degree.astype(dtype)), out)
            remaining = xp.where(use_closed, 0, degree)
        limit = limits.get(dtype.char)
        if limit is not None and highest > limit:
            out, remaining = xp.where(remaining > limit, xp.nan, out), xp.where(remaining > limit, 0, remaining)
        before, last = one, start(x)
        highest = highest if remaining is degree else int(remaining.max())
        for k in range(1, highest + 1):
            out = xp.where(remaining == k, last, out)
            before, last = last, step(k, x, before, last) if k < highest else last
        return xp.asarray(out, dtype)

    @_kernels.prepares(forward)
    def _(x: Any, n: Any, *, recorded: bool) -> Any:
        if x.__class__ is not np.ndarray or n.__class__ is not np.ndarray or x.shape != n.shape or x.dtype != n.dtype:
            return None
        return _kernels.prepared_polynomial(
            name, x, limits.get(x.dtype.char, 1000) if closed is None else HIGH, shifted
        )

    return forward


HIGH = 8  # for higher degrees PyTorch uses the closed forms


def _third(xp: ModuleType, x: Any, n: Any) -> Any:
    return xp.cos((n + 0.5) * xp.arccos(x)) / xp.cos(xp.arccos(x) / 2)


def _fourth(xp: ModuleType, x: Any, n: Any) -> Any:
    return xp.sin((n + 0.5) * xp.arccos(x)) / xp.sin(xp.arccos(x) / 2)


CHEBYSHEV: dict[str, Any] = {
    "t": lambda xp, x, n: xp.cos(n * xp.arccos(x)),
    "u": lambda xp, x, n: xp.sin((n + 1) * xp.arccos(x)) / xp.sin(xp.arccos(x)),
    "v": _third,
    "w": _fourth,
}
HERMITE = {"f": 128, "d": 512}


def _chebyshev_forward(kind: str, shifted: bool = False) -> Callable[..., Any]:
    return _forward(kind, CHEBYSHEV[kind], {}, shifted)


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("t"), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def chebyshev_polynomial_t(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.chebyshev_polynomial_t(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-1.])
    """


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("u"), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def chebyshev_polynomial_u(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.chebyshev_polynomial_u(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-1.])
    """


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("v"), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def chebyshev_polynomial_v(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Mason, Handscomb, "Chebyshev Polynomials", 2003.

    >>> import tdt
    >>> tdt.special.chebyshev_polynomial_v(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-1.])
    """


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("w"), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def chebyshev_polynomial_w(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Mason, Handscomb, "Chebyshev Polynomials", 2003.

    >>> import tdt
    >>> tdt.special.chebyshev_polynomial_w(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-1.])
    """


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("t", shifted=True), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def shifted_chebyshev_polynomial_t(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree `n` at 2 · input - 1. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.shifted_chebyshev_polynomial_t(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-0.])
    """


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("u", shifted=True), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def shifted_chebyshev_polynomial_u(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree `n` at 2 · input - 1. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.shifted_chebyshev_polynomial_u(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-0.])
    """


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("v", shifted=True), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def shifted_chebyshev_polynomial_v(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree `n` at 2 · input - 1. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Mason, Handscomb, "Chebyshev Polynomials", 2003.

    >>> import tdt
    >>> tdt.special.shifted_chebyshev_polynomial_v(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([1.])
    """


@calls_by_shape
@without_gradient
@binary_op(_chebyshev_forward("w", shifted=True), dtypes=FLOAT_OR_DOUBLE, to_float=True, numbers="any")
def shifted_chebyshev_polynomial_w(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree `n` at 2 · input - 1. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Mason, Handscomb, "Chebyshev Polynomials", 2003.

    >>> import tdt
    >>> tdt.special.shifted_chebyshev_polynomial_w(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-1.])
    """


@calls_by_shape
@without_gradient
@binary_op(
    _forward("h", None, HERMITE),
    dtypes=FLOAT_OR_DOUBLE,
    to_float=True,
    numbers="any",
)
def hermite_polynomial_h(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The physicists' Hermite polynomial of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off. The result is 0 where it is negative, and nan above 128 (float32) or
            512 (float64).
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.hermite_polynomial_h(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-5.])
    """


@calls_by_shape
@without_gradient
@binary_op(
    _forward("he", None, HERMITE),
    dtypes=FLOAT_OR_DOUBLE,
    to_float=True,
    numbers="any",
)
def hermite_polynomial_he(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The probabilists' Hermite polynomial of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off. The result is 0 where it is negative, and nan above 128 (float32) or
            512 (float64).
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.hermite_polynomial_he(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-1.3750])
    """


@calls_by_shape
@without_gradient
@binary_op(
    _forward("l", None, {}),
    dtypes=FLOAT_OR_DOUBLE,
    to_float=True,
    numbers="any",
)
def laguerre_polynomial_l(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Laguerre polynomial of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.laguerre_polynomial_l(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-0.1458])
    """


@calls_by_shape
@without_gradient
@binary_op(
    _forward("p", None, {}),
    dtypes=FLOAT_OR_DOUBLE,
    to_float=True,
    numbers="any",
)
def legendre_polynomial_p(x: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The Legendre polynomial of degree `n` at `x`. It has no derivative here.

    Args:
        n: degree; fractions are cut off, and the result is 0 where it is negative.
    Shape: x (*), n broadcastable with it; result the broadcast shape.
    Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964, chapter 22.

    >>> import tdt
    >>> tdt.special.legendre_polynomial_p(tdt.tensor([0.5]), tdt.tensor([3.]))
    tensor([-0.4375])
    """
