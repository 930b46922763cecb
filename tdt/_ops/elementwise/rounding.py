"""Sign, absolute value and rounding."""

from __future__ import annotations

import builtins
import functools
import math
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend import where
from tdt._backend.layout import in_order
from tdt._core import dtype as _dtype
from tdt._core.calls import front, integer
from tdt._core.dtype import ALL, FLOAT8_SIGNED, FLOATING, NUMBERS, REAL, REAL_NUMBERS, check_category
from tdt._core.methods import function_alias, method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import C_NAMES
from tdt._ops.elementwise._front import (
    binary_op,
    refuse_out,
    tensor_argument,
    ufunc,
    ufunc2,
    unary_op,
)
from tdt.autograd._dispatch import unary
from tdt.autograd._in_place_methods import by_copy, by_op
from tdt.autograd._op import finish, op
from tdt.autograd._op_table import OPS
from tdt.autograd._remembered import calls_by_shape, calls_one_op

__all__ = [
    "abs", "abs_", "absolute", "angle", "ceil", "fix", "floor", "frac", "frexp", "nan_to_num", "neg", "negative", "nextafter",
    "positive", "round", "sgn", "sign", "trunc",
]  # fmt: skip


def _refuse_bool(x: Any) -> None:
    if x == _dtype.bool.np:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


def _rounding(name: str) -> Any:
    """A rounding function's forward; integers are copied, where NumPy would raise or convert them."""

    def forward(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
        if x.dtype.kind != "f" and x.dtype.kind != "V":
            return in_order(xp, x.copy(order="K"), [x])
        return getattr(xp, name)(x) if out is None else getattr(xp, name)(x, out=out)

    return forward


def _sign_forward(xp: ModuleType, x: Any) -> Any:
    if x.dtype.kind == "f":  # nan has sign 0, as in PyTorch
        unit = x.dtype.type(1)
        return (x > 0) * unit - (x < 0) * unit
    return in_order(xp, x.copy(order="K"), [x]) if x.dtype == bool else xp.sign(x)


def _sgn_forward(xp: ModuleType, x: Any) -> Any:
    if x.dtype.kind != "c":
        return _sign_forward(xp, x)
    size = xp.abs(x)
    return xp.where(size == 0, 0, x / xp.where(size == 0, 1, size)).astype(x.dtype)


def _sgn_rule(g: Tensor, x: Tensor) -> Tensor:
    if not x.is_complex():
        return g.new_zeros(g.shape)
    size = x.abs()
    unit = x.sgn()
    radial = (g * unit.conj()).real  # a change along the radius does not change the sign
    return ((g - radial * unit) / size).masked_fill(size == 0, 0)


def _zero_gradient(g: Tensor) -> Tensor:
    return g.new_zeros(g.shape)


def _zeros(xp: ModuleType, g: Any) -> Any:
    return _kernels.zeros_like(xp, g)


def _negative(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
    if xp is np and x.dtype.kind == "c" and out is None and x.ndim and x.flags.c_contiguous:
        return np.negative(x.view(x.real.dtype)).view(x.dtype)  # complex numbers would be taken one by one
    return xp.negative(x) if out is None else xp.negative(x, out=out)


_negative.ufunc = "negative"  # type: ignore[attr-defined]


@method(aliases=("negative",), in_place=by_op, in_place_function=True)
@front
@unary_op(
    _negative,
    formula=True,
    vjp=lambda g: -g,
    fast_vjp=lambda xp, g: -g if g.dtype.kind in "fc" else OPS["neg"].forward(xp, g),
    traced={"x": lambda xp, g: -g},
    dtypes=NUMBERS,
    to_float=False,
    same_out=True,
    check=_refuse_bool,
    sparse_gradients=True,
    sparse_values="all",
)
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The negative of each element, -x.

    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `input` is bool.

    >>> import tdt
    >>> tdt.neg(tdt.tensor([1., -2.]))
    tensor([-1.,  2.])
    """


@method(aliases=("absolute",))
@front
@unary_op(
    ufunc("absolute"),
    formula=True,
    vjp=lambda g, x: g * x.sgn(),
    fast_vjp=lambda xp, g, x: g * _sgn_forward(xp, x),
    dtypes=NUMBERS,
    to_float=False,
    same_out="real",
    float8=FLOAT8_SIGNED,
    sparse_values="coalesced",
)
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The absolute value of each element; of complex numbers the modulus, in the real dtype.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.abs(tdt.tensor([-1., 2.]))
    tensor([1., 2.])
    """


@method(in_place=by_op)
@front
@unary_op(
    _sgn_forward, vjp=_sgn_rule, formula=True, dtypes=ALL, to_float=False, same_out=True, sparse_values="coalesced"
)
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sign of each element: x / |x|, and 0 at 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.sgn(tdt.tensor([-3., 0.]))
    tensor([-1.,  0.])
    """


@method(in_place=by_op)
@front
@unary_op(
    _sign_forward,
    formula=True,
    vjp=_zero_gradient,
    fast_vjp=_zeros,
    dtypes=REAL,
    to_float=False,
    same_out=True,
    sparse_values="coalesced",
)
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sign of each real element: -1, 0 or 1; nan has sign 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.sign(tdt.tensor([-3., 0.]))
    tensor([-1.,  0.])
    """


@method(in_place=by_op, in_place_function=True)
@front
@unary_op(
    _rounding("floor"),
    _zero_gradient,
    formula=True,
    fast_vjp=_zeros,
    dtypes=REAL_NUMBERS,
    to_float=False,
    same_out=True,
    sparse_values="coalesced",
)
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest integer that is at most x, for each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.floor(tdt.tensor([1.7, -1.2]))
    tensor([ 1., -2.])
    """


@method(in_place=by_op, in_place_function=True)
@front
@unary_op(
    _rounding("ceil"),
    _zero_gradient,
    formula=True,
    fast_vjp=_zeros,
    dtypes=REAL_NUMBERS,
    to_float=False,
    same_out=True,
    sparse_values="coalesced",
)
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest integer that is at least x, for each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.ceil(tdt.tensor([1.2, -1.7]))
    tensor([ 2., -1.])
    """


@method(aliases=("fix",), in_place=by_op, in_place_function=True)
@front
@unary_op(
    _rounding("trunc"),
    _zero_gradient,
    formula=True,
    fast_vjp=_zeros,
    dtypes=REAL_NUMBERS,
    to_float=False,
    same_out=True,
    sparse_values="coalesced",
)
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each element rounded towards 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.trunc(tdt.tensor([1.7, -1.7]))
    tensor([ 1., -1.])
    """


@method(in_place=by_op, in_place_function=True)
@front
@unary_op(
    lambda xp, x: x - xp.trunc(x),
    formula=True,
    vjp=lambda g: g,
    fast_vjp=lambda g: g,
    dtypes=FLOATING,
    to_float=False,
    sparse_values="coalesced",
)
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The fractional part x - trunc(x) of each element.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.frac(tdt.tensor([1.5, -1.5]))
    tensor([ 0.5000, -0.5000])
    """


@method()
@front
@unary_op(
    lambda xp, x: _angle(xp, x),
    formula=True,
    vjp=lambda g, x: _angle_rule(g, x),
    sparse_values="coalesced",
)
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The argument of each complex number, in radians in (-π, π]; of real numbers 0, or π below 0.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.angle(tdt.tensor([1., -1.]))
    tensor([0.0000, 3.1416])
    """


fix = function_alias("fix", of=trunc)
absolute = function_alias("absolute", of=abs)
negative = function_alias("negative", of=neg)


_next_of_type = ufunc2("nextafter")
_next_float32: Any = _kernels.from_formula("nextafter", _next_of_type, 2, ())[0]


def _nextafter(xp: ModuleType, x: Any, y: Any) -> Any:
    """By a formula of float32, which would give half precision the numbers next to it in float32."""
    return (_next_float32 if x.dtype == np.float32 else _next_of_type)(xp, x, y)


@_kernels.prepares(_nextafter)
def _(x: Any, y: Any, *, recorded: bool) -> Any:
    found = _next_float32.ufunc_for((x, y), {}) if x.dtype == y.dtype == np.float32 else None
    return found[0] if found else None


@method(in_place=by_op)
@calls_by_shape
@binary_op(
    _nextafter,
    vjp={"x": lambda g, x, y: g.masked_fill(x == y, 0), "y": lambda g: g.new_zeros(g.shape)},
    fast_vjp={
        "x": lambda xp, g, x, y: where(xp, x == y, g.dtype.type(0), g),
        "y": lambda xp, g: xp.zeros(g.shape, g.dtype),
    },
    dtypes=FLOATING,
    numbers="none",
    computes=False,
)
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The floating-point number next to each element of `input` in the direction of `other`.

    Shape: input (*), other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.nextafter(tdt.tensor([1., 1.]), tdt.tensor([1., 2.]))
    tensor([1.0000, 1.0000])
    """


@op(dtypes=FLOATING, outputs=("mantissa", "exponent"), computes=False)
def _frexp(xp: ModuleType, x: Any) -> tuple[Any, Any]:
    mantissa, exponent = xp.frexp(x)
    return mantissa, exponent.astype(xp.int32)


_frexp.vjp("x")(lambda g_mantissa, exponent: (g_mantissa / 2.0**exponent).to(g_mantissa.dtype))


@method()
@front
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Mantissa and exponent of each element: input = mantissa · 2^exponent where |mantissa| is 0 or in [0.5, 1).

    Shape: input (*); mantissa and exponent the same.
    Returns: named tuple (mantissa, exponent); the exponent is int32.
    Raises:
        RuntimeError: when `input` is not floating-point, or the tensors in `out` do not have the result's dtypes.

    >>> import tdt
    >>> tdt.frexp(tdt.tensor([6.0, -0.25])).mantissa
    tensor([ 0.7500, -0.5000])
    """
    if not tensor_argument("frexp", input).is_floating_point():
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    if out is not None:
        for name, target, expected in zip(("mantissa", "exponent"), out, (input.dtype, _dtype.int32), strict=True):
            if target.dtype is not expected:
                raise RuntimeError(
                    f"torch.frexp() expects {name} to have dtype {C_NAMES.get(expected.name, expected.name)} but got "
                    f"{C_NAMES.get(target.dtype.name, target.dtype.name)}"
                )
    return return_type("frexp", ("mantissa", "exponent"))(*finish(_frexp, out, input))


def _angle(xp: ModuleType, x: Any) -> Any:
    if x.dtype.kind != "f":
        return xp.angle(x)
    number = x.dtype.type
    return xp.where(x < 0, number(math.pi), xp.where(xp.isnan(x), x, number(0)))


def _angle_rule(g: Tensor, x: Tensor) -> Tensor:
    if not x.is_complex():
        return g.new_zeros(g.shape)
    return (g * 1j * x / (x.abs() ** 2)).masked_fill(x == 0, 0)


@functools.cache
def _power_of_ten(exponent: int, dtype: Any) -> np.ndarray:
    """10 to a power, inf beyond float64, as a 0-d array, which NumPy's ufuncs take in half the time of a Python number."""
    return np.array(10.0**exponent if exponent < 309 else math.inf).astype(dtype)


_rint: Any = _kernels.from_formula("rint", _rounding("rint"), 1, ())[0]


@op(dtypes=REAL_NUMBERS, elementwise=True, sparse_values="coalesced", half=True)
def _round(xp: ModuleType, x: Any, *, decimals: int | None = None, out: Any = None) -> Any:
    if x.dtype.kind in "iu":
        if decimals is not None:
            check_category("round", FLOATING, _dtype.of(x.dtype))
        if out is None:
            return in_order(xp, x.copy(order="K"), [x])
        if out is not x:
            xp.copyto(out, x)
        return out
    if not decimals:
        return _rint(xp, x) if out is None else _rint(xp, x, out=out)
    if x.dtype in _kernels.LOWER:
        return _kernels.narrow(_round.forward(xp, *_kernels.widen((x,)), decimals=decimals), x.dtype)
    exponent = builtins.abs(integer(decimals))
    scale = _power_of_ten(exponent, x.dtype) if xp is np else float(_power_of_ten(exponent, np.float64))
    there, back = (xp.multiply, xp.divide) if decimals > 0 else (xp.divide, xp.multiply)
    if out is None:
        return back(xp.rint(there(x, scale)), scale)
    return back(xp.rint(there(x, scale, out=out), out=out), scale, out=out)


@_kernels.prepares(_round.forward, all_shapes=True)
def _(x: Any, *, decimals: int | None, recorded: bool) -> Any:
    found = _rint.ufunc_for((x,), {}) if not decimals and x.dtype.kind == "f" else None
    return found and found[0]


_round.vjp("x")(_zero_gradient)
_round.fast_vjp("x")(_zeros)


@method(in_place=by_op, in_place_function=True)
@calls_one_op
def round(input: Tensor, *, decimals: int | None = None, out: Tensor | None = None) -> Tensor:
    """Each element rounded to `decimals` decimals; halves go to the even neighbour.

    Args:
        decimals: negative counts digits to the left of the point; None is 0.
    Shape: input (*); result the same.
    Raises:
        NotImplementedError: when `input` is an integer tensor and `decimals` is given.

    >>> import tdt
    >>> tdt.round(tdt.tensor([0.5, 1.5]))
    tensor([0., 2.])
    """
    if out is None and decimals is None and input.__class__ is Tensor:
        return unary(_round, input)
    tensor_argument("round", input)
    refuse_out(out, input)
    return finish(_round, out, input, decimals=decimals)


@functools.cache
def _largest(kind: _dtype.dtype) -> float:
    return _dtype.finfo(kind).max


@op(computes=False, sparse_values="coalesced", formula=True)
def _nan_to_num(xp: ModuleType, x: Any, *, nan: float, posinf: float, neginf: float) -> Any:
    kind, number = x.dtype.kind, x.dtype.type
    if kind in "biuc":
        out = in_order(xp, x.copy(order="K"), [x])
        if kind != "c":
            return out
        for part in (out.real, out.imag):
            part[...] = _nan_to_num.forward(xp, part, nan=nan, posinf=posinf, neginf=neginf)
        return out
    finite = xp.where(x == -math.inf, number(neginf), xp.where(x == math.inf, number(posinf), x))
    return xp.where(x != x, number(nan), finite)


_nan_to_num.vjp("x")(lambda g, x: g * x.isfinite())
_nan_to_num.fast_vjp("x")(lambda xp, g, x: g * xp.isfinite(x))


@method(in_place=by_copy, in_place_function=True)
@calls_one_op
def nan_to_num(
    input: Tensor,
    nan: float | None = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Each element, with nan and infinities replaced by finite numbers.

    Args:
        nan: replaces nan; None is 0.
        posinf, neginf: replace inf and -inf; None is the largest and the smallest number of the dtype.
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.nan_to_num(tdt.tensor([float("nan"), 1.0]))
    tensor([0., 1.])
    """
    kind = input.dtype
    if kind.category >= _dtype.FLOAT:
        largest = _largest(kind)
        posinf = largest if posinf is None else posinf
        neginf = -largest if neginf is None else neginf
    attributes = {"nan": 0.0 if nan is None else nan, "posinf": posinf, "neginf": neginf}
    if out is None:
        return unary(_nan_to_num, input, attributes)
    refuse_out(out, input)
    return _nan_to_num.into(out, input, **attributes)


@method()
@front
def positive(input: Tensor) -> Tensor:
    """`input` itself, as `+input` returns it.

    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `input` is bool.

    >>> import tdt
    >>> tdt.positive(tdt.tensor([1.0]))
    tensor([1.])
    """
    if input.dtype is _dtype.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@method(aliases=("absolute_",))
def abs_(input: Tensor) -> Tensor:
    """In-place version of `abs`.

    Raises:
        RuntimeError: when `input` is complex.

    >>> import tdt
    >>> tdt.abs_(tdt.tensor([-1.0]))
    tensor([1.])
    """
    if input.is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return OPS["abs"].inplace(input)


Tensor.__neg__, Tensor.__pos__, Tensor.__abs__ = neg, positive, abs  # type: ignore[assignment, method-assign]
