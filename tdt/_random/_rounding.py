"""`x * scale + offset` rounded once, as a fused multiply-add instruction does, in array arithmetic.

PyTorch's compiler fuses the last step of `uniform_`; with two roundings half of the values differ in the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SPLIT = 2.0**27 + 1  # Veltkamp: halves of 26 bits, whose products are exact
LARGE = 1e290


def fma32(x: Any, scale: float, offset: float) -> Any:
    """float32 of `x * scale + offset` for float64 `x`; the product must be exact in float64 (24 × 24 bits are)."""
    product = x * scale
    if abs(offset) <= 16 * abs(scale):
        product += offset  # exact: 48 bits of product, and offset reaches at most 5 bits above them
        return product.astype(np.float32)
    total, error = two_sum(product, offset)
    return _to_odd(total, error).astype(np.float32)


def fma64(x: Any, scale: float, offset: float) -> Any:
    """float64 of `x * scale + offset`, rounded once (Boldo and Melquiond, *Emulation of FMA …*, 2008).

    Twice with numbers from `LARGE` on, whose parts would overflow.
    """
    if not (abs(scale) < LARGE and abs(offset) < LARGE):
        return x * scale + offset
    high, low = two_product(x, scale)
    if not low.any():
        return high + offset
    total, error = two_sum(low, offset)
    upper, lower = two_sum(high, total)
    return upper + _to_odd(*two_sum(lower, error))


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def two_product(a: Any, b: float) -> tuple[Any, Any]:
    """The rounded product and its exact error (Dekker); magnitudes below about 1e300."""
    product = a * b
    a_high = a * SPLIT - (a * SPLIT - a)
    b_high = b * SPLIT - (b * SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _to_odd(total: Any, error: Any) -> Any:
    """The sum total + error cut to 53 bits with the last bit sticky, so that a later rounding is the only one."""
    bits = total.view(np.int64)
    outward = (error > 0) == (total > 0)
    step = outward * 2 - 1  # an even last bit moves to the odd neighbour on the error's side
    bits += step * ((error != 0) & (bits & 1 == 0))
    return bits.view(np.float64)
