"""Functions that LLVM turns into vector code, which the C library's are not."""

from __future__ import annotations

import numpy as np

from tdt._kernels._intrinsics import float_of_bits
from tdt._kernels._jit import jit

LOW, HIGH = np.float32(-87.33), np.float32(89)
LOG2_E, LN2_HIGH, LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)

# exp on [-ln 2 / 2, ln 2 / 2], relative error 1e-7: 1 + r + r² Q(r); S. L. Moshier, Cephes, expf.
Q0, Q1, Q2 = map(np.float32, (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2))
Q3, Q4, Q5 = map(np.float32, (8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4))
ZERO, ONE = np.float32(0), np.float32(1)


@jit
def exp32(x):
    """exp of a float32 within 2 ulp; 0 below -87.33, where the result would be subnormal; NaN for NaN."""
    y = HIGH if x > HIGH else x
    y = LOW if y < LOW else y
    n = np.floor(y * LOG2_E + np.float32(0.5))
    r = (y - n * LN2_HIGH) - n * LN2_LOW
    q = Q0 + r * (Q1 + r * (Q2 + r * (Q3 + r * (Q4 + r * Q5))))
    power = float_of_bits((np.int32(n if n == n else ZERO) + np.int32(127)) << np.int32(23))
    return ZERO if x < LOW else (ONE + r + r * r * q) * power
