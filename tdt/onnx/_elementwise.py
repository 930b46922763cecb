"""Elementwise ops in ONNX: those that it has, by name; the others write the nodes of their own formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt.autograd._op import Op
from tdt.onnx._forms import FORMS, form
from tdt.onnx._graph import BOOL, Formulas, Graph, Ref

# Ops that are one node: op → ONNX's name.
UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "hardswish": "HardSwish", "log": "Log", "mish": "Mish",
    "neg": "Neg", "reciprocal": "Reciprocal", "sigmoid": "Sigmoid", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt",
    "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
# ONNX has these only for floating-point numbers; of integers they are the integers.
ROUNDING = {"ceil": "Ceil", "floor": "Floor", "round": "Round", "trunc": ""}
BINARY = {"maximum": "Max", "minimum": "Min", "mul": "Mul", "div": "Div", "pow": "Pow"}
COMPARISONS = {"eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "lt": "Less"}
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
BITWISE = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}
IN_PLACE_OF_BOOLS = {"Mul": "And", "Max": "Or", "Min": "And", "Add": "Or"}


def formula_of(op: Op) -> Callable[..., Any] | None:
    """The form of an elementwise op that states a formula, which is called with ONNX's functions as NumPy's."""
    if not op.formula:
        return None
    formula, _, _ = op.forward.formula

    def write(graph: Graph, *operands: Any, **attributes: Any) -> Any:
        return formula(Formulas(graph), *operands, **attributes)

    return write


def _register() -> None:
    for name, kind in UNARY.items():
        FORMS[name] = lambda graph, x, kind=kind: graph.op(kind, x)
    for table in (BINARY, COMPARISONS, LOGICAL, BITWISE):
        for name, kind in table.items():
            FORMS[name] = _binary(name, kind)
    for name, kind in ROUNDING.items():
        FORMS[name] = _rounding(kind)


def _binary(name: str, kind: str) -> Callable[..., Any]:
    def write(graph: Graph, x: Any, y: Any) -> Ref:
        dtype = next(v.dtype for v in (x, y) if isinstance(v, Ref))
        x, y = graph.ref(x, dtype), graph.ref(y, dtype)
        if name in LOGICAL:
            return graph.op(kind, graph.cast(x, BOOL), graph.cast(y, BOOL))
        if name in BITWISE and dtype != BOOL:
            return graph.op(f"Bitwise{kind}", x, y)
        if name in COMPARISONS:
            if dtype == BOOL and kind != "Equal":
                x, y = graph.cast(x, np.int32), graph.cast(y, np.int32)
            return graph.op(kind, x, y, dtype=BOOL)
        return graph.op(IN_PLACE_OF_BOOLS.get(kind, kind) if dtype == BOOL else kind, x, y)

    return write


def _rounding(kind: str) -> Callable[..., Any]:
    def write(graph: Graph, x: Ref, decimals: int = 0) -> Ref:
        if x.dtype.kind != "f":
            return graph.op("Identity", x)
        if decimals:
            scale = 10.0**decimals
            return graph.op("Round", x * scale) / scale
        return graph.op(kind, x) if kind else Formulas(graph).trunc(x)

    return write


_register()


@form("add")
def _add(graph: Graph, x: Any, y: Any, alpha: Any = 1) -> Ref:
    return _sum(graph, "Add", x, y, alpha)


@form("sub")
def _sub(graph: Graph, x: Any, y: Any, alpha: Any = 1) -> Ref:
    return _sum(graph, "Sub", x, y, alpha)


def _sum(graph: Graph, kind: str, x: Any, y: Any, alpha: Any) -> Ref:
    dtype = next(v.dtype for v in (x, y) if isinstance(v, Ref))
    x, y = graph.ref(x, dtype), graph.ref(y, dtype)
    kind = IN_PLACE_OF_BOOLS.get(kind, kind) if dtype == BOOL else kind
    return graph.op(kind, x, y if alpha == 1 else y * alpha)


@form("ne")
def _ne(graph: Graph, x: Any, y: Any) -> Ref:
    return graph.op("Not", FORMS["eq"](graph, x, y))


@form("fmod")
def _fmod(graph: Graph, x: Any, y: Any) -> Ref:
    return graph.op("Mod", x, y, fmod=1)


@form("remainder")
def _remainder(graph: Graph, x: Any, y: Any) -> Ref:
    """The remainder with the sign of the divisor."""
    dtype = next(v.dtype for v in (x, y) if isinstance(v, Ref))
    x, y = graph.ref(x, dtype), graph.ref(y, dtype)
    if dtype.kind != "f":
        return graph.op("Mod", x, y)
    rest = graph.op("Mod", x, y, fmod=1)
    return graph.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)


@form("div_floor", "floor_divide")
def _div_floor(graph: Graph, x: Any, y: Any) -> Ref:
    if next(v.dtype for v in (x, y) if isinstance(v, Ref)).kind == "f":
        return graph.op("Floor", FORMS["div"](graph, x, y))
    return FORMS["div"](graph, FORMS["sub"](graph, x, _remainder(graph, x, y)), y)


@form("div_trunc")
def _div_trunc(graph: Graph, x: Any, y: Any) -> Ref:
    quotient = FORMS["div"](graph, x, y)  # of integers it is cut off
    return Formulas(graph).trunc(quotient) if quotient.dtype.kind == "f" else quotient


@form("sign", "sgn")
def _sign(graph: Graph, x: Ref) -> Ref:
    return graph.op("Sign", x)


@form("relu")
def _relu(graph: Graph, x: Ref) -> Ref:
    return graph.op("Relu", x) if x.dtype.kind == "f" else graph.op("Max", x, 0)


@form("gelu")
def _gelu(graph: Graph, x: Ref, approximate: str) -> Ref:
    return graph.op("Gelu", x, approximate=approximate)


@form("silu")
def _silu(graph: Graph, x: Ref) -> Ref:
    return x * graph.op("Sigmoid", x)


@form("leaky_relu")
def _leaky_relu(graph: Graph, x: Ref, slope: float) -> Ref:
    return graph.op("LeakyRelu", x, alpha=float(slope))


@form("elu")
def _elu(graph: Graph, x: Ref, alpha: float, scale: float, input_scale: float) -> Ref:
    if input_scale == 1:
        return graph.op("Elu", x, alpha=float(alpha)) * scale if scale != 1 else graph.op("Elu", x, alpha=float(alpha))
    below = Formulas(graph).expm1(Formulas(graph).minimum(x, 0) * input_scale) * (alpha * scale)
    return graph.where(x <= 0, below, x * scale)


@form("softplus")
def _softplus(graph: Graph, x: Ref, beta: float, threshold: float) -> Ref:
    return graph.where(x * beta > threshold, x, graph.op("Softplus", x * beta) / beta)


@form("log_sigmoid")
def _log_sigmoid(graph: Graph, x: Ref) -> Ref:
    return -graph.op("Softplus", -x)


@form("glu")
def _glu(graph: Graph, x: Ref, dim: int) -> Ref:
    value, gate = graph.ops("Split", x, dtypes=[None, None], axis=dim, num_outputs=2)
    return value * graph.op("Sigmoid", gate)


@form("clamp")
def _clamp(graph: Graph, x: Ref, low: Any = None, high: Any = None) -> Ref:
    if low is not None:
        x = graph.op("Max", x, low)
    return x if high is None else graph.op("Min", x, high)


@form("where")
def _where(graph: Graph, condition: Ref, x: Any, y: Any) -> Ref:
    return graph.where(condition, x, y)


@form("masked_fill")
def _masked_fill(graph: Graph, x: Ref, mask: Ref, value: Any) -> Ref:
    value = graph.cast(value, x.dtype) if isinstance(value, Ref) else graph.ref(value, x.dtype)
    return graph.where(mask, value, x)


@form("fill")
def _fill(graph: Graph, x: Ref, value: Any) -> Ref:
    assert x.shape is not None
    value = graph.cast(value, x.dtype) if isinstance(value, Ref) else graph.ref(value, x.dtype)
    return graph.op("Expand", value, graph.shape(x.shape))


@form("copy")
def _copy(graph: Graph, x: Ref, source: Ref) -> Ref:
    assert x.shape is not None
    source = graph.cast(source, x.dtype)
    return source if source.shape == x.shape else graph.op("Expand", source, graph.shape(x.shape))


@form("convert")
def _convert(graph: Graph, x: Ref, dtype: Any) -> Ref:
    return graph.cast(x, dtype.np)


@form("isnan")
def _isnan(graph: Graph, x: Ref) -> Ref:
    return Formulas(graph).isnan(x)


@form("isinf")
def _isinf(graph: Graph, x: Ref) -> Ref:
    return Formulas(graph).isinf(x)


@form("isfinite")
def _isfinite(graph: Graph, x: Ref) -> Ref:
    return Formulas(graph).isfinite(x)


@form("logical_not")
def _logical_not(graph: Graph, x: Ref) -> Ref:
    return ~graph.cast(x, BOOL)


@form("bitwise_not")
def _bitwise_not(graph: Graph, x: Ref) -> Ref:
    return graph.op("Not" if x.dtype == BOOL else "BitwiseNot", x)


@form("square")
def _square(graph: Graph, x: Ref) -> Ref:
    return x * x


@form("deg2rad")
def _deg2rad(graph: Graph, x: Ref) -> Ref:
    return x * (np.pi / 180)


@form("rad2deg")
def _rad2deg(graph: Graph, x: Ref) -> Ref:
    return x * (180 / np.pi)
