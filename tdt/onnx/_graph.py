"""An ONNX graph as it is written: nodes, initializers, and formulas of NumPy's names that write themselves as nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tdt.onnx._sizes import Differing, Size, polynomial
from tdt.onnx._trace import OnnxExporterError

INT64 = np.dtype(np.int64)
BOOL = np.dtype(bool)
Shape = tuple[int | Size, ...]


class Unsupported(Exception):
    """A call that has no form in ONNX; the message is the reason."""


class Ref:
    """A tensor of the graph. Arithmetic on it adds nodes, so that formulas of arrays can be called with it.

    Attributes:
        shape: its sizes, or None for an intermediate result of which nobody asks them.
    """

    __slots__ = ("graph", "name", "dtype", "shape")
    __array_ufunc__ = None  # NumPy's numbers leave the arithmetic to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, graph: Graph, name: str, dtype: Any, shape: Shape | None = None) -> None:
        self.graph, self.name, self.dtype, self.shape = graph, name, np.dtype(dtype), shape

    @property
    def ndim(self) -> int:
        assert self.shape is not None
        return len(self.shape)

    def _op(self, op: str, x: Any, y: Any, dtype: Any = None) -> Ref:
        """A node of two operands; conditions in arithmetic count as 0 and 1."""
        kinds = [v.dtype for v in (x, y) if isinstance(v, Ref)]
        common = next((kind for kind in kinds if kind != BOOL), BOOL)
        if common == BOOL and dtype is None and op not in ("And", "Or", "Xor"):
            common = self.graph.outputs[0].dtype
        x, y = (self.graph.cast(self.graph.ref(v, common), common) for v in (x, y))
        return self.graph.op(op, x, y, dtype=dtype or common)

    def __add__(self, other: Any) -> Ref:
        return self._op("Add", self, other)

    def __radd__(self, other: Any) -> Ref:
        return self._op("Add", other, self)

    def __sub__(self, other: Any) -> Ref:
        return self._op("Sub", self, other)

    def __rsub__(self, other: Any) -> Ref:
        return self._op("Sub", other, self)

    def __mul__(self, other: Any) -> Ref:
        return self._op("Mul", self, other)

    def __rmul__(self, other: Any) -> Ref:
        return self._op("Mul", other, self)

    def __truediv__(self, other: Any) -> Ref:
        return self._op("Div", self, other)

    def __rtruediv__(self, other: Any) -> Ref:
        return self._op("Div", other, self)

    def __pow__(self, other: Any) -> Ref:
        return self._op("Pow", self, other)

    def __neg__(self) -> Ref:
        return self.graph.op("Neg", self)

    def __abs__(self) -> Ref:
        return self.graph.op("Abs", self)

    def __lt__(self, other: Any) -> Ref:
        return self._op("Less", self, other, BOOL)

    def __le__(self, other: Any) -> Ref:
        return self._op("LessOrEqual", self, other, BOOL)

    def __gt__(self, other: Any) -> Ref:
        return self._op("Greater", self, other, BOOL)

    def __ge__(self, other: Any) -> Ref:
        return self._op("GreaterOrEqual", self, other, BOOL)

    def __eq__(self, other: Any) -> Ref:  # type: ignore[override]
        return self._op("Equal", self, other, BOOL)

    def __ne__(self, other: Any) -> Ref:  # type: ignore[override]
        return ~(self == other)

    def __and__(self, other: Ref) -> Ref:
        return self._op("And", self, other)

    def __or__(self, other: Ref) -> Ref:
        return self._op("Or", self, other)

    def __xor__(self, other: Ref) -> Ref:
        return self._op("Xor", self, other)

    def __invert__(self) -> Ref:
        return self.graph.op("Not", self)


class Graph:
    """The nodes and initializers of a graph. `module` names those that are added next.

    Args:
        sizes: of the dynamic dimensions in each trace.
        dynamic: for each dynamic dimension, the input that has it, and its axis there.
    """

    def __init__(self, sizes: Sequence[tuple[int, ...]], dynamic: Sequence[tuple[str, int]]) -> None:
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.sizes, self.dynamic = sizes, dynamic
        self.module = ""
        self.outputs: list[Any] = []  # what the call that is being written gives: dtype and shape of each
        self._names: Counter[str] = Counter()
        self._constants: dict[Any, Ref] = {}
        self._sizes: dict[Any, Ref] = {}

    def unique(self, name: str) -> str:
        """`name`, with a number if it is taken."""
        self._names[name] += 1
        count = self._names[name]
        return name if count == 1 else self.unique(f"{name}_{count - 1}")

    def op(self, kind: str, *inputs: Any, dtype: Any = None, shape: Shape | None = None, **attributes: Any) -> Ref:
        """Add a node with one output, of the dtype of its first input unless given. Inputs may be numbers, or None."""
        return self.ops(kind, *inputs, dtypes=[dtype], shapes=[shape], **attributes)[0]

    def ops(
        self, kind: str, *inputs: Any, dtypes: Sequence[Any], shapes: Sequence[Shape | None] = (), **attributes: Any
    ) -> list[Ref]:
        """Add a node with an output for each of `dtypes` (None: the dtype of its first input)."""
        own = next((x.dtype for x in inputs if isinstance(x, Ref)), None)
        refs = [x if x is None else self.ref(x, own) for x in inputs]
        name = self.unique(f"{self.module}/{kind}".lstrip("/"))
        outputs = [f"{name}:{i}" if i else name for i in range(len(dtypes))]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        names = ["" if x is None else x.name for x in refs]
        while names and not names[-1]:
            names.pop()
        self.nodes.append(helper.make_node(kind, names, outputs, name=name, **attributes))
        shapes = [*shapes, *[None] * (len(dtypes) - len(shapes))]
        return [
            Ref(self, out, own if dtype is None else dtype, shape)
            for out, dtype, shape in zip(outputs, dtypes, shapes, strict=True)
        ]

    def ref(self, value: Any, dtype: Any = None) -> Ref:
        """A tensor of the graph; numbers and arrays become constants, of `dtype` unless they are arrays of another."""
        if isinstance(value, Ref):
            return value
        if isinstance(value, Size):
            return self.cast(self.op("Squeeze", self.size(value)), dtype or INT64)
        array = np.asarray(value) if dtype is None or isinstance(value, np.ndarray) else np.asarray(value).astype(dtype)
        key = (array.dtype, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        found = self.initializer(self.unique("constant"), array)
        if key is not None:
            self._constants[key] = found
        return found

    def ints(self, values: Sequence[int]) -> Ref:
        """A constant vector of int64."""
        return self.ref(np.array(values, np.int64).reshape(-1))

    def initializer(self, name: str, array: np.ndarray) -> Ref:
        """A tensor with values."""
        self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        return Ref(self, name, array.dtype, array.shape)

    def cast(self, x: Ref, dtype: Any) -> Ref:
        """`x` converted to a dtype."""
        if x.dtype == dtype:
            return x
        return self.op("Cast", x, dtype=dtype, shape=x.shape, to=element_type(dtype))

    def size(self, n: int | Size) -> Ref:
        """A size as a vector of one element."""
        if isinstance(n, int):
            return self.ints([n])
        if n in self._sizes:
            return self._sizes[n]
        terms = polynomial(n.values, self.sizes)
        if terms is None:
            raise Unsupported(
                f"needs a size that is {' or '.join(map(str, n.values))} where the dynamic dimensions are "
                f"{' or '.join(map(str, self.sizes))}; sums and products of these alone can be expressed"
            )
        module, self.module = self.module, ""
        total: Any = None
        for dimensions, coefficient in terms.items():
            term: Any = self.ints([coefficient]) if coefficient != 1 or not dimensions else None
            for number in dimensions:
                term = self._dimension(number) if term is None else term * self._dimension(number)
            total = term if total is None else total + term
        self.module = module
        self._sizes[n] = total
        return total

    def _dimension(self, number: int) -> Ref:
        name, axis = self.dynamic[number]
        if number not in self._sizes:
            source = Ref(self, name, INT64)  # its own type does not matter
            self._sizes[number] = self.op("Shape", source, dtype=INT64, start=axis, end=axis + 1)
        return self._sizes[number]

    def shape(self, sizes: Sequence[int | Size]) -> Ref:
        """A vector of sizes, some of which may be dynamic."""
        if all(isinstance(n, int) for n in sizes):
            return self.ints(sizes)  # type: ignore[arg-type]
        return self.op("Concat", *map(self.size, sizes), axis=0)

    def reshape(self, x: Ref, sizes: Sequence[int | Size]) -> Ref:
        """`x` in another shape. A single dynamic size is what remains, and needs no nodes."""
        dynamic = [n for n in sizes if isinstance(n, Size)]
        if len(dynamic) == 1 and 0 not in sizes:
            target = self.ints([-1 if isinstance(n, Size) else n for n in sizes])
        else:
            target = self.shape(sizes)
        return self.op("Reshape", x, target, shape=tuple(sizes))

    def transpose(self, x: Ref, order: Sequence[int]) -> Ref:
        """`x` with its dimensions in another order."""
        shape = None if x.shape is None else tuple(x.shape[d] for d in order)
        return self.op("Transpose", x, perm=[*order], shape=shape)

    def slice(self, x: Ref, starts: Sequence[Any], ends: Sequence[Any], axes: Sequence[int], steps: Any = None) -> Ref:
        """Slices of `x` along `axes`."""
        how = [self.shape(starts), self.shape(ends), self.ints(axes), *([] if steps is None else [self.ints(steps)])]
        return self.op("Slice", x, *how)

    def where(self, condition: Ref, x: Any, y: Any) -> Ref:
        """x where the condition holds, else y."""
        dtype = next(v.dtype for v in (x, y) if hasattr(v, "dtype"))
        condition = self.cast(condition, BOOL)
        return self.op("Where", condition, self.ref(x, dtype), self.ref(y, dtype), dtype=dtype)


def element_type(dtype: Any) -> int:
    """ONNX's number of a NumPy dtype; Unsupported for types that ONNX or its runtimes do not have."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        raise Unsupported(f"computes in {dtype}, which ONNX's ops do not take")
    return helper.np_dtype_to_tensor_dtype(dtype)


def _unary(kind: str) -> Callable[[Formulas, Any], Ref]:
    return lambda self, x: self.graph.op(kind, x)


class Formulas:
    """NumPy's functions on tensors of a graph: what `xp` is in the forward of an elementwise op."""

    __name__ = "tdt.onnx"  # `special_functions(xp)` finds no other module for it, so these are its functions too

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    exp, log, sqrt, erf, tanh, sin, cos, tan = map(_unary, ("Exp", "Log", "Sqrt", "Erf", "Tanh", "Sin", "Cos", "Tan"))
    arcsin, arccos, arctan, sinh, cosh = map(_unary, ("Asin", "Acos", "Atan", "Sinh", "Cosh"))
    arcsinh, arccosh, arctanh = map(_unary, ("Asinh", "Acosh", "Atanh"))
    floor, ceil, rint, abs, absolute, negative, sign, reciprocal = map(
        _unary, ("Floor", "Ceil", "Round", "Abs", "Abs", "Neg", "Sign", "Reciprocal")
    )

    def exp2(self, x: Ref) -> Ref:
        return self.exp(x * math.log(2))

    def expm1(self, x: Ref) -> Ref:
        """exp(x) - 1, as 2 tanh(x / 2) / (1 - tanh(x / 2)) near 0, where the difference would lose digits."""
        t = self.tanh(x * 0.5)
        return self.where(self.abs(x) < 0.5, 2 * t / (1 - t), self.exp(x) - 1)

    def log1p(self, x: Ref) -> Ref:
        """log(1 + x), corrected for what 1 + x loses (Kahan)."""
        u = x + 1
        exact = u == 1
        below = self.where(exact, 1, u - 1)
        return self.where(exact | self.isinf(u), x, self.log(u) * (x / below))

    def log2(self, x: Ref) -> Ref:
        return self.log(x) * (1 / math.log(2))

    def log10(self, x: Ref) -> Ref:
        return self.log(x) * (1 / math.log(10))

    def erfc(self, x: Ref) -> Ref:
        return 1 - self.erf(x)

    def trunc(self, x: Ref) -> Ref:
        return self.sign(x) * self.floor(self.abs(x))

    def square(self, x: Ref) -> Ref:
        return x * x

    def hypot(self, x: Ref, y: Ref) -> Ref:
        return self.sqrt(x * x + y * y)

    def multiply(self, x: Any, y: Any) -> Ref:
        return x * y

    def add(self, x: Any, y: Any) -> Ref:
        return x + y

    def subtract(self, x: Any, y: Any) -> Ref:
        return x - y

    def true_divide(self, x: Any, y: Any) -> Ref:
        return x / y

    divide = true_divide

    def where(self, condition: Ref, x: Any, y: Any) -> Ref:
        if not hasattr(x, "dtype") and not hasattr(y, "dtype"):
            x = self.graph.ref(x, self.graph.outputs[0].dtype)
        return self.graph.where(condition, x, y)

    def maximum(self, x: Any, y: Any) -> Ref:
        return self._extreme("Max", x, y)

    def minimum(self, x: Any, y: Any) -> Ref:
        return self._extreme("Min", x, y)

    def _extreme(self, kind: str, x: Any, y: Any) -> Ref:
        dtype = next(v.dtype for v in (x, y) if isinstance(v, Ref))
        return self.graph.op(kind, self.graph.ref(x, dtype), self.graph.ref(y, dtype), dtype=dtype)

    def fmax(self, x: Ref, y: Ref) -> Ref:
        return self.where(self.isnan(x) | (y > x), y, x)

    def fmin(self, x: Ref, y: Ref) -> Ref:
        return self.where(self.isnan(x) | (y < x), y, x)

    def logaddexp(self, x: Ref, y: Ref) -> Ref:
        """log(exp(x) + exp(y)); equal operands may be infinite."""
        far = self.abs(x - y)
        return self.where(x == y, x + math.log(2), self.maximum(x, y) + self.log1p(self.exp(-far)))

    def logaddexp2(self, x: Ref, y: Ref) -> Ref:
        return self.logaddexp(x * math.log(2), y * math.log(2)) * (1 / math.log(2))

    def xlogy(self, x: Ref, y: Ref) -> Ref:
        return self.where((x == 0) & ~self.isnan(y), 0, x * self.log(y))

    def xlog1py(self, x: Ref, y: Ref) -> Ref:
        return self.where((x == 0) & ~self.isnan(y), 0, x * self.log1p(y))

    def isnan(self, x: Ref) -> Ref:
        return self.graph.op("IsNaN", x, dtype=BOOL)

    def isinf(self, x: Ref) -> Ref:
        return self.graph.op("IsInf", x, dtype=BOOL)

    def isfinite(self, x: Ref) -> Ref:
        return ~(self.isnan(x) | self.isinf(x))

    def logical_not(self, x: Ref) -> Ref:
        return ~self.graph.cast(x, BOOL)

    def logical_and(self, x: Ref, y: Ref) -> Ref:
        return self.graph.cast(x, BOOL) & self.graph.cast(y, BOOL)

    def logical_or(self, x: Ref, y: Ref) -> Ref:
        return self.graph.cast(x, BOOL) | self.graph.cast(y, BOOL)

    def logical_xor(self, x: Ref, y: Ref) -> Ref:
        return self.graph.cast(x, BOOL) ^ self.graph.cast(y, BOOL)

    def ones(self, shape: tuple[()], dtype: Any) -> Ref:
        return self.graph.ref(1, dtype)

    def asarray(self, value: Any, dtype: Any = None) -> Ref:
        return self.graph.ref(value, dtype)

    def zeros_like(self, x: Ref) -> Ref:
        return self.graph.ref(0, x.dtype)


def model_of(
    graph: Graph, name: str, inputs: Sequence[Any], outputs: Sequence[Any], opset: int, metadata: dict[str, str]
) -> onnx.ModelProto:
    """The graph as a checked model; inputs and outputs are (name, dtype, sizes), where a size is a number or a name."""
    from tdt._about import __version__

    taken, returned = (
        [helper.make_tensor_value_info(part, element_type(dtype), sizes) for part, dtype, sizes in parts]
        for parts in (inputs, outputs)
    )
    proto = helper.make_graph(graph.nodes, name, taken, returned, initializer=[*graph.initializers.values()])
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        proto,
        opset_imports=imports,
        ir_version=min(10, onnx.IR_VERSION),
        producer_name="tdt",
        producer_version=__version__,
    )
    helper.set_model_props(model, metadata)
    return model


def check_known(value: Any, what: str) -> None:
    """Unsupported if a setting differs between the traces in another way than a size."""
    if isinstance(value, Differing):
        raise Unsupported(f"has a setting {what} that depends on the dynamic dimensions: {value!r}")


__all__ = [
    "BOOL", "INT64", "Formulas", "Graph", "OnnxExporterError", "Ref", "Shape", "Unsupported", "check_known",
    "element_type", "model_of",
]  # fmt: skip
