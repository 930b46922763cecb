"""Causal attention that a program computes by hand: its products leave out what the mask hides.

    scores = q @ k.mT / 8; weights = softmax(scores.masked_fill(mask, -inf), -1); weights @ v

Of the six products of its forward and backward pass, two give scores, or gradients of weights, that are not read behind the
mask, and four have operands that are 0 there. Whether the mask hides what lies behind the diagonal, and whether weights are 0
there, is looked up in each call. Other numbers may be filled in than -inf, by `where` too; the mask may be one that is added;
and dropout may come between the weights and the values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._compiled.causal_chains import Chains, is_flat
from tdt._compiled.program import Call, Program, Statement
from tdt._kernels import causal_cpu
from tdt._kernels.causal_cpu import Form
from tdt._kernels.matrix_chains import Mask

MASKING = "masked_fill", "where", "add"
HIDES = -1e3  # numbers above it, filled in, are no scores of hidden keys


class Limited(NamedTuple):
    """A product that leaves something out.

    Attributes:
        form: how.
        mask: what hides the scores that it computes; None: weights, or what is 0 with them, show what is hidden.
        shows: the name of what shows that.
        weights: the name of the weights, or masked scores.
        alone: whether it may leave that out where it is no part of a chain.
    """

    form: Form
    mask: Mask | None
    shows: str
    weights: str
    alone: bool


def limit_products(programs: Sequence[Program], returned: Collection[str], unwritten: Callable[[str], bool]) -> None:
    """Replace the products in a forward program and in its backward programs, which share names.

    Args:
        returned: the names of their results.
        unwritten: whether nothing writes to the memory of a value.
    """
    found = Causal(programs, returned, unwritten)
    if not found.limited:
        return
    for program in programs:
        remaining = [each for each in program.statements if not found.is_moved(each)]
        program.statements = [each for s in remaining for each in (*found.before.get(s.outs[:1], ()), s)]
        program.statements = Chains(program, found, returned).statements
        program.statements = [found.replaced(program, each) for each in program.statements]


def is_of(statement: Statement | None, name: str, place: int | None = None) -> bool:
    """Whether a statement is a call of an op, or the gradient of its operand at a place."""
    call = statement.call if statement is not None else None
    return call is not None and call.op.name == name and call.place == place


def _or_whole(part: Any, whole: Callable[[], Any]) -> Any:
    return whole() if part is None else part


class Causal:
    """What is known of the values of programs.

    Attributes:
        zeros: the weights with which a value is 0 behind the diagonal, among them these.
        limited: the products that leave something out, by their names.
        before: scores and their scaling, which come before the statement that masks them, when the mask is known.
        by_name, readers: the statement that computes a value, and those that read it.
    """

    def __init__(self, programs: Sequence[Program], returned: Collection[str], unwritten: Callable[[str], bool]):
        self.zeros: dict[str, str] = {}
        self.limited: dict[str, Limited] = {}
        self.before: dict[tuple[str, ...], list[Statement]] = {}
        self._masks: dict[str, Mask] = {}  # of masked scores, and of weights
        self._program, self._returned, self._unwritten = programs[0], returned, unwritten
        statements = [each for program in programs for each in program.statements]
        self._order = {each.outs[0]: k for k, each in enumerate(statements) if each.outs}
        self._writes = [k for k, each in enumerate(statements) if each.writes]
        self.by_name = {each.outs[0]: each for each in statements if len(each.outs) == 1}
        self.readers: dict[str, list[Statement]] = {}
        for each in statements:
            for name in {*each.reads}:
                self.readers.setdefault(name, []).append(each)
        if any(is_of(each, "softmax") for each in statements):
            for each in statements:
                if each.call is not None and len(each.outs) == 1 and all(map(unwritten, (*each.outs, *each.reads[1:]))):
                    self._see(each, each.call)

    def is_moved(self, statement: Statement) -> bool:
        """Whether the statement comes before another one instead."""
        return any(each is statement for some in self.before.values() for each in some)

    def replaced(self, program: Program, statement: Statement) -> Statement:
        """The statement, or the one in its place."""
        found = self.limited.get(statement.outs[0]) if statement.outs and statement.call is not None else None
        if found is None or not found.alone:
            return statement
        reads = *statement.reads, found.shows
        form: Any = found.form
        function = functools.partial(form, how=found.mask.how if found.mask else "zero")
        part = f"{program.constant(function)}({', '.join(reads)})"
        text = f"{program.constant(_or_whole)}({part}, lambda: {statement.text})"
        return statement._replace(text=text, reads=reads)

    def _see(self, statement: Statement, call: Call) -> None:
        (out,), reads = statement.outs, statement.reads
        if (found := self._mask_of(statement, call)) is not None:
            self._masks[out] = found[0]
            self._limit_scores(statement, *found)
        elif is_of(statement, "softmax") and reads[0] in self._masks:
            self._masks[out], self.zeros[out] = self._masks[reads[0]], out
        elif is_of(statement, "softmax", 0) and reads[1] in self.zeros:
            self.zeros[out] = self.zeros[reads[1]]
        elif (
            reads
            and reads[0] in self.zeros
            and (is_of(statement, "dropout") or self._scales(statement) or _filled_by(statement))
        ):
            self.zeros[out] = self.zeros[reads[0]]
        elif call.op.name == "matmul" and len(reads) == 2:
            self._see_product(out, reads, call.place, call.turned)

    def _scales(self, statement: Statement) -> bool:
        """Whether a statement multiplies or divides an array, or its gradient, by a number."""
        call, others = statement.call, statement.reads[1:]
        if call is None or any(self._number(name) is None for name in others):
            return False
        return call.op.name == "mul" or (
            call.op.name == "div" and call.place != 1 and call.numbers[:1] in ((), (None,))
        )

    def _number(self, name: str) -> float | None:
        """The number that a value is in all calls."""
        each = self.by_name.get(name)
        if (
            each is None
            or each.reads
            or not (each.repeatable and self._unwritten(name))
            or self._program.sizes.get(name, 0) > 8
        ):
            return None
        value = np.asarray(eval(each.text, {**self._program.constants}))
        return float(value) if value.size == 1 and value.dtype.kind in "fiu" else None

    def _see_product(self, out: str, reads: tuple[str, ...], place: int | None, turned: bool) -> None:
        """A product of two values, or the gradient of one in its left (0) or right (1) operand, from `g` and the other one."""
        first, second = reads
        if place == 1:
            if second in self.zeros:
                self._limit(out, causal_cpu.OF_WEIGHTS_ACROSS if turned else causal_cpu.OF_TURNED_WEIGHTS, second)
            elif first in self.zeros:
                self._limit(out, causal_cpu.BY_WEIGHTS_ACROSS if turned else causal_cpu.BY_WEIGHTS, first)
        elif first in self.zeros:
            self._limit(out, causal_cpu.OF_WEIGHTS if place is None else causal_cpu.BY_TURNED, first)
        elif place == 0:
            self._limit_gradient(out)

    def _limit(self, out: str, form: Form, zeros: str) -> None:
        self.limited[out] = Limited(form, None, zeros, self.zeros[zeros], True)

    def _fills(self, value: str | float) -> float:
        """A number, or what a value is in all calls, if it may be filled in for scores of hidden keys; else 0."""
        number = self._number(value) if isinstance(value, str) else value
        return number if number is not None and number <= HIDES else 0.0

    def _mask_of(self, statement: Statement, call: Call) -> tuple[Mask, str] | None:
        """What hides keys in the scores that a statement computes, and of which scores."""
        if call.place is not None or call.op.name not in MASKING:
            return None
        names = iter(statement.reads)
        operands: list[Any] = [next(names) if number is None else number for number in call.numbers]
        if call.op.name == "masked_fill" and (fills := self._fills(operands[2])):
            return Mask(operands[1], "true", fills=fills), operands[0]
        if call.op.name == "where":
            mask, x, y = operands
            if isinstance(x, str) and (fills := self._fills(y)):
                return Mask(mask, "false", fills=fills), x
            if isinstance(y, str) and (fills := self._fills(x)):
                return Mask(mask, "true", fills=fills), y
        if call.op.name == "add" and len(statement.reads) == 2 and call.attributes.get("alpha") == 1:
            for scores, mask in (operands, operands[::-1]):
                path = self._path_to(scores, statement)
                if path and statement.element and is_flat(statement.element, mask):
                    return Mask(mask, "added", math.prod(map(self._scale, path[1:]))), scores
        return None

    def _limit_scores(self, statement: Statement, mask: Mask, scores: str) -> None:
        """Limit the product whose values are masked, perhaps after a scaling."""
        path = self._path_to(scores, statement)
        if path:
            self.before[statement.outs] = path
            form = causal_cpu.SCORES_BEFORE_SUM if mask.how == "added" else causal_cpu.SCORES
            self.limited[path[0].outs[0]] = Limited(form, mask, mask.name, statement.outs[0], mask.how != "added")

    def _path_to(self, name: str, reader: Statement) -> list[Statement]:
        """A product, and its scalings up to a value that only one statement reads; none where there is another statement."""
        path: list[Statement] = []
        while (before := self.by_name.get(name)) is not None and before.call is not None and self._is_read_once(name):
            path.insert(0, before)
            if is_of(before, "matmul") and len(before.reads) == 2:
                between = range(self._order[name] + 1, self._order[reader.outs[0]])
                return [] if any(k in between for k in self._writes) else path
            if before.call.place is not None or not self._scales(before):
                return []
            name = before.reads[0]
        return []

    def _scale(self, statement: Statement) -> float:
        """What a statement multiplies a value by."""
        assert statement.call is not None
        numbers = [n for n in statement.call.numbers if n is not None] or [self._number(statement.reads[1])]
        return numbers[0] if statement.call.op.name == "mul" else 1 / numbers[0]

    def _limit_gradient(self, name: str) -> None:
        """Limit the gradient of weights, if only that of scores is computed of it."""
        first, reader = name, self._only_reader(name)
        while reader is not None and is_of(reader, "dropout", 0):
            name, reader = reader.outs[0], self._only_reader(reader.outs[0])
        weights = reader.reads[-1] if reader is not None and is_of(reader, "softmax", 0) else ""
        if reader is not None and self.zeros.get(weights) == weights and reader.reads[0] == name:
            last = self._only_reader(reader.outs[0])
            alone = last is not None and _filled_by(last) == self._masks[weights].name
            self.limited[first] = Limited(causal_cpu.GRADIENT_OF_WEIGHTS, None, weights, weights, alone)

    def _only_reader(self, name: str) -> Statement | None:
        return self.readers[name][0] if self._is_read_once(name) else None

    def _is_read_once(self, name: str) -> bool:
        return name not in self._returned and len(self.readers.get(name, ())) == 1


def _filled_by(statement: Statement) -> str:
    """The mask of a statement that gives the gradient of scores without those that `masked_fill` or `where` has replaced."""
    if is_of(statement, "masked_fill", 0) or is_of(statement, "where", 1) or is_of(statement, "where", 2):
        return statement.reads[1]
    return ""
