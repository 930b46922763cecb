"""Chains of statements around a causal mask that become one, computed a matrix at a time by `matrix_chains`.

    scores = q @ k.mT / 8; weights = softmax(scores.masked_fill(mask, -inf), -1); weights @ v

Forward that is all of this line, backward the gradients of weights and scores, and the products that read these. Where something
comes between weights and values, as dropout does, the chain ends with the weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tdt._compiled.program import Program, Statement, names_in
from tdt._kernels import causal_cpu, softmax_cpu
from tdt._kernels.causal_cpu import Form
from tdt._kernels.expression import Expression, as_expression
from tdt._kernels.fused import Layout, code_of
from tdt._kernels.matrix_chains import Chain, Formula, Product, Rows

FLOAT32, BOOL = np.dtype(np.float32), np.dtype(np.bool_)


class Chains:
    """The statements of a program with those chains joined.

    Args:
        functions: the form of each product that leaves something out, and the mask, by the product's name.
        by_name, readers: the statement that computes a value, and those that read it, in all programs.
        returned: the names of results.

    Attributes:
        statements: the program's.
    """

    def __init__(self, program: Program, functions: dict[str, tuple[Form, str]], by_name: dict[str, Statement],
                 readers: dict[str, list[Statement]], returned: Collection[str]):  # fmt: skip
        self.program, self.functions, self.by_name, self.readers = program, functions, by_name, readers
        self.returned = returned
        self.statements = program.statements
        for each in program.statements:
            form = self._form(each)
            if form is causal_cpu.SCORES:
                self._join(self._forward(each))
            elif form is causal_cpu.GRADIENT_OF_WEIGHTS:
                self._join(self._backward(each))

    def _form(self, statement: Statement) -> Form | None:
        """The form of a product that leaves something out in this program."""
        form, mask = self.functions.get(statement.outs[0], (None, "")) if statement.outs else (None, "")
        return form if mask in statement.reads else None

    def _next(self, statement: Statement) -> Statement | None:
        """The statement that alone reads the result of another one, if it is of this program."""
        name, found = statement.outs[0], self._readers_here(statement.outs[0])
        return found[0] if len(found) == len(self.readers.get(name, ())) == 1 and name not in self.returned else None

    def _readers_here(self, name: str) -> list[Statement]:
        return [each for each in self.statements if name in each.reads]

    def _forward(self, scores: Statement) -> list[tuple[list[Statement], Any]] | None:
        """The stages from a product to weights, or their product with values, and the statements that each is of."""
        name, mask = scores.outs[0], self.functions[scores.outs[0]][1]
        stages: list[tuple[list[Statement], Any]] = [([scores], self._product(scores))]
        formulas: list[Statement] = []
        each = self._next(scores)
        while each is not None and each.element is not None:
            formulas.append(each)
            each = self._next(each)
        loop = _loop(formulas, name, mask)
        if loop is None or each is None or not self._is_of_rows(each):
            return None
        weights = each.outs[0]
        stages.append((formulas, Formula(loop, name)))
        stages.append(([each], Rows(softmax_cpu._softmax(), (name,), weights)))
        for other in self._readers_here(weights):
            if self._form(other) is causal_cpu.OF_WEIGHTS and other.reads[0] == weights:
                return [*stages, ([other], self._product(other))]
        return stages

    def _backward(self, gradient: Statement) -> list[tuple[list[Statement], Any]] | None:
        """The stages from the gradient of weights to that of scores, and the products that read it or the weights."""
        name, mask = gradient.outs[0], self.functions[gradient.outs[0]][1]
        each, formulas = self._next(gradient), []
        if each is None or len(each.reads) != 2:
            return None
        rows, weights = each, each.reads[1]
        if not self._is_of_rows(self.by_name.get(weights)):
            return None
        each = self._next(each)
        while each is not None and each.element is not None:
            formulas.append(each)
            if len(self._readers_here(each.outs[0])) != 1:
                break
            each = self._next(each)
        loop = _loop(formulas, rows.outs[0], mask)
        if loop is None:
            return None
        slopes = formulas[-1].outs[0]
        stages: list[tuple[list[Statement], Any]] = [([gradient], self._product(gradient))]
        stages += [
            ([other], self._product(other))
            for other in self._readers_here(weights)
            if self._form(other) is causal_cpu.OF_TURNED_WEIGHTS and other.reads[1] == weights
        ]
        stages.append(([rows], Rows(softmax_cpu._softmax_grad(), (name, weights), name)))
        stages.append((formulas, Formula(loop, name)))
        products = [each for each in self._readers_here(slopes) if self._form(each) is not None]
        alias = {slopes: name}
        stages += [([other], self._product(other, alias)) for other in products]
        return stages if len(products) == len(self.readers.get(slopes, ())) and slopes not in self.returned else None

    def _is_of_rows(self, statement: Statement | None) -> bool:
        """Whether a statement is the softmax, along the last dimension, of what elementwise ones compute."""
        if statement is None or (call := statement.call) is None or call.op.name != "softmax" or call.place is not None:
            return False
        element = self.by_name[statement.reads[0]].element if statement.reads[0] in self.by_name else None
        return element is not None and call.attributes["dim"] == len(element.result.shape) - 1

    def _product(self, statement: Statement, alias: dict[str, str] | None = None) -> Product:
        first, second = (alias.get(name, name) if alias else name for name in statement.reads[:2])
        return Product(self.functions[statement.outs[0]][0], first, second, statement.outs[0])

    def _join(self, stages: list[tuple[list[Statement], Any]] | None) -> None:
        """Put one statement in the place of those of the stages, where all that is between may come before or after it."""
        if stages is None:
            return
        members = [each for some, _ in stages for each in some]
        places = [k for k, each in enumerate(self.statements) if any(each is other for other in members)]
        first, last = places[0], places[-1]
        computed, before, after = {each.outs[0] for each in members}, [], []
        later = {*computed}
        for k in range(first, last + 1):
            each = self.statements[k]
            if k in places:
                continue
            if each.writes or not each.repeatable:
                return
            if later.intersection(each.reads):
                after.append(each)
                later.update(names_in(" ".join(each.outs)))
            else:
                before.append(each)
        if (later - computed).intersection(name for each in members for name in each.reads):
            return
        mask = self.functions[members[0].outs[0]][1]
        operands = dict.fromkeys(name for each in members for name in each.reads)
        reads = *[name for name in operands if name not in computed and name != mask], mask
        inside = {id(each) for each in members}
        outs = tuple([
            name for each in members for name in each.outs
            if name in self.returned or any(id(other) not in inside for other in self.readers.get(name, ()))
        ])  # fmt: skip
        alone = self.program.with_statements([self.statements[k] for k in places])
        otherwise = alone.compiled(reads, ", ".join(outs), "causal attention")
        chain = Chain([stage for _, stage in stages], reads, outs, otherwise)
        text = f"{self.program.constant(chain)}({', '.join(reads)})"
        joined = Statement(text, outs, reads, trusts=all(each.trusts for each in members))
        self.statements = [*self.statements[:first], *before, joined, *after, *self.statements[last + 1 :]]


def _lies_in_rows(layout: Layout) -> bool:
    return layout == Layout.contiguous(layout.like())


def _loop(formulas: Sequence[Statement], name: str, mask: str) -> int | None:
    """The code of formulas one after the other, the first of a value and all of that and the mask; None where there is none."""
    values = {name: Expression("input", 0), mask: Expression("input", 1, logical=True)}
    for each in formulas:
        element = each.element
        if element is None or element.expression is None or not all(operand in values for operand in element.operands):
            return None
        if not _lies_in_rows(element.result) or element.result.dtype != FLOAT32:
            return None
        operands = zip(element.operands, element.layouts, strict=True)
        # A mask may have more dimensions, which the result has too.
        if any(layout != element.result for operand, layout in operands if operand != mask):
            return None
        values[each.outs[0]] = as_expression(element.expression(*[values[operand] for operand in element.operands]))
    if not formulas:
        return None
    like, hidden = (Layout((1,), (kind.itemsize,), kind) for kind in (FLOAT32, BOOL))
    code = code_of([values[formulas[-1].outs[0]]], [like, hidden], [like])
    return None if code is None else code.loop
