"""Chains of elementwise statements with moves among them: regions of their results in each of which they are formulas."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from tdt._compiled.elements import Element
from tdt._kernels.expression import Expression, as_expression, operations
from tdt._kernels.fused import Layout
from tdt._kernels.fused_parts import Computed, Read

MOST_REGIONS = 8


def dims_of(elements: Mapping[str, Element]) -> set[int]:
    """The dimensions along which there are moves."""
    return {each.move.dim for each in elements.values() if each.move is not None}


def agree(elements: Mapping[str, Element]) -> bool:
    """Whether a chain may be computed by region: its moves are along one dimension of arrays of one rank, with the same rows."""
    dims = dims_of(elements)
    if not dims:
        return True
    layouts = [each.result for each in elements.values()]
    ranks = {len(each.shape) for each in layouts}
    return len(dims) == len(ranks) == 1 and all(have_same_rows(layouts[0], each) for each in layouts)


def have_same_rows(a: Layout, b: Layout) -> bool:
    """Whether neighbours in one array are so in the other one, which may have another size along a dimension."""
    return a.has_rows_of(b) and b.has_rows_of(a)


class Regions:
    """The regions of a chain's results.

    Args:
        elements: of the chain, by name, in order of computation.
        operands: the arrays that it is computed of; layouts: how they lie.
        outs: the results, which have one shape.

    Attributes:
        dim: along which they are regions.
        parts: what each computes; empty where there are too many.
        repeated: names of values that several regions would compute, for the same elements.
    """

    def __init__(
        self,
        elements: Mapping[str, Element],
        operands: Sequence[str],
        layouts: Mapping[str, Layout],
        outs: Sequence[str],
    ):
        (self.dim,) = dims_of(elements)
        self._elements, self._layouts = elements, layouts
        self._numbers = {name: k for k, name in enumerate(operands)}
        self._cuts: dict[str, set[int]] = {}
        for name in elements:
            self._cuts[name] = self._cuts_of(name)
        cuts = sorted(set.union(*[self._cuts[name] for name in outs]))
        self._computed: dict[str, int] = {}  # entries of each value that regions compute
        self._costs: dict[str, int] = {}
        few = len(cuts) <= MOST_REGIONS + 1
        self.parts = [self._region(outs, *ends) for ends in itertools.pairwise(cuts)] if few else []
        self.repeated = [
            name for name, count in self._computed.items() if count > elements[name].result.shape[self.dim]
        ]

    def cost(self, name: str) -> int:
        """How many operations a value has; none where no region reads it."""
        return self._costs.get(name, 0)

    def _cuts_of(self, name: str) -> set[int]:
        """Where the value's formula changes along the dimension."""
        element = self._elements[name]
        cuts = {0, element.result.shape[self.dim]}
        if element.move is None:
            own = (self._cuts[each] for each in element.operands if each in self._cuts)
            return cuts.union(*own)
        for start, stop, operand, first in element.move.parts:
            cuts |= {start, stop}
            if operand is not None and (source := element.operands[operand]) in self._cuts:
                cuts |= {at - first + start for at in self._cuts[source] if first < at < first + stop - start}
        return cuts

    def _region(self, outs: Sequence[str], start: int, stop: int) -> Computed:
        self._values: dict[tuple[str, int, int], Expression] = {}
        self._reads: dict[Read, Expression] = {}
        outputs = tuple([self._value(name, start, stop) for name in outs])
        for name, first, last in self._values:
            self._computed[name] = self._computed.get(name, 0) + last - first
        return Computed(start, stop, outputs, tuple(self._reads))

    def _value(self, name: str, start: int, stop: int) -> Expression:
        """The entries of a value from `start` to `stop`."""
        if name not in self._elements:
            return self._read(name, start, stop)
        key = name, start, stop
        if key not in self._values:
            element = self._elements[name]
            if element.move is None:
                assert element.expression is not None
                values = [self._value(each, start, stop) for each in element.operands]
                self._values[key] = as_expression(element.expression(*values))
            else:
                part = next(p for p in element.move.parts if p.start <= start < p.stop)
                shift = part.first - part.start
                self._values[key] = (
                    as_expression(0.0)
                    if part.operand is None
                    else self._value(element.operands[part.operand], start + shift, stop + shift)
                )
            self._costs[name] = operations(self._values[key])
        return self._values[key]

    def _read(self, name: str, start: int, stop: int) -> Expression:
        layout = self._layouts[name]
        is_broadcast = len(layout.shape) < -self.dim or layout.shape[self.dim] == 1
        read = Read(self._numbers[name], *((None, None) if is_broadcast else (start, stop)))
        if read not in self._reads:
            self._reads[read] = Expression("input", len(self._reads), logical=layout.dtype == np.bool_)
        return self._reads[read]
