"""Functions that LLVM turns into vector code, which the C library's are not."""

from __future__ import annotations

import numpy as np

from tdt._kernels._intrinsics import difference, float_of_bits
from tdt._kernels._jit import jit

LOW, HIGH = np.float32(-87.33), np.float32(89)
LOG2_E, LN2_HIGH, LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)

# exp on [-ln 2 / 2, ln 2 / 2], relative error 1e-7: 1 + r + r² Q(r); S. L. Moshier, Cephes, expf.
Q0, Q1, Q2 = map(np.float32, (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2))
Q3, Q4, Q5 = map(np.float32, (8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4))
ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)

# tanh on [-0.625, 0.625], relative error 1e-7: x + x z P(z) with z = x²; Cephes, tanhf.
SMALL, NEAR = np.float32(0.625), np.float32(0.34)
T0, T1, T2 = map(np.float32, (-3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2))
T3, T4 = map(np.float32, (2.06390887954e-2, -5.70498872745e-3))

# 2 artanh(s) = 2 s (1 + s² / 3 + s⁴ / 5 + …), for s up to 1/3.
A1, A2, A3, A4, A5, A6, A7 = (np.float32(2 / k) for k in (3, 5, 7, 9, 11, 13, 15))


@jit
def exp32(x):
    """exp of a float32 within 2 ulp; 0 below -87.33, where it would be subnormal, and inf above 88.37; NaN for NaN."""
    y = HIGH if x > HIGH else x
    y = LOW if y < LOW else y
    n = np.floor(y * LOG2_E + np.float32(0.5))
    r = difference(difference(y, n * LN2_HIGH), n * LN2_LOW)
    q = Q0 + r * (Q1 + r * (Q2 + r * (Q3 + r * (Q4 + r * Q5))))
    power = float_of_bits((np.int32(n if n == n else ZERO) + np.int32(127)) << np.int32(23))
    return ZERO if x < LOW else (ONE + r + r * r * q) * power


@jit
def expm1_32(x):
    """exp(x) - 1 of a float32."""
    near = x * x * (Q0 + x * (Q1 + x * (Q2 + x * (Q3 + x * (Q4 + x * Q5)))))
    return x + near if -NEAR < x < NEAR else exp32(x) - ONE


@jit
def sigmoid32(x):
    """1 / (1 + exp(-x)) of a float32."""
    return ONE / (ONE + exp32(-x))


@jit
def tanh32(x):
    """tanh of a float32, within 3e-7 of it everywhere."""
    size = -x if x < ZERO else x
    z = x * x
    near = x + x * z * (T0 + z * (T1 + z * (T2 + z * (T3 + z * T4))))
    far = ONE - TWO / (ONE + exp32(size + size))
    return near if size < SMALL else -far if x < ZERO else far


@jit
def log1p32(u):
    """log(1 + u) of a float32 in [0, 1], relative error 2e-7."""
    s = u / (TWO + u)
    z = s * s
    return s * (TWO + z * (A1 + z * (A2 + z * (A3 + z * (A4 + z * (A5 + z * (A6 + z * A7)))))))
