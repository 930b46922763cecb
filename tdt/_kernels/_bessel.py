"""Modified Bessel functions of expressions of float32, computed in float64 and rounded once. `max ulp`: as in `_exponential`.

The polynomials are Chebyshev fits with relative errors of 1e-10, near 0 in the argument or its square, far away in its inverse.
"""

from __future__ import annotations

from tdt._kernels._exponential import _exp_double, _log_double
from tdt._kernels.expression import (
    INFINITY,
    NAN,
    Expression,
    abs,
    long_polynomial,
    sqrt,
    to_double,
    to_float,
    where,
)

I0_NEAR = (
    5.0729124016020104e-05, -0.0001360473701776666, 9.498279223275555e-05, -0.00020575937765483708, 0.0009516484179955586,
    -0.0020473450254975263, 0.003535159576382722, -0.0066046195462941635, 0.012004881091434551, -0.01977620604628264,
    0.030162278314905804, -0.0429569157510495, 0.056780420132755124, -0.0695465912484364, 0.07927479864372697,
    -0.08496283115340499, 0.08734344375872692, -0.08904346700055571, 0.09451562784634851, -0.11300432653445511,
    0.20700192122686709,
)  # fmt: skip
I0_FAR = (3.161985730838567e-08, 1.0867942583758322e-07, 3.073322887161471e-07, 1.4761157330717917e-06,
          1.1139815659842712e-05, 0.00013621716424360496, 0.0033605522417209234, 0.4021765094192124)  # fmt: skip
I1_NEAR = (
    6.15313530575559e-06, -1.7467935262249178e-05, 1.6755662783197192e-05, -4.071010684546322e-05, 0.00015894525387770664,
    -0.0003685719752827514, 0.000735489298600897, -0.0015170915475401891, 0.003010685136643573, -0.005545398123925047,
    0.009582246737554239, -0.015567952962016086, 0.023686388338368114, -0.033671978565663, 0.04467452582524893,
    -0.05527997579960586, 0.06376740673252654, -0.06848260916189494, 0.06805759983363058, -0.061124337989135136,
    0.04468770987592398,
)  # fmt: skip
I1_FAR = (-3.577435769329253e-08, -1.2273217227487284e-07, -3.5842988938566557e-07, -1.8256907318689915e-06,
          -1.5035268029290354e-05, -0.00021923712538186245, -0.009749577457556773, 0.3893984590596593)  # fmt: skip
I0_SQUARE = (3.236736107657412e-08, 2.3581518406560274e-06, 0.00011982068263066238, 0.003928564819206082,
             0.07358986836169226, 0.6358617281918721, 1.5660829297563317)  # fmt: skip
I1_SQUARE = (1.9420920080390428e-07, 1.1791332095539082e-05, 0.0004792827254845369, 0.011785694027946082,
             0.1471797367243295, 0.6358617282276788)  # fmt: skip
K0_SQUARE = (6.623761802151339e-10, 6.094452635481782e-08, 4.05450656828862e-06, 0.00018280555145902108,
             0.0050533926432084625, 0.0717770103437707, 0.3404973210133801, -0.3036207729157985)  # fmt: skip
K1_SQUARE = (-9.033519236724016e-09, -7.082840420105043e-07, -3.8918689605754495e-05, -0.001383168739946346,
             -0.027854235220058227, -0.24383852888907856, -0.33224095524029196, 0.8850882877302565)  # fmt: skip
K0_FAR = (1.8282075534573032e-07, -4.3439753562557357e-07, 6.403387020323414e-07, -2.005276138170953e-06,
          7.058921375678173e-06, -2.4821449908927305e-05, 9.95467406602408e-05, -0.00047975309648849067,
          0.0030328930241464488, -0.03107146264229979, 1.2185953384961996)  # fmt: skip
K1_FAR = (-2.1397607847943508e-07, 5.155673000486816e-07, -7.891744333313121e-07, 2.5141958580609877e-06,
          -9.026081515238229e-06, 3.294387206269966e-05, -0.00013957444628266732, 0.0007357056651737282,
          -0.005566731264413576, 0.10334973870012314, 1.3631518903909843)  # fmt: skip


def _scaled_i(size: Expression, near: tuple[float, ...], far: tuple[float, ...], odd: bool) -> Expression:
    """exp(-x) I(x) of a double x ≥ 0."""
    inside = where(size > 8, 8, size)
    small = long_polynomial(inside * 0.25 - 1, *near)
    outside = where(size < 8, 8, size)
    large = long_polynomial(16 / outside - 1, *far) / sqrt(outside)
    return where(size <= 8, small * inside if odd else small, where(size != size, size, large))


def i0e(x: Expression) -> Expression:
    """exp(-|x|) I0(x). Max ulp 0.6."""
    return to_float(_scaled_i(to_double(abs(x)), I0_NEAR, I0_FAR, odd=False))


def i1e(x: Expression) -> Expression:
    """exp(-|x|) I1(x). Max ulp 0.6."""
    value = to_float(_scaled_i(to_double(abs(x)), I1_NEAR, I1_FAR, odd=True))
    return where(x < 0, -value, value)  # 0 at -0, as in PyTorch


def i0(x: Expression) -> Expression:
    """Modified Bessel function of the first kind of order 0: NaN at infinity, as in PyTorch. Max ulp 0.6."""
    size = to_double(where(abs(x) > 100, 100, abs(x)))
    value = to_float(_scaled_i(size, I0_NEAR, I0_FAR, odd=False) * _exp_double(size))
    return where(abs(x) == INFINITY, NAN, value)


def i1(x: Expression) -> Expression:
    """Modified Bessel function of the first kind of order 1: NaN at infinity, as in PyTorch. Max ulp 0.6."""
    size = to_double(where(abs(x) > 100, 100, abs(x)))
    value = to_float(_scaled_i(size, I1_NEAR, I1_FAR, odd=True) * _exp_double(size))
    return where(abs(x) == INFINITY, NAN, where(x < 0, -value, value))


def _k(x: Expression, order: int, scaled: bool) -> Expression:
    """K0 or K1, or these times exp(x)."""
    wide = to_double(x)
    inside = where(wide > 2, 2, wide)
    square = inside * inside * 0.5 - 1
    log = _log_double(inside * 0.5)
    if order == 0:
        near = long_polynomial(square, *K0_SQUARE) - log * long_polynomial(square, *I0_SQUARE)
    else:
        near = long_polynomial(square, *K1_SQUARE) / inside + log * (inside * long_polynomial(square, *I1_SQUARE))
    outside = where(wide < 2, 2, wide)
    far = long_polynomial(4 / outside - 1, *(K1_FAR if order else K0_FAR)) / sqrt(outside)
    if scaled:
        near = near * _exp_double(inside)
    else:
        far = far * _exp_double(-outside)
    value = where(wide <= 2, near, far)
    return to_float(where(wide > 0, value, where(wide < 0, NAN, where(wide == 0, INFINITY, wide))))


def k0(x: Expression) -> Expression:
    """Modified Bessel function of the second kind of order 0: infinite at 0, NaN below. Max ulp 0.6."""
    return _k(x, 0, scaled=False)


def k1(x: Expression) -> Expression:
    """Modified Bessel function of the second kind of order 1: infinite at 0, NaN below. Max ulp 0.6."""
    return _k(x, 1, scaled=False)


def k0e(x: Expression) -> Expression:
    """exp(x) K0(x). Max ulp 0.6."""
    return _k(x, 0, scaled=True)


def k1e(x: Expression) -> Expression:
    """exp(x) K1(x). Max ulp 0.6."""
    return _k(x, 1, scaled=True)
