"""The functions that a formula of float32 may call: this module stands in for NumPy while a forward is traced.

A forward such as `def silu(xp, x): return x / (1 + xp.exp(-x))` is called once with this module and an expression, so its
functions have the names of NumPy's, and special functions those of SciPy's.
"""

from __future__ import annotations

from tdt._kernels._bessel import i0, i0e, i1, i1e, k0, k0e, k1, k1e
from tdt._kernels._exponential import (
    arccosh,
    arcsinh,
    arctanh,
    cosh,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    power,
    sinh,
    tanh,
)
from tdt._kernels._gamma import digamma, trigamma
from tdt._kernels._gamma import lgamma as gammaln
from tdt._kernels._oscillating import airy_ai, j0, j1, y0, y1
from tdt._kernels._special import entr, erf, erfc, erfcx, erfinv, log_ndtr, ndtr, xlog1py
from tdt._kernels._trigonometric import arccos, arcsin, arctan, arctan2, cos, sin, tan
from tdt._kernels.expression import (
    Expression,
    abs,
    absolute,
    as_expression,
    asarray,
    ceil,
    copysign,
    floor,
    floor_divide,
    fma,
    fmax,
    fmin,
    fmod,
    hypot,
    isfinite,
    isinf,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    ones,
    rarely,
    reciprocal,
    remainder,
    rint,
    sign,
    sqrt,
    square,
    true_divide,
    trunc,
    where,
    zeros_like,
)

__all__ = [
    "Expression", "abs", "absolute", "airy_ai", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "as_expression", "asarray", "ceil", "copysign", "cos", "cosh", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp",
    "exp2", "expm1", "floor", "floor_divide", "fma", "fmax", "fmin", "fmod", "gammaln", "hypot", "i0", "i0e", "i1", "i1e",
    "isfinite", "isinf", "isnan", "j0", "j1", "k0", "k0e", "k1", "k1e", "log", "log10", "log1p", "log2", "log_ndtr", "logaddexp",
    "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "ndtr",
    "negative", "nextafter", "ones", "power", "rarely", "reciprocal", "remainder", "rint", "sign", "sin", "sinh", "sqrt",
    "square", "tan", "tanh", "trigamma", "true_divide", "trunc", "where", "xlog1py", "y0", "y1", "zeros_like",
]  # fmt: skip
