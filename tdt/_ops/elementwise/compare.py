"""Comparisons, logic and bits: results are bool or whole numbers, so nothing here has a gradient."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tdt._core import dtype as _dtype
from tdt._core.dtype import ALL, INTEGRAL, INTS, REAL, check_category
from tdt._core.tensor import Tensor, wrap
from tdt._ops.elementwise._front import binary, check_operands, ufunc, ufunc2, unary
from tdt._ops.elementwise.arithmetic import wrapped
from tdt.autograd._op import op

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "eq", "equal", "ge", "greater", "greater_equal", "gt", "isclose", "isfinite", "isinf", "isnan", "isneginf",
    "isposinf", "isreal", "le", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "lt",
    "ne", "not_equal", "signbit",
]  # fmt: skip


def _comparison(name: str) -> Any:
    """A forward; a Python integer is compared as the tensor's integer type has it, where NumPy would not round it."""

    def forward(xp: ModuleType, x: Any, y: Any, *, out: Any = None) -> Any:
        if y.__class__ is int and x.dtype.kind in "iu":
            y = wrapped(y, x)
        return getattr(xp, name)(x, y) if out is None else getattr(xp, name)(x, y, out=out)

    return forward


eq, ne, lt, le, gt, ge = (
    binary(name, _comparison(function), {}, f"input {sign} other, element by element.", example, dtypes=dtypes)
    for name, function, sign, example, dtypes in (
        ("eq", "equal", "==", ("1, 2", "1, 3", " True, False"), ALL),
        ("ne", "not_equal", "!=", ("1, 2", "1, 3", "False,  True"), ALL),
        ("lt", "less", "<", ("1, 2", "1, 3", "False,  True"), REAL),
        ("le", "less_equal", "<=", ("1, 2", "1, 1", " True, False"), REAL),
        ("gt", "greater", ">", ("1, 2", "1, 1", "False,  True"), REAL),
        ("ge", "greater_equal", ">=", ("1, 2", "1, 3", " True, False"), REAL),
    )
)
not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge

logical_and, logical_or, logical_xor = (
    binary(name, ufunc2(name), {}, doc, ("True, False", "True, True", result), numbers="none")
    for name, doc, result in (
        ("logical_and", "Whether both are non-zero.", " True, False"),
        ("logical_or", "Whether either is non-zero.", "True, True"),
        ("logical_xor", "Whether exactly one is non-zero.", "False,  True"),
    )
)
logical_not = unary(
    "logical_not",
    ufunc("logical_not"),
    None,
    "Whether each is zero.",
    ("True, False", "False,  True"),
    dtypes=ALL,
    to_float=False,
)

bitwise_and, bitwise_or, bitwise_xor = (
    binary(name, ufunc2(name), {}, doc, ("6", "3", result), dtypes=INTEGRAL, numbers="any")
    for name, doc, result in (
        ("bitwise_and", "Bits set in both; for bool, and.", "2"),
        ("bitwise_or", "Bits set in either; for bool, or.", "7"),
        ("bitwise_xor", "Bits set in one alone; for bool, exclusive or.", "5"),
    )
)
bitwise_not = unary(
    "bitwise_not",
    ufunc("bitwise_not"),
    None,
    "Every bit turned; for bool, not.",
    ("6", "-7"),
    dtypes=INTEGRAL,
    to_float=False,
    same_out=True,
)


def _shift(name: str) -> Any:
    def forward(xp: ModuleType, x: Any, y: Any) -> Any:
        # C leaves shifts by a negative count or the whole width open; PyTorch shifts everything out.
        dtype = x.dtype if hasattr(x, "dtype") else y.dtype
        width = 8 * dtype.itemsize
        inside = (y >= 0) & (y < width) if hasattr(y, "dtype") else 0 <= y < width
        shifted = getattr(xp, name)(x, xp.where(inside, y, 0).astype(dtype))
        if name == "left_shift":
            return xp.where(inside, shifted, xp.zeros_like(shifted))
        return xp.where(inside, shifted, xp.where(shifted < 0, -1, 0).astype(shifted.dtype))

    return forward


bitwise_left_shift, bitwise_right_shift = (
    binary(f"bitwise_{name}", _shift(name), {}, doc, example, dtypes=INTS, numbers="any")
    for name, doc, example in (
        ("left_shift", "input · 2^other, for integers.", ("3", "2", "12")),
        ("right_shift", "input / 2^other rounded down, for integers.", ("13", "2", "3")),
    )
)


def _on_floats(name: str, otherwise: bool) -> Any:
    """A test of floating-point numbers; all whole numbers answer `otherwise`."""

    def forward(xp: ModuleType, x: Any) -> Any:
        return xp.full(x.shape, otherwise) if x.dtype.kind in "biu" else getattr(xp, name)(x)

    return forward


def _test(name: str, otherwise: bool, doc: str, example: tuple[str, str], dtypes: frozenset = ALL) -> Any:
    return unary(
        name, _on_floats(name, otherwise), None, doc, example, dtypes=dtypes, to_float=False, bool_out=dtypes is REAL
    )


isnan = _test("isnan", False, "Whether each is not a number.", ("1., float('nan')", "False,  True"))
isinf = _test("isinf", False, "Whether each is infinite.", ("1., float('inf')", "False,  True"))
isfinite = _test("isfinite", True, "Whether each is neither infinite nor nan.", ("1., float('inf')", " True, False"))
isposinf = _test("isposinf", False, "Whether each is +inf.", ("1., float('inf')", "False,  True"), REAL)
isneginf = _test("isneginf", False, "Whether each is -inf.", ("1., float('-inf')", "False,  True"), REAL)
isreal = unary("isreal", lambda xp, x: xp.isreal(x), None, "Whether the imaginary part is 0.", ("1., 2.", "True, True"),
               dtypes=ALL, to_float=False)  # fmt: skip
signbit = unary(
    "signbit",
    lambda xp, x: xp.signbit(x) if x.dtype.kind == "f" else x < 0,
    None,
    "Whether the sign is minus, that of -0. too.",
    ("1., -0.", "False,  True"),
    dtypes=REAL,
    to_float=False,
    bool_out=True,
)


@op
def _isclose(xp: ModuleType, x: Any, y: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    if x.dtype.kind in "biu" and rtol == 0 and atol == 0:
        return x == y
    close = x == y
    if equal_nan and x.dtype.kind in "fc":
        close = close | (xp.isnan(x) & xp.isnan(y))
    allowed = atol + xp.abs(rtol * y)
    distance = xp.abs(x.astype(xp.float64) - y if x.dtype.kind in "biu" else x - y)
    return close | (xp.isfinite(distance) & (distance <= allowed))


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| ≤ atol + rtol · |other|, element by element. Both must have the same dtype.

    >>> import tdt
    >>> tdt.isclose(tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    check_operands("isclose", input, other, numbers="none")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{_dtype.SCALAR_NAMES[input.dtype]} did not match {_dtype.SCALAR_NAMES[other.dtype]}")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol}")
    return _isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether isclose holds for every element.

    >>> import tdt
    >>> tdt.allclose(tdt.tensor([1.0]), tdt.tensor([1.0 + 1e-7]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan)._a.all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and equal elements.

    >>> import tdt
    >>> tdt.equal(tdt.tensor([1, 2]), tdt.tensor([1, 2]))
    True
    """
    check_category("equal", ALL, input.dtype)
    return input.shape == other.shape and bool(eq(wrap(input._a), wrap(other._a))._a.all())
