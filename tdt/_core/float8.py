"""Conversion to and from 8-bit floating-point numbers, with PyTorch's rounding.

PyTorch converts by way of float32, and differs from ml_dtypes where a number has no code: float8_e4m3fn takes the largest
number instead of NaN, and float8_e8m0fnu, which has neither sign nor zero, takes the magnitude, and its smallest for zero.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._core import dtype as _dtype
from tdt._core.dtype import FLOAT8, dtype

# The bits of float32 that PyTorch reads from each code of NaN.
_NAN = {
    _dtype.float8_e4m3fn: {0x7F: 0x7FF00000, 0xFF: 0xFFF00000},
    _dtype.float8_e5m2: {0x7D: 0x7FE00000, 0x7E: 0x7FC00000, 0x7F: 0x7FE00000, 0xFD: 0xFFE00000, 0xFE: 0xFFC00000,
                         0xFF: 0xFFE00000},
    _dtype.float8_e4m3fnuz: {0x80: 0x7F800001},
    _dtype.float8_e5m2fnuz: {0x80: 0x7F800001},
    _dtype.float8_e8m0fnu: {0xFF: 0x7F800001},
}  # fmt: skip


def _decoded(kind: dtype) -> np.ndarray:
    """The float32 values of the 256 codes."""
    values = np.arange(256, dtype=np.uint8).view(kind.np).astype(np.float32)
    for code, bits in _NAN[kind].items():
        values.view(np.uint32)[code] = bits
    return values


_VALUES = {kind.np: _decoded(kind) for kind in FLOAT8}
KINDS = frozenset(_VALUES)


def astype(x: Any, np_dtype: Any) -> Any:
    """`x.astype(np_dtype)`, a copy in the same order of memory, with PyTorch's rounding to and from float8."""
    if np_dtype in KINDS:
        return x.copy(order="K") if x.dtype == np_dtype else _encode(as_float32(x), np_dtype)
    return _read(x, np_dtype) if x.dtype in KINDS else _kernels.astype(x, np_dtype)


def _read(x: Any, np_dtype: Any) -> np.ndarray:
    """Convert float8 codes to another dtype."""
    out = np.empty_like(x, np_dtype)
    out[...] = _table(x.dtype, np.dtype(np_dtype))[x.view(np.uint8)]
    return out


@functools.cache
def _table(kind: np.dtype, np_dtype: np.dtype) -> np.ndarray:
    """The values of the 256 codes in another dtype. PyTorch's half-precision NaNs are quiet, bfloat16's all one."""
    values = _VALUES[kind].copy()
    nan = np.isnan(values)
    if np_dtype == np.float16:
        values.view(np.uint32)[nan] |= 0x400000
    elif np_dtype == _dtype.bfloat16.np:
        values[nan] = np.nan
    return values.astype(np_dtype)


def as_float32(x: Any) -> np.ndarray:
    """The elements of an array of any type as float32; of complex numbers the real parts."""
    if x.dtype in KINDS:
        return _read(x, np.float32)
    return (x.real if x.dtype.kind == "c" else x).astype(np.float32)


def plain(x: Any) -> Any:
    """An array of a dtype that NumPy supports: bfloat16 and float8 become float32, others are unchanged."""
    return as_float32(x) if x.dtype in KINDS or x.dtype == _dtype.bfloat16.np else x


def printed(x: Any) -> Any:
    """As `plain`; the smallest float8_e8m0fnu, to which zero is rounded, as 0."""
    values = plain(x)
    return np.where(x.view(np.uint8) == 0, 0, values) if x.dtype == _dtype.float8_e8m0fnu.np else values


def _encode(x: np.ndarray, np_dtype: Any) -> np.ndarray:
    """Round float32 numbers to the nearest code, ties to even."""
    kind = _dtype.of(np_dtype)
    if kind is _dtype.float8_e4m3fn:
        x = np.clip(x, -448, 448)
    elif kind is _dtype.float8_e8m0fnu:
        return _exponents(x).view(np_dtype)
    out = np.asarray(x.astype(np_dtype))
    if kind is _dtype.float8_e5m2:
        out.view(np.uint8)[np.isnan(x)] |= 0x7F
    return out


def _exponents(x: np.ndarray) -> np.ndarray:
    """The codes of float8_e8m0fnu: float32's exponent field, plus one from half of the mantissa on.

    Half of the mantissa of a subnormal number is its first bit alone, which PyTorch rounds down.
    """
    bits = x.view(np.uint32) & 0x7FFFFFFF
    half = np.where(bits < 0x800000, 0x3FFFFF, 0x400000).astype(np.uint32)
    return np.asarray(np.minimum((bits + half) >> 23, 255), np.uint8)
