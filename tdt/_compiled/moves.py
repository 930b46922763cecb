"""Statements of programs that take parts of arrays along a dimension, or join arrays: where each element comes from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._compiled.elements import FLOAT32, Element, Move, Part
from tdt._kernels._registry import SWITCHES
from tdt._kernels.fused import MANY, Layout
from tdt._ops.shape.join import _cat
from tdt._ops.shape.split import _split
from tdt._ops.shape.views import slice_view
from tdt.autograd._op import Op

ndarray = np.ndarray
LEAST_RUN = (
    32  # elements that are neighbours in memory, of each part: shorter rows take longer than the passes that are saved
)


def of_op(
    op: Op, values: Sequence[Any], attributes: dict[str, Any], names: Sequence[str], result: Any
) -> Element | None:
    """The element of a call of an op that moves elements of float32; None where it is none."""
    if op is _cat:
        return _joined(values, names, attributes["dim"], result)
    if op is slice_view and (found := _range(attributes["spec"], values[0].shape)):
        dim, start, _ = found
        return _part(values[0], names[0], dim, start, result)
    return None


def of_rule(op: Op, arguments: Sequence[Any], result: Any) -> Element | None:
    """The element of a call of an op's rule on arrays. arguments: of the rule; arrays with their names as `Named`."""
    if op not in RULES or not isinstance(result, ndarray):
        return None
    return RULES[op]([value for value in arguments if value is not np], result)


def _of_joined(arguments: list[Any], result: ndarray) -> Element | None:
    g, index, shapes, dim = arguments
    return _part(g.array, g.name, dim, sum(shape[dim] for shape in shapes[:index]), result)


def _of_slice(arguments: list[Any], result: ndarray) -> Element | None:
    g, shape, spec = arguments
    if (found := _range(spec, shape)) is None:
        return None
    dim, start, stop = found
    parts = Part(0, start, None, 0), Part(start, stop, 0, 0), Part(stop, shape[dim], None, 0)
    return _element([g.array], [g.name], dim, parts, result)


def _of_split(arguments: list[Any], result: ndarray) -> Element | None:
    grads, _, sizes, dim = arguments
    present = [g for g in grads if g is not None]
    ends = itertools.pairwise([0, *itertools.accumulate(sizes)])
    places = iter(range(len(present)))
    parts = [Part(*each, None if g is None else next(places), 0) for g, each in zip(grads, ends, strict=True)]
    return _element([g.array for g in present], [g.name for g in present], dim, parts, result)


RULES: dict[Op, Callable[[list[Any], ndarray], Element | None]] = {
    _cat: _of_joined,
    slice_view: _of_slice,
    _split: _of_split,
}


def _range(spec: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The dimension, start and stop of a slice of one dimension; None where a spec says more."""
    parts = [part for part in spec if part is not ...]
    if any(part.__class__ is not tuple for part in parts) or (... in spec and spec[-1] is not ...):
        return None
    cut = [(d, *slice(*part).indices(shape[d])) for d, part in enumerate(parts) if part != (None, None, None)]
    if len(cut) != 1 or cut[0][3] != 1:
        return None
    return cut[0][:3]


def _joined(values: Sequence[Any], names: Sequence[str], dim: int, result: Any) -> Element | None:
    if any(value.__class__ is not ndarray or value.ndim != result.ndim for value in values):
        return None
    ends = itertools.pairwise([0, *itertools.accumulate(value.shape[dim] for value in values)])
    return _element(values, names, dim, [Part(*each, k, 0) for k, each in enumerate(ends)], result)


def _part(value: ndarray, name: str, dim: int, first: int, result: Any) -> Element | None:
    return _element([value], [name], dim, [Part(0, result.shape[dim], 0, first)], result, True)


def _element(
    values: Sequence[ndarray], names: Sequence[str], dim: int, parts: Sequence[Part], result: Any, is_view: bool = False
) -> Element | None:
    """The element of a move; None where rows are short, or there are other types than float32."""
    parts = tuple([part for part in parts if part.start < part.stop])
    if not SWITCHES.kernels or result.__class__ is not ndarray or result.size < MANY:
        return None
    if any(each.dtype != FLOAT32 for each in (*values, result)) or not (is_view or result.flags.c_contiguous):
        return None
    inner = int(np.prod(result.shape[dim + 1 :]))
    if any((part.stop - part.start) * inner < LEAST_RUN for part in parts):
        return None
    move = Move(dim - result.ndim, parts, is_view)
    return Element(None, tuple(names), tuple(map(Layout.of, values)), Layout.contiguous(result), 1, move)
