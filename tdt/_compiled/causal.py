"""Causal attention that a program computes by hand: its products leave out what the mask hides.

    scores = q @ k.mT / 8; weights = softmax(scores.masked_fill(mask, -inf), -1); weights @ v

Of the six products of its forward and backward pass, two give scores, or gradients of weights, that are not read behind the
mask, and four have operands that are 0 there. Whether the mask hides what lies behind the diagonal is looked up in each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tdt._compiled.causal_chains import Chains
from tdt._compiled.program import Call, Program, Statement
from tdt._kernels import causal_cpu
from tdt._kernels.causal_cpu import Form


def limit_products(programs: Sequence[Program], returned: Collection[str], unwritten: Callable[[str], bool]) -> None:
    """Replace the products in a forward program and in its backward programs, which share names.

    Args:
        returned: the names of their results.
        unwritten: whether nothing writes to the memory of a value.
    """
    statements = [each for program in programs for each in program.statements]
    if not any(_is(each, "masked_fill") for each in statements):
        return
    found = _Causal(statements, returned, unwritten)
    for program in programs:
        remaining = [each for each in program.statements if not found.is_moved(each)]
        moved = [each for s in remaining for each in (*found.before.get(s.outs[:1], ()), s)]
        known = {name for each in remaining for name in each.reads}  # a backward program may have no mask
        program.statements = [found.replaced(program, each, known) for each in moved]
    readers: dict[str, list[Statement]] = {}
    by_name = {each.outs[0]: each for each in statements if each.outs}
    for each in [each for program in programs for each in program.statements]:
        for name in {*each.reads}:
            readers.setdefault(name, []).append(each)
    for program in programs:
        program.statements = Chains(program, found.functions, by_name, readers, returned).statements


def _is(statement: Statement, name: str, place: int | None = None) -> bool:
    call = statement.call
    return call is not None and call.op.name == name and call.place == place


def _scales(statement: Statement) -> bool:
    """Whether a statement multiplies or divides an array, or its gradient, by a number."""
    call = statement.call
    if call is None or len(statement.reads) != 1:
        return False
    return call.op.name == "mul" or (call.op.name == "div" and call.place != 1 and call.numbers[:1] in ((), (None,)))


def _or_whole(part: Any, whole: Callable[[], Any]) -> Any:
    return whole() if part is None else part


class _Causal:
    """What is known of the values of programs.

    Attributes:
        zeros: the mask of each value that is 0 where that is True.
        masked: the mask of each value that is -inf where that is True.
        functions: the form of a product that leaves something out, by its name, and the mask.
        before: scores and their scaling, which come before the statement that masks them, when the mask is known.
    """

    def __init__(self, statements: Sequence[Statement], returned: Collection[str], unwritten: Callable[[str], bool]):
        self.zeros: dict[str, str] = {}
        self.masked: dict[str, str] = {}
        self.functions: dict[str, tuple[Form, str]] = {}
        self.before: dict[tuple[str, ...], list[Statement]] = {}
        self._order = {each.outs[0]: k for k, each in enumerate(statements) if each.outs}
        self._writes = [k for k, each in enumerate(statements) if each.writes]
        self._by_name = {each.outs[0]: each for each in statements if len(each.outs) == 1}
        self._readers: dict[str, list[Statement]] = {}
        self._returned = returned
        for each in statements:
            for name in {*each.reads}:
                self._readers.setdefault(name, []).append(each)
        for each in statements:
            if each.call is not None and len(each.outs) == 1 and all(map(unwritten, (*each.outs, *each.reads[1:]))):
                self._see(each, each.call)

    def is_moved(self, statement: Statement) -> bool:
        """Whether the statement comes before another one instead."""
        return any(each is statement for some in self.before.values() for each in some)

    def replaced(self, program: Program, statement: Statement, known: Collection[str]) -> Statement:
        """The statement, or the one in its place, if the mask is among the known values."""
        function, mask = self.functions.get(statement.outs[0], (None, "")) if statement.outs else (None, "")
        if function is None or mask not in known:
            return statement
        reads = *statement.reads, mask
        part = f"{program.constant(function)}({', '.join(reads)})"
        text = f"{program.constant(_or_whole)}({part}, lambda: {statement.text})"
        return statement._replace(text=text, reads=reads)

    def _see(self, statement: Statement, call: Call) -> None:
        (out,), reads = statement.outs, statement.reads
        if _is(statement, "masked_fill") and len(reads) == 2 and call.numbers[2] == -math.inf:
            self.masked[out] = reads[1]
            self._limit_scores(statement, reads[1])
        elif _is(statement, "softmax") and reads[0] in self.masked:
            self.zeros[out] = self.masked[reads[0]]
        elif _is(statement, "masked_fill", 0):
            self.zeros[out] = reads[1]
        elif _scales(statement) and reads[0] in self.zeros:
            self.zeros[out] = self.zeros[reads[0]]
        elif call.op.name == "matmul" and len(reads) == 2:
            self._see_product(out, reads, call.place, call.turned)

    def _see_product(self, out: str, reads: tuple[str, ...], place: int | None, turned: bool) -> None:
        """A product of two values, or the gradient of one in its left (0) or right (1) operand, from `g` and the other one."""
        first, second = reads
        if place == 1:
            if second in self.zeros:
                function = causal_cpu.OF_WEIGHTS_ACROSS if turned else causal_cpu.OF_TURNED_WEIGHTS
                self.functions[out] = function, self.zeros[second]
            elif first in self.zeros:
                function = causal_cpu.BY_WEIGHTS_ACROSS if turned else causal_cpu.BY_WEIGHTS
                self.functions[out] = function, self.zeros[first]
        elif first in self.zeros:
            self.functions[out] = (causal_cpu.OF_WEIGHTS if place is None else causal_cpu.BY_TURNED), self.zeros[first]
        elif place == 0:
            self._limit_gradient(out)

    def _limit_scores(self, statement: Statement, mask: str) -> None:
        """Limit the product whose values are masked, perhaps after a scaling."""
        moved: list[Statement] = []
        name, out = statement.reads[0], statement.outs[0]
        while (before := self._by_name.get(name)) is not None and before.call is not None and self._is_read_once(name):
            moved.insert(0, before)
            if _is(before, "matmul") and len(before.reads) == 2:
                if not any(self._order[name] < k < self._order[out] for k in self._writes):
                    self.functions[name] = causal_cpu.SCORES, mask
                    self.before[(out,)] = moved
                return
            if not _scales(before):
                return
            name = before.reads[0]

    def _limit_gradient(self, name: str) -> None:
        """Limit the gradient of weights, if only that of the masked scores is computed of it."""
        if not self._is_read_once(name):
            return
        (reader,) = self._readers[name]
        weights = next((each for each in reader.reads if each in self.zeros), None)
        if weights is None or not _is(reader, "softmax", 0) or not self._is_read_once(reader.outs[0]):
            return
        (last,) = self._readers[reader.outs[0]]
        if _is(last, "masked_fill", 0) and last.reads[1] == self.zeros[weights]:
            self.functions[name] = causal_cpu.GRADIENT_OF_WEIGHTS, self.zeros[weights]

    def _is_read_once(self, name: str) -> bool:
        return name not in self._returned and len(self._readers.get(name, ())) == 1
