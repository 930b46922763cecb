"""Bessel functions of the first and second kind and Airy's function, of expressions of float32. `max ulp`: as in `_exponential`.

Computed in float64 and rounded once. Near 0 they are polynomials, times factors that are 0 where the function is; further
out, waves whose amplitude and phase are polynomials of the inverse (Abramowitz, Stegun, "Handbook of Mathematical
Functions", 1964, sections 9.2 and 10.4). The coefficients are Chebyshev interpolants with relative errors of 2e-12 or less.
"""

from __future__ import annotations

from tdt._kernels._angles import SMALLEST
from tdt._kernels._double import Double
from tdt._kernels._exponential import _exp_double
from tdt._kernels.expression import (
    INFINITY,
    NAN,
    Expression,
    abs,
    copysign,
    floor,
    fma,
    long_polynomial,
    rarely,
    rint,
    sqrt,
    to_double,
    to_float,
    where,
)

# The squares of the first two zeros of J0 and of J1, each as a sum.
J0_ROOTS = ((5.783185962946784, 4.123247343506204e-16), (30.471262343662087, -2.366534485750659e-16))
J1_ROOTS = ((14.681970642123893, -9.858177825793294e-17), (49.2184563216946, 5.086354069436341e-16))
J0_NEAR = (
    -8.060921503061489e-12, 1.637848477645029e-10, -2.7948208376416358e-09, 3.998724518761013e-08, -4.677128239756662e-07,
    4.3669329202376915e-06, -3.1573425397115175e-05, 0.00016977200700036096, -0.0006415390646410513,
    0.0015636431646051344, -0.002119794289479686, 0.0011434937743760884,
)  # fmt: skip
J1_NEAR = (
    -2.887262137206692e-13, 6.318829643668756e-12, -1.1696800544517086e-10, 1.8268163875628055e-09,
    -2.3521923230113642e-08, 2.442522459828394e-07, -1.9890935157538598e-06, 1.2242173648349037e-05,
    -5.4080032390868806e-05, 0.00015860016799409875, -0.0002697522746716366, 0.0001949893698589507,
)  # fmt: skip
Y0_NEAR = (
    -7.163611885728164e-10, 1.6491849433007224e-08, -3.218458118860321e-07, 5.321167351569116e-06, -7.279542262305764e-05,
    0.0008061587216568281, -0.007025741055717009, 0.04636704763404652, -0.21895747096204263, 0.6721770783531066,
    -1.0775477338215693, 0.14412632369210454, 1.647096478874546, -0.8284358903604341, -0.382250654459425,
)  # fmt: skip
Y1_NEAR = (
    6.200348033070887e-10, -1.3240629286749096e-08, 2.3804508844312395e-07, -3.6008797376881145e-06,
    4.467433300087056e-05, -0.00044381742545220867, 0.0034224907389127867, -0.0196287568044145, 0.078547869222593,
    -0.19639839860408562, 0.23507209206668706, 0.023367571721292436, -0.24337743079193103, 0.07075985882117701,
)  # fmt: skip
P0 = (
    5.451667226871769e-12, -2.7542897398730253e-11, 1.5448054015199963e-10, -1.210054503816268e-09,
    1.2803910475871568e-08, -2.0527506332119517e-07, 6.137416068847814e-06, -0.000536367319169134, 0.9994572757882519,
)  # fmt: skip
Q0 = (
    1.0646025601382642e-12, -4.268364260864271e-12, 1.6843774114319182e-11, -9.407916913859087e-11, 6.433475421919929e-10,
    -5.668944358094958e-09, 7.106213981972337e-08, -1.4771388038142355e-06, 6.833149099361479e-05, -0.015555113879514096,
)  # fmt: skip
P1 = (
    -5.903375328721361e-12, 3.006802397643271e-11, -1.7074833184117887e-10, 1.3580846947856033e-09,
    -1.4708672583645436e-08, 2.4536828827535476e-07, -7.959694686379608e-06, 0.0008988049416233495, 1.0009070262780821,
)  # fmt: skip
Q1 = (
    -1.1413915954577022e-12, 4.601611452629693e-12, -1.832327908498996e-11, 1.0328375765667393e-10,
    -7.151843184172716e-10, 6.420376205348065e-09, -8.291959775801533e-08, 1.8212018204529151e-06, -9.621458822073134e-05,
    0.046776874027449594,
)  # fmt: skip
SINE = (
    1.3892226805492782e-13, -6.997652677620739e-11, 2.4839695259823285e-08, -5.765835495409835e-06, 0.0007793149584675492,
    -0.04995914548332129, 0.9492557488129051,
)  # fmt: skip
COSINE = (
    1.8031238844478333e-12, -7.680761593064724e-10, 2.2285749565305527e-07, -4.0162130904358275e-05,
    0.0038619797793642122, -0.14676017661609395, 0.8493374578462625,
)  # fmt: skip
AIRY_NEAR = (
    -1.5453639811433295e-07, 7.957078507617305e-07, -1.6650223083931574e-07, -9.84639537414318e-06, 3.257761148423804e-05,
    -1.8463220424810816e-07, -0.0002997706617063866, 0.0008501870863500943, 6.058261563325165e-08, -0.0058428996381341075,
    0.014025783458690598, 1.7229928437016822e-08, -0.0657319095846538, 0.1262321942514766, -1.9437024397528501e-10,
    -0.34509253817878477, 0.47337073852297745, -6.4407991961462165e-12, -0.5176388075856431, 0.35502805388784947,
)  # fmt: skip
AIRY_FAR = (
    6.1262668585310946e-09, -1.3627693484744834e-08, 1.1577150104570294e-08, -3.17338196807558e-08,
    1.1584796202983855e-07, -3.3117707350691587e-07, 1.0111696979980587e-06, -3.483144167286623e-06,
    1.3671375985982765e-05, -6.427617365920838e-05, 0.0003986567705698572, -0.004122380586813493, 0.2774908024616546,
)  # fmt: skip
AIRY_F = (
    7.542583281435106e-07, -8.908744046193791e-07, -4.035054417777514e-06, 4.756202831396743e-06, 9.647334571648599e-06,
    -1.1358952595620957e-05, -1.3413493537159234e-05, 1.5777101484644745e-05, 1.2005630686494448e-05,
    -1.411530456612238e-05, -7.151800357312718e-06, 8.39531688701452e-06, 2.9616381734807285e-06, -3.4963529758593605e-06,
    -6.671473682931751e-07, 7.286133807835281e-07, 4.761667661273133e-07, -7.468345462766538e-07, 1.043549776354709e-06,
    -2.0291342639606303e-06, 4.273655411310987e-06, -9.868826698165247e-06, 2.623757425066887e-05, -8.615897034054637e-05,
    0.00040338240008298316, -0.003937691907559825, 0.9955277853641943,
)  # fmt: skip
AIRY_G = (
    9.194280603479072e-06, -1.0519872613921775e-05, -5.919110917431552e-05, 6.765911764440532e-05, 0.000171880908800209,
    -0.00019633588257861155, -0.0002962858963353076, 0.0003382527082426823, 0.0003366748886873589, -0.0003841962750277978,
    -0.00026482214920614256, 0.0003020828810411367, 0.00014761249558730254, -0.0001683465479616144, -5.8462445222767e-05,
    6.662399893280906e-05, 1.663757308641077e-05, -1.903433452384177e-05, -2.7279683426702653e-06, 2.9198572526314806e-06,
    1.5549672938330831e-06, -2.356246920197428e-06, 3.212445179864659e-06, -5.840554608522071e-06, 1.1351557397604662e-05,
    -2.3814575052916468e-05, 5.5936989625845146e-05, -0.00015475301320645856, 0.0005553620676948215,
    -0.003231509746204772, 0.06539734735311589,
)  # fmt: skip
TWO_OVER_PI, HALF_PI, HALF_PI_REST = 0.6366197723675814, 1.5707963267948966, 6.123233995736766e-17
ONE_OVER_PI = 0.3183098861837907
LARGEST_SQUARE = 0.6184220713948798  # of an angle of SINE and COSINE
EDGE = 8  # of the polynomials of Bessel functions
LARGE = 2.0**40  # from here on, a multiple of π/2 as two numbers is not accurate enough
AIRY_EDGE, AIRY_PHASE = 2, 1.8856180831641267  # of its polynomial, and 2/3 of its power of 3/2
AIRY_SMALLEST = -(2.0**20)  # below, the phase of Airy's function is not accurate enough


def _waves(n: Expression, r: Expression) -> tuple[Expression, Expression]:
    """Sine and cosine of n π/2 + r, of float64."""
    t = r * r * (2 / LARGEST_SQUARE) - 1
    sine, cosine = r * long_polynomial(t, *SINE), long_polynomial(t, *COSINE)
    quarter = n - 4 * floor(n * 0.25)
    odd = (quarter == 1) | (quarter == 3)
    first, second = where(odd, cosine, sine), where(odd, sine, cosine)
    return where(quarter >= 2, -first, first), where((quarter == 1) | (quarter == 2), -second, second)


def _reduced(x: Expression) -> tuple[Expression, Expression]:
    """n and r with x = n π/2 + r, of float64 x from 0 to LARGE."""
    n = rint(x * TWO_OVER_PI)
    return n, fma(n, -HALF_PI_REST, fma(n, -HALF_PI, x))


def _reduced_large(x: Expression) -> tuple[Expression, Expression]:
    """The same of float32 x beyond, modulo 4 quarters."""
    size = where(x > SMALLEST, x, SMALLEST)
    quarter, high, low = (to_double(Expression(f"angle_{part}", size)) for part in ("quarter", "high", "low"))
    return quarter, high + low


def _near_j(z: Expression, order: int) -> Expression:
    """J0(x), or J1(x) / x, of z = x² up to EDGE²."""
    first, second = J1_ROOTS if order else J0_ROOTS
    value = long_polynomial(z * (2 / EDGE**2) - 1, *(J1_NEAR if order else J0_NEAR))
    return ((z - first[0]) - first[1]) * ((z - second[0]) - second[1]) * value


def _near_y(x: Expression, z: Expression, order: int) -> Expression:
    rest = long_polynomial(z * (2 / EDGE**2) - 1, *(Y1_NEAR if order else Y0_NEAR))
    product = Double.log(x) * _near_j(z, order)
    if order:
        return x * (TWO_OVER_PI * product + rest) - TWO_OVER_PI / x
    return TWO_OVER_PI * product + rest


def _far(x: Expression, n: Expression, r: Expression, order: int, second: bool) -> Expression:
    """J or Y of x beyond EDGE, which is n π/2 + r."""
    sine, cosine = _waves(n, r)
    # Cosine and sine of x - π/4, or x - 3π/4, times √2.
    c, s = (sine - cosine, -sine - cosine) if order else (cosine + sine, sine - cosine)
    inverse = EDGE / x
    t = 2 * inverse * inverse - 1
    p = long_polynomial(t, *(P1 if order else P0))
    q = long_polynomial(t, *(Q1 if order else Q0)) * inverse
    value = p * s + q * c if second else p * c - q * s
    return value * sqrt(ONE_OVER_PI / x)


def _bessel(size: Expression, order: int, second: bool) -> Expression:
    """J or Y of float32 numbers that are not negative."""
    wide = to_double(size)
    inside = where(wide > EDGE, EDGE, wide)
    z = inside * inside
    if second:
        near = _near_y(inside, z, order)
    else:
        near = inside * _near_j(z, order) if order else _near_j(z, order)
    outside = where(wide < EDGE, EDGE, wide)
    far = rarely(
        size > LARGE,
        _far(outside, *_reduced_large(size), order, second),
        _far(outside, *_reduced(where(outside > LARGE, LARGE, outside)), order, second),
    )
    value = to_float(rarely(wide > EDGE, where(wide > EDGE, far, near), near))
    return where(size >= INFINITY, NAN, value)


def j0(x: Expression) -> Expression:
    """Bessel function of the first kind of order 0: NaN at infinity, as in PyTorch. Max ulp 0.6, except near its zeros."""
    return _bessel(abs(x), 0, second=False)


def j1(x: Expression) -> Expression:
    """Bessel function of the first kind of order 1: NaN at infinity, as in PyTorch. Max ulp 0.6, except near its zeros."""
    value = _bessel(abs(x), 1, second=False)
    return where(copysign(1, x) < 0, -value, value)


def _of_positive(x: Expression, value: Expression) -> Expression:
    return where(x > 0, value, where(x == 0, -INFINITY, NAN))


def y0(x: Expression) -> Expression:
    """Bessel function of the second kind of order 0: -inf at 0, NaN below. Max ulp 0.6, except near its zeros."""
    return _of_positive(x, _bessel(abs(x), 0, second=True))


def y1(x: Expression) -> Expression:
    """Bessel function of the second kind of order 1: -inf at 0, NaN below. Max ulp 0.6, except near its zeros."""
    return _of_positive(x, _bessel(abs(x), 1, second=True))


def airy_ai(x: Expression) -> Expression:
    """Airy's function Ai: 0 from 104 on, NaN at infinities and below -2^20. Max ulp 0.6, except near its zeros."""
    wide = to_double(x)
    size = abs(wide)
    inside = where(size > AIRY_EDGE, AIRY_EDGE, wide)
    near = long_polynomial(inside * (1 / AIRY_EDGE), *AIRY_NEAR)
    outside = where(size < AIRY_EDGE, AIRY_EDGE, where(size > -AIRY_SMALLEST, -AIRY_SMALLEST, size))
    root = sqrt(outside)
    phase = outside * root * (2 / 3)
    scale = AIRY_PHASE / phase
    falling = long_polynomial(2 * scale - 1, *AIRY_FAR) * _exp_double(-phase) / sqrt(root)
    sine, cosine = _waves(*_reduced(phase))
    t = 2 * scale * scale - 1
    f, g = long_polynomial(t, *AIRY_F), long_polynomial(t, *AIRY_G) / phase
    # sin(phase + π/4) f - cos(phase + π/4) g, over the root of π √size.
    wave = ((sine + cosine) * f - (cosine - sine) * g) * sqrt(0.5 * ONE_OVER_PI / root)
    far = where(wide > 0, rarely(x > 0, falling, near), rarely(x < 0, wave, near))
    value = to_float(rarely(size > AIRY_EDGE, where(size > AIRY_EDGE, far, near), near))
    return where((x > AIRY_SMALLEST) & (x < INFINITY), value, where(x < INFINITY, NAN, x - x))
