"""Statements of programs that compute each element from the operands' at its place: what they compute, as expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels import functions
from tdt._kernels._registry import SWITCHES
from tdt._kernels.expression import Expression, as_expression, as_number, operations
from tdt._kernels.fused import Layout
from tdt._kernels.fused_fold import Folding
from tdt.autograd._op import Op

ndarray = np.ndarray
FLOAT32 = np.dtype(np.float32)
TYPES = frozenset((FLOAT32, np.dtype(np.bool_)))
NUMBERS = frozenset((float, int))


class Part(NamedTuple):
    """The entries from `start` to `stop` of a result: an operand's, by its place, from `first` on, or zeros where it is None."""

    start: int
    stop: int
    operand: int | None
    first: int


class Move(NamedTuple):
    """Where the entries of a result along a dimension come from.

    Attributes:
        dim: counted from the last one, which is -1.
        parts: in order, without gaps.
        is_view: whether the statement gives a view of its operand.
    """

    dim: int
    parts: tuple[Part, ...]
    is_view: bool


class Element(NamedTuple):
    """What a statement computes of each element.

    Attributes:
        expression: called with the operands' expressions, it gives the result's; of a move it is None.
        operands: their names in the program.
        layouts: how they lie.
        result: how the result lies.
        operations: how many the expression has.
        move: where elements come from, of a statement that takes parts of its operands or joins them. Its result is
            contiguous; where it is a view, that is how elements lie that are copied.
    """

    expression: Callable[..., Any] | None
    operands: tuple[str, ...]
    layouts: tuple[Layout, ...]
    result: Layout
    operations: int
    move: Move | None = None

    @property
    def is_view(self) -> bool:
        """Whether the statement gives a view of its operand."""
        return self.move is not None and self.move.is_view


def of_op(
    op: Op, values: Sequence[Any], attributes: dict[str, Any], names: Sequence[str], result: Any
) -> Element | None:
    """The element of a call of an op; None where it is none. values: arrays, numbers and None."""
    if op.formula:
        formula, _, _ = op.forward.formula
        return _element(formula, values, names, result, attributes)
    if op.lower is not None:  # whose float32 forward is NumPy's, with the same bits
        formula, _, _ = op.lower.formula  # type: ignore[attr-defined]
        return _element(formula, values, names, result, attributes, False)
    if "forward" in op.traced:
        return _element(op.traced["forward"], values, names, result, rounds=False)
    return None


def of_drawn(op: Op, x: ndarray, drawn: ndarray, p: float, names: Sequence[str], result: Any) -> Element | None:
    """The element of what an op computes of its operand and what it has drawn."""
    return _element(op.traced["drawn"], (x, drawn, p), names, result, rounds=False)


def of_rule(
    op: Op, place: int, function: Any, values: Sequence[Any], names: Sequence[str], result: Any
) -> Element | None:
    """The element of a call of an op's rule on arrays, `function`, for the operand at a place."""
    found = getattr(function, "formula", None)
    if found is not None:
        formula, count, attributes = found
        named = dict(zip(attributes, values[1 + count :], strict=True))
        return _element(formula, values[1 : 1 + count], names, result, named)
    rule = op.traced.get(op.names_for(place + 1)[place])
    if rule is not None:
        return _element(rule, values[1:], names, result, rounds=False)
    if op.lower is not None:
        return _element(lambda xp, *args: function(*args), values, names, result, None, False)
    return None


def folding_of(op: Op, value: Any, attributes: dict[str, Any], result: Any) -> Folding | None:
    """The reduction of an array that a call of an op is; None where it is none, or where the array should be in memory."""
    others = {name: v for name, v in attributes.items() if name not in ("dim", "keepdim")}
    if not op.fold or any(op.defaults[name] != v for name, v in others.items()):
        return None
    return _folding(op.fold, value, attributes["dim"], attributes["keepdim"], result, op.packed)


def folding_to(value: Any, result: Any) -> Folding | None:
    """The sum of a gradient to the shape of a broadcast operand."""
    extra = value.ndim - result.ndim
    own = zip(value.shape[extra:], result.shape, strict=True)
    axes = (*range(extra), *(d + extra for d, (n, m) in enumerate(own) if m == 1 and n != 1))
    return _folding("sum", value, axes, True, result, False)


def _folding(name: str, value: Any, axis: Any, keepdims: bool, result: Any, packed: bool) -> Folding | None:
    if not SWITCHES.kernels or value.__class__ is not ndarray or result.__class__ is not ndarray:
        return None
    folding = Folding(name, Layout.of(value), axis, keepdims, result.shape, packed)
    return folding if folding.plan else None


def of_sum(values: Sequence[Any], names: Sequence[str], result: Any) -> Element | None:
    """The element of a sum of two gradients."""
    return _element(lambda xp, a, b: a + b, values, names, result)


def of_plus_zero(values: Sequence[Any], names: Sequence[str], result: Any) -> Element | None:
    """The element of what makes -0 to 0."""
    return _element(lambda xp, a, zero: a + zero, (*values, 0.0), names, result)


def _element(
    formula: Callable[..., Any],
    values: Sequence[Any],
    names: Sequence[str],
    result: Any,
    attributes: dict[str, Any] | None = None,
    rounds: bool = True,
) -> Element | None:
    """The element of a formula's call; None where it has other arrays than dense ones of float32 and bool.

    rounds: numbers have the arrays' type, as where the formula is compiled; else the formula takes them as they are."""
    places = [k for k, v in enumerate(values) if v.__class__ is ndarray]
    arrays = [values[k] for k in places]
    if not SWITCHES.kernels or result.__class__ is not ndarray or not result.size or not result.ndim:
        return None
    if len(arrays) != len(names):
        return None
    if any(v.dtype not in TYPES for v in (*arrays, result)) or not any(v.dtype == FLOAT32 for v in arrays):
        return None
    if not all(v is None or v.__class__ is ndarray or v.__class__ in NUMBERS for v in values):
        return None
    layouts = tuple(map(Layout.of, arrays))
    lies = Layout.of(result)
    if not lies.dense or not all(
        each.unexpanded.dense or each.has_rows_of(lies) for each in layouts if each.shape == lies.shape
    ):
        return None
    expression = _Formula(formula, values, places, attributes or {}, rounds)
    inputs = [Expression("input", k, logical=each.dtype != FLOAT32) for k, each in enumerate(layouts)]
    try:
        found = as_expression(expression(*inputs))
    except (AttributeError, TypeError):  # it calls a function of NumPy's that formulas do not have
        return None
    if found.double or found.logical != (result.dtype != FLOAT32):
        return None
    return Element(expression, tuple(names), layouts, lies, operations(found))


class _Formula:
    """A formula whose operands are partly numbers."""

    def __init__(self, formula: Any, values: Sequence, places: Sequence[int], attributes: dict[str, Any], rounds: bool):
        number: Callable[[Any], Any] = as_number if rounds else lambda value: value
        self.formula, self.places = formula, places
        self.values = [None if value.__class__ is ndarray else number(value) for value in values]
        self.attributes = {name: number(value) for name, value in attributes.items()}

    def __call__(self, *operands: Expression) -> Any:
        values = [*self.values]
        for place, operand in zip(self.places, operands, strict=True):
            values[place] = operand
        return self.formula(functions, *values, **self.attributes)
