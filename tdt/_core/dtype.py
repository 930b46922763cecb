"""Data types: names, categories, limits, promotion.

NumPy's promotion is never used: a float32 tensor plus a float64 0-d tensor is float32 here (as in PyTorch) and
float64 in NumPy; an int64 tensor plus 1.5 is float32 here and float64 there.
"""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from tdt import _about, _kernels

BOOL, INT, FLOAT, COMPLEX = range(4)


class dtype:
    """A data type: `tdt.float32`, `tdt.int64`, … Compare with `is` or `==`.

    >>> import tdt
    >>> tdt.float32.is_floating_point, tdt.float32.itemsize
    (True, 4)
    """

    __slots__ = ("name", "np", "category", "itemsize", "is_floating_point", "is_complex", "is_signed")

    def __init__(self, name: str, np_dtype: Any, category: builtins.int):
        self.name, self.np, self.category = name, np.dtype(np_dtype), category
        self.itemsize = self.np.itemsize
        self.is_floating_point = category == FLOAT
        self.is_complex = category == COMPLEX
        self.is_signed = category >= FLOAT or (category == INT and self.np.kind == "i")

    def to_real(self) -> dtype:
        """The real type of the same precision: complex64 → float32; a real type is returned unchanged."""
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type of the same precision: float32 → complex64.

        Raises:
            RuntimeError: when there is none.
        """
        if self not in _COMPLEX:
            raise RuntimeError(f"{self} has no complex counterpart; use float32 or float64")
        return _COMPLEX[self]

    def __repr__(self) -> str:
        return f"{_about.prefix}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


bool = dtype("bool", np.bool_, BOOL)
uint8 = dtype("uint8", np.uint8, INT)
uint16 = dtype("uint16", np.uint16, INT)
uint32 = dtype("uint32", np.uint32, INT)
uint64 = dtype("uint64", np.uint64, INT)
int8 = dtype("int8", np.int8, INT)
int16 = short = dtype("int16", np.int16, INT)
int32 = int = dtype("int32", np.int32, INT)
int64 = long = dtype("int64", np.int64, INT)
float16 = half = dtype("float16", np.float16, FLOAT)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOAT)
float32 = float = dtype("float32", np.float32, FLOAT)
float64 = double = dtype("float64", np.float64, FLOAT)
complex64 = cfloat = dtype("complex64", np.complex64, COMPLEX)
complex128 = cdouble = dtype("complex128", np.complex128, COMPLEX)
# 8-bit floats: can be stored, moved and converted (`float8.py`); arithmetic raises, as in PyTorch.
float8_e4m3fn = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOAT)
float8_e5m2 = dtype("float8_e5m2", ml_dtypes.float8_e5m2, FLOAT)
float8_e4m3fnuz = dtype("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, FLOAT)
float8_e5m2fnuz = dtype("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, FLOAT)
float8_e8m0fnu = dtype("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, FLOAT)
float8_e8m0fnu.is_signed = False

ALL_DTYPES = (bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, bfloat16, float32, float64,
              complex64, complex128)  # fmt: skip
FLOAT8 = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu)
BY_NUMPY = {d.np: d for d in ALL_DTYPES + FLOAT8}
_REAL = {complex64: float32, complex128: float64}
_COMPLEX = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128,
            complex64: complex64, complex128: complex128}  # fmt: skip
_PYTHON = {builtins.bool: bool, builtins.int: int64, builtins.float: float64, builtins.complex: complex128}
# Names of dtypes in `"op" not implemented for '…'`.
SCALAR_NAMES = {bool: "Bool", uint8: "Byte", int8: "Char", int16: "Short", int32: "Int", int64: "Long",
                uint16: "UInt16", uint32: "UInt32", uint64: "UInt64", float16: "Half", bfloat16: "BFloat16",
                float32: "Float", float64: "Double", complex64: "ComplexFloat", complex128: "ComplexDouble",
                **{kind: kind.name.capitalize() for kind in FLOAT8}}  # fmt: skip

# The float8 types that an op may support, as its record states; all other ops raise NotImplementedError for them.
FLOAT8S = frozenset(FLOAT8)
FLOAT8_SIGNED = FLOAT8S - {float8_e8m0fnu}
FLOAT8_WITH_INF = frozenset((float8_e5m2, float8_e8m0fnu))

FLOATING = frozenset((FLOAT,))
COMPLEX_ONLY = frozenset((COMPLEX,))
FLOATING_AND_COMPLEX = frozenset((FLOAT, COMPLEX))
INTEGRAL = frozenset((BOOL, INT))
INTS = frozenset((INT,))
REAL = frozenset((BOOL, INT, FLOAT))
REAL_NUMBERS = frozenset((INT, FLOAT))
NUMBERS = frozenset((INT, FLOAT, COMPLEX))
ALL = frozenset((BOOL, INT, FLOAT, COMPLEX))
LAPACK = frozenset((float32, float64, complex64, complex128))  # dtypes in which matrix decompositions are computed

_default = float32


def of(np_dtype: Any) -> dtype:
    """The dtype of a NumPy dtype; TypeError for one that tensors cannot hold (strings, objects)."""
    found = BY_NUMPY.get(np_dtype)
    if found is None:
        found = BY_NUMPY.get(np.dtype(np_dtype).newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {np_dtype}. The only supported types are: "
            f"{', '.join(d.name for d in ALL_DTYPES)}."
        )
    return found


def as_dtype(value: Any) -> dtype:
    """`value` as a dtype; accepts ours and Python's `float`, `int`, `bool`, `complex`."""
    if value.__class__ is dtype:
        return value
    if value in _PYTHON:
        return _PYTHON[value]
    raise TypeError(f"dtype must be a tdt.dtype such as tdt.float32, not {type(value).__name__} {value!r}")


def get_default_dtype() -> dtype:
    """The dtype of `tensor(1.5)` and of layers: float32 unless `set_default_dtype` changed it.

    >>> import tdt
    >>> tdt.get_default_dtype()
    tdt.float32
    """
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the default floating-point dtype.

    Raises:
        TypeError: when `d` is not floating-point, or has 8 bits.

    >>> import tdt
    >>> tdt.set_default_dtype(tdt.float64); tdt.tensor(1.5).dtype
    tdt.float64
    >>> tdt.set_default_dtype(tdt.float32)
    """
    global _default
    if as_dtype(d).category != FLOAT:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    if d in FLOAT8:
        raise TypeError(f"couldn't find storage object {SCALAR_NAMES[d]}Storage")
    if (d := as_dtype(d)) is not _default:
        _default = d
        _kernels.forget()  # plans hold the dtype of results


def check_category(name: str, allowed: frozenset, dtype: dtype, float8: frozenset = frozenset()) -> None:
    """NotImplementedError unless the dtype or its category is allowed, and a float8 type in `float8`."""
    supported = allowed is ALL or dtype.category in allowed or dtype in allowed
    if not supported or (dtype in FLOAT8 and dtype not in float8):
        raise NotImplementedError(f"\"{name}\" not implemented for '{SCALAR_NAMES[dtype]}'")


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype to which both can be converted.

    Raises:
        TypeError: when an argument is not a dtype.
        RuntimeError: when one is float8, or of uint16, uint32 and uint64 and another integer type.

    >>> import tdt
    >>> tdt.promote_types(tdt.int64, tdt.float16)
    tdt.float16
    """
    for place, kind in enumerate((type1, type2), 1):
        if kind.__class__ is not dtype:
            name = type(kind).__name__
            raise TypeError(f"promote_types(): argument 'type{place}' (position {place}) must be tdt.dtype, not {name}")
    if type1 is type2:
        return type1
    if type1 in FLOAT8 or type2 in FLOAT8:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {SCALAR_NAMES[type1]} and "
            f"{SCALAR_NAMES[type2]}"
        )
    a, b = (type1, type2) if type1.category >= type2.category else (type2, type1)
    if a.category == COMPLEX and b.category in (FLOAT, COMPLEX):
        return complex128 if float64 in (a.to_real(), b.to_real()) else complex64
    if a.category > b.category:
        return a
    if a.category == FLOAT:
        return float32 if {a, b} == {float16, bfloat16} else (a if a.itemsize >= b.itemsize else b)
    if uint16 in (a, b) or uint32 in (a, b) or uint64 in (a, b):
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
                           f"{SCALAR_NAMES[type1]} and {SCALAR_NAMES[type2]}")  # fmt: skip
    if a.is_signed == b.is_signed or (a if a.is_signed else b).itemsize > (b if a.is_signed else a).itemsize:
        return a if a.itemsize >= b.itemsize else b
    return int16  # uint8 with int8


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Whether a result of type `from_` may be stored in `to`: never down a category (complex, float, integer, bool).

    >>> import tdt
    >>> tdt.can_cast(tdt.float64, tdt.float32), tdt.can_cast(tdt.float32, tdt.int64)
    (True, False)
    """
    return from_.category <= to.category


def result_of(operands: list[tuple[dtype, builtins.bool]], scalars: list[dtype]) -> dtype:
    """The promoted dtype of tensors, given as (dtype, is 0-d), and Python numbers, given by their widest dtypes.

    Tensors with dimensions decide; a 0-d tensor counts only when its category is higher, and a Python number only when
    its category is higher still, and then as the default dtype of that category.
    """
    result = None
    dims = [d for d, zero in operands if not zero]
    for d in dims:
        result = d if result is None else promote_types(result, d)
    zero_dims = [d for d, zero in operands if zero]
    if zero_dims:
        z = zero_dims[0]
        for d in zero_dims[1:]:
            z = promote_types(z, d)
        if (
            result is None or z.category > result.category
        ):  # a complex one leaves floating-point numbers their precision
            result = result.to_complex() if z.category == COMPLEX and result and result.category == FLOAT else z
    for s in scalars:
        if result is None or s.category > result.category:
            if s.category == COMPLEX:
                result = (
                    result.to_complex() if result is not None and result.category == FLOAT else _default.to_complex()
                )
            else:
                result = _default if s.category == FLOAT else s
    assert result is not None
    return result


class finfo:
    """Limits of a floating-point dtype: `eps`, `max`, `min`, `tiny`, `smallest_normal`, `resolution`, `bits`, `dtype` (name).

    Args:
        type: by default the default dtype; a complex dtype has the limits of its real and imaginary parts.
    Raises:
        TypeError: when `type` is an integer dtype or bool.

    >>> import tdt
    >>> tdt.finfo(tdt.float16).max
    65504.0
    """

    def __init__(self, type: dtype | None = None):
        kind = _default if type is None else as_dtype(type).to_real()
        if kind.category != FLOAT:
            raise TypeError(f"tdt.finfo() requires a floating point input type. Use tdt.iinfo to handle '{type}'")
        if kind not in _FINFO:
            self._look_up(kind)
            _FINFO[kind] = vars(self).copy()
        vars(self).update(_FINFO[kind])

    def _look_up(self, kind: dtype) -> None:
        info = ml_dtypes.finfo(kind.np)
        self.dtype, self.bits = kind.name, info.bits
        self.eps, self.max, self.min = (builtins.float(v) for v in (info.eps, info.max, info.min))
        self.tiny = self.smallest_normal = builtins.float(info.smallest_normal)
        self.resolution = builtins.float(f"1e-{info.precision}")
        if kind in FLOAT8:  # PyTorch gives no decimal digit, and the same step for both types of its kind
            self.resolution = 1.0
            self.eps = 0.125 if kind is float8_e5m2fnuz else self.eps

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")  # fmt: skip

    def __eq__(self, other: object) -> builtins.bool:
        return self.__class__ is other.__class__ and vars(self) == vars(other)

    def __hash__(self) -> builtins.int:
        return hash(self.dtype)


_FINFO: dict[dtype, dict[str, Any]] = {}  # the limits of each dtype that was asked for


class iinfo(finfo):
    """Limits of an integer dtype: `min`, `max`, `bits`, `dtype` (name).

    Raises:
        TypeError: when `type` is not an integer dtype.

    >>> import tdt
    >>> tdt.iinfo(tdt.uint8).max
    255
    """

    min: builtins.int
    max: builtins.int

    def __init__(self, type: dtype):
        kind = as_dtype(type)
        if kind is bool:
            raise TypeError(f"{kind} is not supported by tdt.iinfo")
        if kind.category != INT:
            raise TypeError(f"tdt.iinfo() requires an integer input type. Use tdt.finfo to handle '{type}'")
        info = np.iinfo(kind.np)
        self.dtype, self.bits = kind.name, info.bits
        self.min, self.max = builtins.int(info.min), builtins.int(info.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
