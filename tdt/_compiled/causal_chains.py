"""Chains of statements around a causal mask that become one, computed a matrix at a time by `matrix_chains`.

    scores = q @ k.mT / 8; weights = dropout(softmax(scores.masked_fill(mask, -inf), -1), 0.1); weights @ v

Forward that is all of this line, backward the gradients of weights and scores, and the products that read these.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tdt._compiled.elements import Element
from tdt._compiled.program import Program, Statement, names_in
from tdt._kernels import causal_cpu
from tdt._kernels.expression import Expression, as_expression
from tdt._kernels.fused import Layout, code_of
from tdt._kernels.matrix_chains import MOST_OPERANDS, Chain, Formula, Mask, Product, Slopes, Stage, Weights, Zeros

if TYPE_CHECKING:
    from tdt._compiled.causal import Causal, Limited

FLOAT32, BOOL = np.dtype(np.float32), np.dtype(np.bool_)


class Chains:
    """The statements of a program with those chains joined.

    Args:
        causal: what is known of all programs.
        returned: the names of results.

    Attributes:
        statements: the program's.
    """

    def __init__(self, program: Program, causal: Causal, returned: Collection[str]):
        self.program, self.causal, self.returned = program, causal, returned
        self.statements = program.statements
        for each in program.statements:
            found = self._limited(each)
            if found is not None and found.mask is not None:
                self._join(self._forward(each, found.mask), found.mask)
            elif found is not None and found.form is causal_cpu.GRADIENT_OF_WEIGHTS:
                self._join(self._backward(each, found.weights), None)

    def _limited(self, statement: Statement) -> Limited | None:
        """How a product leaves something out; None where it does not."""
        return self.causal.limited.get(statement.outs[0]) if statement.outs and statement.call else None

    def _next(self, statement: Statement) -> Statement | None:
        """The statement that alone reads the result of another one, if it is of this program."""
        name, found = statement.outs[0], self._readers_here(statement.outs[0])
        return (
            found[0]
            if len(found) == len(self.causal.readers.get(name, ())) == 1 and name not in self.returned
            else None
        )

    def _readers_here(self, name: str) -> list[Statement]:
        return [each for each in self.statements if name in each.reads]

    def _elements_after(self, statement: Statement) -> tuple[list[Statement], Statement | None]:
        """The elementwise statements of which each alone reads the one before, and the one that alone reads the last of them."""
        found: list[Statement] = []
        each = self._next(statement)
        while each is not None and each.element is not None:
            found.append(each)
            each = self._next(each)
        return found, each

    def _forward(self, scores: Statement, mask: Mask) -> _Stages | None:
        """The stages from a product to weights, or their product with values."""
        formulas, rows = self._elements_after(scores)
        if rows is None or not _is_of_rows(rows, self.causal):
            return None
        stages, weights = _Stages(), rows.outs[0]
        stages.add_product(scores, self._form(scores))
        if not formulas or not stages.add_formula(formulas, scores.outs[0]):
            return None
        stages.memory[weights] = stages.memory[rows.reads[0]]
        stages.add([rows], Weights(stages.memory[weights], mask.fills + causal_cpu.VANISHES))
        dropped = next((each for each in self._readers_here(weights) if _is_dropout(each)), None)
        factor = (
            weights
            if dropped is None or not stages.add_formula([dropped], weights, in_place=False)
            else dropped.outs[0]
        )
        for each in self._readers_here(factor):
            if (found := self._limited(each)) and found.form is causal_cpu.OF_WEIGHTS and each.reads[0] == factor:
                stages.add_product(each, found.form)
                break
        return stages

    def _backward(self, gradient: Statement, weights: str) -> _Stages | None:
        """The stages from the gradient of weights to that of scores, and the products that read it or the weights."""
        before, rows = self._elements_after(gradient)
        if rows is None or not _is_of_rows(self.causal.by_name.get(weights), self.causal):
            return None
        after, _ = self._elements_after(rows)
        slopes, stages = (after or [rows])[-1].outs[0], _Stages()
        stages.add([], Zeros(weights))
        stages.add_product(gradient, causal_cpu.GRADIENT_OF_WEIGHTS)
        for each in self.statements:
            if (found := self._limited(each)) and (found.form, found.weights) == (
                causal_cpu.OF_TURNED_WEIGHTS,
                weights,
            ):
                stages.add_product(each, found.form)
        if before and not stages.add_formula(before, gradient.outs[0]):
            return None
        stages.memory[rows.outs[0]] = gradient.outs[0]
        stages.add([rows], Slopes(gradient.outs[0], weights))
        if after and not stages.add_formula(after, rows.outs[0]):
            return None
        products = [each for each in self._readers_here(slopes) if self._limited(each)]
        for each in products:
            stages.add_product(each, self._form(each))
        return (
            stages
            if len(products) == len(self.causal.readers.get(slopes, ())) and slopes not in self.returned
            else None
        )

    def _form(self, statement: Statement) -> causal_cpu.Form:
        return self.causal.limited[statement.outs[0]].form

    def _join(self, stages: _Stages | None, mask: Mask | None) -> None:
        """Put one statement in the place of those of the stages, where all that is between may come before or after it."""
        if stages is None:
            return
        members = stages.members
        places = [k for k, each in enumerate(self.statements) if any(each is other for other in members)]
        first, last = places[0], places[-1]
        computed, before, after = {each.outs[0] for each in members}, [], []
        later = {*computed}
        for k in range(first, last + 1):
            each = self.statements[k]
            if k in places:
                continue
            is_later = bool(later.intersection(each.reads))
            if each.writes or (is_later and not each.repeatable):
                return
            if is_later:
                after.append(each)
                later.update(names_in(" ".join(each.outs)))
            else:
                before.append(each)
        if (later - computed).intersection(name for each in members for name in each.reads):
            return
        reads = tuple(
            [name for name in dict.fromkeys(n for each in members for n in each.reads) if name not in computed]
        )
        inside = {id(each) for each in members}
        outs = tuple([
            name for each in members for name in each.outs
            if name in self.returned or any(id(other) not in inside for other in self.causal.readers.get(name, ()))
        ])  # fmt: skip
        alone = self.program.with_statements([self.statements[k] for k in places])
        otherwise = alone.compiled(reads, ", ".join(outs), "causal attention")
        lie = [stages.memory.get(name, name) for name in outs]
        chain = Chain(stages.found, reads, lie, [name for name in reads if name in stages.flat], mask, otherwise)
        text = f"{self.program.constant(chain)}({', '.join(reads)})"
        joined = Statement(text, outs, reads, trusts=all(each.trusts for each in members))
        self.statements = [*self.statements[:first], *before, joined, *after, *self.statements[last + 1 :]]


class _Stages:
    """The stages of a chain.

    Attributes:
        found: in order of computation.
        members: the statements that they are of.
        memory: the name of the value in whose place another one is computed.
        flat: the operands that are one matrix for all.
    """

    def __init__(self) -> None:
        self.found: list[Stage] = []
        self.members: list[Statement] = []
        self.memory: dict[str, str] = {}
        self.flat: set[str] = set()

    def add(self, members: Sequence[Statement], stage: Stage) -> None:
        """Append a stage."""
        self.found.append(stage)
        self.members += members

    def add_product(self, statement: Statement, form: causal_cpu.Form) -> None:
        """Append a product."""
        first, second = (self.memory.get(name, name) for name in statement.reads[:2])
        self.add([statement], Product(form, first, second, statement.outs[0]))

    def add_formula(self, formulas: Sequence[Statement], name: str, in_place: bool = True) -> bool:
        """Append formulas one after the other, the first of a value and all of others and that; whether there is code for it."""
        place = self.memory.get(name, name)
        values, operands, kinds, flat = {name: Expression("input", 0)}, [], [FLOAT32], set()
        for each in formulas:
            element = each.element
            if element is None or element.expression is None or not _lies_in_rows(element.result):
                return False
            n = math.prod(element.result.shape[-2:])
            for operand, layout in zip(element.operands, element.layouts, strict=True):
                steps = _steps(layout, element.result)
                if steps is None or (operand == name and not steps[0]):
                    return False
                if operand not in values:
                    values[operand] = Expression("input", len(kinds), logical=layout.dtype == BOOL)
                    operands.append((operand, *steps))
                    kinds.append(layout.dtype)
                    flat.update([operand] if steps[1] and not steps[0] else [])
            values[each.outs[0]] = as_expression(element.expression(*[values[operand] for operand in element.operands]))
        like = [Layout((1,), (kind.itemsize,), kind) for kind in kinds]
        last = formulas[-1].outs[0]
        code = code_of([values[last]], like, like[:1]) if len(kinds) <= MOST_OPERANDS else None
        if code is None:
            return False
        self.memory[last] = place if in_place else last
        self.flat |= flat
        self.add(formulas, Formula(code.loop, ((place, 4 * n, 4), *operands), self.memory[last]))
        return True


def is_flat(element: Element, name: str) -> bool:
    """Whether an operand is one matrix for all of an element's result."""
    layout = element.layouts[element.operands.index(name)]
    steps = _steps(layout, element.result)
    return steps == (0, layout.dtype.itemsize)


def _steps(layout: Layout, result: Layout) -> tuple[int, int] | None:
    """Bytes from a matrix of an operand to the next one, and from an element to the next one; None where that is not all."""
    size, count, each = layout.dtype.itemsize, math.prod(layout.shape), math.prod(result.shape[-2:])
    if count == 1:
        return 0, 0
    if count == each < math.prod(result.shape) and layout.shape[-2:] == result.shape[-2:]:
        return 0, size
    return (size * each, size) if layout.shape == result.shape and _lies_in_rows(layout) else None


def _is_dropout(statement: Statement) -> bool:
    return statement.element is not None and statement.call is not None and statement.call.op.name == "dropout"


def _is_of_rows(statement: Statement | None, causal: Causal) -> bool:
    """Whether a statement is the softmax, along the last dimension, of what elementwise ones compute."""
    if statement is None or (call := statement.call) is None or call.op.name != "softmax" or call.place is not None:
        return False
    element = causal.by_name[statement.reads[0]].element if statement.reads[0] in causal.by_name else None
    return element is not None and call.attributes["dim"] == len(element.result.shape) - 1


def _lies_in_rows(layout: Layout) -> bool:
    return layout == Layout.contiguous(layout.like())
