"""Values of a forward program that the backward program computes again instead of keeping them, to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tdt._compiled.fusion import MOST_STATEMENTS, stored_names
from tdt._compiled.program import Program, Statement, copy_in_memory, with_names

CHEAP = frozenset(("convert", "layer_norm"))  # ops that take little of the time of the products that read their results


class Again:
    """What a backward program computes again: elementwise results, where that keeps fewer bytes.

    Args:
        program: of the forward pass, or of both.
        forward: its statements of the forward pass.
        saved: the names of their values that the backward program reads.
        returned: the names of the values that are results.
        unwritten: whether a value is still what it was when it was computed where the backward program may compute it again.
        may_keep: whether a value that is not in `saved` may be kept instead.
        may_copy: whether a root that may change until then may be copied instead.
        more: also compute values again that the forward program needs as arrays, among them results of `cheap` statements.

    Attributes:
        taken: the names of the values that the backward program reads or computes others of.
        copies: the names of copies of roots among them, by the roots' names.
    """

    def __init__(self, program: Program, forward: Sequence[Statement], saved: Iterable[str], returned: Collection[str],
                 unwritten: Callable[[str], bool], may_keep: Callable[[str], bool], may_copy: Callable[[str], bool],
                 more: bool):  # fmt: skip
        self.program, stored = program, stored_names(forward, returned)
        self._producers = {
            name: each
            for each in forward
            if (each.element is not None and each.element.move is None) or (more and each.cheap)
            for name in each.outs
        }
        # In the order in which they are computed: what a value is computed of comes first.
        order = [name for name in self._producers if name in {*saved} and (more or name not in stored)]
        self.copies: dict[str, str] = {}
        self.taken = {name: None for name in saved if name not in {*order}}
        self._repeated: set[str] = set()
        for name in order:
            chain, leaves = self._closure(name, {*self.taken, *(stored - self._repeated)})
            copies = [each for each in leaves if each not in self.taken and may_copy(each)]
            new = [each for each in leaves if each not in (*self.taken, *copies)]
            more_bytes = sum(program.held.get(each, 0) for each in new)  # roots are held by others
            freed = program.sizes.get(name, 0)
            is_stored = (
                name in stored or self._producers[name].cheap
            )  # in the forward pass, without a reason others are not
            fits = len(chain) <= MOST_STATEMENTS and (more_bytes < freed if is_stored else more_bytes <= freed)
            if fits and all(map(unwritten, (*chain, *leaves))) and all(map(may_keep, new)):
                self.taken.update(dict.fromkeys(new))
                self._repeated |= chain
                for each in copies:
                    self._copy(each)
            else:
                self.taken[name] = None
        self._repeated -= self.taken.keys()

    def _copy(self, root: str) -> None:
        """Append the copying of a root to the program."""
        if root not in self.copies:
            name = self.copies[root] = self.program.name()
            self.program.call(copy_in_memory, (root,), (name,))
            self.taken[name] = None

    def _closure(self, name: str, arrays: set[str]) -> tuple[set[str], dict[str, None]]:
        """The values that one is computed of, itself among them, and the arrays that these are computed of."""
        chain: set[str] = set()
        leaves: dict[str, None] = {}
        stack = [name]
        while stack:
            each = stack.pop()
            if each != name and (each in arrays or each not in self._producers):
                leaves[each] = None
            elif each not in chain:
                chain.add(each)
                stack += self._producers[each].reads
        return chain, leaves

    def before(self, statements: Iterable[Statement]) -> list[Statement]:
        """Statements of a program, with those of a backward pass among them; what these read is computed again before them."""
        found: list[Statement] = []
        names = {**self.copies}
        for each in statements:
            if each.trusts:
                for name in each.reads:
                    self._compute(name, names, found)
            found.append(with_names(each, names) if each.trusts else each)
        return found

    def _compute(self, name: str, names: dict[str, str], found: list[Statement]) -> None:
        """Append what computes a value again, which has another name then, unless that was done."""
        if name in self._repeated and name not in names:
            producer = self._producers[name]
            for each in producer.reads:
                self._compute(each, names, found)
            names.update({each: self.program.name_like(each) for each in producer.outs})
            found.append(with_names(producer, names)._replace(trusts=True, again=True))
