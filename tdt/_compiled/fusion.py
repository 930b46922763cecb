"""Fusion: chains of elementwise statements of a program become one, computed in one pass over memory.

Elementwise statements wait until another one reads their result. Then it is computed, together with those waiting results
that other statements will read and that share operands with it; all that stands between is never stored. A reduction of a
waiting result is computed in the same pass, and then the result is stored only if others read it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from tdt._compiled.constants import computed_before
from tdt._compiled.elements import Element
from tdt._compiled.program import Program, Statement, with_names
from tdt._compiled.regions import Regions, agree, have_same_rows
from tdt._kernels.expression import Expression, as_expression, operations
from tdt._kernels.fused import Layout, fused
from tdt._kernels.fused_fold import fused_fold
from tdt._kernels.fused_parts import fused_parts

MOST_OPERANDS, MOST_RESULTS, MOST_STATEMENTS, MOST_OPERATIONS = 24, 8, 48, 600  # of a fused statement
HELD = 1 << 21  # bytes that are freed at least where a result is computed before another statement reads it
COSTLY = 8  # operations of an expression that is not computed twice


def stored_names(statements: Iterable[Statement], returned: Iterable[str]) -> set[str]:
    """The names of values that must be arrays: those returned, and those that other statements read than elementwise ones
    and reductions of these."""
    return {*returned, *(name for each in statements if not (each.element or each.folding) for name in each.reads)}


def written_to(statements: Sequence[Statement]) -> set[str]:
    """The names of values that may be written to, and of what these are computed of."""
    written: set[str] = set()
    for each in reversed(statements):
        if each.writes or written.intersection(each.outs):
            written.update(each.reads)
    return written


def computed_once(statements: Sequence[Statement], returned: Collection[str]) -> list[Statement]:
    """The statements without those that compute a value again, unless something is written to it or it is returned."""
    written = written_to(statements)
    known: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    found: list[Statement] = []
    for each in statements:
        each = with_names(each, names)
        if each.writes:  # from here on, the same call may give other values
            known.clear()
        elif each.repeatable and not each.again and each.outs and not written.intersection(each.outs):
            before = known.setdefault(each.text, each.outs)
            if before is not each.outs and not {*returned}.intersection(each.outs):
                names.update(zip([o.rstrip(",") for o in each.outs], [o.rstrip(",") for o in before], strict=True))
                continue
        found.append(each)
    return found


class Fusion:
    """The statements of a program, with chains of elementwise ones fused.

    Args:
        returned: the names of the values that are read after the program.
    """

    def __init__(self, program: Program, returned: Iterable[str]):
        returned = {*returned}
        statements = computed_once(_alive(program.statements, returned), returned)
        statements = computed_before(program, statements, written_to(statements), returned)
        self.program, self.stored = program, stored_names(statements, returned)
        self.statements: list[Statement] = []
        self._waiting: dict[str, Statement] = {}
        self._done: set[str] = set()  # elementwise results that are arrays, or that nothing reads any more
        self._readers: dict[str, list[str]] = {}  # the elementwise results that are computed of a value
        self._folds: list[Statement] = []  # the reductions before the next statement that writes to an array
        self._written = written_to(statements)
        for each in statements:
            for name in each.reads if each.element or each.folding else ():
                self._readers.setdefault(name, []).append(each.outs[0])
        for at, each in enumerate(statements):
            if each.writes or not at:
                following = itertools.takewhile(lambda s: not s.writes, statements[at + 1 if each.writes else at :])
                self._folds = [s for s in following if s.folding]
            if each.element is not None and self._may_wait(each):
                self._wait(each)
                continue
            if each.outs and each.outs[0] in self._done:
                continue
            for name in [*self._waiting] if each.writes else each.reads:
                if name in self._waiting:
                    self._compute(name, each if each.folding else None)
            if not (each.outs and each.outs[0] in self._done):
                self._compute_large()
                self._done.update(each.outs)
                self.statements.append(each)
        for name in [*self._waiting]:
            if name in self._waiting and name in self.stored:
                self._compute(name)

    def _may_wait(self, statement: Statement) -> bool:
        """Whether a result can be computed later: a view only where a copy of what it views may take its place."""
        element = statement.element
        assert element is not None
        if not element.is_view:
            return True
        return not self._waiting.keys().isdisjoint(element.operands) and self._written.isdisjoint(
            (*statement.outs, *statement.reads)
        )

    def _wait(self, statement: Statement) -> None:
        (out,), element = statement.outs, statement.element
        assert element is not None
        for name in element.operands if element.move is None else ():
            if name in self._waiting and not _beside(self._layout(name), element.result):
                self._compute(name)
        self._waiting[out] = statement
        if not self._fits(self._chain(out)):
            self._compute_others(out)
            for name in element.operands:  # views are left
                if name in self._waiting:
                    self._compute(name)

    def _compute_others(self, last: str) -> None:
        """Compute all waiting results that `last`, or a statement after it, reads.

        So the chains of a loop over time are cut at the same place of each turn, or of every few, and one function computes many.
        """
        others = self._waiting.keys() - {last}
        for name in [*self._waiting]:
            if name in self._waiting and name != last and not self._element(name).is_view:
                if name in self.stored or self._is_read(name, others):
                    self._compute(name)

    def _compute_large(self) -> None:
        """Compute waiting results whose operands take much more memory, as sums of many gradients do."""
        sizes = self.program.sizes
        for name in [*self._waiting]:
            if name not in self._waiting or self._element(name).is_view:
                continue
            if not any(reader in self._waiting for reader in self._readers.get(name, ())):
                group = self._chain(name)
                freed = sum(sizes.get(each, 0) for each in self._operands(group) if self._is_last(each, group))
                if freed - sizes.get(name, 0) >= HELD:
                    self._compute(name)

    def _is_last(self, name: str, group: Collection[str]) -> bool:
        """Whether nothing but a group reads an array."""
        return name not in self.stored and not self._is_read(name, group)

    def _fits(self, group: Collection[str]) -> bool:
        """Whether one statement may compute so many results."""
        if len(group) > MOST_STATEMENTS or len(self._operands(group)) > MOST_OPERANDS:
            return False
        if sum(self._element(name).operations for name in group) > MOST_OPERATIONS:
            return False
        return agree({name: self._element(name) for name in group})

    def _element(self, name: str) -> Element:
        element = self._waiting[name].element
        assert element is not None
        return element

    def _layout(self, name: str) -> Layout:
        return self._element(name).result

    def _chain(self, name: str) -> dict[str, None]:
        """The waiting results that a result is computed of, and itself, in order of computation."""
        found: dict[str, None] = {}
        stack = [(name, False)]
        while stack:
            each, is_ready = stack.pop()
            if is_ready:
                found[each] = None
            elif each in self._waiting and each not in found:
                stack.append((each, True))
                stack += [(operand, False) for operand in self._waiting[each].reads]
        return found

    def _operands(self, names: Iterable[str]) -> dict[str, None]:
        """The arrays that waiting results are computed of, and those of the names that are arrays."""
        reads = (read for n in names for read in (self._waiting[n].reads if n in self._waiting else (n,)))
        return dict.fromkeys(name for name in reads if name not in self._waiting)

    def _compute(self, name: str, fold: Statement | None = None) -> None:
        """Append the statement that computes a waiting result, with others, or its `fold`."""
        before = self._before(name)
        if before is not None:
            self._compute(before)
            if name in self._waiting:
                self._compute(name, fold)
            return
        group, outs = self._chain(name), [] if fold else [name]
        layout, operands = self._layout(name), self._operands(group)
        for other in self._waiting:
            if other in self.stored and other not in group and self._joins(other, layout):
                chain = self._chain(other)
                union = {**group, **chain}
                shared = (group.keys() | operands.keys()) & (chain.keys() | self._operands(chain).keys())
                if (
                    shared
                    and len(outs) < MOST_RESULTS
                    and self._moves(group) == self._moves(chain)
                    and self._fits(union)
                ):
                    group, operands = union, self._operands(union)
                    outs.append(other)
        # In the program's order, which each turn of a loop has alike.
        group = dict.fromkeys([each for each in self._waiting if each in group])
        operands = self._operands(group)
        if self._moves(group):
            self._append_regions(name, group, operands, outs)
        else:
            self._append_chain(name, group, operands, outs, fold)
        for each in reversed(group):
            if each in outs or not (each in self.stored or self._is_read(each, ())):
                self._done.add(each)
                del self._waiting[each]

    def _moves(self, group: Iterable[str]) -> bool:
        """Whether there are moves in a group."""
        return any(self._element(name).move is not None for name in group)

    def _joins(self, name: str, layout: Layout) -> bool:
        """Whether a waiting result may be computed with others that lie so."""
        fits = _beside(self._layout(name), layout) and self._fits(self._chain(name))
        return fits and not self._element(name).is_view and self._before(name) is None

    def _before(self, name: str) -> str | None:
        """A waiting result that has to be an array before another one is computed of it by region."""
        group, layout = self._chain(name), self._layout(name)
        if self._element(name).is_view:
            return next((each for each in group if each != name), None) and self._waiting[name].reads[0]
        if len(group) == 1 or not self._moves(group):
            return None
        for each in group:
            is_other = self._element(each).is_view or self._layout(each).shape != layout.shape
            if is_other and each in self.stored:
                return each
        regions = self._regions(group, self._operands(group), [name])
        for each in group:
            if regions.parts and regions.cost(each) > COSTLY and each != name:
                is_other = self._layout(each).shape != layout.shape
                if each in regions.repeated or (is_other and self._is_read(each, group)):
                    return each
        return None

    def _regions(self, group: Iterable[str], operands: Iterable[str], outs: Sequence[str]) -> Regions:
        elements = {name: self._element(name) for name in group}
        return Regions(elements, [*operands], self._layouts(group), outs)

    def _append_regions(self, name: str, group: dict[str, None], operands: dict[str, None], outs: list[str]) -> None:
        """Append the statement that computes a group with moves, and add to `outs` what else it stores."""
        outs += [name] if name not in outs else []
        layout, layouts = self._layout(name), self._layouts(group)
        regions = self._regions(group, operands, outs)
        further = [each for each in group if each not in outs and self._joins(each, layout)]
        stored = [n for n in further if n in self.stored]
        stored += [n for n in further if n not in stored and regions.cost(n) > COSTLY and self._is_read(n, group)]
        outs += stored[: MOST_RESULTS - len(outs)]
        function = None
        if len(group) > 1 and (parts := self._regions(group, operands, outs).parts):
            lies = [layouts[each] for each in operands]
            function = fused_parts(parts, regions.dim, lies, [self._layout(n) for n in outs])
        self._put(function, group, operands, outs)

    def _append_chain(
        self, name: str, group: dict[str, None], operands: dict[str, None], outs: list[str], fold: Statement | None
    ) -> None:
        """Append the statement that computes a group, with a reduction of it, and add to `outs` what it stores."""
        values = self._expressions(group, operands)
        fold = fold or next((f for f in self._folds if f.outs[0] not in self._done and f.reads[0] in group), None)
        if fold and self._fold(fold, group, operands, outs, values):
            return
        outs += [name] if name not in outs else []
        outs += self._further(group, outs, values)
        outs[:] = [each for each in group if each in outs]
        function = None
        if len(group) > 1:
            layouts = self._layouts(group)
            function = fused(
                [values[name] for name in outs], [layouts[name] for name in operands], [self._layout(n) for n in outs]
            )
        self._put(function, group, operands, outs)

    def _further(self, group: Collection[str], outs: Sequence[str], values: dict[str, Expression]) -> list[str]:
        """The results of a group that are stored when it is computed, besides `outs`."""
        found = [
            each
            for each in group
            if each not in outs
            and (each in self.stored or (operations(values[each]) > COSTLY and self._is_read(each, group)))
        ]
        return found[: MOST_RESULTS - len(outs)]

    def _fold(
        self, fold: Statement, group: Collection[str], operands: Iterable[str], outs: list[str], values: dict[str, Expression]
    ) -> bool:  # fmt: skip
        """Append the statement that computes `outs`, to which further results of the group are added, and their reduction.

        Returns: whether there is one; False leaves all as it is."""
        (operand,), (result,) = fold.reads, fold.outs
        assert fold.folding is not None
        if not all(_alike(self._layout(each), self._layout(operand)) for each in group):
            return False
        self._done.add(result)
        stored = [*outs, *self._further(group, outs, values)]
        order = [operand, *[name for name in stored if name != operand]]
        layouts = self._layouts(group)
        function = fused_fold(
            [values[name] for name in order], [layouts[name] for name in operands], [self._layout(n) for n in order],
            fold.folding, operand in stored,
        )  # fmt: skip
        if function is None:
            self._done.remove(result)
            return False
        text = f"{self.program.constant(function)}({', '.join(operands)})"
        results = result, *(order if operand in stored else order[1:])
        self.statements.append(Statement(text, results, tuple(operands)))
        outs[:] = stored
        return True

    def _is_read(self, name: str, group: Collection[str]) -> bool:
        """Whether elementwise statements outside a group are still to read a result."""
        return any(reader not in self._done and reader not in group for reader in self._readers.get(name, ()))

    def _expressions(self, group: Iterable[str], operands: Iterable[str]) -> dict[str, Expression]:
        layouts = self._layouts(group)
        values = {
            name: Expression("input", k, logical=layouts[name].dtype == np.bool_) for k, name in enumerate(operands)
        }
        for name in group:
            element = self._element(name)
            assert element.expression is not None
            values[name] = as_expression(element.expression(*[values[each] for each in element.operands]))
        return values

    def _layouts(self, group: Iterable[str]) -> dict[str, Layout]:
        """How the operands of waiting results lie in memory."""
        found: dict[str, Layout] = {}
        for name in group:
            element = self._element(name)
            found.update(zip(element.operands, element.layouts, strict=True))
        return found

    def _put(
        self, function: Callable[..., Any] | None, group: Iterable[str], operands: Iterable[str], outs: list[str]
    ) -> None:
        """Append the statement of a group's function, or those of the group where there is none: all are stored then."""
        if function is None:
            self.statements += [self._waiting[name] for name in group]
            outs += [name for name in group if name not in outs]
            return
        text = f"{self.program.constant(function)}({', '.join(operands)})"
        self.statements.append(Statement(text, tuple(outs), tuple(operands)))


def _alive(statements: Sequence[Statement], returned: Iterable[str]) -> list[Statement]:
    """The statements without elementwise ones whose result nothing reads."""
    read, found = {*returned}, []
    for each in reversed(statements):
        if each.element is None or each.outs[0] in read:
            read.update(each.reads)
            found.append(each)
    return found[::-1]


def _beside(a: Layout, b: Layout) -> bool:
    """Whether arrays have one shape, and may be computed in one loop."""
    return _alike(a, b) or (a.shape == b.shape and have_same_rows(a, b))


def _alike(a: Layout, b: Layout) -> bool:
    """Whether arrays have one shape, and strides of as many elements."""
    sizes = a.dtype.itemsize, b.dtype.itemsize
    return a.shape == b.shape and all(s * sizes[1] == t * sizes[0] for s, t in zip(a.strides, b.strides, strict=True))
