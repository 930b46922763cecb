"""Factors of operands, `alpha` and `beta`: which of them a type takes, and products with them; and divisors."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt.autograd._plan import integers


def scaled(x: Any, y: Any, alpha: Any, subtracts: bool = False) -> Any:
    """alpha · y; RuntimeError where the result's dtype cannot hold alpha, or -alpha if that is what the product is added by."""
    dtype: Any = getattr(x, "dtype", getattr(y, "dtype", None))
    kind = dtype.kind
    if alpha.__class__ is float and kind == "f":
        check_range(alpha, dtype)
        return y * alpha
    if isinstance(alpha, np.generic):
        alpha = alpha.item()
    check_factor("alpha", alpha, kind)
    if kind == "b":
        return y & bool(alpha)  # True * True would be a number
    if isinstance(alpha, (int, float)):
        check_range(-alpha if subtracts and kind == "i" and alpha != -(2**63) else alpha, dtype)
    return y * wrapped(alpha, y)


def check_factor(name: str, factor: Any, kind: str) -> None:
    """RuntimeError for a factor that results of a kind, by NumPy's letter, cannot hold."""
    if isinstance(factor, bool) and kind != "b":
        raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    if isinstance(factor, (float, complex)) and kind in "biu":
        raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    if isinstance(factor, complex) and kind != "c":
        raise RuntimeError(f"For non-complex input tensors, argument {name} must not be a complex number.")


# PyTorch's names of types in its message about numbers that they cannot hold.
C_TYPES = {"int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t", "float32": "float", "float64": "double",
           "float16": "c10::Half", "bfloat16": "c10::BFloat16", "complex64": "c10::complex<float>"}  # fmt: skip


@functools.cache
def _limits(dtype: Any) -> tuple[float, float]:
    """The least and the largest factor in a type."""
    limits = np.iinfo(dtype) if dtype.kind in "iu" else _dtype.finfo(_dtype.of(dtype))
    return -limits.max if dtype.kind == "u" else limits.min, limits.max


def check_range(alpha: float, dtype: Any) -> None:
    """RuntimeError for a factor beyond the numbers of a type; a negative one may be so large where the type has no sign."""
    least, most = _limits(dtype)
    if not least <= alpha <= most and abs(alpha) != math.inf and alpha == alpha:
        name = C_TYPES.get(dtype.name, f"{dtype.name}_t")
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")


def wrapped(number: Any, like: Any) -> Any:
    """A Python integer reduced modulo 2^bits to the range of the array's integer type; any other number unchanged."""
    if not isinstance(number, int) or getattr(like, "dtype", None) is None or like.dtype.kind not in "iu":
        return number
    return integers(like.dtype)[int(number)][()]


def refuse_zero(x: Any, y: Any) -> bool:
    """Whether the operands are integers; RuntimeError for integers divided by zero, unless there are none."""
    dtype: Any = getattr(x, "dtype", getattr(y, "dtype", None))
    if dtype.kind not in "iub":
        return False
    zero: Any
    if y.__class__ is np.ndarray:
        zero = np.count_nonzero(y) < y.size
    else:
        zero = y == 0 if isinstance(y, (int, float)) else (y == 0).any()
    if zero and getattr(x, "size", 1):
        raise RuntimeError("ZeroDivisionError")
    return True
