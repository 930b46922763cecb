"""Formulas of expressions within functions that are written with `_code`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tdt._kernels._emit import Emitter
from tdt._kernels._syntax import element, vector, vector_length
from tdt._kernels.expression import Expression

if TYPE_CHECKING:
    from tdt._kernels._code import Code, Value


class _Inline(Emitter):
    """Formulas within a function that is written with `_code.Code`."""

    def __init__(self, code: Code, kind: str):
        """kind: the type of the vectors."""
        self.code, self.width, self.real = code, vector_length(kind), element(kind)
        self.double = self.real == "double"
        self.lines, self.declared, self.count, self.block = code.lines, code.declared, 0, ""
        self.vector, self.words = f"<{self.width} x {self.real}>", f"<{self.width} x i32>"
        self.bits = f"<{self.width} x i1>"

    def new(self, text: str) -> str:
        return self.code.new("", text).name

    def rare(self, args: list[str], otherwise: Expression, loads: Sequence[str], known: dict[Any, str]) -> str:
        raise NotImplementedError("a value that is computed for some elements alone")

    def root(self, x: str) -> str:
        return self.intrinsic("sqrt", [x], self.vector, self.vector)


def functions_of(kind: str) -> Any:
    """The functions that formulas of float or double numbers may call."""
    from tdt._kernels import functions
    from tdt._kernels._double import Double

    return Double if element(kind) == "double" else functions


def inline(code: Code, formula: Callable[..., Expression], *values: Value) -> Value:
    """The code's values of a formula of expressions, such as `functions.exp`; values: vectors of one type, or numbers."""
    kind = values[0].kind
    many = kind if vector_length(kind) else vector(kind, 1)
    emitter = _Inline(code, many)
    loads = [v.name if kind == many else code.new(many, f"bitcast {kind} {v.name} to {many}").name for v in values]
    result = emitter.value(formula(*[Expression("input", k) for k in range(len(values))]), loads, {})
    return code.new(kind, f"bitcast {many} {result} to {kind}")
